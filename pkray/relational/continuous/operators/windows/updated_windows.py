"""Aggregation within windows whose results come early, or change for late rows."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.groups import aligned
from pkray.relational.continuous.operators.replacement import replaced
from pkray.relational.continuous.operators.windows.event_time import MILLI, micros
from pkray.relational.continuous.operators.windows.open_groups import GroupLists, OpenGroups
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Aggregate

FOREVER = 1 << 62
"""A moment after all."""


class Delayed:
    """Groups whose results are given after a while, together with others of that while.

    Args:
        delay: microseconds of processing time; 0: at the end of the epoch.
    """

    def __init__(self, context: Context, keys: Fields, name: str, delay: int) -> None:
        self._delay = delay
        self._lists = GroupLists(context, keys.arrow, name) if delay else None

    def due(self, keys: pa.Table, epoch: Epoch) -> pa.Table:
        """Take groups that changed in an epoch; give those whose time has come."""
        if self._lists is None:
            return keys
        found = self._lists.due(MILLI * epoch.time)
        self._add(keys, epoch)
        return found

    def keep(self, wanted: Callable[[pa.Table], np.ndarray], epoch: Epoch) -> None:
        """Forget the groups that wait and are not wanted any more."""
        if self._lists is not None:
            waiting = self._lists.due(FOREVER)
            self._add(waiting.filter(pa.array(wanted(waiting))), epoch)

    def _add(self, keys: pa.Table, epoch: Epoch) -> None:
        """Let groups wait until the next multiple of the delay, as all do that wait."""
        assert self._lists is not None
        moment = (MILLI * epoch.time // self._delay + 1) * self._delay
        self._lists.add(keys, np.full(len(keys), moment), epoch)


@operates(Aggregate, when=lambda node: node.is_windowed() and node.updates_windows())
class UpdatedWindows(Operator):
    """Keeps the groups of windows until no row can come for them, and what was given of each.

    Results are given early where that is asked for, when the watermark passes a window's end, and
    again where they changed. A row is late when the watermark has passed the end of its window by
    the lateness that is allowed.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        bounds = node.input.window_bounds()
        assert bounds is not None
        window = bounds.window
        self._lateness = window.lateness
        self._open = OpenGroups(node, context, bounds)
        keys = self._open.keys
        self._over = GroupLists(context, keys.arrow, "over")
        self._early = (
            None if window.early is None else Delayed(context, keys, "early", window.early)
        )
        self._late = Delayed(context, keys, "late", window.late_delay)
        results = [field for field in node.fields.arrow if field.name not in node.keys]
        self._given = context.open_state(
            StateSpec(pa.schema([*keys.arrow, *results]), name="given")
        )
        self._touched: list[pa.Table] = []

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        changes = self._open.on_time(inputs[0], epoch, self._lateness)
        if len(changes):
            self._touched.append(self._open.take(changes, epoch))
        if not epoch.ends:
            return Changes.none(self.node.fields)
        until = self._open.until(epoch.next_watermark)
        made = self._results(self._changed(until, epoch))
        self._forget(self._over.due(until), until, epoch)
        return made

    def _changed(self, until: int, epoch: Epoch) -> pa.Table:
        """List the groups whose results are due."""
        keys = self._open.keys.arrow.empty_table()
        touched = pa.concat_tables([keys, *self._touched])
        self._touched = []
        ends = self._ends(touched)
        known = self._open.until(epoch.watermark)
        due = [self._late.due(touched.filter(pa.array(ends <= known)), epoch)]
        if self._early is not None:
            due.append(self._early.due(touched.filter(pa.array(ends > known)), epoch))
        over = self._open.ended(until, epoch)
        self._over.add(over, self._ends(over) + self._lateness, epoch)
        if len(over) and self._early is not None:
            self._early.keep(lambda keys: self._ends(keys) > until, epoch)
        return pa.concat_tables([*due, over])

    def _ends(self, keys: pa.Table) -> np.ndarray:
        return micros(keys[self._open.end].combine_chunks())

    def _results(self, keys: pa.Table) -> Changes:
        """Give the results of groups, where they are not what was given before."""
        if not len(keys):
            return Changes.none(self.node.fields)
        numbers = codes([keys[name] for name in self._open.names], len(keys))
        keys = keys.take(pa.array(numbers.first_rows())).combine_chunks()
        groups, found = self._open.get(keys)
        there = found.among(len(keys))
        count = keys.num_columns
        arrivals, rows, *kept = aligned(found, len(keys))[count:]
        results = self._open.fold.results(kept, integers(rows), groups)
        before = self._given.get(groups.keys)
        was = before.among(len(keys))
        columns = [column.combine_chunks() for column in keys.columns]
        self._given.change(groups.keys, [*columns, *results], there, was & ~there)
        first = np.empty(len(keys), np.int64)
        order = np.lexsort([integers(arrivals), self._ends(keys)])
        first[order] = np.arange(len(keys))
        given = aligned(before, len(keys))[count:]
        return replaced(
            self.node.fields, self.context, first, columns, (given, was), (results, there)
        )

    def _forget(self, listed: pa.Table, until: int, epoch: Epoch) -> None:
        """Forget groups of windows that take no rows any more."""
        moments = self._ends(listed) + self._lateness
        left = moments > until
        self._over.add(listed.filter(pa.array(left)), moments[left], epoch)
        gone = listed.filter(pa.array(~left))
        if len(gone):
            groups = self._open.groups(gone)
            self._open.forget(groups)
            self._given.remove(groups.keys)
            self._late.keep(lambda keys: self._ends(keys) + self._lateness > until, epoch)
