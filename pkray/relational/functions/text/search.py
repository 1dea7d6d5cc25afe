"""Functions that look for parts of text, replace them, and split text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING, cast_to, untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Value, Written, typed_call
from pkray.relational.functions.signatures import binary, integer, takes, text
from pkray.relational.functions.text import slices
from pkray.relational.functions.text.text_function import mask_of, text_function
from pkray.relational.functions.values import as_array, from_numpy, numpy_of
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import BINARIES

TEXT = Family("text")

_FAR = constants.scalar(2**31 - 1, pa.int64())


def _found(texts: Value, wanted: Value, rows: int) -> Value:
    """Give the position (INT, from 1) of text in text; 0 where it is not there."""

    def locate(some: Sequence[Value], count: int) -> Value:
        array = as_array(some[0], count)
        sought = some[1].as_py()
        if not sought:
            return pc.if_else(array.is_valid(), pa.scalar(1, pa.int32()), _NO_INT)
        at = pc.find_substring(array, sought)
        before = slices.characters_before(array, at) + 1
        numbers = np.where(at.fill_null(-1).to_numpy() < 0, 0, before)
        return from_numpy(numbers, [array], pa.int32(), count)

    return slices.per_constants([texts, wanted], [1], locate, pa.int32(), rows)


_NO_INT = constants.null(pa.int32())


def _locate(call: Call, values: Sequence[Value], rows: int) -> Value:
    wanted, value = values[:2]
    if len(values) == 2:
        return _found(value, wanted, rows)
    start = pc.fill_null(values[2], 0)
    begin = pc.subtract(start, pa.scalar(1, pa.int32())).cast(pa.int64())
    rest = slices.sliced(value, begin, _FAR, rows)
    at = as_array(_found(rest, wanted, rows), rows)
    none, first = pa.scalar(0, pa.int32()), pa.scalar(1, pa.int32())
    moved = pc.if_else(pc.greater(at, none), pc.add(at, begin.cast(pa.int32())), at)
    moved = pc.if_else(pc.equal(slices.lengths_of(wanted), none), first, moved)
    moved = pc.if_else(pc.less(start, first), none, moved)
    moved = pc.if_else(pc.is_null(at), at, moved)
    return pc.if_else(pc.is_null(values[2]), none, moved)


text_function(
    "locate(part, text [, from INT]) -> INT",
    "Give the position (from 1) of a part in text; 0 where it is not there.",
    [text, text, integer], _locate, gives=INT, least=2, synonyms=("position", "charindex"),
)  # fmt: skip


def _instr(call: Written) -> Expression:
    return function.resolve("locate", call.exactly(2)[::-1], call.dialect)


TEXT.alias(
    "instr(text, part) -> INT",
    "Give the position (from 1) of a part in text; 0 where it is not there.",
    _instr,
)


def _has(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, part = values
    if isinstance(part, pa.Scalar):
        if not part.is_valid:
            return pa.scalar(None, pa.bool_())
        return _CONSTANT[call.function](value, part.as_py())
    if call.function == "contains":
        return pc.greater(_found(value, part, rows), 0)
    array, size = as_array(value, rows), slices.lengths_of(part).cast(pa.int64())
    zero = pa.scalar(0, pa.int64())
    if call.function == "startswith":
        return pc.equal(
            slices.sliced(array, pc.if_else(pc.is_valid(size), zero, size), size, rows), part
        )
    begin = pc.subtract(slices.lengths_of(array).cast(pa.int64()), size)
    end = slices.sliced(array, begin, pc.if_else(pc.is_valid(size), _FAR, size), rows)
    return pc.and_(pc.equal(end, part), pc.greater_equal(begin, zero))


def _tells(call: Written) -> Expression:
    both = all(each.type.root in BINARIES for each in call.exactly(2))
    part = binary if both else text
    return takes(part, part, gives=BOOLEAN)(call)


_CONSTANT: dict[str, Callable[[Value, Any], Value]] = {
    "contains": pc.match_substring,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
}
for _name, _about, _synonym in (
    ("contains", "Tell whether text has a part.", "contains_substr"),
    ("startswith", "Tell whether text begins with a part.", "starts_with"),
    ("endswith", "Tell whether text ends with a part.", "ends_with"),
):
    TEXT.infallible.add(
        f"{_name}(text | bytes, part) -> BOOLEAN", _about, _tells, _has, synonyms=(_synonym,)
    )


def _replace(call: Call, values: Sequence[Value], rows: int) -> Value:
    def replace(some: Sequence[Value], count: int) -> Value:
        sought = some[1].as_py()
        new = some[2].as_py() if len(some) > 2 else ""
        return pc.replace_substring(some[0], sought, new) if sought else some[0]

    return slices.per_constants(values, range(1, len(values)), replace, pa.string(), rows)


text_function(
    "replace(text, part [, new]) -> STRING",
    "Put new text (by default none) in the place of each part.", [text, text, text], _replace,
    least=2,
)  # fmt: skip


def _translate(call: Call, values: Sequence[Value], rows: int) -> Value:
    def translate(some: Sequence[Value], count: int) -> Value:
        old, new = some[1].as_py(), some[2].as_py()
        array = as_array(some[0], count)
        letters = sorted(set(old))
        if not letters:
            return array
        targets = [new[old.index(each) :][:1] for each in letters]
        codes = [ord(each) if each else -1 for each in targets]
        known = np.array([ord(each) for each in letters])
        points, starts = slices.code_points(array)
        at = np.minimum(np.searchsorted(known, points), len(known) - 1)
        points = np.where(known[at] == points, np.array(codes)[at], points)
        return slices.spelled(points, (points >= 0).astype(np.int64), starts, array)

    return slices.per_constants(values, [1, 2], translate, pa.string(), rows)


text_function(
    "translate(text, characters, others) -> STRING",
    "Put for each of some characters the one at its place among others, or nothing.",
    [text, text, text], _translate,
)  # fmt: skip


# Splitting


def _split_part(call: Call, values: Sequence[Value], rows: int) -> Value:
    def split(some: Sequence[Value], count: int) -> Value:
        array = as_array(some[0], count)
        delimiter = some[1].as_py()
        whole = pa.ListArray.from_arrays(
            pa.array(np.arange(count + 1, dtype=np.int32)), array, mask=mask_of(array)
        )
        lists = pc.split_pattern(array, delimiter) if delimiter else whole
        wanted = numpy_of(as_array(some[2], count).fill_null(1)).astype(np.int64)
        if (numpy_of(array.is_valid()) & (wanted == 0)).any():
            raise EvaluationError(
                "split_part has no part 0: the first is 1, the last -1", function="split_part"
            )
        offsets = lists.offsets.to_numpy().astype(np.int64)
        counts = np.diff(offsets)
        index = np.where(wanted > 0, wanted - 1, counts + wanted)
        there = (index >= 0) & (index < counts)
        places = pa.array(np.where(there, offsets[:-1] + index, 0), mask=~there)
        taken = lists.values.take(places) if len(lists.values) else pa.nulls(count, pa.string())
        missing = pc.or_(array.is_null(), as_array(some[2], count).is_null())
        return pc.if_else(missing, pa.scalar(None, pa.string()), pc.fill_null(taken, ""))

    return slices.per_constants(values, [1], split, pa.string(), rows)


text_function(
    "split_part(text, delimiter, part INT) -> STRING",
    "Give one part (from 1; negative: from the end) of text that is split at a delimiter.",
    [text, text, integer], _split_part, fallible=True,
)  # fmt: skip


def _substring_index(call: Call, values: Sequence[Value], rows: int) -> Value:
    def cut(some: Sequence[Value], count: int) -> Value:
        delimiter, wanted = some[1].as_py(), some[2].as_py()
        array = as_array(some[0], count)
        if not delimiter or not wanted:
            return pc.if_else(array.is_valid(), "", pa.scalar(None, pa.string()))
        lists = pc.split_pattern(array, delimiter)
        offsets = lists.offsets.to_numpy().astype(np.int64)
        counts = np.diff(offsets)
        kept = np.minimum(counts, abs(wanted))
        starts = offsets[:-1] if wanted > 0 else offsets[1:] - kept
        ends = np.concatenate(([0], np.cumsum(kept)))
        places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], kept)
        some_parts = lists.values.take(pa.array(places))
        lists = pa.ListArray.from_arrays(
            pa.array(ends.astype(np.int32)), some_parts, mask=mask_of(array)
        )
        return pc.binary_join(lists, delimiter)

    return slices.per_constants(values, [1, 2], cut, pa.string(), rows)


text_function(
    "substring_index(text, delimiter, count INT) -> STRING",
    "Take text up to the count-th delimiter (negative: counted from the end).",
    [text, text, integer], _substring_index,
)  # fmt: skip


# Distance


def _levenshtein(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Fill the table of distances a cell at a time, for all rows at once."""
    (one, one_size), (other, other_size) = (_code_points(as_array(each, rows)) for each in values)
    previous = np.tile(np.arange(other.shape[1] + 1), (rows, 1))
    result = np.where(one_size == 0, other_size, 0)
    for row in range(one.shape[1]):
        current = np.empty_like(previous)
        current[:, 0] = row + 1
        for column in range(other.shape[1]):
            same = one[:, row] == other[:, column]
            current[:, column + 1] = np.minimum(
                np.minimum(current[:, column], previous[:, column + 1]) + 1,
                previous[:, column] + ~same,
            )
        previous = current
        done = one_size == row + 1
        result[done] = previous[done, other_size[done]]
    return from_numpy(result, values, pa.int32(), rows)


