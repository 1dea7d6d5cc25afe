"""Functions of regular expressions: Java's, matched by RE2 in linear time."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING, untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Parameter, Resolver, Value, Written
from pkray.relational.functions.signatures import Gives, integer, takes, text, text_literal
from pkray.relational.functions.text import matches
from pkray.relational.functions.text.java_patterns import Pattern
from pkray.relational.functions.text.matches import (
    MOST_GROUPS,
    Replacement,
    pattern_of,
    refuse_pattern,
)
from pkray.relational.functions.text.patterns import match_regex
from pkray.relational.functions.text.slices import per_constants, sliced
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

TEXT = Family("text")
_TEXTS = DataType("ARRAY", element=STRING)
_PARTS = DataType("ARRAY", element=STRING.with_nullable(False))


def _with_pattern(resolve: Resolver) -> Resolver:
    """Refuse a constant pattern that cannot be used when a call is bound."""

    def resolved(call: Written) -> Expression:
        found = resolve(call)
        assert isinstance(found, Call)
        refuse_pattern(call.name, found.arguments[1])
        return found

    return resolved


def _by_pattern(
    kind: pa.DataType, compute: Callable[[pa.Array, Pattern, Sequence[object]], pa.Array]
) -> function.Kernel:
    """Make a kernel that computes the rows of each pattern (and its further arguments) at once."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        def some(chosen: Sequence[Value], count: int) -> Value:
            texts = as_array(chosen[0], count)
            pattern = pattern_of(call.function, chosen[1].as_py())
            return compute(texts, pattern, [each.as_py() for each in chosen[2:]])

        return per_constants(values, range(1, len(values)), some, kind, rows)

    return kernel


def _regex_function(
    usage: str,
    about: str,
    kernel: function.Kernel,
    *further: Parameter,
    gives: Gives = STRING,
    least: int = 2,
    synonyms: tuple[str, ...] = (),
    spark: function.SparkText | None = None,
    name: str = "",
) -> None:
    plain = takes(text, text, *further, gives=gives, least=least)
    TEXT.add(usage, about, _with_pattern(plain), kernel, spark=spark, synonyms=synonyms, name=name)


def _checked_group(pattern: Pattern, texts: pa.Array, group: int, name: str) -> bool:
    """Whether there is a group.

    Raises:
        EvaluationError: there is none, and some text matches.
    """
    if group in pattern.unlike:
        raise EvaluationError(
            f"group {group} of {pattern.text!r} repeats what may be empty, and which turn it keeps "
            "is not defined; let the repeated part match at least one character",
            function=name,
        )
    if 0 <= group <= pattern.groups:
        return True
    if pc.any(matches.matching(texts, pattern)).as_py():
        raise EvaluationError(
            f"the regular expression {pattern.text!r} has {pattern.groups} groups; there is no "
            f"group {group}; write one of 0 (all that matches) to {pattern.groups}",
            function=name,
        )
    return False


