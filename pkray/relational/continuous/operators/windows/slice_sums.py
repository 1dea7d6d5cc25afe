"""Windows put together of slices: which slices a window has, and what they hold together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pkray.relational.continuous.operators.aggregates.merging import Numbers
from pkray.relational.plan.nodes import Slices, Window, WindowKind

MOST_CELLS = 1 << 21
"""Numbers of slices and keys that are added up at a time."""
WASTE = 8
"""Where a slice holds fewer than one key in so many, windows are put together row by row."""


@dataclass(frozen=True)
class Cut:
    """Cuts windows into slices; all in microseconds.

    Attributes:
        slice: the size of a slice.
        offset: of windows, and so of slices.
    """

    kind: WindowKind
    size: int
    step: int
    slice: int
    offset: int

    @classmethod
    def from_nodes(cls, slices: Slices, window: Window) -> Cut:
        return cls(slices.kind, slices.size, slices.step, window.size, window.offset)

    @property
    def count(self) -> int:
        """Slices of a window, of the longest one if they grow."""
        return self.size // self.slice

    def first_ends(self, ends: np.ndarray) -> np.ndarray:
        """Give the end of the first window that has each slice, by the slices' ends."""
        if self.kind is WindowKind.CUMULATE:
            return ends
        short = ends - self.offset - self.size
        return ends + (-short) % self.step

    def last_ends(self, ends: np.ndarray) -> np.ndarray:
        """Give the end of the last window that has each slice."""
        starts = ends - self.slice
        every = self.size if self.kind is WindowKind.CUMULATE else self.step
        return starts - (starts - self.offset) % every + self.size

    def starts(self, ends: np.ndarray) -> np.ndarray:
        """Give the start of windows by their ends."""
        if self.kind is WindowKind.CUMULATE:
            last = ends - self.slice
            return last - (last - self.offset) % self.size
        return ends - self.size

    def windows(
        self, ends: np.ndarray, after: int | None, until: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """List the windows of slices that end after one moment, and until another.

        Args:
            ends: of the slices.
            after: None: before all.

        Returns:
            the number of a slice, and the end of a window that has it.
        """
        first, last = self.first_ends(ends), np.minimum(self.last_ends(ends), until)
        if after is not None:
            first = first + np.maximum(-(-(after + 1 - first) // self.step), 0) * self.step
        counts = np.maximum((last - first) // self.step + 1, 0)
        rows = np.repeat(np.arange(len(ends)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, first[rows] + place * self.step

    def numbers(self, ends: np.ndarray) -> np.ndarray:
        """Number slices in the order of time."""
        return (ends - self.slice - self.offset) // self.slice


@dataclass(frozen=True)
class Together:
    """Holds the sums of slices put together, a row a window and key.

    Attributes:
        ends: of the windows, ascending.
        keys: int64, numbers.
        values: an array a part.
    """

    ends: np.ndarray
    keys: np.ndarray
    values: list[np.ndarray]


def put_together(
    cut: Cut,
    ends: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    after: int | None,
    until: int,
) -> Together:
    """Merge slices into the windows that end after one moment, and until another.

    Args:
        ends: of the slices, one a row.
        keys: int64, one a row, from 0; a slice has a key once.
        parts: the numbers to merge, an array each; the first counts rows.
    """
    _, due = cut.windows(np.unique(ends), after, until)
    due = np.unique(due)
    if not len(due):
        return Together(due, due, [each.values[:0] for each in parts])
    needed = cut.last_ends(ends) >= due[0]
    needed &= ends <= due[-1]
    rows = np.flatnonzero(needed)
    ends, keys = ends[rows], keys[rows]
    parts = [each.take(rows) for each in parts]
    numbers = cut.numbers(ends)
    first = int(numbers.min()) // cut.count * cut.count
    last = int(cut.numbers(due[-1:])[0])
    slices = -(-(last + 1 - first) // cut.count) * cut.count
    count = int(keys.max()) + 1
    expanded = len(rows) * min(len(due), cut.count)
    if slices * count > WASTE * expanded:
        return _row_by_row(cut, ends, keys, parts, after, until)
    width = max(MOST_CELLS // slices, 1)
    made = [
        _densely(cut, numbers - first, keys, parts, due, slices, slice(low, low + width), first)
        for low in range(0, count, width)
    ]
    if len(made) == 1:
        return made[0]
    joined = [np.concatenate(each) for each in zip(*(m.values for m in made), strict=True)]
    every = np.concatenate([each.ends for each in made])
    order = np.argsort(every, kind="stable")
    which = np.concatenate([each.keys for each in made])
    return Together(every[order], which[order], [each[order] for each in joined])


def _row_by_row(
    cut: Cut,
    ends: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    after: int | None,
    until: int,
) -> Together:
    in_time = np.argsort(ends, kind="stable")
    rows, windows = cut.windows(ends[in_time], after, until)
    rows = in_time[rows]
    order = np.lexsort([keys[rows], windows])
    rows, windows = rows[order], windows[order]
    owners = keys[rows]
    begins = np.flatnonzero(
        np.r_[True, (windows[1:] != windows[:-1]) | (owners[1:] != owners[:-1])]
    )
    values = [each.merge.reduceat(each.values[rows], begins) for each in parts]
    return Together(windows[begins], owners[begins], values)


def _densely(
    cut: Cut,
    numbers: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    due: np.ndarray,
    slices: int,
    some: slice,
    first: int,
) -> Together:
    """Merge by way of arrays with a place for each slice and key.

    The slices are in blocks as long as a window. What is merged from a block's begin, and to its
    end, gives each window with one more step: it is the end of one block and the begin of the next.
    """
    rows = np.flatnonzero((keys >= some.start) & (keys < some.stop))
    width = int(keys[rows].max(initial=some.start)) + 1 - some.start
    ends = cut.numbers(due) - first
    there: tuple[np.ndarray, ...] | None = None
    values = []
    for each in parts:
        cells = np.full((slices, width), each.identity, each.values.dtype)
        cells[numbers[rows], keys[rows] - some.start] = each.values[rows]
        blocks = cells.reshape(-1, cut.count, width)
        forwards = each.merge.accumulate(blocks, axis=1).reshape(slices, width)
        merged = forwards[ends]
        if cut.kind is WindowKind.HOP:
            backwards = each.merge.accumulate(blocks[:, ::-1], axis=1)[:, ::-1]
            begins = ends - cut.count + 1
            parted = np.flatnonzero(begins % cut.count)
            before = backwards.reshape(slices, width)[np.maximum(begins[parted], 0)]
            before[begins[parted] < 0] = each.identity
            merged[parted] = each.merge(before, merged[parted])
        if there is None:
            there = np.nonzero(merged > 0)
        values.append(merged[there])
    assert there is not None
    return Together(due[there[0]], there[1] + some.start, values)
