"""Rows' keys as numbers."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pkray.columns import keys
from pkray.relational.plan.expressions import SortKey

NAN = math.nan
OTHER_NAN = np.uint64(0xFFF8000000000001).view(np.float64)


def same(*columns: pa.Array) -> list[int]:
    return keys.codes(columns, len(columns[0])).of_row.tolist()


def test_nulls_are_one_group() -> None:
    assert same(pa.array([1, None, 1, None, 2])) == [0, 1, 0, 1, 2]


def test_nans_are_one_group_and_zeros_are_two() -> None:
    assert same(pa.array([NAN, 0.0, -0.0, OTHER_NAN])) == [0, 1, 2, 0]


def test_groups_of_several_columns_differ_where_one_does() -> None:
    assert same(pa.array([1, 1, 2, 1]), pa.array(["a", "b", "a", "a"])) == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1, 2], [1], [1, 2], None, [], None, [None], []], pa.list_(pa.int64())),
        (
            [{"a": 1}, {"a": None}, {"a": 1}, None, {"a": 2}, None, {"a": 3}, {"a": 2}],
            pa.struct([("a", pa.int64())]),
        ),
        (
            [[("k", 1)], [], [("k", 1)], None, [("j", 1)], None, [("k", 2)], [("j", 1)]],
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
)
def test_nested_values_are_equal_by_content(values: list[object], kind: pa.DataType) -> None:
    column = pa.array([values[0], *values], kind).slice(1)
    numbers = same(column)
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            assert (numbers[i] == numbers[j]) == (left == right)


def test_no_columns_make_one_group() -> None:
    assert keys.codes([], 3).count == 1
    assert keys.codes([], 0).count == 0


def test_first_rows_are_the_first_of_each_group() -> None:
    assert keys.codes([pa.array([5, 6, 5, 7, 6])], 5).first_rows().tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, None, -1, 3, 2**62, -(2**63)]),
        pa.array([1.5, NAN, -0.0, None, 0.0, -math.inf]),
        pa.array(["b", "", None, "a", "b"]),
        pa.array([b"\xff", None, b"", b"\x00"]),
        pa.array([Decimal("1.10"), None, Decimal("-2.00"), Decimal("1.09")]),
        pa.array([True, None, False, True]),
        pa.array([5, None, -5], pa.timestamp("ms")),
        pa.array([5, None, -5], pa.date32()),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_rows_sort_as_their_values_do(
    column: pa.Array, descending: bool, nulls_first: bool
) -> None:
    key = SortKey("x", descending, nulls_first)
    values = column.to_pylist()
    there = [i for i, value in enumerate(values) if value is not None]
    nulls = [i for i, value in enumerate(values) if value is None]

    def rank(i: int) -> object:
        is_nan = isinstance(values[i], float) and math.isnan(values[i])
        return (is_nan, 0 if is_nan else values[i])

    ordered = sorted(there, key=rank, reverse=descending)
    expected = nulls + ordered if nulls_first else ordered + nulls
    assert keys.sort_rows(pa.table({"x": column}), [key]).tolist() == expected


def test_rows_sort_by_several_columns() -> None:
    table = pa.table({"a": [1, 0, 1, 0], "b": ["x", "y", None, "z"]})
    order = [SortKey("a"), SortKey("b", descending=True, nulls_first=False)]
    assert keys.sort_rows(table, order).tolist() == [3, 1, 0, 2]


def test_structs_sort_field_by_field() -> None:
    column = pa.array([{"a": 1, "b": 2}, None, {"a": 1, "b": None}, {"a": 0, "b": 9}])
    assert keys.sort_rows(pa.table({"x": column}), [SortKey("x")]).tolist() == [1, 3, 2, 0]


def test_columns_too_wide_to_pack_are_sorted_by_all_the_same() -> None:
    columns = [np.array([2**62, -(2**62), 2**62]), np.array([1, 0, -(2**62)])]
    assert len(keys.packed(columns)) == 2
    assert keys.argsort(columns, 3).tolist() == [1, 2, 0]


def test_rows_begin_where_a_column_changes() -> None:
    assert keys.begins([np.array([1, 1, 2]), np.array([0, 0, 0])], 3).tolist() == [
        True,
        False,
        True,
    ]


def test_aggregates_by_nested_and_floating_keys() -> None:
    table = pa.table(
        {"k": pa.array([[1], [1], None]), "f": pa.array([NAN, OTHER_NAN, 0.0]), "v": [1, 2, 4]}
    )
    found = keys.grouped(table, ["k", "f"], [("v", "sum")])
    assert sorted(found.column("v_sum").to_pylist()) == [3, 4]
    assert found.column_names == ["k", "f", "v_sum"]


def test_ranks_of_no_rows_are_empty() -> None:
    assert [len(rank) for rank in keys.ranks(pa.array([], pa.string()), SortKey("x"))] == [0]


@pytest.mark.parametrize("bits", [0, 3, 16, 17, 32, 33, 48, 62])
def test_numbers_are_ordered_as_a_stable_sort_orders_them(bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, 1 << bits, 500, endpoint=True)
    numbers = np.concatenate([numbers, numbers[:100]])
    expected = np.argsort(numbers, kind="stable")
    assert keys.argsort_numbers(numbers).tolist() == expected.tolist()
