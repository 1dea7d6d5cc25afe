"""Frames: which rows of its partition each row of an OVER sees.

Rows are sorted by partition and order; a frame is the range [low, high) of places in that order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.columns.keys import argsort, begins, codes, ranks
from pkray.errors import UnsupportedError
from pkray.relational.plan.expressions import Frame, SortKey


@dataclass(frozen=True)
class Frames:
    """The low and the high end of each row's frame, int64 places; high is not in it."""

    low: np.ndarray
    high: np.ndarray

    @cached_property
    def lengths(self) -> np.ndarray:
        """Give each frame's number of rows."""
        return self.high - self.low


class Partitions:
    """Sorted rows, and where each row's partition and its peers begin and end.

    Attributes:
        order: int64, the number of the row at each place.
        codes: the number of each place's partition, ascending.
        start, end: of the partition; peer_start, peer_end: of the rows that are equal in order.
    """

    def __init__(
        self, table: pa.Table, partition_by: Sequence[str], order_by: Sequence[SortKey]
    ) -> None:
        rows = table.num_rows
        of_row = codes([table[name] for name in partition_by], rows).of_row
        order = [rank for key in order_by for rank in ranks(table[key.column], key)]
        self.rows = rows
        self.order = argsort([of_row, *order], rows)
        self.codes = of_row[self.order]
        first = begins([self.codes], rows)
        self.start, self.end = _stretches(first)
        peers = begins([self.codes, *(rank[self.order] for rank in order)], rows)
        self.is_first_peer = peers
        self.peer_start, self.peer_end = _stretches(peers)
        self._keys = [(key, whole(table[key.column])) for key in order_by]

    @cached_property
    def places(self) -> np.ndarray:
        """List the places."""
        return np.arange(self.rows)

    def in_order(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Sort a column of the table."""
        return whole(column).take(pa.array(self.order))

    def at_rows(self, values: pa.Array) -> pa.Array:
        """Bring values at places back to the rows' order."""
        places = np.empty(self.rows, np.int64)
        places[self.order] = self.places
        return values.take(pa.array(places))

    def frames(self, frame: Frame) -> Frames:
        """Find each row's frame."""
        low = self._rows_end(frame.start, 0) if frame.unit == "rows" else self._low(frame.start)
        high = self._rows_end(frame.end, 1) if frame.unit == "rows" else self._high(frame.end)
        if frame.start is None:
            low = self.start
        if frame.end is None:
            high = self.end
        low = np.clip(low, self.start, self.end)
        return Frames(low, np.maximum(np.clip(high, self.start, self.end), low))

    def _rows_end(self, offset: int | float | None, after: int) -> np.ndarray:
        far = 2 * self.rows + 2
        return self.places + min(max(int(offset or 0), -far), far) + after

    def _low(self, offset: int | float | None) -> np.ndarray:
        return self._by_value(offset, "left") if offset else self.peer_start

    def _high(self, offset: int | float | None) -> np.ndarray:
        return self._by_value(offset, "right") if offset else self.peer_end

    def _by_value(self, offset: int | float | None, side: str) -> np.ndarray:
        """Find where, in its partition, a value that differs by an offset would stand."""
        if len(self._keys) != 1:
            raise UnsupportedError("a RANGE frame with an offset is over one ORDER BY column")
        ((key, column),) = self._keys
        values, null = _numbers(column.take(pa.array(self.order)))
        step = _offset(column.type, offset, math.ceil if side == "left" else math.floor)
        if key.descending:
            values = -values if values.dtype.kind == "f" else ~values
        wanted = _added(values, step)
        if values.dtype.kind == "f":
            wanted = np.where(np.isnan(values), values, wanted)
        _, places = np.unique(np.concatenate([values, wanted]), return_inverse=True)
        have, want = np.split(places + 1, [self.rows])
        width = 2 * self.rows + 3
        have = np.where(null, 0 if key.nulls_first else width - 1, have)
        found = np.searchsorted(self.codes * width + have, self.codes * width + want, side)  # type: ignore[call-overload]
        return np.where(null, self.peer_start if side == "left" else self.peer_end, found)


def _added(values: np.ndarray, step: int | float) -> np.ndarray:
    """Add without passing the ends of int64."""
    if values.dtype.kind == "f":
        return values + step
    ends = np.iinfo(np.int64)
    if step > 0:
        return np.where(values > ends.max - step, ends.max, values + step)
    return np.where(values < ends.min - step, ends.min, values + step)


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Give values to which offsets are added, and which are NULL."""
    null = np.asarray(column.is_null())
    kind = column.type
    if pa.types.is_floating(kind):
        return np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0)), null
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(kind) and kind.unit != "ns":
        column = column.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_time(kind):
        column = pc.multiply(column.view(pa.int32()).cast(pa.int64()), 1000)
    elif pa.types.is_decimal(kind):
        column = _digits(column)
    elif not pa.types.is_integer(kind):
        raise UnsupportedError(
            f"a RANGE frame with an offset is over a number or a time, not {kind}"
        )
    return np.asarray(pc.fill_null(column, 0)).astype(np.int64), null


def _digits(column: pa.Array) -> pa.Array:
    """Give decimals as integers of their last digit."""
    wide = column.cast(pa.decimal256(76, column.type.scale))
    power = pa.scalar(10**column.type.scale, pa.int64()).cast(pa.decimal256(19, 0))
    return pc.multiply(wide.cast(pa.decimal256(56, column.type.scale)), power).cast(pa.int64())


def _offset(
    kind: pa.DataType, offset: int | float | None, whole_number: Callable[[Decimal], int]
) -> int | float:
    """Give an offset in the units of the values; what lies between two of them is rounded."""
    if pa.types.is_floating(kind):
        return float(offset or 0)
    exact = Decimal(str(offset or 0))
    if pa.types.is_decimal(kind):
        exact = exact.scaleb(kind.scale)
    elif pa.types.is_timestamp(kind) and kind.unit == "ns":
        exact *= 1000
    ends = 1 << 62
    return min(max(whole_number(exact), -ends), ends)


def _stretches(first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give, for each place, where its stretch begins and ends; `first` marks the beginnings."""
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(first))[: len(starts)]
    lengths = ends - starts
    return np.repeat(starts, lengths), np.repeat(ends, lengths)
