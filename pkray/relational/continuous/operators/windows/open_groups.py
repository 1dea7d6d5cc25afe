"""The groups of open windows, and which of them wait for which moment."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from pkray.columns.batches import whole
from pkray.relational.continuous.changes import Changes, taken
from pkray.relational.continuous.operator import Context, Epoch
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.calls import Fold
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.operators.windows.event_time import micros, on_time, tick
from pkray.relational.continuous.operators.windows.waiting import Waiting
from pkray.relational.continuous.state.encoding import distinct, parts_of_identified
from pkray.relational.continuous.state.state import Found, State, StateSpec, own_keys
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.node import WindowBounds
from pkray.relational.plan.nodes import Aggregate, WindowKind
from pkray.relational.plan.physical import exchange_keys

LISTED_GROUPS, LISTED_MOMENTS, LISTED_MOST = 1 << 8, 1 << 6, 1 << 14
"""Groups are listed together until there are so many, or of so many moments; of one moment there
may be more, up to the last number."""
_LIST = "groups"
ARRIVAL, ROWS = "arrival", "rows"
"""When the first row of a group came, and how many rows it has."""
NEVER = -(1 << 62)
"""A moment before all: nothing is due."""
Moments: TypeAlias = Callable[[np.ndarray], np.ndarray]


class GroupLists:
    """Keeps the keys of groups until a moment, a list of many at a time.

    Several workers may have a list after a query was rescaled: whoever reads it finds the groups of
    others nowhere.

    Args:
        keys: the columns of the keys.
    """

    def __init__(self, context: Context, keys: pa.Schema, name: str) -> None:
        lists = pa.schema([(_LIST, pa.binary())])
        self._keys = keys
        self._lists = Waiting(context, lists, name=name, is_everywhere=True)
        self._epoch, self._count = -1, 0

    def add(self, keys: pa.Table, moments: np.ndarray, epoch: Epoch) -> None:
        """List groups.

        Args:
            moments: int64, one a group.
        """
        if not len(moments):
            return
        if epoch.number != self._epoch:
            self._epoch, self._count = epoch.number, 0
        order = np.argsort(moments, kind="stable")
        moments = moments[order]
        keys = keys.take(pa.array(order)).combine_chunks()
        starts = np.array(list(_cuts(moments)))
        sizes = np.diff(np.append(starts, len(moments)))
        batches = [
            _one(keys.slice(start, size)).serialize().to_pybytes()
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]
        numbers = pa.array(np.arange(len(starts)) + self._count + (self._lists.worker << 40))
        self._count += len(starts)
        epochs = pa.repeat(pa.scalar(epoch.number, pa.int64()), len(starts))
        self._lists.put(moments[starts], [epochs, numbers], [pa.array(batches, pa.binary())])

    def due(self, until: int) -> pa.Table:
        """Give and forget lists of which a group's moment has come; others may be in them."""
        found = [self._read(each) for due in self._lists.due(until) for each in due.rows[0]]
        return pa.concat_tables([self._keys.empty_table(), *found])

    def all(self) -> pa.Table:
        """Give the groups of all lists."""
        found = [self._read(each) for rows in self._lists.all() for each in rows.column(0)]
        return pa.concat_tables([self._keys.empty_table(), *found])

    def _read(self, listed: pa.Scalar) -> pa.Table:
        batch = pa.ipc.read_record_batch(listed.as_buffer(), self._keys)
        return pa.Table.from_batches([batch])


def _cuts(moments: np.ndarray) -> Iterator[int]:
    """Cut groups in the order of their moments into those that are listed together."""
    begins = np.flatnonzero(np.r_[True, moments[1:] != moments[:-1]])
    start, windows = 0, 0
    for begin, stop in zip(begins.tolist(), [*begins[1:].tolist(), len(moments)], strict=True):
        if windows and (begin - start >= LISTED_GROUPS or windows >= LISTED_MOMENTS):
            yield start
            start, windows = begin, 0
        windows += 1
        while stop - start > LISTED_MOST:
            yield start
            start += LISTED_MOST
    yield start


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


