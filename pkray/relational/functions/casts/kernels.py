"""Casts of Arrow values, as Spark's ANSI mode has them.

A converter gives the values in the other type, and a mask of those that cannot be had in it (None:
all can); what happens to them is for the `Cast` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.functions.casts.parsing import (
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_integer,
    parse_time,
    parse_timestamp,
)
from pkray.relational.functions.casts.writing import write
from pkray.relational.functions.coercion import FLOATS, NUMBERS
from pkray.relational.functions.function import Value
from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.values import as_array, zero
from pkray.relational.plan.expressions import Cast
from pkray.rows.python_values import to_python
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

Converted: TypeAlias = "tuple[pa.Array, pa.Array | None]"
Converter: TypeAlias = "Callable[[pa.Array, DataType, DataType], Converted]"
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_NEVER_FAIL = {
    ("TINYINT", "SMALLINT"), ("TINYINT", "INT"), ("TINYINT", "BIGINT"), ("SMALLINT", "INT"),
    ("SMALLINT", "BIGINT"), ("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP"),
    ("DATE", "TIMESTAMP_LTZ"), ("TIMESTAMP", "DATE"), ("TIMESTAMP_LTZ", "DATE"),
}  # fmt: skip


def cast_can_fail(cast: Cast) -> bool:
    """Whether some value of the operand's type stops the query."""
    source, target = cast.operand.type, cast.type
    if cast.on_error != "raise" or (source.root, target.root) in _NEVER_FAIL:
        return False
    if target.root in STRINGS:
        return source.root in BINARIES
    if target.root in FLOATS or target.root == "BOOLEAN":
        return source.root not in NUMBERS
    if target.root == "DECIMAL" and source.root in (*INTEGERS, "DECIMAL"):
        return not _always_fits(source, target)
    return True


def _always_fits(source: DataType, target: DataType) -> bool:
    digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
    scale = source.scale or 0
    whole = digits.get(source.root, (source.precision or 0) - scale)
    return (target.scale or 0) >= scale and (target.precision or 0) - (target.scale or 0) >= whole


def cast_kernel(cast: Cast) -> Callable[[list[Value], int], Value]:
    """Compile a cast."""
    source, target, on_error = cast.operand.type, cast.type, cast.on_error
    convert = _wrapping(source, target) if on_error == "wrap" else converter(source, target)

    def kernel(values: list[Value], rows: int) -> Value:
        value = values[0]
        array = as_array(value, 1)
        result, bad = convert(array, source, target)
        if bad is not None and bad.true_count:
            if on_error == "raise":
                raise _refused(array, bad, source, target)
            if source.root in ("ARRAY", "ROW"):  # only the parts are NULL that do not fit
                return result[0] if isinstance(value, pa.Scalar) else result
            result = pc.if_else(bad, pa.scalar(None, result.type), result)
        return result[0] if isinstance(value, pa.Scalar) else result

    return kernel


def _refused(array: pa.Array, bad: pa.Array, source: DataType, target: DataType) -> EvaluationError:
    row = pc.index(bad, True).as_py()
    value = to_python(array[row])
    shown = repr(value) if isinstance(value, str) else str(value)
    wanted = target.with_nullable(True)
    return EvaluationError(
        f"{shown[:80]} ({source.with_nullable(True)}) cannot be cast to {wanted}; "
        f"TRY_CAST gives NULL for it",
        function="cast",
        row=row,
    )


def converter(source: DataType, target: DataType) -> Converter:
    """Find what casts values of one type to another."""
    one, other = source.root, target.root
    if other in STRINGS:
        return _from_bytes if one in BINARIES else _to_text
    if one in STRINGS:
        return _FROM_TEXT[_group(other)]
    if source.is_nested or target.is_nested:
        return _NESTED[one]
    found = _CONVERTERS.get((_group(one), _group(other)))
    if found is None:
        raise UnsupportedError(f"a cast from {source} to {target} is not supported")
    return found


def _group(root: str) -> str:
    if root in INTEGERS:
        return "INTEGER"
    if root in FLOATS:
        return "FLOAT"
    if root in TIMESTAMPS:
        return "TIMESTAMP"
    return "BYTES" if root in BINARIES else root


