"""The accumulator that keeps rows: those that can still matter, or all of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pkray.columns.keys import argsort, codes, dense_ranks, ranks
from pkray.relational.functions.aggregates.accumulator import (
    Accumulate,
    Accumulator,
    Arrays,
    check_size,
    required_arguments,
)
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, SortKey

Choose: TypeAlias = Callable[[np.ndarray, int, Arrays], np.ndarray]
Finish: TypeAlias = Callable[[AggregateCall, np.ndarray, int, Arrays], pa.Array]
_FEW = 1 << 16
"""Rows kept before chosen rows are chosen from again: about a batch."""


class Chosen(Accumulator):
    """The rows that can still matter; what they give is computed at the end."""

    def __init__(
        self,
        call: AggregateCall,
        choose: Choose | None,
        end: Finish,
        required: slice = Accumulator.required,
    ) -> None:
        super().__init__(call)
        self.choose, self.end, self.required = choose, end, required
        self.groups: list[np.ndarray] = []
        self.columns: list[Arrays] = []
        self.rows, self.chosen = 0, 0

    @classmethod
    def of_all(cls, end: Finish) -> Accumulate:
        """Keep all rows of which no required argument is NULL."""
        return lambda call, types: cls(call, None, end, required_arguments(call))

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        if self.choose is not None:
            groups, columns = self._best(self.choose, groups, count, columns)
        self.groups.append(groups)
        self.columns.append(columns)
        self.rows += len(groups)
        if self.choose is not None and self.rows > 2 * self.chosen + _FEW:
            self._gather(count)

    @staticmethod
    def _best(
        choose: Choose, groups: np.ndarray, count: int, columns: Arrays
    ) -> tuple[np.ndarray, Arrays]:
        rows = choose(groups, count, columns)
        taken = pa.array(rows)
        return groups[rows], [column.take(taken) for column in columns]

    def _gather(self, count: int) -> tuple[np.ndarray, Arrays]:
        """Make one batch of the rows kept."""
        self._check_size()
        groups = np.concatenate(self.groups)
        columns: Arrays = [pa.concat_arrays(parts) for parts in zip(*self.columns, strict=True)]
        if self.choose is not None and len(self.groups) > 1:
            groups, columns = self._best(self.choose, groups, count, columns)
        self.groups, self.columns = [groups], [columns]
        self.rows = self.chosen = len(groups)
        return groups, columns

    def _check_size(self) -> None:
        """Refuse more texts and lists than a column takes, before they are put into one."""
        sizes = (
            sum(part.nbytes for part in parts)
            for parts in zip(*self.columns, strict=True)
            if not pa.types.is_primitive(parts[0].type)
        )
        check_size(self.call, list(sizes))

    def finish(self, count: int) -> pa.Array:
        if not self.groups:
            return nothing(self.call, count)
        groups, columns = self._gather(count)
        if self.call.order_by:
            groups, columns = _in_order(self.call.order_by, groups, columns)
        return self.end(self.call, groups, count, columns)


def first_rows(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
    """Choose the first row of each group."""
    place = np.empty(count, np.int64)
    rows = np.arange(len(groups))
    place[groups[::-1]] = rows[::-1]
    return rows[place[groups] == rows]


def last_rows(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
    """Choose the last row of each group."""
    place = np.empty(count, np.int64)
    rows = np.arange(len(groups))
    place[groups] = rows
    return rows[place[groups] == rows]


def best_by(column: int, *, greatest: bool) -> Choose:
    """Choose the first row of each group in which a column is least, or greatest."""

    def choose(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
        rank = _rank(columns[column], descending=greatest)
        best = np.empty(count, np.int64)
        best[groups] = rank
        np.minimum.at(best, groups, rank)
        rows = np.flatnonzero(rank == best[groups])
        return rows[first_rows(groups[rows], count, ())]

    return choose


def _rank(column: pa.Array, *, descending: bool) -> np.ndarray:
    """Give one number a row that sorts as the column does; NULL fields of rows are least."""
    parts = ranks(column, SortKey("", descending, nulls_first=not descending))
    return parts[0] if len(parts) == 1 else dense_ranks(column, descending=descending)


def distinct_rows(arguments: int) -> Choose:
    """Choose the first row of each group and value of the first so many columns."""

    def choose(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
        numbers = codes([pa.array(groups), *columns[:arguments]], len(groups))
        return np.sort(numbers.first_rows())

    return choose


def nothing(call: AggregateCall, count: int) -> pa.Array:
    """Give what groups without values have."""
    none = pa.array([facts(call.function).of_none], call.type.arrow)
    return none.take(pa.array(np.zeros(count, np.int64)))


def winner(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give the value of the one row kept of each group."""
    if not columns:
        return nothing(call, count)
    place = np.full(count, -1)
    place[groups] = np.arange(len(groups))
    found = columns[0].take(pa.array(place, mask=place < 0))
    return found.cast(call.type.arrow)


def chosen_winner(choose: Choose) -> Finish:
    """Choose when all rows are there, in their order."""

    def finish(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
        rows = choose(groups, count, columns)
        return winner(call, groups[rows], count, [each.take(pa.array(rows)) for each in columns])

    return finish


def lists_of(groups: np.ndarray, count: int, values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Put the values of each group together, in their order."""
    order = argsort([groups], len(groups))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count))))
    typed = values.take(pa.array(order)).cast(kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), typed, type=kind)


def _in_order(
    order_by: Sequence[SortKey], groups: np.ndarray, columns: Arrays
) -> tuple[np.ndarray, Arrays]:
    """Sort rows by the order within the group, whose columns are the last."""
    keyed = zip(columns[-len(order_by) :], order_by, strict=True)
    rows = argsort([rank for column, key in keyed for rank in ranks(column, key)], len(groups))
    taken = pa.array(rows)
    return groups[rows], [column.take(taken) for column in columns]


def without(array: pa.Array, empty: np.ndarray) -> pa.Array:
    """Put NULL where a group has no values."""
    if not empty.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=empty))
