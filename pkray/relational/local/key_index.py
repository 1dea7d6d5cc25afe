"""Rows of the held side of a join by their keys: which of them pair with each row of the other.

Keys become numbers from 0. Rows of a key lie side by side in an order, so that the pairs of a row
are a range of it, and pairs come out in pieces: of few keys there are as many as the product of
both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.columns.dense import SPREAD, extremes, is_whole_number, numbers_of, places_among
from pkray.columns.keys import argsort_numbers, codes, comparable

MOST_NUMBERS = 1 << 62
"""Numbers of several keys are packed into one below it."""


@dataclass(frozen=True)
class Numbered:
    """The values of one key column, as numbers from 0.

    Attributes:
        count: the numbers are below it.
        low: of whole numbers that lie close together, the least: its number is 0.
        distinct: of others, the values by their numbers.
    """

    count: int
    low: int = 0
    distinct: pa.Array | None = None

    @staticmethod
    def of(column: pa.Array, null_safe: bool) -> tuple[Numbered, np.ndarray]:
        """Number a column; -1 is NULL, unless NULL equals NULL."""
        if is_whole_number(column.type) and len(column) > column.null_count and not null_safe:
            low, high = extremes(numbers_of(column))
            if high - low < max(SPREAD * len(column), 1 << 16):
                dense = Numbered(high - low + 1, low)
                return dense, dense.numbers(column)
        encoded = column.dictionary_encode(null_encoding="encode" if null_safe else "mask")
        numbered = Numbered(len(encoded.dictionary), distinct=encoded.dictionary)
        return numbered, _plain(encoded.indices)

    def numbers(self, column: pa.Array) -> np.ndarray:
        """Find the numbers of values: int64, -1 where there is none."""
        if self.distinct is not None:
            return _plain(pc.index_in(column, value_set=self.distinct))
        places, inside = places_among(column, self.low, self.count)
        return places if inside is None else np.where(inside, places, -1)


def _plain(numbers: pa.Array) -> np.ndarray:
    filled = pc.fill_null(numbers, -1) if numbers.null_count else numbers
    return np.asarray(filled).astype(np.int64)


@dataclass(frozen=True)
class KeyIndex:
    """Rows of a table by their keys.

    Attributes:
        columns: each key's numbers.
        joined: for each key but the first, the numbers of those before with it.
        null_safe: for each key, whether NULL equals NULL.
        order: int64, the rows in the order of their keys' numbers.
        starts: int64, one a number, and the end: where in `order` its rows begin.
    """

    columns: tuple[Numbered, ...]
    joined: tuple[Numbered, ...]
    null_safe: tuple[bool, ...]
    order: np.ndarray
    starts: np.ndarray

    @staticmethod
    def of(keys: Sequence[pa.ChunkedArray], null_safe: Sequence[bool]) -> KeyIndex:
        """Index rows; none of their keys is nested."""
        columns, joined, numbers = [], [], np.zeros(0, np.int64)
        for place, (key, safe) in enumerate(zip(keys, null_safe, strict=True)):
            column, found = Numbered.of(_hashable(key), safe)
            if place:
                both, numbers = Numbered.of(_pair(numbers, found, column), False)
                joined.append(both)
            else:
                numbers = found
            columns.append(column)
        count = (joined or columns)[-1].count
        known = np.flatnonzero(numbers >= 0)
        sizes = np.bincount(numbers[known], minlength=count)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        if sizes.max(initial=0) <= 1:
            order = np.empty(len(known), np.int64)
            order[starts[numbers[known]]] = known
        else:
            order = known[argsort_numbers(numbers[known])]
        return KeyIndex(tuple(columns), tuple(joined), tuple(null_safe), order, starts)

    def ranges(self, keys: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
        """Find the ranges of `order` that rows of the other side pair with.

        Returns:
            int64 starts and lengths, one a row.
        """
        numbers = self.columns[0].numbers(_hashable(keys[0]))
        for key, column, both in zip(keys[1:], self.columns[1:], self.joined, strict=True):
            numbers = both.numbers(_pair(numbers, column.numbers(_hashable(key)), column))
        chosen = np.maximum(numbers, 0)
        sizes = np.diff(self.starts)
        if not len(sizes):
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        return self.starts[chosen], np.where(numbers >= 0, sizes[chosen], 0)


def _pair(first: np.ndarray, second: np.ndarray, column: Numbered) -> pa.Array:
    """Join numbers of two keys; NULL where one of them is none."""
    none = (first < 0) | (second < 0)
    return pa.array(first * np.int64(max(column.count, 1)) + second, mask=none)


def _hashable(column: pa.ChunkedArray) -> pa.Array:
    """Give a key as Arrow's hash tables compare it as plans do: floats by their bits."""
    array = whole(comparable(whole(column)))
    if pa.types.is_floating(array.type):
        return array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array


def alike(left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Number the values of nested keys of both sides; NULL stays NULL."""
    both = pa.chunked_array([*left.chunks, *right.chunks], left.type)
    made = pa.array(codes([both], len(both)).of_row, mask=np.asarray(whole(pc.is_null(both))))
    return made[: len(left)], made[len(left) :]


def cut_ranges(
    starts: np.ndarray, lengths: np.ndarray, most: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """List the places of ranges in pieces of at most so many, also within a range.

    Args:
        starts, lengths: int64, one a row.

    Yields:
        int64 numbers of rows, ascending, and beside each of them a place of its range.
    """
    if lengths.max(initial=0) <= 1:
        chosen = np.flatnonzero(lengths)
        for start in range(0, len(chosen), most):
            rows = chosen[start : start + most]
            yield rows, starts[rows]
        return
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    shift = starts - (ends - lengths)
    for start in range(0, total, most):
        end = min(start + most, total)
        low, high = np.searchsorted(ends, [start, end - 1], side="right")
        inside = slice(low, high + 1)
        counts = np.minimum(ends[inside], end) - np.maximum(ends[inside] - lengths[inside], start)
        rows = np.repeat(np.arange(low, high + 1), counts)
        yield rows, np.arange(start, end) + shift[rows]
