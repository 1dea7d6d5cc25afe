"""The least and the greatest value, the first and the last row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates import rows
from pkray.relational.functions.aggregates.accumulator import (
    Accumulator,
    Arrays,
    required_arguments,
)
from pkray.relational.functions.aggregates.aggregate import (
    Resolved,
    Resolver,
    compute,
    define_aggregate,
)
from pkray.relational.functions.aggregates.arguments import check_ordered
from pkray.relational.functions.aggregates.folds import Fold, State, as_it_is, first_argument
from pkray.relational.functions.coercion import BOOLEAN
from pkray.relational.functions.function import Written
from pkray.relational.functions.numbers.exact_sums import GroupNumbers, decimal_words, decimals_of
from pkray.relational.functions.signatures import constant
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, Literal


def _extreme(call: Written) -> Resolved:
    """Type min, max, min_by and max_by; the last argument is what is compared."""
    value, *_ = arguments = call.exactly(2 if call.name.endswith("_by") else 1)
    check_ordered(call.name, arguments[-1], nested=True)
    return Resolved(call.name, arguments, (), value.type.with_nullable(True))


def first_or_last(name: str) -> Resolver:
    """Resolve first, last and their kin, whose second argument says whether NULLs are ignored."""

    def resolve(call: Written) -> Resolved:
        value, *said = call.between(1, 2)
        ignore = bool(said) and constant(call.name, said[0], "whether NULLs are ignored")
        if not isinstance(ignore, bool):
            raise QueryError(
                f"argument 2 of {call.name} says whether NULLs are ignored: write TRUE or FALSE",
                function=call.name,
            )
        if call.dialect is Dialect.FLINK and call.name in ("first_value", "last_value"):
            ignore = True
        parameters = (Literal(BOOLEAN.with_nullable(False), True),) if ignore else ()
        return Resolved(name, (value,), parameters, value.type.with_nullable(True))

    return resolve


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
        return rows.without(_from_numbers(values, self.kind), empty).cast(self.call.type.arrow)


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


def _least_or_greatest(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    if is_number(types[0]):
        return Extreme(call, types)
    return rows.Chosen(call, rows.best_by(0, greatest=facts(call.function).is_last), rows.winner)


def _of_best_row(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    return rows.Chosen(
        call,
        rows.best_by(1, greatest=facts(call.function).is_last),
        rows.winner,
        required_arguments(call),
    )


def _place(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    choose = rows.last_rows if facts(call.function).is_last else rows.first_rows
    if call.order_by:
        return rows.Chosen(call, None, rows.chosen_winner(choose), required_arguments(call))
    return rows.Chosen(call, choose, rows.winner, required_arguments(call))


SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


def _fold(name: str, kind: pa.DataType) -> Fold | None:
    state = State(name, name)
    if pa.types.is_nested(kind):
        return None
    if not pa.types.is_floating(kind):
        return Fold("values", first_argument, (state,), as_it_is)
    return Fold("bits", lambda columns: _bits(columns[0]), (state,), _from_bits)


def _bits(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give integers that sort as floats do, with NaN greatest."""
    array = whole(column)
    values = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ SIGN, bits), mask=np.asarray(array.is_null()))


def _from_bits(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    (state,) = states
    ordered = np.asarray(pc.fill_null(state, 0)).astype(np.int64)
    bits = np.where(ordered < 0, ordered ^ SIGN, ordered)
    values = pa.array(bits.view(np.float64), mask=np.asarray(state.is_null()))
    return values.cast(call.type.arrow)


compute("min", accumulate=_least_or_greatest, fold=lambda kinds: _fold("min", kinds[0]))
compute("max", accumulate=_least_or_greatest, fold=lambda kinds: _fold("max", kinds[0]))
compute("min_by", "max_by", accumulate=_of_best_row)
compute("first", "last", "first_value", "last_value", accumulate=_place)
define_aggregate("min(x) -> x", "Gives the least value.", _extreme)
define_aggregate("max(x) -> x", "Gives the greatest value; NaN is greatest.", _extreme)
define_aggregate("min_by(x, y) -> x", "Gives x of the row where y is least.", _extreme)
define_aggregate("max_by(x, y) -> x", "Gives x of the row where y is greatest.", _extreme)
define_aggregate(
    "first(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the first row; flink's first_value that of the first without NULL.",
    first_or_last("first"),
    "first_value",
)
define_aggregate(
    "last(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the last row; flink's last_value that of the last without NULL.",
    first_or_last("last"),
    "last_value",
)
define_aggregate("any_value(x) -> x", "Gives the value of a row.", first_or_last("first"))
