"""Whole numbers that lie close together, as places in an array: no hash table is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole

SPREAD = 8
"""Most places a row: beyond it the array would be mostly empty."""

PLACES = 2
"""Most places a row where rows are grouped: each place is gone through."""

SMALL = 1 << 22
"""Places that are always few enough: 16 MB."""


FEW = 1 << 14
"""Places to group by that are always few enough."""

LAST = (1 << 63) - 1
"""The greatest whole number: the place of NULL comes after the greatest key."""


@dataclass(frozen=True)
class DenseIndex:
    """The numbers of rows by their key, a whole number.

    Attributes:
        low: the least key.
        row_of: int32, a row's number a key from `low` on; -1 where there is none.
        unique: whether no two rows have the same key.
    """

    low: int
    row_of: np.ndarray
    unique: bool

    @staticmethod
    def of(keys: pa.ChunkedArray) -> DenseIndex | None:
        """Index keys; None where they are no whole numbers or lie too far apart."""
        if not is_whole_number(keys.type) or len(keys) == keys.null_count:
            return None
        low, high = extremes(numbers_of(keys))
        if high - low >= max(SPREAD * len(keys), SMALL) or len(keys) >= 1 << 31:
            return None
        row_of = np.full(high - low + 1, -1, np.int32)
        rows = np.arange(len(keys), dtype=np.int32)
        values = numbers_of(keys)
        if keys.null_count:
            rows = np.flatnonzero(np.asarray(values.is_valid())).astype(np.int32)
            values = values.drop_null()
        row_of[np.asarray(values) - low] = rows
        return DenseIndex(low, row_of, int((row_of >= 0).sum()) == len(rows))

    def rows(self, keys: pa.ChunkedArray) -> np.ndarray:
        """Find the rows of keys: int64, -1 where there is none."""
        places, inside = places_among(keys, self.low, len(self.row_of))
        found = self.row_of[places]
        return (found if inside is None else np.where(inside, found, -1)).astype(np.int64)


def is_whole_number(kind: pa.DataType) -> bool:
    """Whether values of a type can be places."""
    return pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)


def numbers_of(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give whole numbers, or dates, as BIGINT."""
    array = whole(keys)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    return array.cast(pa.int64())


def places_among(
    keys: pa.Array | pa.ChunkedArray, low: int, count: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Give the places of keys from a lowest one on, 0 where they are not among so many.

    Returns:
        The places, int64, and which are among them; None: all are.
    """
    numbers = numbers_of(keys)
    values = np.asarray(pc.fill_null(numbers, low) if numbers.null_count else numbers)
    inside = (values >= low) & (values <= low + (count - 1))
    if numbers.null_count:
        inside &= np.asarray(numbers.is_valid())
    if inside.all():
        return values - low, None
    return np.where(inside, values, low) - low, inside


def extremes(numbers: pa.Array) -> tuple[Any, Any]:
    """Give the least and the greatest of numbers; None where all are NULL."""
    ends = pc.min_max(numbers)
    return ends["min"].as_py(), ends["max"].as_py()


def grouped_densely(
    table: pa.Table, key: str, aggregations: Sequence[tuple[str | list[str], str]]
) -> pa.Table | None:
    """Aggregate by one key that is a whole number, with a place a key.

    Args:
        aggregations: (column, Arrow's aggregation) pairs.

    Returns:
        the key, then the aggregates in order; None where the keys lie too far apart, or something
        other than counts, sums and extremes of numbers is asked for.
    """
    keys = table[key]
    if not is_whole_number(keys.type) or not all(_is_dense(table, *each) for each in aggregations):
        return None
    low, high = extremes(numbers_of(keys))
    if low is None or high - low >= max(PLACES * len(keys), FEW) or high >= LAST:
        return None
    span = high - low + 1
    places = np.asarray(pc.fill_null(numbers_of(keys), high + 1)) - low
    rows = np.bincount(places, minlength=span + 1)
    found = np.flatnonzero(rows)
    made = pa.array(found + low, mask=found == span)
    kind = keys.type
    columns = [made.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else made.cast(kind)]
    names = [key]
    for column, function in aggregations:
        values = None if isinstance(column, list) else whole(table[column])
        columns.append(_aggregated(places, rows, found, values, function))
        names.append(function if isinstance(column, list) else f"{column}_{function}")
    return pa.Table.from_arrays(columns, names=names)


_COMBINED = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def _is_dense(table: pa.Table, column: str | list[str], function: str) -> bool:
    if function in ("count", "count_all"):
        return True
    kind = table.schema.field(column).type
    is_sum = function == "sum" and pa.types.is_floating(kind)
    return function in _COMBINED and (is_sum or pa.types.is_signed_integer(kind))


def _aggregated(
    places: np.ndarray, rows: np.ndarray, found: np.ndarray, values: pa.Array | None, function: str
) -> pa.Array:
    """Compute one aggregate of the keys that are found."""
    if values is not None and values.null_count:
        valid = np.asarray(values.is_valid())
        places, values = places[valid], values.drop_null()
        rows = np.bincount(places, minlength=len(rows))
    counts = rows[found]
    if values is None or function in ("count", "count_all"):
        return pa.array(counts)
    is_float = pa.types.is_floating(values.type)
    numbers = np.asarray(values.cast(pa.float64() if is_float else pa.int64()))
    ends = np.iinfo(np.int64)
    neutral = {"sum": 0, "min": ends.max, "max": ends.min}[function]
    made = np.full(len(rows), neutral, numbers.dtype)
    _COMBINED[function].at(made, places, numbers)
    total = pa.array(made[found], mask=counts == 0)
    return total if function == "sum" else total.cast(values.type)
