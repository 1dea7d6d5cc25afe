"""Functions that count from 1970-01-01 00:00:00 UTC."""

from collections.abc import Sequence

import numpy as np

from pkray.errors import QueryError
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, DATE, INT, cast_to
from pkray.relational.functions.function import Kernel, Value, Written, typed_call
from pkray.relational.functions.signatures import bigint, integer, result, takes
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


def _timestamp_seconds(call: Written) -> Expression:
    (value,) = call.exactly(1)
    if value.type.root in INTEGERS:
        return typed_call(call.name, cast_to(value, BIGINT))
    million = Literal(INT.with_nullable(False), 10**6)
    micros = function.resolve("multiply", (value, million), SPARK)
    return typed_call("timestamp_micros", cast_to(micros, BIGINT))


for _name, _per_second in (
    ("timestamp_seconds", 1),
    ("timestamp_millis", 1000),
    ("timestamp_micros", 10**6),
):
    TIME.add(
        f"{_name}(number) -> TIMESTAMP_LTZ",
        "Give the time so long after 1970-01-01 00:00:00 UTC.",
        _timestamp_seconds if _per_second == 1 else takes(bigint),
        _from_count(_per_second),
        result(LTZ),
    )
for _name, _size in (("unix_seconds", 10**6), ("unix_millis", 1000), ("unix_micros", 1)):
    TIME.infallible.add(
        f"{_name}(time) -> BIGINT",
        "Count since 1970-01-01 00:00:00 UTC, finer parts left out.",
        takes(timestamp),
        computed(lambda times, size=_size: times.micros() // size),
        result(BIGINT),
        lambda call, arguments: f"{call.function}(CAST({arguments[0]} AS TIMESTAMP))",
    )
TIME.infallible.add(
    "unix_date(DATE) -> INT",
    "Count days since 1970-01-01.",
    takes(date),
    computed(lambda times: times.days),
    result(INT),
)
TIME.infallible.add(
    "date_from_unix_date(INT) -> DATE",
    "Give the date so many days after 1970-01-01.",
    takes(integer),
    computed(lambda days: days),
    result(DATE),
)


def _to_ltz(call: Written) -> Expression:
    """Resolve TO_TIMESTAMP_LTZ(number, 0 | 3), seconds or milliseconds."""
    value, *said = call.between(1, 2)
    if call.dialect is SPARK or value.type.root in (*STRINGS, "DATE", *TIMESTAMPS):
        wanted = LTZ if call.dialect is SPARK else DataType("TIMESTAMP_LTZ", precision=3)
        reader = "parse_timestamp" if call.dialect is SPARK else "try_parse_timestamp"
        return reads(wanted, reader)(call)
    precision = said[0] if said else Literal(INT, 3)
    if not isinstance(precision, Literal) or precision.value not in (0, 3):
        raise QueryError("the precision of TO_TIMESTAMP_LTZ must be 0 or 3", function=call.name)
    unit = "timestamp_millis" if precision.value else "timestamp_seconds"
    found = typed_call(unit, bigint.taken(call, 0))
    return cast_to(found, DataType("TIMESTAMP_LTZ", precision=3))


TIME.alias(
    "to_timestamp_ltz(number, 0 | 3) (flink), (text [, pattern]) -> TIMESTAMP_LTZ",
    "Give the time so many seconds (0) or milliseconds (3) after 1970; read text.",
    _to_ltz,
)
