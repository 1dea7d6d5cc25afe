"""Writes values of columns as JSON, a text each, as `pkray.cdc` reads them without being told how.

Decimals are texts; times are ISO texts, of which those of a TIMESTAMP_LTZ alone have a zone; bytes
are in base 64, and what is no finite number is a text. Objects of a MAP have its keys as texts.
"""

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import UnsupportedError
from pkray.relational.functions.text.encodings import to_base64

NULL = "null"
_TEXT = pa.string()
_SPECIAL = r'["\\\x00-\x1f]'
_CONTROL = r"[\x00-\x1f]"
_QUOTES = {"\\": "\\\\", '"': '\\"'}  # in this order
_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(32)}
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def json_texts(values: pa.Array) -> pa.Array:
    """Write each value, null as ``null``.

    Args:
        values: so many that their texts are less than 2 GB.

    Raises:
        UnsupportedError: of their type.
    """
    return pc.fill_null(_written(values), NULL)


def json_objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Write the rows of columns as objects with these names.

    Args:
        columns: one at least.
    """
    parts = []
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        before = "," if number else "{"
        parts += [f"{before}{json.dumps(name, ensure_ascii=False)}:", json_texts(column)]
    return joined(*parts, "}")


def joined(*parts: str | pa.Array) -> pa.Array:
    """Join texts, a row each; null where one is null."""
    return pc.binary_join_element_wise(*parts, "")


def _written(values: pa.Array) -> pa.Array:
    """Write values, null as null."""
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return values.cast(_TEXT)
    if pa.types.is_floating(kind):
        return _numbers(values)
    if pa.types.is_string(kind):
        return _quoted(values)
    if pa.types.is_binary(kind):
        return joined('"', to_base64(values), '"')
    if pa.types.is_timestamp(kind):
        texts = pc.replace_substring(values.cast(_TEXT), " ", "T", max_replacements=1)
        return joined('"', texts, '"')
    if pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return joined('"', values.cast(_TEXT), '"')
    if pa.types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        values = values.cast(pa.list_(entry))
        keys, items = values.flatten().flatten()
        names = _quoted(keys.cast(_TEXT))
        return _lists(values, "{", joined(names, ":", json_texts(items)), "}")
    if pa.types.is_list(kind):
        return _lists(values, "[", json_texts(values.flatten()), "]")
    if pa.types.is_struct(kind):
        found = json_objects([each.name for each in kind], values.flatten())
        return pc.if_else(values.is_valid(), found, pa.scalar(None, _TEXT))
    raise UnsupportedError(f"values of {kind} are not written as JSON", type=str(kind))


def _numbers(values: pa.Array) -> pa.Array:
    """Write numbers by as few digits as tell them from all others of their type."""
    texts = values.cast(_TEXT)
    if pa.types.is_float32(values.type):  # by as few as a reader of doubles needs
        read = texts.cast(pa.float64()).cast(pa.float32())
        texts = pc.if_else(pc.equal(read, values), texts, values.cast(pa.float64()).cast(_TEXT))
    if not pc.all(pc.is_finite(values)).as_py():
        for text, quoted in _NOT_FINITE.items():
            texts = pc.if_else(pc.equal(texts, text), quoted, texts)
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        has_controls = pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py()
        for plain, escaped in (_QUOTES | (_CONTROLS if has_controls else {})).items():
            texts = pc.replace_substring(texts, plain, escaped)
    return joined('"', texts, '"')


def _lists(values: pa.Array, start: str, elements: pa.Array, end: str) -> pa.Array:
    """Write lists of elements that are written.

    Args:
        elements: of all lists, one after the other.
    """
    sizes = pc.fill_null(pc.list_value_length(values), 0)
    bounds = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(sizes)])
    lists = pa.ListArray.from_arrays(bounds.cast(pa.int32()), elements, mask=values.is_null())
    return joined(start, pc.binary_join(lists, ","), end)
