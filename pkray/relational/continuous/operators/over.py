"""Window functions: a value a row, computed from the rows around it, which may still come.

Rows are kept by partition, order and arrival. Where each function looks at so many rows before and
after a row at most, those around each change are read (`Windowed`). Where functions go on from the
row before, their values are kept beside the rows, and read are those from the first change on
(`Running`). Else the partitions that change are read whole. The values before and after are
computed by the bounded engine's functions on what was read, and compared.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.relational.continuous.changes import Changes, concat_rows, netted, take, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators import ordering
from pkray.relational.continuous.operators.carried import carried_values, runs_on, sees_peers
from pkray.relational.continuous.operators.replacement import differing
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import Found, StateSpec
from pkray.relational.local.frames import Partitions
from pkray.relational.local.over import computed
from pkray.relational.plan.expressions import Frame, WindowCall
from pkray.relational.plan.nodes import BIGINT, Over
from pkray.relational.plan.over import reach, reach_of
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

_STRETCH = 64
"""Rows read at once from the first of several changes of a partition on, to find the others."""
_ALL = 1 << 40
"""As many rows as there are."""
_WINDOW = "$window"
"""The column that tells stretches of rows apart that are computed by themselves."""


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


class _Windowed(Operator):
    """Adds a column a window function: what its kinds share."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._schema = node.input.fields.arrow
        self._rows = context.open_state(StateSpec(self._kept(), by_row=True))
        self._arrivals = ordering.Arrivals(context, node.input.fields, node.partition_by)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        effect = self._arrivals.take(changes, epoch.arrival + np.arange(len(changes)))
        if not len(effect.added) + len(effect.removed):
            return Changes.none(self.node.fields)
        keys = encoded(changes.columns(self.node.partition_by), len(changes))
        row_keys = ordering.order_keys(changes, self.node.order_by, effect.arrivals)
        told = self._told(*self._run(changes, effect, keys, row_keys))
        if not len(effect.removed):
            return told
        left = ordering.paired(netted(told, None))
        return ordering.retractions_first(left) if self.context.feeds_state else left

    def _kept(self) -> pa.Schema:
        """Name the columns that the state has."""
        return self._schema

    @abstractmethod
    def _run(
        self, changes: Changes, effect: ordering.Effect, keys: pa.Array, row_keys: pa.Array
    ) -> tuple[_Items, list[pa.Array], list[pa.Array]]:
        """Read the rows that matter, and bring the state to what it is after the changes.

        Args:
            keys, row_keys: where the row of each change stands.

        Returns:
            The rows; the values of the calls before, and after, a value a row that is there.
        """

    def _told(
        self, items: _Items, before: Sequence[pa.Array], after: Sequence[pa.Array]
    ) -> Changes:
        """Tell the rows that go, those that come, and those whose values differ."""
        place = np.cumsum(items.was) - 1, np.cumsum(items.is_there) - 1
        updated = _differ(items, before, after)
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
        columns = taken(items.rows.columns, rows)
        for one, two in zip(before, after, strict=True):
            values = [one.take(place[0][leave]), two.take(place[1][enter])]
            columns.append(pa.concat_arrays(values).take(order))
        return Changes(batch_of(columns, self.node.fields.arrow, len(rows)), kinds)


