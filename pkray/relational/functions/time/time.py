"""Functions of dates and times.

The session's time zone is UTC: times of TIMESTAMP_LTZ are shown, read and cut there. Functions
with a zone in their name or arguments take any. What tells the time (``current_timestamp``) is
fixed once a run: `at_instant` puts constants in their place.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    any_nullable,
    cast_to,
    is_null_literal,
)
from pkray.relational.functions.function import (
    NO_SPARK,
    Family,
    Kernel,
    Resolver,
    SparkText,
    Typing,
    Value,
    typed_call,
)
from pkray.relational.functions.signatures import (
    anything,
    bigint,
    check_count,
    constant_text,
    integer,
    parameter,
    result,
    takes,
    text,
    text_literal,
)
from pkray.relational.functions.time import calendar, time_patterns
from pkray.relational.functions.time.calendar import MICROS, MONTHS, SECONDS, Times, times_of
from pkray.relational.functions.time.zones import in_zone
from pkray.relational.functions.values import as_array, refuse
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, TIMESTAMPS, DataType

LTZ = DataType("TIMESTAMP_LTZ")
NTZ = DataType("TIMESTAMP")
SECOND_FRACTION = DataType("DECIMAL", precision=8, scale=6)
SPARK, FLINK = Dialect.SPARK, Dialect.FLINK
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
TIME = Family("time")
Compute: TypeAlias = Callable[..., np.ndarray]


# --- Arguments ------------------------------------------------------------------------------------


@parameter("a date or a timestamp")
def time_or_date(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a date or a timestamp as it is; text is read as a timestamp."""
    if argument.type.root in ("DATE", *TIMESTAMPS):
        return argument
    read = argument.type.root in STRINGS
    return cast_to(argument, LTZ if dialect is SPARK else NTZ) if read else None