def _code_points(texts: pa.Array) -> tuple[Any, Any]:
    sizes = pc.utf8_length(texts).fill_null(0).to_numpy()
    wide = np.zeros((len(texts), int(sizes.max(initial=0))), np.int32)
    if wide.size:
        points = "".join(texts.drop_null().to_pylist()).encode("utf-32-le")
        wide[np.arange(wide.shape[1]) < sizes[:, None]] = np.frombuffer(points, np.int32)
    return wide, sizes


text_function(
    "levenshtein(text, text) -> INT",
    "Count the characters to change, put in or take out to get from one text to another.",
    [text, text], _levenshtein, gives=INT,
)  # fmt: skip


# Lists in text


def _find_in_set(call: Written) -> Expression:
    _, said = call.exactly(2)
    comma = Literal(STRING.with_nullable(False), ",")
    parts = function.resolve("split", (said, comma), call.dialect)
    value = text.taken(call, 0)
    return cast_to(function.resolve("array_position", (parts, value), call.dialect), INT)


TEXT.alias(
    "find_in_set(text, list) -> INT",
    "Give the place (from 1) of text in a list such as 'a,b,c'; 0 where it is not there.",
    _find_in_set,
)


def _elt(call: Written) -> Expression:
    _, *given = call.between(2, None)
    part = binary if all(each.type.root in BINARIES for each in given) else text
    place, *texts = call.taken(integer, rest=part)
    values = function.resolve("array", tuple(texts), call.dialect)
    return typed_call("elt_item", values, place)


