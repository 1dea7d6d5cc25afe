"""Aggregates computed: a value a group, from batches of rows whose groups are numbered.

`accumulator` gives what takes batches; `grouped_aggregate` does one batch at once. Three kinds:

- numbers a group that each batch is added to: counts, sums, means, extremes of numbers, moments;
- chosen rows: those that can still matter, as for the greatest text and for distinct values;
- collected rows: all, for lists and percentiles.

All but the third need memory for groups, not for rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.numbers.exact_sums import (
    ExactSums,
    GroupNumbers,
    decimal_words,
    decimals_of,
    divide_decimals,
)
from pkray.relational.local.batches import whole
from pkray.relational.local.keys import argsort, begins, codes, ranks
from pkray.relational.plan.expressions import AggregateCall, SortKey

Arrays: TypeAlias = "Sequence[pa.Array]"
Choose: TypeAlias = "Callable[[np.ndarray, int, Arrays], np.ndarray]"
Finish: TypeAlias = "Callable[[AggregateCall, np.ndarray, int, Arrays], pa.Array]"

_FEW = 1 << 16
"""Rows kept before chosen rows are chosen from again: about a batch."""


def grouped_aggregate(
    call: AggregateCall,
    groups: np.ndarray,
    count: int,
    arguments: Arrays,
    filter: pa.Array | None = None,
    order: Arrays = (),
) -> pa.Array:
    """Aggregate all rows at once; the arguments are as those of `Accumulator.update`.

    Returns:
        `count` values of the call's Arrow type, in the groups' order.
    """
    state = accumulator(call, [array.type for array in arguments])
    state.update(groups, count, arguments, filter, order)
    return state.finish(count)


def accumulator(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    """Give what computes an aggregate from batches.

    Args:
        types: of the arguments.
    """
    if call.function == "udf" and not call.distinct:
        return _Chosen(call, None, _user, slice(0, 0))
    if call.distinct and call.function not in _SAME_IF_DISTINCT:
        return _Chosen(call, _distinct(len(types)), _without_distinct, required_arguments(call))
    if call.function in ("approx_count_distinct", "collect_set"):
        plain = "count" if call.function == "approx_count_distinct" else "collect_list"
        return accumulator(replace(call, function=plain, distinct=True), types)
    return _KINDS[call.function](call, types)


class Accumulator(ABC):
    """The values so far of one aggregate."""

    required = slice(None)
    """Which arguments must not be NULL; rows where one is are left out."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        self.call = call

    def update(
        self,
        groups: np.ndarray,
        count: int,
        arguments: Arrays,
        filter: pa.Array | None = None,
        order: Arrays = (),
    ) -> None:
        """Take a batch of rows.

        Args:
            groups: int64, one a row, 0 … count - 1; a number means the same group in each batch.
            count: how many groups there are so far; it never shrinks.
            arguments: of the call's arguments, one value a row; none for ``COUNT(*)``.
            filter: only rows where it is true are taken.
            order: the columns of ``call.order_by``, one value a row.
        """
        groups = groups.astype(np.int64, copy=False)
        columns = [whole(column) for column in (*arguments, *order)]
        kept = self._kept(columns[: len(arguments)], filter)
        if kept is not None:
            rows = np.flatnonzero(kept)
            groups, taken = groups[rows], pa.array(rows)
            columns = [column.take(taken) for column in columns]
        if len(groups):
            self._add(groups, count, columns)

    def _kept(self, arguments: Arrays, filter: pa.Array | None) -> np.ndarray | None:
        """Say which rows are taken; None: all."""
        kept = None if filter is None else np.asarray(pc.fill_null(whole(filter), False))
        for column in arguments[self.required]:
            if column.null_count:
                valid = np.asarray(column.is_valid())
                kept = valid if kept is None else kept & valid
        return kept

    @abstractmethod
    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        """Take rows that count, the columns of the order last."""

    @abstractmethod
    def finish(self, count: int) -> pa.Array:
        """Give the value of each of `count` groups.

        Raises:
            EvaluationError: a sum does not fit its type.
        """


