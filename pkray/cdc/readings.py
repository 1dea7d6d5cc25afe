"""Read the values of a column from JSON, in each way that connectors write them.

A `Reading` is one way: the type by which Arrow's reader reads the values, and what decodes them.
A column may have several, as connectors write times and decimals in more than one way:
`readings_of` lists those of a column of which only the table's type is known, in the order in which
they are tried. What a number means that stands for a time or a decimal is never guessed: the schema
that events bring says it (`pkray.cdc.connect`), or `Handling` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.json_index import QUOTED_NUMBER
from pkray.errors import InputError, OptionError, UnsupportedError
from pkray.relational.functions.text.encodings import from_base64, from_hex
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a value that did not change and that the database did not log."""

DECIMALS = ("precise", "double", "string")
TIMES = (
    "adaptive",
    "adaptive_time_microseconds",
    "connect",
    "microseconds",
    "nanoseconds",
    "isostring",
)
BINARY = ("base64", "base64-url-safe", "hex")
_NOT_FINITE = constants.texts(["NaN", "Infinity", "-Infinity"])
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$"
_LIKE_BASE64_AND_NUMBER = "^(?:[0-9]{4})+$"

Decode = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Handling:
    """Tells how a connector was told to write values, for events that bring no schema.

    The words are those of Debezium's options of these names; None: it is not known, and values
    that could mean several things are refused.
    """

    decimal_handling_mode: str | None = None
    time_precision_mode: str | None = None
    binary_handling_mode: str | None = None

    def __post_init__(self) -> None:
        for name, words in (
            ("decimal_handling_mode", DECIMALS),
            ("time_precision_mode", TIMES),
            ("binary_handling_mode", BINARY),
        ):
            said = getattr(self, name)
            if said is not None and said not in words:
                raise OptionError(
                    f"{name} = {said!r} is none of {', '.join(words)}: say which one the "
                    "connector has",
                    key=name,
                    value=said,
                )


@dataclass(frozen=True)
class Reading:
    """One way in which the values of a column stand in JSON.

    Args:
        json: the type by which Arrow's reader reads them.
        decode: makes values of what was read.
        takes_quoted: whether it reads numbers too that `JsonIndex.with_quoted_numbers` quoted, as
            values of one column may be numbers and texts.
    """

    json: pa.DataType
    decode: Decode = lambda values: values
    takes_quoted: bool = False


def readings_of(kind: DataType, handling: Handling) -> list[Reading]:
    """List how values of a column may stand in JSON that brings no schema."""
    root = kind.root
    if root == "BOOLEAN" or root in INTEGERS:
        return [Reading(kind.arrow)]
    if root in ("FLOAT", "DOUBLE"):
        return FLOATS
    if root == "DECIMAL":
        return _decimals(kind, handling.decimal_handling_mode)
    if root in STRINGS:
        return TEXTS
    if root in BINARIES:
        return [binary(handling.binary_handling_mode or "base64")]
    if root == "DATE":
        return [DAYS, DATE_TEXTS]
    if root == "TIME":
        return [*_times(kind, handling.time_precision_mode), TIME_TEXTS]
    if root in TIMESTAMPS:
        return [*_moments(kind, handling.time_precision_mode), timestamp_texts(kind)]
    return _nested(kind, handling)


def _nested(kind: DataType, handling: Handling) -> list[Reading]:
    if kind.root == "ARRAY" and kind.element is not None:
        return [list_of(each) for each in readings_of(kind.element, handling)]
    if kind.root == "ROW" and kind.fields is not None:
        names = [field.name for field in kind.fields]
        ways = [readings_of(field.type, handling) for field in kind.fields]
        longest = max(map(len, ways))
        padded = [[*each, *[each[-1]] * (longest - len(each))] for each in ways]
        return [row_of(names, each) for each in zip_longest(*padded)]
    raise UnsupportedError(
        f"{kind} is not read from JSON, whose objects are rows: have the connector write text, and "
        "give the table a STRING",
        type=str(kind),
    )


# --- Scalars --------------------------------------------------------------------------------------

TEXTS = [Reading(pa.string())]


