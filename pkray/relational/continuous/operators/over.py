"""Window functions: a value a row, computed from the rows around it.

Rows are kept by partition, order and arrival. Where each function looks at so many rows before and
after a row at most, those around each change are read; else the partitions that change, whole. The
values before and after are computed by the bounded engine's functions on what was read, and
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.keys.keys import NormalizedKeys
from pkray.relational.continuous.changes import Changes, netted
from pkray.relational.continuous.encoding import encoded
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.ordering import (
    Arrivals,
    Effect,
    concat_rows,
    order_keys,
    paired,
)
from pkray.relational.continuous.state import StateSpec
from pkray.relational.local.batches import batch_of
from pkray.relational.local.frames import Partitions
from pkray.relational.local.keys import codes
from pkray.relational.local.over import NUMBERINGS, computed
from pkray.relational.plan.expressions import WindowCall
from pkray.relational.plan.nodes import Over
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

_WINDOW = "$window"
"""The column that tells stretches of rows apart that are computed by themselves."""


class Reach(NamedTuple):
    """How many rows before and after a row its values depend on."""

    before: int
    after: int


def reach(calls: Sequence[tuple[str, WindowCall]]) -> Reach | None:
    """Find how far calls look; None: through the whole partition."""
    each = [_reach(call) for _, call in calls]
    if any(one is None for one in each):
        return None
    known = [one for one in each if one is not None]
    return Reach(
        max((one.before for one in known), default=0), max((one.after for one in known), default=0)
    )


def _reach(call: WindowCall) -> Reach | None:
    if call.function in ("lag", "lead"):
        offset = int(call.parameters[0].value) if call.parameters else 1
        ahead = offset if call.function == "lead" else -offset
        return None if call.ignore_nulls else Reach(max(-ahead, 0), max(ahead, 0))
    start, end = call.frame.start, call.frame.end
    if call.function in NUMBERINGS or call.frame.unit != "rows" or start is None or end is None:
        return None
    return Reach(max(-int(start), 0), max(int(end), 0))


class _Items(NamedTuple):
    """Rows that are known, old and new ones, by partition and order.

    Attributes:
        rows: of the input's columns.
        windows: int64, ascending: rows of one number follow one another without a gap.
        was, is_there: whether each row is there before and after the epoch.
        near: whether each row's values may differ, and can be computed.
    """

    rows: pa.RecordBatch
    windows: np.ndarray
    was: np.ndarray
    is_there: np.ndarray
    near: np.ndarray


@operates(Over)
class Windowed(Operator):
    """Adds a column a window function."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._schema = node.input.fields.arrow
        self._reach = reach(node.calls)
        self._rows = context.open_state(StateSpec(self._schema, by_row=True))
        self._arrivals = None if context.inputs[0].is_append else Arrivals(context)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        arrivals = epoch.arrival + np.arange(len(changes))
        if self._arrivals is None:
            effect = Effect(np.arange(len(changes)), np.zeros(0, np.int64), arrivals)
        else:
            effect = self._arrivals.take(changes, arrivals)
        told = self._told(self._items(changes, effect))
        return paired(netted(told, None)) if len(effect.removed) else told

    def _items(self, changes: Changes, effect: Effect) -> _Items:
        """Read the rows that matter, and bring the state to what it is after the changes."""
        keys = encoded(changes.columns(self.node.partition_by), len(changes))
        row_keys = order_keys(changes, self.node.order_by, effect.arrivals)
        items = self._read(changes, effect, keys, row_keys)
        new, old = pa.array(effect.added), pa.array(effect.removed)
        rows = changes.take(effect.added).rows
        self._rows.put(keys.take(new), rows.columns, row_keys.take(new))
        self._rows.remove(keys.take(old), row_keys.take(old))
        return items

    def _read(self, changes: Changes, effect: Effect, keys: pa.Array, row_keys: pa.Array) -> _Items:
        named = keys.dictionary_encode()
        partitions = np.asarray(named.indices).astype(np.int64)
        changed = np.concatenate([effect.added, effect.removed])
        parts = [(changes.take(effect.added).rows, partitions[effect.added])]
        parts_keys = [row_keys.take(pa.array(effect.added))]
        asked = [np.arange(len(effect.added))]  # the question that each row answers
        questions = pa.array(changed)
        if self._reach is None:
            used = np.unique(partitions[changed])
            founds = [(self._rows.rows_of(named.dictionary.take(pa.array(used))), used)]
        else:
            far = sum(self._reach)
            around, bounds = keys.take(questions), row_keys.take(questions)
            founds = [
                (self._rows.rows_of(around, last=far, bounds=bounds), partitions[changed]),
                (self._rows.rows_of(around, first=far + 1, bounds=bounds), partitions[changed]),
            ]
        for found, of_question in founds:
            assert found.row_keys is not None
            parts.append((found.rows, of_question[found.positions]))
            parts_keys.append(found.row_keys)
            asked.append(found.positions)
        rows = concat_rows(self._schema, [each for each, _ in parts])
        of_row = np.concatenate([each for _, each in parts])
        all_keys = pa.concat_arrays(parts_keys)
        order, starts = NormalizedKeys([pa.array(of_row), all_keys]).sort(stable=True)
        chosen = order[starts]
        item_keys = all_keys.take(pa.array(chosen))
        is_new = chosen < len(effect.added)
        gone = np.asarray(pc.is_in(item_keys, row_keys.take(pa.array(effect.removed))))
        taken = rows.take(pa.array(chosen)) if len(self._schema) else rows
        items = _Items(taken, of_row[chosen], ~is_new, ~gone, np.ones(len(chosen), bool))
        if self._reach is None:
            return items
        item = np.empty(len(order), np.int64)
        item[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
        return self._cut(items, item, np.concatenate(asked), is_new, gone)

    def _cut(
        self,
        items: _Items,
        item: np.ndarray,
        asked: np.ndarray,
        is_new: np.ndarray,
        gone: np.ndarray,
    ) -> _Items:
        """Cut the rows where some between two of them may not be known.

        Args:
            item: of each row that was read its place among the items; asked: its question, which
                is a change. What answers a question has no gap.
        """
        count = len(items.windows)
        questions = int(asked.max()) + 1
        low, high = np.full(questions, count), np.full(questions, -1)
        np.minimum.at(low, asked, item)
        np.maximum.at(high, asked, item)
        known = high >= 0
        steps = np.zeros(count + 1, np.int64)
        np.add.at(steps, low[known], 1)
        np.add.at(steps, high[known], -1)
        linked = np.cumsum(steps)[: count - 1] > 0
        linked |= is_new[1:] & is_new[:-1]
        linked &= items.windows[1:] == items.windows[:-1]
        windows = np.concatenate([[0], np.cumsum(~linked)])
        changed = np.flatnonzero(is_new | gone)
        near = is_new | gone
        for there in (items.was, items.is_there):
            near |= self._around(there, changed, windows)
        return items._replace(windows=windows, near=near)

    def _around(self, there: np.ndarray, changed: np.ndarray, windows: np.ndarray) -> np.ndarray:
        """Whether each row is so near to a change, in its window, that its values may differ."""
        assert self._reach is not None
        before = np.concatenate([[0], np.cumsum(there)])
        numbers = before[changed]
        begins = np.searchsorted(windows, windows[changed])
        ends = np.searchsorted(windows, windows[changed], side="right")
        low = np.maximum(numbers - self._reach.after, before[begins])
        high = np.minimum(numbers + self._reach.before + there[changed], before[ends])
        steps = np.zeros(int(before[-1]) + 1, np.int64)
        np.add.at(steps, low, 1)
        np.add.at(steps, np.maximum(high, low), -1)
        near = np.zeros(len(there), bool)
        near[there] = np.cumsum(steps)[:-1] > 0
        return near

    def _values(self, items: _Items, chosen: np.ndarray) -> list[pa.Array]:
        """Compute the calls over some rows, a value each."""
        rows = items.rows.take(pa.array(chosen)) if len(self._schema) else items.rows
        columns = [*rows.columns, pa.array(items.windows[chosen])]
        table = pa.table(columns, names=[*self._schema.names, _WINDOW])
        partitions = Partitions(table, [_WINDOW], self.node.order_by)
        return computed(partitions, table, self.node.calls)

    def _told(self, items: _Items) -> Changes:
        """Tell the rows that go, those that come, and those whose values differ."""
        old, new = np.flatnonzero(items.was), np.flatnonzero(items.is_there)
        before, after = self._values(items, old), self._values(items, new)
        place = np.cumsum(items.was) - 1, np.cumsum(items.is_there) - 1
        stays = np.flatnonzero(items.was & items.is_there & items.near)
        halves = [
            pa.concat_arrays(
                [one.take(pa.array(place[0][stays])), two.take(pa.array(place[1][stays]))]
            )
            for one, two in zip(before, after, strict=True)
        ]
        same = codes(halves, 2 * len(stays)).of_row if halves else np.zeros(2 * len(stays))
        differs = stays[same[: len(stays)] != same[len(stays) :]]
        updated = np.zeros(len(items.was), bool)
        updated[differs] = True
        leave = np.flatnonzero((items.was & ~items.is_there) | updated)
        enter = np.flatnonzero((items.is_there & ~items.was) | updated)
        if not self.context.mode.before:
            leave = np.flatnonzero(items.was & ~items.is_there)
        order = np.argsort(np.concatenate([leave * 2, enter * 2 + 1]), kind="stable")
        rows = np.concatenate([leave, enter])[order]
        kinds = np.concatenate(
            [
                np.where(updated[leave], UPDATE_BEFORE, DELETE),
                np.where(updated[enter], UPDATE_AFTER, INSERT),
            ]
        )[order].astype(np.int8)
        columns = [column.take(pa.array(rows)) for column in items.rows.columns]
        for one, two in zip(before, after, strict=True):
            values = [
                one.take(pa.array(place[0][leave])),
                two.take(pa.array(place[1][enter])),
            ]
            columns.append(pa.concat_arrays(values).take(pa.array(order)))
        return Changes(batch_of(columns, self.node.fields.arrow, len(rows)), kinds)
