"""Joins: what a side's changes match on the other side, and which rows that pads or hides.

The sides are taken one after the other: changes of the first meet the second as it was, changes of
the second meet the first as it is then, so that each pair is seen once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.continuous.changes import Changes, concatenated, interleaved, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.join_sides import Delta, Held, JoinSide
from pkray.relational.local.batches import batch_of, spread
from pkray.relational.local.joins import Sides, checked_pairs
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Join, JoinKind
from pkray.relational.plan.windowing import is_windowed
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

_LEFT, _RIGHT = 0, 1
_KEPT = {
    JoinKind.LEFT: (_LEFT,),
    JoinKind.SINGLE: (_LEFT,),
    JoinKind.RIGHT: (_RIGHT,),
    JoinKind.FULL: (_LEFT, _RIGHT),
    JoinKind.SEMI: (_LEFT,),
    JoinKind.ANTI: (_LEFT,),
    JoinKind.MARK: (_LEFT,),
}
"""The sides whose rows come out by whether they have matches."""
_BEFORE, _PAIRED, _AFTER = 0, 1, 2
"""What comes of one cause: rows that lose their padding, pairs, rows that are padded again."""


@dataclass(frozen=True)
class Pairs:
    """Rows of a delta beside rows of the other side that they match.

    Attributes:
        rows: int64, numbers of the delta's rows, ascending.
        others: int64, numbers of the other side's rows.
    """

    delta: Delta
    held: Held
    rows: np.ndarray
    others: np.ndarray

    def matches(self) -> np.ndarray:
        """Count the matches of each row of the delta."""
        found = np.bincount(self.rows, self.held.copies[self.others], len(self.delta))
        return found.astype(np.int64)

    def gains(self) -> np.ndarray:
        """Count the matches that each row of the other side gains, or loses where below 0."""
        count = len(self.held.copies)
        return np.bincount(self.others, self.delta.signs[self.rows], count).astype(np.int64)

    def first_causes(self) -> np.ndarray:
        """Give for each row of the other side the delta's row that first adds a match; else -1."""
        return self._causes(slice(None, None, -1), self.delta.signs > 0)

    def last_causes(self) -> np.ndarray:
        """Give for each row of the other side the delta's row that last takes one away; else -1."""
        return self._causes(slice(None), self.delta.signs < 0)

    def _causes(self, order: slice, wanted: np.ndarray) -> np.ndarray:
        result = np.full(len(self.held.copies), -1)
        chosen = wanted[self.rows]
        result[self.others[chosen][order]] = self.rows[chosen][order]
        return result


@dataclass
class _Output:
    """Collects what comes out of one side's changes."""

    fields: Fields
    parts: list[tuple[Changes, np.ndarray]] = field(default_factory=list)

    def add(
        self,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
        causes: np.ndarray,
        phase: int,
    ) -> None:
        rows = batch_of(columns, self.fields.arrow, len(kinds))
        self.parts.append((Changes(rows, kinds.astype(np.int8)), causes * 3 + phase))

    def changes(self) -> Changes:
        return interleaved(self.fields, self.parts)


def _is_plain(node: Join) -> bool:
    """Whether rows match by equal keys and a condition, whenever they come."""
    return not is_windowed(node) and not node.null_aware


