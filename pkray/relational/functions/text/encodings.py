"""Functions that turn text into codes, digits and bytes, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.errors import EvaluationError, QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.casts.writing import write
from pkray.relational.functions.coercion import BYTES, INT, STRING, any_nullable, cast_to
from pkray.relational.functions.function import Family, Value, Written
from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.numbers.bits import digits_text
from pkray.relational.functions.signatures import (
    bigint,
    binary,
    number,
    of_types,
    parameter,
    takes,
    text,
    text_or_bytes,
)
from pkray.relational.functions.text.slices import bytes_of, join_bytes
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import as_array, by_distinct, numpy_of, zero
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, DataType

TEXT = Family("text")


def _ascii(call: Call, values: Sequence[Value], rows: int) -> Value:
    first = pc.utf8_slice_codeunits(values[0], 0, 1)
    return by_distinct(first, lambda each: ord(each) if each else 0, pa.int32(), rows)


text_function(
    "ascii(text) -> INT", "Give the code of the first character; 0 for no text.", [text],
    _ascii, gives=INT,
)  # fmt: skip
_LETTERS = constants.texts([chr(number) for number in range(256)] + [""])


def _chr(call: Call, values: Sequence[Value], rows: int) -> Value:
    column = as_array(values[0], rows)
    codes = numpy_of(column)
    letters = _LETTERS.take(pa.array(np.where(codes < 0, 256, codes & 255)))
    return pc.if_else(column.is_valid(), letters, pa.scalar(None, pa.string()))


text_function(
    "chr(code BIGINT) -> STRING", "Give the character of a code, modulo 256.", [bigint],
    _chr, synonyms=("char",),
)  # fmt: skip


def _bytes(array: pa.Array) -> tuple[Any, Any]:
    """Give the offsets (int64, from the first byte) and the bytes of BYTES or text."""
    return bytes_of(pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array)


def _made(array: pa.Array, raw: Any, offsets: Any, kind: pa.DataType, bad: Any = None) -> pa.Array:
    """Make text or BYTES of bytes; NULL where the argument is NULL or `bad`."""
    found = join_bytes(raw, offsets[:-1], offsets[1:], kind)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    missing = missing if bad is None else missing | bad
    if missing.any():
        found = pc.if_else(pa.array(missing), pa.scalar(None, kind), found)
    return found


_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_UNHEX = np.full(256, 255, np.uint8)
for _number, _letter in enumerate(b"0123456789ABCDEF"):
    _UNHEX[_letter] = _UNHEX[ord(chr(_letter).lower())] = _number


def _hex(call: Written) -> Expression:
    (value,) = call.exactly(1)
    is_number = value.type.root in (*INTEGERS, "DECIMAL", "FLOAT", "DOUBLE")
    return takes(bigint if is_number else _digits, gives=STRING)(call)


@parameter("a number, text or BYTES")
def _digits(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take bytes; other scalars as the UTF-8 of what they are written as."""
    taken = text_or_bytes.cast(argument, dialect)
    return None if taken is None else cast_to(taken, BYTES)


