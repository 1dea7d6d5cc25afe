"""Functions of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING, untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Value, never
from pkray.relational.functions.signatures import check_count, integer, text
from pkray.relational.functions.text.patterns import match_regex, regex
from pkray.relational.functions.text.slices import characters_before, per_constants
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import as_array, by_distinct, from_numpy
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

TEXT = Family("text")


def named_group(pattern: str, wanted: int) -> str:
    """Name one group of a regular expression ``part``, and let the others not capture.

    Args:
        wanted: the group's number; 0: all that matches.

    Raises:
        EvaluationError: there is no such group.
    """
    result, number, index, in_class = [], 0, 0, False
    while index < len(pattern):
        letter = pattern[index]
        if letter == "\\":
            result.append(pattern[index : index + 2])
            index += 2
            continue
        if letter == "[" and not in_class:
            in_class = True
        elif letter == "]" and in_class and pattern[index - 1] != "[":
            in_class = False
        elif letter == "(" and not in_class:
            named = re.match(r"\(\?P?<(?![=!])\w+>", pattern[index:])
            if named or pattern[index + 1 : index + 2] != "?":
                number += 1
                letter = "(?P<part>" if number == wanted else "(?:"
                index += len(named[0]) - 1 if named else 0
        result.append(letter)
        index += 1
    if wanted > number or wanted < 0:
        raise EvaluationError(
            f"the regular expression {pattern!r} has {number} groups; there is no group {wanted}",
            function="regexp_extract",
        )
    return "".join(result) if wanted else f"(?P<part>{''.join(result)})"


def _regexp_extract(call: Call, values: Sequence[Value], rows: int) -> Value:
    size = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows

    def extract(some: Sequence[Value], count: int) -> Value:
        array, pattern = as_array(some[0], count), some[1].as_py()
        group = some[2].as_py() if len(some) > 2 else 1
        written = named_group(pattern, group)
        found = regex(call, pattern, lambda: pc.extract_regex(array, written))
        part = pc.fill_null(pc.struct_field(found, 0), "")
        return pc.if_else(array.is_valid(), part, pa.scalar(None, pa.string()))

    found = per_constants(values, range(1, len(values)), extract, pa.string(), size)
    return found if isinstance(found, pa.Scalar) or size == rows else found[0]


text_function(
    "regexp_extract", "regexp_extract(text, pattern [, group INT]) -> STRING",
    "Give what a group (1 by default; 0: all) of a regular expression matches; '' where none does.",
    [text, text, integer], _regexp_extract, least=2, fallible=True,
)  # fmt: skip


def _replacement(new: str) -> str:
    """Write Java's ``$1`` as ``\\1``."""
    result, index = [], 0
    while index < len(new):
        letter = new[index]
        following = new[index + 1 : index + 2]
        if letter == "\\" and following:
            result.append("\\\\" if following == "\\" else following)
            index += 1
        elif letter == "$" and following.isdigit():
            result.append("\\" + following)
            index += 1
        else:
            result.append(letter)
        index += 1
    return "".join(result)


def _regexp_replace(call: Call, values: Sequence[Value], rows: int) -> Value:
    def replace(some: Sequence[Value], count: int) -> Value:
        pattern, new = some[1].as_py(), _replacement(some[2].as_py())
        return regex(call, pattern, lambda: pc.replace_substring_regex(some[0], pattern, new))

    return per_constants(values, [1, 2], replace, pa.string(), rows)


text_function(
    "regexp_replace", "regexp_replace(text, pattern, new) -> STRING",
    "Put new text ($1 is the first group) in the place of all that a regular expression matches.",
    [text, text, text], _regexp_replace, fallible=True,
)  # fmt: skip


def _regexp_count(call: Call, values: Sequence[Value], rows: int) -> Value:
    def count_matches(some: Sequence[Value], count: int) -> Value:
        pattern = some[1].as_py()
        return regex(call, pattern, lambda: pc.count_substring_regex(some[0], pattern))

    return per_constants(values, [1], count_matches, pa.int32(), rows)


text_function(
    "regexp_count", "regexp_count(text, pattern) -> INT",
    "Count the matches of a regular expression.", [text, text], _regexp_count, gives=INT,
    fallible=True,
)  # fmt: skip