def _extracted(texts: pa.Array, pattern: Pattern, rest: Sequence[object]) -> pa.Array:
    group = int(str(rest[0])) if rest else 1
    if not _checked_group(pattern, texts, group, "regexp_extract"):
        found = pa.nulls(len(texts), pa.string())
    else:
        found = matches.first_parts(texts, pattern, group)
    return pc.if_else(texts.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _extract(call: Written) -> Expression:
    """Type it; Flink extracts all by default, and NULL where nothing matches."""
    if call.dialect is Dialect.FLINK and len(call.arguments) == 2:
        call = call._replace(arguments=(*call.arguments, Literal(INT.with_nullable(False), 0)))
    found = _with_pattern(takes(text, text, integer, gives=STRING, least=2))(call)
    if call.dialect is Dialect.SPARK:
        return found
    matched = function.resolve("rlike", call.arguments[:2], call.dialect)
    return case_of([matched], [found, untyped_null()], call.dialect)


TEXT.add(
    "regexp_extract(text, pattern [, group INT]) -> STRING",
    "Give what a group (1 by default; 0: all) of a regular expression matches; '' where none does.",
    _extract,
    _by_pattern(pa.string(), _extracted),
)


def _replacement(new: str, pattern: Pattern) -> Replacement:
    """Read Java's ``$1``, ``${name}`` and backslashes.

    Raises:
        EvaluationError: it names no group of the pattern.
    """
    pieces: list[str | int] = []
    place = 0
    while place < len(new):
        group = re.compile(r"\$(?:([0-9])|\{([A-Za-z][A-Za-z0-9]*)\})", re.A).match(new, place)
        if group and group[1]:
            number = int(group[1])
            place = group.end()
            while new[place : place + 1].isdecimal() and new[place].isascii():
                longer = number * 10 + int(new[place])
                if longer > pattern.groups:
                    break
                number, place = longer, place + 1
            if number > pattern.groups:
                raise _bad_replacement(new, pattern, f"${number} names no group")
            pieces.append(number)
        elif group:
            if group[2] not in pattern.names:
                raise _bad_replacement(new, pattern, f"{group[0]} names no group")
            pieces.append(pattern.names[group[2]])
            place = group.end()
        elif new[place] == "$":
            raise _bad_replacement(new, pattern, "'$' is before no number; write \\$")
        elif new[place] == "\\":
            if place + 1 == len(new):
                raise _bad_replacement(new, pattern, "nothing is after '\\'; write \\\\")
            pieces.append(new[place + 1])
            place += 2
        else:
            pieces.append(new[place])
            place += 1
    found = Replacement(tuple(pieces))
    for each in found.groups:
        _checked_group(pattern, pa.nulls(0, pa.string()), each, "regexp_replace")
    if len(found.groups) > MOST_GROUPS:
        raise _bad_replacement(new, pattern, f"it names more than {MOST_GROUPS} groups")
    return found


def _bad_replacement(new: str, pattern: Pattern, problem: str) -> EvaluationError:
    return EvaluationError(
        f"regexp_replace cannot put {new!r} in the place of {pattern.text!r}, which has "
        f"{pattern.groups} groups: {problem}",
        function="regexp_replace",
    )


def _replaced(texts: pa.Array, pattern: Pattern, rest: Sequence[object]) -> pa.Array:
    try:
        new = _replacement(str(rest[0]), pattern)
    except EvaluationError:
        if pc.any(matches.matching(texts, pattern)).as_py():
            raise
        return texts
    place = int(str(rest[1])) if len(rest) > 1 else 1
    if place == 1:
        return matches.replaced(texts, pattern, new)
    if place < 1:
        raise EvaluationError(
            f"regexp_replace begins at position {place}; the first is 1", function="regexp_replace"
        )
    begin, far = pa.scalar(place - 1, pa.int64()), pa.scalar(2**31 - 1, pa.int64())
    before = sliced(texts, pa.scalar(0, pa.int64()), begin, len(texts))
    after = matches.replaced(sliced(texts, begin, far, len(texts)), pattern, new)
    inside = pc.greater(pc.utf8_length(texts), place - 1)
    return pc.if_else(inside, pc.binary_join_element_wise(before, after, ""), texts)


def _replace(call: Written) -> Expression:
    """Type it; in Flink's new text nothing but itself is meant."""
    if call.dialect is Dialect.FLINK and len(call.arguments) == 3:
        new = text.taken(call, 2)
        for special in "\\$":
            pair = text_literal(special), text_literal(f"\\{special}")
            new = function.resolve("replace", (new, *pair), call.dialect)
        call = call._replace(arguments=(*call.arguments[:2], new))
    return _with_pattern(takes(text, text, text, integer, gives=STRING, least=3))(call)


TEXT.add(
    "regexp_replace(text, pattern, new [, position INT]) -> STRING",
    "Put new text in the place of all that a regular expression matches; $1 is the first group, "
    "but in flink text like any other.",
    _replace,
    _by_pattern(pa.string(), _replaced),
)
_regex_function(
    "regexp_count(text, pattern) -> INT",
    "Count the matches of a regular expression.",
    _by_pattern(pa.int32(), lambda texts, pattern, rest: matches.counts(texts, pattern)),
    gives=INT,
)  # fmt: skip
_regex_function(
    "text RLIKE pattern -> BOOLEAN",
    "Tell whether a regular expression matches a part of text.",
    _by_pattern(pa.bool_(), lambda texts, pattern, rest: matches.matching(texts, pattern)),
    gives=BOOLEAN, synonyms=("regexp_like", "regexp"),
    spark=lambda call, arguments: f"({arguments[0]} RLIKE {arguments[1]})", name="rlike",
)  # fmt: skip


# Matches


def _regexp_substr(call: Written) -> Expression:
    whole = Literal(INT.with_nullable(False), 0)
    found = function.resolve("regexp_extract", (*call.exactly(2), whole), call.dialect)
    if call.dialect is Dialect.FLINK:
        return found
    return function.resolve("nullif", (found, text_literal("")), call.dialect)


TEXT.alias(
    "regexp_substr(text, pattern) -> STRING",
    "Give the first match of a regular expression; NULL where there is none, or an empty one.",
    _regexp_substr,
)
_regex_function(
    "regexp_instr(text, pattern [, group INT]) -> INT",
    "Give the position (from 1) of the first match of a regular expression; 0 where there is none.",
    _by_pattern(pa.int32(), lambda texts, pattern, rest: matches.first_places(texts, pattern)),
    integer, gives=INT,
)  # fmt: skip


def _all_extracted(texts: pa.Array, pattern: Pattern, rest: Sequence[object]) -> pa.Array:
    group = int(str(rest[0])) if rest else 1
    if _checked_group(pattern, texts, group, "regexp_extract_all"):
        return matches.all_parts(texts, pattern, group)
    offsets = pa.array(np.zeros(len(texts) + 1, np.int32))
    mask = texts.is_null() if texts.null_count else None
    return pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), mask=mask)


_regex_function(
    "regexp_extract_all(text, pattern [, group INT]) -> ARRAY<STRING>",
    "Give what a group (1 by default; 0: all) of each match of a regular expression is.",
    _by_pattern(pa.list_(pa.string()), _all_extracted), integer, gives=_TEXTS,
)  # fmt: skip


# Splitting


def _split(call: Call, values: Sequence[Value], rows: int) -> Value:
    kind = call.type.arrow

    def parts(texts: pa.Array, pattern: Pattern, rest: Sequence[object]) -> pa.Array:
        limit = int(str(rest[0])) if rest else -1
        return matches.split_at(texts, pattern, limit).cast(kind)

    return _by_pattern(kind, parts)(call, values, rows)


_regex_function(
    "split(text, pattern [, limit INT]) -> ARRAY<STRING>",
    "Split text where a regular expression matches.", _split, integer, gives=_PARTS,
)  # fmt: skip


# SQL's own patterns


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


text_function(
    "text SIMILAR TO pattern [ESCAPE character] -> BOOLEAN",
    "Whether text is what a pattern of SQL with %, _, |, *, +, [] and () says.",
    [text, text, text], _similar,
    gives=BOOLEAN, least=2, spark=function.NO_SPARK, fallible=True, name="similar_to",
)  # fmt: skip