@TEXT.infallible.kernel(
    "hex(number BIGINT | value | bytes) -> STRING",
    "Write an integer, or bytes, in hexadecimal digits; other values as the bytes of their text.",
    _hex,
)
def _hex_digits(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.arguments[0].type.root == "BIGINT":
        return digits_text(call, values, rows)
    array = as_array(values[0], rows)
    starts, raw = _bytes(array)
    letters = np.stack([_HEX[raw >> 4], _HEX[raw & 15]], axis=1).ravel()
    return _made(array, letters, starts * 2, pa.string())


def from_hex(texts: pa.Array) -> pa.Array:
    """Read bytes in hexadecimal digits; NULL where there are others."""
    odd = pc.equal(pc.bit_wise_and(pc.binary_length(texts), 1), 1)
    even = pc.if_else(odd, pc.binary_join_element_wise("0", texts, ""), texts)
    starts, raw = _bytes(even)
    raw = raw[: starts[-1]]
    digits = _UNHEX[raw]
    wrong = np.concatenate(([0], np.cumsum(digits == 255)))
    bad = wrong[starts[1:]] > wrong[starts[:-1]]
    data = (digits[::2] << 4) | (digits[1::2] & 15)
    return _made(even, data, starts // 2, pa.binary(), bad)


text_function(
    "unhex(digits STRING) -> BYTES",
    "Read bytes in hexadecimal digits; NULL where there are others.", [text],
    lambda call, values, rows: from_hex(as_array(values[0], rows)), gives=BYTES,
    nullable=True,
)  # fmt: skip
_BASE64 = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)
_UNBASE64 = np.full(256, 255, np.uint8)
_UNBASE64[_BASE64] = np.arange(64)


def to_base64(array: pa.Array) -> pa.Array:
    """Write bytes in base 64."""
    starts, raw = _bytes(array)
    size = np.diff(starts)
    blocks = (size + 2) // 3
    ends = np.concatenate(([0], np.cumsum(blocks)))
    padded = np.zeros(ends[-1] * 3, np.uint8)
    shift = ends[:-1] * 3 - starts[:-1] + starts[0]
    places = np.arange(starts[-1] - starts[0]) + np.repeat(shift, size)
    padded[places] = raw[starts[0] : starts[-1]]
    one, two, three = padded[0::3], padded[1::3], padded[2::3]
    sixes = [one >> 2, (one & 3) << 4 | two >> 4, (two & 15) << 2 | three >> 6, three & 63]
    letters = _BASE64[np.stack(sixes, axis=1)]
    rest = size % 3
    last = ends[1:] - 1
    letters[last[rest == 1], 2:] = ord("=")
    letters[last[rest == 2], 3] = ord("=")
    return _made(array, letters.ravel(), ends * 4, pa.string())


text_function(
    "base64(bytes) -> STRING", "Write bytes in base 64.", [binary],
    lambda call, values, rows: to_base64(as_array(values[0], rows)),
)  # fmt: skip


def _unbase64(call: Call, values: Sequence[Value], rows: int) -> Value:
    texts = as_array(values[0], rows)
    bare = pc.utf8_rtrim(pc.replace_substring_regex(texts, "[^A-Za-z0-9+/=]", ""), "=")
    starts, raw = _bytes(bare)
    size = np.diff(starts)
    letters = _UNBASE64[raw[: starts[-1]]]
    wrong = np.concatenate(([0], np.cumsum(letters == 255)))
    bad = (wrong[starts[1:]] > wrong[starts[:-1]]) | (size % 4 == 1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise EvaluationError(
            f"unbase64({texts[row].as_py()!r}) is not written in base 64",
            function="unbase64",
            row=row,
        )
    return from_base64(bare)


def from_base64(texts: pa.Array) -> pa.Array:
    """Read text that is written in base 64; what else there is must be left out or counts as A."""
    bare = pc.utf8_rtrim(texts, "=")
    starts, raw = _bytes(bare)
    size = np.diff(starts)
    letters = _UNBASE64[raw[: starts[-1]]]
    blocks = (size + 3) // 4
    ends = np.concatenate(([0], np.cumsum(blocks)))
    padded = np.zeros(ends[-1] * 4, np.uint8)
    padded[np.arange(len(letters)) + np.repeat(ends[:-1] * 4 - starts[:-1], size)] = letters
    a, b, c, d = (padded[number::4] for number in range(4))
    data = np.stack([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d], axis=1).ravel()
    stops = ends[:-1] * 3 + size * 3 // 4
    found = join_bytes(data, ends[:-1] * 3, stops, pa.binary())
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.binary()))


text_function(
    "unbase64(text) -> BYTES", "Read bytes in base 64.", [text], _unbase64,
    gives=BYTES, fallible=True,
)  # fmt: skip

# Numbers as text


def _format_number(call: Written) -> Expression:
    _, digits = call.exactly(2)
    value = number.taken(call, 0)
    if not isinstance(digits, Literal) or type(digits.value) is not int:
        raise QueryError("the digits of format_number must be a constant INT")
    if value.type.root in INTEGERS:
        value = cast_to(value, DataType("DECIMAL", precision=19, scale=0))
    pair = value, cast_to(digits, INT)
    nullable = any_nullable(pair) or digits.value < 0
    return Call(STRING.with_nullable(nullable), "format_number", pair)


