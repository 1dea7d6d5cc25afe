"""Whether left rows have a match, told by how many rows each key has: no pair is looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.changes import Changes, concatenated, named, take
from pkray.relational.continuous.operator import Context, Epoch
from pkray.relational.continuous.operators.joins.join_output import (
    NO,
    UNKNOWN,
    YES,
    Answers,
    JoinOutput,
)
from pkray.relational.continuous.operators.joins.join_sides import (
    COUNT,
    Asked,
    Delta,
    Held,
    KeptSide,
    SideSpec,
)
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.local.pairs import Sides
from pkray.relational.plan.nodes import Join, JoinKind

UNTALLIED = np.zeros((0, 0), np.int64)
"""The counts of matches beside rows that have none."""


@dataclass(frozen=True)
class Counted:
    """Count the rows of some keys, before and after an epoch.

    Attributes:
        keys: BINARY, distinct.
        before, after: int64, one a key.
    """

    keys: pa.Array
    before: np.ndarray
    after: np.ndarray

    @property
    def crossing(self) -> np.ndarray:
        """Whether each key comes to have rows, or to have none."""
        crossing: np.ndarray = (self.before > 0) != (self.after > 0)
        return crossing

    def of(self, keys: pa.Array) -> np.ndarray:
        """Give the numbers of keys; -1 for those that are not counted here."""
        numbers: np.ndarray = pc.fill_null(pc.index_in(keys, self.keys), -1).to_numpy()
        return numbers

    def gained(self, keys: pa.Array) -> np.ndarray:
        """Give how many rows keys gained; int64."""
        return np.r_[self.after - self.before, 0][self.of(keys)]


class KeyCounts:
    """Counts the rows of each key.

    Args:
        name: of the state among those of the operator.
    """

    def __init__(self, context: Context, name: str) -> None:
        columns = pa.schema([pa.field(COUNT, pa.int64())])
        self._state = context.open_state(StateSpec(columns, index=1, name=name))

    def get(self, keys: pa.Array) -> np.ndarray:
        """Count the rows of keys, which may repeat; int64."""
        names, of_key = distinct(keys)
        return self._get(names)[of_key]

    def add(self, keys: pa.Array, gains: np.ndarray) -> Counted:
        """Count rows that come and go.

        Args:
            keys: BINARY, which may repeat.
            gains: int64, one a key.
        """
        names, of_key = distinct(keys)
        before = self._get(names)
        added = np.bincount(of_key, gains, len(names))
        after = before + added.astype(np.int64)
        there, differs = after > 0, before != after
        self._state.change(names, [pa.array(after)], differs & there, differs & ~there)
        return Counted(names, before, after)

    def _get(self, names: pa.Array) -> np.ndarray:
        if not len(names):
            return np.zeros(0, np.int64)
        return self._state.get(names).numbers(COUNT, len(names))


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
        counted = self._counts.add(delta.keys.take(delta.of_row), delta.signs)
        crossing = np.flatnonzero(counted.crossing)
        held = self._left.held(Asked(counted.keys.take(crossing)))
        last = np.zeros(len(counted.keys), np.int64)
        last[counted.of(delta.keys)[delta.of_row]] = np.arange(len(delta))
        rows = np.repeat(np.arange(len(held.copies)), held.copies)
        keys = crossing[held.positions[rows]]
        before, after = (
            (each[keys] > 0).astype(np.int8) for each in (counted.before, counted.after)
        )
        causes = last[keys]
        answers.turn(take(held.rows, rows), before, after, delta.kinds[causes], causes)


@dataclass(frozen=True)
class _Keys:
    """Keys of rows: the whole ones, the same with NULL for the first column, and their groups.

    Attributes:
        is_null: whether the first column is NULL.
    """

    whole: pa.Array
    null: pa.Array
    group: pa.Array
    is_null: np.ndarray

    @classmethod
    def from_columns(cls, columns: list[pa.Array]) -> Self:
        first, others, count = columns[0], columns[1:], len(columns[0])
        nulls = pa.nulls(count, first.type)
        return cls(
            encoded(columns),
            encoded([nulls, *others]),
            encoded(others, count),
            np.asarray(first.is_null()),
        )

    def answers(self, whole: np.ndarray, null: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Say whether each row is in, from counts of right rows by each of the keys."""
        unknown = np.where(self.is_null, group, null) > 0
        is_in = ~self.is_null & (whole > 0)
        answers: np.ndarray = np.where(is_in, YES, np.where(unknown, UNKNOWN, NO))
        return answers.astype(np.int8)


