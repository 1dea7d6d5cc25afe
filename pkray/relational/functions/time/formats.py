"""Functions that write times as text and read them."""

import datetime
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import DATE, NUMBERS, STRING, cast_to, is_null_literal
from pkray.relational.functions.function import Resolver, SparkText, Value, typed_call
from pkray.relational.functions.signatures import bigint, check_count, result, text, text_literal
from pkray.relational.functions.time import arguments as args
from pkray.relational.functions.time import time_patterns
from pkray.relational.functions.time.calendar import times_of
from pkray.relational.functions.time.kernels import built, refuse_known
from pkray.relational.functions.values import as_array, null_rows
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import STRINGS, TIMESTAMPS, DataType


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
        refuse_known(call, values, ~good, problem, rows)
        return built(micros, call.type, values, rows)
    return built(micros, call.type, values, rows, bad=~good)


def reads(name: str, wanted: DataType, function_name: str) -> Resolver:
    """Resolve to_date(text [, pattern]) and the like."""
    safe = function_name.startswith("try")

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, 2)
        value = arguments[0]
        if value.type.root in ("DATE", *TIMESTAMPS):
            return cast_to(value, wanted)
        if _counts_seconds(value, wanted, dialect, len(arguments)):
            return Cast(wanted, value, "null") if safe else cast_to(value, wanted)
        value = text.taken(name, arguments, 0, dialect)
        if len(arguments) == 1:
            if is_null_literal(value):
                return Literal(wanted, None)
            return Cast(wanted, value, "null") if safe else cast_to(value, wanted)
        pattern = args.constant_pattern(name, arguments, 1)
        return cast_to(typed_call(function_name, value, pattern), wanted)

    return resolve


def _counts_seconds(value: Expression, wanted: DataType, dialect: Dialect, arguments: int) -> bool:
    """Whether it is a number that Spark takes as seconds since 1970-01-01 00:00:00 UTC."""
    return (
        dialect is args.SPARK
        and arguments == 1
        and wanted.root == "TIMESTAMP_LTZ"
        and value.type.root in NUMBERS
    )


def _format(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("date_format", arguments, 2, 2)
    value = args.timestamp.taken("date_format", arguments, 0, dialect)
    if dialect is args.FLINK and isinstance(value, Cast) and value.operand.type.root in STRINGS:
        value = Cast(args.NTZ, value.operand, "null")
    return typed_call("date_format", value, args.constant_pattern("date_format", arguments, 1))


def _unix_timestamp(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve unix_timestamp([time [, pattern]]): whole seconds since 1970."""
    name = "unix_timestamp"
    check_count(name, arguments, 0, 2)
    if not arguments:
        return typed_call("unix_seconds", typed_call("current_timestamp"))
    if arguments[0].type.root in ("DATE", *TIMESTAMPS):
        # As Spark's: towards zero, where unix_seconds takes the second before.
        moment = cast_to(args.timestamp.taken(name, arguments, 0, dialect), args.LTZ)
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return typed_call(
            "timestampdiff",
            text_literal("second"),
            Literal(args.LTZ.with_nullable(False), start),
            moment,
        )
    pattern = args.constant_pattern(name, arguments, 1)
    reader = "parse_timestamp" if dialect is args.SPARK else "try_parse_timestamp"
    return typed_call(
        "unix_seconds", typed_call(reader, text.taken(name, arguments, 0, dialect), pattern)
    )


def _from_unixtime(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "from_unixtime"
    check_count(name, arguments, 1, 2)
    pattern = args.constant_pattern(name, arguments, 1)
    seconds = typed_call("timestamp_seconds", bigint.taken(name, arguments, 0, dialect))
    return typed_call("date_format", seconds, pattern)


def _short_name(pattern: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count("dayname", arguments, 1, 1)
        return _format((*arguments, text_literal(pattern)), dialect)

    return resolve


def _parse_spark(name: str) -> SparkText:
    return lambda call, arguments: f"{name}({arguments[0]}, {arguments[1]})"


@args.TIME.infallible.kernel(
    "date_format(time, pattern) -> STRING",
    "Write a time by a pattern such as 'yyyy-MM-dd HH:mm:ss'.",
    _format,
    result(STRING),
)
def _date_format(call: Call, values: Sequence[Value], rows: int) -> Value:
    written = time_patterns.write(times_of(as_array(values[0], rows)), _said(values[1]))
    return pc.if_else(pa.array(null_rows(values, rows)), None, written)


args.TIME.add_inner(
    "parse_timestamp",
    "Read a timestamp by a pattern; what is none fails.",
    _parse,
    result(args.LTZ),
    _parse_spark("to_timestamp"),
)
args.TIME.infallible.add_inner(
    "try_parse_timestamp",
    "Read a timestamp by a pattern; what is none becomes NULL.",
    _parse,
    result(args.LTZ, nullable=True),
    _parse_spark("try_to_timestamp"),
)
_MILLIS = DataType("TIMESTAMP", precision=3)
args.TIME.alias(
    "to_date(text [, pattern]) -> DATE",
    "Read a date; what is none fails in the spark dialect and is NULL in flink.",
    args.by_dialect(
        reads("to_date", DATE, "parse_timestamp"), reads("to_date", DATE, "try_parse_timestamp")
    ),
)
args.TIME.alias(
    "try_to_date(text [, pattern]) -> DATE",
    "Read a date; what is none is NULL.",
    reads("try_to_date", DATE, "try_parse_timestamp"),
)
args.TIME.alias(
    "to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ (spark), TIMESTAMP(3) (flink)",
    "Read a timestamp; what is none fails in the spark dialect and is NULL in flink.",
    args.by_dialect(
        reads("to_timestamp", args.LTZ, "parse_timestamp"),
        reads("to_timestamp", _MILLIS, "try_parse_timestamp"),
    ),
)
args.TIME.alias(
    "try_to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ",
    "Read a timestamp; what is none is NULL.",
    reads("try_to_timestamp", args.LTZ, "try_parse_timestamp"),
)
args.TIME.alias(
    "to_timestamp_ntz(text [, pattern]) -> TIMESTAMP",
    "Read a timestamp without a zone; what is none fails.",
    reads("to_timestamp_ntz", args.NTZ, "parse_timestamp"),
)
args.TIME.alias(
    "unix_timestamp([time [, pattern]]) -> BIGINT",
    "Count seconds since 1970-01-01 00:00:00 UTC; of now without arguments.",
    _unix_timestamp,
    "to_unix_timestamp",
)
args.TIME.alias(
    "from_unixtime(seconds [, pattern]) -> STRING",
    "Write the time so many seconds after 1970-01-01 00:00:00 UTC.",
    _from_unixtime,
)
args.TIME.alias("dayname(time) -> STRING", "Give the day's name, such as Mon.", _short_name("EEE"))
args.TIME.alias(
    "monthname(time) -> STRING", "Give the month's name, such as Jan.", _short_name("MMM")
)
