"""Pairs of rows: what changes of one side match on the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import spread
from pkray.columns.keys import codes
from pkray.relational.continuous.operators.joins.join_sides import Delta, Held
from pkray.relational.local.pairs import Sides, checked_pairs

BLOCK_PAIRS = 1 << 22
"""Pairs that are checked at a time: where a condition keeps few, the others take no memory."""


def matched(
    sides: Sides, is_left: bool, ours: pa.RecordBatch, of_row: np.ndarray, held: Held
) -> tuple[np.ndarray, np.ndarray]:
    """Pair rows of one side with rows of the other that have equal keys and meet the condition.

    Args:
        is_left: whether `ours` are rows of the left side.
        of_row: int64, for each of them the number of its key in ``held.keys``; -1: none.

    Returns:
        int64 numbers of our rows, ascending, and of the rows that are held.
    """
    starts, sizes = held.ranges(of_row)
    mine, theirs = (pa.Table.from_batches([each]) for each in (ours, held.rows))
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for begin, end in _blocks(sizes):
        rows = np.repeat(np.arange(begin, end), sizes[begin:end])
        others = spread(starts[begin:end], sizes[begin:end])
        if is_left:
            found += checked_pairs(sides, mine, theirs, rows, others)
        else:
            turned = checked_pairs(sides, theirs, mine, others, rows)
            found += [(each, other) for other, each in turned]
    return (
        np.concatenate([each for each, _ in found]),
        np.concatenate([other for _, other in found]),
    )


def _blocks(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rows that have so many pairs each into ranges of at most `BLOCK_PAIRS`, or one row."""
    ends, begin, before = np.cumsum(sizes), 0, 0
    while begin < len(sizes):
        end = max(int(np.searchsorted(ends, before + BLOCK_PAIRS, side="right")), begin + 1)
        yield begin, end
        begin, before = end, int(ends[end - 1])


@dataclass(frozen=True)
class Pairs:
    """Rows of a delta beside rows of the other side that they match.

    Attributes:
        rows: int64, numbers of the delta's rows, ascending.
        others: int64, numbers of the other side's rows.
        tallies: for each tally of matches that is kept, whether each pair counts in it.
    """

    delta: Delta
    held: Held
    rows: np.ndarray
    others: np.ndarray
    tallies: tuple[np.ndarray, ...]

    @classmethod
    def from_equal_keys(
        cls, sides: Sides, is_left: bool, delta: Delta, held: Held, of_row: np.ndarray
    ) -> Self:
        """Pair rows of equal keys that meet the condition.

        Args:
            is_left: whether the delta is of the left side.
            of_row: int64, for each row of the delta the number of its key in ``held.keys``.
        """
        rows, others = matched(sides, is_left, delta.rows, of_row, held)
        return cls(delta, held, rows, others, (np.ones(len(rows), bool),))

    def compared(self, ours: str, theirs: str) -> Self:
        """Compare one column as IN does: leave pairs that differ, tally equal and unknown ones."""
        mine = self.delta.rows.column(self.delta.rows.schema.get_field_index(ours))
        yours = self.held.rows.column(self.held.rows.schema.get_field_index(theirs))
        both = pa.concat_arrays([mine, yours])
        numbers, null = codes([both], len(both)).of_row, np.asarray(pc.is_null(both))
        others = self.others + len(mine)
        unknown = null[self.rows] | null[others]
        equal = ~unknown & (numbers[self.rows] == numbers[others])
        kept = np.flatnonzero(equal | unknown)
        tallies = (equal[kept], unknown[kept])
        return replace(self, rows=self.rows[kept], others=self.others[kept], tallies=tallies)

    def matches(self) -> np.ndarray:
        """Count the matches of each row of the delta: int64, one row a tally."""
        copies = self.held.copies[self.others]
        found = [np.bincount(self.rows, copies * each, len(self.delta)) for each in self.tallies]
        return np.stack(found).astype(np.int64)

    def gains(self) -> np.ndarray:
        """Count the matches that each row of the other side gains, or loses where below 0."""
        signs, count = self.delta.signs[self.rows], len(self.held.copies)
        found = [np.bincount(self.others, signs * each, count) for each in self.tallies]
        return np.stack(found).astype(np.int64)

    def first_causes(self) -> np.ndarray:
        """Give for each row of the other side the first row of the delta that it meets; else -1."""
        return self._causes(slice(None, None, -1))

    def last_causes(self) -> np.ndarray:
        """Give for each row of the other side the last row of the delta that it meets; else -1."""
        return self._causes(slice(None))

    def _causes(self, order: slice) -> np.ndarray:
        result = np.full(len(self.held.copies), -1)
        result[self.others[order]] = self.rows[order]
        return result
