"""Functions of text and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import decimals, function
from pkray.relational.functions.coercion import (
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    any_nullable,
    cast_to,
    is_null_literal,
)
from pkray.relational.functions.function import NO_SPARK, Function, Resolver, Value, define
from pkray.relational.functions.patterns import regex
from pkray.relational.functions.signatures import (
    Gives,
    Parameter,
    bigint,
    binary,
    check_count,
    integer,
    number,
    takes,
    text,
    text_or_bytes,
    wrong_argument,
)
from pkray.relational.functions.slices import (
    characters_before,
    is_ascii,
    join_bytes,
    lengths_of,
    per_constants,
    sliced,
)
from pkray.relational.functions.values import as_array, from_numpy, numpy_of
from pkray.relational.functions.writing import write
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import BINARIES, INTEGERS, DataType

SPACE = " "


def _of_first(arguments: tuple[Expression, ...]) -> DataType:
    return arguments[0].type


def _text_function(
    name: str,
    usage: str,
    about: str,
    parameters: Sequence[Parameter],
    kernel: Any,
    *,
    gives: Gives = STRING,
    least: int | None = None,
    synonyms: tuple[str, ...] = (),
    nullable: bool | None = None,
    fallible: bool = False,
    spark: Any = None,
) -> None:
    define(
        Function(
            name,
            usage,
            about,
            takes(name, *parameters, gives=gives, least=least, nullable=nullable),
            kernel,
            spark,
            synonyms=synonyms,
            family="text",
            fallible=fallible,
        )
    )


def _plainly(compute: Callable[..., Value]) -> Any:
    return lambda call, values, rows: compute(*values)


# Case, length


def _upper(value: Value) -> Value:
    """Write in capitals; ß has none in one letter."""
    if is_ascii(value):
        return pc.ascii_upper(value)
    return pc.utf8_upper(pc.replace_substring(value, "ß", "SS"))


def _lower(value: Value) -> Value:
    return pc.ascii_lower(value) if is_ascii(value) else pc.utf8_lower(value)


def _initcap(value: Value) -> Value:
    if isinstance(value, pa.Scalar):
        return _initcap(as_array(value, 1))[0]
    words = pc.split_pattern(value, SPACE)
    capitals = pc.utf8_capitalize(words.values)
    return pc.binary_join(
        pa.ListArray.from_arrays(words.offsets, capitals, mask=_mask(value)), SPACE
    )


def _mask(value: pa.Array) -> pa.Array | None:
    return value.is_null() if value.null_count else None


def _octets(value: Value) -> Value:
    return pc.binary_length(value)


_text_function(
    "upper", "upper(text) -> STRING", "Write text in capital letters.", [text],
    _plainly(_upper), synonyms=("ucase",),
)  # fmt: skip
_text_function(
    "lower", "lower(text) -> STRING", "Write text in small letters.", [text],
    _plainly(_lower), synonyms=("lcase",),
)  # fmt: skip
_text_function(
    "initcap", "initcap(text) -> STRING",
    "Begin each word, after a space, with a capital letter, and write the rest in small ones.",
    [text], _plainly(_initcap),
)  # fmt: skip
_text_function(
    "length", "length(text | bytes) -> INT", "Count the characters of text, the bytes of BYTES.",
    [text_or_bytes], _plainly(lengths_of), gives=INT,
    synonyms=("char_length", "character_length", "len"),
)  # fmt: skip
_text_function(
    "octet_length", "octet_length(text | bytes) -> INT", "Count bytes.", [text_or_bytes],
    _plainly(_octets), gives=INT,
)  # fmt: skip
_text_function(
    "bit_length", "bit_length(text | bytes) -> INT", "Count bits.", [text_or_bytes],
    lambda call, values, rows: pc.multiply(pc.binary_length(values[0]), pa.scalar(8, pa.int32())),
    gives=INT,
)  # fmt: skip
_text_function(
    "reverse", "reverse(text) -> STRING", "Turn text round.", [text], _plainly(pc.utf8_reverse),
)  # fmt: skip


# Trimming and padding

_TRIMS = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}


def _trim(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = _TRIMS[call.function]
    if len(values) == 1:
        return compute(values[0], SPACE)

    def trim(some: Sequence[Value], count: int) -> Value:
        letters = some[1].as_py()
        return compute(some[0], letters) if letters else some[0]

    return per_constants(values, [1], trim, pa.string(), rows)


_SIDES = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _spark_trim(call: Call, arguments: Sequence[str]) -> str:
    if len(arguments) == 1:
        return f"{call.function}({arguments[0]})"
    return f"trim({_SIDES[call.function]} {arguments[1]} FROM {arguments[0]})"


for _name, _where in (("trim", "both ends"), ("ltrim", "the beginning"), ("rtrim", "the end")):
    _text_function(
        _name,
        f"{_name}(text [, characters]) -> STRING",
        f"Take spaces, or other characters, off {_where} of text.",
        [text, text],
        _trim,
        least=1,
        synonyms=("btrim",) if _name == "trim" else (),
        spark=_spark_trim,
    )


def _pad(call: Call, values: Sequence[Value], rows: int) -> Value:
    def pad(some: Sequence[Value], count: int) -> Value:
        size, filling = max(some[1].as_py(), 0), some[2].as_py()
        cut = pc.utf8_slice_codeunits(some[0], 0, size)
        if len(filling) == 1:
            compute = pc.utf8_lpad if call.function == "lpad" else pc.utf8_rpad
            return compute(cut, size, filling)
        if not filling:
            return cut
        line = pa.scalar(filling * (size // len(filling) + 1))
        missing = pc.subtract(pa.scalar(size, pa.int32()), pc.utf8_length(cut))
        nothing = pa.scalar(0, pa.int32())
        side = sliced(line, nothing, missing, count)
        parts = (side, cut) if call.function == "lpad" else (cut, side)
        return pc.binary_join_element_wise(*parts, "")

    return per_constants(values, [1, 2], pad, pa.string(), rows)


def _pads(name: str) -> Resolver:
    plain = takes(name, text, integer, text, gives=STRING)

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 3)
        space = Literal(STRING.with_nullable(False), SPACE)
        return plain(arguments if len(arguments) == 3 else (*arguments, space), dialect)

    return resolve


for _name, _where in (("lpad", "left"), ("rpad", "right")):
    define(
        Function(
            _name,
            f"{_name}(text, length INT [, filling]) -> STRING",
            f"Fill text up on the {_where} to a length, or cut it to that.",
            _pads(_name),
            _pad,
            family="text",
            fallible=False,
        )
    )


# Parts

_FAR = pa.scalar(2**31 - 1, pa.int64())


def _substring(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, place = values[0], values[1].cast(pa.int64())
    zero = pa.scalar(0, pa.int64())
    from_end = pc.less(place, zero)
    if isinstance(from_end, pa.Scalar) and not from_end.as_py():
        start = pc.if_else(pc.greater(place, zero), pc.subtract(place, 1), place)
    else:
        size = lengths_of(value).cast(pa.int64())
        positive = pc.if_else(pc.greater(place, zero), pc.subtract(place, 1), place)
        start = pc.if_else(from_end, pc.add(size, place), positive)
    stop = pc.add(start, values[2].cast(pa.int64())) if len(values) > 2 else _FAR
    return sliced(value, start, stop, rows)


def _end(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, count = values[0], values[1].cast(pa.int64())
    zero = pa.scalar(0, pa.int64())
    if call.function == "left":
        return sliced(value, pc.if_else(pc.is_valid(count), zero, count), count, rows)
    size = lengths_of(value).cast(pa.int64())
    count = pc.if_else(pc.less(count, zero), zero, count)
    return sliced(
        value, pc.subtract(size, count), pc.if_else(pc.is_valid(count), _FAR, count), rows
    )


_text_function(
    "substring", "substring(text | bytes, position INT [, length INT]) -> STRING | BYTES",
    "Take a part of text from a position (from 1; negative: from the end).",
    [text_or_bytes, integer, integer], _substring, gives=_of_first, least=2,
    synonyms=("substr", "mid"),
)  # fmt: skip
_text_function(
    "left", "left(text, count INT) -> STRING", "Take the first characters.",
    [text_or_bytes, integer], _end, gives=_of_first,
)  # fmt: skip
_text_function(
    "right", "right(text, count INT) -> STRING", "Take the last characters.",
    [text, integer], _end,
)  # fmt: skip


def _overlay(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, new, place = values[0], values[1], values[2].cast(pa.int64())
    width = lengths_of(new).cast(pa.int64())
    if len(values) > 3:
        given = values[3].cast(pa.int64())
        width = pc.if_else(pc.less(given, pa.scalar(0, pa.int64())), width, given)
    zero = pa.scalar(0, pa.int64())
    before = sliced(value, zero, pc.subtract(place, 1), rows)
    after = sliced(value, pc.subtract(pc.add(place, width), 1), _FAR, rows)
    return pc.binary_join_element_wise(before, new, after, "")


_text_function(
    "overlay", "overlay(text PLACING new FROM position [FOR length]) -> STRING",
    "Put new text in the place of a part.", [text, text, integer, integer], _overlay, least=3,
)  # fmt: skip


# Joining


def _concat(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("concat", arguments, 1, None)
    if any(argument.type.root == "ARRAY" for argument in arguments):
        return function.resolve("array_concat", arguments, dialect)
    if all(argument.type.root in BINARIES for argument in arguments):
        return takes("concat", rest=binary, gives=BYTES, least=1)(arguments, dialect)
    if len(arguments) == 1 and not is_null_literal(arguments[0]):
        return cast_to(arguments[0], STRING)
    return takes("concat", rest=text, gives=STRING, least=1)(arguments, dialect)


def _concatenated(call: Call, values: Sequence[Value], rows: int) -> Value:
    return pc.binary_join_element_wise(*values, pa.scalar("", values[0].type))


define(
    Function(
        "concat",
        "concat(text, …) -> STRING",
        "Join texts (or BYTES, or arrays); NULL if one is NULL.",
        _concat,
        _concatenated,
        synonyms=("||",),
        family="text",
        fallible=False,
    )
)


def _concat_ws(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("concat_ws", arguments, 1, None)
    if any(argument.type.root == "ARRAY" for argument in arguments):
        raise UnsupportedError("concat_ws of arrays is not supported; use array_join")
    plain = takes("concat_ws", text, rest=text, gives=STRING, nullable=arguments[0].type.nullable)
    return plain(arguments, dialect)


def _joined(call: Call, values: Sequence[Value], rows: int) -> Value:
    separator, *parts = values
    if not parts:
        return pc.if_else(pc.is_valid(separator), "", pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(*parts, separator, null_handling="skip")


define(
    Function(
        "concat_ws",
        "concat_ws(separator, text, …) -> STRING",
        "Join texts that are not NULL with a separator between them.",
        _concat_ws,
        _joined,
        family="text",
        fallible=False,
    )
)
_text_function(
    "repeat", "repeat(text, count INT) -> STRING", "Repeat text.", [text, integer],
    lambda call, values, rows: pc.binary_repeat(
        values[0], pc.max_element_wise(values[1], pa.scalar(0, pa.int32()), skip_nulls=False)
    ),
)  # fmt: skip
_text_function(
    "space", "space(count INT) -> STRING", "Give spaces.", [integer],
    lambda call, values, rows: pc.binary_repeat(
        SPACE, pc.max_element_wise(values[0], pa.scalar(0, pa.int32()), skip_nulls=False)
    ),
)  # fmt: skip


# Searching and replacing


def _found(texts: Value, wanted: Value, rows: int) -> Value:
    """Give the position (INT, from 1) of text in text; 0 where it is not there."""

    def locate(some: Sequence[Value], count: int) -> Value:
        array = as_array(some[0], count)
        sought = some[1].as_py()
        if not sought:
            return pc.if_else(array.is_valid(), pa.scalar(1, pa.int32()), _NO_INT)
        at = pc.find_substring(array, sought)
        before = characters_before(array, at) + 1
        numbers = np.where(at.fill_null(-1).to_numpy() < 0, 0, before)
        return from_numpy(numbers, [array], pa.int32(), count)

    size = 1 if isinstance(texts, pa.Scalar) and isinstance(wanted, pa.Scalar) else rows
    return per_constants([texts, wanted], [1], locate, pa.int32(), size)


_NO_INT = pa.scalar(None, pa.int32())


def _locate(call: Call, values: Sequence[Value], rows: int) -> Value:
    wanted, value = values[:2]
    if len(values) == 2:
        return _found(value, wanted, rows)
    start = values[2]
    begin = pc.subtract(start, pa.scalar(1, pa.int32())).cast(pa.int64())
    rest = sliced(value, begin, pc.if_else(pc.is_valid(begin), _FAR, begin), rows)
    at = as_array(_found(rest, wanted, rows), rows)
    moved = pc.add(at, begin.cast(pa.int32()))
    there = pc.and_(pc.greater(at, 0), pc.greater(start, 0))
    beyond = pc.greater(begin, lengths_of(value).cast(pa.int64()))
    none = pa.scalar(0, pa.int32())
    return pc.if_else(pc.if_else(beyond, False, there), moved, pc.if_else(pc.is_null(at), at, none))


_text_function(
    "locate", "locate(part, text [, from INT]) -> INT",
    "Give the position (from 1) of a part in text; 0 where it is not there.",
    [text, text, integer], _locate, gives=INT, least=2, synonyms=("position", "charindex"),
)  # fmt: skip


def _instr(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("instr", arguments, 2, 2)
    return function.resolve("locate", arguments[::-1], dialect)


def _never(call: Call, values: Sequence[Value], rows: int) -> Value:
    raise AssertionError(f"{call.function} becomes other functions when it is bound")


define(
    Function(
        "instr",
        "instr(text, part) -> INT",
        "Give the position (from 1) of a part in text; 0 where it is not there.",
        _instr,
        _never,
        family="text",
    )
)


def _has(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, part = values
    if isinstance(part, pa.Scalar):
        if not part.is_valid:
            return pa.scalar(None, pa.bool_())
        return _CONSTANT[call.function](value, part.as_py())
    if call.function == "contains":
        return pc.greater(_found(value, part, rows), 0)
    array, size = as_array(value, rows), lengths_of(part).cast(pa.int64())
    zero = pa.scalar(0, pa.int64())
    if call.function == "startswith":
        return pc.equal(sliced(array, pc.if_else(pc.is_valid(size), zero, size), size, rows), part)
    begin = pc.subtract(lengths_of(array).cast(pa.int64()), size)
    end = sliced(array, begin, pc.if_else(pc.is_valid(size), _FAR, size), rows)
    return pc.and_(pc.equal(end, part), pc.greater_equal(begin, zero))


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
    _text_function(
        _name,
        f"{_name}(text, part) -> BOOLEAN",
        _about,
        [text, text],
        _has,
        gives=BOOLEAN,
        synonyms=(_synonym,),
    )


def _replace(call: Call, values: Sequence[Value], rows: int) -> Value:
    def replace(some: Sequence[Value], count: int) -> Value:
        sought = some[1].as_py()
        new = some[2].as_py() if len(some) > 2 else ""
        return pc.replace_substring(some[0], sought, new) if sought else some[0]

    return per_constants(values, range(1, len(values)), replace, pa.string(), rows)


_text_function(
    "replace", "replace(text, part [, new]) -> STRING",
    "Put new text (by default none) in the place of each part.", [text, text, text], _replace,
    least=2,
)  # fmt: skip


def _translate(call: Call, values: Sequence[Value], rows: int) -> Value:
    def translate(some: Sequence[Value], count: int) -> Value:
        old, new = some[1].as_py(), some[2].as_py()
        letters = list(dict.fromkeys(old))
        result = some[0]
        for place, letter in enumerate(letters):
            result = pc.replace_substring(result, letter, chr(0xF0000 + place))
        for place, letter in enumerate(letters):
            target = new[old.index(letter) :][:1]
            result = pc.replace_substring(result, chr(0xF0000 + place), target)
        return result

    return per_constants(values, [1, 2], translate, pa.string(), rows)


_text_function(
    "translate", "translate(text, characters, others) -> STRING",
    "Put for each of some characters the one at its place among others, or nothing.",
    [text, text, text], _translate,
)  # fmt: skip


# Splitting


def _parts(call: Call, values: Value, pattern: str, most: int) -> pa.Array:
    if not re.search(r"[\\.^$|?*+()\[\]{}]", pattern):
        if not pattern:
            return pc.split_pattern_regex(values, "(?s)", max_splits=most)
        return pc.split_pattern(values, pattern, max_splits=most)
    return regex(call, pattern, lambda: pc.split_pattern_regex(values, pattern, max_splits=most))


def _characters(values: pa.Array) -> pa.Array:
    """Make a list of the characters of each text."""
    size = pc.utf8_length(values).fill_null(0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(size)))
    rows = pa.array(np.repeat(np.arange(len(values)), size))
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], size)
    from pkray.relational.functions.slices import slice_rows

    letters = slice_rows(values.take(rows), place, place + 1)
    starts = pa.array(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(starts, letters, mask=_mask(values))


def _split(call: Call, values: Sequence[Value], rows: int) -> Value:
    kind = call.type.arrow

    def split(some: Sequence[Value], count: int) -> Value:
        limit = some[2].as_py() if len(some) > 2 else -1
        array = as_array(some[0], count)
        if not some[1].as_py():
            return _characters(array).cast(kind)
        most = limit - 1 if limit > 0 else None
        return _parts(call, array, some[1].as_py(), -1 if most is None else most).cast(kind)

    return per_constants(values, range(1, len(values)), split, kind, rows)


_text_function(
    "split", "split(text, pattern [, limit INT]) -> ARRAY<STRING>",
    "Split text where a regular expression matches.", [text, text, integer], _split,
    gives=DataType("ARRAY", element=STRING.with_nullable(False)), least=2, fallible=True,
)  # fmt: skip


def _split_part(call: Call, values: Sequence[Value], rows: int) -> Value:
    size = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows

    def split(some: Sequence[Value], count: int) -> Value:
        array = as_array(some[0], count)
        delimiter = some[1].as_py()
        whole = pa.ListArray.from_arrays(
            pa.array(np.arange(count + 1, dtype=np.int32)), array, mask=_mask(array)
        )
        lists = pc.split_pattern(array, delimiter) if delimiter else whole
        wanted = numpy_of(as_array(some[2], count)).astype(np.int64)
        if (wanted == 0).any():
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

    found = per_constants(values, [1], split, pa.string(), size)
    return found if isinstance(found, pa.Scalar) or size == rows else found[0]


_text_function(
    "split_part", "split_part(text, delimiter, part INT) -> STRING",
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
            pa.array(ends.astype(np.int32)), some_parts, mask=_mask(array)
        )
        return pc.binary_join(lists, delimiter)

    return per_constants(values, [1, 2], cut, pa.string(), rows)


_text_function(
    "substring_index", "substring_index(text, delimiter, count INT) -> STRING",
    "Take text up to the count-th delimiter (negative: counted from the end).",
    [text, text, integer], _substring_index,
)  # fmt: skip


# Regular expressions


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


_text_function(
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


_text_function(
    "regexp_replace", "regexp_replace(text, pattern, new) -> STRING",
    "Put new text ($1 is the first group) in the place of all that a regular expression matches.",
    [text, text, text], _regexp_replace, fallible=True,
)  # fmt: skip


def _regexp_count(call: Call, values: Sequence[Value], rows: int) -> Value:
    def count_matches(some: Sequence[Value], count: int) -> Value:
        pattern = some[1].as_py()
        return regex(call, pattern, lambda: pc.count_substring_regex(some[0], pattern))

    return per_constants(values, [1], count_matches, pa.int32(), rows)


_text_function(
    "regexp_count", "regexp_count(text, pattern) -> INT",
    "Count the matches of a regular expression.", [text, text], _regexp_count, gives=INT,
    fallible=True,
)  # fmt: skip


# Characters and codes


def _ascii(call: Call, values: Sequence[Value], rows: int) -> Value:
    value = values[0]
    if isinstance(value, pa.Scalar):
        return pa.scalar(ord(value.as_py()[0]) if value.as_py() else None if value.as_py() is None
                         else 0, pa.int32())  # fmt: skip
    first = pc.utf8_slice_codeunits(value, 0, 1)
    known = first.dictionary_encode()
    codes = [ord(letter) if letter else 0 for letter in known.dictionary.to_pylist()]
    table = pa.array(codes, pa.int32())
    return table.take(known.indices)


_text_function(
    "ascii", "ascii(text) -> INT", "Give the code of the first character; 0 for no text.", [text],
    _ascii, gives=INT,
)  # fmt: skip
_LETTERS = pa.array([chr(number) for number in range(256)] + [""])


def _chr(call: Call, values: Sequence[Value], rows: int) -> Value:
    codes = np.atleast_1d(numpy_of(values[0]))
    letters = _LETTERS.take(pa.array(np.where(codes < 0, 256, codes & 255)))
    if isinstance(values[0], pa.Scalar):
        return letters[0] if values[0].is_valid else pa.scalar(None, pa.string())
    return pc.if_else(values[0].is_valid(), letters, pa.scalar(None, pa.string()))


_text_function(
    "chr", "chr(code BIGINT) -> STRING", "Give the character of a code, modulo 256.", [bigint],
    _chr, synonyms=("char",),
)  # fmt: skip


def _bytes(value: Value, rows: int) -> tuple[pa.Array, Any, Any]:
    """Give an array of BYTES without offset, its offsets (int64) and its bytes."""
    array = as_array(value, 1 if isinstance(value, pa.Scalar) else rows)
    array = pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32)[: len(array) + 1].astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return array, starts, raw


def _made(
    value: Value, array: pa.Array, raw: Any, offsets: Any, kind: pa.DataType, bad: Any = None
) -> Value:
    """Make text or BYTES of bytes; NULL where the argument is NULL or `bad`."""
    found = join_bytes(raw, offsets[:-1], offsets[1:], kind)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    missing = missing if bad is None else missing | bad
    if missing.any():
        found = pc.if_else(pa.array(missing), pa.scalar(None, kind), found)
    return found[0] if isinstance(value, pa.Scalar) else found


_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_UNHEX = np.full(256, 255, np.uint8)
for _number, _letter in enumerate(b"0123456789ABCDEF"):
    _UNHEX[_letter] = _UNHEX[ord(chr(_letter).lower())] = _number


def _hex(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("hex", arguments, 1, 1)
    if arguments[0].type.root in (*INTEGERS, "DECIMAL", "FLOAT", "DOUBLE"):
        return takes("hex", bigint, gives=STRING)(arguments, dialect)
    return takes("hex", binary, gives=STRING)(arguments, dialect)


def _hex_digits(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.arguments[0].type.root == "BIGINT":
        from pkray.relational.functions.mathematics import digits_text

        return digits_text(call, values, rows)
    array, starts, raw = _bytes(values[0], rows)
    letters = np.stack([_HEX[raw >> 4], _HEX[raw & 15]], axis=1).ravel()
    return _made(values[0], array, letters, starts * 2, pa.string())


define(
    Function(
        "hex",
        "hex(number BIGINT | text | bytes) -> STRING",
        "Write an integer, or bytes, in hexadecimal digits.",
        _hex,
        _hex_digits,
        family="text",
        fallible=False,
    )
)


def _unhex(call: Call, values: Sequence[Value], rows: int) -> Value:
    odd = pc.equal(pc.bit_wise_and(pc.binary_length(values[0]), 1), 1)
    even = pc.if_else(odd, pc.binary_join_element_wise("0", values[0], ""), values[0])
    array, starts, raw = _bytes(even, rows)
    raw = raw[: starts[-1]]
    digits = _UNHEX[raw]
    wrong = np.concatenate(([0], np.cumsum(digits == 255)))
    bad = wrong[starts[1:]] > wrong[starts[:-1]]
    data = (digits[::2] << 4) | (digits[1::2] & 15)
    return _made(even, array, data, starts // 2, pa.binary(), bad)


_text_function(
    "unhex", "unhex(digits STRING) -> BYTES",
    "Read bytes in hexadecimal digits; NULL where there are others.", [text], _unhex, gives=BYTES,
    nullable=True,
)  # fmt: skip
_BASE64 = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)
_UNBASE64 = np.full(256, 255, np.uint8)
_UNBASE64[_BASE64] = np.arange(64)


def _base64(call: Call, values: Sequence[Value], rows: int) -> Value:
    array, starts, raw = _bytes(values[0], rows)
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
    return _made(values[0], array, letters.ravel(), ends * 4, pa.string())


_text_function("base64", "base64(bytes) -> STRING", "Write bytes in base 64.", [binary], _base64)


def _unbase64(call: Call, values: Sequence[Value], rows: int) -> Value:
    bare = pc.replace_substring_regex(values[0], r"[\s]", "")
    bare = pc.utf8_rtrim(bare, "=")
    array, starts, raw = _bytes(bare, rows)
    size = np.diff(starts)
    letters = _UNBASE64[raw[: starts[-1]]]
    wrong = np.concatenate(([0], np.cumsum(letters == 255)))
    bad = (wrong[starts[1:]] > wrong[starts[:-1]]) | (size % 4 == 1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise EvaluationError(
            f"unbase64({as_array(values[0], rows)[row].as_py()!r}) is not written in base 64",
            function="unbase64",
            row=row,
        )
    blocks = (size + 3) // 4
    ends = np.concatenate(([0], np.cumsum(blocks)))
    padded = np.zeros(ends[-1] * 4, np.uint8)
    padded[np.arange(len(letters)) + np.repeat(ends[:-1] * 4 - starts[:-1], size)] = letters
    a, b, c, d = (padded[number::4] for number in range(4))
    data = np.stack([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d], axis=1).ravel()
    stops = ends[:-1] * 3 + size * 3 // 4
    found = join_bytes(data, ends[:-1] * 3, stops, pa.binary())
    found = pc.if_else(array.is_valid(), found, pa.scalar(None, pa.binary()))
    return found[0] if isinstance(values[0], pa.Scalar) else found


_text_function(
    "unbase64", "unbase64(text) -> BYTES", "Read bytes in base 64.", [text], _unbase64,
    gives=BYTES, fallible=True,
)  # fmt: skip
_CHARSETS = ("UTF-8", "UTF8", "US-ASCII", "ASCII")


def _in_charset(name: str, parameter: Parameter, gives: DataType) -> Resolver:
    plain = takes(name, parameter, text, gives=gives)

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name.removesuffix("_text"), arguments, 2, 2)
        charset = arguments[1]
        if not isinstance(charset, Literal) or str(charset.value).upper() not in _CHARSETS:
            raise UnsupportedError("text is encoded and decoded as 'UTF-8' or 'US-ASCII' only")
        return plain(arguments, dialect)

    return resolve


def _encode(call: Call, values: Sequence[Value], rows: int) -> Value:
    return values[0].cast(pa.binary())


def _decode(call: Call, values: Sequence[Value], rows: int) -> Value:
    try:
        return values[0].cast(pa.string())
    except pa.ArrowInvalid:
        problem = "decode was given BYTES that are no UTF-8"
        raise EvaluationError(problem, function="decode") from None


define(
    Function(
        "encode",
        "encode(text, charset) -> BYTES",
        "Give the bytes of text.",
        _in_charset("encode", text, BYTES),
        _encode,
        family="text",
        fallible=False,
    )
)
define(
    Function(
        "decode_text",
        "",
        "Read bytes as text.",
        _in_charset("decode_text", binary, STRING),
        _decode,
        lambda call, arguments: f"decode({', '.join(arguments)})",
        family="text",
    )
)


# Numbers as text


def _format_number(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("format_number", arguments, 2, 2)
    value = number(arguments[0])
    if value is None:
        raise wrong_argument("format_number", 0, arguments[0], "a number")
    digits = arguments[1]
    if not isinstance(digits, Literal) or type(digits.value) is not int:
        raise QueryError("the digits of format_number must be a constant INT")
    if value.type.root in INTEGERS:
        value = cast_to(value, DataType("DECIMAL", precision=19, scale=0))
    pair = value, cast_to(digits, INT)
    nullable = any_nullable(pair) or digits.value < 0
    return Call(STRING.with_nullable(nullable), "format_number", pair)


def _formatted(call: Call, values: Sequence[Value], rows: int) -> Value:
    digits = values[1].as_py()
    if digits is None or digits < 0:
        return pa.scalar(None, pa.string())
    value = values[0]
    array = as_array(value, 1 if isinstance(value, pa.Scalar) else rows)
    exact = array
    if not pa.types.is_decimal(array.type):
        from pkray.relational.functions.cast_kernels import float_digits

        exact = float_digits(array)
    wide = exact.cast(pa.decimal256(decimals.WIDE, exact.type.scale))
    near = pc.round(wide, digits, "half_to_even") if digits < exact.type.scale else wide
    kind = DataType("DECIMAL", precision=38, scale=min(digits, 37))
    texts = write(near.cast(pa.decimal256(decimals.WIDE, min(digits, 37))), kind)
    parts = pc.extract_regex(texts, r"^(?P<sign>-?)(?P<whole>\d+)(?P<rest>.*)$")
    groups = pc.replace_substring_regex(pc.utf8_reverse(parts.field("whole")), r"(\d{3})", r"\1,")
    whole = pc.utf8_ltrim(pc.utf8_reverse(groups), ",")
    found = pc.binary_join_element_wise(parts.field("sign"), whole, parts.field("rest"), "")
    found = pc.if_else(array.is_valid(), found, pa.scalar(None, pa.string()))
    return found[0] if isinstance(value, pa.Scalar) else found


define(
    Function(
        "format_number",
        "format_number(number, digits INT) -> STRING",
        "Write a number with commas between thousands, rounded to digits after the point.",
        _format_number,
        _formatted,
        family="text",
    )
)


def _flink_text(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, kind = values[0], call.arguments[0].type
    if kind.root == "BOOLEAN":
        return pc.if_else(value, "TRUE", "FALSE")
    array = as_array(value, 1 if isinstance(value, pa.Scalar) else rows)
    texts = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())
    digits = {"ms": 3, "us": 6, "ns": 9}[array.type.unit]
    precision = kind.precision or 0
    cut = digits - precision if precision else digits + 1
    found = pc.utf8_slice_codeunits(texts, 0, -cut) if cut else texts
    return found[0] if isinstance(value, pa.Scalar) else found


define(
    Function(
        "flink_text",
        "",
        "Write booleans in capitals, and timestamps with all digits of their precision.",
        None,
        _flink_text,
        NO_SPARK,
        family="text",
        fallible=False,
        typing=lambda arguments: STRING.with_nullable(arguments[0].type.nullable),
    )
)


# Distance


def _levenshtein(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Fill the table of distances a cell at a time, for all rows at once."""
    size = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows
    left, right = (_code_points(as_array(value, size)) for value in values)
    (one, one_size), (other, other_size) = left, right
    previous = np.tile(np.arange(other.shape[1] + 1), (size, 1))
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
    found = from_numpy(result, [as_array(value, size) for value in values], pa.int32(), size)
    return found[0] if size == 1 and rows != 1 else found


def _code_points(texts: pa.Array) -> tuple[Any, Any]:
    sizes = pc.utf8_length(texts).fill_null(0).to_numpy()
    wide = np.zeros((len(texts), int(sizes.max(initial=0))), np.int32)
    if wide.size:
        points = "".join(texts.drop_null().to_pylist()).encode("utf-32-le")
        wide[np.arange(wide.shape[1]) < sizes[:, None]] = np.frombuffer(points, np.int32)
    return wide, sizes


_text_function(
    "levenshtein", "levenshtein(text, text) -> INT",
    "Count the characters to change, put in or take out to get from one text to another.",
    [text, text], _levenshtein, gives=INT,
)  # fmt: skip