def _texts_of_floats(texts: pa.Array) -> pa.Array:
    is_number = pc.starts_with(texts, QUOTED_NUMBER)
    strange = texts.filter(pc.invert(pc.or_(is_number, pc.is_in(texts, _NOT_FINITE))))
    if len(strange):
        raise InputError(f"a number is the text {_first(strange)!r}: write a number")
    return pc.utf8_ltrim(texts, QUOTED_NUMBER).cast(pa.float64())


FLOATS = [Reading(pa.float64()), Reading(pa.string(), _texts_of_floats, takes_quoted=True)]
DAYS = Reading(pa.int32(), lambda days: days.cast(pa.date32()))
DATE_TEXTS = Reading(pa.string(), lambda texts: _bare(texts).cast(pa.date32()))


def _bare(texts: pa.Array) -> pa.Array:
    """Leave out the Z that Debezium's ISO dates and times end in, which are of no zone."""
    return pc.utf8_rtrim(texts, "Z")


def _time_of_day(texts: pa.Array) -> pa.Array:
    moments = pc.binary_join_element_wise("1970-01-01T", _bare(texts), "")
    return moments.cast(pa.timestamp("ns")).cast(pa.time64("ns"))


TIME_TEXTS = Reading(pa.string(), _time_of_day)


def ticks(unit: str) -> Reading:
    """Read numbers of a unit since 1970, without a zone."""
    return Reading(pa.int64(), lambda numbers: numbers.cast(pa.timestamp(unit)))


def ticks_of_day(unit: str) -> Reading:
    """Read numbers of a unit since midnight."""
    per_day = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}[unit]

    def decode(numbers: pa.Array) -> pa.Array:
        out = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, per_day))
        if pc.any(out).as_py():
            raise InputError(
                f"{_first(numbers.filter(out))} {unit} are no time of day: use another type"
            )
        if unit == "ms":
            return numbers.cast(pa.int32()).cast(pa.time32("ms"))
        return numbers.cast(pa.time64(unit))

    return Reading(pa.int64(), decode)


def timestamp_texts(kind: DataType) -> Reading:
    """Read ISO texts: with a zone for TIMESTAMP_LTZ, without one for TIMESTAMP."""
    unit = "ns" if (kind.precision or 0) > 6 else "us"
    if kind.root == "TIMESTAMP_LTZ":
        return Reading(pa.string(), lambda texts: texts.cast(pa.timestamp(unit, "UTC")))
    return Reading(pa.string(), lambda texts: texts.cast(pa.timestamp(unit)))


ISO_TIMESTAMPS = Reading(pa.string(), lambda texts: _bare(texts).cast(pa.timestamp("us")))


def _adaptive(precision: int | None) -> str:
    digits = precision or 0
    return "ms" if digits <= 3 else "us" if digits <= 6 else "ns"


def _unit(mode: str, kind: DataType) -> str:
    fixed = {"connect": "ms", "microseconds": "us", "nanoseconds": "ns"}
    if mode == "adaptive_time_microseconds" and kind.root == "TIME":
        return "us"
    return fixed.get(mode) or _adaptive(kind.precision)


def _times(kind: DataType, mode: str | None) -> list[Reading]:
    return [] if mode in (None, "isostring") else [ticks_of_day(_unit(str(mode), kind))]


def _moments(kind: DataType, mode: str | None) -> list[Reading]:
    if mode == "isostring" and kind.root == "TIMESTAMP":
        return [ISO_TIMESTAMPS]
    is_known = mode not in (None, "isostring") and kind.root == "TIMESTAMP"
    return [ticks(_unit(str(mode), kind))] if is_known else []


def binary(mode: str) -> Reading:
    """Read bytes that are text in a mode of Debezium's ``binary.handling.mode``."""

    def decode(texts: pa.Array) -> pa.Array:
        if mode == "hex":
            found = from_hex(texts)
            bad = pc.and_(texts.is_valid(), found.is_null())
            if pc.any(bad).as_py():
                raise InputError(f"{_first(texts.filter(bad))!r} is not hexadecimal")
            return found
        if mode == "base64-url-safe":
            plain = pc.replace_substring(texts, "-", "+")
            return of_base64(pc.replace_substring(plain, "_", "/"))
        return of_base64(texts)

    return Reading(pa.string(), decode)


