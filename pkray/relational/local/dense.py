"""Whole numbers that lie close together, as places in an array: no hash table is needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.local.batches import whole

SPREAD = 8
"""Most places a row: beyond it the array would be mostly empty."""

SMALL = 1 << 22
"""Places that are always few enough: 16 MB."""


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
        if not _is_whole_number(keys.type) or len(keys) == keys.null_count:
            return None
        ends = pc.min_max(_numbers(keys))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if high - low >= max(SPREAD * len(keys), SMALL) or len(keys) >= 1 << 31:
            return None
        row_of = np.full(high - low + 1, -1, np.int32)
        rows = np.arange(len(keys), dtype=np.int32)
        values = _numbers(keys)
        if keys.null_count:
            rows = np.flatnonzero(np.asarray(values.is_valid())).astype(np.int32)
            values = values.drop_null()
        row_of[np.asarray(values) - low] = rows
        return DenseIndex(low, row_of, int((row_of >= 0).sum()) == len(rows))

    def rows(self, keys: pa.ChunkedArray) -> np.ndarray:
        """Find the rows of keys: int64, -1 where there is none."""
        numbers = _numbers(keys)
        values = (
            np.asarray(pc.fill_null(numbers, self.low))
            if numbers.null_count
            else (np.asarray(numbers))
        )
        high = self.low + len(self.row_of)
        inside = (values >= self.low) & (values < high)
        if numbers.null_count:
            inside &= np.asarray(numbers.is_valid())
        if inside.all():
            return self.row_of[values - self.low].astype(np.int64)
        places = np.where(inside, values, self.low) - self.low
        return np.where(inside, self.row_of[places], -1).astype(np.int64)


def _is_whole_number(kind: pa.DataType) -> bool:
    return pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)


def _numbers(keys: pa.ChunkedArray) -> pa.Array:
    array = whole(keys)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    return array.cast(pa.int64())
