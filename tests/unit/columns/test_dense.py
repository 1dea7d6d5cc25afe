"""Rows found by whole numbers."""

import pyarrow as pa
import pytest

from pkray.columns.dense import SMALL, DenseIndex, grouped_densely
from pkray.columns.keys import grouped


def index_of(values: list[object], kind: pa.DataType) -> DenseIndex | None:
    return DenseIndex.of(pa.chunked_array([pa.array(values, kind)]))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.date32()])
def test_rows_are_found_by_their_key(kind: pa.DataType) -> None:
    index = index_of([-3, None, 5, 4], kind)
    assert index is not None
    assert index.unique
    asked = pa.chunked_array([pa.array([4, 5, None, 6, -3, -4], kind)])
    assert index.rows(asked).tolist() == [3, 2, -1, -1, 0, -1]


def test_keys_at_the_ends_of_the_type_are_asked_for() -> None:
    index = index_of([2**63 - 1, 2**63 - 3], pa.int64())
    assert index is not None
    asked = pa.chunked_array([pa.array([-(2**63), 2**63 - 1, 0, 2**63 - 2])])
    assert index.rows(asked).tolist() == [-1, 0, -1, -1]


ASKED = [("v", "sum"), ("v", "min"), ("v", "max"), ("x", "sum"), ("x", "count")]


def test_groups_have_counts_sums_and_extremes() -> None:
    table = pa.table(
        {
            "k": pa.array([5, None, 3, 5, None, 3], pa.date32()),
            "v": pa.array([1, 2, None, 4, None, None], pa.int16()),
            "x": pa.array([0.5, 1.0, None, None, 2.0, None]),
        }
    )
    asked = [([], "count_all"), *ASKED]
    found = grouped_densely(table, "k", asked)
    expected = table.group_by("k").aggregate(asked)
    assert found is not None
    assert found.schema.types == expected.schema.types
    assert sorted(zip(*found.to_pydict().values(), strict=True), key=str) == sorted(
        zip(*expected.to_pydict().values(), strict=True), key=str
    )


@pytest.mark.parametrize(("kind", "last"), [(pa.int8(), 127), (pa.int64(), 2**63 - 1)])
def test_groups_at_the_ends_of_the_type_are_found(kind: pa.DataType, last: int) -> None:
    table = pa.table({"k": pa.array([last, None, last - 1, last], kind)})
    found = grouped(table, ["k"], [([], "count_all")])
    groups = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert groups == {last: 2, None: 1, last - 1: 1}


def test_groups_far_apart_and_other_aggregates_are_left_to_a_hash_table() -> None:
    table = pa.table({"k": [0, SMALL], "s": ["a", "b"]})
    assert grouped_densely(table, "k", []) is None
    assert grouped_densely(table.slice(0, 1), "k", [("s", "max")]) is None
    assert grouped_densely(table, "s", []) is None


def test_repeated_keys_are_told() -> None:
    index = index_of([1, 2, 1], pa.int64())
    assert index is not None
    assert not index.unique


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, SMALL], pa.int64()),
        (["a"], pa.string()),
        ([1.0], pa.float64()),
        ([None], pa.int64()),
        ([], pa.int64()),
    ],
)
def test_keys_that_no_array_holds_are_refused(values: list[object], kind: pa.DataType) -> None:
    assert index_of(values, kind) is None
