"""Aggregates of rows that are kept one by one: an end of them, or something of them all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import argsort
from pkray.relational.continuous.operators.aggregates.accumulators import Accumulator, Columns
from pkray.relational.continuous.operators.aggregates.bags import Moved, View
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.replacement import joined
from pkray.relational.functions.aggregates.kernels import grouped_aggregate
from pkray.relational.plan.expressions import AggregateCall


class End(Accumulator):
    """Keeps the first or the last row of each group.

    The other rows are read only where the row that was kept is retracted.

    Args:
        names: the columns of the row to keep.
    """

    def __init__(
        self, view: View, names: Sequence[str], types: Sequence[pa.DataType], *, last: bool
    ) -> None:
        self._view = view
        self._names = tuple(names)
        self._last = last
        self.columns = (("place", pa.binary()), *zip(names, types, strict=True))

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        moved = self._view.moved(groups)
        lost = self._lost(before[0], moved)
        lost = lost[groups.there[lost]]
        result = self._with_new(before, moved, lost, groups.count)
        if not len(lost):
            return result
        end = {"last": 1} if self._last else {"first": 1}
        held = self._view.read(groups.keys.take(lost), **end)
        columns = [held.row_keys, *(held.columns[name] for name in self._names)]
        places = np.full(groups.count, -1)
        places[lost[held.positions]] = np.arange(len(held.positions))
        return [
            _chosen(kept, found, places, lost) for kept, found in zip(result, columns, strict=True)
        ]

    def _lost(self, places: pa.Array, moved: Moved) -> np.ndarray:
        """List the groups whose row went."""
        went = moved.went
        if not len(went):
            return went
        owners = moved.groups[went]
        same = pc.equal(places.take(owners), moved.row_keys.take(went))
        return np.unique(owners[np.asarray(pc.fill_null(same, False))])

    def _with_new(
        self, before: Columns, moved: Moved, lost: np.ndarray, count: int
    ) -> list[pa.Array]:
        """Compare the rows that came with those that were kept."""
        came = moved.came
        if not len(came):
            return list(before)
        here = np.zeros(count, bool)
        here[moved.groups[came]] = True
        here &= np.asarray(before[0].is_valid())
        here[lost] = False
        kept = np.flatnonzero(here)
        owners = np.concatenate([kept, moved.groups[came]])
        added = [moved.row_keys, *(moved.columns[name] for name in self._names)]
        row_keys = pa.concat_arrays([before[0].take(kept), added[0].take(came)])
        order = argsort([owners, _ranks(row_keys)], len(owners))
        sorted_owners = owners[order]
        edge = sorted_owners[1:] != sorted_owners[:-1]
        ends = np.flatnonzero(np.r_[edge, True] if self._last else np.r_[True, edge])
        best = order[ends]
        won = best[best >= len(kept)] - len(kept)
        winners = moved.groups[came[won]]
        places = np.full(count, -1)
        places[winners] = came[won]
        return [_chosen(old, new, places, winners) for old, new in zip(before, added, strict=True)]


def _ranks(keys: pa.Array) -> np.ndarray:
    """Number byte strings so that the numbers compare as they do."""
    ranks = pc.rank(keys, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int64)


def _chosen(old: pa.Array, new: pa.Array, places: np.ndarray, groups: np.ndarray) -> pa.Array:
    """Replace the values of some groups by those at places; -1 gives NULL."""
    numbers = np.arange(len(old))
    numbers[groups] = np.where(places[groups] >= 0, places[groups] + len(old), -1)
    return joined(old, new).take(pa.array(numbers, mask=numbers < 0))


class Whole(Accumulator):
    """Computes an aggregate of all rows of a group again whenever one of them came or went."""

    def __init__(self, view: View, call: AggregateCall) -> None:
        self._view = view
        self._call = replace(call, filter=None)
        self.columns = (("value", call.type.arrow),)

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        moved = self._view.moved(groups)
        changed = ~groups.was
        changed[moved.groups[moved.before != moved.after]] = True
        rows = np.flatnonzero(changed & groups.there)
        if not len(rows):
            return list(before)
        held = self._view.read(groups.keys.take(rows))
        values = grouped_aggregate(
            self._call,
            held.positions,
            len(rows),
            [held.columns[name] for name in self._call.arguments],
            None,
            [held.columns[key.column] for key in self._call.order_by],
        )
        places = np.full(groups.count, -1)
        places[rows] = np.arange(len(rows))
        return [_chosen(before[0], values.cast(self.columns[0][1]), places, rows)]
