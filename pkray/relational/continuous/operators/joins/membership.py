"""Whether left rows have a match, told by how many rows each key has: no pair is looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch
from pkray.relational.continuous.operators.joins.join_output import Answers, JoinOutput
from pkray.relational.continuous.operators.joins.join_sides import Asked, Delta, SideSpec
from pkray.relational.continuous.operators.joins.kept_sides import KeptSide
from pkray.relational.continuous.operators.joins.key_counts import KeyCounts
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.pairs import Sides
from pkray.relational.plan.nodes import Join, JoinKind

UNTALLIED = np.zeros((0, 0), np.int64)
"""The counts of matches beside rows that have none."""


class Membership:
    """Joins two changing sides where equal keys are a match, and its pairs do not come out.

    The right side goes first: new rows of the left one then meet their matches at once.
    """

    def __init__(self, node: Join, context: Context) -> None:
        self.node = node
        sides = Sides.of(node)
        names = node.right.fields.names
        self._left_spec = SideSpec(
            node.left,
            sides.left,
            tuple(range(len(sides.left))),
            node.left_keys,
            self._null_safe,
            0,
            keeps_unmatched=node.kind is not JoinKind.SEMI,
        )
        right = SideSpec(
            node.right,
            sides.right.only(sides.right_keys),
            tuple(names.index(key) for key in node.right_keys),
            node.right_keys,
            self._null_safe,
            1,
        )
        self._left, self._right = KeptSide(self._left_spec, context), KeptSide(right, context)
        self._counts = KeyCounts(context, "counts")

    @property
    def _null_safe(self) -> tuple[bool, ...]:
        return Sides.of(self.node).null_safe

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        """Take the changes of both sides."""
        (left, right), arrival = inputs, epoch.arrival
        made = [self._apply_right(right, arrival)] if len(right) else []
        made += [self._apply_left(left, arrival)] if len(left) else []
        return concatenated(self.node.fields, made)

    def _apply_left(self, changes: Changes, arrival: int) -> Changes:
        delta = self._left.delta(changes, arrival)
        self._write_left(delta)
        output = JoinOutput(self.node.fields)
        rows = np.repeat(np.arange(len(delta)), np.abs(delta.signs))
        found = self._answers(delta.rows)[rows]
        Answers(self.node, output).give(take(delta.rows, rows), found, delta.kinds[rows], rows)
        return output.changes()

    def _apply_right(self, changes: Changes, arrival: int) -> Changes:
        delta = self._right.delta(changes, arrival)
        self._right.write(delta, UNTALLIED)
        output = JoinOutput(self.node.fields)
        if len(delta):
            self._turn(delta, Answers(self.node, output))
        return output.changes()

    def _write_left(self, delta: Delta) -> None:
        self._left.write(delta, UNTALLIED)

    def _answers(self, rows: pa.RecordBatch) -> np.ndarray:
        """Say whether left rows have a match, from the state."""
        keys = encoded(named(rows, self.node.left_keys), rows.num_rows)
        return (self._counts.get(keys) > 0).astype(np.int8)

    def _turn(self, delta: Delta, answers: Answers) -> None:
        """Give the left rows of keys that come to have rows on the right, or to have none."""
        counted = self._counts.add(delta.keys.take(pa.array(delta.of_row)), delta.signs)
        crossing = np.flatnonzero(counted.crossing)
        held = self._left.held(Asked(counted.keys.take(pa.array(crossing))))
        last = np.zeros(len(counted.keys), np.int64)
        last[counted.of(delta.keys)[delta.of_row]] = np.arange(len(delta))
        rows = np.repeat(np.arange(len(held.copies)), held.copies)
        keys = crossing[held.positions[rows]]
        before, after = (
            (each[keys] > 0).astype(np.int8) for each in (counted.before, counted.after)
        )
        causes = last[keys]
        answers.turn(take(held.rows, rows), before, after, delta.kinds[causes], causes)


def named(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Give some columns of rows."""
    return [rows.column(rows.schema.get_field_index(name)) for name in names]
