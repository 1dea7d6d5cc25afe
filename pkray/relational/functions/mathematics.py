"""Functions of numbers: rounding, logarithms, angles, bits and digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import decimals
from pkray.relational.functions.cast_kernels import decimal_to_float, float_digits
from pkray.relational.functions.coercion import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INT,
    STRING,
    any_nullable,
    cast_to,
    coerced,
    is_untyped_null,
    untyped_null,
    wider,
)
from pkray.relational.functions.comparison import operator
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import NO_SPARK, Function, Resolver, Value, define
from pkray.relational.functions.signatures import (
    bigint,
    check_count,
    double,
    integer,
    number,
    parameter,
    takes,
    whole,
    wrong_argument,
)
from pkray.relational.functions.values import (
    as_array,
    checked,
    from_numpy,
    numpy_of,
    refuse,
    zero,
)
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, DataType

Doubles: TypeAlias = Callable[[Any], Any]


# One DOUBLE to one DOUBLE


def _by_arrow(compute: Callable[..., Value]) -> Any:
    return lambda call, values, rows: compute(*values)


def _by_numpy(compute: Callable[..., Any], *, null_where: Callable[..., Any] | None = None) -> Any:
    """Make a kernel of a function of numpy arrays; NULL also where `null_where` is true."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        inputs = [numpy_of(value) for value in values]
        with np.errstate(all="ignore"):
            result = compute(*inputs)
            missing = None if null_where is None else null_where(*inputs)
        array = from_numpy(result, values, call.type.arrow, rows)
        if missing is None or not np.any(missing):
            return array
        wrong = np.broadcast_to(missing, rows)
        return pc.if_else(pa.array(wrong), pa.scalar(None, array.type), array)

    return kernel


def _not_positive(number: Any) -> Any:
    return number <= 0


_OF_DOUBLES: tuple[tuple[str, str, Any], ...] = (
    ("sqrt", "square root", _by_arrow(pc.sqrt)),
    ("cbrt", "cube root", _by_numpy(np.cbrt)),
    ("exp", "power of e", _by_arrow(pc.exp)),
    ("expm1", "power of e, less 1,", _by_arrow(pc.expm1)),
    ("sin", "sine", _by_arrow(pc.sin)),
    ("cos", "cosine", _by_arrow(pc.cos)),
    ("tan", "tangent", _by_arrow(pc.tan)),
    ("asin", "arc sine", _by_arrow(pc.asin)),
    ("acos", "arc cosine", _by_arrow(pc.acos)),
    ("atan", "arc tangent", _by_arrow(pc.atan)),
    ("sinh", "hyperbolic sine", _by_numpy(np.sinh)),
    ("cosh", "hyperbolic cosine", _by_numpy(np.cosh)),
    ("tanh", "hyperbolic tangent", _by_numpy(np.tanh)),
    ("degrees", "angle in degrees", _by_numpy(np.degrees)),
    ("radians", "angle in radians", _by_numpy(np.radians)),
    ("cot", "cotangent", _by_numpy(lambda number: 1 / np.tan(number))),
)
for _name, _what, _kernel in _OF_DOUBLES:
    define(
        Function(
            _name,
            f"{_name}(number DOUBLE) -> DOUBLE",
            f"Give the {_what} of a number.".replace(", of", " of"),
            takes(_name, double, gives=DOUBLE),
            _kernel,
            family="mathematics",
            fallible=False,
        )
    )
_LOGARITHMS: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
    ("ln", "natural logarithm", _by_numpy(np.log, null_where=_not_positive), ()),
    ("log2", "logarithm to base 2", _by_numpy(np.log2, null_where=_not_positive), ()),
    ("log10", "logarithm to base 10", _by_numpy(np.log10, null_where=_not_positive), ()),
    (
        "log1p",
        "natural logarithm of 1 more than a number",
        _by_numpy(np.log1p, null_where=lambda number: number <= -1),
        (),
    ),
)
for _name, _what, _kernel, _synonyms in _LOGARITHMS:
    define(
        Function(
            _name,
            f"{_name}(number DOUBLE) -> DOUBLE",
            f"Give the {_what}; NULL where there is none.",
            takes(_name, double, gives=DOUBLE, nullable=True),
            _kernel,
            family="mathematics",
            fallible=False,
        )
    )


