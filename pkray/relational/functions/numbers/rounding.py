"""Functions that round numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.numbers import decimal_to_float, float_digits
from pkray.relational.functions.coercion import (
    BIGINT,
    DOUBLE,
    INT,
    as_decimal,
    cast_to,
    is_untyped_null,
)
from pkray.relational.functions.function import NO_SPARK, Family, Value, Written
from pkray.relational.functions.kernels import by_arrow
from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.signatures import number
from pkray.relational.functions.values import as_array, checked, from_numpy, numpy_of, zero
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, DataType

MATHEMATICS = Family("mathematics")

_MODES = {
    "round": decimals.HALF_UP,
    "bround": "half_to_even",
    "truncate": "towards_zero",
    "ceil_to": "up",
    "floor_to": "down",
}
_DIGITS_OF = {
    "FLOAT": DataType("DECIMAL", precision=14, scale=7),
    "DOUBLE": DataType("DECIMAL", precision=30, scale=15),
    "STRING": DataType("DECIMAL", precision=38, scale=18),
}
"""What CEIL and FLOOR with digits make of floats and text."""


def _round_type(value: DataType, digits: int, name: str, dialect: Dialect) -> DataType:
    if value.root != "DECIMAL":
        return value
    precision, scale = value.precision or 0, value.scale or 0
    grows = 0 if name == "truncate" else 1
    whole_digits = precision - scale + grows
    if dialect is Dialect.FLINK and digits >= scale:
        return value
    if digits < 0:
        return DataType("DECIMAL", precision=min(max(whole_digits, 1 - digits), 38), scale=0)
    kept = min(scale, digits)
    return DataType("DECIMAL", precision=min(max(whole_digits + kept, 1), 38), scale=kept)


def _rounds(call: Written) -> Expression:
    _, *said = call.between(1, 2)
    value = number.taken(call, 0)
    digits = said[0] if said else Literal(INT.with_nullable(False), 0)
    if is_untyped_null(digits):
        return Literal(value.type.with_nullable(True), None)
    if not isinstance(digits, Literal) or type(digits.value) is not int:
        raise QueryError(f"the digits of {call.name} must be a constant INT", function=call.name)
    count = Literal(INT.with_nullable(False), max(min(digits.value, 400), -400))
    result = _round_type(value.type, count.value, call.name, call.dialect)
    return Call(result.with_nullable(value.type.nullable), call.name, (value, count))


def _round(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, digits, mode = values[0], values[1].as_py(), _MODES[call.function]
    root = call.arguments[0].type.root
    if root == "DECIMAL":
        if digits < -38:
            return decimals.fit(call, values, pc.multiply(value, zero(value.type)), rows)
        wide = value.cast(pa.decimal256(decimals.WIDE, value.type.scale))
        return decimals.fit(call, values, decimals.rounded(wide, digits, mode), rows)
    if root in INTEGERS:
        return value if digits >= 0 else _round_integer(call, values, digits, mode, rows)
    return _round_floats(as_array(value, rows), digits, mode)


def _round_integer(call: Call, values: Sequence[Value], digits: int, mode: str, rows: int) -> Value:
    kind = values[0].type
    if digits < -19:
        return pc.multiply(values[0], zero(kind))
    wide = pa.decimal128(38, 0)
    return checked(
        call,
        values[:1],
        rows,
        lambda value: decimals.rounded(
            value.cast(pa.decimal128(19, 0)).cast(wide), digits, mode
        ).cast(kind),
        f"overflows {call.type.root}",
    )


_SAFE = 2.0**52
"""Below it a float has a fraction, and scaling by a power of ten shows on which side of half."""


def _round_floats(array: pa.Array, digits: int, mode: str) -> pa.Array:
    """Round as the number is written: 2.675 to 2.68, though the float is a little below.

    Numbers that are not near half are rounded as they are; the others by the digits that they are
    written with.
    """
    if digits > 330:
        return array
    numbers = array.cast(pa.float64()).fill_null(0.0).to_numpy()
    power = 10.0 ** min(abs(digits), 308)
    with np.errstate(all="ignore"):
        scaled = numbers * power if digits >= 0 else numbers / power
        near = {"towards_zero": np.trunc, "half_to_even": np.rint}.get(mode, _half_away)(scaled)
        result = near / power if digits >= 0 else near * power
        distance = np.abs(scaled - np.trunc(scaled))
        edge = 0.0 if mode == "towards_zero" else 0.5
        doubtful = np.abs(distance - edge) < 1e-6
        if mode == "towards_zero":
            doubtful |= distance > 1 - 1e-6
        doubtful |= np.abs(scaled) >= _SAFE
        if abs(digits) > 15:
            doubtful[:] = True
    doubtful &= np.isfinite(numbers) & (np.abs(numbers) < 1e38) & (numbers != 0)
    result = np.where(np.isfinite(numbers) & np.isfinite(result), result, numbers)
    if doubtful.any():
        chosen = array.filter(pa.array(doubtful)).cast(pa.float64())
        exact = decimals.rounded(float_digits(chosen), max(min(digits, 38), -37), mode)
        result[doubtful] = decimal_to_float(exact).to_numpy()
    mask = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(result + 0.0, pa.float64(), mask=mask).cast(array.type)


def _half_away(scaled: Any) -> Any:
    return np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)


for _name, _about in (
    ("round", "Round a number to digits after the point (0 by default), half away from zero."),
    ("bround", "Round a number to digits after the point (0 by default), half to the even digit."),
    ("truncate", "Cut a number after digits behind the point (0 by default)."),
):
    MATHEMATICS.add(
        f"{_name}(number [, digits INT]) -> number",
        _about,
        _rounds,
        _round,
        spark=NO_SPARK if _name == "truncate" else None,
    )


def _rounds_to_whole(call: Written) -> Expression:
    given, *said = call.between(1, 2)
    value = number.taken(call, 0)
    if said:
        if given.type.root in STRINGS and call.dialect is Dialect.SPARK:
            value = given
        exact = as_decimal(value, call.dialect) or _DIGITS_OF.get(
            value.type.root, _DIGITS_OF["STRING"]
        )
        return _rounds(Written(call.name + "_to", (cast_to(value, exact), *said), call.dialect))
    root = value.type.root
    if root in INTEGERS:
        return value if call.dialect is Dialect.FLINK else cast_to(value, BIGINT)
    if root == "DECIMAL":
        precision, scale = value.type.precision or 0, value.type.scale or 0
        digits = precision - scale + (1 if scale else 0)
        result = DataType("DECIMAL", nullable=value.type.nullable, precision=digits, scale=0)
        whole = Call(result, call.name, (value,))
        if call.dialect is Dialect.SPARK or digits == precision:
            return whole
        return cast_to(whole, replace(result, precision=precision))
    if call.dialect is Dialect.FLINK:
        return Call(value.type, call.name + "_floating", (value,))
    return Call(BIGINT.with_nullable(value.type.nullable), call.name, (cast_to(value, DOUBLE),))


def _to_whole(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = pc.ceil if call.function == "ceil" else pc.floor
    if call.type.root == "DECIMAL":
        wide = values[0].cast(pa.decimal256(decimals.WIDE, values[0].type.scale))
        mode = "up" if call.function == "ceil" else "down"
        return decimals.fit(call, values, decimals.rounded(wide, 0, mode), rows)
    near = numpy_of(compute(values[0]))
    numbers = np.nan_to_num(near, nan=0.0, posinf=2.0**64, neginf=-(2.0**64))
    inside = np.clip(numbers, -(2.0**63), 2.0**63 - 1024)
    limit = np.where(numbers >= 2.0**63, np.int64(2**63 - 1), inside.astype(np.int64))
    return from_numpy(limit, values, pa.int64(), rows)


for _name, _about in (
    ("ceil", "Give the least whole number that is not below a number."),
    ("floor", "Give the greatest whole number that is not above a number."),
):
    MATHEMATICS.add(
        f"{_name}(number [, digits INT]) -> BIGINT | DECIMAL",
        _about,
        _rounds_to_whole,
        _to_whole,
        synonyms=("ceiling",) if _name == "ceil" else (),
    )
    MATHEMATICS.add_inner(
        _name + "_to",
        f"{_about[:-1]}, with digits after the point.",
        _round,
        spark=lambda call, arguments: f"{call.function[:-3]}({', '.join(arguments)})",
    )
    MATHEMATICS.infallible.add_inner(
        _name + "_floating",
        f"{_about[:-1]}, as a number of the same type.",
        by_arrow(pc.ceil if _name == "ceil" else pc.floor),
        lambda arguments: arguments[0].type,
        spark=NO_SPARK,
    )