TEXT.alias(
    "elt(n INT, text | bytes, …) -> STRING | BYTES",
    "Give the n-th of some texts, or of some BYTES, from 1.",
    _elt,
)


_EMPTY = Literal(STRING.with_nullable(False), "")


def _split_index(call: Written) -> Expression:
    value, separator, place = call.taken(text, text, integer)
    if isinstance(separator, Literal) and separator.value:
        plain: Expression = replace(separator, value=re.escape(separator.value))
    else:
        signs = [Literal(STRING.with_nullable(False), sign) for sign in ("\\Q", "\\E")]
        plain = function.resolve("concat", (signs[0], separator, signs[1]), call.dialect)
    parts = function.resolve("split", (value, plain), call.dialect)
    first, nothing = (Literal(INT.with_nullable(False), number) for number in (1, 0))
    after = function.resolve("add", (place, first), call.dialect)
    found = function.resolve("try_element_at", (parts, after), call.dialect)
    missing = function.resolve("less", (place, nothing), call.dialect)
    empty = function.resolve("equal", (value, _EMPTY), call.dialect)
    return case_of([missing, empty], [untyped_null(), untyped_null(), found], call.dialect)


TEXT.only(Dialect.FLINK).alias(
    "split_index(text, separator, place INT) -> STRING",
    "Give a part of divided text, counted from 0; NULL where there is none.",
    _split_index,
)
