"""The rows of each key, one after the other: what aggregate functions work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.words import fixed_values
from pkray.lsm.keys.fixed_width import FixedWidthColumn
from pkray.lsm.keys.key_groups import taken

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
Step = Callable[[Values, Values, Ints], Values]

STEPS = 8
"""Rows of a key looked at one after the other before all the rest is looked at at once."""
LONG = 64
"""Keys with more rows than this are added up one by one."""


@dataclass(frozen=True)
class Segments:
    """The rows of some keys; those of one key are a segment, oldest first, never empty.

    A *place* is a position in ``order``.

    Args:
        order: numbers of the rows.
        starts: the place at which each segment begins.
        keys: how many keys there are in all.
        which: the key of each segment; None: every key has one.
        retract: for each place, whether the row takes back; None: no row does.
        late: for each place, whether the row goes before what is there; None: no row does.
    """

    order: Ints
    starts: Ints
    keys: int
    which: Ints | None = None
    retract: Bools | None = None
    late: Bools | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.starts, append=len(self.order))

    @cached_property
    def ends(self) -> Ints:
        return self.starts + self.sizes

    def of_place(self) -> Ints:
        """Return the number of each place's segment."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    def pick(self, wanted: Bools) -> Segments:
        """Leave rows out; keys may be left without any.

        Args:
            wanted: for each place, whether its row stays.
        """
        if wanted.all():
            return self
        before = np.concatenate([[0], np.cumsum(wanted)])
        starts, ends = before[self.starts], before[self.ends]
        filled = ends > starts
        keys = np.flatnonzero(filled) if self.which is None else self.which[filled]
        return Segments(
            self.order[wanted],
            starts[filled],
            self.keys,
            None if len(keys) == self.keys else keys,
            None if self.retract is None else self.retract[wanted],
            None if self.late is None else self.late[wanted],
        )

    def adds(self) -> Segments:
        """Leave out the rows that take back."""
        if self.retract is None:
            return self
        return replace(self.pick(~self.retract), retract=None)

    def valid(self, column: pa.Array) -> Segments:
        """Leave out the rows that are null in a column."""
        return self if not column.null_count else self.pick(valid_at(column, self.order))

    def arranged(self, places: Ints) -> Segments:
        """Put the rows in another order within each key."""
        retract = None if self.retract is None else self.retract[places]
        return replace(self, order=self.order[places], retract=retract)

    def last_place(self, wanted: Bools) -> Ints:
        """Return the last place in each segment for which ``wanted`` (bool, one a place) holds:
        int64, one a segment; -1 if there is none."""
        return np.maximum.reduceat(np.where(wanted, np.arange(len(wanted)), -1), self.starts)

    def first_place(self, wanted: Bools) -> Ints:
        """Return the first place in each segment for which ``wanted`` (bool, one a place) holds:
        int64, one a segment; past all if there is none."""
        none = len(wanted)
        return np.minimum.reduceat(np.where(wanted, np.arange(none), none), self.starts)

    def last_valid(self, column: pa.Array) -> Ints:
        """Return the place of each segment's last row that is not null; -1 if there is none."""
        places = self.ends - 1
        if not column.null_count:
            return places
        pending = np.flatnonzero(~valid_at(column, self.order[places]))
        for _ in range(STEPS):
            places[pending] -= 1
            ended = places[pending] < self.starts[pending]
            places[pending[ended]] = -1
            pending = pending[~ended]
            if not len(pending):
                return places
            pending = pending[~valid_at(column, self.order[places[pending]])]
        if len(pending):
            places[pending] = self.last_place(valid_at(column, self.order))[pending]
        return places

    def numbers(self, places: Ints) -> Ints:
        """Return the row number for each key, of one place (int64) a segment: int64; -1 where there
        is none."""
        found = self.order[places] if len(places) else places
        absent = places < 0
        if absent.any():
            found[absent] = -1
        if self.which is None:
            return found
        all_keys = np.full(self.keys, -1)
        all_keys[self.which] = found
        return all_keys

    def spread(self, values: pa.Array) -> pa.Array:
        """Spread one value a segment to one a key, null for the keys without a segment."""
        if self.which is None:
            return values
        positions = np.full(self.keys, -1)
        positions[self.which] = np.arange(len(self.which))
        return take_numbers(values, positions)

    def fold(self, values: Values, step: Step) -> Values:
        """Combine each segment's values from left to right, strictly in this order.

        Args:
            values: one a place.
            step: of the results so far, the next values, and their places.
        """
        result = values[self.starts]
        sizes = self.sizes
        open_segments = np.flatnonzero(sizes > 1)
        distance = 1
        while len(open_segments):
            places = self.starts[open_segments] + distance
            result[open_segments] = step(result[open_segments], values[places], places)
            distance += 1
            open_segments = open_segments[sizes[open_segments] > distance]
        return result

    def fold_floats(self, values: Values, operation: np.ufunc) -> Values:
        """Fold as :meth:`fold`, for a ufunc; segments of many rows one by one."""
        sizes = self.sizes
        long = np.flatnonzero(sizes > LONG)
        if not len(long):
            return self.fold(values, lambda so_far, following, _: operation(so_far, following))
        result = np.empty(len(self), values.dtype)
        is_short = np.ones(len(self), bool)
        is_short[long] = False
        if is_short.any():
            kept = np.repeat(is_short, sizes)
            result[is_short] = self.pick(kept).fold_floats(values[kept], operation)
        for start, segment in zip(self.starts[long], long, strict=True):
            result[segment] = operation.accumulate(values[start : start + sizes[segment]])[-1]
        return result


def take_numbers(column: pa.Array, numbers: Ints) -> pa.Array:
    """Take rows by number (int64); null where the number is -1."""
    absent = numbers < 0
    wanted = pa.array(numbers, mask=absent) if absent.any() else pa.array(numbers)
    return taken(column, wanted)


def take_valid(column: pa.Array, numbers: Ints) -> pa.Array:
    """Take rows by number (int64), none of which is null; null where the number is -1."""
    values = FixedWidthColumn.from_fixed_type(column) if len(column) else None
    found = None if values is None else values.gathered(numbers, numbers < 0)
    return take_numbers(column, numbers) if found is None else found


def valid_at(array: pa.Array, numbers: Ints) -> Bools:
    """Whether the rows of these numbers are not null: bool, one a number; costs nothing for the
    other rows."""
    bits = array.buffers()[0]
    if bits is None:
        return np.full(len(numbers), pa.types.is_null(array.type) is False)
    return bits_at(bits, array.offset, numbers)


def bits_at(bits: pa.Buffer, offset: int, numbers: Ints) -> Bools:
    """Read bits of a bitmap: bool, one a number."""
    places = numbers + offset if offset else numbers
    octets = np.frombuffer(bits, np.uint8)[places >> 3]
    return ((octets >> (places & 7).astype(np.uint8)) & 1).view(np.bool_)


def values_at(array: pa.Array, dtype: npt.DTypeLike, numbers: Ints) -> Values:
    """Return the values of a fixed-width array, one a number; any value where it is null."""
    return fixed_values(array, dtype)[numbers]
