"""Functions that cut times to a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import NO_SPARK, Resolver, Value, typed_call
from pkray.relational.functions.signatures import check_count, text_literal
from pkray.relational.functions.time import calendar
from pkray.relational.functions.time.arguments import (
    SPARK,
    TIME,
    date,
    time_or_date,
    timestamp,
    type_of_argument,
    unit_of,
)
from pkray.relational.functions.time.calendar import MONTHS, times_of
from pkray.relational.functions.time.kernels import built
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import DataType


def _cut(name: str) -> Resolver:
    """Resolve date_trunc(unit, time); a date becomes a timestamp in the spark dialect."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        unit = text_literal(unit_of(name, arguments[0]))
        wanted = timestamp if dialect is SPARK else time_or_date
        return typed_call(name, unit, wanted.taken(name, arguments, 1, dialect))

    return resolve


def _trunc(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve trunc(date, unit)."""
    check_count("trunc", arguments, 2, 2)
    unit = unit_of("trunc", arguments[1])
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
    return built(cut.ticks, call.type, values, rows)


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
    type_of_argument(1),
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
    type_of_argument(1),
    NO_SPARK,
    fallible=False,
)
TIME.alias(
    "trunc",
    "trunc(DATE, unit) -> DATE",
    "Give the first day of a year, quarter, month or week.",
    _trunc,
)