class NullMembership(Membership):
    """Joins two changing sides as IN and NOT IN compare them: unknown where NULLs are compared.

    Of a join key, the columns but the first are its group. IN says yes where the right side has
    rows of the key. Otherwise it is unknown where the right side has rows of the group whose first
    column is NULL or, for a left row whose own is NULL, any rows of the group.

    The left rows are kept a second time, by their groups: all of a group's are turned by the first
    NULL on the right.
    """

    def __init__(self, node: Join, context: Context) -> None:
        super().__init__(node, context)
        self._totals = KeyCounts(context, "totals")
        spec = self._left_spec.grouped(node.left_keys[1:], self._null_safe[1:])
        self._by_group = KeptSide(spec, context, name="groups")

    @property
    def _null_safe(self) -> tuple[bool, ...]:
        """NULL as the first column is a key as others: that of the rows which are not known."""
        return (True, *Sides.of(self.node).null_safe[1:])

    def _write_left(self, delta: Delta) -> None:
        super()._write_left(delta)
        columns = named(delta.rows, self.node.left_keys[1:])
        groups, of_row = distinct(encoded(columns, len(delta)))
        self._by_group.write(replace(delta, keys=groups, of_row=of_row), UNTALLIED)

    def _answers(self, rows: pa.RecordBatch) -> np.ndarray:
        keys = _Keys.from_columns(named(rows, self.node.left_keys))
        return keys.answers(*self._counted(keys))

    def _counted(self, keys: _Keys) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count = len(keys.is_null)
        both = self._counts.get(pa.concat_arrays([keys.whole, keys.null]))
        return both[:count], both[count:], self._totals.get(keys.group)

    def _turn(self, delta: Delta, answers: Answers) -> None:
        """Give the left rows whose answer changes with the counts of their keys and groups."""
        changed = _Keys.from_columns(delta.rows.columns)
        counted = self._counts.add(changed.whole, delta.signs)
        totals = self._totals.add(changed.group, delta.signs)
        for held in self._affected(changed, counted, totals):
            keys = _Keys.from_columns(named(held.rows, self.node.left_keys))
            whole, null, group = self._counted(keys)
            after = keys.answers(whole, null, group)
            before = keys.answers(
                whole - counted.gained(keys.whole),
                null - counted.gained(keys.null),
                group - totals.gained(keys.group),
            )
            rows = np.repeat(np.arange(len(held.copies)), held.copies)
            places = np.arange(len(rows))
            answers.turn(take(held.rows, rows), before[rows], after[rows], delta.kinds[:0], places)

    def _affected(self, changed: _Keys, counted: Counted, totals: Counted) -> tuple[Held, Held]:
        """Find the left rows of keys and of groups whose counts come to be zero, or were."""
        of_key, of_group = counted.of(changed.whole), totals.of(changed.group)
        crossing = counted.crossing[of_key]
        by_group = np.zeros(len(totals.keys), bool)
        by_group[of_group[crossing & changed.is_null]] = True
        rest = ~by_group[of_group]
        whole = changed.whole.filter(pa.array(rest & crossing & ~changed.is_null))
        null = changed.null.filter(pa.array(rest & totals.crossing[of_group]))
        keys = Asked(pa.concat_arrays([whole, null]).unique())
        groups = Asked(totals.keys.filter(pa.array(by_group)))
        return self._by_group.held(groups), self._left.held(keys)
