"""The sides of joins: their rows by join key and row, and what an epoch changes in them.

Rows of a side that takes nothing back are told apart by their arrival. Of other sides a row is told
from others of its join key by the side's key, where the changes of its input can be followed by
one; it then replaces what stands there. Otherwise the whole row is its key, and how many equal rows
there are is kept beside it. For sides whose rows are given by whether they have matches, how many
is kept as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import Codes, codes
from pkray.relational.continuous.changes import Changes, all_valid, take, taken
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.aggregates.groups import counted
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import Found, StateSpec
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.keys import best_key, upsert_keys
from pkray.relational.plan.nodes import Exchange, Node
from pkray.schema.row_kind import UPDATE_AFTER, UPDATE_BEFORE

COUNT = "_count"
"""The column that says how many equal rows there are, where a side has no key."""


@dataclass(frozen=True)
class Asked:
    """Join keys whose rows are asked for.

    Attributes:
        keys: BINARY, distinct.
        columns: the same keys as the columns that they are made of.
    """

    keys: pa.Array
    columns: Sequence[pa.Array] = ()


@dataclass(frozen=True)
class Delta:
    """Holds what an epoch adds to a side's rows and takes from them, in the order of the causes.

    Attributes:
        rows: of the side's columns.
        row_keys: BINARY, one a row.
        signs: int64, how many equal rows are added; less than 0: taken away. 0: a row that is
            only written again, so that it does not expire.
        kinds: int8, of the change that each row comes from.
        causes: int64, the number of that change; ascending.
        after: int64, how many such rows there are afterwards.
        keys: BINARY, the distinct join keys.
        of_row: int64, which of them is each row's.
        matching: whether each row's join key can equal another: without NULLs that never do.
        columns: the columns of the join keys, as they are in `keys`.
    """

    rows: pa.RecordBatch
    row_keys: pa.Array
    signs: np.ndarray
    kinds: np.ndarray
    causes: np.ndarray
    after: np.ndarray
    keys: pa.Array
    of_row: np.ndarray
    matching: np.ndarray
    columns: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.signs)

    def asked(self) -> tuple[Asked, np.ndarray]:
        """Give the keys that can match, and which of them is each row's; -1: none is."""
        if self.matching.all():
            return Asked(self.keys, self.columns), self.of_row
        used = np.zeros(len(self.keys), bool)
        used[self.of_row[self.matching]] = True
        of_row = np.where(self.matching, (np.cumsum(used) - 1)[self.of_row], -1)
        chosen = np.flatnonzero(used)
        return Asked(self.keys.take(chosen), taken(self.columns, chosen)), of_row


