"""Changelogs completed by key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned
from pkray.relational.continuous.operators.replacement import replaced
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Normalize, Scan
from pkray.schema.row_kind import UPDATE_BEFORE


@operates(Normalize)
class CompleteByKey(Operator):
    """Keeps the row of each key: repeats vanish, updates and deletes get the row before.

    Of a source that tells the rows before updates, these are left out: one that comes again takes
    no newer row away, and the row after it says all.
    """

    def __init__(self, node: Normalize, context: Context) -> None:
        super().__init__(node, context)
        self._state = context.open_state(StateSpec(node.fields.arrow))
        sources = [each.source for each in node.walk() if isinstance(each, Scan)]
        self._tells_before = any(each.mode == "all" for each in sources)

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        return identified(changes.columns(keys), len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if self._tells_before:
            changes = changes.where(changes.kinds != UPDATE_BEFORE)
        if not len(changes):
            return changes
        groups = Groups.from_changes(changes, self.node.keys, epoch)
        found = self._state.get(groups.keys)
        was = np.zeros(groups.count, bool)
        was[found.positions] = True
        last = np.zeros(groups.count, np.int64)
        last[groups.of_row] = np.arange(len(changes))
        there = changes.adds[last]
        before = aligned(found, groups.count)
        after = [column.take(pa.array(last)) for column in changes.rows.columns]
        kept = pa.array(np.flatnonzero(there))
        self._state.put(groups.keys.take(kept), [column.take(kept) for column in after])
        self._state.remove(groups.keys.take(pa.array(np.flatnonzero(was & ~there))))
        return replaced(
            self.node.fields, self.context, groups.first, (), (before, was), (after, there)
        )
