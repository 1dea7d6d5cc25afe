"""Aggregation by groups."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.calls import Fold
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.operators.replacement import replaced
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Aggregate


@operates(Aggregate, when=lambda node: not node.is_windowed())
class GroupAggregate(Operator):
    """Keeps for each group how many rows it has, and what its aggregates are computed of.

    A group without rows goes. An aggregate without keys gives nothing before its first row.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        self._fold = Fold(node, retracts=not context.inputs[0].is_append)
        keys = list(node.input.fields.only(node.keys).arrow)
        schema = pa.schema([*keys, pa.field("rows", pa.int64()), *self._fold.columns])
        self._state = context.open_state(StateSpec(schema))
        self._fold.open(context)

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        return identified(changes.columns(keys), len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        groups = Groups.from_changes(changes, self.node.keys, epoch)
        found = aligned(self._state.get(groups.keys), groups.count)[len(self.node.keys) :]
        rows_before, before = integers(found[0]), found[1:]
        rows, kept = counted(groups.of_row, groups.signs, rows_before)
        groups = groups.moving(rows_before > 0, rows > 0, kept)
        after = self._fold.advance(before, groups)
        values = [*groups.columns, pa.array(rows), *after]
        self._state.change(groups.keys, values, groups.there, groups.was & ~groups.there)
        return replaced(
            self.node.fields,
            self.context,
            groups.first,
            groups.columns,
            (self._fold.results(before, rows_before, groups), groups.was),
            (self._fold.results(after, rows, groups), groups.there),
        )
