"""Lookup joins: left rows meet the right side as it is when they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.join_output import NEXT, JoinOutput
from pkray.relational.continuous.operators.joins.join_pairs import matched
from pkray.relational.continuous.operators.joins.join_sides import Asked, SideSpec
from pkray.relational.continuous.operators.joins.kept_sides import KeptSide
from pkray.relational.continuous.operators.joins.sourced_sides import sourced_side
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.batches import batch_of
from pkray.relational.local.joins import Sides
from pkray.relational.plan.nodes import Join, JoinKind, TemporalJoin


def _is_lookup(node: TemporalJoin) -> bool:
    """Whether the right side is met as it is, not as it was at a time of the left row."""
    return node.right_time is None


@operates(TemporalJoin, when=_is_lookup)
class Lookups(Operator):
    """Joins left rows with the right side after the epoch; its changes alone give nothing.

    Left rows are not kept: a retraction meets the right side as it is then.
    """

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        join = Join(
            node.left,
            node.right,
            node.kind,
            node.left_keys,
            node.right_keys,
            node.right_names,
            node.condition,
        )
        self._sides = Sides.of(join)
        right = self._sides.right
        spec = SideSpec(
            node.right,
            right,
            tuple(range(len(right))),
            node.right_keys,
            self._sides.null_safe,
            1,
        )
        self._right = sourced_side(node, spec, context) or KeptSide(spec, context)
        self._waiting: list[Changes] = []

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        left, right = inputs
        if len(right):
            delta = self._right.delta(right, epoch.arrival)
            self._right.write(delta, np.zeros((0, 0), np.int64))
        # left rows wait until all that the epoch brings on the right is there
        self._waiting.append(left)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        left, self._waiting = concatenated(self.node.left.fields, self._waiting), []
        return self._looked_up(left) if len(left) else Changes.none(self.node.fields)

    def _looked_up(self, left: Changes) -> Changes:
        output = JoinOutput(self.node.fields)
        rows = batch_of(left.rows.columns, self._sides.left.arrow, len(left))
        asked, of_row = self._asked(left)
        held = self._right.held(asked)
        numbers, others = matched(self._sides, True, rows, of_row, held)
        copies = held.copies[others]
        numbers, others = np.repeat(numbers, copies), np.repeat(others, copies)
        columns = [*take(rows, numbers).columns, *take(held.rows, others).columns]
        output.add(columns, left.kinds[numbers], numbers, NEXT)
        if self.node.kind is JoinKind.LEFT:
            alone = np.setdiff1d(np.arange(len(left)), numbers)
            nulls = [pa.nulls(len(alone), each.type) for each in self._sides.right.arrow]
            columns = [*take(rows, alone).columns, *nulls]
            output.add(columns, left.kinds[alone], alone, NEXT)
        return output.changes()

    def _asked(self, left: Changes) -> tuple[Asked, np.ndarray]:
        """Give the distinct keys of left rows, and for each row the number of its key or -1."""
        columns = left.columns(self.node.left_keys)
        valid = np.ones(len(left), bool)
        for column in columns:
            valid &= np.asarray(column.is_valid())
        kept = pa.array(np.flatnonzero(valid))
        keys = encoded([column.take(kept) for column in columns], len(kept)).dictionary_encode()
        of_row = np.full(len(left), -1)
        of_row[valid] = np.asarray(keys.indices)
        first = np.empty(len(keys.dictionary), np.int64)
        first[of_row[valid][::-1]] = np.flatnonzero(valid)[::-1]
        named = [column.take(pa.array(first)) for column in columns]
        return Asked(keys.dictionary, named), of_row