class _Count(Accumulator):
    """Rows without NULLs."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.counts = GroupNumbers(np.int64)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        counts = self.counts.to(count)
        if 2 * len(groups) > count:
            counts[:count] += np.bincount(groups, minlength=count)
        else:
            np.add.at(counts, groups, 1)

    def finish(self, count: int) -> pa.Array:
        return pa.array(self.counts.to(count)[:count])


class _CountIf(_Count):
    """Rows where the argument is true."""

    def _kept(self, arguments: Arrays, filter: pa.Array | None) -> np.ndarray | None:
        kept = super()._kept((), filter)
        true = np.asarray(pc.fill_null(arguments[0], False))
        return true if kept is None else kept & true


class _Sum(_Count):
    """Sums, exact but for floats, which are added in the order of the rows."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.kind = types[0]
        self.exact = ExactSums()
        narrow = pa.types.is_float32(self.kind) and call.function == "sum"
        self.floats = GroupNumbers(np.float32 if narrow else np.float64)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        super()._add(groups, count, columns)
        (values,) = columns
        if pa.types.is_floating(self.kind):
            floats = self.floats.to(count)
            with np.errstate(all="ignore"):
                np.add.at(floats, groups, np.asarray(values).astype(floats.dtype, copy=False))
        elif pa.types.is_decimal(self.kind):
            self.exact.add_decimals(groups, count, values)
        else:
            self.exact.add_integers(groups, count, np.asarray(values).astype(np.int64, copy=False))

    def finish(self, count: int) -> pa.Array:
        kind, empty = self.call.type.arrow, self.counts.to(count)[:count] == 0
        if pa.types.is_floating(self.kind):
            return pa.array(self.floats.to(count)[:count], mask=empty).cast(kind, safe=False)
        if pa.types.is_decimal(self.kind):
            sums, over = self.exact.decimals(count, kind)
            return _without(sums, empty | self._unfit(over, count))
        sums, over = self.exact.integers(count)
        if self.call.function == "sum_wrapping":
            return pa.array(sums.astype(kind.to_pandas_dtype()), mask=empty)
        return pa.array(sums, mask=empty | self._unfit(over, count))

    def _unfit(self, over: np.ndarray, count: int) -> np.ndarray:
        """Refuse a sum that does not fit its type; of ``try_sum`` say which become NULL."""
        if over.any() and not self.call.function.startswith("try_"):
            total = self.exact.exact(count, int(np.argmax(over)))
            raise EvaluationError(
                f"sum({self.call.arguments[0]}) does not fit {self.call.type}: a group's sum is "
                f"{_unscaled(total, self.kind)}; cast the values to DECIMAL(38, 0) or DOUBLE",
                function="sum",
                value=total,
            )
        return over


class _Average(_Sum):
    """Means: of floats as DOUBLE, of decimals rounded half up, of integers truncated."""

    def finish(self, count: int) -> pa.Array:
        kind, counts = self.call.type.arrow, self.counts.to(count)[:count]
        with np.errstate(all="ignore"):
            if pa.types.is_floating(self.kind):
                means = self.floats.to(count)[:count] / counts
                return pa.array(means, mask=counts == 0).cast(kind, safe=False)
        if pa.types.is_decimal(self.kind):
            sums, over = self.exact.decimals(count, pa.decimal128(38, self.kind.scale))
            counts = np.where(self._unfit(over, count), 0, counts)
            return divide_decimals(_without(sums, counts == 0), counts, kind)
        sums, _ = self.exact.integers(count)
        divisors = np.maximum(counts, 1)
        means = sums // divisors
        means += (sums < 0) & (means * divisors != sums)
        return pa.array(means, mask=counts == 0).cast(kind)


