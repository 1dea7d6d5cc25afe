"""Match retractions with rows, and number rows in groups, for operators over ordered rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.state.encoding import distinct, encoded, parts
from pkray.relational.continuous.state.state import KEY, State, StateSpec
from pkray.relational.plan.expressions import SortKey
from pkray.relational.plan.fields import Fields
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

ARRIVAL_BYTES = 9
"""At the end of a row key: when the row arrived."""
_ARRIVAL = pa.schema([pa.field("arrival", pa.int64())])


class Effect(NamedTuple):
    """Tells what changes do to the rows that were there.

    Attributes:
        added: numbers of the changes whose rows are added and stay.
        removed: numbers of the retractions that take rows that were there before.
        arrivals: int64, for each change when its row arrived: for one that is retracted, then.
    """

    added: np.ndarray
    removed: np.ndarray
    arrivals: np.ndarray


class Arrivals:
    """Remembers when each row arrived: of equal rows the oldest is retracted first.

    Retractions of rows that are not there are swallowed. Where rows are only added nothing is
    remembered.

    Args:
        fields: of the rows.
        keys: the columns by which they are brought together.
    """

    def __init__(self, context: Context, fields: Fields, keys: Sequence[str]) -> None:
        self._state: State | None = None
        if context.inputs[0].is_append:
            return
        types = [field.type for field in fields.arrow]
        places = [fields.names.index(key) for key in keys]

        def exchanged_by(rows: pa.RecordBatch) -> pa.Array:
            return parts(rows.column(KEY), types, places)

        spec = StateSpec(_ARRIVAL, by_row=True, name="arrivals", exchanged_by=exchanged_by)
        self._state = context.open_state(spec)

    def take(self, changes: Changes, arrivals: np.ndarray) -> Effect:
        """Find what changes do, and remember it.

        Args:
            arrivals: int64, when each change came.
        """
        if self._state is None:
            return Effect(np.arange(len(changes)), np.zeros(0, np.int64), arrivals)
        keys = encoded(changes.rows.columns, len(changes))
        added, removed = np.flatnonzero(changes.adds), np.flatnonzero(~changes.adds)
        if len(removed):
            added, removed, arrivals = self._matched(self._state, changes, keys, arrivals)
        came = pa.array(arrivals[added])
        self._state.put(keys.take(added), [came], encoded([came]))
        self._state.remove(keys.take(removed), encoded([pa.array(arrivals[removed])]))
        return Effect(added, removed, arrivals)

    def _matched(
        self, state: State, changes: Changes, keys: pa.Array, arrivals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each retraction the oldest equal row that is there when it comes."""
        named, of_row = distinct(keys)
        order = np.argsort(of_row, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(of_row[order]) != 0])
        signs = changes.signs[order]
        running = np.cumsum(signs)
        lowest = np.minimum.reduceat(running, starts) - (running[starts] - signs[starts])
        takes = np.add.reduceat(signs < 0, starts, dtype=np.int64)
        asked = np.flatnonzero(takes)
        found = state.rows_of(named.take(asked), first=int(takes.max()))
        there = np.zeros(len(starts), np.int64)
        np.add.at(there, asked[found.positions], 1)
        taken = takes - np.maximum(-lowest - there, 0)
        of_state = np.minimum(taken, there)
        # the first retractions of each row take those of the state, the oldest first
        numbers, _ = numbers_within(found.positions)
        old = np.asarray(found.column("arrival"))[numbers < of_state[asked[found.positions]]]
        removed = _firsts(order[signs < 0], of_row, of_state)
        arrivals = arrivals.copy()
        arrivals[removed] = old
        dropped = _firsts(order[signs > 0], of_row, taken - of_state)
        stays = changes.adds.copy()
        stays[dropped] = False
        return np.flatnonzero(stays), removed, arrivals


def _firsts(rows: np.ndarray, of_row: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Choose the first so many rows of each group; `rows` are grouped."""
    numbers, _ = numbers_within(of_row[rows])
    return rows[numbers < counts[of_row[rows]]]


def numbers_within(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the rows of each group from 0; give beside each how many its group has.

    Args:
        groups: int64, rows of one group one after the other.
    """
    begins = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])[: len(groups)]
    sizes = np.diff(np.r_[begins, len(groups)])
    return np.arange(len(groups)) - np.repeat(begins, sizes), np.repeat(sizes, sizes)


def order_keys(
    changes: Changes,
    order_by: Sequence[SortKey],
    arrivals: np.ndarray,
    *,
    newest_first: bool = False,
) -> pa.Array:
    """Encode where rows stand in their partitions: by an order, and among equal ones by arrival."""
    return encoded(
        [*changes.columns([key.column for key in order_by]), pa.array(arrivals)],
        descending=[*(key.descending for key in order_by), newest_first],
        nulls_first=[*(key.nulls_first for key in order_by), True],
        equal_zeros=True,
    )


def retractions_first(changes: Changes) -> Changes:
    """Let rows go before others come: of a key that moves, the row that comes is the last."""
    order = np.argsort(changes.adds, kind="stable")
    return changes.take(order) if bool((order[1:] < order[:-1]).any()) else changes


def paired(changes: Changes) -> Changes:
    """Make +I and -D of halves of updates whose other half is not there any more."""
    kinds = changes.kinds.copy()
    starts = changes.kinds == UPDATE_BEFORE
    ends = changes.kinds == UPDATE_AFTER
    kinds[starts & ~np.append(ends[1:], False)] = DELETE
    kinds[ends & ~np.append(False, starts[:-1])] = INSERT
    return Changes(changes.rows, kinds)