def of_base64(texts: pa.Array) -> pa.Array:
    """Read bytes that are written in base 64.

    Raises:
        InputError: one is not.
    """
    is_fine = pc.match_substring_regex(texts, _BASE64)
    if not pc.all(is_fine, min_count=0).as_py():
        bad = _first(texts.filter(pc.invert(is_fine)))
        raise InputError(
            f"{bad!r} is not written in base 64: say binary_handling_mode, or "
            "decimal_handling_mode, as the connector has it"
        )
    return from_base64(texts)


def unscaled(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """Read decimals whose unscaled values are big-endian: bytes, or text in base 64.

    Raises:
        InputError: one has more digits than the precision.
    """
    values = of_base64(values) if pa.types.is_string(values.type) else values
    kind = pa.decimal128(38, scale)
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy()
    present = values.is_valid().to_numpy(zero_copy_only=False)
    if (sizes[present] == 0).any() or (sizes > 16).any():
        raise InputError(f"a decimal is of 1 to 16 bytes: {_first(values)!r} is not")
    values = pa.concat_arrays([pc.fill_null(values, b"")])
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[1 : len(values) + 1].astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    # Little-endian, as Arrow has them: byte 0 is the last one; above the first comes its sign.
    place = np.arange(16)[None, :]
    found = raw[np.maximum(ends[:, None] - 1 - place, 0)]
    first = raw[np.minimum(np.maximum(ends - sizes, 0), len(raw) - 1)]
    sign = np.where(first > 127, 255, 0).astype(np.uint8)
    numbers = np.where(place < sizes[:, None], found, sign[:, None])
    buffers = [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    wide = pa.Array.from_buffers(kind, len(values), buffers)
    wide = pc.if_else(pa.array(present), wide, pa.scalar(None, kind))
    return wide.cast(pa.decimal128(precision, scale))


def precise(precision: int, scale: int, stored: pa.DataType) -> Reading:
    """Read decimals as Kafka Connect has them: unscaled bytes, in base 64 where they are text."""
    return Reading(stored, lambda values: unscaled(values, precision, scale))


def _decimals(kind: DataType, mode: str | None) -> list[Reading]:
    assert kind.precision is not None
    assert kind.scale is not None
    if mode == "precise":
        return [precise(kind.precision, kind.scale, pa.string())]
    numbers = Reading(kind.arrow)
    if mode == "double":
        return [numbers]

    def decode(texts: pa.Array) -> pa.Array:
        if mode is None:
            doubtful = pc.match_substring_regex(texts, _LIKE_BASE64_AND_NUMBER)
            if pc.any(doubtful).as_py():
                raise InputError(
                    f"{_first(texts.filter(doubtful))!r} may be a number or the bytes of one in "
                    "base 64: say decimal_handling_mode, as the connector has it"
                )
        try:
            return texts.cast(kind.arrow)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"a text is no {kind}: {error}; if it is bytes in base 64, say "
                "decimal_handling_mode = precise, or have the connector write a schema"
            ) from None

    texts = Reading(pa.string(), decode)
    return [texts] if mode == "string" else [texts, numbers]


# --- Nested values --------------------------------------------------------------------------------


def list_of(element: Reading) -> Reading:
    """Read lists whose elements are read in one way."""

    def decode(lists: pa.Array) -> pa.Array:
        lists = pa.concat_arrays([lists])
        values = element.decode(lists.flatten())
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=lists.is_null())

    return Reading(pa.list_(element.json), decode, element.takes_quoted)


def row_of(names: Sequence[str], fields: Sequence[Reading]) -> Reading:
    """Read objects whose members are each read in one way.

    Raises:
        InputError: when decoding: they have other members too.
    """
    json = pa.struct([pa.field(n, each.json) for n, each in zip(names, fields, strict=True)])

    def decode(rows: pa.Array) -> pa.Array:
        others = [rows.type.field(i).name for i in range(rows.type.num_fields)]
        strange = [name for name in others if name not in names]
        if strange:
            raise InputError(f"the object has members that the ROW has not: {', '.join(strange)}")
        values = [
            each.decode(pc.struct_field(rows, name))
            for name, each in zip(names, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(values, names=list(names), mask=rows.is_null())

    return Reading(json, decode)


def _first(values: pa.Array) -> Any:
    valid = values.drop_null()
    return valid[0].as_py() if len(valid) else None
