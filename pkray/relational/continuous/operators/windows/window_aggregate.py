"""Aggregation within windows: results come when the watermark passes a window's end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.fold import Fold
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.operators.windows.event_time import micros, passed, tick
from pkray.relational.continuous.operators.windows.waiting import Due, Waiting
from pkray.relational.local.batches import batch_of
from pkray.relational.plan.nodes import Aggregate
from pkray.relational.plan.windowing import is_windowed, window_bounds

ARRIVAL, ROWS = "arrival", "rows"
"""When the first row of a group came, and how many rows it has."""


@operates(Aggregate, when=is_windowed)
class WindowAggregate(Operator):
    """Keeps the groups of open windows; gives and forgets them when their windows are over.

    Added rows of windows that are over are late. Retracted ones are swallowed: what they would
    change was given already.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        bounds = window_bounds(node.input)
        assert bounds is not None
        self._end = next(name for name in node.keys if name in bounds.end)
        self._tick = tick(node.input.fields[self._end].type)
        self._fold = Fold(node, retracts=not context.inputs[0].is_append)
        keys = list(node.input.fields.only(node.keys).arrow)
        counts = [pa.field(ARRIVAL, pa.int64()), pa.field(ROWS, pa.int64())]
        self._open = Waiting(context, pa.schema([*keys, *counts, *self._fold.columns]))
        self._fold.open(context)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        changes = self._in_time(inputs[0], epoch)
        if len(changes):
            self._take(Groups.from_changes(changes, self.node.keys, epoch))
        if not epoch.ends or epoch.next_watermark is None:
            return Changes.none(self.node.fields)
        over = self._open.due(epoch.next_watermark + self._tick)
        return concatenated(self.node.fields, [self._given(due) for due in over])

    def _in_time(self, changes: Changes, epoch: Epoch) -> Changes:
        if not len(changes) or epoch.watermark is None:
            return changes
        late = passed(micros(changes.column(self._end)), epoch.watermark, self._tick)
        if late.any():
            self.context.late(0, changes.where(late & changes.adds).rows, epoch)
        return changes.where(~late)

    def _take(self, groups: Groups) -> None:
        """Put changes into the groups of open windows."""
        ends = micros(self._end_of(groups.columns))
        found = aligned(self._open.get(ends, self._others(groups.columns)), groups.count)
        arrival, rows_found, *before = found[1 + len(self.node.keys) :]
        rows_before = integers(rows_found)
        rows, kept = counted(groups.of_row, groups.signs, rows_before)
        came = pc.coalesce(arrival, pa.array(groups.arrivals[groups.first]))
        groups = groups.moving(rows_before > 0, rows > 0, kept)
        after = self._fold.advance(before, groups)
        there = np.flatnonzero(groups.there)
        values = [each.take(pa.array(there)) for each in (*groups.columns, came)]
        values += [each.take(pa.array(there)) for each in (pa.array(rows), *after)]
        self._open.put(ends[there], self._others(values), values)
        gone = np.flatnonzero(groups.was & ~groups.there)
        keys = [each.take(pa.array(gone)) for each in groups.columns]
        self._open.remove(ends[gone], self._others(keys))

    def _given(self, due: Due) -> Changes:
        """Give the results of windows that are over, in the order in which their rows came."""
        rows = due.rows.take(pa.array(np.lexsort([due.rows.column(ARRIVAL), due.times])))
        count = len(self.node.keys)
        keys, (_, counts, *kept) = rows.columns[:count], rows.columns[count:]
        nothing = Changes.none(self.node.input.fields)
        groups = Groups.of_keys(nothing, self.node.keys, keys)
        results = self._fold.results(kept, integers(counts), groups)
        self._fold.forget(groups.keys)
        return Changes.of_kind(batch_of([*keys, *results], self.node.fields.arrow, len(counts)))

    def _end_of(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[self.node.keys.index(self._end)]

    def _others(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Give the keys beside the window's end."""
        keys = zip(self.node.keys, columns, strict=False)
        return [column for name, column in keys if name != self._end]