@operates(Over, when=lambda node: not node.waits and not runs_on(node.calls))
class Windowed(_Windowed):
    """Adds window functions, computed again around changes, or over whole partitions."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._reach = reach(node.calls)

    def _run(
        self, changes: Changes, effect: ordering.Effect, keys: pa.Array, row_keys: pa.Array
    ) -> tuple[_Items, list[pa.Array], list[pa.Array]]:
        items = self._read(changes, effect, keys, row_keys)
        new, old = effect.added, effect.removed
        rows = changes.take(new).rows
        self._rows.put(keys.take(new), rows.columns, row_keys.take(new))
        self._rows.remove(keys.take(old), row_keys.take(old))
        before = self._values(items, np.flatnonzero(items.was))
        return items, before, self._values(items, np.flatnonzero(items.is_there))

    def _read(
        self, changes: Changes, effect: ordering.Effect, keys: pa.Array, row_keys: pa.Array
    ) -> _Items:
        changed = np.concatenate([effect.added, effect.removed])
        named, partitions = distinct(keys.take(changed))
        places = row_keys.take(changed)
        new = len(effect.added)
        if self._reach is None:
            founds = [self._rows.rows_of(named)]
            of_found, asked = [founds[0].positions], []
        else:
            questions, reads = self._around_changes(named, partitions, places)
            founds = [found for found, _ in reads]
            of_found = [partitions[each] for _, each in reads]
            asked = [questions[:new], *(each for _, each in reads)]
        added = changes.take(effect.added).rows
        rows = concat_rows(self._schema, [added, *(found.rows for found in founds)])
        of_row = np.concatenate([partitions[:new], *of_found])
        all_keys = pa.concat_arrays([places[:new], *(found.row_keys for found in founds)])
        order, starts = NormalizedKeys([pa.array(of_row), all_keys]).sort(stable=True)
        chosen = order[starts]
        is_new = chosen < new
        gone = np.asarray(pc.is_in(all_keys.take(chosen), places[new:]))
        every = np.ones(len(chosen), bool)
        items = _Items(take(rows, chosen), of_row[chosen], ~is_new, ~gone, every)
        if self._reach is None:
            return items
        item = np.empty(len(order), np.int64)
        item[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
        return self._cut(items, item, np.concatenate(asked), is_new, gone)

    def _around_changes(
        self, keys: pa.Array, partitions: np.ndarray, places: pa.Array
    ) -> tuple[np.ndarray, list[tuple[Found, np.ndarray]]]:
        """Read the rows around changes: those of a partition that lie near together at once.

        Args:
            partitions: of each change the number of its key; places: its row key.

        Returns:
            The question of each change, which is the number of a change; rows, and of each the
            question that it answers. What answers one question has no gap, its changes among it.
        """
        assert self._reach is not None
        far = sum(self._reach)
        questions = np.arange(len(partitions))
        order, _ = NormalizedKeys([pa.array(partitions), places]).sort()
        begins = np.flatnonzero(np.diff(partitions[order], prepend=-1))
        ends = np.append(begins[1:], len(order)) - 1
        several = begins < ends
        first, last = order[begins[several]], order[ends[several]]
        reads: list[tuple[Found, np.ndarray]] = []
        if len(first):
            back, on, whole = self._stretches(keys.take(partitions[first]), places, first, last)
            leader = np.full(len(keys), -1)
            leader[partitions[first[whole]]] = first[whole]
            questions = np.where(leader[partitions] < 0, questions, leader[partitions])
            for found in (back, on):
                answers = np.flatnonzero(whole[found.positions])
                reads.append((found.take(answers), first[found.positions[answers]]))
            left = np.flatnonzero(leader[partitions] < 0)
        else:
            left = questions
        if len(left):
            some, bounds = keys.take(partitions[left]), places.take(left)
            back = self._rows.rows_of(some, last=far, bounds=bounds)
            on = self._rows.rows_of(some, first=far + 1, bounds=bounds)
            reads += [(back, left[back.positions]), (on, left[on.positions])]
        return questions, reads

    def _stretches(
        self, keys: pa.Array, places: pa.Array, first: np.ndarray, last: np.ndarray
    ) -> tuple[Found, Found, np.ndarray]:
        """Read from before the first change of each key some rows on.

        Returns:
            The rows before; those after; whether these reach beyond the last change as far as
            values look.
        """
        assert self._reach is not None
        far = sum(self._reach)
        bounds = places.take(first)
        back = self._rows.rows_of(keys, last=far, bounds=bounds)
        on = self._rows.rows_of(keys, first=far + _STRETCH, bounds=bounds)
        ends = places.take(last[on.positions])
        beyond = np.asarray(pc.greater(on.row_keys, ends))
        rows = np.bincount(on.positions, minlength=len(first))
        after = np.bincount(on.positions[beyond], minlength=len(first))
        return back, on, (rows < far + _STRETCH) | (after > far)

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
        columns = [*taken(items.rows.columns, chosen), pa.array(items.windows[chosen])]
        table = pa.table(columns, names=[*self._schema.names, _WINDOW])
        partitions = Partitions(table, [_WINDOW], self.node.order_by)
        return computed(partitions, table, self.node.calls)


@operates(Over, when=lambda node: not node.waits and runs_on(node.calls))
class Running(_Windowed):
    """Adds window functions that go on from the row before: sums, counts and numbers so far.

    The state keeps their values beside each row. From the first row that changes on, those of a
    partition are computed again, on from the values of the row before.
    """

    def __init__(self, node: Any, context: Context) -> None:
        self._calls = _with_numbers(node.calls)
        self._back = max([1, *(each.before for _, call in node.calls if (each := reach_of(call)))])
        self._by_peers = any(sees_peers(call) for _, call in node.calls)
        super().__init__(node, context)

    def _kept(self) -> pa.Schema:
        values = [pa.field(f"${i}", call.type.arrow) for i, (_, call) in enumerate(self._calls)]
        return pa.schema([*self._schema, *values])

    def _run(
        self, changes: Changes, effect: ordering.Effect, keys: pa.Array, row_keys: pa.Array
    ) -> tuple[_Items, list[pa.Array], list[pa.Array]]:
        changed = np.concatenate([effect.added, effect.removed])
        named, partitions = distinct(keys.take(changed))
        places = row_keys.take(changed)
        bounds = self._bounds(partitions, places)
        back = self._rows.rows_of(named, last=self._back, bounds=bounds)
        on = self._rows.rows_of(named, first=_ALL, bounds=bounds)
        added = changes.take(effect.added).rows
        nothing = [pa.nulls(added.num_rows, call.type.arrow) for _, call in self._calls]
        new = batch_of([*added.columns, *nothing], self._kept(), added.num_rows)
        rows = concat_rows(self._kept(), [back.rows, on.rows, new])
        of_row = np.concatenate([back.positions, on.positions, partitions[: len(effect.added)]])
        all_keys = pa.concat_arrays([back.row_keys, on.row_keys, places[: len(effect.added)]])
        order, _ = NormalizedKeys([pa.array(of_row), all_keys]).sort(stable=True)
        all_keys = all_keys.take(order)
        known = len(back.positions) + len(on.positions)
        gone = np.asarray(pc.is_in(all_keys, places[len(effect.added) :]))
        rows = rows.take(order)
        width = len(self._schema)
        items = _Items(
            batch_of(rows.columns[:width], self._schema, len(order)),
            of_row[order],
            order < known,
            ~gone,
            order >= len(back.positions),
        )
        before = taken(rows.columns[width:], np.flatnonzero(items.was))
        after = self._values(items, rows.columns[width:])
        self._store(items, named, all_keys, before, after)
        self._rows.remove(named.take(items.windows[gone]), all_keys.filter(gone))
        return items, before[: len(self.node.calls)], after[: len(self.node.calls)]

    def _bounds(self, partitions: np.ndarray, places: pa.Array) -> pa.Array:
        """Find where the first changed row of each partition stands, or the first of its peers."""
        order, _ = NormalizedKeys([pa.array(partitions), places]).sort()
        first = np.flatnonzero(np.diff(partitions[order], prepend=-1))
        bounds = places.take(order[first])
        return pc.binary_slice(bounds, 0, -ordering.ARRIVAL_BYTES) if self._by_peers else bounds

    def _store(
        self,
        items: _Items,
        keys: pa.Array,
        row_keys: pa.Array,
        before: Sequence[pa.Array],
        after: Sequence[pa.Array],
    ) -> None:
        differs = _differ(items, before, after)
        written = np.flatnonzero(differs | (items.is_there & ~items.was))
        places = (np.cumsum(items.is_there) - 1)[written]
        columns = [*taken(items.rows.columns, written), *taken(after, places)]
        self._rows.put(keys.take(items.windows[written]), columns, row_keys.take(written))

    def _values(self, items: _Items, kept: Sequence[pa.Array]) -> list[pa.Array]:
        """Compute the calls over the rows that are there.

        Args:
            kept: the calls' values as the state has them, a value a row.
        """
        chosen = np.flatnonzero(items.is_there)
        return carried_values(
            take(items.rows, chosen),
            items.windows[chosen],
            ~items.near[chosen],
            self.node.order_by,
            [call for _, call in self._calls],
            taken(kept, chosen),
        )


def _with_numbers(calls: Sequence[tuple[str, WindowCall]]) -> list[tuple[str, WindowCall]]:
    """Keep the number of each row last, from which ranks go on."""
    number = WindowCall("row_number", (), BIGINT, Frame("rows", None, 0))
    return [*calls, ("", number)]


def _differ(items: _Items, before: Sequence[pa.Array], after: Sequence[pa.Array]) -> np.ndarray:
    """Whether each row stays and its values differ."""
    stays = np.flatnonzero(items.was & items.is_there & items.near)
    old = taken(before, (np.cumsum(items.was) - 1)[stays])
    new = taken(after, (np.cumsum(items.is_there) - 1)[stays])
    differs = np.zeros(len(items.was), bool)
    differs[stays] = differing(old, new, np.arange(len(stays)))
    return differs