def _log(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("log", arguments, 1, 2)
    name = "ln" if len(arguments) == 1 else "log"
    parameters = [double] * len(arguments)
    return takes(name, *parameters, gives=DOUBLE, nullable=True)(arguments, dialect)


define(
    Function(
        "log",
        "log([base DOUBLE,] number DOUBLE) -> DOUBLE",
        "Give the logarithm to a base, e if there is none; NULL where there is none.",
        _log,
        _by_numpy(
            lambda base, number: np.log(number) / np.log(base),
            null_where=lambda base, number: (base <= 0) | (number <= 0),
        ),
        family="mathematics",
        fallible=False,
    )
)
define(
    Function(
        "power",
        "power(base DOUBLE, exponent DOUBLE) -> DOUBLE",
        "Raise a number to a power.",
        takes("power", double, double, gives=DOUBLE),
        _by_arrow(pc.power),
        synonyms=("pow",),
        family="mathematics",
        fallible=False,
    )
)
define(
    Function(
        "atan2",
        "atan2(y DOUBLE, x DOUBLE) -> DOUBLE",
        "Give the angle of a point.",
        takes("atan2", double, double, gives=DOUBLE),
        _by_arrow(pc.atan2),
        family="mathematics",
        fallible=False,
    )
)
define(
    Function(
        "hypot",
        "hypot(a DOUBLE, b DOUBLE) -> DOUBLE",
        "Give the length of the hypotenuse.",
        takes("hypot", double, double, gives=DOUBLE),
        _by_numpy(np.hypot),
        family="mathematics",
        fallible=False,
    )
)
define(
    Function(
        "sign",
        "sign(number DOUBLE) -> DOUBLE",
        "Give -1.0, 0.0 or 1.0 by the sign of a number.",
        takes("sign", double, gives=DOUBLE),
        lambda call, values, rows: pc.if_else(
            pc.equal(values[0], 0.0), values[0], pc.sign(values[0])
        ),
        synonyms=("signum",),
        family="mathematics",
        fallible=False,
    )
)


def _constant(name: str, value: float) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 0, 0)
        return Literal(DOUBLE.with_nullable(False), value)

    return resolve


def _never(call: Call, values: Sequence[Value], rows: int) -> Value:
    raise AssertionError(f"{call.function} becomes other functions when it is bound")


define(
    Function(
        "pi", "pi() -> DOUBLE", "Give π.", _constant("pi", math.pi), _never, family="mathematics"
    )
)
define(
    Function("e", "e() -> DOUBLE", "Give e.", _constant("e", math.e), _never, family="mathematics")
)