# Matches


def _regexp_substr(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("regexp_substr", arguments, 2, 2)
    whole = Literal(INT.with_nullable(False), 0)
    matches = function.resolve("rlike", arguments, dialect)
    found = function.resolve("regexp_extract", (*arguments, whole), dialect)
    return case_of([matches], [found, untyped_null()], dialect)


TEXT.add(
    "regexp_substr",
    "regexp_substr(text, pattern) -> STRING",
    "Give the first match of a regular expression; NULL where there is none.",
    _regexp_substr,
    never,
)


def _regexp_instr(call: Call, values: Sequence[Value], rows: int) -> Value:
    def locate(some: Sequence[Value], count: int) -> Value:
        array, pattern = as_array(some[0], count), some[1].as_py()
        at = regex(call, pattern, lambda: pc.find_substring_regex(array, pattern))
        before = characters_before(array, at) + 1
        numbers = np.where(at.fill_null(-1).to_numpy() < 0, 0, before)
        return from_numpy(numbers, [array], pa.int32(), count)

    size = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows
    return per_constants(values, [1], locate, pa.int32(), size)


text_function(
    "regexp_instr", "regexp_instr(text, pattern) -> INT",
    "Give the position (from 1) of the first match of a regular expression; 0 where there is none.",
    [text, text], _regexp_instr, gives=INT, fallible=True,
)  # fmt: skip


def _regexp_extract_all(call: Call, values: Sequence[Value], rows: int) -> Value:
    kind = pa.list_(pa.string())

    def extract(some: Sequence[Value], count: int) -> Value:
        pattern = named_group(some[1].as_py(), some[2].as_py() if len(some) > 2 else 1)
        regex(call, pattern, lambda: pc.match_substring_regex(pa.array([""]), pattern))
        compiled = re.compile(pattern)

        def parts(value: str) -> list[str]:
            return [match["part"] or "" for match in compiled.finditer(value)]

        return by_distinct(some[0], parts, kind, count)

    return per_constants(values, range(1, len(values)), extract, kind, rows)


text_function(
    "regexp_extract_all", "regexp_extract_all(text, pattern [, group INT]) -> ARRAY<STRING>",
    "Give what a group (1 by default; 0: all) of each match of a regular expression is.",
    [text, text, integer], _regexp_extract_all, gives=DataType("ARRAY", element=STRING), least=2,
    fallible=True,
)  # fmt: skip


def similar_regex(pattern: str, escape: str) -> str:
    """Write a pattern of SIMILAR TO as a regular expression."""
    result, index, in_class = [], 0, False
    while index < len(pattern):
        letter = pattern[index]
        if escape and letter == escape and index + 1 < len(pattern):
            index += 1
            result.append(re.escape(pattern[index]))
        elif in_class:
            named = re.match(r"\[:[A-Za-z]+:\]", pattern[index:])
            result.append(named[0].lower() if named else letter)
            index += len(named[0]) - 1 if named else 0
            in_class = named is not None or letter != "]"
        elif letter == "[":
            in_class = True
            result.append(letter)
        elif letter in "%_":
            result.append(".*" if letter == "%" else ".")
        else:
            plain = letter in "|*+?{}()," or letter.isalnum()
            result.append(letter if plain else re.escape(letter))
        index += 1
    return rf"(?s)\A(?:{''.join(result)})\z"


def _similar(call: Call, values: Sequence[Value], rows: int) -> Value:
    def match(some: Sequence[Value], count: int) -> Value:
        pattern = similar_regex(some[1].as_py(), some[2].as_py() if len(some) > 2 else "")
        return match_regex(call, some[0], pattern)

    return per_constants(values, range(1, len(values)), match, pa.bool_(), rows)


def _similar_spark(call: Call, arguments: Sequence[str]) -> str:
    raise NotImplementedError


text_function(
    "similar_to", "text SIMILAR TO pattern [ESCAPE character] -> BOOLEAN",
    "Whether text is what a pattern of SQL with %, _, |, *, +, [] and () says.",
    [text, text, text], _similar, gives=BOOLEAN, least=2, spark=_similar_spark, fallible=True,
)  # fmt: skip
