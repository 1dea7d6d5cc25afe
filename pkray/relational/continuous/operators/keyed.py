"""Rows by key: one a key, none that agree in one, and keys for results that have none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.errors import EvaluationError
from pkray.relational.continuous.changes import Changes, netted, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned
from pkray.relational.continuous.operators.replacement import replaced
from pkray.relational.continuous.state.encoding import encoded, identified
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Normalize, RowKey, Scan, Unique
from pkray.schema.row_kind import UPDATE_BEFORE

_COUNT = "rows"
_SHOWN = 1000
"""Keys with two rows that are remembered within an epoch: one is enough to fail."""


@operates(RowKey)
class RowKeys(Operator):
    """Tells rows apart: by their key, or by what they hold and a number from 0 among equal ones.

    Of equal rows the one with the greatest number is retracted, so that the numbers have no gaps.
    """

    passes_any = True

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        columns = pa.schema([pa.field(_COUNT, pa.int64())])
        self._counts = None if node.keys else context.open_state(StateSpec(columns))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        if self.node.keys:
            return self._with_keys(changes, encoded(changes.columns(self.node.keys)))
        whole = encoded(changes.rows.columns, len(changes))
        numbers, known = self._numbers(changes, whole)
        keys = encoded([whole.filter(known), pa.array(numbers[known])])
        return self._with_keys(changes.where(known), keys)

    def _numbers(self, changes: Changes, whole: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Number equal rows; also say which changes retract no row that was never there."""
        assert self._counts is not None
        groups = codes([whole], len(whole))
        keys = whole.take(groups.first_rows())
        counts = self._counts.get(keys).numbers(_COUNT, groups.count)
        order = np.argsort(groups.of_row, kind="stable")
        starts = np.flatnonzero(np.diff(groups.of_row[order], prepend=-1))
        sizes = np.diff(np.r_[starts, len(order)])
        steps = changes.signs[order]
        sums = np.cumsum(steps)
        sums += np.repeat(counts - np.r_[0, sums[starts[1:] - 1]], sizes)
        # what goes below zero retracts nothing: count it out of what follows
        lowest = _running_minimum(np.minimum(sums, 0), starts, sizes)
        after = sums - lowest
        known = np.r_[True, lowest[1:] == lowest[:-1]]
        known[starts] = lowest[starts] == 0
        numbers = np.where(steps > 0, after - 1, after)
        left = after[starts + sizes - 1]
        self._counts.change(keys, [pa.array(left)], left > 0, left <= 0)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return numbers[back], known[back]

    def _with_keys(self, changes: Changes, keys: pa.Array) -> Changes:
        schema = self.node.fields.arrow
        return changes.with_rows(batch_of([keys, *changes.rows.columns], schema, len(changes)))


def _running_minimum(values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Give the least value so far within each group of neighbours."""
    span = int(values.max(initial=0) - values.min(initial=0)) + 1
    groups = np.repeat(np.arange(len(starts))[::-1], sizes)
    shifted = values + groups * span
    return np.minimum.accumulate(shifted) - groups * span


@operates(Unique)
class UniqueRows(Operator):
    """Counts the rows of each key, and fails at the end of an epoch where there are two."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._counts = context.open_state(StateSpec(pa.schema([pa.field(_COUNT, pa.int64())])))
        self._doubled: dict[bytes, dict[str, Any]] = {}

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        changes = netted(inputs[0], None)
        if len(changes):
            self._count(changes)
        if epoch.ends and self._doubled:
            row = next(iter(self._doubled.values()))
            said = ", ".join(f"{name} = {row[name]!r}" for name in self.node.keys)
            raise EvaluationError(
                f"two rows of the result have the key {said}, and ON CONFLICT ERROR was asked for: "
                "make the query's rows unique by it, or choose DO NOTHING or DEDUPLICATE"
            )
        return changes

    def _count(self, changes: Changes) -> None:
        keys = encoded(changes.columns(self.node.keys), len(changes))
        groups = codes([keys], len(keys))
        first = groups.first_rows()
        asked = keys.take(first)
        gained = np.bincount(groups.of_row, weights=changes.signs, minlength=groups.count)
        counts = gained.astype(np.int64) + self._counts.get(asked).numbers(_COUNT, groups.count)
        self._counts.change(asked, [pa.array(counts)], counts > 0, counts <= 0)
        for place in np.flatnonzero(counts <= 1) if self._doubled else ():
            self._doubled.pop(asked[int(place)].as_py(), None)
        for place in np.flatnonzero(counts > 1)[:_SHOWN]:
            row = changes.rows.slice(int(first[place]), 1).to_pylist()[0]
            self._doubled[asked[int(place)].as_py()] = row


@operates(Normalize)
class CompleteByKey(Operator):
    """Keeps the row of each key: repeats vanish, updates and deletes get the row before.

    Of a source that tells the rows before updates, these are left out: one that comes again takes
    no newer row away, and the row after it says all.
    """

    def __init__(self, node: Normalize, context: Context) -> None:
        super().__init__(node, context)
        self._state = context.open_state(StateSpec(node.fields.arrow))
        sources = [each.source for each in node.walk() if isinstance(each, Scan)]
        self._tells_before = any(each.mode == "all" for each in sources)

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        return identified(changes.columns(keys), len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if self._tells_before:
            changes = changes.where(changes.kinds != UPDATE_BEFORE)
        if not len(changes):
            return changes
        groups = Groups.from_changes(changes, self.node.keys, epoch)
        found = self._state.get(groups.keys)
        was = found.among(groups.count)
        last = np.zeros(groups.count, np.int64)
        last[groups.of_row] = np.arange(len(changes))
        there = changes.adds[last]
        before = aligned(found, groups.count)
        after = taken(changes.rows.columns, last)
        self._state.change(groups.keys, after, there, was & ~there)
        return replaced(
            self.node.fields, self.context, groups.first, (), (before, was), (after, there)
        )