class OpenGroups:
    """Keeps groups by their keys, and lists of the keys by the end of their windows.

    A group is written into a list once, when an epoch ends after which it is still open.

    Attributes:
        keys: the columns of a group's keys.
        names: of those that tell groups apart: the end of a window says what its other bounds are,
            but for sessions.
        fold: what is kept of a group.

    Args:
        moments: until when groups are open, by the ends of their windows.
    """

    def __init__(
        self, node: Aggregate, context: Context, bounds: WindowBounds, moments: Moments = np.asarray
    ) -> None:
        self.keys = node.input.fields.only(node.keys)
        self.end = next(name for name in node.keys if name in bounds.end)
        self._tick = tick(self.keys[self.end].type)
        self.names = _telling_apart(self.keys, self.end, bounds)
        self.fold = Fold(node, retracts=not context.inputs[0].is_append)
        counts = [pa.field(ARRIVAL, pa.int64()), pa.field(ROWS, pa.int64())]
        schema = pa.schema([*self.keys.arrow, *counts, *self.fold.columns])
        self._context = context
        self._state = context.open_state(StateSpec(schema))
        self.fold.open(replace(context, open_state=self._open_beside(node, context)))
        self._lists = GroupLists(context, self.keys.arrow, "windows")
        self._moments = moments
        self._new: list[pa.Table] = []
        self._nothing = Changes.none(node.input.fields)
        self._listed_twice = not context.inputs[0].is_append

    def _open_beside(self, node: Aggregate, context: Context) -> Callable[[StateSpec], State]:
        """Open the states of values, whose keys are those of groups: windows are parts of them."""
        types = [node.input.fields[name].type.arrow for name in self.names]
        together = exchange_keys(node.input)
        places = [self.names.index(name) for name in together if name in self.names]

        def open_state(spec: StateSpec) -> State:
            groups = spec.exchanged_by or own_keys

            def exchanged_by(rows: pa.RecordBatch) -> pa.Array:
                return parts_of_identified(groups(rows), types, places)

            return context.open_state(replace(spec, exchanged_by=exchanged_by))

        return open_state

    def take(self, changes: Changes, epoch: Epoch) -> pa.Table:
        """Put changes into groups.

        Returns:
            the keys of these groups.
        """
        groups = Groups.from_changes(changes, self.names, epoch)
        found = aligned(self._state.get(groups.keys), groups.count)
        arrival, rows_found, *before = found[len(self.keys) :]
        rows_before = integers(rows_found)
        rows, kept = counted(groups.of_row, groups.signs, rows_before)
        came = pc.coalesce(arrival, pa.array(groups.arrivals[groups.first]))
        columns = taken(changes.columns(self.keys.names), groups.first)
        groups = groups.moving(rows_before > 0, rows > 0, kept)
        after = self.fold.advance(before, groups)
        values = [*columns, came, pa.array(rows), *after]
        self._state.change(groups.keys, values, groups.there, groups.was & ~groups.there)
        keys = pa.Table.from_arrays(columns, schema=self.keys.arrow)
        new = np.flatnonzero(groups.there & ~groups.was)
        if len(new):
            self._new.append(keys if len(new) == groups.count else keys.take(pa.array(new)))
        return keys

    def on_time(self, changes: Changes, epoch: Epoch, lateness: int = 0) -> Changes:
        """Leave the changes of windows that are not over, or are so within the lateness that is
        allowed; the others are late."""
        if not len(changes):
            return changes
        ends = micros(changes.column(self.end)) + lateness
        return changes.take(on_time(self._context, 0, changes, ends, epoch, self._tick))

    def until(self, watermark: int | None) -> int:
        """Give the last moment at which windows are over."""
        return NEVER if watermark is None else watermark + self._tick

    def ended(self, until: int, epoch: Epoch) -> pa.Table:
        """List the groups that are open until then, and note which are still open afterwards.

        Args:
            until: microseconds.

        Returns:
            the keys.
        """
        waiting = pa.concat_tables([self._lists.due(until), self.fresh()])
        self._new = []
        moments = self._moments(micros(whole(waiting[self.end])))
        over = moments <= until
        self._lists.add(waiting.filter(pa.array(~over)), moments[~over], epoch)
        return waiting.filter(pa.array(over)).combine_chunks()

    def fresh(self) -> pa.Table:
        """List the groups that came in this epoch: their keys."""
        return pa.concat_tables([self.keys.arrow.empty_table(), *self._new])

    def listed(self) -> pa.Table:
        """List the groups that were open when the epoch began: their keys."""
        return self._lists.all()

    def groups(self, keys: pa.Table) -> Groups:
        """Make groups of keys as they are listed, each once."""
        columns = [whole(keys[name]) for name in self.names]
        groups = Groups.of_keys(self._nothing, self.names, columns)
        if not self._listed_twice:
            return groups
        _, once = np.unique(distinct(groups.keys)[1], return_index=True)
        return Groups.of_keys(self._nothing, self.names, taken(columns, once))

    def get(self, keys: pa.Table) -> tuple[Groups, Found]:
        """Find what is kept of groups; those that are gone are not found.

        Args:
            keys: as they are listed.
        """
        groups = self.groups(keys)
        return groups, self._state.get(groups.keys)

    def named(self, found: Found) -> Groups:
        """Give the groups that were found, in their order: their keys can be told in messages."""
        columns = [found.column(name) for name in self.names]
        return Groups.of_keys(self._nothing, self.names, columns)

    def forget(self, groups: Groups) -> None:
        """Remove groups."""
        self._state.remove(groups.keys)
        self.fold.forget(groups.keys)


def _telling_apart(keys: Fields, end: str, bounds: WindowBounds) -> tuple[str, ...]:
    if bounds.window.kind is WindowKind.SESSION:
        return keys.names
    implied = (bounds.start | bounds.end) - {end}
    return tuple(name for name in keys.names if name not in implied)
