"""Joins of changing sides: by their pairs, or by counts of keys where those suffice."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.join_output import (
    FIRST,
    LAST,
    NEXT,
    NO,
    UNKNOWN,
    YES,
    Answers,
    JoinOutput,
    beside,
)
from pkray.relational.continuous.operators.joins.join_pairs import Pairs, matched
from pkray.relational.continuous.operators.joins.join_sides import (
    Delta,
    Held,
    JoinSide,
    KeptSide,
    SideSpec,
)
from pkray.relational.continuous.operators.joins.membership import Membership, NullMembership
from pkray.relational.continuous.operators.joins.sourced_sides import (
    SourcedSide,
    is_free_of_state,
    sourced_side,
)
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.pairs import Sides
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import Join, JoinKind
from pkray.schema.row_kind import DELETE, INSERT

_LEFT, _RIGHT = 0, 1
_KEPT = {JoinKind.INNER: (), JoinKind.RIGHT: (_RIGHT,), JoinKind.FULL: (_LEFT, _RIGHT)}
"""The sides whose rows come out by whether they have matches; of other kinds the left one."""


class Pairing:
    """Joins two changing sides by the pairs of their rows.

    The sides are taken one after the other: changes of the first meet the second as it was, changes
    of the second meet the first as it is then, so that each pair is met once.
    """

    def __init__(self, node: Join, context: Context) -> None:
        self.node = node
        self._expires = context.expires
        self._sides = Sides.of(node)
        self._kept = _KEPT.get(node.kind, (_LEFT,))
        self._doubtful: list[tuple[pa.Array, pa.Array]] = []
        self._held = [self._side(index, context) for index in (_LEFT, _RIGHT)]

    def _side(self, index: int, context: Context) -> JoinSide:
        node, sides = self.node, self._sides
        fields = (sides.left, sides.right)[index]
        read = {*sides.reads(), *(sides.right_keys[:1] if node.null_aware else ())}
        whole = index == _LEFT or node.kind.keeps_right
        places = tuple(i for i, each in enumerate(fields) if whole or each.name in read)
        compared = 1 if node.null_aware else 0
        spec = SideSpec(
            node.inputs[index],
            fields.only(fields.names[place] for place in places),
            places,
            (node.left_keys, node.right_keys)[index][compared:],
            sides.null_safe[compared:],
            index,
            keeps_unmatched=index in self._kept,
        )
        tallies = ("_matches", "_unknown")[: 1 + compared] if spec.keeps_unmatched else ()
        return sourced_side(node, spec, context) or KeptSide(spec, context, tallies=tallies)

    @property
    def reads_sources(self) -> bool:
        """Whether rows are read from a source, as of the whole epoch."""
        return any(isinstance(each, SourcedSide) for each in self._held)

    @property
    def begins(self) -> bool:
        """Whether the side that goes last had no rows before the epoch, and the other one needs
        nothing but its source: then only the rows of the last side give anything.
        """
        first, last = (self._held[index] for index in self._order)
        sourced = isinstance(first, SourcedSide) and not first.is_indexed
        new = isinstance(last, SourcedSide) and last.source.begins
        return sourced and new and not first.keeps_unmatched

    @property
    def _order(self) -> tuple[int, int]:
        """List the sides as they are taken: new rows of the one that is padded meet their matches
        at once, and are not padded before.
        """
        return (_LEFT, _RIGHT) if self.node.kind is JoinKind.RIGHT else (_RIGHT, _LEFT)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        """Take the changes of both sides."""
        order = self._order[1:] if self.begins else self._order
        made = [self._joined(index, inputs[index], epoch.arrival) for index in order]
        if epoch.ends:
            self._check_single()
        return concatenated(self.node.fields, made)

    def _joined(self, index: int, changes: Changes, arrival: int) -> Changes:
        """Take the changes of one side; of the first one they meet the other side as it was."""
        side, other = self._held[index], self._held[1 - index]
        delta = side.delta(changes, arrival) if len(changes) else None
        if delta is None or not len(delta):
            return Changes.none(self.node.fields)
        pairs = self._pairs(index, delta, before=index == self._order[0])
        output = JoinOutput(self.node.fields)
        matches = pairs.matches()
        if self.node.kind.keeps_right:
            self._give_pairs(index, pairs, matches[0], output)
        else:
            self._answer(index, pairs, matches, Answers(self.node, output))
        if self.node.kind is JoinKind.SINGLE and index == _LEFT:
            many = np.flatnonzero((delta.signs > 0) & (matches[0] > 1))
            keys = delta.keys.take(delta.of_row[many])
            self._doubtful.append((keys, delta.row_keys.take(many)))
        side.write(delta, matches[: len(side.tallies)])
        if other.tallies:
            self._retally(other, pairs)
        return output.changes()

    def _pairs(self, index: int, delta: Delta, *, before: bool) -> Pairs:
        side, other = self._held[index], self._held[1 - index]
        asked, of_row = delta.asked()
        held = other.held(asked, before=before)
        if other.keeps_unmatched and not other.tallies:
            held = self._tallied(1 - index, held, side.held(asked, before=True))
        pairs = Pairs.from_equal_keys(self._sides, index == _LEFT, delta, held, of_row)
        if not self.node.null_aware:
            return pairs
        names = (self._sides.left_keys[0], self._sides.right_keys[0])
        return pairs.compared(*(names if index == _LEFT else names[::-1]))

    def _tallied(self, index: int, held: Held, others: Held) -> Held:
        """Count the matches of rows beside which no count is kept."""
        rows, numbers = matched(self._sides, index == _LEFT, held.rows, held.positions, others)
        counts = np.bincount(rows, others.copies[numbers], len(held.copies))
        return replace(held, tallies=counts.astype(np.int64)[None, :])

    def _give_pairs(
        self, index: int, pairs: Pairs, matches: np.ndarray, output: JoinOutput
    ) -> None:
        """Give pairs, and the rows that come to have none, or have none any more."""
        delta, held = pairs.delta, pairs.held
        kept, other_kept = index in self._kept, 1 - index in self._kept
        if kept:
            alone = np.repeat(np.arange(len(delta)), np.abs(delta.signs) * (matches == 0))
            kinds = np.where(delta.signs > 0, INSERT, DELETE)[alone]
            padded = beside(index == _LEFT, take(delta.rows, alone), self._other_schema(index))
            output.add(padded, kinds, alone, NEXT)
        copies = np.abs(delta.signs)[pairs.rows] * held.copies[pairs.others]
        rows, others = np.repeat(pairs.rows, copies), np.repeat(pairs.others, copies)
        kinds = delta.kinds.copy()
        if kept or other_kept:
            kinds[delta.signs > 0] = INSERT
        if kept:
            kinds[delta.signs < 0] = DELETE
        joined = beside(index == _LEFT, take(delta.rows, rows), take(held.rows, others))
        output.add(joined, kinds[rows], rows, NEXT)
        if other_kept:
            self._pad(1 - index, pairs, output)

    def _pad(self, index: int, pairs: Pairs, output: JoinOutput) -> None:
        """Give rows of the other side that lose their padding, or are padded again."""
        held = pairs.held
        before = held.tallies[0]
        after = before + pairs.gains()[0]
        gained = np.flatnonzero((before <= 0) & (after > 0))
        lost = np.flatnonzero((before > 0) & (after <= 0))
        for numbers, kind, causes, phase in (
            (gained, DELETE, pairs.first_causes(), FIRST),
            (lost, INSERT, pairs.last_causes(), LAST),
        ):
            chosen = np.repeat(numbers, held.copies[numbers])
            padded = beside(index == _LEFT, take(held.rows, chosen), self._other_schema(index))
            output.add(padded, np.full(len(chosen), kind), causes[chosen], phase)

    def _other_schema(self, index: int) -> pa.Schema:
        return self._held[1 - index].fields.arrow

    def _answer(self, index: int, pairs: Pairs, matches: np.ndarray, answers: Answers) -> None:
        """Give left rows by whether they have matches."""
        delta, held = pairs.delta, pairs.held
        if index == _LEFT:
            rows = np.repeat(np.arange(len(delta)), np.abs(delta.signs))
            found = _answers(matches)[rows]
            answers.give(take(delta.rows, rows), found, delta.kinds[rows], rows)
            return
        before, after = _answers(held.tallies), _answers(held.tallies + pairs.gains())
        differs = np.flatnonzero(before != after)
        rows = np.repeat(differs, held.copies[differs])
        causes = pairs.last_causes()[rows]
        answers.turn(take(held.rows, rows), before[rows], after[rows], delta.kinds[causes], causes)

    def _retally(self, other: JoinSide, pairs: Pairs) -> None:
        """Count the matches that rows of the other side gained and lost."""
        held, gains = pairs.held, pairs.gains()
        touched = np.any(gains != 0, axis=0)
        if self._expires:
            touched[pairs.others] = True
        numbers = np.flatnonzero(touched)
        tallies = np.maximum(held.tallies + gains, 0)
        other.retally(held, numbers, tallies)
        if self.node.kind is JoinKind.SINGLE:
            many = numbers[tallies[0][numbers] > 1]
            keys = held.keys.take(held.positions[many])
            self._doubtful.append((keys, held.row_keys.take(many)))

    def _check_single(self) -> None:
        """Fail where a row has two matches for its one value when the epoch ends."""
        doubtful, self._doubtful = self._doubtful, []
        for keys, row_keys in doubtful:
            found = self._held[_LEFT].held_row(keys, row_keys)
            many = np.flatnonzero(found.tallies[0] > 1)
            if len(many):
                raise EvaluationError(
                    "a subquery that stands for one value gives more than one row for "
                    f"{take(found.rows, many[:1]).to_pylist()[0]}: aggregate it, or write LIMIT 1"
                )


def _answers(tallies: np.ndarray) -> np.ndarray:
    """Say whether rows have a match from their counts of matches, and of unknown ones."""
    unknown = np.where(tallies[1] > 0, UNKNOWN, NO) if len(tallies) > 1 else NO
    answers: np.ndarray = np.where(tallies[0] > 0, YES, unknown).astype(np.int8)
    return answers


@operates(Join, when=lambda node: not node.is_windowed())
class Joins(Operator):
    """Joins two changing sides."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        kind: type[Membership | Pairing] = Pairing
        # counts of keys do not know which rows expired
        by_keys = not node.kind.keeps_right and node.condition == TRUE and not context.expires
        if by_keys and not is_free_of_state(node, context):
            kind = NullMembership if node.null_aware else Membership
        self._join = kind(node, context)
        self._waiting: list[Sequence[Changes]] = []

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        if self.node.null_aware:  # one NULL on the right concerns rows of all keys
            return encoded((), len(changes))
        return super().key_bytes(place, changes, keys)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        join = self._join
        if not isinstance(join, Pairing) or not join.reads_sources or join.begins:
            return join.apply(inputs, epoch)
        # sources are read as they are before and after the epoch, not between its parts
        self._waiting.append(inputs)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        parts, self._waiting = self._waiting, []
        whole = [
            concatenated(each.fields, [part[index] for part in parts])
            for index, each in enumerate(self.node.inputs)
        ]
        return join.apply(whole, epoch)