class _Extreme(Accumulator):
    """The least or the greatest of values that are numbers in memory."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.kind = types[0]
        least = call.function in ("min", "bool_and")
        sample = _as_numbers(pa.array([], self.kind))
        self.seen = GroupNumbers(np.bool_)
        if sample.dtype.kind == "f":
            # NaN is greatest: the least is NaN only where all are.
            self.combine: Any = np.fmin if least else np.maximum
            fill: float = np.nan if least else -np.inf
        else:
            self.combine = np.minimum if least else np.maximum
            bounds = np.iinfo(sample.dtype)
            fill = bounds.max if least else bounds.min
        self.values = GroupNumbers(sample.dtype.type, fill)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        self.seen.to(count)[groups] = True
        with np.errstate(invalid="ignore"):
            self.combine.at(self.values.to(count), groups, _as_numbers(columns[0]))

    def finish(self, count: int) -> pa.Array:
        values, empty = self.values.to(count)[:count], ~self.seen.to(count)[:count]
        return _without(_from_numbers(values, self.kind), empty).cast(self.call.type.arrow)


class _Bits(Accumulator):
    """Integers combined bit by bit."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.seen = GroupNumbers(np.bool_)
        self.combine: Any = getattr(np, f"bitwise_{call.function.removeprefix('bit_')}")
        self.values = GroupNumbers(np.int64, -1 if call.function == "bit_and" else 0)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        self.seen.to(count)[groups] = True
        self.combine.at(self.values.to(count), groups, np.asarray(columns[0]).astype(np.int64))

    def finish(self, count: int) -> pa.Array:
        empty = ~self.seen.to(count)[:count]
        values = np.where(empty, 0, self.values.to(count)[:count])
        return pa.array(values, mask=empty).cast(self.call.type.arrow)


class _Moments(Accumulator):
    """Means and sums of squared deviations, of one or two columns, merged batch by batch.

    Deviations are taken from the batch's own means, so that large values near to each other lose
    nothing.
    """

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.counts, self.mean_x, self.mean_y = (GroupNumbers(np.float64) for _ in range(3))
        self.xx, self.xy, self.yy = (GroupNumbers(np.float64) for _ in range(3))

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        touched, local = np.unique(groups, return_inverse=True)
        x, y = np.asarray(columns[0]), np.asarray(columns[-1])
        with np.errstate(all="ignore"):
            added = np.bincount(local, minlength=len(touched)).astype(np.float64)
            mean_x = np.bincount(local, x, len(touched)) / added
            mean_y = np.bincount(local, y, len(touched)) / added
            x, y = x - mean_x[local], y - mean_y[local]
            known = self.counts.to(count)[touched]
            total = known + added
            shift_x = mean_x - self.mean_x.to(count)[touched]
            shift_y = mean_y - self.mean_y.to(count)[touched]
            weight = known * added / total
            # A first batch's means are taken as they are: infinity - 0 would spoil the sums.
            for sums, products, shift in (
                (self.xx, x * x, shift_x * shift_x),
                (self.xy, x * y, shift_x * shift_y),
                (self.yy, y * y, shift_y * shift_y),
            ):
                moved = np.where(known > 0, shift * weight, 0.0)
                sums.to(count)[touched] += np.bincount(local, products, len(touched)) + moved
            self.mean_x.array[touched] += shift_x * added / total
            self.mean_y.array[touched] += shift_y * added / total
            self.counts.array[touched] = total

    def finish(self, count: int) -> pa.Array:
        counts, xx, xy, yy = (
            each.to(count)[:count] for each in (self.counts, self.xx, self.xy, self.yy)
        )
        name = self.call.function
        with np.errstate(all="ignore"):
            if name == "corr":
                values = xy / np.sqrt(xx * yy)
                return pa.array(values, mask=(counts < 2) | (xx * yy == 0))
            sample = name.endswith("_samp")
            values = xy / (counts - sample)
            values = np.sqrt(values) if name.startswith("stddev") else values
            return pa.array(values, mask=counts <= sample)


class _Chosen(Accumulator):
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


# --- Which rows can still matter ------------------------------------------------------------------


