"""Rows of groups that are kept one by one, in an order, for what no number can say.

A `Bag` keeps the distinct values of some columns with how often each occurs: in the order of the
columns, so that the least and the greatest are the first and the last. `Arrivals` keeps each row
by when it came. A `View` is what one aggregate sees of either: which rows came and went, and which
are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import codes
from pkray.relational.continuous.changes import taken
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.aggregates.groups import Groups, aligned, counted
from pkray.relational.continuous.state.encoding import encoded, parts, texts_of
from pkray.relational.continuous.state.state import KEY, StateSpec
from pkray.relational.plan.expressions import SortKey
from pkray.relational.plan.fields import Fields

PAGE_GROUPS = 1 << 12
"""Groups whose rows are removed at a time: a group may have many."""


@dataclass(frozen=True)
class Selection:
    """Selects the rows that an aggregate takes.

    Attributes:
        filter: a BOOLEAN column that must be true.
        required: columns that must not be NULL.
    """

    filter: str | None = None
    required: tuple[str, ...] = ()

    def of(self, groups: Groups) -> np.ndarray | None:
        """Say which changes are taken; None: all."""
        return groups.once(("selected", self), lambda: self._mask(groups))

    def _mask(self, groups: Groups) -> np.ndarray | None:
        mask = None
        if self.filter is not None:
            mask = np.asarray(pc.fill_null(groups.changes.column(self.filter), False))
        for name in self.required:
            column = groups.changes.column(name)
            if column.null_count:
                valid = np.asarray(column.is_valid())
                mask = valid if mask is None else mask & valid
        return mask


@dataclass(frozen=True)
class Moved:
    """Rows that came or went.

    Attributes:
        groups: int64, one a row.
        row_keys: BINARY: where it stands in its group.
        columns: by name.
        before, after: int64: how often it is there.
    """

    groups: np.ndarray
    row_keys: pa.Array
    columns: Mapping[str, pa.Array]
    before: np.ndarray
    after: np.ndarray

    @property
    def came(self) -> np.ndarray:
        """Numbers of the rows that were not there before."""
        return np.flatnonzero((self.before == 0) & (self.after > 0))

    @property
    def went(self) -> np.ndarray:
        """Numbers of the rows that are not there any more."""
        return np.flatnonzero((self.before > 0) & (self.after == 0))


@dataclass(frozen=True)
class Held:
    """Rows that are there.

    Attributes:
        positions: int64, for each row the number of the group that was asked for, ascending.
        row_keys: BINARY, ascending in each group.
        columns: by name.
    """

    positions: np.ndarray
    row_keys: pa.Array
    columns: Mapping[str, pa.Array]


class View(ABC):
    """Rows of groups, as one aggregate takes them."""

    @abstractmethod
    def moved(self, groups: Groups) -> Moved:
        """Put changes in; say what they did. Whoever asks later is told the same."""

    @abstractmethod
    def read(self, keys: pa.Array, *, first: int | None = None, last: int | None = None) -> Held:
        """Read all rows of groups, by their encoded keys, or so many first or last ones."""


class Bag:
    """Values of columns with how often each occurs in a group, for each of some selections.

    Args:
        fields: of the input.
        order: the columns by which rows are in order; the other columns follow, ascending.
        names: of all columns.
    """

    def __init__(self, fields: Fields, order: Sequence[SortKey], names: Sequence[str]) -> None:
        sorted_by = [key.column for key in order]
        self.names = tuple(dict.fromkeys([*sorted_by, *names]))
        keys = {key.column: key for key in reversed(order)}
        self._keys = [keys.get(name, SortKey(name)) for name in self.names]
        self._types = [fields[name].type.arrow for name in self.names]
        self.selections: list[Selection] = []

    def view(self, selection: Selection) -> BagView:
        """See the rows that a selection takes; only before the bag is opened."""
        if selection not in self.selections:
            self.selections.append(selection)
        return BagView(self, selection)

    def open(self, context: Context, name: str) -> None:
        """Open the state."""
        counts = [pa.field(f"count{place}", pa.int64()) for place in range(len(self.selections))]
        values = [pa.field(*pair) for pair in zip(self.names, self._types, strict=True)]
        schema = pa.schema([*counts, *values])
        self._state = context.open_state(StateSpec(schema, by_row=True, name=name))
        self._renews = context.expires

    def moved(self, groups: Groups) -> tuple[Moved, np.ndarray, np.ndarray]:
        """Put changes in; give the rows, and their counts before and after, a row a selection."""
        return groups.once(self, lambda: self._moved(groups))

    def _moved(self, groups: Groups) -> tuple[Moved, np.ndarray, np.ndarray]:
        everything = np.ones(len(groups.of_row), bool)
        masks = [each.of(groups) for each in self.selections]
        chosen = [everything if mask is None else mask for mask in masks]
        rows = np.flatnonzero(np.logical_or.reduce(chosen))
        of_row, signs = groups.of_row[rows], groups.signs[rows]
        columns = taken(groups.changes.columns(self.names), rows)
        values = codes([pa.array(of_row), *columns], len(rows))
        first = values.first_rows()
        owners = of_row[first]
        columns = taken(columns, first)
        keys, row_keys = groups.keys.take(owners), self._row_keys(columns)
        found = self._state.get(keys, row_keys)
        known = found.among(values.count)
        counts = aligned(found, values.count)[: len(self.selections)]
        before = np.stack([np.asarray(pc.fill_null(each, 0)).astype(np.int64) for each in counts])
        after = np.stack(
            [
                counted(values.of_row[mask[rows]], signs[mask[rows]], earlier)[0]
                for mask, earlier in zip(chosen, before, strict=True)
            ]
        )
        there = np.asarray(after.any(axis=0))
        changed = there if self._renews else there & (before != after).any(axis=0)
        kept = [*map(pa.array, after), *columns]
        self._state.change(keys, kept, changed, known & ~there, row_keys)
        named = dict(zip(self.names, columns, strict=True))
        return Moved(owners, row_keys, named, before[0], after[0]), before, after

    def forget(self, keys: pa.Array) -> None:
        """Remove all rows of groups, by their encoded keys."""
        for some in _in_pages(keys):
            found = self._state.rows_of(some)
            self._state.remove(some.take(found.positions), found.row_keys)

    def _row_keys(self, columns: Sequence[pa.Array]) -> pa.Array:
        return encoded(
            columns,
            descending=[key.descending for key in self._keys],
            nulls_first=[key.nulls_first for key in self._keys],
        )

    def read(self, keys: pa.Array, selection: int, first: int | None, last: int | None) -> Held:
        """Read rows; with several selections all of them are asked for."""
        found = self._state.rows_of(keys, first=first, last=last)
        counts = np.asarray(found.rows.column(selection)).astype(np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        arrays = [found.row_keys, *found.rows.columns[len(self.selections) :]]
        if len(rows) != len(counts) or (counts != 1).any():
            arrays = taken(arrays, rows)
        named = dict(zip(self.names, arrays[1:], strict=True))
        return Held(found.positions[rows], arrays[0], named)


@dataclass(frozen=True)
class BagView(View):
    """Shows what one selection takes of a bag."""

    bag: Bag
    selection: Selection

    def moved(self, groups: Groups) -> Moved:
        moved, before, after = self.bag.moved(groups)
        place = self.bag.selections.index(self.selection)
        return Moved(moved.groups, moved.row_keys, moved.columns, before[place], after[place])

    def read(self, keys: pa.Array, *, first: int | None = None, last: int | None = None) -> Held:
        place = self.bag.selections.index(self.selection)
        return self.bag.read(keys, place, first, last)


class Arrivals(View):
    """Rows in the order in which they came.

    A retraction takes out the oldest of the rows that are equal to it. Two states: one finds a row
    by what is in it, the other has a group's rows in order.

    Args:
        names: columns of the rows.
    """

    def __init__(self, fields: Fields, names: Sequence[str], selection: Selection) -> None:
        self.names = tuple(names)
        self._types = [fields[name].type.arrow for name in self.names]
        self._selection = selection

    def open(self, context: Context, name: str) -> None:
        """Open the states."""
        values = pa.schema([*zip(self.names, self._types, strict=True)])
        self._rows = context.open_state(StateSpec(values, by_row=True, name=name))
        places = StateSpec(
            pa.schema([]), by_row=True, name=f"{name}_places", exchanged_by=_groups_of_values
        )
        self._places = context.open_state(places)

    def moved(self, groups: Groups) -> Moved:
        return groups.once(self, lambda: self._moved(groups))

    def _moved(self, groups: Groups) -> Moved:
        mask = self._selection.of(groups)
        rows = np.arange(len(groups.of_row)) if mask is None else np.flatnonzero(mask)
        of_row, signs = groups.of_row[rows], groups.signs[rows]
        columns = taken(groups.changes.columns(self.names), rows)
        arrived = encoded([pa.array(groups.arrivals[rows])])
        values = codes([pa.array(of_row), *columns], len(rows))
        first = values.first_rows()
        exemplars = taken(columns, first)
        owners = of_row[first]
        value_keys = encoded([groups.keys.take(owners), *exemplars])
        wanted = np.bincount(values.of_row[signs < 0], minlength=values.count)
        held, places = self._oldest(value_keys, wanted)
        known = np.bincount(held, minlength=values.count)
        _, kept = counted(values.of_row, signs, known)
        dropped = signs < 0 if kept is None else (signs < 0) & kept
        taken_out = np.bincount(values.of_row[dropped], minlength=values.count)
        added = np.flatnonzero(signs > 0)
        # rows that are held are older than those that come
        every = np.concatenate([held, values.of_row[added]])
        order = np.argsort(every, kind="stable")
        begins = np.cumsum(np.bincount(every, minlength=values.count))
        number = np.empty(len(every), np.int64)
        number[order] = np.arange(len(every)) - np.r_[0, begins[:-1]][every[order]]
        out = number < taken_out[every]
        went, came = np.flatnonzero(out[: len(held)]), added[~out[len(held) :]]
        of_went, went_at = held[went], places.take(went)
        self._rows.remove(groups.keys.take(owners[of_went]), went_at)
        self._places.remove(value_keys.take(of_went), went_at)
        new_columns, came_at = taken(columns, came), arrived.take(came)
        self._rows.put(groups.keys.take(of_row[came]), new_columns, came_at)
        self._places.put(value_keys.take(values.of_row[came]), [], came_at)
        ones, zeros = np.ones(len(came), np.int64), np.zeros(len(went), np.int64)
        named = {
            name: pa.concat_arrays([old.take(of_went), now])
            for name, old, now in zip(self.names, exemplars, new_columns, strict=True)
        }
        return Moved(
            np.concatenate([owners[of_went], of_row[came]]),
            pa.concat_arrays([went_at, came_at]),
            named,
            np.concatenate([zeros + 1, ones - 1]),
            np.concatenate([zeros, ones]),
        )

    def _oldest(self, keys: pa.Array, wanted: np.ndarray) -> tuple[np.ndarray, pa.Array]:
        """Find the oldest rows of values: for each its value's number, and when it came."""
        asked = np.flatnonzero(wanted)
        if not len(asked):
            return np.zeros(0, np.int64), pa.array([], pa.binary())
        found = self._places.rows_of(keys.take(asked), first=int(wanted.max()))
        starts = np.searchsorted(found.positions, found.positions)
        number = np.arange(len(found.positions)) - starts
        near = np.flatnonzero(number < wanted[asked[found.positions]])
        return asked[found.positions[near]], found.row_keys.take(near)

    def forget(self, keys: pa.Array) -> None:
        """Remove all rows of groups, by their encoded keys."""
        for some in _in_pages(keys):
            found = self._rows.rows_of(some)
            owners = some.take(found.positions)
            self._rows.remove(owners, found.row_keys)
            self._places.remove(encoded([owners, *found.rows.columns]), found.row_keys)

    def read(self, keys: pa.Array, *, first: int | None = None, last: int | None = None) -> Held:
        found = self._rows.rows_of(keys, first=first, last=last)
        named = dict(zip(self.names, found.rows.columns, strict=True))
        return Held(found.positions, found.row_keys, named)


def _in_pages(keys: pa.Array) -> Iterator[pa.Array]:
    for start in range(0, len(keys), PAGE_GROUPS):
        yield keys.slice(start, PAGE_GROUPS)


def _groups_of_values(rows: pa.RecordBatch) -> pa.Array:
    """Give the keys of the groups, which the keys of their values begin with."""
    return texts_of(parts(rows.column(KEY), [pa.binary()], [0]))
