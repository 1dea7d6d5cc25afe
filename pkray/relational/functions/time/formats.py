"""Functions that write times as text and read them."""

import datetime
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import DATE, NUMBERS, STRING, cast_to, is_null_literal
from pkray.relational.functions.function import Resolver, SparkText, Value, Written, typed_call
from pkray.relational.functions.signatures import bigint, result, text, text_literal
from pkray.relational.functions.time import arguments as args
from pkray.relational.functions.time import time_patterns
from pkray.relational.functions.time.calendar import times_of
from pkray.relational.functions.time.kernels import built, refuse_known
from pkray.relational.functions.values import as_array, null_rows
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import STRINGS, TIMESTAMPS, DataType


def _parse(call: Call, values: Sequence[Value], rows: int) -> Value:
    written = as_array(values[0], rows)
    if not rows:
        return pa.array([], call.type.arrow)
    pattern = values[1].as_py()
    micros, good = time_patterns.read(written, pattern)
    if call.function == "parse_timestamp":
        problem = f"is no time as {pattern!r} says; try_to_timestamp gives NULL for it"
        refuse_known(call, values, ~good, problem, rows)
        return built(micros, call.type, values, rows)
    return built(micros, call.type, values, rows, bad=~good)


def reads(wanted: DataType, reader: str) -> Resolver:
    """Resolve to_date(text [, pattern]) and the like."""
    safe = reader.startswith("try")

    def resolve(call: Written) -> Expression:
        value, *pattern = call.between(1, 2)
        if value.type.root in ("DATE", *TIMESTAMPS):
            return cast_to(value, wanted)
        if _counts_seconds(value, wanted, call.dialect, len(call.arguments)):
            return Cast(wanted, value, "null") if safe else cast_to(value, wanted)
        value = text.taken(call, 0)
        if pattern:
            return cast_to(typed_call(reader, value, args.constant_pattern(call, 1)), wanted)
        if is_null_literal(value):
            return Literal(wanted, None)
        return Cast(wanted, value, "null") if safe else cast_to(value, wanted)

    return resolve


def _counts_seconds(value: Expression, wanted: DataType, dialect: Dialect, arguments: int) -> bool:
    """Whether it is a number that Spark takes as seconds since 1970-01-01 00:00:00 UTC."""
    return (
        dialect is args.SPARK
        and arguments == 1
        and wanted.root == "TIMESTAMP_LTZ"
        and value.type.root in NUMBERS
    )


def _format(call: Written) -> Expression:
    call.exactly(2)
    value = args.timestamp.taken(call, 0)
    is_read = isinstance(value, Cast) and value.operand.type.root in STRINGS
    if call.dialect is args.FLINK and isinstance(value, Cast) and is_read:
        value = Cast(args.NTZ, value.operand, "null")
    return typed_call("date_format", value, args.constant_pattern(call, 1))


def _unix_timestamp(call: Written) -> Expression:
    """Resolve unix_timestamp([time [, pattern]]): whole seconds since 1970."""
    if not call.between(0, 2):
        return typed_call("unix_seconds", typed_call("current_timestamp"))
    if call.arguments[0].type.root in ("DATE", *TIMESTAMPS):
        # As Spark's: towards zero, where unix_seconds takes the second before.
        moment = cast_to(args.timestamp.taken(call, 0), args.LTZ)
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return typed_call(
            "timestampdiff",
            text_literal("second"),
            Literal(args.LTZ.with_nullable(False), start),
            moment,
        )
    pattern = args.constant_pattern(call, 1)
    reader = "parse_timestamp" if call.dialect is args.SPARK else "try_parse_timestamp"
    return typed_call("unix_seconds", typed_call(reader, text.taken(call, 0), pattern))


def _from_unixtime(call: Written) -> Expression:
    call.between(1, 2)
    pattern = args.constant_pattern(call, 1)
    seconds = typed_call("timestamp_seconds", bigint.taken(call, 0))
    return typed_call("date_format", seconds, pattern)


def _short_name(pattern: str) -> Resolver:
    def resolve(call: Written) -> Expression:
        arguments = (*call.exactly(1), text_literal(pattern))
        return function.resolve("date_format", arguments, call.dialect)

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
    written = time_patterns.write(times_of(as_array(values[0], rows)), values[1].as_py())
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
    args.by_dialect(reads(DATE, "parse_timestamp"), reads(DATE, "try_parse_timestamp")),
)
args.TIME.alias(
    "try_to_date(text [, pattern]) -> DATE",
    "Read a date; what is none is NULL.",
    reads(DATE, "try_parse_timestamp"),
)
args.TIME.alias(
    "to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ (spark), TIMESTAMP(3) (flink)",
    "Read a timestamp; what is none fails in the spark dialect and is NULL in flink.",
    args.by_dialect(reads(args.LTZ, "parse_timestamp"), reads(_MILLIS, "try_parse_timestamp")),
)
args.TIME.alias(
    "try_to_timestamp(text [, pattern]) -> TIMESTAMP_LTZ",
    "Read a timestamp; what is none is NULL.",
    reads(args.LTZ, "try_parse_timestamp"),
)
args.TIME.alias(
    "to_timestamp_ntz(text [, pattern]) -> TIMESTAMP",
    "Read a timestamp without a zone; what is none fails.",
    reads(args.NTZ, "parse_timestamp"),
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
