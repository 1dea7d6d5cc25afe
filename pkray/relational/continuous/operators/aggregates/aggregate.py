"""Aggregation by groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.calls import Calls
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.operators.replacement import replaced
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Aggregate
from pkray.relational.plan.windowing import is_windowed


@operates(Aggregate, when=lambda node: not is_windowed(node))
class GroupAggregate(Operator):
    """Keeps for each group how many rows it has, and what its aggregates are computed of.

    A group without rows goes. An aggregate without keys gives nothing before its first row.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        retracts = not context.inputs[0].is_append
        calls = Calls(node.input.fields, node.aggregates, retracts=retracts)
        self._computed = calls.computed
        self._accumulators = calls.accumulators
        keys = list(node.input.fields.only(node.keys).arrow)
        kept = [
            pa.field(f"{self._owner(place)}_{name}", kind)
            for place, each in enumerate(self._accumulators)
            for name, kind in each.columns
        ]
        schema = pa.schema([*keys, pa.field("rows", pa.int64()), *kept])
        self._state = context.open_state(StateSpec(schema))
        calls.open(context)
        ends = [0, *accumulate(len(each.columns) for each in self._accumulators)]
        self._places = {
            id(each): slice(start, end)
            for each, start, end in zip(self._accumulators, ends, ends[1:], strict=False)
        }

    def _owner(self, place: int) -> str:
        """Name the first aggregate that reads an accumulator."""
        part = self._accumulators[place]
        calls = zip(self.node.aggregates, self._computed, strict=True)
        return next(name for (name, _), each in calls if any(part is own for own in each.parts))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        groups = Groups.from_changes(changes, self.node.keys, epoch)
        found = aligned(self._state.get(groups.keys), groups.count)[len(self.node.keys) :]
        rows_before, before = integers(found[0]), found[1:]
        rows, kept = counted(groups.of_row, groups.signs, rows_before)
        groups = groups.moving(rows_before > 0, rows > 0, kept)
        after: list[pa.Array] = []
        for each in self._accumulators:
            after += each.advance(before[self._places[id(each)]], groups)
        self._remember(groups, [*groups.columns, pa.array(rows), *after])
        return replaced(
            self.node.fields,
            self.context,
            groups.first,
            groups.columns,
            (self._results(before, rows_before, groups), groups.was),
            (self._results(after, rows, groups), groups.there),
        )

    def _remember(self, groups: Groups, values: Sequence[pa.Array]) -> None:
        keys = groups.keys
        if groups.there.all():
            self._state.put(keys, values)
            return
        there = pa.array(np.flatnonzero(groups.there))
        self._state.put(keys.take(there), [each.take(there) for each in values])
        gone = pa.array(np.flatnonzero(groups.was & ~groups.there))
        self._state.remove(keys.take(gone))

    def _results(
        self, states: Sequence[pa.Array], rows: np.ndarray, groups: Groups
    ) -> list[pa.Array]:
        return [
            call.finish(
                [each for part in call.parts for each in states[self._places[id(part)]]],
                rows,
                groups,
            )
            for call in self._computed
        ]
