"""Functions of the bits and digits of integers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion
from pkray.relational.functions.comparison import operator
from pkray.relational.functions.function import Family, Value, Written
from pkray.relational.functions.kernels import by_arrow, by_numpy
from pkray.relational.functions.signatures import bigint, integer, parameter, takes, text, whole
from pkray.relational.functions.values import as_array, from_numpy, numpy_of, refuse
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS

MATHEMATICS = Family("mathematics")


def _bitwise(call: Written) -> Expression:
    left, right = call.taken(_bits, _bits)
    common = coercion.wider(left.type, right.type, call.dialect)
    assert common is not None
    pair = coercion.cast_to(left, common), coercion.cast_to(right, common)
    return Call(common.with_nullable(coercion.any_nullable(pair)), call.name, pair)


@parameter("an integer")
def _bits(argument: Expression, dialect: Dialect) -> Expression | None:
    return (
        coercion.cast_to(argument, coercion.INT)
        if coercion.is_untyped_null(argument)
        else whole.cast(argument, dialect)
    )


for _name, _symbol, _about, _compute in (
    ("bitwise_and", "&", "Give the bits that both integers have.", pc.bit_wise_and),
    ("bitwise_or", "|", "Give the bits that one of two integers has.", pc.bit_wise_or),
    ("bitwise_xor", "^", "Give the bits in which two integers differ.", pc.bit_wise_xor),
):
    MATHEMATICS.infallible.add(
        f"integer {_symbol} integer -> integer",
        _about,
        _bitwise,
        by_arrow(_compute),
        spark=operator(_symbol),
        synonyms=(_symbol,),
        name=_name,
    )
MATHEMATICS.infallible.add(
    "~ integer -> integer",
    "Turn each bit of an integer.",
    takes(whole, gives=lambda arguments: arguments[0].type),
    by_arrow(pc.bit_wise_not),
    spark=lambda call, arguments: f"(~ {arguments[0]})",
    synonyms=("~",),
    name="bitwise_not",
)


@parameter("an integer")
def _shifted(argument: Expression, dialect: Dialect) -> Expression | None:
    taken = whole.cast(argument, dialect)
    as_int = taken is not None and taken.type.root in ("TINYINT", "SMALLINT")
    if as_int or (dialect is Dialect.SPARK and argument.type.root in STRINGS):
        return coercion.cast_to(argument, coercion.INT)
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


for _name, _symbol, _about in (
    ("shiftleft", "<<", "Shift the bits of an integer to the left."),
    ("shiftright", ">>", "Shift the bits of an integer to the right; the sign stays."),
    ("shiftrightunsigned", ">>>", "Shift the bits of an integer to the right; zeros come in."),
):
    MATHEMATICS.infallible.add(
        f"{_name}(integer, bits INT) -> integer",
        _about,
        takes(_shifted, integer, gives=lambda arguments: arguments[0].type),
        _shift,
        synonyms=(_symbol,),
    )
_NIBBLES = np.array([bin(number).count("1") for number in range(256)], np.int32)


@parameter("an integer or a BOOLEAN")
def _counted(argument: Expression, dialect: Dialect) -> Expression | None:
    if argument.type.root == "BOOLEAN":
        return coercion.cast_to(coercion.cast_to(argument, coercion.INT), coercion.BIGINT)
    taken = argument.type.root in INTEGERS or coercion.is_untyped_null(argument)
    return coercion.cast_to(argument, coercion.BIGINT) if taken else None


@MATHEMATICS.infallible.kernel(
    "bit_count(integer | BOOLEAN) -> INT",
    "Count the bits that are set; true has one.",
    takes(_counted, gives=coercion.INT),
)
def _bit_count(call: Call, values: Sequence[Value], rows: int) -> Value:
    numbers = numpy_of(as_array(values[0], rows)).astype(np.int64)
    counts = _NIBBLES[numbers.view(np.uint8).reshape(-1, 8)].sum(axis=1).astype(np.int32)
    return from_numpy(counts, values, pa.int32(), rows)


@parameter("an integer")
def _integer_as_it_is(argument: Expression, dialect: Dialect) -> Expression | None:
    if coercion.is_untyped_null(argument):
        return coercion.cast_to(argument, coercion.INT)
    return argument if argument.type.root in INTEGERS else None


@MATHEMATICS.kernel(
    "bit_get(integer, place from 0) -> TINYINT",
    "Give one bit of an integer, the least first.",
    takes(_integer_as_it_is, integer, gives=coercion.TINYINT),
    synonyms=("getbit",),
)
def _bit_get(call: Call, values: Sequence[Value], rows: int) -> Value:
    number, place = numpy_of(values[0]), numpy_of(values[1])
    width = 8 * number.dtype.itemsize
    wrong = np.broadcast_to((place < 0) | (place >= width), (rows,))
    refuse(call, values, pa.array(wrong), f"is beyond the {width} bits, which count from 0", rows)
    bits = (number.astype(np.int64) >> np.clip(place, 0, 63)) & 1
    return from_numpy(bits.astype(np.int8), values, pa.int8(), rows)


_FACTORIALS = np.array([math.factorial(number) for number in range(21)], np.int64)
MATHEMATICS.infallible.add(
    "factorial(number INT) -> BIGINT",
    "Give the factorial of 0 to 20; NULL for other numbers.",
    takes(integer, gives=coercion.BIGINT, nullable=True),
    by_numpy(
        lambda number: _FACTORIALS[np.clip(number, 0, 20)],
        null_where=lambda number: (number < 0) | (number > 20),
    ),
)


# Digits


def digits_text(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Write the 64 bits of a BIGINT in digits of 1 or 4 bits, without zeros before them."""
    column = as_array(values[0], rows)
    numbers = numpy_of(column).astype(">i8").view(np.uint8)
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
    return pc.if_else(column.is_valid(), trimmed, pa.scalar(None, pa.string()))