def _random(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    raise UnsupportedError(
        "random numbers are not supported: a row that is computed twice would get two values; "
        "use a hash of its key, such as pmod(hash(key), 100)"
    )


define(
    Function(
        "rand",
        "",
        "Refuse to make random numbers.",
        _random,
        _never,
        synonyms=("random", "randn", "uuid"),
        family="mathematics",
        deterministic=False,
    )
)


# Rounding

_MODES = {"round": decimals.HALF_UP, "bround": "half_to_even", "truncate": "towards_zero"}


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


def _rounds(name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, 2)
        value = number(arguments[0])
        if value is None:
            raise wrong_argument(name, 0, arguments[0], "a number")
        digits = arguments[1] if len(arguments) > 1 else Literal(INT.with_nullable(False), 0)
        if is_untyped_null(digits):
            return Literal(value.type.with_nullable(True), None)
        if not isinstance(digits, Literal) or type(digits.value) is not int:
            raise QueryError(f"the digits of {name} must be a constant INT", function=name)
        count = Literal(INT.with_nullable(False), max(min(digits.value, 400), -400))
        result = _round_type(value.type, count.value, name, dialect)
        return Call(result.with_nullable(value.type.nullable), name, (value, count))

    return resolve


def _round(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, digits, mode = values[0], values[1].as_py(), _MODES[call.function]
    root = call.arguments[0].type.root
    if root == "DECIMAL":
        scale = value.type.scale
        if digits < -38:
            return decimals.fit(call, values, pc.multiply(value, zero(value.type)), rows)
        wide = value.cast(pa.decimal256(decimals.WIDE, scale))
        near = pc.round(wide, digits, mode) if digits < scale else wide
        return decimals.fit(call, values, near, rows)
    if root in INTEGERS:
        return value if digits >= 0 else _round_integer(call, values, digits, mode, rows)
    if isinstance(value, pa.Scalar):
        return _round_floats(as_array(value, 1), digits, mode)[0]
    return _round_floats(value, digits, mode)


def _round_integer(call: Call, values: Sequence[Value], digits: int, mode: str, rows: int) -> Value:
    kind = values[0].type
    if digits < -19:
        return pc.multiply(values[0], zero(kind))
    wide = pa.decimal128(38, 0)
    return checked(
        call,
        values[:1],
        rows,
        lambda value: pc.round(value.cast(pa.decimal128(19, 0)).cast(wide), digits, mode).cast(
            kind
        ),
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
        exact = pc.round(float_digits(chosen), max(min(digits, 38), -37), mode)
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
    define(
        Function(
            _name,
            f"{_name}(number [, digits INT]) -> number",
            _about,
            _rounds(_name),
            _round,
            NO_SPARK if _name == "truncate" else None,
            family="mathematics",
        )
    )


def _rounds_to_whole(name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, 1)
        value = number(arguments[0])
        if value is None:
            raise wrong_argument(name, 0, arguments[0], "a number")
        root = value.type.root
        if root in INTEGERS:
            return value if dialect is Dialect.FLINK else cast_to(value, BIGINT)
        if root == "DECIMAL":
            grows = 1 if dialect is Dialect.SPARK and value.type.scale else 0
            digits = (value.type.precision or 0) - (value.type.scale or 0) + grows
            result = DataType("DECIMAL", precision=min(max(digits, 1), 38), scale=0)
            return Call(result.with_nullable(value.type.nullable), name, (value,))
        if dialect is Dialect.FLINK:
            return Call(value.type, name + "_floating", (value,))
        return Call(BIGINT.with_nullable(value.type.nullable), name, (cast_to(value, DOUBLE),))

    return resolve


def _to_whole(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = pc.ceil if call.function == "ceil" else pc.floor
    if call.type.root == "DECIMAL":
        wide = values[0].cast(pa.decimal256(decimals.WIDE, values[0].type.scale))
        return decimals.fit(call, values, compute(wide), rows)
    near = numpy_of(compute(values[0]))
    numbers = np.nan_to_num(near, nan=0.0, posinf=2.0**64, neginf=-(2.0**64))
    inside = np.clip(numbers, -(2.0**63), 2.0**63 - 1024)
    limit = np.where(numbers >= 2.0**63, np.int64(2**63 - 1), inside.astype(np.int64))
    return from_numpy(limit, values, pa.int64(), rows)


for _name, _about in (
    ("ceil", "Give the least whole number that is not below a number."),
    ("floor", "Give the greatest whole number that is not above a number."),
):
    define(
        Function(
            _name,
            f"{_name}(number) -> BIGINT | DECIMAL",
            _about,
            _rounds_to_whole(_name),
            _to_whole,
            synonyms=("ceiling",) if _name == "ceil" else (),
            family="mathematics",
        )
    )
    define(
        Function(
            _name + "_floating",
            "",
            f"{_about[:-1]}, as a number of the same type.",
            None,
            _by_arrow(pc.ceil if _name == "ceil" else pc.floor),
            NO_SPARK,
            family="mathematics",
            fallible=False,
            typing=lambda arguments: arguments[0].type,
        )
    )


# The greatest and the least


def _extreme(name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, None)
        values = coerced(arguments, dialect, f"arguments of {name}")
        if values[0].type.is_nested:
            raise wrong_argument(name, 0, values[0], "values that have an order")
        nullable = all(each.type.nullable for each in values)
        found = Call(values[0].type.with_nullable(nullable), name, values)
        if dialect is Dialect.SPARK or not any_nullable(values):
            return found
        missing = tuple(
            Call(BOOLEAN.with_nullable(False), "is_null", (each,))
            for each in values
            if each.type.nullable
        )
        one = missing[0] if len(missing) == 1 else Call(missing[0].type, "or", missing)
        return case_of([one], [untyped_null(), found], dialect)

    return resolve


def _choose_extreme(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = pc.max_element_wise if call.function == "greatest" else pc.min_element_wise
    if call.type.root == "BOOLEAN":
        wide = [value.cast(pa.int8()) for value in values]
        return compute(*wide, skip_nulls=True).cast(pa.bool_())
    result = compute(*values, skip_nulls=True)
    if call.type.root in FLOATS and call.function == "greatest":
        for value in values:
            is_nan = pc.fill_null(pc.is_nan(value), False)
            result = pc.if_else(is_nan, pa.scalar(math.nan, result.type), result)
    return result


for _name in ("greatest", "least"):
    define(
        Function(
            _name,
            f"{_name}(value, value, …) -> value",
            f"Give the {_name} value; NULLs are left out.",
            _extreme(_name),
            _choose_extreme,
            family="mathematics",
            fallible=False,
        )
    )


# Bits


def _bitwise(name: str) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        left, right = (_whole(name, position, each) for position, each in enumerate(arguments))
        common = wider(left.type, right.type, dialect)
        assert common is not None
        pair = cast_to(left, common), cast_to(right, common)
        return Call(common.with_nullable(any_nullable(pair)), name, pair)

    return resolve


def _whole(name: str, position: int, argument: Expression) -> Expression:
    taken = cast_to(argument, INT) if is_untyped_null(argument) else whole(argument)
    if taken is None:
        raise wrong_argument(name, position, argument, "an integer")
    return taken


for _name, _symbol, _about, _compute in (
    ("bitwise_and", "&", "Give the bits that both integers have.", pc.bit_wise_and),
    ("bitwise_or", "|", "Give the bits that one of two integers has.", pc.bit_wise_or),
    ("bitwise_xor", "^", "Give the bits in which two integers differ.", pc.bit_wise_xor),
):
    define(
        Function(
            _name,
            f"integer {_symbol} integer -> integer",
            _about,
            _bitwise(_name),
            _by_arrow(_compute),
            operator(_symbol),
            synonyms=(_symbol,),
            family="mathematics",
            fallible=False,
        )
    )
define(
    Function(
        "bitwise_not",
        "~ integer -> integer",
        "Turn each bit of an integer.",
        takes("bitwise_not", whole, gives=lambda arguments: arguments[0].type),
        _by_arrow(pc.bit_wise_not),
        lambda call, arguments: f"(~ {arguments[0]})",
        family="mathematics",
        fallible=False,
    )
)


@parameter("an integer")
def _shifted(argument: Expression) -> Expression | None:
    taken = whole(argument)
    if taken is not None and taken.type.root in ("TINYINT", "SMALLINT"):
        return cast_to(taken, INT)
    return taken


def _shift(call: Call, values: Sequence[Value], rows: int) -> Value:
    number, by = numpy_of(values[0]), numpy_of(values[1])
    bits = 63 if call.type.root == "BIGINT" else 31
    by = by & bits
    if call.function == "shiftleft":
        result = np.left_shift(number, by.astype(number.dtype))
    elif call.function == "shiftright":
        result = np.right_shift(number, by.astype(number.dtype))
    else:
        plain = np.uint64 if bits == 63 else np.uint32
        unsigned = np.asarray(number).astype(plain)
        result = np.right_shift(unsigned, by.astype(plain)).astype(number.dtype)
    return from_numpy(result, values, call.type.arrow, rows)


for _name, _about in (
    ("shiftleft", "Shift the bits of an integer to the left."),
    ("shiftright", "Shift the bits of an integer to the right; the sign stays."),
    ("shiftrightunsigned", "Shift the bits of an integer to the right; zeros come in."),
):
    define(
        Function(
            _name,
            f"{_name}(integer, bits INT) -> integer",
            _about,
            takes(_name, _shifted, integer, gives=lambda arguments: arguments[0].type),
            _shift,
            family="mathematics",
            fallible=False,
        )
    )
_NIBBLES = np.array([bin(number).count("1") for number in range(256)], np.int32)


def _bit_count(call: Call, values: Sequence[Value], rows: int) -> Value:
    numbers = np.atleast_1d(numpy_of(values[0])).astype(np.int64)
    counts = _NIBBLES[numbers.view(np.uint8).reshape(-1, 8)].sum(axis=1).astype(np.int32)
    result = counts[0] if isinstance(values[0], pa.Scalar) else counts
    return from_numpy(result, values, pa.int32(), rows)


define(
    Function(
        "bit_count",
        "bit_count(integer) -> INT",
        "Count the bits that are set.",
        takes("bit_count", bigint, gives=INT),
        _bit_count,
        family="mathematics",
        fallible=False,
    )
)
_FACTORIALS = np.array([math.factorial(number) for number in range(21)], np.int64)
define(
    Function(
        "factorial",
        "factorial(number INT) -> BIGINT",
        "Give the factorial of 0 to 20; NULL for other numbers.",
        takes("factorial", integer, gives=BIGINT, nullable=True),
        _by_numpy(
            lambda number: _FACTORIALS[np.clip(number, 0, 20)],
            null_where=lambda number: (number < 0) | (number > 20),
        ),
        family="mathematics",
        fallible=False,
    )
)


# Digits


def digits_text(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Write the 64 bits of a BIGINT in digits of 1 or 4 bits, without zeros before them."""
    numbers = np.atleast_1d(numpy_of(values[0])).astype(">i8").view(np.uint8)
    if call.function == "bin":
        letters = (np.unpackbits(numbers) + ord("0")).astype(np.uint8)
        width = 64
    else:
        halves = np.stack([numbers >> 4, numbers & 15], axis=1).ravel()
        letters = np.frombuffer(b"0123456789ABCDEF", np.uint8)[halves]
        width = 16
    count = len(letters) // width
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * width)
    text = pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters.tobytes()))
    trimmed = pc.utf8_ltrim(text, "0")
    trimmed = pc.if_else(pc.equal(trimmed, ""), "0", trimmed)
    if isinstance(values[0], pa.Scalar):
        return trimmed[0] if values[0].is_valid else pa.scalar(None, pa.string())
    return pc.if_else(values[0].is_valid(), trimmed, pa.scalar(None, pa.string()))


define(
    Function(
        "bin",
        "bin(number BIGINT) -> STRING",
        "Write an integer in binary digits.",
        takes("bin", bigint, gives=STRING),
        digits_text,
        family="mathematics",
        fallible=False,
    )
)


def _conv(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Read digits of one base (as far as there are) as 64 bits, and write them in another."""
    bases = [int(value.as_py() or 0) for value in values[1:] if isinstance(value, pa.Scalar)]
    if not 2 <= bases[0] <= 36 or not 2 <= abs(bases[1]) <= 36:
        return pa.scalar(None, pa.string())
    texts = as_array(values[0], 1 if isinstance(values[0], pa.Scalar) else rows)
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"[: bases[0]]
    body = pc.ascii_lower(pc.utf8_trim_whitespace(texts))
    negative = pc.starts_with(body, "-").fill_null(False).to_numpy(zero_copy_only=False)
    body = pc.utf8_ltrim(body, "-") if negative.any() else body
    body = pc.extract_regex(body, f"^(?P<digits>[{alphabet}]*)").field("digits")
    numbers, beyond = _read_digits(body, bases[0])
    unsigned = np.where(negative, (~numbers + np.uint64(1)), numbers)
    refuse(call, values, pa.array(beyond), "overflows 64 bits", rows)
    result = _write_digits(unsigned, bases[1])
    empty = pc.equal(pc.utf8_length(texts), 0)
    result = pc.if_else(pc.or_kleene(empty, texts.is_null()), pa.scalar(None, pa.string()), result)
    return result[0] if isinstance(values[0], pa.Scalar) else result


def _read_digits(body: pa.Array, base: int) -> tuple[Any, Any]:
    longest = pc.max(pc.utf8_length(body)).as_py() or 0
    numbers = np.zeros(len(body), np.uint64)
    beyond = np.zeros(len(body), bool)
    places = pa.array(list("0123456789abcdefghijklmnopqrstuvwxyz"))
    limit = np.uint64((2**64 - 1) // base)
    for position in range(longest):
        letters = pc.utf8_slice_codeunits(body, position, position + 1)
        digit = pc.index_in(letters, value_set=places).fill_null(-1).to_numpy()
        there = digit >= 0
        value = np.where(there, digit, 0).astype(np.uint64)
        moved = numbers * np.uint64(base) + value
        beyond |= there & ((numbers > limit) | ((numbers == limit) & (moved < value)))
        numbers = np.where(there, moved, numbers)
    return numbers, beyond


def _write_digits(unsigned: Any, base: int) -> pa.Array:
    signs = np.zeros(len(unsigned), bool)
    if base < 0:
        signed = unsigned.view(np.int64)
        signs, unsigned = signed < 0, np.where(signed < 0, ~unsigned + np.uint64(1), unsigned)
    letters = pa.array(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    parts: list[pa.Array] = []
    rest = unsigned.astype(np.uint64)
    while rest.any() or not parts:
        parts.append(letters.take(pa.array((rest % np.uint64(abs(base))).astype(np.int64))))
        rest = rest // np.uint64(abs(base))
    text = pc.utf8_ltrim(pc.binary_join_element_wise(*reversed(parts), ""), "0")
    text = pc.if_else(pc.equal(text, ""), "0", text)
    return pc.if_else(pa.array(signs), pc.binary_join_element_wise("-", text, ""), text)


def _resolve_conv(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("conv", arguments, 3, 3)
    for each in arguments[1:]:
        if not isinstance(each, Literal):
            raise QueryError("the bases of conv must be constants", function="conv")
    value = cast_to(arguments[0], STRING)
    bases = tuple(cast_to(each, INT) for each in arguments[1:])
    return Call(STRING, "conv", (value, *bases))


define(
    Function(
        "conv",
        "conv(digits STRING, from INT, to INT) -> STRING",
        "Write a number, given in digits of one base, in digits of another.",
        _resolve_conv,
        _conv,
        family="mathematics",
    )
)


def _width_bucket(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, low, high, count = (numpy_of(each) for each in values)
    with np.errstate(all="ignore"):
        ascending = low < high
        place = np.floor((value - low) / (high - low) * count) + 1
        below = np.where(ascending, value < low, value > low)
        above = np.where(ascending, value >= high, value <= high)
        result = np.where(below, 0, np.where(above, count + 1, place))
        wrong = (count <= 0) | (count == 2**63 - 1) | (low == high) | np.isnan(value)
        wrong = wrong | ~np.isfinite(low) | ~np.isfinite(high)
    numbers = np.where(wrong, 0, result).astype(np.int64)
    array = from_numpy(numbers, values, pa.int64(), rows)
    missing = pa.array(np.broadcast_to(wrong, rows))
    return pc.if_else(missing, pa.scalar(None, pa.int64()), array)


define(
    Function(
        "width_bucket",
        "width_bucket(value DOUBLE, low DOUBLE, high DOUBLE, buckets BIGINT) -> BIGINT",
        "Number the bucket, of equal ones between two bounds, that a value falls into.",
        takes("width_bucket", double, double, double, bigint, gives=BIGINT, nullable=True),
        _width_bucket,
        family="mathematics",
        fallible=False,
    )
)
