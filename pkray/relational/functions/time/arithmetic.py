"""Functions that add to times and count between them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions import function, signatures
from pkray.relational.functions.coercion import BIGINT, DATE, DOUBLE, INT, cast_to
from pkray.relational.functions.function import Resolver, Value, Written, typed_call
from pkray.relational.functions.time import arguments as args
from pkray.relational.functions.time import calendar, kernels, time_patterns
from pkray.relational.functions.time.calendar import MICROS, MONTHS, SECONDS, Times, times_of
from pkray.relational.functions.values import as_array, refuse
from pkray.relational.plan.expressions import Call, Expression, Literal


def _plus_interval(call: Call, values: Sequence[Value], rows: int) -> Value:
    times = kernels.numbers_of(values[0], rows)
    assert isinstance(times, Times)
    months, micros = (_interval_part(value, rows) for value in values[1:])
    if np.any(months):
        days = calendar.plus_months(times.days, months)
        beyond = np.abs(days) >= (2**31 if times.per_day == 1 else 2**62 // times.per_day)
        kernels.refuse_known(call, values, beyond, f"overflows {call.type.root}", rows)
        times = times.on(np.where(beyond, 0, days))
    day = SECONDS * 10**6
    if times.per_day == 1:
        wrong = np.broadcast_to(micros % day != 0, (rows,))
        kernels.refuse_known(
            call, values, wrong, "adds hours to a date: cast it to a timestamp", rows
        )
    if times.per_day >= day:
        added = micros * (times.per_day // day)
    else:
        added = micros // (day // times.per_day)
    ticks = times.ticks + added
    bound = 2**31 if times.per_day == 1 else 2**62
    wrong = (np.abs(ticks) >= bound) | (np.abs(added) >= bound)
    kernels.refuse_known(call, values, wrong, f"overflows {call.type.root}", rows)
    return kernels.built(ticks, call.type, values, rows)


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


def _add_units(call: Written) -> Expression:
    """Resolve timestampadd(unit, count, time)."""
    call = call._replace(name="timestampadd")
    unit = args.unit_of(call.name, call.exactly(3)[0])
    value = args.time_or_date.taken(call, 2)
    if value.type.root == "DATE" and (
        call.dialect is args.SPARK or MICROS.get(unit, SECONDS * 10**6) < SECONDS * 10**6
    ):
        value = args.timestamp.taken(call, 2)
    size = Literal(BIGINT.with_nullable(False), MONTHS.get(unit) or MICROS[unit])
    count = signatures.bigint.taken(call, 1)
    if isinstance(count, Literal) and count.value is not None:
        product: Expression = Literal(size.type, count.value * size.value)
    else:
        product = function.resolve("multiply", (count, size), args.SPARK)
    zero = Literal(BIGINT.with_nullable(False), 0)
    months, micros = (product, zero) if unit in MONTHS else (zero, product)
    return typed_call("plus_interval", value, cast_to(months, INT), micros)


def _dates_or_units(plain: Resolver, with_unit: Resolver) -> Resolver:
    """Resolve a function that takes a unit first where it has three arguments."""
    return lambda call: (with_unit if len(call.arguments) == 3 else plain)(call)


def _units_between(call: Written) -> Expression:
    """Resolve timestampdiff(unit, start, end): BIGINT in the spark dialect, INT in flink."""
    call = call._replace(name="timestampdiff")
    unit = signatures.text_literal(args.unit_of(call.name, call.exactly(3)[0]))
    times = (args.timestamp.taken(call, place) for place in (1, 2))
    found = typed_call(call.name, unit, *times)
    return found if call.dialect is args.SPARK else cast_to(found, INT)


def _towards_zero(numbers: np.ndarray, size: int) -> np.ndarray:
    return np.sign(numbers) * (np.abs(numbers) // size)


_WEEKDAYS = {
    name: day
    for day, full in enumerate(time_patterns.DAY_NAMES)
    for name in (full.lower(), full[:3].lower(), full[:2].lower())
}


args.TIME.add_inner(
    "plus_interval",
    "Add months, then microseconds, to a time.",
    _plus_interval,
    args.type_of_argument(0),
    _plus_interval_spark,
)
args.TIME.add(
    "date_add(DATE, days INT) -> DATE",
    "Add days.",
    _dates_or_units(signatures.takes(args.date, signatures.integer), _add_units),
    kernels.to_days(lambda start, count: start.days + count),
    signatures.result(DATE),
    synonyms=("dateadd",),
)
args.TIME.add(
    "date_sub(DATE, days INT) -> DATE",
    "Take days away.",
    signatures.takes(args.date, signatures.integer),
    kernels.to_days(lambda start, count: start.days - count),
    signatures.result(DATE),
)
args.TIME.infallible.add(
    "datediff(end DATE, start DATE) -> INT",
    "Count days.",
    _dates_or_units(signatures.takes(args.date, args.date), _units_between),
    kernels.computed(lambda end, start: end.days - start.days),
    signatures.result(INT),
    synonyms=("date_diff",),
)
args.TIME.add(
    "add_months(DATE, months INT) -> DATE",
    "Add months; a day that the month has not becomes its last.",
    signatures.takes(args.date, signatures.integer),
    kernels.to_days(lambda start, months: calendar.plus_months(start.days, months)),
    signatures.result(DATE),
)


@args.TIME.infallible.kernel(
    "months_between(end, start [, rounded BOOLEAN]) -> DOUBLE",
    "Count months, of 31 days where the days of the month differ.",
    signatures.takes(args.timestamp, args.timestamp, signatures.anything, least=2),
    signatures.result(DOUBLE),
)
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
    return kernels.built(numbers, call.type, values, rows)


args.TIME.infallible.add(
    "last_day(DATE) -> DATE",
    "Give the last day of the month.",
    signatures.takes(args.date),
    kernels.computed(lambda start: calendar.last_of_month(start.days)),
    signatures.result(DATE),
)


@args.TIME.kernel(
    "next_day(DATE, weekday STRING) -> DATE",
    "Give the first such day of the week that is later.",
    signatures.takes(args.date, signatures.text),
    signatures.result(DATE),
)
def _next_day(call: Call, values: Sequence[Value], rows: int) -> Value:
    names = pc.utf8_lower(pc.utf8_trim_whitespace(as_array(values[1], rows)))
    wanted = pc.index_in(names, pa.array(list(_WEEKDAYS)))
    unknown = pc.and_not(names.is_valid(), wanted.is_valid())
    refuse(call, values, unknown, "is of no day of the week: write 'Mon' or 'Monday'", rows)
    day = np.array(list(_WEEKDAYS.values()))[np.asarray(wanted.fill_null(0))]
    days = times_of(as_array(values[0], rows)).days
    return kernels.built(days + (day - calendar.weekday(days) - 1) % 7 + 1, call.type, values, rows)


@args.TIME.infallible.kernel(
    "timestampdiff(unit, start, end) -> BIGINT (spark), INT (flink)",
    "Count whole units, towards zero.",
    _units_between,
    signatures.result(BIGINT),
    lambda call, arguments: (
        f"timestampdiff({arguments[0].strip(chr(39)).upper()}, {arguments[1]}, {arguments[2]})"
    ),
)
def _timestampdiff(call: Call, values: Sequence[Value], rows: int) -> Value:
    unit = values[0].as_py()
    start, end = (times_of(as_array(value, rows)) for value in values[1:])
    if unit in MONTHS:
        months = calendar.months_between(start, end)
        numbers = _towards_zero(months, MONTHS[unit])
    else:
        numbers = _towards_zero(end.micros() - start.micros(), MICROS[unit])
    return kernels.built(numbers, call.type, values, rows)


args.TIME.alias("timestampadd(unit, count, time) -> TIMESTAMP", "Add so many units.", _add_units)
