"""Rows of a file that are to be left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa


class DeletedRows(Protocol):
    """The rows of a file that are gone."""

    def within(self, first: int, count: int) -> np.ndarray:
        """Return their positions from ``first`` on, counted from there, in the next ``count``
        rows."""
        ...


def without_deleted(
    deleted: DeletedRows, batches: Iterable[pa.RecordBatch], ranges: Iterable[range]
) -> Iterator[pa.RecordBatch]:
    """Leave rows out.

    Args:
        ranges: the positions of the batches' rows in the file, in order.
    """
    positions = _Positions(ranges)
    for batch in batches:
        kept: np.ndarray | None = None
        for at, first, count in positions.take(batch.num_rows):
            gone = deleted.within(first, count)
            if len(gone):
                kept = np.ones(batch.num_rows, np.bool_) if kept is None else kept
                kept[gone + at] = False
        if kept is None:
            yield batch
        elif kept.any():
            yield batch.filter(pa.array(kept))


class _Positions:
    """Positions of rows in a file, of which some row groups are read."""

    def __init__(self, ranges: Iterable[range]) -> None:
        self._ranges = iter(ranges)
        self._rest = range(0)

    def take(self, rows: int) -> Iterator[tuple[int, int, int]]:
        """The next rows as (place among them, position in the file, count)."""
        at = 0
        while at < rows:
            while not self._rest:
                self._rest = next(self._ranges)
            count = min(len(self._rest), rows - at)
            yield at, self._rest[0], count
            self._rest = self._rest[count:]
            at += count
