"""Casts between numbers and BOOLEAN."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.values import zero
from pkray.schema.types import DataType

Converted: TypeAlias = tuple[pa.Array, pa.Array | None]
Converter: TypeAlias = Callable[[pa.Array, DataType, DataType], Converted]


def cast_integers(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast integers to integers; those beyond the range do not fit."""
    try:
        return array.cast(target.arrow), None
    except pa.ArrowInvalid:
        near = array.cast(target.arrow, safe=False)
        return near, pc.not_equal(near.cast(array.type), array)


def cast_plainly(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast as Arrow does, without a look at what fits."""
    return array.cast(target.arrow, safe=False), None


def float_to_integer(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cut floats to integers; NaN and what is beyond the range does not fit."""
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


def saturated(array: pa.Array, source: DataType, target: DataType) -> Converted:
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


def decimal_to_integer(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cut decimals to integers; those beyond the range do not fit."""
    whole = decimals.shortened(array, 0).cast(pa.decimal128(38, 0))
    fits = in_range(whole, target)
    if pc.all(fits, min_count=0).as_py():
        return whole.cast(target.arrow), None
    kept = pc.if_else(fits, whole, pa.scalar(0, whole.type))
    return kept.cast(target.arrow), pc.invert(fits)


def in_range(whole: pa.Array, target: DataType) -> pa.Array:
    """Tell which whole numbers, DECIMAL(38, 0), are in the range of a type of integers."""
    limits = np.iinfo(target.arrow.to_pandas_dtype())
    low, high = (pa.scalar(int(each), whole.type) for each in (limits.min, limits.max))
    return pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))


def decimal_wrapped(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cut decimals to the low bits of integers."""
    whole = decimals.shortened(array, 0)
    return whole.cast(pa.decimal128(38, 0)).cast(target.arrow, safe=False), None


def integer_to_decimal(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast integers to decimals."""
    return fitted(array.cast(pa.decimal128(19, 0)), target)


def cast_decimals(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Round decimals to another scale."""
    return fitted(decimals.rounded(array, target.scale or 0), target)


def fitted(near: pa.Array, target: DataType) -> Converted:
    """Narrow decimals to a type; those with too many digits do not fit."""
    kind = target.arrow
    try:
        return near.cast(kind), None
    except pa.ArrowInvalid:
        bad = decimals.too_large(near, kind)
        kept = pc.if_else(bad, pa.scalar(None, near.type), near)
        return kept.cast(kind), bad


def float_to_decimal(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Take the digits that the DOUBLE is written with, and round them half up; NaN is NULL."""
    array = array.cast(pa.float64())
    finite = pc.is_finite(array)
    numbers = pc.if_else(finite, array, pa.scalar(None, array.type))
    too_large = pc.greater_equal(pc.abs(numbers), 1e38)
    numbers = pc.if_else(too_large, pa.scalar(None, array.type), numbers)
    exact = float_digits(numbers)
    result, bad = fitted(decimals.rounded(exact, target.scale or 0), target)
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


def cast_decimal_to_float(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast decimals to the nearest floats."""
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


def to_boolean(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Give whether numbers are not 0."""
    return pc.not_equal(array, zero(array.type)), None


def from_boolean(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Give 1 for true and 0 for false."""
    whole = array.cast(pa.int8())
    if target.root == "DECIMAL":
        return fitted(whole.cast(pa.decimal128(3, 0)), target)
    return whole.cast(target.arrow), None