def _first(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
    """Choose the first row of each group."""
    place = np.empty(count, np.int64)
    rows = np.arange(len(groups))
    place[groups[::-1]] = rows[::-1]
    return rows[place[groups] == rows]


def _last(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
    """Choose the last row of each group."""
    place = np.empty(count, np.int64)
    rows = np.arange(len(groups))
    place[groups] = rows
    return rows[place[groups] == rows]


def _best_by(column: int, *, greatest: bool) -> Choose:
    """Choose the first row of each group in which a column is least, or greatest."""

    def choose(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
        rank = _rank(columns[column], descending=greatest)
        best = np.empty(count, np.int64)
        best[groups] = rank
        np.minimum.at(best, groups, rank)
        rows = np.flatnonzero(rank == best[groups])
        return rows[_first(groups[rows], count, ())]

    return choose


def _rank(column: pa.Array, *, descending: bool) -> np.ndarray:
    """Give one number a row that sorts as the column does; NULL fields of rows are least."""
    parts = ranks(column, SortKey("", descending, nulls_first=not descending))
    if len(parts) == 1:
        return parts[0]
    order = argsort(parts, len(column))
    result = np.empty(len(column), np.int64)
    result[order] = np.cumsum(begins([part[order] for part in parts], len(column)))
    return result


def _distinct(arguments: int) -> Choose:
    """Choose the first row of each group and value of the first so many columns."""

    def choose(groups: np.ndarray, count: int, columns: Arrays) -> np.ndarray:
        numbers = codes([pa.array(groups), *columns[:arguments]], len(groups))
        return np.sort(numbers.first_rows())

    return choose


# --- What the rows kept give ----------------------------------------------------------------------


def _without_distinct(
    call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays
) -> pa.Array:
    if not columns:
        return _nothing(call, count)
    plain = replace(call, distinct=False, order_by=())
    return grouped_aggregate(plain, groups, count, columns[: len(call.arguments)])


def _nothing(call: AggregateCall, count: int) -> pa.Array:
    """Give what groups without values have."""
    kind = call.type.arrow
    if call.function.startswith("count"):
        return pa.array(np.zeros(count, np.int64))
    if call.function == "collect_list":
        return pa.array([[]] * count, kind)
    return pa.nulls(count, kind)


def _winner(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give the value of the one row kept of each group."""
    if not columns:
        return _nothing(call, count)
    place = np.full(count, -1)
    place[groups] = np.arange(len(groups))
    found = columns[0].take(pa.array(place, mask=place < 0))
    return found.cast(call.type.arrow)


def _chosen_winner(choose: Choose) -> Finish:
    """Choose when all rows are there, in their order."""

    def finish(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
        rows = choose(groups, count, columns)
        return _winner(call, groups[rows], count, [each.take(pa.array(rows)) for each in columns])

    return finish


def _lists(groups: np.ndarray, count: int, values: pa.Array, kind: pa.DataType) -> pa.Array:
    order = argsort([groups], len(groups))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count))))
    typed = values.take(pa.array(order)).cast(kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), typed, type=kind)


def _collect(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    if not columns:
        return _nothing(call, count)
    lists = _lists(groups, count, columns[0], call.type.arrow)
    if call.function == "array_agg":
        return _without(lists, np.bincount(groups, minlength=count) == 0)
    return lists


def _join_text(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    if not columns:
        return _nothing(call, count)
    lists = _lists(groups, count, columns[0], pa.list_(pa.string()))
    joined = pc.binary_join(lists, call.parameters[0].value)
    return _without(joined, np.bincount(groups, minlength=count) == 0)


def _percentile(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    if not columns:
        return _nothing(call, count)
    share: float = call.parameters[0].value
    descending = bool(call.order_by) and call.order_by[0].descending
    rank = ranks(columns[0], SortKey("", descending=descending))
    order = argsort([groups, *rank], len(groups))
    counts = np.bincount(groups, minlength=count)
    begins, empty = np.cumsum(counts) - counts, counts == 0
    if call.function == "percentile_disc":
        place = np.maximum(np.ceil(share * counts).astype(np.int64), 1) - 1 + begins
        rows = order[np.where(empty, 0, place)]
        return columns[0].take(pa.array(rows, mask=empty)).cast(call.type.arrow)
    position = share * np.maximum(counts - 1, 0)
    low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    values = np.asarray(columns[0])[order]
    before, after = (
        values[np.where(empty, 0, begins + low)],
        values[np.where(empty, 0, begins + high)],
    )
    with np.errstate(all="ignore"):
        between = (high - position) * before + (position - low) * after
    exact = (low == high) | (before == after)
    return pa.array(np.where(exact, before, between), mask=empty)


def _mode(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    if not columns:
        return _nothing(call, count)
    values = codes([pa.array(groups), columns[0]], len(groups))
    often = np.bincount(values.of_row, minlength=values.count)
    first = values.first_rows()
    (rank,) = ranks(columns[0].take(pa.array(first)), SortKey(""))
    order = argsort([groups[first], -often, rank], len(first))
    rows = first[order]
    best = rows[_first(groups[rows], count, ())]
    return _winner(call, groups[best], count, [columns[0].take(pa.array(best))])


def _shape(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Compute skewness and kurtosis; NULL where all values are equal."""
    if not columns:
        return _nothing(call, count)
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


def _user(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Call a user's aggregate; groups without rows give NULL."""
    if not columns:
        return _nothing(call, count)
    present, local = np.unique(groups, return_inverse=True)
    values = call.udf.aggregate(local, len(present), columns[: len(call.arguments)])
    return _winner(call, present, count, [values])


def _in_order(
    order_by: Sequence[SortKey], groups: np.ndarray, columns: Arrays
) -> tuple[np.ndarray, Arrays]:
    """Sort rows by the order within the group, whose columns are the last."""
    keyed = zip(columns[-len(order_by) :], order_by, strict=True)
    rows = argsort([rank for column, key in keyed for rank in ranks(column, key)], len(groups))
    taken = pa.array(rows)
    return groups[rows], [column.take(taken) for column in columns]


# --- Which is computed how ------------------------------------------------------------------------


def _extreme(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    if _is_number(types[0]):
        return _Extreme(call, types)
    return _Chosen(call, _best_by(0, greatest=call.function == "max"), _winner)


def _extreme_by(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    return _Chosen(call, _best_by(1, greatest=call.function == "max_by"), _winner, slice(1, 2))


def _place(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    choose = _first if call.function.startswith("first") else _last
    if call.order_by:
        return _Chosen(call, None, _chosen_winner(choose), required_arguments(call))
    return _Chosen(call, choose, _winner, required_arguments(call))


def _collected(end: Finish) -> Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]:
    return lambda call, types: _Chosen(call, None, end, required_arguments(call))


def required_arguments(call: AggregateCall) -> slice:
    """Say which arguments must not be NULL."""
    if call.function == "udf":
        return slice(0, 0)
    if call.function in ("min_by", "max_by"):
        return slice(1, 2)
    ignored = call.ignore_nulls or any(each.value is True for each in call.parameters)
    return slice(0, 0) if call.function in _KEEP_NULLS and not ignored else slice(None)


def _is_number(kind: pa.DataType) -> bool:
    is_a = pa.types
    small = is_a.is_decimal128(kind) and kind.precision <= 18
    primitive = is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_boolean(kind)
    return small or primitive or is_a.is_temporal(kind)


def _as_numbers(array: pa.Array) -> np.ndarray:
    """Give the numbers that values without NULLs are in memory."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return np.ascontiguousarray(decimal_words(array)[:, 0])
    if pa.types.is_boolean(kind):
        return np.asarray(array).astype(np.uint8)
    if pa.types.is_temporal(kind):
        return np.asarray(array.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    return np.asarray(array)


def _from_numbers(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return decimals_of(numbers, numbers >> 63, kind)
    if pa.types.is_boolean(kind):
        return pa.array(numbers == 1)
    array = pa.array(numbers)
    return array.view(kind) if pa.types.is_temporal(kind) else array


def _without(array: pa.Array, empty: np.ndarray) -> pa.Array:
    """Put NULL where a group has no values."""
    if not empty.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=empty))


def _unscaled(total: int, kind: pa.DataType) -> str:
    if not pa.types.is_decimal(kind) or not kind.scale:
        return str(total)
    digits = str(abs(total)).rjust(kind.scale + 1, "0")
    return f"{'-' if total < 0 else ''}{digits[: -kind.scale]}.{digits[-kind.scale :]}"


_KEEP_NULLS = ("first", "last", "first_value", "last_value", "array_agg")
_SAME_IF_DISTINCT = frozenset(
    {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "max_by", "min_by",
     "approx_count_distinct", "collect_set"}
)  # fmt: skip
_KINDS: dict[str, Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]] = {
    "count": _Count,
    "count_if": _CountIf,
    **dict.fromkeys(("sum", "sum_wrapping", "try_sum"), _Sum),
    **dict.fromkeys(("avg", "avg_truncating", "try_avg"), _Average),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("min_by", "max_by"), _extreme_by),
    **dict.fromkeys(("bool_and", "bool_or"), _Extreme),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _Bits),
    **dict.fromkeys(("first", "last", "first_value", "last_value"), _place),
    **dict.fromkeys(
        ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr"),
        _Moments,
    ),
    **dict.fromkeys(("collect_list", "array_agg"), _collected(_collect)),
    "listagg": _collected(_join_text),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), _collected(_percentile)),
    "mode": _collected(_mode),
    **dict.fromkeys(("skewness", "kurtosis"), _collected(_shape)),
}
