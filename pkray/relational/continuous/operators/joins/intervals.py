"""Joins of rows whose times are near: pairs come at once, rows without one when none can come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.join_output import NEXT, JoinOutput
from pkray.relational.continuous.operators.joins.near_side import (
    NearDelta,
    NearRows,
    NearSide,
    NearSpec,
)
from pkray.relational.local.pairs import JOINED_ROWS, Sides, keyed_pairs
from pkray.relational.local.temporal import near
from pkray.relational.plan.nodes import IntervalJoin, Join, JoinKind
from pkray.schema.row_kind import DELETE, INSERT

_LEFT, _RIGHT = 0, 1
_PADDED = {
    JoinKind.LEFT: (_LEFT,),
    JoinKind.RIGHT: (_RIGHT,),
    JoinKind.FULL: (_LEFT, _RIGHT),
    JoinKind.ANTI: (_LEFT,),
}
"""The sides whose rows come out if they meet none."""


@operates(IntervalJoin)
class IntervalJoins(Operator):
    """Joins rows of equal keys whose times are near, and forgets those that can meet none."""

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
        self._pairs_of = Sides.of(join)
        self._padded = _PADDED.get(node.kind, ())
        right_time = node.right_names[node.right.fields.names.index(node.right_time)]
        sides, counted = self._pairs_of, node.kind is JoinKind.SEMI
        left = NearSpec(
            sides.left,
            sides.left_keys,
            node.left_time,
            _LEFT,
            node.upper,
            -node.lower,
            counted or _LEFT in self._padded,
        )
        right = NearSpec(
            sides.right,
            sides.right_keys,
            right_time,
            _RIGHT,
            -node.lower,
            node.upper,
            _RIGHT in self._padded,
        )
        self._sides = [NearSide(left, context), NearSide(right, context)]

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        made = [self._joined(index, inputs[index], epoch) for index in (_LEFT, _RIGHT)]
        if epoch.ends:
            made += [self._over(index, epoch.next_watermark) for index in (_LEFT, _RIGHT)]
        return concatenated(self.node.fields, made)

    def _joined(self, index: int, changes: Changes, epoch: Epoch) -> Changes:
        """Take the changes of one side: they meet the rows of the other."""
        if not len(changes):
            return Changes.none(self.node.fields)
        side, other = self._sides[index], self._sides[1 - index]
        delta = side.delta(changes, epoch)
        if not len(delta.signs):
            return Changes.none(self.node.fields)
        found = other.near(delta, side.spec)
        rows, others = self._pairs(index, delta, found)
        count = np.bincount(rows, found.copies[others], len(delta.signs)).astype(np.int64)
        gains = np.bincount(others, delta.signs[rows], len(found.copies)).astype(np.int64)
        output = JoinOutput(self.node.fields)
        if self.node.kind.keeps_right:
            self._give_pairs(index, delta, found, (rows, others), output)
        elif self.node.kind is JoinKind.SEMI:
            self._answer(index, delta, found, (count, gains), output)
        side.write(delta, count)
        other.rematch(found, found.matches + gains)
        return output.changes()

    def _pairs(
        self, index: int, delta: NearDelta, found: NearRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pair a delta's rows with rows of the other side; in the order of the delta's."""
        tables = [pa.Table.from_batches([each]) for each in (delta.rows, found.rows)]
        ours, theirs = tables if index == _LEFT else tables[::-1]
        ranges = near(self.node, self._pairs_of, ours, theirs)
        pairs = list(keyed_pairs(self._pairs_of, ours, theirs, ranges, JOINED_ROWS))
        nothing = np.zeros(0, np.int64)
        left = np.concatenate([nothing, *(each for each, _ in pairs)])
        right = np.concatenate([nothing, *(each for _, each in pairs)])
        rows, others = (left, right) if index == _LEFT else (right, left)
        order = np.lexsort((others, rows))
        return rows[order], others[order]

    def _give_pairs(
        self,
        index: int,
        delta: NearDelta,
        found: NearRows,
        pairs: tuple[np.ndarray, np.ndarray],
        output: JoinOutput,
    ) -> None:
        copies = np.abs(delta.signs)[pairs[0]] * found.copies[pairs[1]]
        rows, others = (np.repeat(each, copies) for each in pairs)
        ours, theirs = take(delta.rows, rows).columns, take(found.rows, others).columns
        columns = [*ours, *theirs] if index == _LEFT else [*theirs, *ours]
        kinds = np.where(delta.signs > 0, INSERT, DELETE)[rows]
        output.add(columns, kinds, delta.causes[rows], NEXT)

    def _answer(
        self,
        index: int,
        delta: NearDelta,
        found: NearRows,
        counts: tuple[np.ndarray, np.ndarray],
        output: JoinOutput,
    ) -> None:
        """Give left rows that meet their first row, and take back those that meet none any more."""
        count, gains = counts
        if index == _LEFT:
            rows = np.repeat(np.arange(len(count)), np.abs(delta.signs) * (count > 0))
            kinds = np.where(delta.signs > 0, INSERT, DELETE)[rows]
            output.add(take(delta.rows, rows).columns, kinds, delta.causes[rows], NEXT)
            return
        before, after = found.matches > 0, found.matches + gains > 0
        rows = np.repeat(np.arange(len(before)), found.copies * (before != after))
        kinds = np.where(after, INSERT, DELETE)[rows]
        output.add(take(found.rows, rows).columns, kinds, np.zeros(len(rows), np.int64), NEXT)

    def _over(self, index: int, watermark: int | None) -> Changes:
        """Forget the rows that can meet none any more; pad those that met none."""
        output = JoinOutput(self.node.fields)
        for page, rows in enumerate(self._sides[index].over(watermark)):
            if index not in self._padded:
                continue
            chosen = take(
                rows.rows, np.repeat(np.arange(len(rows.copies)), rows.copies * (rows.matches == 0))
            )
            columns = chosen.columns
            if self.node.kind.keeps_right:
                fields = self._sides[1 - index].spec.fields.arrow
                nulls = [pa.nulls(chosen.num_rows, each.type) for each in fields]
                columns = [*columns, *nulls] if index == _LEFT else [*nulls, *columns]
            count = chosen.num_rows
            output.add(columns, np.full(count, INSERT), np.full(count, page), NEXT)
        return output.changes()
