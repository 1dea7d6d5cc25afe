"""Aggregation of overlapping windows, each row into one slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.aggregates.merging import Numbers
from pkray.relational.continuous.operators.windows.event_time import as_times, micros, tick
from pkray.relational.continuous.operators.windows.open_groups import NEVER, ROWS, OpenGroups
from pkray.relational.continuous.operators.windows.slice_sums import Cut, Together, put_together
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.plan.nodes import Aggregate

MILLI = 1000


@operates(Aggregate, when=lambda node: node.slices is not None)
class SliceAggregate(Operator):
    """Keeps the groups of slices, and gives windows, put together of them, when they are over.

    A row is late for those of its windows that are over, and counts in the others. What is kept of
    slices that get no rows but such ones is held in memory as well, as it is read for each window.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        bounds = node.input.window_bounds()
        assert bounds is not None
        assert node.slices is not None
        self._bounds = bounds
        self._cut = Cut.from_nodes(node.slices, bounds.window)
        self._open = OpenGroups(node, context, bounds, self._cut.last_ends)
        self._tick = tick(node.input.fields[self._open.end].type)
        self._listed: pa.Table | None = None
        self._rows: pa.Table | None = None
        self._rows_until: int | None = None

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        passed = None if epoch.watermark is None else epoch.watermark + self._tick
        changes = self._in_time(inputs[0], passed, epoch)
        if len(changes):
            self._open.take(changes, epoch)
            if self._rows_until is not None and self._is_among(self._rows_until, changes):
                self._rows = self._rows_until = None
        if not epoch.ends:
            return Changes.none(self.node.fields)
        until = NEVER if epoch.next_watermark is None else epoch.next_watermark + self._tick
        made = self._fired(passed, until)
        self._forget(until, epoch)
        return made

    def _is_among(self, until: int, changes: Changes) -> bool:
        """Whether a change is of a slice that ends until then."""
        return bool((micros(changes.column(self._open.end)) <= until).any())

    def _in_time(self, changes: Changes, passed: int | None, epoch: Epoch) -> Changes:
        if not len(changes) or passed is None:
            return changes
        ends = micros(changes.column(self._open.end))
        late = np.flatnonzero(ends <= passed)
        if not len(late):
            return changes
        rows, windows = self._cut.windows(ends[late], None, passed)
        missed = changes.take(late[rows])
        missed = missed.with_rows(self._with_bounds(missed.rows, windows))
        self.context.late(0, missed, epoch)
        kept = np.ones(len(changes), bool)
        kept[late] = self._cut.last_ends(ends[late]) > passed
        return changes.where(kept)

    def _with_bounds(self, rows: pa.RecordBatch, ends: np.ndarray) -> pa.RecordBatch:
        """Put the bounds of windows in the place of those of slices."""
        columns = [
            self._bound(field.name, ends, field.type) or column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        return batch_of(columns, rows.schema, rows.num_rows)

    def _bound(self, name: str, ends: np.ndarray, kind: pa.DataType) -> pa.Array | None:
        if name in self._bounds.start:
            return as_times(self._cut.starts(ends), kind)
        if name in self._bounds.end:
            return as_times(ends, kind)
        return as_times(ends - MILLI, kind) if name in self._bounds.time else None

    def _fired(self, passed: int | None, until: int) -> Changes:
        if self._listed is None:
            self._listed = self._open.listed()
        self._listed = pa.concat_tables([self._listed, self._open.fresh()])
        if not len(self._listed):
            return Changes.none(self.node.fields)
        rows = self._complete(until)
        if not len(rows):
            return Changes.none(self.node.fields)
        names = [name for name in self._open.names if name != self._open.end]
        numbers = codes([rows[name] for name in names], len(rows))
        first = numbers.first_rows()
        keys = [rows[name].take(pa.array(first)).combine_chunks() for name in names]
        order = np.asarray(pc.sort_indices(identified(keys, numbers.count)))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        kept = [column.combine_chunks() for column in rows.columns[len(self.node.keys) + 2 :]]
        parts, restored = self._open.fold.mergeable(kept)
        together = put_together(
            self._cut,
            micros(rows[self._open.end].combine_chunks()),
            places[numbers.of_row],
            [Numbers(integers(rows[ROWS].combine_chunks())), *parts],
            passed,
            until,
        )
        if not len(together.ends):
            return Changes.none(self.node.fields)
        chosen = pa.array(order[together.keys])
        return self._given(
            together,
            dict(zip(names, (key.take(chosen) for key in keys), strict=True)),
            restored(together.values[1:]),
        )

    def _given(
        self, together: Together, keys: dict[str, pa.Array], kept: Sequence[pa.Array]
    ) -> Changes:
        fields = self.node.input.fields
        columns = []
        for name in self.node.keys:
            bound = self._bound(name, together.ends, fields[name].type.arrow)
            columns.append(keys[name] if bound is None else bound)
        groups = Groups.of_keys(Changes.none(fields), self.node.keys, columns)
        columns += self._open.fold.results(kept, together.values[0], groups)
        return Changes.of_kind(batch_of(columns, self.node.fields.arrow, len(together.ends)))

    def _complete(self, until: int) -> pa.Table:
        """Give what is kept of slices that have ended."""
        assert self._listed is not None
        ends = micros(self._listed[self._open.end].combine_chunks())
        mask = ends <= until
        if self._rows_until is not None:
            mask &= ends > self._rows_until
        _, found = self._open.get(self._listed.filter(pa.array(mask)))
        rows = pa.Table.from_batches([found.rows])
        self._rows = rows if self._rows is None else pa.concat_tables([self._rows, rows])
        self._rows_until = until
        return self._rows

    def _forget(self, until: int, epoch: Epoch) -> None:
        """Forget slices whose last window is over."""
        gone = self._open.ended(until, epoch)
        if len(gone):
            self._open.forget(self._open.groups(gone))
        self._listed = self._still_open(self._listed, until)
        self._rows = self._still_open(self._rows, until)

    def _still_open(self, rows: pa.Table | None, until: int) -> pa.Table | None:
        if rows is None or not len(rows):
            return rows
        last = self._cut.last_ends(micros(rows[self._open.end].combine_chunks()))
        return rows.filter(pa.array(last > until)).combine_chunks()
