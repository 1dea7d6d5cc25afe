"""Rows that wait for a moment of event time, of which most come before their epoch ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.windows.waiting import Due, Waiting
from pkray.relational.local.batches import batch_of, whole

MOST_BYTES = 64 << 20
"""Rows of an epoch that are held in memory: with its copies about what a state holds there."""


class _Rows(NamedTuple):
    """Rows that were put: their moments, what tells them apart, and what is kept of them."""

    times: np.ndarray
    by: pa.RecordBatch
    values: pa.RecordBatch

    def take(self, numbers: np.ndarray) -> _Rows:
        chosen = pa.array(numbers)
        return _Rows(self.times[numbers], self.by.take(chosen), self.values.take(chosen))


class Recent:
    """Keeps rows until event time passes them: those of an epoch in memory until it ends.

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

    def put(self, times: np.ndarray, by: Sequence[pa.Array], values: Sequence[pa.Array]) -> None:
        """Keep rows, or newer ones in the place of those that are known by the same: as
        `Waiting.put`."""
        if not len(times):
            return
        known = pa.RecordBatch.from_arrays(list(by), names=[f"by{i}" for i in range(len(by))])
        self._rows.append(_Rows(times, known, batch_of(values, self._columns, len(times))))
        self._bytes += self._rows[-1].values.nbytes
        if self._bytes > MOST_BYTES:
            self.settled()

    def settled(self) -> Waiting:
        """Give what keeps the rows between epochs, with all of them in it."""
        for rows in self._rows:
            self._waiting.put(rows.times, rows.by.columns, rows.values.columns)
        self._rows, self._bytes = [], 0
        return self._waiting

    def due(self, until: int | None) -> Iterator[Due]:
        """Give the rows whose moment is `until` or before, in order, and forget them; of those that
        are known by the same, all that came in this epoch, the newest last.

        To be called, and read to its end, when an epoch ends.
        """
        recent = self._due_of_epoch(until)
        for page in self._waiting.due(until):
            count = int(np.searchsorted(recent.times, page.times[-1], side="right"))
            yield _merged(page, Due(recent.times[:count], recent.rows.slice(0, count)))
            recent = Due(recent.times[count:], recent.rows.slice(count))
        if len(recent.times):
            yield recent

    def _due_of_epoch(self, until: int | None) -> Due:
        """Take the rows in memory that are due; the others go to what keeps them."""
        taken, self._rows, self._bytes = self._rows, [], 0
        parts = []
        for rows in taken:
            due = rows.times <= until if until is not None else np.zeros(len(rows.times), bool)
            if not due.all():
                later = rows.take(np.flatnonzero(~due))
                self._waiting.put(later.times, later.by.columns, later.values.columns)
                rows = rows.take(np.flatnonzero(due))
            parts.append(Due(rows.times, rows.values))
        if not parts:
            return Due(np.zeros(0, np.int64), _joined(self._columns, []))
        times = np.concatenate([part.times for part in parts])
        return _ordered(times, _joined(self._columns, [part.rows for part in parts]))


def _merged(one: Due, other: Due) -> Due:
    if not len(other.times):
        return one
    rows = _joined(one.rows.schema, [one.rows, other.rows])
    return _ordered(np.concatenate([one.times, other.times]), rows)


def _ordered(times: np.ndarray, rows: pa.RecordBatch) -> Due:
    if bool((times[1:] >= times[:-1]).all()):
        return Due(times, rows)
    order = np.argsort(times, kind="stable")
    return Due(times[order], rows.take(pa.array(order)))


def _joined(schema: pa.Schema, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(parts, schema=schema)
    return batch_of([whole(column) for column in table.columns], schema, table.num_rows)
