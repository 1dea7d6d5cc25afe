"""Rows found by whole numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pkray.relational.local.dense import SMALL, DenseIndex


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
