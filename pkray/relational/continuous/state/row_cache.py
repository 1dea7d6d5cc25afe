"""Rows of a state in memory, found by their keys' hashes.

Each key has a *slot*: its number in arrays of hashes, values and when it was last used. A table of
hashes with open addressing finds the slots. Values of fixed width are replaced where they are;
texts are put behind those that are there. All of it can be forgotten at any time: every row is in
the state's tree too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import spread
from pkray.format.words import fixed_values, flag_values, null_mask, raw_type, unaligned_view
from pkray.lookup.key_hash import hash_keys, is_text

_FIRST_SLOTS = 64
_PLACES_PER_SLOT = 2
"""At least so many places of the table a slot, so that few of them are tried for a key."""
_PADDING = 8
"""Bytes behind texts, so that their last words can be read whole."""


class HashesCollideError(Exception):
    """Two keys have one hash: the cache cannot tell them apart and is of no use any more."""


class RowCache:
    """Holds one row a key, or that a key has none.

    Attributes:
        is_complete: whether every row of the state is here: keys that are not have none.

    Args:
        types: of the columns.
        is_complete: whether the state is empty.
    """

    _count: int
    _last: tuple[pa.Array, np.ndarray, np.ndarray] | None
    _table: np.ndarray
    _hashes: np.ndarray
    _used: np.ndarray
    _is_there: np.ndarray
    _keys: _Texts

    def __init__(self, types: Sequence[pa.DataType], *, is_complete: bool) -> None:
        self.is_complete = is_complete
        self._types = list(types)
        self._calls = 0
        self._make(_FIRST_SLOTS)

    @staticmethod
    def holds(types: Sequence[pa.DataType]) -> bool:
        """Whether columns of these types can be kept: values of fixed width, texts and bytes."""
        return all(is_text(kind) or _is_fixed(kind) for kind in types)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that are taken; those that an empty one takes are not worth counting."""
        if not self._count:
            return 0
        arrays = (self._table, self._hashes, self._used, self._is_there)
        columns = (self._keys, *self._columns)
        return sum(each.nbytes for each in arrays) + sum(each.nbytes for each in columns)

    @property
    def rows(self) -> int:
        """Count the rows that are here."""
        return int(np.count_nonzero(self._is_there[: self._count]))

    def slots(self, keys: pa.Array) -> np.ndarray:
        """Find keys: int64, the slot of each; -1 for those that are not here.

        Raises:
            HashesCollideError: a key has the hash of another.
        """
        if self._last is not None and self._last[0] is keys:
            return self._last[1]
        self._calls += 1
        hashes = hash_keys([keys])
        slots = np.full(len(keys), -1)
        pending = np.arange(len(keys))
        wanted, places = hashes, self._places(hashes)
        while len(pending):
            held = self._table[places]
            same = (held >= 0) & (self._hashes[held] == wanted)
            slots[pending[same]] = held[same]
            on = np.flatnonzero((held >= 0) & ~same)
            pending, wanted = pending[on], wanted[on]
            places = (places[on] + 1) & (len(self._table) - 1)
        known = np.flatnonzero(slots >= 0)
        self._check(keys, known, slots[known])
        self._used[slots[known]] = self._calls
        self._last = (keys, slots, hashes)
        return slots

    def rows_at(self, slots: np.ndarray) -> tuple[np.ndarray, list[pa.Array]]:
        """Give the rows of slots: which of the slots have one, and the columns of those.

        Args:
            slots: may have -1, which has no row.
        """
        positions = np.flatnonzero((slots >= 0) & self._is_there[slots])
        chosen = slots if len(positions) == len(slots) else slots[positions]
        return positions, [column.take(chosen) for column in self._columns]

    def put(self, keys: pa.Array, values: Sequence[pa.Array]) -> None:
        """Keep rows, in the place of those of the same keys; of one key twice the last counts.

        Raises:
            HashesCollideError: as `slots`.
        """
        slots = self._added(keys)
        self._is_there[slots] = True
        for column, array in zip(self._columns, values, strict=True):
            column.put(slots, array)

    def remove(self, keys: pa.Array) -> None:
        """Keep in mind that keys have no row.

        Raises:
            HashesCollideError: as `slots`.
        """
        slots = self.slots(keys) if self.is_complete else self._added(keys)
        self._is_there[slots[slots >= 0]] = False

    def shrink(self, limit: int) -> None:
        """Forget what was not used for longest, so that at most so many bytes are taken."""
        if self.nbytes <= limit:
            return
        self.is_complete = False
        each = max(self.nbytes // max(self._count, 1), 1)
        kept = limit // each // 2
        if kept:
            self.keep_last_used(kept)
        if not kept or self.nbytes > limit:
            self._make(_FIRST_SLOTS)

    def keep_last_used(self, count: int) -> None:
        """Forget what was not used for longest, so that at most so many keys are here."""
        if self._count > count:
            self.is_complete = False
            order = np.argsort(self._used[: self._count], kind="stable")
            self._keep(np.sort(order[self._count - count :]))

    def _added(self, keys: pa.Array) -> np.ndarray:
        """Find the slots of keys; those that have none get one."""
        slots = self.slots(keys)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots
        assert self._last is not None
        hashes = self._last[2]
        slots = slots.copy()
        slots[missing] = self._insert(keys.take(pa.array(missing)), hashes[missing])
        self._last = (keys, slots, hashes)
        return slots

    def _insert(self, keys: pa.Array, hashes: np.ndarray) -> np.ndarray:
        """Give slots to keys that have none, which may repeat."""
        first, count = self._count, len(keys)
        self._reserve(first + count)
        slots = np.arange(first, first + count)
        self._hashes[slots] = hashes
        self._used[slots] = self._calls
        self._is_there[slots] = False
        self._keys.put(slots, keys)
        self._count += count
        found = self._entered(slots)
        again = np.flatnonzero(found != slots)
        self._check(keys, again, found[again])
        if not len(again):
            return found
        is_used = np.ones(self._count, np.bool_)
        is_used[slots[again]] = False
        self._keep(np.flatnonzero(is_used))
        return (np.cumsum(is_used) - 1)[found]

    def _entered(self, slots: np.ndarray) -> np.ndarray:
        """Enter slots into the table; of one hash twice only one is, which all of them get."""
        found = np.empty(len(slots), np.int64)
        pending = np.arange(len(slots))
        hashes = self._hashes[slots]
        places = self._places(hashes)
        while len(pending):
            free = self._table[places] < 0
            self._table[places[free]] = slots[pending[free]]
            held = self._table[places]
            same = self._hashes[held] == hashes
            found[pending[same]] = held[same]
            on = np.flatnonzero(~same)
            pending, hashes = pending[on], hashes[on]
            places = (places[on] + 1) & (len(self._table) - 1)
        return found

    def _check(self, keys: pa.Array, rows: np.ndarray, slots: np.ndarray) -> None:
        """Compare keys with those of the slots that their hashes led to."""
        asked = keys if len(rows) == len(keys) else keys.take(pa.array(rows))
        if not self._keys.equal(slots, asked):
            raise HashesCollideError

    def _places(self, hashes: np.ndarray) -> np.ndarray:
        shift = np.uint64(65 - len(self._table).bit_length())
        return (hashes >> shift).astype(np.int64)

    def _reserve(self, count: int) -> None:
        """Make room for so many slots."""
        if count > len(self._hashes):
            size = max(count, len(self._hashes) * 3 // 2)
            self._hashes, self._used, self._is_there = (
                _resized(each, size) for each in (self._hashes, self._used, self._is_there)
            )
            for column in (self._keys, *self._columns):
                column.resize(size)
        if count * _PLACES_PER_SLOT > len(self._table):
            self._table = _empty_table(count)
            self._entered(np.arange(self._count))

    def _keep(self, slots: np.ndarray) -> None:
        """Forget all but these slots."""
        hashes, used, is_there = self._hashes[slots], self._used[slots], self._is_there[slots]
        keys, columns = self._keys.take(slots), [column.take(slots) for column in self._columns]
        self._make(max(len(slots), _FIRST_SLOTS))
        every = np.arange(len(slots))
        self._hashes[every], self._used[every], self._is_there[every] = hashes, used, is_there
        self._keys.put(every, keys)
        for column, array in zip(self._columns, columns, strict=True):
            column.put(every, array)
        self._count = len(slots)
        self._entered(every)

    def _make(self, size: int) -> None:
        """Make room for so many slots, of which none is taken."""
        self._count, self._last = 0, None
        self._table = _empty_table(size)
        self._hashes = np.zeros(size, np.uint64)
        self._used = np.zeros(size, np.int32)
        self._is_there = np.zeros(size, np.bool_)
        self._keys = _Texts(pa.binary(), size)
        self._columns: list[_Fixed | _Texts] = [
            _Texts(kind, size) if is_text(kind) else _Fixed(kind, size) for kind in self._types
        ]


class _Nullable:
    """Marks the values of a column that are NULL."""

    def __init__(self, kind: pa.DataType, size: int) -> None:
        self._type = kind
        self._size = size
        self._null: np.ndarray | None = None  # made with the first NULL

    def _mark(self, slots: np.ndarray, array: pa.Array) -> None:
        null = null_mask(array)
        if null is not None and self._null is None:
            self._null = np.zeros(self._size, np.bool_)
        if self._null is not None:
            self._null[slots] = False if null is None else null

    def _resize(self, size: int) -> None:
        self._size = size
        if self._null is not None:
            self._null = _resized(self._null, size)

    def _made(self, slots: np.ndarray, *buffers: np.ndarray) -> pa.Array:
        """Make an array of the buffers of its values."""
        validity = None
        if self._null is not None:
            null = self._null[slots]
            if null.any():
                validity = pa.py_buffer(np.packbits(~null, bitorder="little"))
        parts = [validity, *map(pa.py_buffer, buffers)]
        return pa.Array.from_buffers(self._type, len(slots), parts)

    @property
    def _null_bytes(self) -> int:
        return 0 if self._null is None else self._null.nbytes


class _Fixed(_Nullable):
    """Values of fixed width, each in its slot."""

    def __init__(self, kind: pa.DataType, size: int) -> None:
        super().__init__(kind, size)
        self._is_flag = pa.types.is_boolean(kind)
        self._values = np.zeros(size, np.uint8 if self._is_flag else raw_type(kind.bit_width // 8))

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._null_bytes

    def resize(self, size: int) -> None:
        self._resize(size)
        self._values = _resized(self._values, size)

    def put(self, slots: np.ndarray, array: pa.Array) -> None:
        self._mark(slots, array)
        if len(array):
            flags = self._is_flag
            values = flag_values(array) if flags else fixed_values(array, self._values.dtype)
            self._values[slots] = values

    def take(self, slots: np.ndarray) -> pa.Array:
        values = self._values[slots]
        return self._made(
            slots, np.packbits(values, bitorder="little") if self._is_flag else values
        )


class _Texts(_Nullable):
    """Values of any length: where each is among bytes, behind which new ones are put."""

    def __init__(self, kind: pa.DataType, size: int) -> None:
        super().__init__(kind, size)
        self._starts = np.zeros(size, np.int64)
        self._lengths = np.zeros(size, np.int32)
        self._data = np.zeros(_PADDING, np.uint8)
        self._end = 0
        self._gone = 0

    @property
    def nbytes(self) -> int:
        own = self._starts.nbytes + self._lengths.nbytes + self._data.nbytes
        return own + self._null_bytes

    def resize(self, size: int) -> None:
        self._resize(size)
        self._starts, self._lengths = _resized(self._starts, size), _resized(self._lengths, size)

    def put(self, slots: np.ndarray, array: pa.Array) -> None:
        self._mark(slots, array)
        offsets, data = _bytes_of(array)
        self._gone += int(self._lengths[slots].sum())
        if self._end + len(data) + _PADDING > len(self._data):
            self._make_room(len(data))
        self._data[self._end : self._end + len(data)] = data
        self._starts[slots] = self._end + offsets[:-1]
        self._lengths[slots] = np.diff(offsets)
        self._end += len(data)

    def _make_room(self, more: int) -> None:
        """Take a larger piece of memory, without the bytes that nothing names if they are many."""
        if 2 * self._gone > self._end:
            lengths = self._lengths.astype(np.int64)
            kept = self._data[spread(self._starts, lengths)]
            self._starts = np.cumsum(lengths) - lengths
            self._end, self._gone = len(kept), 0
        else:
            kept = self._data[: self._end]
        size = max(self._end + more, 3 * self._end // 2) + _PADDING
        self._data = np.zeros(size, np.uint8)
        self._data[: self._end] = kept

    def take(self, slots: np.ndarray) -> pa.Array:
        lengths = self._lengths[slots].astype(np.int64)
        offsets = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return self._made(slots, offsets, self._data[spread(self._starts[slots], lengths)])

    def equal(self, slots: np.ndarray, array: pa.Array) -> bool:
        """Whether the values of slots are those of an array without NULLs."""
        offsets, data = _bytes_of(array)
        lengths = np.diff(offsets)
        if not np.array_equal(self._lengths[slots], lengths):
            return False
        if len(lengths) and lengths[0] == 8 and bool((lengths == 8).all()):
            words = unaligned_view(self._data)[self._starts[slots]]
            return np.array_equal(words, data.view(np.uint64))
        mine = self._data[spread(self._starts[slots], lengths.astype(np.int64))]
        return np.array_equal(mine, data)


def _bytes_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Give the offsets of texts, from 0, and their bytes."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int32), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    values = np.frombuffer(data if data is not None else b"", np.uint8)[ends[0] : ends[-1]]
    return ends - ends[0], values


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _empty_table(slots: int) -> np.ndarray:
    places = 1 << max(slots * _PLACES_PER_SLOT - 1, 1).bit_length()
    return np.full(places, -1, np.int32)


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    resized: np.ndarray[Any, Any] = np.zeros(size, array.dtype)
    resized[: len(array)] = array
    return resized
