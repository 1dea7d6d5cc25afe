"""Aggregation within windows: results come when the watermark passes a window's end."""

from collections.abc import Sequence

import numpy as np

from pkray.columns.batches import batch_of
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.windows.event_time import micros
from pkray.relational.continuous.operators.windows.open_groups import ARRIVAL, ROWS, OpenGroups
from pkray.relational.plan.nodes import Aggregate


def _gives_once(node: Aggregate) -> bool:
    """Whether results come when windows are over, and no slices are put together."""
    return node.is_windowed() and node.slices is None and not node.updates_windows()


@operates(Aggregate, when=_gives_once)
class WindowAggregate(Operator):
    """Keeps the groups of open windows; gives and forgets them when their windows are over.

    Added rows of windows that are over are late. Retracted ones are swallowed: what they would
    change was given already.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        bounds = node.input.window_bounds()
        assert bounds is not None
        self._open = OpenGroups(node, context, bounds)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        changes = self._open.on_time(inputs[0], epoch)
        if len(changes):
            self._open.take(changes, epoch)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        return self._fired(self._open.until(epoch.next_watermark), epoch)

    def _fired(self, until: int, epoch: Epoch) -> Changes:
        """Give the results of windows that are over, in the order in which their rows came."""
        keys = self._open.ended(until, epoch)
        if not len(keys):
            return Changes.none(self.node.fields)
        groups, found = self._open.get(keys)
        ends = micros(found.column(self._open.end))
        found = found.take(np.lexsort([found.column(ARRIVAL), ends]))
        columns = [found.column(name) for name in self.node.keys]
        kept = found.rows.columns[len(columns) + 2 :]
        rows = integers(found.column(ROWS))
        columns += self._open.fold.results(kept, rows, self._open.named(found))
        self._open.forget(groups)
        return Changes.of_kind(batch_of(columns, self.node.fields.arrow, len(ends)))
