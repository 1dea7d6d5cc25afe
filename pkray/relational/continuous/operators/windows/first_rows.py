"""The first row of each key by event time: it comes when the watermark passes it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import argsort, begins
from pkray.relational.continuous.changes import Changes, concatenated, named, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.ranked import waits_for_first
from pkray.relational.continuous.operators.windows.event_time import micros, on_time
from pkray.relational.continuous.operators.windows.waiting import Waiting
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import StateSpec, own_keys
from pkray.relational.plan.nodes import Deduplicate

_TIME = pa.schema([pa.field("time", pa.int64())])
_CANDIDATES = 1
"""The number of the states of keys whose row has not come: only the others expire."""


@operates(Deduplicate, when=waits_for_first)
class FirstRows(Operator):
    """Keeps of each key the first row so far, gives it at the watermark, and remembers the key."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._given = context.open_state(StateSpec(pa.schema([]), exchanged_by=own_keys))
        times = StateSpec(_TIME, index=_CANDIDATES, name="times", exchanged_by=own_keys)
        self._times = context.open_state(times)
        columns = node.input.fields.arrow
        self._rows = Waiting(context, columns, index=_CANDIDATES, keys=node.keys)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        self._take(inputs[0], epoch)
        made = []
        for page in self._rows.due(epoch.next_watermark if epoch.ends else None):
            keys = encoded(named(page.rows, self.node.keys), page.rows.num_rows)
            self._times.remove(keys)
            self._given.put(keys, [])
            columns = page.rows.columns
            if self.node.rank_name:
                columns = [*columns, pa.array(np.ones(page.rows.num_rows, np.int64))]
            rows = batch_of(columns, self.node.fields.arrow, page.rows.num_rows)
            made.append(Changes.of_kind(rows))
        return concatenated(self.node.fields, made)

    def _take(self, changes: Changes, epoch: Epoch) -> None:
        """Keep the rows that are the first of their keys so far."""
        if not len(changes):
            return
        times = micros(changes.column(self.node.order_by))
        kept = on_time(self.context, 0, changes, times, epoch)
        rows, times = take(changes.rows, kept), times[kept]
        keys, of_row = distinct(encoded(named(rows, self.node.keys), len(kept)))
        order = argsort([of_row, times], len(times))
        first = order[begins([of_row[order]], len(order))]  # by the numbers of their keys
        least = times[first]
        known = self._given.get(keys)
        is_first = np.ones(len(first), bool)
        is_first[known.positions] = False
        found = self._times.get(keys)
        before = np.asarray(found.column("time"))
        earlier = least[found.positions] < before
        is_first[found.positions] &= earlier
        gone = first[found.positions[earlier]]
        self._rows.remove(before[earlier], named(take(rows, gone), self.node.keys))
        new = np.flatnonzero(is_first)
        self._times.put(keys.take(new), [pa.array(least[new])])
        chosen = take(rows, first[new])
        self._rows.put(least[new], named(chosen, self.node.keys), chosen.columns)
