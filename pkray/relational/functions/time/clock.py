"""Functions of a TIME of day, which is held in milliseconds, and of a date with one."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, signatures
from pkray.relational.functions.casts.casting import cast
from pkray.relational.functions.function import Value, Written, typed_call
from pkray.relational.functions.numbers.exact_sums import decimal_words
from pkray.relational.functions.time.arguments import LTZ, NTZ, TIME, constant_pattern, date
from pkray.relational.functions.time.calendar import MICROS, SECONDS, times_of
from pkray.relational.functions.time.kernels import built, numbers_of, refuse_known
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import STRINGS, DataType

CLOCK = DataType("TIME", precision=3)
_DAY = SECONDS * 10**6
_SECONDS = DataType("DECIMAL", precision=16, scale=6)
_UNITS = ("hour", "minute", "second", "millisecond", "microsecond")


@signatures.parameter("a TIME")
def time_of_day(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a TIME; text is read."""
    taken = argument.type.root in ("TIME", *STRINGS)
    return coercion.cast_to(argument, CLOCK) if taken else None


@signatures.parameter("a number")
def seconds(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take seconds with six fraction digits; text is read."""
    taken = argument.type.root in (*coercion.NUMBERS, *STRINGS)
    return coercion.cast_to(argument, _SECONDS) if taken else None


def _micros(value: Value, rows: int) -> np.ndarray:
    """Give seconds, DECIMAL(16, 6), as int64 microseconds; NULLs are 0."""
    array = as_array(value, rows)
    return decimal_words(array.fill_null(0) if array.null_count else array)[:, 0]


def _clock(micros: np.ndarray, call: Call, values: Sequence[Value], rows: int) -> pa.Array:
    """Make a column of TIME; what is no time of day is refused."""
    wrong = (micros < 0) | (micros >= _DAY)
    refuse_known(call, values, wrong, "is no time of day", rows)
    return built(np.where(wrong, 0, micros // 1000), call.type, values, rows)


def _read(call: Written) -> Expression:
    """Resolve to_time(text [, pattern]) and try_to_time."""
    trying = call.name.startswith("try_")
    _, *pattern = call.between(1, 2)
    said = signatures.text.taken(call, 0)
    if not pattern or coercion.is_null_literal(said):
        return cast(said, CLOCK, call.dialect, is_try=trying)
    reader = "try_parse_timestamp" if trying else "parse_timestamp"
    return coercion.cast_to(typed_call(reader, said, constant_pattern(call, 1)), CLOCK)


def _from_number(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.function == "time_from_seconds":
        return _clock(_micros(values[0], rows), call, values, rows)
    size = 1000 if call.function == "time_from_millis" else 1
    numbers = np.asarray(numbers_of(values[0], rows))
    bounded = np.clip(numbers, -1, _DAY)
    return _clock(bounded * size, call, values, rows)


def _to_number(call: Call, values: Sequence[Value], rows: int) -> Value:
    millis = times_of(as_array(values[0], rows)).ticks
    if call.function == "time_to_millis":
        return built(millis, call.type, values, rows)
    micros = built(millis * 1000, coercion.BIGINT, values, rows)
    if call.function == "time_to_micros":
        return micros
    words = micros.cast(pa.decimal128(19, 0))  # the same digits with a scale of 6
    return pa.Array.from_buffers(call.type.arrow, rows, words.buffers(), offset=words.offset)


def _unit(name: str, argument: Expression) -> Expression:
    said = signatures.constant_text(name, argument, "the unit")
    if said.lower() not in _UNITS:
        raise QueryError(
            f"there is no unit {said!r} of a time of day: write {', '.join(_UNITS)}", function=name
        )
    return signatures.text_literal(said.lower())


def _with_unit(call: Written) -> Expression:
    said, *times = call.exactly(2 if call.name == "time_trunc" else 3)
    unit = _unit(call.name, said)
    taken = [time_of_day.taken(call, place) for place in range(1, 1 + len(times))]
    return typed_call(call.name, unit, *taken)


def with_time(call: Written, kind: DataType) -> Expression:
    """Resolve make_timestamp(date [, time [, zone]])."""
    parameters = (date, time_of_day, signatures.text) if kind is LTZ else (date, time_of_day)
    day, *rest = call.taken(*parameters, least=1 if kind is LTZ else 2)
    made = coercion.cast_to(day, NTZ)
    if rest:
        made = typed_call("date_and_time", made, rest[0])
    if len(rest) == 2:
        return typed_call("instant_at", made, rest[1])
    return coercion.cast_to(made, kind)


def _date_and_time(call: Call, values: Sequence[Value], rows: int) -> Value:
    days, clock = (times_of(as_array(value, rows)).ticks for value in values)
    return built(days + clock * 1000, call.type, values, rows)


@TIME.kernel(
    "make_time(hour, minute, second) -> TIME(3)",
    "Make a time of day; what is none fails.",
    signatures.takes(signatures.integer, signatures.integer, seconds),
    signatures.result(CLOCK),
)
def _make_time_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    hours, minutes = (np.asarray(numbers_of(value, rows)) for value in values[:2])
    micros = _micros(values[2], rows)
    good = (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60)
    good &= (micros >= 0) & (micros < 60 * 10**6)
    refuse_known(call, values, ~good, "is no time of day", rows)
    return _clock(
        np.where(good, (hours * 60 + minutes) * 60 * 10**6 + micros, 0), call, values, rows
    )


TIME.infallible.add_inner(
    "date_and_time",
    "Put a date, as its midnight, and a time of day together.",
    _date_and_time,
    lambda arguments: NTZ.with_nullable(coercion.any_nullable(arguments)),
    lambda call, arguments: f"make_timestamp_ntz(CAST({arguments[0]} AS DATE), {arguments[1]})",
)
for _name, _about in (
    ("to_time", "Read a time of day, by a pattern if there is one; what is none fails."),
    ("try_to_time", "Read a time of day, by a pattern if there is one; NULL for what is none."),
):
    TIME.only(Dialect.SPARK).alias(f"{_name}(text [, pattern]) -> TIME(3)", _about, _read)
for _name, _what, _taken in (
    ("time_from_seconds", "seconds", seconds),
    ("time_from_millis", "milliseconds", signatures.bigint),
    ("time_from_micros", "microseconds", signatures.bigint),
):
    TIME.only(Dialect.SPARK).add(
        f"{_name}(number) -> TIME(3)",
        f"Give the time of day so many {_what} after midnight.",
        signatures.takes(_taken),
        _from_number,
        signatures.result(CLOCK),
    )
for _name, _what, _kind in (
    ("time_to_seconds", "seconds", DataType("DECIMAL", precision=14, scale=6)),
    ("time_to_millis", "milliseconds", coercion.BIGINT),
    ("time_to_micros", "microseconds", coercion.BIGINT),
):
    TIME.only(Dialect.SPARK).infallible.add(
        f"{_name}(TIME) -> {_kind}",
        f"Count the {_what} since midnight.",
        signatures.takes(time_of_day),
        _to_number,
        signatures.result(_kind),
    )


@TIME.only(Dialect.SPARK).infallible.kernel(
    "time_trunc(unit, TIME) -> TIME(3)",
    "Give the beginning of the hour, minute, second or millisecond that a time of day is in.",
    _with_unit,
    signatures.result(CLOCK),
)
def _trunc(call: Call, values: Sequence[Value], rows: int) -> Value:
    millis = times_of(as_array(values[1], rows)).ticks
    size = max(MICROS[values[0].as_py()] // 1000, 1)
    return built(millis // size * size, call.type, values, rows)


@TIME.only(Dialect.SPARK).infallible.kernel(
    "time_diff(unit, start TIME, end TIME) -> BIGINT",
    "Count whole units between times of day, towards zero.",
    _with_unit,
    signatures.result(coercion.BIGINT),
)
def _diff(call: Call, values: Sequence[Value], rows: int) -> Value:
    start, end = (times_of(as_array(value, rows)).ticks for value in values[1:])
    away, size = (end - start) * 1000, MICROS[values[0].as_py()]
    return built(np.sign(away) * (np.abs(away) // size), call.type, values, rows)
