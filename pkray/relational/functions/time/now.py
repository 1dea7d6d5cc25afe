"""Functions that tell the time at which a query runs, fixed once a run by `at_instant`."""

import datetime
import time
from collections.abc import Sequence

import pyarrow as pa

from pkray.relational.functions.coercion import DATE, cast_to
from pkray.relational.functions.function import Value, Written, typed_call
from pkray.relational.functions.signatures import result, text_literal
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


def _now(call: Written) -> Expression:
    call.exactly(0)
    found = typed_call(call.name)
    if call.dialect is FLINK and found.type.root in TIMESTAMPS:
        return cast_to(found, DataType(found.type.root, precision=3))
    return found


for _name, _kind in _NOW.items():
    TIME.infallible.add(
        f"{_name}() -> {_kind}",
        "Give the time at which the query runs, one for all rows.",
        _now,
        _now_kernel,
        result(_kind, nullable=False),
        synonyms={
            "current_timestamp": ("now", "proctime", "current_row_timestamp"),
            "current_date": ("curdate",),
            "current_time": ("localtime",),
        }.get(_name, ()),
        deterministic=False,
    )


def _zone_name(call: Written) -> Expression:
    call.exactly(0)
    return text_literal("UTC")


TIME.alias("current_timezone() -> STRING", "Give 'UTC'.", _zone_name)
