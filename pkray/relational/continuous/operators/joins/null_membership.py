"""Whether left rows are IN the right side, which is unknown where NULLs are compared.

Of a join key, the columns but the first are its group. IN says yes where the right side has rows of
the key. Otherwise it is unknown where the right side has rows of the group whose first column is
NULL or, for a left row whose own is NULL, any rows of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import take
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.joins.join_output import NO, UNKNOWN, YES, Answers
from pkray.relational.continuous.operators.joins.join_sides import Asked, Delta, Held
from pkray.relational.continuous.operators.joins.kept_sides import KeptSide
from pkray.relational.continuous.operators.joins.key_counts import Counted, KeyCounts
from pkray.relational.continuous.operators.joins.membership import UNTALLIED, Membership, named
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.pairs import Sides
from pkray.relational.plan.nodes import Join


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
    def from_columns(cls, columns: list[pa.Array]) -> _Keys:
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
    """Joins two changing sides as IN and NOT IN compare them.

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
        groups = encoded(columns, len(delta)).dictionary_encode()
        of_row = np.asarray(groups.indices).astype(np.int64)
        self._by_group.write(replace(delta, keys=groups.dictionary, of_row=of_row), UNTALLIED)

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
