"""Functions of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.coercion import (
    INT,
)
from pkray.relational.functions.function import Value
from pkray.relational.functions.signatures import (
    integer,
    text,
)
from pkray.relational.functions.text.patterns import regex
from pkray.relational.functions.text.slices import (
    per_constants,
)
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call


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