@dataclass(frozen=True)
class Held:
    """Rows of a side that were found by join keys.

    Attributes:
        keys: BINARY, the keys that were asked for.
        positions: int64, for each row the number of its key, ascending.
        rows: of the side's columns.
        row_keys: BINARY, one a row.
        copies: int64, how many equal rows each stands for.
        tallies: int64, one row a tally of matches that the side keeps, one column a row.
    """

    keys: pa.Array
    positions: np.ndarray
    rows: pa.RecordBatch
    row_keys: pa.Array
    copies: np.ndarray
    tallies: np.ndarray

    def ranges(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give for numbers of keys the first row of each and how many it has; -1 has none."""
        sizes = np.r_[np.bincount(self.positions, minlength=len(self.keys)), 0]
        starts = np.cumsum(sizes) - sizes
        return starts[keys], sizes[keys]


@dataclass(frozen=True)
class SideSpec:
    """Describes a side of a join.

    Attributes:
        input: what gives the side's changes.
        fields: the columns that the join needs, as they are called in the joined row.
        places: where each of them stands in the input.
        keys: the columns of the join key, as the input calls them.
        null_safe: for each of them, whether NULL equals NULL.
        index: 0 for the left side, 1 for the right one.
        keeps_unmatched: whether rows without a match come out.
    """

    input: Node
    fields: Fields
    places: tuple[int, ...]
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    index: int
    keeps_unmatched: bool = False

    def grouped(self, keys: tuple[str, ...], null_safe: tuple[bool, ...]) -> SideSpec:
        """Give the same side by other keys."""
        return replace(self, keys=keys, null_safe=null_safe)


class JoinSide(ABC):
    """One side of a join: finds its rows, and works out what changes do to them.

    Attributes:
        fields: the columns of its rows.
        keeps_unmatched: whether rows without a match come out.
        tallies: names of the counts of matches that are kept beside each row.
    """

    tallies: tuple[str, ...] = ()

    def __init__(self, spec: SideSpec, context: Context) -> None:
        self.fields = spec.fields
        self.keeps_unmatched = spec.keeps_unmatched
        self._places = list(spec.places)
        self._keys = spec.keys
        self._null_safe = spec.null_safe
        self._key = row_key(spec.input)
        self._expires = context.expires
        self._appends = context.inputs[spec.index].is_append
        self._counts = self._key is None and not self._appends

    def delta(self, changes: Changes, arrival: int) -> Delta:
        """Work out what changes do to the rows; reads the state and leaves it as it is.

        Args:
            arrival: the number of the first change; no two calls have the same one.
        """
        matching = self._matching(changes)
        if not self.keeps_unmatched:
            changes, matching = changes.where(matching), matching[matching]
        key = changes.rows.schema.names if self._key is None else self._key
        count = len(changes)
        keys = encoded(changes.columns(self._keys), count)
        if self._appends:  # nothing is taken back: each row is by itself
            arrivals = pa.repeat(pa.scalar(arrival, pa.int64()), count)
            row_keys = encoded([arrivals, pa.array(np.arange(count, dtype=np.int32))])
        else:
            row_keys = encoded(changes.columns(key), count)
        if self._all_are_new(changes):
            every, one = np.arange(count), np.ones(count, np.int64)
            moves = self._kept(changes), every, one, changes.kinds, every, one
        else:
            groups = codes([row_keys], count)
            if self._key is not None and groups.count < count:
                groups = codes([keys, row_keys], count)
            found = self._standing(changes, keys, row_keys, groups)
            plan = self._counted if self._key is None else self._replaced
            moves = plan(changes, groups.of_row, groups.first_rows(), found)
        rows, numbers, signs, kinds, causes, after = moves
        order = np.argsort(causes * 2 + (signs > 0), kind="stable")
        causes = causes[order]
        join_keys, of_row = distinct(keys.take(causes))
        named = np.empty(len(join_keys), np.int64)
        named[of_row] = causes
        return Delta(
            take(rows, numbers[order]),
            row_keys.take(causes),
            signs[order],
            kinds[order],
            causes,
            after[order],
            join_keys,
            of_row,
            matching[causes],
            tuple(taken(changes.columns(self._keys), named)),
        )

    def _all_are_new(self, changes: Changes) -> bool:
        """Whether it is known that all changes add rows that are not there."""
        return self._appends

    @abstractmethod
    def _standing(
        self, changes: Changes, keys: pa.Array, row_keys: pa.Array, groups: Codes
    ) -> Found:
        """Find the row that stands for each group of changes of one row.

        Returns:
            by the number of the group: the side's columns and, where it has no key, how many equal
            rows there are.
        """

    @abstractmethod
    def held(self, asked: Asked, *, before: bool = False) -> Held:
        """Find all rows of join keys.

        Args:
            before: as they were before the epoch. Otherwise with what was written since.
        """

    @abstractmethod
    def held_row(self, keys: pa.Array, row_keys: pa.Array) -> Held:
        """Find rows by join key and row key."""

    @abstractmethod
    def write(self, delta: Delta, tallies: np.ndarray) -> None:
        """Put what an epoch changed into the state.

        Args:
            tallies: int64, one row a tally, one column a row of the delta.
        """

    @abstractmethod
    def retally(self, held: Held, rows: np.ndarray, tallies: np.ndarray) -> None:
        """Write counts of matches.

        Args:
            rows: numbers of rows of `held`.
            tallies: int64, one row a tally, one column a row of `held`.
        """

    def _matching(self, changes: Changes) -> np.ndarray:
        keys = zip(self._keys, self._null_safe, strict=True)
        names = [name for name, null_safe in keys if not null_safe]
        return all_valid(changes.columns(names), len(changes))

    def _kept(self, changes: Changes) -> pa.RecordBatch:
        """Take the columns that are kept."""
        columns = [changes.rows.column(place) for place in self._places]
        return batch_of(columns, self.fields.arrow, len(changes))

    def _counted(
        self, changes: Changes, groups: np.ndarray, first: np.ndarray, found: Found
    ) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Count equal rows; a retraction that finds none counts for nothing."""
        before = found.numbers(COUNT, len(first))
        after, _ = counted(groups, changes.signs, before)
        signs = after - before
        last = _last(groups, changes.adds == (signs > 0)[groups], len(first))
        chosen = signs != 0
        if self._expires:
            chosen |= after > 0
        chosen &= last >= 0
        causes = last[chosen]
        return (
            self._kept(changes),
            causes,
            signs[chosen],
            changes.kinds[causes],
            causes,
            after[chosen],
        )

    def _replaced(
        self, changes: Changes, groups: np.ndarray, first: np.ndarray, found: Found
    ) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Put the last row of each key in the place of the one that stands there."""
        count, width, stored = len(first), len(self.fields), found.rows.num_rows
        schema = self.fields.arrow
        both = [
            pa.concat_arrays([old, new])
            for old, new in zip(
                found.rows.columns[:width], self._kept(changes).columns, strict=True
            )
        ]
        rows = batch_of(both, schema, stored + len(changes))
        old = np.full(count, -1)
        old[found.positions] = np.arange(stored)
        last = _last(groups, np.ones(len(changes), bool), count)
        new = np.where(changes.adds[last], last, -1)
        replaces = (old >= 0) & (new >= 0)
        if replaces.any() and not self._expires:
            numbers = codes(both, rows.num_rows).of_row
            same = replaces & (numbers[old] == numbers[new + stored])
            old, new = np.where(same, -1, old), np.where(same, -1, new)
        retracting = _last(groups[::-1], ~changes.adds[::-1], count)
        retracting = np.where(retracting >= 0, len(changes) - 1 - retracting, -1)
        gone, come = np.flatnonzero(old >= 0), np.flatnonzero(new >= 0)
        causes = np.concatenate([np.where(retracting >= 0, retracting, last)[gone], new[come]])
        kinds = changes.kinds[causes]
        derived = (retracting < 0)[gone]
        kinds[: len(gone)][derived] = UPDATE_BEFORE
        kinds[len(gone) :][replaces[come] & (retracting < 0)[come]] = UPDATE_AFTER
        signs = np.repeat(np.array([-1, 1]), [len(gone), len(come)])
        numbers = np.concatenate([old[gone], new[come] + stored])
        return rows, numbers, signs, kinds, causes, (signs > 0).astype(np.int64)


def row_key(node: Node) -> tuple[str, ...] | None:
    """Choose the columns that tell rows apart when they are brought together by a join key.

    All changes of a row come from one place in their order, so that the last one counts; within a
    join key they still do after the exchange.
    """
    while isinstance(node, Exchange):
        node = node.input
    return best_key(node, upsert_keys(node))


def _last(groups: np.ndarray, chosen: np.ndarray, count: int) -> np.ndarray:
    """Give for each group its last chosen row; -1: there is none."""
    last = np.full(count, -1)
    rows = np.flatnonzero(chosen)
    last[groups[rows]] = rows
    return last


class KeptSide(JoinSide):
    """A side with a state.

    Args:
        tallies: names of the counts of matches that are kept beside each row.
        name: of the state, where the side has several.
    """

    def __init__(
        self, spec: SideSpec, context: Context, *, tallies: Sequence[str] = (), name: str = ""
    ) -> None:
        super().__init__(spec, context)
        self.tallies = tuple(tallies)
        columns = [spec.input.fields.arrow.field(place) for place in spec.places]
        if self._counts:
            columns.append(pa.field(COUNT, pa.int64()))
        columns += [pa.field(each, pa.int64()) for each in tallies]
        opened = StateSpec(pa.schema(columns), by_row=True, index=spec.index, name=name)
        self._state = context.open_state(opened)

    def _standing(
        self, changes: Changes, keys: pa.Array, row_keys: pa.Array, groups: Codes
    ) -> Found:
        first = groups.first_rows()
        return self._state.get(keys.take(first), row_keys.take(first))

    def held(self, asked: Asked, *, before: bool = False) -> Held:
        return self._held(asked.keys, self._state.rows_of(asked.keys))

    def held_row(self, keys: pa.Array, row_keys: pa.Array) -> Held:
        return self._held(keys, self._state.get(keys, row_keys))

    def write(self, delta: Delta, tallies: np.ndarray) -> None:
        keys = delta.keys.take(delta.of_row)
        counts = [pa.array(delta.after)] if self._counts else []
        values = [*delta.rows.columns, *counts, *map(pa.array, tallies)]
        self._state.change(keys, values, delta.after > 0, delta.after <= 0, delta.row_keys)

    def retally(self, held: Held, rows: np.ndarray, tallies: np.ndarray) -> None:
        values = taken(held.rows.columns, rows)
        if self._counts:
            values.append(pa.array(held.copies[rows]))
        values += [pa.array(each[rows]) for each in tallies]
        keys = held.keys.take(held.positions[rows])
        self._state.put(keys, values, held.row_keys.take(rows))

    def _held(self, keys: pa.Array, found: Found) -> Held:
        width = len(self.fields)
        columns, count = found.rows.columns, found.rows.num_rows
        rows = batch_of(columns[:width], self.fields.arrow, count)
        copies = np.ones(count, np.int64)
        if self._counts:
            copies = columns[width].to_numpy(zero_copy_only=False)
        tallies = np.empty((len(self.tallies), count), np.int64)
        for i in range(len(self.tallies)):
            tallies[i] = columns[i - len(self.tallies)].to_numpy(zero_copy_only=False)
        return Held(keys, found.positions, rows, found.row_keys, copies, tallies)
