"""Rows that wait for a moment of event time, in memory as far as they have room there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.relational.continuous.changes import concat_rows
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.windows.waiting import Due, Waiting

MOST_BYTES = 128 << 20
"""Bytes of rows of one epoch that are held in memory, and so many of those that wait longer."""
MOST_RUNS = 64
"""Runs of rows in the order of their moments: so many are looked at when an epoch ends."""


class _Rows(NamedTuple):
    """Rows that were put: their moments, what tells them apart, and what is kept of them."""

    times: np.ndarray
    by: pa.RecordBatch
    values: pa.RecordBatch

    @property
    def nbytes(self) -> int:
        return int(self.by.nbytes + self.values.nbytes)

    def take(self, numbers: np.ndarray) -> _Rows:
        return _Rows(self.times[numbers], self.by.take(numbers), self.values.take(numbers))

    def slice(self, start: int, end: int) -> _Rows:
        by, values = (each.slice(start, end - start) for each in (self.by, self.values))
        return _Rows(self.times[start:end], by, values)

    def in_order(self) -> _Rows:
        """Give the rows in the order of their moments; those of one keep theirs."""
        if bool((self.times[1:] >= self.times[:-1]).all()):
            return self
        return self.take(np.argsort(self.times, kind="stable"))


class Recent:
    """Keeps rows until event time passes them.

    Those of an epoch are in memory until it ends. What waits longer is in the state, and stays in
    memory as well where all of it has room, so that it need not be read again.

    Args:
        columns: what is kept of each row.
        index: of the operator's input that the rows are of.
        name: tells states of one operator and input apart.
        keys: columns that are kept and by which the rows are brought together.
    """

    def __init__(
        self,
        context: Context,
        columns: pa.Schema,
        *,
        keys: Sequence[str],
        index: int = 0,
        name: str = "",
    ) -> None:
        self._columns = columns
        self._waiting = Waiting(context, columns, index=index, name=name, keys=keys)
        self._rows: list[_Rows] = []
        self._bytes = 0
        self._runs: list[_Rows] | None = None  # of all that waits, in order; None: not all is here

    def put(self, times: np.ndarray, by: Sequence[pa.Array], values: Sequence[pa.Array]) -> None:
        """Keep rows, or newer ones in the place of those that are known by the same: as
        `Waiting.put`."""
        if not len(times):
            return
        known = pa.RecordBatch.from_arrays(list(by), names=[f"by{i}" for i in range(len(by))])
        self._rows.append(_Rows(times, known, batch_of(values, self._columns, len(times))))
        self._bytes += self._rows[-1].nbytes
        if self._bytes > MOST_BYTES:
            self.settled()

    def settled(self) -> Waiting:
        """Give what keeps the rows between epochs, with all of them in it."""
        for rows in self._rows:
            self._waiting.put(rows.times, rows.by.columns, rows.values.columns)
        self._rows, self._bytes, self._runs = [], 0, None
        return self._waiting

    def due(self, until: int | None) -> Iterator[Due]:
        """Give the rows whose moment is `until` or before, in order, and forget them; of those that
        are known by the same, all that came since, the newest last.

        To be called, and read to its end, when an epoch ends.
        """
        if self._runs is None and self._waiting.next_moment is None:
            self._runs = []
        waited = self._due_of_runs(until)
        recent = self._due_of_epoch(until)
        if self._runs is not None:
            recent = _ordered(self._columns, [*waited, recent])
        else:
            for page in self._waiting.due(until):
                count = int(np.searchsorted(recent.times, page.times[-1], side="right"))
                passed = Due(recent.times[:count], recent.rows.slice(0, count))
                recent = Due(recent.times[count:], recent.rows.slice(count))
                yield _ordered(self._columns, [page, passed])
        self._shrink()
        if len(recent.times):
            yield recent

    def _due_of_runs(self, until: int | None) -> list[Due]:
        """Take what is due of the rows that waited; the state forgets it too."""
        found, left = [], []
        for rows in self._runs or ():
            count = 0 if until is None else int(np.searchsorted(rows.times, until, side="right"))
            if count:
                due = rows.slice(0, count)
                self._waiting.remove(due.times, due.by.columns)
                found.append(Due(due.times, due.values))
            if count < len(rows.times):
                left.append(rows.slice(count, len(rows.times)) if count else rows)
        if self._runs is not None:
            self._runs = left
        return found

    def _due_of_epoch(self, until: int | None) -> Due:
        """Take the rows of this epoch that are due; the others go to what keeps them."""
        taken, self._rows, self._bytes = self._rows, [], 0
        parts = []
        for given in taken:
            rows = given.in_order()
            count = 0 if until is None else int(np.searchsorted(rows.times, until, side="right"))
            if count < len(rows.times):
                later = rows.slice(count, len(rows.times))
                self._waiting.put(later.times, later.by.columns, later.values.columns)
                if self._runs is not None:
                    self._runs.append(later)
            parts.append(Due(rows.times[:count], rows.values.slice(0, count)))
        return _ordered(self._columns, parts)

    def _shrink(self) -> None:
        """Hold few runs in memory, or none where they take too much."""
        runs = self._runs or []
        if sum(rows.nbytes for rows in runs) > MOST_BYTES:
            self._runs = None
        elif len(runs) > MOST_RUNS:
            by = concat_rows(runs[0].by.schema, [rows.by for rows in runs])
            values = concat_rows(self._columns, [rows.values for rows in runs])
            times = np.concatenate([rows.times for rows in runs])
            self._runs = [_Rows(times, by, values).in_order()]


def _ordered(schema: pa.Schema, parts: Sequence[Due]) -> Due:
    """Join rows in the order of their moments; of one moment those of earlier parts come first."""
    filled = [part for part in parts if len(part.times)]
    if len(filled) == 1:
        return filled[0]
    rows = concat_rows(schema, [part.rows for part in filled])
    times = np.concatenate([np.zeros(0, np.int64), *(part.times for part in filled)])
    if bool((times[1:] >= times[:-1]).all()):
        return Due(times, rows)
    order = np.argsort(times, kind="stable")
    return Due(times[order], rows.take(pa.array(order)))