@operates(Join, when=_is_plain)
class Joins(Operator):
    """Joins two changing sides."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._sides = Sides.of(node)
        self._kept = _KEPT.get(node.kind, ())
        null_safe = self._sides.null_safe
        inputs = (
            (node.left, self._sides.left, node.left_keys),
            (node.right, self._sides.right, node.right_keys),
        )
        self._held = [
            JoinSide(
                each,
                fields,
                keys,
                null_safe,
                index,
                context,
                keeps_unmatched=index in self._kept,
                tallies=("_matches",) if index in self._kept else (),
            )
            for index, (each, fields, keys) in enumerate(inputs)
        ]

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        # the side that is not padded goes first: new rows of the other one then meet their matches
        # at once, and are not padded before
        order = (_LEFT, _RIGHT) if self.node.kind is JoinKind.RIGHT else (_RIGHT, _LEFT)
        doubtful: list[tuple[pa.Array, pa.Array]] = []
        made = [self._side(index, inputs[index], doubtful) for index in order]
        for keys, row_keys in doubtful:
            found = self._held[_LEFT].held_row(keys, row_keys)
            self._check_single(found.rows, found.tallies[0])
        return concatenated(self.node.fields, made)

    def _side(
        self, index: int, changes: Changes, doubtful: list[tuple[pa.Array, pa.Array]]
    ) -> Changes:
        side, other = self._held[index], self._held[1 - index]
        if not len(changes):
            return Changes.none(self.node.fields)
        delta = side.delta(changes)
        if not len(delta):
            return Changes.none(self.node.fields)
        pairs = self._pairs(index, delta, other)
        output = _Output(self.node.fields)
        tally = self._padded if self.node.kind.keeps_right else self._filtered
        matches = tally(index, pairs, output)
        if self.node.kind is JoinKind.SINGLE and index == _LEFT:
            self._check_single(delta.rows, np.where(delta.signs > 0, matches, 0))
        side.write(delta, matches[None, :][: len(side.tallies)])
        if other.tallies:
            self._retally(other, pairs, doubtful)
        return output.changes()

    def _pairs(self, index: int, delta: Delta, other: JoinSide) -> Pairs:
        """Find what a side's changes match on the other side."""
        keys, of_row = delta.sought()
        held = other.held(keys)
        starts, sizes = held.ranges(of_row)
        rows, others = np.repeat(np.arange(len(delta)), sizes), spread(starts, sizes)
        sides = [pa.Table.from_batches([each]) for each in (delta.rows, held.rows)]
        if index == _LEFT:
            found = checked_pairs(self._sides, sides[0], sides[1], rows, others)
        else:
            turned = checked_pairs(self._sides, sides[1], sides[0], others, rows)
            found = [(ours, theirs) for theirs, ours in turned]
        none = np.zeros(0, np.int64)
        return Pairs(
            delta,
            held,
            np.concatenate([none, *(ours for ours, _ in found)]),
            np.concatenate([none, *(theirs for _, theirs in found)]),
        )

    def _padded(self, index: int, pairs: Pairs, output: _Output) -> np.ndarray:
        """Give pairs, and the rows that come to have none, or have none any more."""
        delta, held = pairs.delta, pairs.held
        matches = pairs.matches()
        kept, other_kept = index in self._kept, 1 - index in self._kept
        if kept:
            alone = np.repeat(np.arange(len(delta)), np.abs(delta.signs) * (matches == 0))
            kinds = np.where(delta.signs > 0, INSERT, DELETE)[alone]
            output.add(self._joined(index, take(delta.rows, alone)), kinds, alone, _PAIRED)
        copies = np.abs(delta.signs)[pairs.rows] * held.copies[pairs.others]
        rows, others = np.repeat(pairs.rows, copies), np.repeat(pairs.others, copies)
        kinds = delta.kinds.copy()
        if kept or other_kept:
            kinds[delta.signs > 0] = INSERT
        if kept:
            kinds[delta.signs < 0] = DELETE
        joined = self._joined(index, take(delta.rows, rows), take(held.rows, others))
        output.add(joined, kinds[rows], rows, _PAIRED)
        if other_kept:
            before = held.tallies[0]
            after = before + pairs.gains()
            gained = np.flatnonzero((before <= 0) & (after > 0))
            lost = np.flatnonzero((before > 0) & (after <= 0))
            for numbers, kind, causes, phase in (
                (gained, DELETE, pairs.first_causes(), _BEFORE),
                (lost, INSERT, pairs.last_causes(), _AFTER),
            ):
                chosen = np.repeat(numbers, held.copies[numbers])
                columns = self._joined(1 - index, take(held.rows, chosen))
                output.add(columns, np.full(len(chosen), kind), causes[chosen], phase)
        return matches

    def _joined(
        self, index: int, ours: pa.RecordBatch, theirs: pa.RecordBatch | None = None
    ) -> list[pa.Array]:
        """Put two sides' columns into their order; NULLs stand for a side that is missing."""
        columns = ours.columns
        if theirs is None:
            fields = self._held[1 - index].fields
            others = [pa.nulls(ours.num_rows, each.type) for each in fields.arrow]
        else:
            others = theirs.columns
        return [*columns, *others] if index == _LEFT else [*others, *columns]

    def _filtered(self, index: int, pairs: Pairs, output: _Output) -> np.ndarray:
        """Give left rows by whether they have matches."""
        delta, held = pairs.delta, pairs.held
        matches = pairs.matches()
        if index == _LEFT:
            numbers = np.repeat(np.arange(len(delta)), np.abs(delta.signs))
            self._give(output, take(delta.rows, numbers), matches[numbers] > 0, numbers, delta)
            return matches
        before = held.tallies[0]
        after = before + pairs.gains()
        gained = np.flatnonzero((before <= 0) & (after > 0))
        lost = np.flatnonzero((before > 0) & (after <= 0))
        for numbers, causes in ((gained, pairs.first_causes()), (lost, pairs.last_causes())):
            chosen = np.repeat(numbers, held.copies[numbers])
            self._turn(output, take(held.rows, chosen), after[chosen] > 0, causes[chosen], delta)
        return matches

    def _give(
        self,
        output: _Output,
        rows: pa.RecordBatch,
        matched: np.ndarray,
        causes: np.ndarray,
        delta: Delta,
    ) -> None:
        """Give rows that are added or taken away, of those that come out."""
        if self.node.kind is JoinKind.MARK:
            columns = [*rows.columns, pa.array(matched)]
            output.add(columns, delta.kinds[causes], causes, _PAIRED)
            return
        shown = matched == (self.node.kind is JoinKind.SEMI)
        chosen = take(rows, np.flatnonzero(shown))
        output.add(chosen.columns, delta.kinds[causes[shown]], causes[shown], _PAIRED)

    def _turn(
        self,
        output: _Output,
        rows: pa.RecordBatch,
        matched: np.ndarray,
        causes: np.ndarray,
        delta: Delta,
    ) -> None:
        """Give rows that come to have matches, or to have none."""
        if self.node.kind is JoinKind.MARK:
            for mark, kind, phase in (
                (~matched, UPDATE_BEFORE, _BEFORE),
                (matched, UPDATE_AFTER, _PAIRED),
            ):
                columns = [*rows.columns, pa.array(mark)]
                output.add(columns, np.full(len(mark), kind), causes, phase)
            return
        kinds = delta.kinds[causes]
        if self.node.kind is JoinKind.ANTI:
            kinds = np.where(matched, DELETE, INSERT)
        output.add(rows.columns, kinds, causes, _PAIRED)

    def _retally(
        self, other: JoinSide, pairs: Pairs, doubtful: list[tuple[pa.Array, pa.Array]]
    ) -> None:
        """Count the matches that rows of the other side gained and lost."""
        held, gains = pairs.held, pairs.gains()
        touched = np.zeros(len(gains), bool)
        touched[pairs.others] = True
        numbers = np.flatnonzero(touched if self.context.expires else gains)
        if not len(numbers):
            return
        tallies = held.tallies + gains
        other.retally(held, numbers, np.maximum(tallies, 0))
        if self.node.kind is JoinKind.SINGLE:
            many = numbers[tallies[0][numbers] > 1]
            if len(many):
                keys = held.keys.take(pa.array(held.positions[many]))
                doubtful.append((keys, held.row_keys.take(pa.array(many))))

    def _check_single(self, rows: pa.RecordBatch, matches: np.ndarray) -> None:
        many = np.flatnonzero(matches > 1)
        if len(many):
            raise EvaluationError(
                "a subquery that stands for one value gives more than one row for "
                f"{take(rows, many[:1]).to_pylist()[0]}: aggregate it, or write LIMIT 1"
            )
