"""Functions of text: case, length, parts, joining."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function
from pkray.relational.functions.coercion import BYTES, INT, STRING, cast_to, is_null_literal
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Kernel, Value, Written, wrong_argument
from pkray.relational.functions.kernels import by_arrow
from pkray.relational.functions.signatures import (
    binary,
    integer,
    same_as,
    takes,
    text,
    text_literal,
    text_or_bytes,
)
from pkray.relational.functions.text.slices import is_ascii, lengths_of, per_constants, sliced
from pkray.relational.functions.text.text_function import mask_of, text_function
from pkray.relational.functions.values import all_scalars, as_array, by_distinct
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import BINARIES, DataType

TEXT = Family("text")

SPACE = " "
TEXTS = DataType("ARRAY", element=STRING)


def _of_first(arguments: tuple[Expression, ...]) -> DataType:
    return arguments[0].type


# Case, length


_LONGER_CAPITALS = (
    "[ßŉǰΐΰև\\x{1e96}-\\x{1e9a}\\x{1f50}-\\x{1f57}\\x{1f80}-\\x{1ffc}"
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}]"
)
"""Holds all characters whose capitals are several, which Arrow leaves as they are."""
_LONGER_SMALL = "[İΣ]"
"""İ becomes two characters, and Σ at the end of a word another one than within."""


def _cased(
    plain: Callable[[pa.Array], pa.Array], special: str, whole: Callable[[str], str]
) -> Callable[[pa.Array], pa.Array]:
    """Make a function that changes the case of letters as Unicode says.

    Args:
        plain: Arrow's, which gives each character one.
        special: matches texts with characters that `plain` does not know.
        whole: Python's, which knows all.
    """

    def compute(value: pa.Array) -> pa.Array:
        if is_ascii(value):
            return plain(value)
        marked = pc.fill_null(pc.match_substring_regex(value, special), False)
        if not pc.any(marked).as_py():
            return plain(value)
        some = value.filter(marked)
        return pc.replace_with_mask(
            plain(value), marked, by_distinct(some, whole, pa.string(), len(some))
        )

    return compute


_upper = _cased(pc.utf8_upper, _LONGER_CAPITALS, str.upper)
_lower = _cased(pc.utf8_lower, _LONGER_SMALL, str.lower)


def _initcap(value: pa.Array) -> pa.Array:
    words = pc.split_pattern(value, SPACE)
    lists = pa.ListArray.from_arrays(words.offsets, _titled(words.values), mask=mask_of(value))
    return pc.binary_join(lists, SPACE)


_titled = _cased(
    pc.utf8_capitalize, f"^[ǄǅǆǇǈǉǊǋǌǱǲǳ]|{_LONGER_CAPITALS}|{_LONGER_SMALL}", str.capitalize
)


def _by_column(compute: Callable[[pa.Array], pa.Array]) -> Kernel:
    return lambda call, values, rows: compute(as_array(values[0], rows))


text_function(
    "upper(text) -> STRING", "Write text in capital letters.", [text],
    _by_column(_upper), synonyms=("ucase",),
)  # fmt: skip
text_function(
    "lower(text) -> STRING", "Write text in small letters.", [text],
    _by_column(_lower), synonyms=("lcase",),
)  # fmt: skip
text_function(
    "initcap(text) -> STRING",
    "Begin each word, after a space, with a capital letter, and write the rest in small ones.",
    [text], _by_column(_initcap),
)  # fmt: skip
text_function(
    "length(text | bytes) -> INT", "Count the characters of text, the bytes of BYTES.",
    [text_or_bytes], by_arrow(lengths_of), gives=INT,
    synonyms=("char_length", "character_length", "len"),
)  # fmt: skip
text_function(
    "octet_length(text | bytes) -> INT", "Count bytes.", [text_or_bytes],
    by_arrow(pc.binary_length), gives=INT,
)  # fmt: skip
text_function(
    "bit_length(text | bytes) -> INT", "Count bits.", [text_or_bytes],
    lambda call, values, rows: pc.multiply(pc.binary_length(values[0]), pa.scalar(8, pa.int32())),
    gives=INT,
)  # fmt: skip


def _reverse(call: Written) -> Expression:
    if len(call.arguments) == 1 and call.arguments[0].type.root == "ARRAY":
        return function.resolve("array_reverse", call.arguments, call.dialect)
    return takes(text_or_bytes, gives=same_as())(call)


def _reversed(value: Value) -> Value:
    return pc.binary_reverse(value) if value.type == pa.binary() else pc.utf8_reverse(value)


TEXT.infallible.add(
    "reverse(text | bytes) -> STRING | BYTES",
    "Turn text (or bytes, or an array) round.",
    _reverse,
    by_arrow(_reversed),
)


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
    text_function(
        f"{_name}(text [, characters]) -> STRING",
        f"Take spaces, or other characters, off {_where} of text.",
        [text, text],
        _trim,
        least=1,
        synonyms=("btrim",) if _name == "trim" else (),
        spark=_spark_trim,
    )


def _pad(call: Call, values: Sequence[Value], rows: int) -> Value:
    kind = call.type.arrow

    def pad(some: Sequence[Value], count: int) -> Value:
        size, filling = max(some[1].as_py(), 0), some[2].as_py()
        first, nothing = pa.scalar(size, pa.int64()), pa.scalar(0, pa.int64())
        cut = sliced(some[0], nothing, first, count)
        if not filling:
            return cut
        if len(filling) == 1 and kind == pa.string():
            compute = pc.utf8_lpad if call.function == "lpad" else pc.utf8_rpad
            return compute(cut, size, filling)
        line = pa.scalar(filling * (size // len(filling) + 1), kind)
        missing = pc.subtract(first, lengths_of(cut).cast(pa.int64()))
        side = sliced(line, nothing, missing, count)
        parts = (side, cut) if call.function == "lpad" else (cut, side)
        return pc.binary_join_element_wise(*parts, pa.scalar("", kind))

    return per_constants(values, [1, 2], pad, kind, rows)


def _pads(call: Written) -> Expression:
    value, size, *filling = call.between(2, 3)
    of_bytes = all(each.type.root in BINARIES for each in (value, *filling))
    part, kind, default = (binary, BYTES, b"\0") if of_bytes else (text, STRING, SPACE)
    chosen = filling or [Literal(kind.with_nullable(False), default)]
    call = call._replace(arguments=(value, size, *chosen))
    padded = takes(part, integer, part, gives=kind)(call)
    if call.dialect is Dialect.SPARK:
        return padded
    nothing = Literal(kind.with_nullable(False), b"" if of_bytes else "")
    zero = Literal(INT.with_nullable(False), 0)
    tests = [
        function.resolve("less", (size, zero), call.dialect),
        function.resolve("equal", (chosen[0], nothing), call.dialect),
    ]
    none = coercion.untyped_null()
    return case_of(tests, [none, none, padded], call.dialect)


for _name, _where in (("lpad", "left"), ("rpad", "right")):
    TEXT.infallible.add(
        f"{_name}(text | bytes, length INT [, filling]) -> STRING | BYTES",
        f"Fill text (or bytes) up on the {_where} to a length, or cut it to that; in flink NULL "
        "where the length is negative or the filling empty.",
        _pads,
        _pad,
    )


# Parts

_FAR = constants.scalar(2**31 - 1, pa.int64())


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


text_function(
    "substring(text | bytes, position INT [, length INT]) -> STRING | BYTES",
    "Take a part of text from a position (from 1; negative: from the end).",
    [text_or_bytes, integer, integer], _substring, gives=_of_first, least=2,
    synonyms=("substr", "mid"),
)  # fmt: skip
text_function(
    "left(text, count INT) -> STRING", "Take the first characters.",
    [text_or_bytes, integer], _end, gives=_of_first,
)  # fmt: skip
text_function(
    "right(text, count INT) -> STRING", "Take the last characters.",
    [text, integer], _end,
)  # fmt: skip


def _overlays(call: Written) -> Expression:
    which = [each.type.root in BINARIES for each in call.between(3, 4)[:2]]
    if any(which) and not all(which):
        place = which.index(False)
        raise wrong_argument("overlay", place, call.arguments[place], "BYTES beside BYTES")
    part, gives = (binary, BYTES) if all(which) else (text, STRING)
    return takes(part, part, integer, integer, gives=gives, least=3)(call)


@TEXT.infallible.kernel(
    "overlay(text | bytes PLACING new FROM position [FOR length]) -> STRING | BYTES",
    "Put new text (or bytes) in the place of a part.",
    _overlays,
)
def _overlay(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, new, place = values[0], values[1], values[2].cast(pa.int64())
    width = lengths_of(new).cast(pa.int64())
    if len(values) > 3:
        given = values[3].cast(pa.int64())
        width = pc.if_else(pc.less(given, pa.scalar(0, pa.int64())), width, given)
    zero = pa.scalar(0, pa.int64())
    before = sliced(value, zero, pc.subtract(place, 1), rows)
    end = pc.add(place, width)
    from_end = pc.add(end, lengths_of(value).cast(pa.int64()))
    start = pc.if_else(pc.less(end, 0), from_end, pc.subtract(end, 1))
    after = sliced(value, start, _FAR, rows)
    return pc.binary_join_element_wise(before, new, after, pa.scalar("", value.type))


# Joining


def _concat(call: Written) -> Expression:
    arguments = call.between(1, None)
    if any(argument.type.root == "ARRAY" for argument in arguments):
        return function.resolve("array_concat", arguments, call.dialect)
    if all(argument.type.root in BINARIES for argument in arguments):
        return takes(rest=binary, gives=BYTES, least=1)(call)
    if len(arguments) == 1 and not is_null_literal(arguments[0]):
        return cast_to(arguments[0], STRING)
    return takes(rest=text, gives=STRING, least=1)(call)


@TEXT.infallible.kernel(
    "concat(text, …) -> STRING",
    "Join texts (or BYTES, or arrays); NULL if one is NULL.",
    _concat,
    synonyms=("||",),
)
def _concatenated(call: Call, values: Sequence[Value], rows: int) -> Value:
    return pc.binary_join_element_wise(*values, pa.scalar("", values[0].type))


def _concat_ws(call: Written) -> Expression:
    separator, *parts = call.between(1, None)
    if any(each.type.root == "ARRAY" for each in (separator, *parts)):
        return _joined_arrays(call)
    return takes(text, rest=text, gives=STRING, nullable=separator.type.nullable)(call)


def _joined_arrays(call: Written) -> Expression:
    """Put texts and arrays of them into one array; what is NULL is left out."""
    separator, *parts = call.arguments
    none = function.resolve("array", (), call.dialect)
    lists = []
    for place, each in enumerate(parts, 1):
        if each.type.root == "ARRAY":
            texts = cast_to(each, replace(TEXTS, nullable=each.type.nullable))
            lists.append(function.resolve("coalesce", (texts, none), call.dialect))
            continue
        taken = text.taken(call, place)
        lists.append(function.resolve("array", (taken,), call.dialect))
    whole = function.resolve("array_concat", tuple(lists), call.dialect)
    return function.resolve("array_join", (whole, cast_to(separator, STRING)), call.dialect)


def _joined(call: Call, values: Sequence[Value], rows: int) -> Value:
    separator, *parts = values
    if not parts:
        return pc.if_else(pc.is_valid(separator), "", pa.scalar(None, pa.string()))
    if all_scalars(values):
        return _joined(call, [as_array(value, 1) for value in values], 1)[0]
    missing = reduce(pc.and_, [pc.is_null(part) for part in parts])  # Arrow leaves such rows out
    first = pc.if_else(missing, "", parts[0])
    return pc.binary_join_element_wise(first, *parts[1:], separator, null_handling="skip")


TEXT.infallible.add(
    "concat_ws(separator, text | ARRAY<STRING>, …) -> STRING",
    "Join texts (and those of arrays) that are not NULL with a separator between them.",
    _concat_ws,
    _joined,
)
text_function(
    "repeat(text, count INT) -> STRING", "Repeat text.", [text, integer],
    lambda call, values, rows: pc.binary_repeat(
        values[0], pc.max_element_wise(values[1], pa.scalar(0, pa.int32()), skip_nulls=False)
    ),
)  # fmt: skip
text_function(
    "space(count INT) -> STRING", "Give spaces.", [integer],
    lambda call, values, rows: pc.binary_repeat(
        SPACE, pc.max_element_wise(values[0], pa.scalar(0, pa.int32()), skip_nulls=False)
    ),
)  # fmt: skip


def _quote(call: Written) -> Expression:
    """Resolve quote(text)."""
    (inside,) = call.taken(text)
    one, escaped = text_literal("'"), text_literal("\\'")
    inside = function.resolve("replace", (inside, one, escaped), call.dialect)
    return function.resolve("concat", (one, inside, one), call.dialect)


TEXT.only(Dialect.SPARK).alias(
    "quote(text) -> STRING", "Put text into single quotes, those in it after a backslash.", _quote
)
