"""Keys of one or several columns: sort, group, search and cut them without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pkray.lsm.keys.key_encoding import FixedWidthKeys, KeyColumn, VariableWidthKeys, sort_columns
from pkray.lsm.keys.value_order import distance_from, neighbours_differ, run_starts, sort_values

KeyBound = tuple[tuple[tuple[int, ...], int], ...]
"""One key, comparable with others of the same columns: (words, length) of each column."""

LENGTH = -1
"""The number of the word that is a string's length."""


@dataclass(frozen=True)
class _Part:
    """Places a word of a key in the one word that holds the whole key.

    Attributes:
        column, number: the word.
        low, high: its least and greatest value.
        unused: its low bits that are zero in every key.
        bits: how many are kept.
    """

    column: int
    number: int
    low: int
    high: int
    unused: int
    bits: int


class NormalizedKeys:
    """The keys of n rows.

    Words are made when they are asked for, the later ones only where the earlier ones are equal.

    Args:
        columns: the key columns, the most significant first.
        descending: columns whose order is reversed; nulls stay smallest.

    Raises:
        UnsupportedError: a column's type has no order.
    """

    def __init__(
        self, columns: Sequence[pa.Array | pa.ChunkedArray], descending: Sequence[bool] = ()
    ) -> None:
        reverse = descending or [False] * len(columns)
        self._columns: list[KeyColumn] = []
        for column, down in zip(columns, reverse, strict=True):
            self._columns.extend(sort_columns(column, down))
        self._length = len(columns[0]) if columns else 0
        self._prefix: tuple[np.ndarray, bool] | None = None
        self._parts: list[_Part] = []

    def taken(self, rows: np.ndarray, columns: Sequence[pa.Array]) -> NormalizedKeys:
        """Give the keys of some rows, with what is known of all.

        Args:
            columns: the key columns of these rows.
        """
        keys = NormalizedKeys(columns)
        if (
            self._prefix is not None
            and self._prefix[1]
            and len(keys._columns) == len(self._columns)
        ):
            keys._prefix = self._prefix[0][rows], True
            keys._parts = self._parts
        return keys

    def packed(self) -> NormalizedKeys:
        """Pack each key into one word, if they fit: worth it where these are searched again."""
        self.prefix()
        return self

    def __len__(self) -> int:
        return self._length

    def sort(self, *, stable: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Sort the rows: row numbers in key order, and where in that order each distinct key
        starts.

        Args:
            stable: keep rows of one key in the order they are in; without, it is faster.

        Returns:
            Row numbers (n), and ascending positions in them (one a distinct key).
        """
        prefix, exact = self.prefix()
        if not self._length:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        order, differs = sort_values(prefix, stable=stable)
        if not exact and not differs.all():
            order, differs = self._settle_ties(order, differs)
        return order, run_starts(differs)

    def argsort(self, *, stable: bool = True) -> np.ndarray:
        return self.sort(stable=stable)[0]

    def group_starts(self) -> np.ndarray:
        """Find where each distinct key of sorted rows starts: int64, ascending."""
        if not self._length:
            return np.empty(0, np.intp)
        prefix, exact = self.prefix()
        differs = neighbours_differ(prefix)
        if not exact:
            same = np.flatnonzero(~differs)
            differs[same] = self.compare(same, self, same + 1) != 0
        return run_starts(differs)

    def compare(self, rows: np.ndarray, other: NormalizedKeys, others: np.ndarray) -> np.ndarray:
        """Compare each pair of a row here and a row there: -1, 0 or 1."""
        result = np.zeros(len(rows), np.int8)
        open_pairs = np.arange(len(rows))
        for column, other_column, number in self._words_with(other):
            mine = _word(column, number, rows[open_pairs])
            theirs = _word(other_column, number, others[open_pairs])
            less, greater = mine < theirs, mine > theirs
            result[open_pairs[less]] = -1
            result[open_pairs[greater]] = 1
            open_pairs = open_pairs[~(less | greater)]
            if not len(open_pairs):
                break
        return result

    def bound(self, row: int) -> KeyBound:
        """Return the key of one row (negative: from the end), to cut other keys at."""
        at = np.array([row if row >= 0 else self._length + row])
        return tuple(_bound_of(column, at) for column in self._columns)

    def count_le(self, bound: KeyBound) -> int:
        """Count how many of these (sorted) keys are at most ``bound``."""
        return self._equal_range(bound)[1]

    def search(self, wanted: NormalizedKeys) -> tuple[np.ndarray, np.ndarray]:
        """Look keys up in these sorted ones.

        Returns:
            For each wanted key the first position whose key is not less, and whether it is equal.
        """
        if self._is_one_word and wanted._is_one_word:
            return _search_words(self._columns[0].chunk(0), wanted._columns[0].chunk(0))
        if self._prefix is not None and self._prefix[1] and self._is_as_wide_as(wanted):
            return self._search_packed(self._prefix[0], wanted)
        low, high = np.zeros(len(wanted), np.intp), np.full(len(wanted), self._length)
        if self._columns[0].width and wanted._columns[0].width:
            here, there = self._columns[0].chunk(0), wanted._columns[0].chunk(0)
            low = np.searchsorted(here, there, "left")
            if self._first_words_differ:
                return self._settled(low, wanted)
            high = np.searchsorted(here, there, "right")
        pending = np.flatnonzero(low < high)
        while len(pending):
            middle = (low[pending] + high[pending]) // 2
            less = self.compare(middle, wanted, pending) < 0
            low[pending[less]] = middle[less] + 1
            high[pending[~less]] = middle[~less]
            pending = pending[low[pending] < high[pending]]
        equal = np.zeros(len(wanted), bool)
        inside = np.flatnonzero(low < self._length)
        equal[inside] = self.compare(low[inside], wanted, inside) == 0
        return low, equal

    def _is_as_wide_as(self, wanted: NormalizedKeys) -> bool:
        widths, others = ([each.width for each in keys._columns] for keys in (self, wanted))
        return len(widths) == len(others) and all(
            a >= b for a, b in zip(widths, others, strict=True)
        )

    def _search_packed(
        self, packed: np.ndarray, wanted: NormalizedKeys
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search whole keys that are in one word each."""
        asked = np.zeros(len(wanted), np.uint64)
        inside, above = np.ones(len(wanted), bool), np.zeros(len(wanted), bool)
        for part in self._parts:
            column = wanted._columns[part.column]
            word = _word(column, part.number, np.arange(len(wanted)))
            distance, greatest = distance_from(word, part.low), np.uint64((1 << part.bits) - 1)
            kept = distance >> np.uint64(part.unused)
            over = inside & (word > part.high)
            inside &= (word >= part.low) & ~over
            asked <<= np.uint64(part.bits)
            asked |= np.where(inside, kept, np.where(above | over, greatest, np.uint64(0)))
            between = inside & (kept << np.uint64(part.unused) != distance)
            inside &= ~between
            above |= over | between
        low = np.searchsorted(packed, asked)
        if above.any():
            low[above] = np.searchsorted(packed, asked[above], "right")
        if not len(packed):
            return low, np.zeros(len(wanted), bool)
        return low, inside & (packed.take(low, mode="clip") == asked)

    def _settled(self, low: np.ndarray, wanted: NormalizedKeys) -> tuple[np.ndarray, np.ndarray]:
        """Compare what follows the first words, which differ here: one comparison a key decides."""
        here, there = self._columns[0].chunk(0), wanted._columns[0].chunk(0)
        inside = np.flatnonzero(low < self._length)
        alike = inside[here[low[inside]] == there[inside]]
        compared = self.compare(low[alike], wanted, alike)
        equal = np.zeros(len(wanted), bool)
        equal[alike] = compared == 0
        low[alike] += compared < 0
        return low, equal

    @cached_property
    def _first_words_differ(self) -> bool:
        """Whether the first words of these sorted keys decide their order."""
        return bool(neighbours_differ(self._columns[0].chunk(0)).all())

    def prefix(self) -> tuple[np.ndarray, bool]:
        """Return one word a row that never contradicts the keys' order, and whether it decides it.

        Words whose values span few bits share it, so that most composite keys need no other.
        """
        if self._prefix is None:
            self._prefix = self._pack()
        return self._prefix

    @property
    def _is_one_word(self) -> bool:
        return len(self._columns) == 1 and self._columns[0].width == 1 and not self._columns[0].tail

    def _pack(self) -> tuple[np.ndarray, bool]:
        if self._is_one_word:
            return self._columns[0].chunk(0), True
        packed = np.zeros(self._length, np.uint64)
        if not self._length:
            return packed, True
        free = 64
        parts: list[_Part] = []
        for place, column in enumerate(self._columns):
            for number in range(column.width):
                word = column.chunk(number)
                unused = column.unused_bits(number)
                low, high = int(word.min()), int(word.max())
                bits = (high - low >> unused).bit_length()
                if free == 64 and bits > 56:
                    return word, False
                distance = distance_from(word, low)
                if unused:
                    distance >>= np.uint64(unused)
                kept = min(bits, free)
                if kept < bits:
                    distance >>= np.uint64(bits - kept)
                if kept < 64:
                    packed <<= np.uint64(kept)
                packed |= distance
                free -= kept
                if kept < bits:
                    return packed, False
                parts.append(_Part(place, number, low, high, unused, bits))
            if isinstance(column, VariableWidthKeys):
                low, high = int(column.lengths.min()), int(column.lengths.max())
                bits = (high - low).bit_length()
                if bits > free:
                    return packed, False
                packed <<= np.uint64(bits)
                packed |= distance_from(column.lengths, low)
                free -= bits
                parts.append(_Part(place, LENGTH, low, high, 0, bits))
        self._parts = parts
        return packed, True

    def _settle_ties(self, order: np.ndarray, differs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sort the rows whose prefixes are equal by all of their words."""
        tied = np.empty(len(order), bool)
        tied[0], tied[1:] = False, ~differs
        tied[:-1] |= ~differs
        positions = np.flatnonzero(tied)
        group = np.cumsum(np.concatenate([[True], differs])[positions])
        same_group = group[1:] == group[:-1]
        rows = order[positions]
        step = np.zeros(len(rows) - 1, np.int8)
        step[same_group] = self.compare(rows[:-1][same_group], self, rows[1:][same_group])
        wrong = step > 0
        if wrong.any():
            dirty = np.isin(group, group[1:][wrong])
            unsorted = rows[dirty]
            words = [*self._all_words(unsorted)]
            rows[dirty] = unsorted[np.lexsort([*reversed(words), group[dirty]])]
            order[positions] = rows
            step[same_group] = self.compare(rows[:-1][same_group], self, rows[1:][same_group])
        settled = differs.copy()
        settled[positions[:-1][same_group]] = step[same_group] != 0
        return order, settled

    def _all_words(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        for column in self._columns:
            for number in range(column.width):
                yield column.chunk(number, rows)
            if isinstance(column, VariableWidthKeys):
                yield column.length(rows)

    def _words_with(self, other: NormalizedKeys) -> Iterator[tuple[KeyColumn, KeyColumn, int]]:
        """Yield the columns of both sides and the numbers of their words, the most significant
        first."""
        for mine, theirs in zip(self._columns, other._columns, strict=True):
            for number in range(max(mine.width, theirs.width)):
                yield mine, theirs, number
            if mine.tail:
                yield mine, theirs, LENGTH

    def _equal_range(self, bound: KeyBound) -> tuple[int, int]:
        low, high = 0, self._length
        for column, (words, length) in zip(self._columns, bound, strict=True):
            for number in range(max(column.width, len(words))):
                value = words[number] if number < len(words) else 0
                if number < column.width:
                    rows = slice(low, high)
                    low, high = _narrow(column.chunk(number, rows), value, low)
                elif value:
                    return high, high
                if low == high:
                    return low, high
            if isinstance(column, VariableWidthKeys):
                low, high = _narrow(column.length(slice(low, high)), length, low)
        return low, high


def sort_within_groups(order: np.ndarray, starts: np.ndarray, by: NormalizedKeys) -> np.ndarray:
    """Sort the rows of each group by other columns; equal ones keep their order.

    Args:
        order: row numbers, group after group.
        starts: where in the order each group starts.
        by: the columns of all rows.
    """
    sizes = np.diff(starts, append=len(order))
    several = sizes > 1
    if not several.any():
        return order
    in_several = np.repeat(several, sizes)
    positions = np.flatnonzero(in_several)
    group = np.repeat(np.arange(len(starts)), sizes)[positions]
    rows = order[positions]
    words = [*by._all_words(rows)]
    sorted_order = order.copy()
    sorted_order[positions] = rows[np.lexsort([*reversed(words), group])]
    return sorted_order


def _search_words(here: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Search as `NormalizedKeys.search`, where one word is all of a key."""
    low = np.searchsorted(here, there)
    if not len(here):
        return low, np.zeros(len(there), bool)
    return low, here.take(low, mode="clip") == there


def _word(column: KeyColumn, number: int, rows: np.ndarray) -> np.ndarray:
    if number == LENGTH and isinstance(column, VariableWidthKeys):
        return column.length(rows)
    if number < column.width:
        return column.chunk(number, rows)
    return np.zeros(len(rows), np.uint64)


def _bound_of(column: KeyColumn, at: np.ndarray) -> tuple[tuple[int, ...], int]:
    words = [int(column.chunk(number, at)[0]) for number in range(column.width)]
    if isinstance(column, FixedWidthKeys):
        return tuple(words), 0
    while words and not words[-1]:
        words.pop()
    return tuple(words), int(column.length(at)[0])


def _narrow(values: np.ndarray, value: int, offset: int) -> tuple[int, int]:
    """Return the range of the sorted values that equal ``value``, counted from ``offset``."""
    exact = values.dtype.type(value)
    low = np.searchsorted(values, exact, "left")
    high = np.searchsorted(values, exact, "right")
    return offset + int(low), offset + int(high)
