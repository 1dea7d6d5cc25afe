"""Keys for results whose rows have none: `RowKey`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import RowKey

_COUNT = "rows"


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
        kept = changes if known.all() else changes.take(np.flatnonzero(known))
        keys = encoded([whole.filter(pa.array(known)), pa.array(numbers[known])])
        return self._with_keys(kept, keys)

    def _numbers(self, changes: Changes, whole: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Number equal rows; also say which changes retract no row that was never there."""
        assert self._counts is not None
        groups = codes([whole], len(whole))
        keys = whole.take(pa.array(groups.first_rows()))
        counts = np.zeros(groups.count, np.int64)
        found = self._counts.get(keys)
        counts[found.positions] = found.column(_COUNT).to_numpy()
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
        self._store(keys, left)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return numbers[back], known[back]

    def _store(self, keys: pa.Array, counts: np.ndarray) -> None:
        assert self._counts is not None
        there = counts > 0
        self._counts.put(keys.filter(pa.array(there)), [pa.array(counts[there])])
        self._counts.remove(keys.filter(pa.array(~there)))

    def _with_keys(self, changes: Changes, keys: pa.Array) -> Changes:
        schema = self.node.fields.arrow
        return changes.with_rows(batch_of([keys, *changes.rows.columns], schema, len(changes)))


def _running_minimum(values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Give the least value so far within each group of neighbours."""
    span = int(values.max(initial=0) - values.min(initial=0)) + 1
    groups = np.repeat(np.arange(len(starts))[::-1], sizes)
    shifted = values + groups * span
    return np.minimum.accumulate(shifted) - groups * span