def _plain(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return array.cast(target.arrow, safe=False), None


def _integers(array: pa.Array, source: DataType, target: DataType) -> Converted:
    try:
        return array.cast(target.arrow), None
    except pa.ArrowInvalid:
        near = array.cast(target.arrow, safe=False)
        return near, pc.not_equal(near.cast(array.type), array)


def _to_float(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return array.cast(target.arrow, safe=False), None


def _float_to_integer(array: pa.Array, source: DataType, target: DataType) -> Converted:
    whole = pc.trunc(array.cast(pa.float64()))
    limits = np.iinfo(target.arrow.to_pandas_dtype())
    fits = pc.and_(
        pc.greater_equal(whole, float(limits.min)),
        pc.less(whole, float(limits.max) + 1.0)
        if target.root == "BIGINT"
        else pc.less_equal(whole, float(limits.max)),
    )
    if pc.all(fits, min_count=0).as_py():
        return whole.cast(target.arrow, safe=False), None
    kept = pc.if_else(fits, whole, 0.0)
    return kept.cast(target.arrow, safe=False), pc.invert(fits)


def _saturated(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cut a float to INT or BIGINT, whose ends stand for all beyond, then to its low bits."""
    wide = "BIGINT" if target.root == "BIGINT" else "INT"
    limits = np.iinfo(np.int64 if wide == "BIGINT" else np.int32)
    numbers = np.nan_to_num(array.cast(pa.float64()).to_numpy(zero_copy_only=False), nan=0.0)
    inside = np.where(np.abs(numbers) < 2.0**63, numbers, 0.0).astype(np.int64)
    whole = np.where(
        numbers >= 2.0**63,
        limits.max,
        np.where(numbers <= -(2.0**63), limits.min, np.clip(inside, limits.min, limits.max)),
    )
    mask = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(whole, pa.int64(), mask=mask).cast(target.arrow, safe=False), None


def _decimal_to_integer(array: pa.Array, source: DataType, target: DataType) -> Converted:
    whole = pc.trunc(array).cast(pa.decimal128(38, 0)) if source.scale else array
    limits = np.iinfo(target.arrow.to_pandas_dtype())
    kind = pa.decimal128(38, 0)
    whole = whole.cast(kind)
    low, high = (pa.scalar(int(each), kind) for each in (limits.min, limits.max))
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
    if pc.all(fits, min_count=0).as_py():
        return whole.cast(target.arrow), None
    kept = pc.if_else(fits, whole, pa.scalar(0, kind))
    return kept.cast(target.arrow), pc.invert(fits)


def _decimal_wrapped(array: pa.Array, source: DataType, target: DataType) -> Converted:
    whole = pc.trunc(array).cast(pa.decimal128(38, 0)) if source.scale else array
    return whole.cast(pa.decimal128(38, 0)).cast(target.arrow, safe=False), None


def _integer_to_decimal(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return _fitted(array.cast(pa.decimal128(19, 0)), target)


def _decimals(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return _fitted(decimals.rounded(array, target.scale or 0), target)


def _fitted(near: pa.Array, target: DataType) -> Converted:
    kind = target.arrow
    try:
        return near.cast(kind), None
    except pa.ArrowInvalid:
        bad = decimals.too_large(near, kind)
        kept = pc.if_else(bad, pa.scalar(None, near.type), near)
        return kept.cast(kind), bad


def _float_to_decimal(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Take the digits that the DOUBLE is written with, and round them half up; NaN is NULL."""
    array = array.cast(pa.float64())
    finite = pc.is_finite(array)
    numbers = pc.if_else(finite, array, pa.scalar(None, array.type))
    too_large = pc.greater_equal(pc.abs(numbers), 1e38)
    numbers = pc.if_else(too_large, pa.scalar(None, array.type), numbers)
    exact = float_digits(numbers)
    result, bad = _fitted(decimals.rounded(exact, target.scale or 0), target)
    bad = too_large if bad is None else pc.or_kleene(bad, too_large)
    return result, bad.fill_null(False)


def float_digits(numbers: pa.Array) -> pa.Array:
    """Give floats below 1e38 as the decimals that they are written as, 38 digits of fraction."""
    texts = numbers.cast(pa.string())
    try:
        return texts.cast(pa.decimal256(decimals.WIDE, 38))
    except pa.ArrowInvalid:
        tiny = pc.less(pc.abs(numbers.cast(pa.float64())), 1e-20)
        return pc.if_else(tiny, "0", texts).cast(pa.decimal256(decimals.WIDE, 38))


def _decimal_to_float(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return decimal_to_float(array).cast(target.arrow, safe=False), None


def decimal_to_float(array: pa.Array) -> pa.Array:
    """Give the nearest DOUBLE of each decimal."""
    scale = array.type.scale
    if array.type.precision <= 15:
        kind = pa.decimal128(array.type.precision, 0)
        whole = decimals.relabel(array.cast(pa.decimal128(*_shape(array.type))), kind)
        return pc.divide(whole.cast(pa.int64()).cast(pa.float64()), float(10**scale))
    return array.cast(pa.string()).cast(pa.float64())


def _shape(kind: pa.DataType) -> tuple[int, int]:
    return kind.precision, kind.scale


def _to_boolean(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return pc.not_equal(array, zero(array.type)), None


def _from_boolean(array: pa.Array, source: DataType, target: DataType) -> Converted:
    whole = array.cast(pa.int8())
    if target.root == "DECIMAL":
        return _fitted(whole.cast(pa.decimal128(3, 0)), target)
    return whole.cast(target.arrow), None


def _from_bytes(array: pa.Array, source: DataType, target: DataType) -> Converted:
    try:
        return _sized(array.cast(pa.string()), target), None
    except pa.ArrowInvalid:
        raise EvaluationError(
            f"BYTES that are no UTF-8 cannot be cast to {target.with_nullable(True)}; "
            "write them with hex or base64",
            function="cast",
        ) from None


def _to_text(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return _sized(write(array, source), target), None


def _sized(texts: pa.Array, target: DataType) -> pa.Array:
    """Cut text to the length of CHAR and VARCHAR, and fill CHAR up with spaces."""
    if target.length is None:
        return texts
    cut = pc.utf8_slice_codeunits(texts, 0, target.length)
    return pc.utf8_rpad(cut, target.length, " ") if target.root == "CHAR" else cut


def _bytes_sized(array: pa.Array, source: DataType, target: DataType) -> Converted:
    return array.cast(pa.binary()), None


def _times(array: pa.Array, source: DataType, target: DataType) -> Converted:
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


def _timestamp_to_number(array: pa.Array, source: DataType, target: DataType) -> Converted:
    per_second = _PER_SECOND[array.type.unit]
    ticks = array.cast(pa.int64())
    if target.root in FLOATS:
        return pc.divide(ticks.cast(pa.float64(), safe=False), float(per_second)).cast(
            target.arrow
        ), None
    if target.root == "DECIMAL":
        scale = len(str(per_second)) - 1
        exact = decimals.relabel(ticks.cast(pa.decimal128(19, 0)), pa.decimal128(19, scale))
        return _fitted(decimals.rounded(exact, target.scale or 0), target)
    return _integers(_floor_divide(ticks, per_second), source, target)


def _number_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> Converted:
    kind = target.arrow
    per_second = _PER_SECOND[kind.unit]
    if source.root in FLOATS:
        ticks, bad = _float_to_integer(
            pc.multiply(array.cast(pa.float64()), float(per_second)), source, DataType("BIGINT")
        )
        return ticks.cast(kind), bad
    exact = decimals.multiply(
        array.cast(pa.decimal128(19, 0)) if source.root in INTEGERS else array,
        pa.scalar(per_second, pa.decimal128(10, 0)),
    )
    whole = pc.trunc(exact).cast(pa.decimal256(decimals.WIDE, exact.type.scale))
    ticks, bad = _fitted(decimals.rounded(whole, 0, "towards_zero"), _TICKS)
    result, beyond = _decimal_to_integer(ticks, _TICKS, DataType("BIGINT"))
    return result.cast(kind), bad if beyond is None else beyond


_TICKS = DataType("DECIMAL", precision=38, scale=0)


def _time_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> Converted:
    ticks = array.cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms"))
    return _times(ticks, DataType("TIMESTAMP", precision=3), target)


def _timestamp_to_time(array: pa.Array, source: DataType, target: DataType) -> Converted:
    naive = array.cast(pa.timestamp(array.type.unit))
    day = pc.floor_temporal(naive, unit="day")
    ticks = pc.subtract(naive.cast(pa.int64()), day.cast(pa.int64()))
    millis = pc.divide(pc.multiply(ticks, 1), max(_PER_SECOND[array.type.unit] // 1000, 1))
    millis = _cut(millis, 10 ** max(3 - (target.precision or 0), 0))
    return millis.cast(pa.int32()).cast(pa.time32("ms")), None


def _same_time(array: pa.Array, source: DataType, target: DataType) -> Converted:
    millis = array.cast(pa.int32())
    step = 10 ** max(3 - (target.precision or 0), 0)
    return pc.subtract(millis, _rest(millis, step)).cast(pa.time32("ms")), None


def _rest(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by)).cast(numbers.type)


# Nested types: what cannot be cast in a part makes the whole value bad


def _array(array: pa.Array, source: DataType, target: DataType) -> Converted:
    assert source.element is not None
    assert target.element is not None
    array = _compact(array)
    values, bad = _part(array.values, source.element, target.element)
    valid = _validity_buffer(array)
    kind = target.arrow
    result = pa.Array.from_buffers(
        kind, len(array), [valid, array.buffers()[1]], array.null_count, children=[values]
    )
    return result, None if bad is None else _any_of(array, bad)


def _map(array: pa.Array, source: DataType, target: DataType) -> Converted:
    assert source.key is not None
    assert target.key is not None
    assert source.value is not None
    assert target.value is not None
    array = _compact(array)
    keys, bad_keys = _part(array.keys, source.key, target.key)
    items, bad_items = _part(array.items, source.value, target.value)
    parts = [target.arrow.key_field, target.arrow.item_field]
    entries = pa.StructArray.from_arrays([keys, items], fields=parts)
    result = pa.Array.from_buffers(
        target.arrow,
        len(array),
        [_validity_buffer(array), array.buffers()[1]],
        array.null_count,
        children=[entries],
    )
    masks = [each for each in (bad_keys, bad_items) if each is not None]
    if not masks:
        return result, None
    bad = masks[0] if len(masks) == 1 else pc.or_(*masks)
    return result, _any_of(array, bad)


def _row(array: pa.Array, source: DataType, target: DataType) -> Converted:
    parts: list[pa.Array] = []
    bad: Any = None
    for number, (one, other) in enumerate(
        zip(source.fields or (), target.fields or (), strict=True)
    ):
        part, wrong = _part(pc.struct_field(array, number), one.type, other.type)
        parts.append(part)
        if wrong is not None:
            bad = wrong if bad is None else pc.or_(bad, wrong)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(target.arrow), mask=mask), bad


def _part(array: pa.Array, source: DataType, target: DataType) -> Converted:
    if source.with_nullable(True) == target.with_nullable(True):
        return array, None
    values, bad = converter(source, target)(array, source, target)
    if bad is not None:
        bad = bad.fill_null(False)
        values = pc.if_else(bad, pa.scalar(None, values.type), values)
    return values, bad


def _compact(array: pa.Array) -> pa.Array:
    """Make offsets begin at 0 and children hold no more than the rows' elements."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _validity_buffer(array: pa.Array) -> Any:
    return array.buffers()[0] if array.null_count else None


def _any_of(array: pa.Array, bad: pa.Array) -> pa.Array:
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1]
    counts = np.concatenate(([0], np.cumsum(bad.to_numpy(zero_copy_only=False))))
    return pa.array(counts[offsets[1:]] > counts[offsets[:-1]])


_NESTED: dict[str, Converter] = {"ARRAY": _array, "MAP": _map, "ROW": _row}
_FROM_TEXT: dict[str, Converter] = {
    "BOOLEAN": parse_boolean,
    "INTEGER": parse_integer,
    "FLOAT": parse_double,
    "DECIMAL": parse_decimal,
    "DATE": parse_date,
    "TIMESTAMP": parse_timestamp,
    "TIME": parse_time,
    "BYTES": _plain,
}
_CONVERTERS: dict[tuple[str, str], Converter] = {
    ("INTEGER", "INTEGER"): _integers,
    ("INTEGER", "FLOAT"): _to_float,
    ("INTEGER", "DECIMAL"): _integer_to_decimal,
    ("INTEGER", "BOOLEAN"): _to_boolean,
    ("INTEGER", "TIMESTAMP"): _number_to_timestamp,
    ("FLOAT", "INTEGER"): _float_to_integer,
    ("FLOAT", "FLOAT"): _to_float,
    ("FLOAT", "DECIMAL"): _float_to_decimal,
    ("FLOAT", "BOOLEAN"): _to_boolean,
    ("FLOAT", "TIMESTAMP"): _number_to_timestamp,
    ("DECIMAL", "INTEGER"): _decimal_to_integer,
    ("DECIMAL", "FLOAT"): _decimal_to_float,
    ("DECIMAL", "DECIMAL"): _decimals,
    ("DECIMAL", "BOOLEAN"): _to_boolean,
    ("DECIMAL", "TIMESTAMP"): _number_to_timestamp,
    ("BOOLEAN", "INTEGER"): _from_boolean,
    ("BOOLEAN", "FLOAT"): _from_boolean,
    ("BOOLEAN", "DECIMAL"): _from_boolean,
    ("BOOLEAN", "BOOLEAN"): _plain,
    ("BYTES", "BYTES"): _bytes_sized,
    ("DATE", "DATE"): _plain,
    ("DATE", "TIMESTAMP"): _times,
    ("TIMESTAMP", "DATE"): _times,
    ("TIMESTAMP", "TIMESTAMP"): _times,
    ("TIMESTAMP", "TIME"): _timestamp_to_time,
    ("TIMESTAMP", "INTEGER"): _timestamp_to_number,
    ("TIMESTAMP", "FLOAT"): _timestamp_to_number,
    ("TIMESTAMP", "DECIMAL"): _timestamp_to_number,
    ("TIME", "TIMESTAMP"): _time_to_timestamp,
    ("TIME", "TIME"): _same_time,
}


def _wrapping(source: DataType, target: DataType) -> Converter:
    if source.root in FLOATS:
        return _saturated
    return _decimal_wrapped if source.root == "DECIMAL" else _plain