MATHEMATICS.infallible.add(
    "bin(number BIGINT) -> STRING",
    "Write an integer in binary digits.",
    takes(bigint, gives=coercion.STRING),
    digits_text,
)


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


def _resolve_conv(call: Written) -> Expression:
    _, *said = call.exactly(3)
    for each in said:
        if not isinstance(each, Literal):
            raise QueryError("the bases of conv must be constants", function="conv")
    value = text.taken(call, 0)
    bases = tuple(coercion.cast_to(each, coercion.INT) for each in said)
    return Call(coercion.STRING, "conv", (value, *bases))


@MATHEMATICS.kernel(
    "conv(digits STRING, from INT, to INT) -> STRING",
    "Write a number, given in digits of one base, in digits of another.",
    _resolve_conv,
)
def _conv(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Read digits of one base (as far as there are) as 64 bits, and write them in another."""
    bases = [int(value.as_py() or 0) for value in values[1:] if isinstance(value, pa.Scalar)]
    if not 2 <= bases[0] <= 36 or not 2 <= abs(bases[1]) <= 36:
        return pa.scalar(None, pa.string())
    texts = as_array(values[0], rows)
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"[: bases[0]]
    body = pc.ascii_lower(pc.utf8_trim_whitespace(texts))
    negative = pc.starts_with(body, "-").fill_null(False).to_numpy(zero_copy_only=False)
    body = pc.utf8_ltrim(body, "-") if negative.any() else body
    body = pc.extract_regex(body, f"^(?P<digits>[{alphabet}]*)").field("digits")
    numbers, beyond = _read_digits(body, bases[0])
    unsigned = np.where(negative, (~numbers + np.uint64(1)), numbers)
    minus_zero = negative & (numbers == 0) & (bases[1] < 0)
    if bases[1] > 0:  # below the least of 64 bits is the greatest
        unsigned[negative & (numbers >= np.uint64(2**63))] = np.uint64(2**64 - 1)
    refuse(call, values, pa.array(beyond), "overflows 64 bits", rows)
    result = _write_digits(unsigned, bases[1])
    result = pc.if_else(pa.array(minus_zero), "-0", result)
    empty = pc.equal(pc.utf8_length(pc.utf8_trim(texts, " ")), 0)
    missing = pc.or_kleene(empty, texts.is_null())
    return pc.if_else(missing, pa.scalar(None, pa.string()), result)
