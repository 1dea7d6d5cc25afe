"""Sums and means: exact, but for floats, which are added in the order of the rows."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates import aggregate
from pkray.relational.functions.aggregates.accumulator import Arrays
from pkray.relational.functions.aggregates.arguments import number
from pkray.relational.functions.aggregates.counts import COUNT, Count
from pkray.relational.functions.aggregates.folds import Finish, Fold, State, bound, first_argument
from pkray.relational.functions.aggregates.overflow import unfit, unfit_sum
from pkray.relational.functions.aggregates.rows import without
from pkray.relational.functions.coercion import BIGINT, DOUBLE, FLOATS, cast_to
from pkray.relational.functions.function import Written
from pkray.relational.functions.numbers import exact_sums
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, WindowCall
from pkray.schema.types import INTEGERS, DataType


def _sum(call: Written) -> aggregate.Resolved:
    (argument,) = call.taken(number)
    kind = argument.type.with_nullable(True)
    spark = call.dialect is Dialect.SPARK
    if kind.root == "DECIMAL":
        digits = min((kind.precision or 0) + 10, 38) if spark else 38
        return aggregate.Resolved("sum", (argument,), (), replace(kind, precision=digits))
    if spark:
        kind = BIGINT if kind.root in INTEGERS else DOUBLE
        return aggregate.Resolved("sum", (cast_to(argument, kind),), (), kind)
    return aggregate.Resolved(
        "sum" if kind.root in FLOATS else "sum_wrapping", (argument,), (), kind
    )


def _trying(resolve: aggregate.Resolver) -> aggregate.Resolver:
    """Resolve what gives NULL for a sum that does not fit."""

    def resolve_trying(call: Written) -> aggregate.Resolved:
        resolved = resolve(call)
        return resolved._replace(function=f"try_{resolved.function}")

    return resolve_trying


def _avg(call: Written) -> aggregate.Resolved:
    (argument,) = call.taken(number)
    kind = argument.type.with_nullable(True)
    digits, scale = kind.precision or 0, kind.scale or 0
    if kind.root == "DECIMAL":
        if call.dialect is Dialect.SPARK:
            wide = replace(kind, precision=min(digits + 4, 38), scale=min(scale + 4, 38))
        else:
            wide = replace(kind, precision=38, scale=max(6, scale))
        return aggregate.Resolved("avg", (argument,), (), wide)
    if call.dialect is Dialect.FLINK and kind.root in INTEGERS:
        return aggregate.Resolved("avg_truncating", (argument,), (), kind)
    if call.dialect is Dialect.FLINK and kind.root in FLOATS:
        return aggregate.Resolved("avg", (argument,), (), kind)
    return aggregate.Resolved("avg", (cast_to(argument, DOUBLE),), (), DOUBLE)


SUM = State("sum", "sum", exact=True)
WRAPPING = State("sum", "sum")


class Sum(Count):
    """Sums, exact but for floats, which are added in the order of the rows."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.kind = types[0]
        self.exact = exact_sums.ExactSums()
        narrow = pa.types.is_float32(self.kind) and call.function == "sum"
        self.floats = exact_sums.GroupNumbers(np.float32 if narrow else np.float64)

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
        counts = self.counts.to(count)[:count]
        if pa.types.is_floating(self.kind):
            return means(self.call, pa.array(self.floats.to(count)[:count]), counts)
        if pa.types.is_decimal(self.kind):
            totals, over = self.exact.decimals(count, pa.decimal128(38, self.kind.scale))
            counts = np.where(self._unfit(over, count), 0, counts)
            return means(self.call, without(totals, counts == 0), counts)
        return means(self.call, pa.array(self.exact.integers(count)[0]), counts)