@parameter("a date or a timestamp")
def timestamp(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a timestamp; a date is taken as its midnight."""
    taken = time_or_date.cast(argument, dialect)
    if taken is not None and taken.type.root == "DATE":
        return cast_to(taken, LTZ if dialect is SPARK else NTZ)
    return taken


@parameter("a date or a timestamp")
def timestamp_ltz(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a TIMESTAMP_LTZ(6)."""
    taken = time_or_date.cast(argument, dialect)
    return None if taken is None else cast_to(taken, LTZ)


@parameter("a date")
def date(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a date; of a timestamp its day, text is read."""
    taken = argument.type.root in ("DATE", *TIMESTAMPS, *STRINGS)
    return cast_to(argument, DATE) if taken else None


def constant_pattern(name: str, arguments: Sequence[Expression], place: int) -> Expression:
    """Take a constant pattern, the default one where there is no such argument."""
    if place == len(arguments):
        return text_literal(DEFAULT_PATTERN)
    time_patterns.tokens(constant_text(name, arguments[place], "the pattern"))
    return arguments[place]


def _as_argument(place: int) -> Typing:
    return lambda arguments: arguments[place].type.with_nullable(any_nullable(arguments))


def _in_dialects(spark: Resolver, flink: Resolver) -> Resolver:
    return lambda arguments, dialect: (spark if dialect is SPARK else flink)(arguments, dialect)


# --- Kernels --------------------------------------------------------------------------------------


def _plain(value: Value, rows: int) -> Times | np.ndarray:
    """Give times as `Times` and integers as int64; NULLs are 0."""
    array = as_array(value, rows)
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        return times_of(array)
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled).astype(np.int64)


def _valid(values: Sequence[Value], rows: int) -> np.ndarray | None:
    """Say in which rows no argument is NULL; None: in all."""
    valid = None
    for value in values:
        if isinstance(value, pa.Scalar):
            if not value.is_valid:
                return np.zeros(rows, bool)
        elif value.null_count:
            one = np.asarray(value.is_valid())
            valid = one if valid is None else valid & one
    return valid


def _built(
    numbers: np.ndarray, kind: DataType, values: Sequence[Value], rows: int, *, bad: object = None
) -> pa.Array:
    """Make an array of ticks or integers, NULL where an argument is, or where `bad` is true."""
    valid = _valid(values, rows)
    mask = None if valid is None else ~valid
    if isinstance(bad, np.ndarray):
        mask = bad if mask is None else mask | bad
    arrow = kind.arrow
    if pa.types.is_date(arrow):
        numbers = numbers.astype(np.int32)
        return pa.array(numbers, mask=mask).view(arrow)
    if pa.types.is_timestamp(arrow):
        return pa.array(numbers, mask=mask).view(arrow)
    return pa.array(numbers, arrow, mask=mask)


def _of_numbers(compute: Compute) -> Kernel:
    """Make a kernel that cannot fail of a function of `Times` and int64 arrays."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        numbers = compute(*(_plain(value, rows) for value in values))
        return _built(numbers, call.type, values, rows)

    return kernel


def _refused(
    call: Call, values: Sequence[Value], wrong: np.ndarray, problem: str, rows: int
) -> None:
    """Refuse the first row without NULLs for which `wrong` is true."""
    valid = _valid(values, rows)
    wrong = np.broadcast_to(wrong, (rows,))
    refuse(call, values, pa.array(wrong if valid is None else wrong & valid), problem, rows)


def _to_days(compute: Compute) -> Kernel:
    """Make a kernel that gives a DATE, and refuses what is out of its range."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        days = compute(*(_plain(value, rows) for value in values))
        _refused(call, values, np.abs(days) >= 2**31, "overflows DATE", rows)
        return _built(days, call.type, values, rows)

    return kernel


# --- Fields of a time -----------------------------------------------------------------------------

_FIELDS: dict[str, tuple[str, Callable[[Times], np.ndarray], str]] = {
    "year": ("the year", lambda t: calendar.year_of(t.days), "year"),
    "quarter": ("the quarter, from 1", lambda t: calendar.months_of(t.days) % 12 // 3 + 1, ""),
    "month": ("the month, from 1", lambda t: calendar.months_of(t.days) % 12 + 1, ""),
    "day": ("the day of the month, from 1", lambda t: calendar.day_of_month(t.days), "dayofmonth"),
    "dayofweek": ("the day of the week, Sunday is 1", lambda t: (t.days + 4) % 7 + 1, "dow"),
    "weekday": ("the day of the week, Monday is 0", lambda t: calendar.weekday(t.days), ""),
    "dayofyear": ("the day of the year, from 1", lambda t: calendar.day_of_year(t.days), "doy"),
    "weekofyear": ("the ISO week of the year", lambda t: calendar.iso_week(t.days), "week"),
    "hour": ("the hour, from 0", lambda t: t.seconds() // 3600, ""),
    "minute": ("the minute, from 0", lambda t: t.seconds() // 60 % 60, ""),
    "second": ("the whole second, from 0", lambda t: t.seconds() % 60, ""),
}
_MORE_FIELDS: dict[str, tuple[Callable[[Times], np.ndarray], DataType, str]] = {
    "dayofweek_iso": (lambda t: calendar.weekday(t.days) + 1, INT, "(weekday({}) + 1)"),
    "yearofweek": (lambda t: calendar.iso_year(t.days), INT, "extract(YEAROFWEEK FROM {})"),
    "millisecond": (lambda t: t.fraction(1000), INT, ""),
    "microsecond": (lambda t: t.fraction(10**6), INT, ""),
    "epoch": (lambda t: t.micros() // 10**6, BIGINT, ""),
}
_EXTRACTED = {
    **{name: name for name in (*_FIELDS, *_MORE_FIELDS)},
    "years": "year", "yr": "year", "quarters": "quarter", "qtr": "quarter", "months": "month",
    "mon": "month", "weeks": "weekofyear", "week": "weekofyear", "w": "weekofyear",
    "days": "day", "d": "day", "dayofmonth": "day", "dow": "dayofweek", "isodow": "dayofweek_iso",
    "dow_iso": "dayofweek_iso", "isoyear": "yearofweek", "doy": "dayofyear", "hours": "hour",
    "h": "hour", "hr": "hour", "minutes": "minute", "m": "minute", "min": "minute",
    "seconds": "second", "s": "second", "sec": "second", "milliseconds": "millisecond",
    "microseconds": "microsecond",
}  # fmt: skip


def _field(name: str) -> Resolver:
    """Resolve ``year(x)``: INT in the spark dialect, BIGINT in flink."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, 1)
        call = typed_call(name, time_or_date.taken(name, arguments, 0, dialect))
        return call if dialect is SPARK else cast_to(call, BIGINT)

    return resolve


def _extract(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("extract", arguments, 2, 2)
    said = constant_text("extract", arguments[0], "the field")
    name = _EXTRACTED.get(said.strip().lower())
    if name is None:
        raise QueryError(
            f"there is no field {said!r} of a time: write {', '.join(_FIELDS)}", function="extract"
        )
    value = time_or_date.taken("extract", arguments, 1, dialect)
    if name == "second" and dialect is SPARK:
        return typed_call("second_fraction", value)
    call = typed_call(name, value)
    return call if dialect is SPARK else cast_to(call, BIGINT)


def _second_fraction(call: Call, values: Sequence[Value], rows: int) -> Value:
    times = times_of(as_array(values[0], rows))
    micros = times.seconds() % 60 * 10**6 + times.fraction(10**6)
    array = _built(micros, BIGINT, values, rows)
    # 10^6 microseconds are 1.000000: the same digits with a scale of 6.
    words = array.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(call.type.arrow, rows, words.buffers(), offset=words.offset)


def _formed(form: str) -> SparkText:
    return lambda call, arguments: form.format(*arguments)


for _name, (_about, _compute, _synonym) in _FIELDS.items():
    TIME.add(
        _name,
        f"{_name}(time) -> INT (spark), BIGINT (flink)",
        f"Give {_about}.",
        _field(_name),
        _of_numbers(_compute),
        result(INT),
        synonyms=(_synonym,) if _synonym in ("dayofmonth", "week") else (),
        fallible=False,
    )
for _name, (_compute, _kind, _form) in _MORE_FIELDS.items():
    TIME.add(
        _name,
        "",
        f"Give the {_name}.",
        None,
        _of_numbers(_compute),
        result(_kind),
        _formed(_form) if _form else NO_SPARK,
        fallible=False,
    )
TIME.add(
    "second_fraction",
    "",
    "Give the second with its fraction.",
    None,
    _second_fraction,
    result(SECOND_FRACTION),
    lambda call, arguments: f"extract(SECOND FROM {arguments[0]})",
    fallible=False,
)
TIME.alias(
    "extract",
    "extract(field FROM time) -> INT (spark), BIGINT (flink)",
    "Give a field of a time, such as year, month, dow or second.",
    _extract,
    "date_part",
    "datepart",
)


# --- Arithmetic -----------------------------------------------------------------------------------


def _plus_interval(call: Call, values: Sequence[Value], rows: int) -> Value:
    times = _plain(values[0], rows)
    assert isinstance(times, Times)
    months, micros = (_interval_part(value, rows) for value in values[1:])
    if np.any(months):
        times = times.on(calendar.plus_months(times.days, months))
    day = SECONDS * 10**6
    if times.per_day >= day:
        added = micros * (times.per_day // day)
    else:
        added = micros // (day // times.per_day)
    ticks = times.ticks + added
    bound = 2**31 if times.per_day == 1 else 2**62
    wrong = (np.abs(ticks) >= bound) | (np.abs(added) >= bound)
    _refused(call, values, wrong, f"overflows {call.type.root}", rows)
    return _built(ticks, call.type, values, rows)


def _interval_part(value: Value, rows: int) -> np.ndarray:
    """Give a constant as one number, so that it is not spread over the rows."""
    if isinstance(value, pa.Scalar):
        return np.asarray(value.as_py() or 0, np.int64)
    return np.asarray(value.fill_null(0)).astype(np.int64)


def _plus_interval_spark(call: Call, arguments: Sequence[str]) -> str:
    time, months, micros = arguments
    is_date = call.type.root == "DATE"
    if not _is_zero(call.arguments[1]):
        time = (
            f"add_months({time}, {months})" if is_date else f"timestampadd(MONTH, {months}, {time})"
        )
    if not _is_zero(call.arguments[2]):
        days = f"CAST({micros} DIV {SECONDS * 10**6} AS INT)"
        time = (
            f"date_add({time}, {days})"
            if is_date
            else f"timestampadd(MICROSECOND, {micros}, {time})"
        )
    return time


def _is_zero(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value == 0


def _plus(value: Expression, months: int = 0, micros: int = 0) -> Expression:
    return typed_call(
        "plus_interval",
        value,
        Literal(INT.with_nullable(False), months),
        Literal(BIGINT.with_nullable(False), micros),
    )


def _unit(name: str, argument: Expression) -> str:
    said = constant_text(name, argument, "the unit")
    unit = calendar.unit_named(said)
    if unit is None:
        raise QueryError(
            f"there is no unit {said!r} of time: write {', '.join((*MONTHS, *MICROS))}",
            function=name,
        )
    return unit


def _add_units(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve timestampadd(unit, count, time)."""
    name = "timestampadd"
    check_count(name, arguments, 3, 3)
    unit = _unit(name, arguments[0])
    value = time_or_date.taken(name, arguments, 2, dialect)
    if value.type.root == "DATE" and (
        dialect is SPARK or MICROS.get(unit, SECONDS * 10**6) < SECONDS * 10**6
    ):
        value = timestamp.taken(name, arguments, 2, dialect)
    size = Literal(BIGINT.with_nullable(False), MONTHS.get(unit) or MICROS[unit])
    count = bigint.taken(name, arguments, 1, dialect)
    if isinstance(count, Literal) and count.value is not None:
        product: Expression = Literal(size.type, count.value * size.value)
    else:
        product = function.resolve("multiply", (count, size), SPARK)
    zero = Literal(BIGINT.with_nullable(False), 0)
    months, micros = (product, zero) if unit in MONTHS else (zero, product)
    return typed_call("plus_interval", value, cast_to(months, INT), micros)


def _dates_or_units(plain: Resolver, with_unit: Resolver) -> Resolver:
    """Resolve a function that takes a unit first where it has three arguments."""
    return lambda arguments, dialect: (with_unit if len(arguments) == 3 else plain)(
        arguments, dialect
    )


def _date_sub(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("date_sub", arguments, 2, 2)
    return typed_call(
        "date_sub",
        date.taken("date_sub", arguments, 0, dialect),
        integer.taken("date_sub", arguments, 1, dialect),
    )


def _units_between(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve timestampdiff(unit, start, end): BIGINT in the spark dialect, INT in flink."""
    name = "timestampdiff"
    check_count(name, arguments, 3, 3)
    unit = text_literal(_unit(name, arguments[0]))
    call = typed_call(
        name,
        unit,
        timestamp.taken(name, arguments, 1, dialect),
        timestamp.taken(name, arguments, 2, dialect),
    )
    return call if dialect is SPARK else cast_to(call, INT)


def _timestampdiff(call: Call, values: Sequence[Value], rows: int) -> Value:
    unit = values[0].as_py() if isinstance(values[0], pa.Scalar) else values[0][0].as_py()
    start, end = (times_of(as_array(value, rows)) for value in values[1:])
    if unit in MONTHS:
        months = calendar.months_between(start, end)
        numbers = _towards_zero(months, MONTHS[unit])
    else:
        numbers = _towards_zero(end.micros() - start.micros(), MICROS[unit])
    return _built(numbers, call.type, values, rows)


def _towards_zero(numbers: np.ndarray, size: int) -> np.ndarray:
    return np.sign(numbers) * (np.abs(numbers) // size)


def _months_between(call: Call, values: Sequence[Value], rows: int) -> Value:
    end, start = (times_of(as_array(value, rows)) for value in values[:2])
    months = calendar.months_of(end.days) - calendar.months_of(start.days)
    one, other = calendar.day_of_month(end.days), calendar.day_of_month(start.days)
    last = (end.days == calendar.last_of_month(end.days)) & (
        start.days == calendar.last_of_month(start.days)
    )
    seconds = (one - other) * SECONDS + end.seconds() - start.seconds()
    exact = months + seconds / (31 * SECONDS)
    if len(values) < 3 or not (isinstance(values[2], pa.Scalar) and values[2].as_py() is False):
        exact = np.floor(exact * 1e8 + 0.5) / 1e8
    numbers = np.where((one == other) | last, months.astype(float), exact)
    return _built(numbers, call.type, values, rows)


_WEEKDAYS = {
    name: day
    for day, full in enumerate(time_patterns.DAY_NAMES)
    for name in (full.lower(), full[:3].lower(), full[:2].lower())
}


def _next_day(call: Call, values: Sequence[Value], rows: int) -> Value:
    names = pc.utf8_lower(pc.utf8_trim_whitespace(as_array(values[1], rows)))
    wanted = pc.index_in(names, pa.array(list(_WEEKDAYS)))
    unknown = pc.and_not(names.is_valid(), wanted.is_valid())
    refuse(call, values, unknown, "is of no day of the week: write 'Mon' or 'Monday'", rows)
    day = np.array(list(_WEEKDAYS.values()))[np.asarray(wanted.fill_null(0))]
    days = times_of(as_array(values[0], rows)).days
    return _built(days + (day - calendar.weekday(days) - 1) % 7 + 1, call.type, values, rows)


TIME.add(
    "plus_interval",
    "",
    "Add months, then microseconds, to a time.",
    None,
    _plus_interval,
    _as_argument(0),
    _plus_interval_spark,
)
TIME.add(
    "date_add",
    "date_add(DATE, days INT) -> DATE",
    "Add days.",
    _dates_or_units(takes("date_add", date, integer), _add_units),
    _to_days(lambda start, count: start.days + count),
    result(DATE),
    synonyms=("dateadd",),
)
TIME.add(
    "date_sub",
    "date_sub(DATE, days INT) -> DATE",
    "Take days away.",
    _date_sub,
    _to_days(lambda start, count: start.days - count),
    result(DATE),
)
TIME.add(
    "datediff",
    "datediff(end DATE, start DATE) -> INT",
    "Count days.",
    _dates_or_units(takes("datediff", date, date), _units_between),
    _of_numbers(lambda end, start: end.days - start.days),
    result(INT),
    synonyms=("date_diff",),
    fallible=False,
)
TIME.add(
    "add_months",
    "add_months(DATE, months INT) -> DATE",
    "Add months; a day that the month has not becomes its last.",
    takes("add_months", date, integer),
    _to_days(lambda start, months: calendar.plus_months(start.days, months)),
    result(DATE),
)
TIME.add(
    "months_between",
    "months_between(end, start [, rounded BOOLEAN]) -> DOUBLE",
    "Count months, of 31 days where the days of the month differ.",
    takes("months_between", timestamp, timestamp, anything, least=2),
    _months_between,
    result(DOUBLE),
    fallible=False,
)
TIME.add(
    "last_day",
    "last_day(DATE) -> DATE",
    "Give the last day of the month.",
    takes("last_day", date),
    _of_numbers(lambda start: calendar.last_of_month(start.days)),
    result(DATE),
    fallible=False,
)
TIME.add(
    "next_day",
    "next_day(DATE, weekday STRING) -> DATE",
    "Give the first such day of the week that is later.",
    takes("next_day", date, text),
    _next_day,
    result(DATE),
)
TIME.add(
    "timestampdiff",
    "timestampdiff(unit, start, end) -> BIGINT (spark), INT (flink)",
    "Count whole units, towards zero.",
    _units_between,
    _timestampdiff,
    result(BIGINT),
    lambda call, arguments: (
        f"timestampdiff({arguments[0].strip(chr(39)).upper()}, {arguments[1]}, {arguments[2]})"
    ),
    fallible=False,
)
TIME.alias(
    "timestampadd",
    "timestampadd(unit, count, time) -> TIMESTAMP",
    "Add so many units.",
    _add_units,
)


# --- Cutting --------------------------------------------------------------------------------------


def _cut(name: str) -> Resolver:
    """Resolve date_trunc(unit, time); a date becomes a timestamp in the spark dialect."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        unit = text_literal(_unit(name, arguments[0]))
        wanted = timestamp if dialect is SPARK else time_or_date
        return typed_call(name, unit, wanted.taken(name, arguments, 1, dialect))

    return resolve


def _trunc(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve trunc(date, unit)."""
    check_count("trunc", arguments, 2, 2)
    unit = _unit("trunc", arguments[1])
    if unit not in (*MONTHS, "week"):
        raise QueryError(
            f"trunc cuts a date to year, quarter, month or week, not to {unit}", function="trunc"
        )
    day = date.taken("trunc", arguments, 0, dialect)
    return typed_call("date_trunc", text_literal(unit), day)


def _cut_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    unit = values[0].as_py() if isinstance(values[0], pa.Scalar) else values[0][0].as_py()
    times = times_of(as_array(values[1], rows))
    cut = calendar.truncated(times, unit)
    if call.function == "date_ceil":
        upper = calendar.next_unit(cut, unit)
        cut = replace(cut, ticks=np.where(cut.ticks == times.ticks, times.ticks, upper.ticks))
    return _built(cut.ticks, call.type, values, rows)


def spark_type(kind: DataType) -> str:
    """Name a date or timestamp type in Spark SQL."""
    return {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP"}[kind.root]


TIME.add(
    "date_trunc",
    "date_trunc(unit, time) -> TIMESTAMP",
    "Give the beginning of the year, quarter, month, week, day, hour … that a time is in; "
    "a TIMESTAMP stays one (Spark gives TIMESTAMP_LTZ).",
    _cut("date_trunc"),
    _cut_kernel,
    _as_argument(1),
    lambda call, arguments: (
        f"CAST(date_trunc({arguments[0]}, {arguments[1]}) AS {spark_type(call.type)})"
    ),
    fallible=False,
)
TIME.add(
    "date_ceil",
    "date_ceil(unit, time) -> TIMESTAMP",
    "Give the beginning of the first unit that does not begin before the time.",
    _cut("date_ceil"),
    _cut_kernel,
    _as_argument(1),
    NO_SPARK,
    fallible=False,
)
TIME.alias(
    "trunc",
    "trunc(DATE, unit) -> DATE",
    "Give the first day of a year, quarter, month or week.",
    _trunc,
)


# --- Text -----------------------------------------------------------------------------------------


def _date_format(call: Call, values: Sequence[Value], rows: int) -> Value:
    written = time_patterns.write(times_of(as_array(values[0], rows)), _said(values[1]))
    valid = _valid(values, rows)
    return written if valid is None else pc.if_else(pa.array(valid), written, None)


def _said(value: Value) -> str:
    """Give a constant argument."""
    said: str = value.as_py() if isinstance(value, pa.Scalar) else value[0].as_py()
    return said


def _parse(call: Call, values: Sequence[Value], rows: int) -> Value:
    written = as_array(values[0], rows)
    if not rows:
        return pa.array([], call.type.arrow)
    micros, good = time_patterns.read(written, _said(values[1]))
    if call.function == "parse_timestamp":
        problem = f"is no time as {_said(values[1])!r} says; try_to_timestamp gives NULL for it"
        _refused(call, values, ~good, problem, rows)
        return _built(micros, call.type, values, rows)
    return _built(micros, call.type, values, rows, bad=~good)


def _reads(name: str, wanted: DataType, function_name: str) -> Resolver:
    """Resolve to_date(text [, pattern]) and the like."""
    safe = function_name.startswith("try")

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, 2)
        value = arguments[0]
        if value.type.root in ("DATE", *TIMESTAMPS):
            return cast_to(value, wanted)
        value = text.taken(name, arguments, 0, dialect)
        if len(arguments) == 1:
            if is_null_literal(value):
                return Literal(wanted, None)
            return Cast(wanted, value, "null") if safe else cast_to(value, wanted)
        pattern = constant_pattern(name, arguments, 1)
        return cast_to(typed_call(function_name, value, pattern), wanted)

    return resolve


def _format(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("date_format", arguments, 2, 2)
    value = timestamp.taken("date_format", arguments, 0, dialect)
    if dialect is FLINK and isinstance(value, Cast) and value.operand.type.root in STRINGS:
        value = Cast(NTZ, value.operand, "null")
    return typed_call("date_format", value, constant_pattern("date_format", arguments, 1))


def _unix_timestamp(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve unix_timestamp([time [, pattern]]): whole seconds since 1970."""
    name = "unix_timestamp"
    check_count(name, arguments, 0, 2)
    if not arguments:
        return typed_call("unix_seconds", typed_call("current_timestamp"))
    if arguments[0].type.root in ("DATE", *TIMESTAMPS):
        # As Spark's: towards zero, where unix_seconds takes the second before.
        moment = cast_to(timestamp.taken(name, arguments, 0, dialect), LTZ)
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return typed_call(
            "timestampdiff",
            text_literal("second"),
            Literal(LTZ.with_nullable(False), start),
            moment,
        )
    pattern = constant_pattern(name, arguments, 1)
    reader = "parse_timestamp" if dialect is SPARK else "try_parse_timestamp"
    return typed_call(
        "unix_seconds", typed_call(reader, text.taken(name, arguments, 0, dialect), pattern)
    )


def _from_unixtime(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "from_unixtime"
    check_count(name, arguments, 1, 2)
    pattern = constant_pattern(name, arguments, 1)
    seconds = typed_call("timestamp_seconds", bigint.taken(name, arguments, 0, dialect))
    return typed_call("date_format", seconds, pattern)


def _short_name(pattern: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count("dayname", arguments, 1, 1)
        return _format((*arguments, text_literal(pattern)), dialect)

    return resolve


def _parse_spark(name: str) -> SparkText:
    return lambda call, arguments: f"{name}({arguments[0]}, {arguments[1]})"


TIME.add(
    "date_format",
    "date_format(time, pattern) -> STRING",
    "Write a time by a pattern such as 'yyyy-MM-dd HH:mm:ss'.",
    _format,
    _date_format,
    result(STRING),
    fallible=False,
)
TIME.add(
    "parse_timestamp",
    "",
    "Read a timestamp by a pattern; what is none fails.",
    None,
    _parse,
    result(LTZ),
    _parse_spark("to_timestamp"),
)
TIME.add(
    "try_parse_timestamp",
    "",
    "Read a timestamp by a pattern; what is none becomes NULL.",
    None,
    _parse,
    result(LTZ, nullable=True),
    _parse_spark("try_to_timestamp"),
    fallible=False,
)
_MILLIS = DataType("TIMESTAMP", precision=3)
TIME.alias(
    "to_date",
    "to_date(text [, pattern]) -> DATE",
    "Read a date; what is none fails in the spark dialect and is NULL in flink.",
    _in_dialects(
        _reads("to_date", DATE, "parse_timestamp"), _reads("to_date", DATE, "try_parse_timestamp")
    ),
)
TIME.alias(
    "try_to_date",
    "try_to_date(text [, pattern]) -> DATE",
    "Read a date; what is none is NULL.",
    _reads("try_to_date", DATE, "try_parse_timestamp"),
)
TIME.alias(
    "to_timestamp",
    "to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ (spark), TIMESTAMP(3) (flink)",
    "Read a timestamp; what is none fails in the spark dialect and is NULL in flink.",
    _in_dialects(
        _reads("to_timestamp", LTZ, "parse_timestamp"),
        _reads("to_timestamp", _MILLIS, "try_parse_timestamp"),
    ),
)
TIME.alias(
    "try_to_timestamp",
    "try_to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ",
    "Read a timestamp; what is none is NULL.",
    _reads("try_to_timestamp", LTZ, "try_parse_timestamp"),
)
TIME.alias(
    "to_timestamp_ntz",
    "to_timestamp_ntz(text [, pattern]) -> TIMESTAMP",
    "Read a timestamp without a zone; what is none fails.",
    _reads("to_timestamp_ntz", NTZ, "parse_timestamp"),
)
TIME.alias(
    "unix_timestamp",
    "unix_timestamp([time [, pattern]]) -> BIGINT",
    "Count seconds since 1970-01-01 00:00:00 UTC; of now without arguments.",
    _unix_timestamp,
    "to_unix_timestamp",
)
TIME.alias(
    "from_unixtime",
    "from_unixtime(seconds [, pattern]) -> STRING",
    "Write the time so many seconds after 1970-01-01 00:00:00 UTC.",
    _from_unixtime,
)
TIME.alias(
    "dayname", "dayname(time) -> STRING", "Give the day's name, such as Mon.", _short_name("EEE")
)
TIME.alias(
    "monthname",
    "monthname(time) -> STRING",
    "Give the month's name, such as Jan.",
    _short_name("MMM"),
)


# --- Numbers --------------------------------------------------------------------------------------


def _from_count(per_second: int) -> Kernel:
    """Make a TIMESTAMP_LTZ(6) of a count since 1970."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        counts = _plain(values[0], rows)
        assert isinstance(counts, np.ndarray)
        size = 10**6 // per_second
        wrong = np.abs(counts) > (2**63 - 1) // size
        _refused(call, values, wrong, "overflows TIMESTAMP_LTZ", rows)
        return _built(counts * size, call.type, values, rows)

    return kernel


def _timestamp_seconds(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "timestamp_seconds"
    check_count(name, arguments, 1, 1)
    if arguments[0].type.root in INTEGERS:
        return typed_call(name, cast_to(arguments[0], BIGINT))
    million = Literal(INT.with_nullable(False), 10**6)
    micros = function.resolve("multiply", (arguments[0], million), SPARK)
    return typed_call("timestamp_micros", cast_to(micros, BIGINT))


for _name, _per_second in (
    ("timestamp_seconds", 1),
    ("timestamp_millis", 1000),
    ("timestamp_micros", 10**6),
):
    TIME.add(
        _name,
        f"{_name}(number) -> TIMESTAMP_LTZ",
        "Give the time so long after 1970-01-01 00:00:00 UTC.",
        _timestamp_seconds if _per_second == 1 else takes(_name, bigint),
        _from_count(_per_second),
        result(LTZ),
    )
for _name, _size in (("unix_seconds", 10**6), ("unix_millis", 1000), ("unix_micros", 1)):
    TIME.add(
        _name,
        f"{_name}(time) -> BIGINT",
        "Count since 1970-01-01 00:00:00 UTC, finer parts left out.",
        takes(_name, timestamp),
        _of_numbers(lambda times, size=_size: times.micros() // size),
        result(BIGINT),
        lambda call, arguments: f"{call.function}(CAST({arguments[0]} AS TIMESTAMP))",
        fallible=False,
    )
TIME.add(
    "unix_date",
    "unix_date(DATE) -> INT",
    "Count days since 1970-01-01.",
    takes("unix_date", date),
    _of_numbers(lambda times: times.days),
    result(INT),
    fallible=False,
)
TIME.add(
    "date_from_unix_date",
    "date_from_unix_date(INT) -> DATE",
    "Give the date so many days after 1970-01-01.",
    takes("date_from_unix_date", integer),
    _of_numbers(lambda days: days),
    result(DATE),
    fallible=False,
)


def _to_ltz(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve TO_TIMESTAMP_LTZ(number, 0 | 3), seconds or milliseconds."""
    name = "to_timestamp_ltz"
    check_count(name, arguments, 1, 2)
    if dialect is SPARK or arguments[0].type.root in (*STRINGS, "DATE", *TIMESTAMPS):
        wanted = LTZ if dialect is SPARK else DataType("TIMESTAMP_LTZ", precision=3)
        reader = "parse_timestamp" if dialect is SPARK else "try_parse_timestamp"
        return _reads(name, wanted, reader)(arguments, dialect)
    precision = arguments[1] if len(arguments) == 2 else Literal(INT, 3)
    if not isinstance(precision, Literal) or precision.value not in (0, 3):
        raise QueryError("the precision of TO_TIMESTAMP_LTZ must be 0 or 3", function=name)
    unit = "timestamp_millis" if precision.value else "timestamp_seconds"
    call = typed_call(unit, bigint.taken(name, arguments, 0, dialect))
    return cast_to(call, DataType("TIMESTAMP_LTZ", precision=3))


TIME.alias(
    "to_timestamp_ltz",
    "to_timestamp_ltz(number, 0 | 3) (flink), (text [, pattern]) -> TIMESTAMP_LTZ",
    "Give the time so many seconds (0) or milliseconds (3) after 1970; read text.",
    _to_ltz,
)


# --- Made of parts --------------------------------------------------------------------------------


def _make_date(call: Call, values: Sequence[Value], rows: int) -> Value:
    years, months, days = (np.asarray(_plain(value, rows)) for value in values)
    good = calendar.is_day(years, np.clip(months, 1, 12), days) & (months >= 1) & (months <= 12)
    good &= np.abs(years) <= 999_999
    _refused(call, values, ~good, "is no date", rows)
    number = calendar.day_number(
        np.where(good, years, 1970), np.where(good, months, 1), np.where(good, days, 1)
    )
    return _built(number, call.type, values, rows)


_SECONDS = DataType("DECIMAL", precision=16, scale=6)


def _make_timestamp_arguments(wanted: DataType, name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 6, 7 if wanted is LTZ else 6)
        whole = [integer.taken(name, arguments, place, dialect) for place in range(5)]
        call = typed_call("make_timestamp", *whole, cast_to(arguments[5], _SECONDS))
        if len(arguments) == 7:
            return typed_call("to_utc_timestamp", call, text.taken(name, arguments, 6, dialect))
        return cast_to(call, wanted)

    return resolve


def _make_timestamp(call: Call, values: Sequence[Value], rows: int) -> Value:
    years, months, days, hours, minutes = (np.asarray(_plain(value, rows)) for value in values[:5])
    seconds = as_array(values[5], rows)
    filled = seconds.fill_null(0) if seconds.null_count else seconds
    # At most 16 digits: the low word of a decimal holds them, in microseconds.
    words = np.frombuffer(filled.buffers()[1] or b"", np.int64).reshape(-1, 2)
    micros = words[filled.offset : filled.offset + rows, 0]
    good = calendar.is_day(years, np.clip(months, 1, 12), days) & (months >= 1) & (months <= 12)
    good &= (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60)
    good &= (micros >= 0) & (micros <= 60 * 10**6) & (np.abs(years) <= 290_000)
    _refused(call, values, ~good, "is no time", rows)
    number = calendar.day_number(
        np.where(good, years, 1970), np.where(good, months, 1), np.where(good, days, 1)
    )
    ticks = ((number * 24 + hours) * 60 + minutes) * 60 * 10**6 + micros
    return _built(ticks, call.type, values, rows)


TIME.add(
    "make_date",
    "make_date(year, month, day) -> DATE",
    "Make a date; what is none fails.",
    takes("make_date", integer, integer, integer),
    _make_date,
    result(DATE),
)
TIME.add(
    "make_timestamp",
    "make_timestamp(year, month, day, hour, minute, second [, zone]) -> TIMESTAMP_LTZ",
    "Make a timestamp, in UTC or in a zone; what is none fails.",
    _make_timestamp_arguments(LTZ, "make_timestamp"),
    _make_timestamp,
    result(LTZ),
    synonyms=("make_timestamp_ltz",),
)
TIME.alias(
    "make_timestamp_ntz",
    "make_timestamp_ntz(year, month, day, hour, minute, second) -> TIMESTAMP",
    "Make a timestamp without a zone; what is none fails.",
    _make_timestamp_arguments(NTZ, "make_timestamp_ntz"),
)


# --- Zones ----------------------------------------------------------------------------------------


def _zone_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    shift = in_zone(call.function == "from_utc_timestamp")
    times, zones = as_array(values[0], rows), values[1]
    if isinstance(zones, pa.Scalar):
        if not zones.is_valid:
            return pa.nulls(rows, call.type.arrow)
        return _shifted(shift, times, zones.as_py())
    result = pa.nulls(rows, call.type.arrow)
    for zone in zones.unique().drop_null().to_pylist():
        chosen = pc.fill_null(pc.equal(zones, zone), False)
        result = pc.replace_with_mask(result, chosen, _shifted(shift, times.filter(chosen), zone))
    return result


def _shifted(shift: Callable[[pa.Array, str], pa.Array], times: pa.Array, zone: str) -> pa.Array:
    try:
        return shift(times, zone)
    except pa.ArrowInvalid:
        raise EvaluationError(
            f"there is no time zone {zone!r}: write 'Europe/Berlin' or '+02:00'", zone=zone
        ) from None


def _convert_timezone(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve convert_timezone([source,] target, time)."""
    name = "convert_timezone"
    check_count(name, arguments, 2, 3)
    value: Expression = timestamp_ltz.taken(name, arguments, len(arguments) - 1, dialect)
    if len(arguments) == 3:
        value = typed_call("to_utc_timestamp", value, text.taken(name, arguments, 0, dialect))
    target = text.taken(name, arguments, len(arguments) - 2, dialect)
    return cast_to(typed_call("from_utc_timestamp", value, target), NTZ)


def _convert_tz(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve CONVERT_TZ(text, source, target)."""
    name = "convert_tz"
    check_count(name, arguments, 3, 3)
    value: Expression = typed_call(
        "try_parse_timestamp",
        text.taken(name, arguments, 0, dialect),
        text_literal(DEFAULT_PATTERN),
    )
    value = typed_call("to_utc_timestamp", value, text.taken(name, arguments, 1, dialect))
    value = typed_call("from_utc_timestamp", value, text.taken(name, arguments, 2, dialect))
    return typed_call("date_format", value, text_literal(DEFAULT_PATTERN))


for _name, _about in (
    ("from_utc_timestamp", "Shift a time in UTC to the wall clock of a zone."),
    ("to_utc_timestamp", "Shift a time on the wall clock of a zone to UTC."),
):
    TIME.add(
        _name,
        f"{_name}(time, zone) -> TIMESTAMP_LTZ",
        _about,
        takes(_name, timestamp_ltz, text),
        _zone_kernel,
        result(LTZ),
    )
TIME.alias(
    "convert_timezone",
    "convert_timezone([source,] target, time) -> TIMESTAMP",
    "Shift a time from the wall clock of one zone (UTC if not said) to that of another.",
    _convert_timezone,
)
TIME.alias(
    "convert_tz",
    "convert_tz(text, source, target) -> STRING",
    "Shift a time, written as 'yyyy-MM-dd HH:mm:ss', from one zone to another.",
    _convert_tz,
    dialects=frozenset({FLINK}),
)


# --- Now ------------------------------------------------------------------------------------------

_NOW = {
    "current_date": DATE,
    "current_timestamp": LTZ,
    "localtimestamp": NTZ,
    "current_time": DataType("TIME"),
}


def at_instant(expression: Expression, micros: int) -> Expression:
    """Put constants where an expression asks for the time.

    Args:
        micros: since 1970-01-01 00:00:00 UTC.
    """

    def fixed(part: Expression) -> Expression:
        if isinstance(part, Call) and part.function in _NOW:
            return Literal(part.type, _instant(part.function, micros))
        return part

    return expression.transform(fixed)


def _instant(name: str, micros: int) -> object:
    utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=micros
    )
    if name == "current_date":
        return utc.date()
    if name == "current_time":
        return utc.time().replace(microsecond=0)
    return utc if name == "current_timestamp" else utc.replace(tzinfo=None)


def _now_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    return pa.scalar(_instant(call.function, time.time_ns() // 1000), call.type.arrow)


def _now(name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 0, 0)
        call = typed_call(name)
        if dialect is FLINK and call.type.root in TIMESTAMPS:
            return cast_to(call, DataType(call.type.root, precision=3))
        return call

    return resolve


for _name, _kind in _NOW.items():
    TIME.add(
        _name,
        f"{_name}() -> {_kind}",
        "Give the time at which the query runs, one for all rows.",
        _now(_name),
        _now_kernel,
        result(_kind, nullable=False),
        synonyms={
            "current_timestamp": ("now", "proctime", "current_row_timestamp"),
            "current_date": ("curdate",),
            "current_time": ("localtime",),
        }.get(_name, ()),
        deterministic=False,
        fallible=False,
    )


def _zone_name(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("current_timezone", arguments, 0, 0)
    return text_literal("UTC")


TIME.alias("current_timezone", "current_timezone() -> STRING", "Give 'UTC'.", _zone_name)


# --- What is written otherwise here ---------------------------------------------------------------


def _instead(name: str, remedy: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        raise UnsupportedError(f"{name.upper()} is not supported: {remedy}", function=name)

    return resolve


_TABLE_FUNCTION = (
    "write FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTES)) "
    "GROUP BY window_start, window_end"
)
for _name in ("window", "session_window", "window_time", "tumble", "hop", "session", "cumulate"):
    TIME.alias(
        _name,
        f"{_name}(…)",
        "Is refused: windows are table functions.",
        _instead(_name, _TABLE_FUNCTION),
    )
for _kind_name in ("tumble", "hop", "session"):
    for _end in ("start", "end", "rowtime", "proctime"):
        _name = f"{_kind_name}_{_end}"
        TIME.alias(
            _name,
            f"{_name}(…)",
            "Is refused: windows are table functions.",
            _instead(_name, _TABLE_FUNCTION + " and read window_start, window_end"),
        )
