"""Rows that are counted: DISTINCT, UNION, INTERSECT and EXCEPT. NULLs are equal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of, with_schema
from pkray.relational.continuous.changes import Changes, concatenated, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Distinct, SetKind, SetOperation
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


@operates(Distinct)
@operates(SetOperation, when=lambda node: node.kind is not SetKind.UNION or not node.all)
class CountedRows(Operator):
    """Keeps how often each row is on each side; the counts say how often it comes out."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._sides = ("left", "right")[: len(node.inputs)]
        counts = [pa.field(f"{side}_count", pa.int64()) for side in self._sides]
        self._state = context.open_state(StateSpec(pa.schema([*node.fields.arrow, *counts])))
        self._again = context.expires and "U" in context.mode.kinds and _is_union(node)

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        return identified(with_schema(changes.rows, self.node.fields.arrow).columns, len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        schema = self.node.fields.arrow
        parts = [each.with_rows(with_schema(each.rows, schema)) for each in inputs]
        changes = concatenated(self.node.fields, parts)
        if not len(changes):
            return changes
        groups = Groups.from_changes(changes, self.node.fields.names, epoch)
        found = aligned(self._state.get(groups.keys), groups.count)[len(schema) :]
        before = np.stack([integers(each) for each in found])
        side = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
        after = np.stack(
            [
                counted(groups.of_row[side == number], groups.signs[side == number], earlier)[0]
                for number, earlier in enumerate(before)
            ]
        )
        self._remember(groups, before, after)
        return self._changed(groups, _times(self.node, before), _times(self.node, after))

    def _remember(self, groups: Groups, before: np.ndarray, after: np.ndarray) -> None:
        there, known = (np.asarray(each.any(axis=0)) for each in (after, before))
        unchanged = (before == after).all(axis=0) & (not self.context.expires)
        values = [*groups.columns, *map(pa.array, after)]
        self._state.change(groups.keys, values, there & ~unchanged, known & ~there)

    def _changed(self, groups: Groups, before: np.ndarray, after: np.ndarray) -> Changes:
        """Give each row as often as it comes or goes more."""
        times, order = np.abs(after - before), groups.in_order
        rows = np.repeat(order, times[order])
        kinds = np.where((after > before)[rows], INSERT, DELETE).astype(np.int8)
        if self._again:
            same = np.flatnonzero((before > 0) & (before == after))
            repeated = [UPDATE_BEFORE, UPDATE_AFTER] if self.context.mode.before else [UPDATE_AFTER]
            rows = np.concatenate([rows, np.repeat(same, len(repeated))])
            kinds = np.concatenate([kinds, np.tile(np.array(repeated, np.int8), len(same))])
            sequence = np.argsort(groups.first[rows], kind="stable")
            rows, kinds = rows[sequence], kinds[sequence]
        columns = taken(groups.columns, rows)
        return Changes(batch_of(columns, self.node.fields.arrow, len(rows)), kinds)


def _is_union(node: Any) -> bool:
    return isinstance(node, Distinct) or node.kind is SetKind.UNION


def _times(node: Any, counts: np.ndarray) -> np.ndarray:
    """Say how often a row is in the result, by how often it is on the left and on the right."""
    if _is_union(node):
        result: np.ndarray = (counts.sum(axis=0) > 0).astype(np.int64)
        return result
    left, right = counts
    if node.kind is SetKind.INTERSECT:
        least = np.minimum(left, right)
        return least if node.all else np.minimum(least, 1)
    if node.all:
        return np.maximum(left - right, 0)
    return ((left > 0) & (right == 0)).astype(np.int64)