def _summed(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    """Give a sum in its type; fail where it does not fit."""
    (total,) = states
    if call.type.root not in (*INTEGERS, "DECIMAL"):
        return total.cast(call.type.arrow)
    try:
        return total.cast(call.type.arrow)
    except pa.ArrowInvalid:
        raise _overflow(call, total) from None


def _overflow(call: AggregateCall | WindowCall, total: pa.Array) -> EvaluationError:
    values = [value for value in pc.unique(total).to_pylist() if value is not None]
    worst = max(values, key=abs)
    scale = total.type.scale if pa.types.is_decimal(total.type) else 0
    digits = int(Decimal(worst).scaleb(scale, Context(prec=80)))
    return unfit_sum(call, digits, scale)


def wrapped(total: pa.Array, kind: DataType) -> pa.Array:
    """Cut whole numbers down to a type by dropping their high bits."""
    if not pa.types.is_integer(total.type):
        return total.cast(kind.arrow)
    numbers = np.asarray(pc.fill_null(total, 0)).astype(np.dtype(kind.arrow.to_pandas_dtype()))
    return pa.array(numbers, mask=np.asarray(total.is_null()))


def _summed_wrapping(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return wrapped(states[0], call.type)


def means(call: AggregateCall | WindowCall, totals: pa.Array, counts: np.ndarray) -> pa.Array:
    """Divide sums by counts; NULL where these are 0.

    Decimals are rounded half away from zero, integers truncated if the call's type is one.

    Raises:
        EvaluationError: a sum or a mean of decimals does not fit; of ``try_avg`` a mean is NULL.
    """
    kind, none = call.type.arrow, counts == 0
    if call.type.root == "DECIMAL":
        return _decimal_means(call, totals, counts)
    if call.type.root in INTEGERS:
        return _truncated_means(np.asarray(pc.fill_null(totals, 0)), counts, kind)
    sums = np.asarray(pc.fill_null(totals.cast(pa.float64(), safe=False), 0.0))
    return pa.array(sums / np.maximum(counts, 1), mask=none).cast(kind, safe=False)


def _mean(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    total, count = states
    return means(call, total, np.asarray(pc.fill_null(count, 0)))


def _truncated_means(sums: np.ndarray, counts: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Divide int64 sums towards zero and wrap the means as integers wrap; NULL where none count."""
    divisors = np.maximum(counts, 1)
    quotients = sums // divisors
    quotients += (sums < 0) & (quotients * divisors != sums)
    return pa.array(quotients.astype(kind.to_pandas_dtype()), mask=counts == 0)


def _decimal_means(
    call: AggregateCall | WindowCall, totals: pa.Array, counts: np.ndarray
) -> pa.Array:
    kind, scale = call.type.arrow, call.type.scale or 0
    shift = scale - totals.type.scale
    none = (counts == 0) | np.asarray(totals.is_null())
    if shift >= 0 and bound(totals) * 10**scale < 1 << 62:
        words = exact_sums.decimal_words(totals.cast(pa.decimal128(38, totals.type.scale)))
        sums = np.where(none, 0, words[:, 0]) * 10**shift
        divisors = np.where(none, 1, counts)
        rounded = np.sign(sums) * ((2 * np.abs(sums) + divisors) // (2 * divisors))
        return without(exact_sums.decimals_of(rounded, rounded >> 63, kind), none)
    try:
        totals = totals.cast(pa.decimal128(38, totals.type.scale))
    except pa.ArrowInvalid:
        raise _overflow(call, totals) from None
    quotients = exact_sums.divide_decimals(totals, np.where(none, 0, counts), scale)
    try:
        return quotients.cast(kind)
    except pa.ArrowInvalid:
        most = pa.scalar(Decimal(10 ** (kind.precision - kind.scale)), pa.decimal256(39, 0))
        over = pc.greater_equal(pc.abs(quotients), most.cast(pa.decimal256(76, kind.scale)))
    if facts(call.function).tries:
        return pc.if_else(over, pa.scalar(None, quotients.type), quotients).cast(kind)
    worst = quotients[pc.index(over, True).as_py()].as_py()
    total = int(worst.scaleb(kind.scale, Context(prec=76)))
    raise unfit(call.function, call.arguments, str(call.type), total, kind.scale)


def _sums(state: State, finish: Finish) -> aggregate.MakeFold:
    return lambda kinds: Fold("values", first_argument, (state,), finish)


def _means(state: State) -> aggregate.MakeFold:
    return lambda kinds: Fold("values", first_argument, (state, COUNT), _mean)


aggregate.compute("sum", accumulate=Sum, fold=_sums(SUM, _summed))
aggregate.compute("sum_wrapping", accumulate=Sum, fold=_sums(WRAPPING, _summed_wrapping))
aggregate.compute("try_sum", accumulate=Sum)
aggregate.compute("avg", accumulate=Average, fold=_means(SUM))
aggregate.compute("avg_truncating", accumulate=Average, fold=_means(WRAPPING))
aggregate.compute("try_avg", accumulate=Average)
aggregate.define_aggregate("sum(number) -> BIGINT | DOUBLE | DECIMAL", "Adds values up.", _sum)
aggregate.define_aggregate("avg(number) -> DOUBLE | DECIMAL", "Gives the mean.", _avg, "mean")
aggregate.define_aggregate(
    "try_sum(number) -> BIGINT | DOUBLE | DECIMAL",
    "Adds values up; a sum that does not fit its type is NULL.",
    _trying(_sum),
    dialects=aggregate.SPARK,
)
aggregate.define_aggregate(
    "try_avg(number) -> DOUBLE | DECIMAL",
    "Gives the mean; NULL where the sum does not fit its type.",
    _trying(_avg),
    dialects=aggregate.SPARK,
)