def _formatted_float(value: float, digits: int) -> str:
    """Write a float, rounded by the exact value that its bits have."""
    said = format(value, f",.{digits}f")
    return {"nan": "NaN", "inf": "∞", "-inf": "-∞"}.get(said, said)


@TEXT.kernel(
    "format_number(number, digits INT) -> STRING",
    "Write a number with commas between thousands, rounded to digits after the point.",
    _format_number,
)
def _formatted(call: Call, values: Sequence[Value], rows: int) -> Value:
    digits = values[1].as_py()
    if digits is None or digits < 0:
        return pa.scalar(None, pa.string())
    array = as_array(values[0], rows)
    if pa.types.is_floating(array.type):
        return by_distinct(array, lambda each: _formatted_float(each, digits), pa.string(), rows)
    scale = array.type.scale
    wide = array.cast(pa.decimal256(decimals.WIDE, scale))
    near = pc.abs(decimals.rounded(wide, digits, "half_to_even"))
    kind = DataType("DECIMAL", precision=38, scale=min(digits, 37))
    texts = write(near.cast(pa.decimal256(decimals.WIDE, min(digits, 37))), kind)
    parts = pc.extract_regex(texts, r"^(?P<whole>\d+)(?P<rest>.*)$")
    groups = pc.replace_substring_regex(pc.utf8_reverse(parts.field("whole")), r"(\d{3})", r"\1,")
    whole = pc.utf8_ltrim(pc.utf8_reverse(groups), ",")
    sign = pc.if_else(pc.less(array, zero(array.type)), "-", "")
    found = pc.binary_join_element_wise(sign, whole, parts.field("rest"), "")
    return pc.if_else(array.is_valid(), found, pa.scalar(None, pa.string()))


def _flink_text(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, kind = values[0], call.arguments[0].type
    if kind.root == "BOOLEAN":
        return pc.if_else(value, "TRUE", "FALSE")
    array = as_array(value, rows)
    texts = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())
    digits = {"ms": 3, "us": 6, "ns": 9}[array.type.unit]
    precision = kind.precision or 0
    cut = digits - precision if precision else digits + 1
    return pc.utf8_slice_codeunits(texts, 0, -cut) if cut else texts


def _spark_flink_text(call: Call, arguments: Sequence[str]) -> str:
    kind = call.arguments[0].type
    if kind.root == "BOOLEAN":
        return f"upper(CAST({arguments[0]} AS STRING))"
    fraction = "." + "S" * kind.precision if kind.precision else ""
    return f"date_format({arguments[0]}, 'yyyy-MM-dd HH:mm:ss{fraction}')"


TEXT.infallible.add_inner(
    "flink_text",
    "Write booleans in capitals, and timestamps with all digits of their precision.",
    _flink_text,
    lambda arguments: STRING.with_nullable(arguments[0].type.nullable),
    spark=_spark_flink_text,
)


# Sound

_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230120022455012623010202", strict=True))


def _sound(value: str) -> str:
    """Give the first letter and three digits for the consonants after it."""
    first = value[:1].upper()
    if first not in _SOUNDS or not value[:1].isascii():
        return value
    code, last = first, _SOUNDS[first]
    for letter in value[1:]:
        digit = _SOUNDS.get(letter.upper()) if letter.isascii() else None
        if letter.upper() in ("H", "W"):
            continue
        if digit is not None and digit != "0" and digit != last:
            code += digit
        last = digit or "0"
        if len(code) == 4:
            break
    return code.ljust(4, "0")


_word = of_types("text", *STRINGS)


def _soundex(call: Call, values: Sequence[Value], rows: int) -> Value:
    return by_distinct(values[0], _sound, pa.string(), rows)


text_function(
    "soundex(text) -> STRING", "Give the code of how an English word sounds.", [_word],
    _soundex,
)  # fmt: skip


# Flink's names


def _from_base64(call: Written) -> Expression:
    return cast_to(function.resolve("unbase64", call.exactly(1), call.dialect), STRING)


def _to_base64(call: Written) -> Expression:
    return function.resolve("base64", call.exactly(1), call.dialect)


for _name, _about, _resolve in (
    ("to_base64", "Write text in base 64.", _to_base64),
    ("from_base64", "Read text that is written in base 64.", _from_base64),
):
    TEXT.only(Dialect.FLINK).alias(f"{_name}(text) -> STRING", _about, _resolve)
