"""Functions that tell the time at which a query runs, fixed once a run by `at_instant`."""

import datetime
import time
from collections.abc import Sequence

import pyarrow as pa

from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import DATE, cast_to
from pkray.relational.functions.function import Resolver, Value, typed_call
from pkray.relational.functions.signatures import check_count, result, text_literal
from pkray.relational.functions.time.arguments import FLINK, LTZ, NTZ, TIME
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import TIMESTAMPS, DataType

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
    TIME.infallible.add(
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
    )


def _zone_name(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("current_timezone", arguments, 0, 0)
    return text_literal("UTC")


TIME.alias("current_timezone() -> STRING", "Give 'UTC'.", _zone_name)
