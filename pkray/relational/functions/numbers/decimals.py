"""Arithmetic of decimals: exact in 256 bits, then rounded half up to the result's digits."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.function import Value
from pkray.relational.functions.values import refuse
from pkray.relational.plan.expressions import Call
from pkray.rows.decimals import unscaled

HALF_UP = "half_towards_infinity"
WIDE = 76
_EXACT_DIGITS = 9
"""Arrow divides decimals rightly by numbers of up to 32 bits, which hold so many digits."""
_CONTEXT = Context(prec=WIDE)
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
    quotient = _quotient(relabel(numerator, kind(most - _EXTRA, 0)), right)
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
    quotient = _quotient(one, other)
    whole = pc.trunc(relabel(quotient, pa.decimal256(WIDE, quotient.type.scale)))
    whole = whole.cast(pa.decimal256(WIDE, 0))
    back = pc.multiply(relabel(whole, pa.decimal256(38, 0)), relabel(other, pa.decimal256(37, 0)))
    rest = pc.subtract(
        relabel(one, pa.decimal256(WIDE - 1, 0)), relabel(back, pa.decimal256(WIDE - 1, 0))
    )
    return whole, relabel(rest, pa.decimal256(WIDE, scale))


def _quotient(numerator: Value, divisor: Value) -> Value:
    """Divide integers of decimals towards zero, with four digits behind the point.

    Arrow is wrong for some divisors of more than 32 bits: such quotients are multiplied back, and
    what is no quotient is divided again.
    """
    if isinstance(numerator, pa.Scalar) and isinstance(divisor, pa.Scalar):
        pair = (pa.array([each.as_py()], each.type) for each in (numerator, divisor))
        return _quotient(*pair)[0]
    quotient = pc.divide(numerator, relabel(divisor, _kind(numerator)(1, 0)))
    if used_digits(divisor) <= _EXACT_DIGITS:
        return quotient
    one, other, found = (
        widened(relabel(each, _like(each, 0))) for each in (numerator, divisor, quotient)
    )
    shifted = pc.multiply(relabel(one, pa.decimal256(70, 0)), pa.scalar(10**4, pa.decimal256(5, 0)))
    back = pc.multiply(relabel(found, pa.decimal256(38, 0)), relabel(other, pa.decimal256(37, 0)))
    rest = pc.subtract(*(relabel(each, pa.decimal256(75, 0)) for each in (shifted, back)))
    none = pa.scalar(0, pa.decimal256(1, 0))
    against = pc.or_(
        pc.and_(pc.less(rest, none), pc.greater(one, none)),
        pc.and_(pc.greater(rest, none), pc.less(one, none)),
    )
    wrong = pc.or_(against, pc.greater_equal(pc.abs(rest), pc.abs(other))).fill_null(False)
    if not pc.any(wrong).as_py():
        return quotient
    rows = len(quotient)
    pairs = zip(*(_whole(each, wrong, rows) for each in (one, other)), strict=True)
    exact = [_towards_zero(a * 10**_EXTRA, b) for a, b in pairs]
    kind = quotient.type
    right = pa.array([_CONTEXT.scaleb(Decimal(each), -kind.scale) for each in exact], kind)
    return pc.replace_with_mask(quotient, wrong, right)


def _whole(value: Value, chosen: pa.Array, rows: int) -> list[int]:
    if isinstance(value, pa.Scalar):
        return [int(value.as_py())] * pc.sum(chosen).as_py()
    return [int(each) for each in value.filter(chosen).to_pylist()]


def _towards_zero(numerator: int, divisor: int) -> int:
    quotient = abs(numerator) // abs(divisor)
    return quotient if (numerator < 0) == (divisor < 0) else -quotient


def _kind(value: Value) -> Callable[[int, int], pa.DataType]:
    return pa.decimal128 if pa.types.is_decimal128(value.type) else pa.decimal256


def _like(value: Value, scale: int) -> pa.DataType:
    return _kind(value)(38 if pa.types.is_decimal128(value.type) else WIDE, scale)


def shortened(value: Value, scale: int) -> Value:
    """Cut digits behind the point off, few at a time: Arrow divides by small numbers alone."""
    kind = _like(value, value.type.scale)
    value = value.cast(kind)
    for kept in range(max(kind.scale - _EXACT_DIGITS, scale), scale - 1, -_EXACT_DIGITS):
        value = value.cast(_like(value, kept), safe=False)
    return value.cast(_like(value, scale), safe=False) if value.type.scale > scale else value


def rounded(value: Value, scale: int, mode: str = HALF_UP) -> Value:
    """Round to `scale` digits behind the point (negative: before it), with room for one more."""
    kind = value.type
    if kind.scale <= scale:
        return value
    if kind.scale - scale > _EXACT_DIGITS:
        wide = value.cast(pa.decimal256(WIDE, kind.scale))
        if scale >= 0:
            return _rounded_far(wide, scale, mode)
        whole = _rounded_far(relabel(wide, pa.decimal256(WIDE, kind.scale - scale)), 0, mode)
        power = pa.scalar(10**-scale, pa.decimal256(37, 0))
        return pc.multiply(relabel(whole, pa.decimal256(38, 0)), power)
    if pa.types.is_decimal128(kind) and used_digits(value) < 38:
        return pc.round(relabel(value, pa.decimal128(38, kind.scale)), scale, mode)
    return pc.round(value.cast(pa.decimal256(WIDE, kind.scale)), scale, mode)


def _rounded_far(value: Value, scale: int, mode: str) -> Value:
    """Round away more digits than Arrow divides off at once.

    One more digit says what is half up. Other modes keep two: where they are cut short and end in 0
    they become 1 greater, so that they are neither a whole number nor half of one.
    """
    if mode in (HALF_UP, "towards_zero"):
        near = pc.round(shortened(value, scale + 1), scale, mode)
        return near.cast(pa.decimal256(WIDE, scale))
    near = shortened(value, scale + 2)
    unit = pa.scalar(Decimal(1).scaleb(-scale - 2), near.type)
    ends_in_zero = pc.equal(shortened(near, scale + 1).cast(near.type), near)
    is_cut = pc.and_(ends_in_zero, pc.not_equal(near.cast(value.type), value))
    step = pc.if_else(pc.less(value, pa.scalar(0, value.type)), pc.negate(unit), unit)
    moved = pc.add(*(relabel(each, pa.decimal256(WIDE - 1, scale + 2)) for each in (near, step)))
    near = pc.if_else(is_cut, relabel(moved, near.type), near)
    return pc.round(near, scale, mode).cast(pa.decimal256(WIDE, scale))


def fit(call: Call, values: Sequence[Value], exact: Value, rows: int) -> Value:
    """Round exact results to the Call's DECIMAL.

    Raises:
        EvaluationError: a result has more digits than that.
    """
    near = rounded(exact, call.type.arrow.scale)
    try:
        return _narrowed(near, call.type.arrow)
    except pa.ArrowInvalid:
        wrong = too_large(near, call.type.arrow)
        refuse(call, values, wrong, f"has more digits than {call.type}", rows)
        raise


def _narrowed(value: Value, kind: pa.DataType) -> Value:
    """Cast; where the same integers, read with other digits, are the same decimals, relabel."""
    own = value.type
    if pa.types.is_decimal128(own) and own.scale == kind.scale and own.precision <= kind.precision:
        return relabel(value, kind)
    return value.cast(kind)


def fit_or_null(exact: Value, kind: pa.DataType) -> Value:
    """Round exact results to a DECIMAL; NULL where a result has more digits than that."""
    near = rounded(exact, kind.scale)
    try:
        return _narrowed(near, kind)
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
