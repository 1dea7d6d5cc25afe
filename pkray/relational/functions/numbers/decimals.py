"""Arithmetic of decimals: exact in 256 bits, then rounded half up to the result's digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.function import Value
from pkray.relational.functions.values import refuse
from pkray.relational.plan.expressions import Call
from pkray.rows.decimals import unscaled

HALF_UP = "half_towards_infinity"
WIDE = 76
_EXTRA = 4
"""Digits after the point that Arrow adds when it divides by a number labelled DECIMAL(1, s)."""


def relabel(value: Value, kind: pa.DataType) -> Value:
    """Read the same integers as decimals of other digits."""
    if value.type == kind:
        return value
    if isinstance(value, pa.Scalar):
        return relabel(pa.array([value.as_py()], value.type), kind)[0]
    return pa.Array.from_buffers(kind, len(value), value.buffers(), value.null_count, value.offset)


def widened(value: Value) -> Value:
    """Give the same decimals in 256 bits."""
    kind = value.type
    return value.cast(pa.decimal256(kind.precision, kind.scale))


def add(left: Value, right: Value) -> Value:
    """Add, exactly."""
    return _either(pc.add, left, right, _sum_digits(left.type, right.type))


def subtract(left: Value, right: Value) -> Value:
    """Subtract, exactly."""
    return _either(pc.subtract, left, right, _sum_digits(left.type, right.type))


def _sum_digits(left: pa.DataType, right: pa.DataType) -> int:
    scale = max(left.scale, right.scale)
    return int(max(left.precision - left.scale, right.precision - right.scale) + scale + 1)


def _either(
    compute: Callable[[Value, Value], Value], left: Value, right: Value, digits: int
) -> Value:
    if digits <= 38:
        return compute(left, right)
    return compute(widened(left), widened(right))


def multiply(left: Value, right: Value) -> Value:
    """Multiply, exactly."""
    one, other = left.type, right.type
    if one.precision + other.precision + 1 <= 38:
        return pc.multiply(left, right)
    digits = used_digits(left), used_digits(right)
    if sum(digits) + 1 <= 38 and digits[0] >= one.scale and digits[1] >= other.scale:
        narrow = relabel(left, pa.decimal128(digits[0], one.scale))
        return pc.multiply(narrow, relabel(right, pa.decimal128(digits[1], other.scale)))
    left, right = widened(left), widened(right)
    if one.precision + other.precision + 1 > WIDE:
        left = relabel(left, pa.decimal256(one.precision - 1, min(one.scale, one.precision - 1)))
        product = pc.multiply(left, right)
        return relabel(product, pa.decimal256(WIDE, min(one.scale + other.scale, WIDE)))
    return pc.multiply(left, right)


def used_digits(value: Value) -> int:
    """Count the digits of the greatest number, at least 1 and those after the point."""
    if isinstance(value, pa.Scalar):
        extremes = [value.as_py()]
    else:
        extremes = list(pc.min_max(value).as_py().values())
    scale = value.type.scale
    sizes = [len(str(abs(unscaled(each, scale)))) for each in extremes if each is not None]
    return max(1, scale, *sizes)


def divide(left: Value, right: Value, scale: int) -> Value:
    """Divide; the quotient is cut off after more than `scale` digits behind the point.

    Raises:
        pa.ArrowInvalid: something is divided by zero, or a quotient has too many digits.
    """
    one, other = left.type, right.type
    shift = max(0, scale + 1 - one.scale + other.scale - _EXTRA)
    digits = used_digits(left) + shift + _EXTRA
    if digits <= 38 and other.precision <= 38 and pa.types.is_decimal128(one):
        kind, most = pa.decimal128, 38
    elif digits <= WIDE:
        left, right, kind, most = widened(left), widened(right), pa.decimal256, WIDE
    else:
        raise pa.ArrowInvalid("overflow: the quotient has too many digits")
    numerator = left.cast(kind(most, one.scale + shift)) if shift else left
    numerator = relabel(numerator, kind(most - _EXTRA, 0))
    quotient = pc.divide(numerator, relabel(right, kind(1, 0)))
    return _scaled(quotient, one.scale + shift + quotient.type.scale - other.scale)


def _scaled(quotient: Value, scale: int) -> Value:
    if pa.types.is_decimal128(quotient.type) and 0 <= scale <= 38:
        return relabel(quotient, pa.decimal128(38, scale))
    quotient = widened(quotient)
    if scale >= 0:
        return relabel(quotient, pa.decimal256(WIDE, scale))
    whole = relabel(quotient, pa.decimal256(38, 0))
    return pc.multiply(whole, pa.scalar(10**-scale, pa.decimal256(37, 0)))


def quotient_and_rest(left: Value, right: Value) -> tuple[Value, Value]:
    """Divide to a whole number (DECIMAL(76, 0) in 256 bits), cut towards zero, with the rest.

    Raises:
        pa.ArrowInvalid: something is divided by zero.
    """
    scale = max(left.type.scale, right.type.scale)
    one, other = (
        relabel(each.cast(pa.decimal256(WIDE, scale)), pa.decimal256(WIDE - _EXTRA, 0))
        for each in (left, right)
    )
    quotient = pc.divide(one, relabel(other, pa.decimal256(1, 0)))
    whole = pc.trunc(relabel(quotient, pa.decimal256(WIDE, quotient.type.scale)))
    whole = whole.cast(pa.decimal256(WIDE, 0))
    back = pc.multiply(relabel(whole, pa.decimal256(38, 0)), relabel(other, pa.decimal256(37, 0)))
    rest = pc.subtract(
        relabel(one, pa.decimal256(WIDE - 1, 0)), relabel(back, pa.decimal256(WIDE - 1, 0))
    )
    return whole, relabel(rest, pa.decimal256(WIDE, scale))


def rounded(value: Value, scale: int, mode: str = HALF_UP) -> Value:
    """Round to `scale` digits behind the point (negative: before it), with room for one more."""
    kind = value.type
    if kind.scale <= scale:
        return value
    if pa.types.is_decimal128(kind) and used_digits(value) < 38:
        return pc.round(relabel(value, pa.decimal128(38, kind.scale)), scale, mode)
    return pc.round(value.cast(pa.decimal256(WIDE, kind.scale)), scale, mode)


def fit(call: Call, values: Sequence[Value], exact: Value, rows: int) -> Value:
    """Round exact results to the Call's DECIMAL.

    Raises:
        EvaluationError: a result has more digits than that.
    """
    kind = call.type.arrow
    near = rounded(exact, kind.scale)
    if _is_narrower(near.type, kind):
        return relabel(near, kind)
    try:
        return near.cast(kind)
    except pa.ArrowInvalid:
        refuse(call, values, too_large(near, kind), f"has more digits than {call.type}", rows)
        raise


def _is_narrower(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether the same integers, read with other digits, are the same decimals."""
    return bool(
        pa.types.is_decimal128(one)
        and one.scale == other.scale
        and one.precision <= other.precision
    )


def fit_or_null(exact: Value, kind: pa.DataType) -> Value:
    """Round exact results to a DECIMAL; NULL where a result has more digits than that."""
    near = rounded(exact, kind.scale)
    if _is_narrower(near.type, kind):
        return relabel(near, kind)
    try:
        return near.cast(kind)
    except pa.ArrowInvalid:
        none = pa.scalar(None, near.type)
        return pc.if_else(too_large(near, kind), none, near).cast(kind)


def too_large(value: Value, kind: pa.DataType) -> Value:
    """Tell which decimals have more digits before the point than a DECIMAL takes."""
    whole = kind.precision - kind.scale
    if value.type.precision - value.type.scale <= whole:
        return pa.scalar(False)
    limit = pa.scalar(10**whole, pa.decimal256(whole + 1, 0))
    return pc.greater_equal(pc.abs(widened(value)), limit)
