"""Accumulators of numbers a group: counts, sums, means, extremes of numbers, moments."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.overflow import unfit, unfit_sum
from pkray.relational.functions.numbers.exact_sums import (
    ExactSums,
    GroupNumbers,
    decimal_words,
    decimals_of,
    divide_decimals,
)
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, WindowCall


class Count(Accumulator):
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


class CountIf(Count):
    """Rows where the argument is true."""

    def _kept(self, arguments: Arrays, filter: pa.Array | None) -> np.ndarray | None:
        kept = super()._kept((), filter)
        true = np.asarray(pc.fill_null(arguments[0], False))
        return true if kept is None else kept & true


class Sum(Count):
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
            return without(sums, empty | self._unfit(over, count))
        sums, over = self.exact.integers(count)
        if facts(self.call.function).wraps:
            return pa.array(sums.astype(kind.to_pandas_dtype()), mask=empty)
        return pa.array(sums, mask=empty | self._unfit(over, count))

    def _unfit(self, over: np.ndarray, count: int) -> np.ndarray:
        """Refuse a sum that does not fit its type; of ``try_sum`` say which become NULL."""
        if over.any() and not facts(self.call.function).tries:
            total = self.exact.exact(count, int(np.argmax(over)))
            scale = self.kind.scale if pa.types.is_decimal(self.kind) else 0
            raise unfit_sum(self.call, total, scale)
        return over


class Average(Sum):
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
            return decimal_means(self.call, without(sums, counts == 0), counts)
        sums, _ = self.exact.integers(count)
        return truncated_means(sums, counts, kind)


def truncated_means(sums: np.ndarray, counts: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Divide int64 sums towards zero and wrap the means as integers wrap; NULL where none count."""
    divisors = np.maximum(counts, 1)
    means = sums // divisors
    means += (sums < 0) & (means * divisors != sums)
    return pa.array(means.astype(kind.to_pandas_dtype()), mask=counts == 0)


def decimal_means(call: AggregateCall | WindowCall, sums: pa.Array, counts: np.ndarray) -> pa.Array:
    """Divide sums of DECIMAL(38, …) by counts, rounded half away from zero; NULL where none count.

    Raises:
        EvaluationError: a mean does not fit the call's type; of ``try_avg`` it is NULL.
    """
    means = divide_decimals(sums, counts, call.type.scale or 0)
    kind = call.type.arrow
    try:
        return means.cast(kind)
    except pa.ArrowInvalid:
        most = pa.scalar(Decimal(10 ** (kind.precision - kind.scale)), pa.decimal256(39, 0))
        over = pc.greater_equal(pc.abs(means), most.cast(pa.decimal256(76, kind.scale)))
    if facts(call.function).tries:
        return pc.if_else(over, pa.scalar(None, means.type), means).cast(kind)
    worst = means[pc.index(over, True).as_py()].as_py()
    total = int(worst.scaleb(kind.scale, Context(prec=76)))
    raise unfit(call.function, call.arguments, str(call.type), total, kind.scale)


class Extreme(Accumulator):
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
        return without(_from_numbers(values, self.kind), empty).cast(self.call.type.arrow)


class Bits(Accumulator):
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


class Moments(Accumulator):
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
            first = np.empty(len(touched), np.int64)
            first[local[::-1]] = np.arange(len(local) - 1, -1, -1)
            mean_x, x = _around_mean(x, x[first], local, added)
            mean_y, y = _around_mean(y, y[first], local, added)
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


def _around_mean(
    values: np.ndarray, some: np.ndarray, local: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give the mean of each group, and each value's distance from it: 0 where all are equal.

    Args:
        values: float64, one a row; `local` says of which group.
        some: float64, a value of each group, near to which sums are exact.
    """
    away = values - some[local]
    mean = np.bincount(local, away, len(some)) / counts
    return some + mean, away - mean[local]


def is_number(kind: pa.DataType) -> bool:
    """Whether values are numbers in memory: decimals of 18 digits and times, too."""
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


def without(array: pa.Array, empty: np.ndarray) -> pa.Array:
    """Put NULL where a group has no values."""
    if not empty.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=empty))
