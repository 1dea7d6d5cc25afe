"""Functions that count from 1970-01-01 00:00:00 UTC."""

from collections.abc import Sequence

import numpy as np

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, DATE, INT, cast_to
from pkray.relational.functions.function import Kernel, Value, typed_call
from pkray.relational.functions.signatures import bigint, check_count, integer, result, takes
from pkray.relational.functions.time.arguments import LTZ, SPARK, TIME, date, timestamp
from pkray.relational.functions.time.formats import reads
from pkray.relational.functions.time.kernels import built, computed, numbers_of, refuse_known
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, TIMESTAMPS, DataType


def _from_count(per_second: int) -> Kernel:
    """Make a TIMESTAMP_LTZ(6) of a count since 1970."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        counts = numbers_of(values[0], rows)
        assert isinstance(counts, np.ndarray)
        size = 10**6 // per_second
        wrong = (counts > (2**63 - 1) // size) | (counts < -(2**63 // size))
        refuse_known(call, values, wrong, "overflows TIMESTAMP_LTZ", rows)
        return built(counts * size, call.type, values, rows)

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
        f"{_name}(number) -> TIMESTAMP_LTZ",
        "Give the time so long after 1970-01-01 00:00:00 UTC.",
        _timestamp_seconds if _per_second == 1 else takes(_name, bigint),
        _from_count(_per_second),
        result(LTZ),
    )
for _name, _size in (("unix_seconds", 10**6), ("unix_millis", 1000), ("unix_micros", 1)):
    TIME.infallible.add(
        f"{_name}(time) -> BIGINT",
        "Count since 1970-01-01 00:00:00 UTC, finer parts left out.",
        takes(_name, timestamp),
        computed(lambda times, size=_size: times.micros() // size),
        result(BIGINT),
        lambda call, arguments: f"{call.function}(CAST({arguments[0]} AS TIMESTAMP))",
    )
TIME.infallible.add(
    "unix_date(DATE) -> INT",
    "Count days since 1970-01-01.",
    takes("unix_date", date),
    computed(lambda times: times.days),
    result(INT),
)
TIME.infallible.add(
    "date_from_unix_date(INT) -> DATE",
    "Give the date so many days after 1970-01-01.",
    takes("date_from_unix_date", integer),
    computed(lambda days: days),
    result(DATE),
)


def _to_ltz(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve TO_TIMESTAMP_LTZ(number, 0 | 3), seconds or milliseconds."""
    name = "to_timestamp_ltz"
    check_count(name, arguments, 1, 2)
    if dialect is SPARK or arguments[0].type.root in (*STRINGS, "DATE", *TIMESTAMPS):
        wanted = LTZ if dialect is SPARK else DataType("TIMESTAMP_LTZ", precision=3)
        reader = "parse_timestamp" if dialect is SPARK else "try_parse_timestamp"
        return reads(name, wanted, reader)(arguments, dialect)
    precision = arguments[1] if len(arguments) == 2 else Literal(INT, 3)
    if not isinstance(precision, Literal) or precision.value not in (0, 3):
        raise QueryError("the precision of TO_TIMESTAMP_LTZ must be 0 or 3", function=name)
    unit = "timestamp_millis" if precision.value else "timestamp_seconds"
    call = typed_call(unit, bigint.taken(name, arguments, 0, dialect))
    return cast_to(call, DataType("TIMESTAMP_LTZ", precision=3))


TIME.alias(
    "to_timestamp_ltz(number, 0 | 3) (flink), (text [, pattern]) -> TIMESTAMP_LTZ",
    "Give the time so many seconds (0) or milliseconds (3) after 1970; read text.",
    _to_ltz,
)
