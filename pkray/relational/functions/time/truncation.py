"""Functions that cut times to a unit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pkray.errors import QueryError
from pkray.relational.functions import coercion
from pkray.relational.functions.function import NO_SPARK, Value, Written, typed_call
from pkray.relational.functions.signatures import text, text_literal
from pkray.relational.functions.time import arguments as args
from pkray.relational.functions.time import calendar
from pkray.relational.functions.time.calendar import MICROS, MONTHS, times_of
from pkray.relational.functions.time.kernels import built
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import STRINGS, DataType

_WORDS = {
    **{unit: unit for unit in (*MONTHS, *MICROS)},
    "yyyy": "year",
    "yy": "year",
    "mon": "month",
    "mm": "month",
    "dd": "day",
}
"""Units as columns of them name them."""


def _cut(call: Written) -> Expression:
    """Resolve date_trunc(unit, time); the spark dialect makes a TIMESTAMP_LTZ of any time."""
    unit = _unit(call, call.exactly(2)[0])
    if coercion.is_null_literal(unit):
        return coercion.cast_to(unit, coercion.TIMESTAMP_LTZ)
    spark = args.timestamp_ltz if call.name == "date_trunc" else args.timestamp
    wanted = spark if call.dialect is args.SPARK else args.time_or_date
    return typed_call(call.name, unit, wanted.taken(call, 1))


def _unit(call: Written, argument: Expression) -> Expression:
    """Take a constant unit, or in the spark dialect a column of them; NULL for what is none."""
    if call.dialect is args.SPARK and call.name == "date_trunc":
        if not isinstance(argument, Literal):
            return text.taken(call, 0)
        if _is_none(argument, (*MONTHS, *MICROS)):
            return coercion.untyped_null()
    return text_literal(args.unit_of(call.name, argument))


def _is_none(argument: Expression, units: Sequence[str]) -> bool:
    """Whether a constant is NULL, or text that names none of some units."""
    if not isinstance(argument, Literal):
        return False
    said = argument.value
    return said is None or (isinstance(said, str) and calendar.unit_named(said) not in units)


def _trunc(call: Written) -> Expression:
    """Resolve trunc(date, unit)."""
    _, said = call.exactly(2)
    if not isinstance(said, Literal) and said.type.root in STRINGS:
        return typed_call("date_trunc", said, args.date.taken(call, 0))
    if call.dialect is args.SPARK and _is_none(said, (*MONTHS, "week")):
        return coercion.cast_to(coercion.untyped_null(), coercion.DATE)
    unit = args.unit_of("trunc", said)
    if unit not in (*MONTHS, "week"):
        raise QueryError(
            f"trunc cuts a date to year, quarter, month or week, not to {unit}", function="trunc"
        )
    return typed_call("date_trunc", text_literal(unit), args.date.taken(call, 0))


def _cut_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    if not isinstance(call.arguments[0], Literal):
        return _cut_by_column(call, values, rows)
    unit = values[0].as_py()
    times = times_of(as_array(values[1], rows))
    cut = calendar.truncated(times, unit)
    if call.function == "date_ceil":
        upper = calendar.next_unit(cut, unit)
        cut = replace(cut, ticks=np.where(cut.ticks == times.ticks, times.ticks, upper.ticks))
    return built(cut.ticks, call.type, values, rows)


def _cut_by_column(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Cut each time to the unit beside it; NULL where that is none. Dates are not cut to days."""
    said = as_array(values[0], rows).dictionary_encode()
    numbers = np.asarray(said.indices.fill_null(-1))
    times = times_of(as_array(values[1], rows))
    ticks, known = times.ticks.copy(), np.zeros(rows, bool)
    for number, word in enumerate(said.dictionary.to_pylist()):
        unit = _WORDS.get(word.lower())
        if unit is None or (call.type.root == "DATE" and unit not in (*MONTHS, "week")):
            continue
        here = numbers == number
        known |= here
        ticks[here] = calendar.truncated(replace(times, ticks=times.ticks[here]), unit).ticks
    return built(ticks, call.type, values, rows, bad=~known)


def _cut_spark(call: Call, arguments: Sequence[str]) -> str:
    if call.type.root == "DATE" and not isinstance(call.arguments[0], Literal):
        return f"trunc({arguments[1]}, {arguments[0]})"
    return f"CAST(date_trunc({arguments[0]}, {arguments[1]}) AS {spark_type(call.type)})"


def _cut_type(arguments: tuple[Expression, ...]) -> DataType:
    unknown = not isinstance(arguments[0], Literal)
    return arguments[1].type.with_nullable(unknown or coercion.any_nullable(arguments))


def spark_type(kind: DataType) -> str:
    """Name a date or timestamp type in Spark SQL."""
    return {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP"}[kind.root]


args.TIME.infallible.add(
    "date_trunc(unit, time) -> TIMESTAMP_LTZ (spark), the time's type (flink)",
    "Give the beginning of the year, quarter, month, week, day, hour … that a time is in.",
    _cut,
    _cut_kernel,
    _cut_type,
    _cut_spark,
)
args.TIME.infallible.add(
    "date_ceil(unit, time) -> TIMESTAMP",
    "Give the beginning of the first unit that does not begin before the time.",
    _cut,
    _cut_kernel,
    args.type_of_argument(1),
    NO_SPARK,
)
args.TIME.alias(
    "trunc(DATE, unit) -> DATE", "Give the first day of a year, quarter, month or week.", _trunc
)
