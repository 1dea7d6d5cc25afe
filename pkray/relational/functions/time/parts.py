"""Functions that take times apart (``year``, ``extract``) and make them of parts."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.functions import signatures
from pkray.relational.functions.coercion import BIGINT, DATE, INT, cast_to
from pkray.relational.functions.function import (
    NO_SPARK,
    Resolver,
    SparkText,
    Value,
    Written,
    typed_call,
)
from pkray.relational.functions.time import calendar
from pkray.relational.functions.time.arguments import LTZ, NTZ, SPARK, TIME, any_clock, time_or_date
from pkray.relational.functions.time.calendar import Times, times_of
from pkray.relational.functions.time.clock import seconds, with_time
from pkray.relational.functions.time.kernels import built, computed, numbers_of, refuse_known
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import DataType

SECOND_FRACTION = DataType("DECIMAL", precision=8, scale=6)
FIELDS: dict[str, tuple[str, Callable[[Times], np.ndarray], str]] = {
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
_CLOCKS = ("hour", "minute", "second", "millisecond", "microsecond")
_EXTRACTED = {
    **{name: name for name in (*FIELDS, *_MORE_FIELDS)},
    "years": "year", "yr": "year", "quarters": "quarter", "qtr": "quarter", "months": "month",
    "mon": "month", "weeks": "weekofyear", "week": "weekofyear", "w": "weekofyear",
    "days": "day", "d": "day", "dayofmonth": "day", "dow": "dayofweek", "isodow": "dayofweek_iso",
    "dow_iso": "dayofweek_iso", "isoyear": "yearofweek", "doy": "dayofyear", "hours": "hour",
    "h": "hour", "hr": "hour", "minutes": "minute", "m": "minute", "min": "minute",
    "seconds": "second", "s": "second", "sec": "second", "milliseconds": "millisecond",
    "microseconds": "microsecond",
}  # fmt: skip


def _field(call: Written) -> Expression:
    """Resolve ``year(x)``: INT in the spark dialect, BIGINT in flink."""
    (value,) = call.taken(any_clock if call.name in _CLOCKS else time_or_date)
    found = typed_call(call.name, value)
    return found if call.dialect is SPARK else cast_to(found, BIGINT)


def _extract(call: Written) -> Expression:
    said = signatures.constant_text("extract", call.exactly(2)[0], "the field")
    name = _EXTRACTED.get(said.strip().lower())
    if name is None:
        raise QueryError(
            f"there is no field {said!r} of a time: write {', '.join(FIELDS)}", function="extract"
        )
    taken = any_clock if name in _CLOCKS else time_or_date
    value = taken.taken(call, 1)
    if name == "second" and call.dialect is SPARK:
        return typed_call("second_fraction", value)
    found = typed_call(name, value)
    return found if call.dialect is SPARK else cast_to(found, BIGINT)


def _second_fraction(call: Call, values: Sequence[Value], rows: int) -> Value:
    times = times_of(as_array(values[0], rows))
    micros = times.seconds() % 60 * 10**6 + times.fraction(10**6)
    array = built(micros, BIGINT, values, rows)
    # 10^6 microseconds are 1.000000: the same digits with a scale of 6.
    words = array.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(call.type.arrow, rows, words.buffers(), offset=words.offset)


def _formed(form: str) -> SparkText:
    return lambda call, arguments: form.format(*arguments)


for _name, (_about, _compute, _synonym) in FIELDS.items():
    TIME.infallible.add(
        f"{_name}(time) -> INT (spark), BIGINT (flink)",
        f"Give {_about}.",
        _field,
        computed(_compute),
        signatures.result(INT),
        synonyms=(_synonym,) if _synonym in ("dayofmonth", "week") else (),
    )
for _name, (_compute, _kind, _form) in _MORE_FIELDS.items():
    TIME.infallible.add_inner(
        _name,
        f"Give the {_name}.",
        computed(_compute),
        signatures.result(_kind),
        _formed(_form) if _form else NO_SPARK,
    )
TIME.infallible.add_inner(
    "second_fraction",
    "Give the second with its fraction.",
    _second_fraction,
    signatures.result(SECOND_FRACTION),
    lambda call, arguments: f"extract(SECOND FROM {arguments[0]})",
)
TIME.alias(
    "extract(field FROM time) -> INT (spark), BIGINT (flink)",
    "Give a field of a time, such as year, month, dow or second.",
    _extract,
    "date_part",
    "datepart",
)


def _make_timestamp_arguments(wanted: DataType) -> Resolver:
    zone = (signatures.text,) if wanted is LTZ else ()

    def resolve(call: Written) -> Expression:
        if 0 < len(call.arguments) < 4:
            return with_time(call, wanted)
        *given, last = call.taken(*[signatures.integer] * 5, seconds, *zone, least=6)
        made = "try_make_timestamp" if call.name.startswith("try_") else "make_timestamp"
        if len(call.arguments) == 7:
            return typed_call("instant_at", typed_call(made, *given), last)
        return cast_to(typed_call(made, *given, last), wanted)

    return resolve


def _make_timestamp(call: Call, values: Sequence[Value], rows: int) -> Value:
    years, months, days, hours, minutes = (
        np.asarray(numbers_of(value, rows)) for value in values[:5]
    )
    seconds = as_array(values[5], rows)
    filled = seconds.fill_null(0) if seconds.null_count else seconds
    # At most 16 digits: the low word of a decimal holds them, in microseconds.
    words = np.frombuffer(filled.buffers()[1] or b"", np.int64).reshape(-1, 2)
    micros = words[filled.offset : filled.offset + rows, 0]
    good = calendar.is_day(years, np.clip(months, 1, 12), days) & (months >= 1) & (months <= 12)
    good &= (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60)
    good &= (micros >= 0) & (micros <= 60 * 10**6) & (np.abs(years) <= 290_000)
    if call.function == "make_timestamp":
        refuse_known(call, values, ~good, "is no time", rows)
    number = calendar.day_number(
        np.where(good, years, 1970), np.where(good, months, 1), np.where(good, days, 1)
    )
    ticks = ((number * 24 + hours) * 60 + minutes) * 60 * 10**6 + micros
    return built(ticks, call.type, values, rows, bad=~good)


@TIME.kernel(
    "make_date(year, month, day) -> DATE",
    "Make a date; what is none fails.",
    signatures.takes(signatures.integer, signatures.integer, signatures.integer),
    signatures.result(DATE),
)
def _make_date(call: Call, values: Sequence[Value], rows: int) -> Value:
    years, months, days = (np.asarray(numbers_of(value, rows)) for value in values)
    good = calendar.is_day(years, np.clip(months, 1, 12), days) & (months >= 1) & (months <= 12)
    good &= np.abs(years) <= 999_999
    refuse_known(call, values, ~good, "is no date", rows)
    number = calendar.day_number(
        np.where(good, years, 1970), np.where(good, months, 1), np.where(good, days, 1)
    )
    return built(number, call.type, values, rows)


TIME.add(
    "make_timestamp(year, month, day, hour, minute, second | DATE, TIME [, zone]) -> TIMESTAMP_LTZ",
    "Make a timestamp, in UTC or in a zone; what is none fails.",
    _make_timestamp_arguments(LTZ),
    _make_timestamp,
    signatures.result(LTZ),
    synonyms=("make_timestamp_ltz",),
)
TIME.alias(
    "make_timestamp_ntz(year, month, day, hour, minute, second | DATE, TIME) -> TIMESTAMP",
    "Make a timestamp without a zone; what is none fails.",
    _make_timestamp_arguments(NTZ),
)
TIME.add(
    "try_make_timestamp(year, month, day, hour, minute, second | DATE, TIME [, zone]) -> "
    "TIMESTAMP_LTZ",
    "Make a timestamp, in UTC or in a zone; NULL for what is none.",
    _make_timestamp_arguments(LTZ),
    _make_timestamp,
    signatures.result(LTZ, nullable=True),
    synonyms=("try_make_timestamp_ltz",),
)
TIME.alias(
    "try_make_timestamp_ntz(year, month, day, hour, minute, second | DATE, TIME) -> TIMESTAMP",
    "Make a timestamp without a zone; NULL for what is none.",
    _make_timestamp_arguments(NTZ),
)
