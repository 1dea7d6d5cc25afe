"""The rows of windows that are still open, and those of windows that are over.

Rows are kept by the ends of their windows. Where the input takes rows back, equal rows of a window
are one with a count; else rows are told apart by their arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes, take
from pkray.relational.continuous.operator import Context, Epoch
from pkray.relational.continuous.operators.aggregates.groups import counted
from pkray.relational.continuous.operators.windows.event_time import micros, on_time, tick
from pkray.relational.continuous.operators.windows.waiting import Due, Waiting
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.source import Source, Watermark

COPIES = "$copies"
"""The column that says how many equal rows of a window there are."""


class HeldWindows:
    """Keeps the rows of one input of an operator until their windows are over.

    Args:
        fields: the input's columns.
        end: which of them is the window's end.
        keys: which of them bring rows together, whatever their windows.
        index: of the input.
    """

    def __init__(
        self, context: Context, fields: Fields, end: str, keys: Sequence[str], index: int
    ) -> None:
        self._context = context
        self._index = index
        self._end = end
        self._keys = keys
        self._tick = tick(fields[end].type)
        self._appends = context.inputs[index].is_append
        columns = fields.arrow
        if not self._appends:
            columns = columns.append(pa.field(COPIES, pa.int64()))
        self._waiting = Waiting(context, columns, index=index, keys=keys)

    def put(self, changes: Changes, epoch: Epoch) -> None:
        """Add and take back rows of open windows; those of windows that are over are left out."""
        if not len(changes):
            return
        ends = micros(changes.column(self._end))
        kept = on_time(self._context, self._index, changes, ends, epoch, self._tick)
        if len(kept) < len(ends):
            changes, ends = changes.take(kept), ends[kept]
        if self._appends:
            arrivals = pa.repeat(pa.scalar(epoch.arrival, pa.int64()), len(changes))
            # several workers number their rows alike, but each has keys of its own
            by = [arrivals, pa.array(kept.astype(np.int32)), *changes.columns(self._keys)]
            self._waiting.put(ends, by, changes.rows.columns)
        elif len(changes):
            self._count(changes, ends)

    def _count(self, changes: Changes, ends: np.ndarray) -> None:
        """Change how many equal rows there are."""
        groups = codes(changes.rows.columns, len(changes))
        first = groups.first_rows()
        rows, ends = take(changes.rows, first), ends[first]
        found = self._waiting.get(ends, rows.columns)
        before = found.numbers(COPIES, groups.count)
        after, _ = counted(groups.of_row, changes.signs, before)
        there, gone = np.flatnonzero(after > 0), np.flatnonzero((after == 0) & (before > 0))
        kept = take(rows, there).columns
        self._waiting.put(ends[there], kept, [*kept, pa.array(after[there])])
        self._waiting.remove(ends[gone], take(rows, gone).columns)

    def due(self, watermark: int | None) -> Iterator[Due]:
        """Give the rows of the windows that are over, in the order of the windows, in pages."""
        until = None if watermark is None else watermark + self._tick
        for page in self._waiting.due(until):
            if self._appends:
                yield page
                continue
            copies = np.asarray(page.rows.column(page.rows.num_columns - 1))
            numbers = np.repeat(np.arange(len(copies)), copies)
            rows = page.rows.select(page.rows.schema.names[:-1])
            yield Due(page.times[numbers], take(rows, numbers))


class DueRows(Source):
    """Rows of windows that are over, to be read once at a time by a bounded run."""

    primary_key: tuple[str, ...] = ()
    mode = "insert"
    watermark: Watermark | None = None

    def __init__(self, fields: Fields) -> None:
        self.name = "rows of windows that are over"
        self.rows: Iterator[pa.RecordBatch] = iter(())
        self.fields = fields

    def batches(self, columns: Sequence[str], condition: object = None) -> Iterator[pa.RecordBatch]:
        """Give the rows; a condition leaves none out."""
        return self.rows
