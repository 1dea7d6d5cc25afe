"""The accumulator that keeps rows: those that can still matter, or all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import argsort, codes, dense_ranks, ranks
from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.numbers import without
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, SortKey

Choose: TypeAlias = "Callable[[np.ndarray, int, Arrays], np.ndarray]"
Finish: TypeAlias = "Callable[[AggregateCall, np.ndarray, int, Arrays], pa.Array]"
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
        groups = np.concatenate(self.groups)
        columns: Arrays = [pa.concat_arrays(parts) for parts in zip(*self.columns, strict=True)]
        if self.choose is not None and len(self.groups) > 1:
            groups, columns = self._best(self.choose, groups, count, columns)
        self.groups, self.columns = [groups], [columns]
        self.rows = self.chosen = len(groups)
        return groups, columns

    def finish(self, count: int) -> pa.Array:
        if not self.groups:
            return self.end(self.call, np.zeros(0, np.int64), count, ())
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


def _lists(groups: np.ndarray, count: int, values: pa.Array, kind: pa.DataType) -> pa.Array:
    order = argsort([groups], len(groups))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count))))
    typed = values.take(pa.array(order)).cast(kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), typed, type=kind)


def collected_values(
    call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays
) -> pa.Array:
    """Give the values of each group as an array."""
    if not columns:
        return nothing(call, count)
    lists = _lists(groups, count, columns[0], call.type.arrow)
    if call.function == "array_agg":
        return without(lists, np.bincount(groups, minlength=count) == 0)
    return lists


def joined_text(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Join the texts of each group."""
    if not columns:
        return nothing(call, count)
    lists = _lists(groups, count, columns[0], pa.list_(call.type.arrow))
    joined = pc.binary_join(lists, pa.scalar(call.parameters[0].value, call.type.arrow))
    return without(joined, np.bincount(groups, minlength=count) == 0)


def percentiles(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give a percentile of each group's numbers, or an array of some."""
    kind = call.type.arrow
    if not columns or not call.parameters:
        return nothing(call, count)
    descending = bool(call.order_by) and call.order_by[0].descending
    rank = ranks(columns[0], SortKey("", descending=descending))
    values = columns[0].take(pa.array(argsort([groups, *rank], len(groups))))
    counts = np.bincount(groups, minlength=count)
    place = _discrete if call.function == "percentile_disc" else _interpolated
    found = [place(values, counts, each.value) for each in call.parameters]
    if not pa.types.is_list(kind):
        return found[0].cast(kind)
    many = len(found)
    rows = np.arange(count * many).reshape(many, count).T.ravel()
    inside = pa.concat_arrays(found).take(pa.array(rows)).cast(kind.value_type)
    offsets = pa.array(np.arange(count + 1) * many, pa.int32())
    return pa.ListArray.from_arrays(offsets, inside, type=kind, mask=pa.array(counts == 0))


def _discrete(values: pa.Array, counts: np.ndarray, share: float) -> pa.Array:
    """Give the least value of each group with a share of its values up to it.

    Args:
        values: of one group after the other, sorted.
        counts: int64, how many of each group.
    """
    place = np.maximum(np.ceil(share * counts).astype(np.int64), 1) - 1
    rows = place + np.cumsum(counts) - counts
    return values.take(pa.array(rows, mask=counts == 0))


def _interpolated(values: pa.Array, counts: np.ndarray, share: float) -> pa.Array:
    """Give what stands at a share of each group's values; as `_discrete`."""
    begins, empty = np.cumsum(counts) - counts, counts == 0
    position = share * np.maximum(counts - 1, 0)
    low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    numbers = np.asarray(values)
    before, after = (numbers[np.where(empty, 0, begins + each)] for each in (low, high))
    with np.errstate(all="ignore"):
        between = (high - position) * before + (position - low) * after
    exact = (low == high) | (before == after)
    return pa.array(np.where(exact, before, between), mask=empty)


def most_frequent(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give the most frequent value of each group, the least of several."""
    if not columns:
        return nothing(call, count)
    values = codes([pa.array(groups), columns[0]], len(groups))
    often = np.bincount(values.of_row, minlength=values.count)
    first = values.first_rows()
    (rank,) = ranks(columns[0].take(pa.array(first)), SortKey(""))
    order = argsort([groups[first], -often, rank], len(first))
    rows = first[order]
    best = rows[first_rows(groups[rows], count, ())]
    return winner(call, groups[best], count, [columns[0].take(pa.array(best))])


def shapes(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Compute skewness and kurtosis; NULL where all values are equal."""
    if not columns:
        return nothing(call, count)
    values = np.asarray(columns[0])
    counts = np.bincount(groups, minlength=count)
    with np.errstate(all="ignore"):
        away = values - (np.bincount(groups, values, count) / counts)[groups]
        power = 3 if call.function == "skewness" else 4
        second = np.bincount(groups, away**2, count)
        high = np.bincount(groups, away**power, count)
        if power == 3:
            result = np.sqrt(counts) * high / np.sqrt(second**3)
        else:
            result = counts * high / second**2 - 3.0
    return pa.array(result, mask=(counts == 0) | (second == 0))


def user_values(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Call a user's aggregate; groups without rows give NULL."""
    if not columns:
        return nothing(call, count)
    present, local = np.unique(groups, return_inverse=True)
    values = call.udf.aggregate(local, len(present), columns[: len(call.arguments)])
    return winner(call, present, count, [values])


def _in_order(
    order_by: Sequence[SortKey], groups: np.ndarray, columns: Arrays
) -> tuple[np.ndarray, Arrays]:
    """Sort rows by the order within the group, whose columns are the last."""
    keyed = zip(columns[-len(order_by) :], order_by, strict=True)
    rows = argsort([rank for column, key in keyed for rank in ranks(column, key)], len(groups))
    taken = pa.array(rows)
    return groups[rows], [column.take(taken) for column in columns]
