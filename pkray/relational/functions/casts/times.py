"""Casts between dates, times, timestamps and numbers."""

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.casts.numbers import (
    Converted,
    cast_integers,
    decimal_to_integer,
    fitted,
    float_to_integer,
)
from pkray.relational.functions.coercion import FLOATS
from pkray.relational.functions.numbers import decimals
from pkray.schema.types import INTEGERS, DataType

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def cast_times(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast among dates and timestamps, UTC being the session's time zone; finer digits are cut."""
    kind = target.arrow
    if pa.types.is_date32(kind):
        naive = array.cast(pa.timestamp(array.type.unit)) if source.root != "DATE" else array
        return pc.floor_temporal(naive, unit="day").cast(kind, safe=False), None
    if source.root == "DATE":
        return _date_to_timestamp(array, kind)
    ticks = array.cast(pa.int64())
    have, want = _PER_SECOND[array.type.unit], _PER_SECOND[kind.unit]
    bad = None
    if want > have:
        try:
            ticks = pc.multiply_checked(ticks, want // have)
        except pa.ArrowInvalid:
            limit = (2**63 - 1) // (want // have)
            bad = pc.greater(pc.abs(ticks), limit)
            ticks = pc.multiply(ticks, want // have)
    ticks = _cut(ticks, max(have // want, 1) * _step(kind, target))
    if want < have:
        ticks = _floor_divide(ticks, have // want)
    return ticks.cast(kind), bad


def _step(kind: pa.DataType, target: DataType) -> int:
    """Count the ticks of the unit in the least step that the precision keeps."""
    return int(_PER_SECOND[kind.unit] // 10 ** (target.precision or 0))


def _cut(ticks: pa.Array, step: int) -> pa.Array:
    return ticks if step <= 1 else pc.multiply(_floor_divide(ticks, step), step)


def _floor_divide(ticks: pa.Array, by: int) -> pa.Array:
    quotient = pc.divide(ticks, by)
    below = pc.and_(pc.less(ticks, 0), pc.not_equal(pc.multiply(quotient, by), ticks))
    return pc.subtract(quotient, below.cast(pa.int64()))


def _date_to_timestamp(array: pa.Array, kind: pa.DataType) -> Converted:
    days = array.cast(pa.int32()).cast(pa.int64())
    ticks = 86_400 * _PER_SECOND[kind.unit]
    limit = (2**63 - 1) // ticks
    bad = pc.greater(pc.abs(days), limit)
    return pc.multiply(days, ticks).cast(kind), bad if pc.any(bad).as_py() else None


def timestamp_to_number(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Count seconds since 1970."""
    per_second = _PER_SECOND[array.type.unit]
    ticks = array.cast(pa.int64())
    if target.root in FLOATS:
        return pc.divide(ticks.cast(pa.float64(), safe=False), float(per_second)).cast(
            target.arrow
        ), None
    if target.root == "DECIMAL":
        scale = len(str(per_second)) - 1
        exact = decimals.relabel(ticks.cast(pa.decimal128(19, 0)), pa.decimal128(19, scale))
        return fitted(decimals.rounded(exact, target.scale or 0), target)
    return cast_integers(_floor_divide(ticks, per_second), source, target)


def number_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Give the time so many seconds after 1970."""
    kind = target.arrow
    per_second = _PER_SECOND[kind.unit]
    if source.root in FLOATS:
        ticks, bad = float_to_integer(
            pc.multiply(array.cast(pa.float64()), float(per_second)), source, DataType("BIGINT")
        )
        return ticks.cast(kind), bad
    exact = decimals.multiply(
        array.cast(pa.decimal128(19, 0)) if source.root in INTEGERS else array,
        pa.scalar(per_second, pa.decimal128(10, 0)),
    )
    ticks, bad = fitted(decimals.shortened(exact, 0), _TICKS)
    result, beyond = decimal_to_integer(ticks, _TICKS, DataType("BIGINT"))
    return result.cast(kind), bad if beyond is None else beyond


_TICKS = DataType("DECIMAL", precision=38, scale=0)


def time_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Give a time of day on 1970-01-01."""
    ticks = array.cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms"))
    return cast_times(ticks, DataType("TIMESTAMP", precision=3), target)


def timestamp_to_time(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Give the time of day."""
    naive = array.cast(pa.timestamp(array.type.unit))
    day = pc.floor_temporal(naive, unit="day")
    ticks = pc.subtract(naive.cast(pa.int64()), day.cast(pa.int64()))
    millis = pc.divide(pc.multiply(ticks, 1), max(_PER_SECOND[array.type.unit] // 1000, 1))
    millis = _cut(millis, 10 ** max(3 - (target.precision or 0), 0))
    return millis.cast(pa.int32()).cast(pa.time32("ms")), None


def same_time(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast times of day to another precision."""
    millis = array.cast(pa.int32())
    step = 10 ** max(3 - (target.precision or 0), 0)
    return pc.subtract(millis, _rest(millis, step)).cast(pa.time32("ms")), None


def _rest(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by)).cast(numbers.type)
