"""Functions that look at the kinds of characters: masks, check digits, what text consists of."""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import BOOLEAN, STRING, is_null_literal
from pkray.relational.functions.function import NO_SPARK, Family, Value, Written
from pkray.relational.functions.signatures import constant, takes, text
from pkray.relational.functions.text.slices import code_points, spelled
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal

TEXT = Family("text")


def _by_character(points: Any, kind_of: Callable[[str], int]) -> Any:
    """Give each code point a number, computed once for each distinct one."""
    distinct, places = np.unique(points, return_inverse=True)
    return np.array([kind_of(chr(each)) for each in distinct.tolist()], np.int64)[places]


# Masks

_MASKS = "X", "x", "n", None
_KINDS = "capital letters", "small letters", "digits", "other characters"


def _mask(call: Written) -> Expression:
    _, *said = call.between(1, 5)
    value = text.taken(call, 0)
    letters = list(_MASKS)
    for place, each in enumerate(said):
        letter = None if is_null_literal(each) else constant("mask", each, f"argument {place + 2}")
        if letter is not None and (not isinstance(letter, str) or len(letter) != 1):
            raise QueryError(
                f"mask writes one character, or NULL for none, for {_KINDS[place]}, not {letter!r}",
                function="mask",
            )
        letters[place] = letter
    return Call(
        STRING.with_nullable(value.type.nullable),
        "mask",
        (value, *(Literal(STRING.with_nullable(each is None), each) for each in letters)),
    )


def _kind(letter: str) -> int:
    """Tell capitals (0), small letters, digits and others (3), to which Java counts surrogates."""
    if ord(letter) > 0xFFFF:
        return 3
    return 0 if letter.isupper() else 1 if letter.islower() else 2 if letter.isdecimal() else 3


def _masked(call: Call, values: Sequence[Value], rows: int) -> Value:
    texts = as_array(values[0], rows)
    letters = [each.as_py() for each in values[1:]]
    codes = np.array([-1 if each is None else ord(each) for each in letters])
    points, starts = code_points(texts)
    masks = codes[_by_character(points, _kind)]
    twice = (masks >= 0) & (points > 0xFFFF)
    return spelled(np.where(masks < 0, points, masks), 1 + twice, starts, texts)


TEXT.infallible.add(
    "mask(text [, capital [, small [, digit [, other]]]]) -> STRING",
    "Write X for capital letters, x for small ones, n for digits, or other characters than these.",
    _mask,
    _masked,
)


def _luhn(call: Call, values: Sequence[Value], rows: int) -> Value:
    texts = as_array(values[0], rows)
    points, starts = code_points(texts)
    size = np.diff(starts)
    row = np.repeat(np.arange(len(texts)), size)
    digits = _by_character(points, lambda each: unicodedata.decimal(each, -1))
    doubled = digits << ((starts[row + 1] - 1 - np.arange(len(points))) & 1)
    sums = np.bincount(row, doubled // 10 + doubled % 10, len(texts)).astype(np.int64)
    wrong = np.bincount(row, digits < 0, len(texts)) > 0
    good = (size > 0) & ~wrong & (sums % 10 == 0)
    return pa.array(good, mask=np.asarray(texts.is_null()))


text_function(
    "luhn_check(digits STRING) -> BOOLEAN",
    "Whether the last of some digits is the check digit of the others by Luhn's algorithm.",
    [text], _luhn, gives=BOOLEAN,
)  # fmt: skip


# Flink's


def _matching(pattern: str) -> Any:
    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        return pc.fill_null(pc.match_substring_regex(values[0], pattern), False)

    return kernel


_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEX = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
for _name, _about, _pattern in (
    ("is_alpha", "Whether text consists of letters.", r"\A\pL+\z"),
    ("is_digit", "Whether text consists of digits.", r"\A\p{Nd}+\z"),
    (
        "is_decimal",
        "Whether text is a number as Java reads one.",
        rf"\A[\x00- ]*[+-]?(?:NaN|Infinity|(?:{_DIGITS}|{_HEX})[fFdD]?)[\x00- ]*\z",
    ),
):
    TEXT.only(Dialect.FLINK).infallible.add(
        f"{_name}(text) -> BOOLEAN",
        f"{_about[:-1]}; not for NULL and ''.",
        takes(text, gives=BOOLEAN, nullable=False),
        _matching(_pattern),
        spark=NO_SPARK,
    )
