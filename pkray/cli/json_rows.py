"""JSON lines of tables with nested columns, of which Arrow's reader would drop parts."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from pkray.errors import InputError
from pkray.rows.python_values import nanoseconds, to_column
from pkray.schema.column_checks import repeated
from pkray.schema.types import BINARIES, INTEGERS, TIMESTAMPS, DataType

_BLOCK_BYTES = 4 << 20
"""Text parsed at a time: memory does not depend on the file's size."""
_MORE_THAN_MICROS = re.compile(r"\.\d{7}")

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")

Line = tuple[int, dict[str, Any]]
"""Its number, and what it says."""


def batches(source: Any, types: Mapping[str, DataType]) -> Iterator[pa.RecordBatch]:
    """Yield rows as the table holds them; what a line does not say is null.

    Args:
        source: a file of bytes.

    Raises:
        InputError: a line that is no JSON object, or a value that is none of its column's type.
    """
    decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
    number, rest = 0, b""
    while block := source.read(_BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from _batch(_decoded(decoder, whole, number), types)
        number += len(whole)
    yield from _batch(_decoded(decoder, [rest], number), types)


def _decoded(decoder: Any, texts: list[bytes], before: int) -> list[Line]:
    lines = []
    for number, text in enumerate(texts, before + 1):
        if text.strip():
            try:
                lines.append((number, decoder.decode(text)))
                json.loads(text, object_pairs_hook=once)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                raise InputError(f"line {number} is no JSON object: {error}", line=number) from None
    return lines


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, and refuse two values under one name, of which JSON readers take the
    last.

    Raises:
        ValueError: there are two.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        again = repeated(name for name, _ in pairs)
        raise ValueError(f"it gives {again!r} twice: give it once")
    return found


def _batch(lines: list[Line], types: Mapping[str, DataType]) -> Iterator[pa.RecordBatch]:
    if not lines:
        return
    names = {**dict.fromkeys(types), **{name: None for _, row in lines for name in row}}
    columns = []
    for name in names:
        if name not in types:  # refused with the table's columns
            columns.append(pa.chunked_array([pa.nulls(len(lines))]))
            continue
        values = [_read(row.get(name), types[name], name, number) for number, row in lines]
        columns.append(to_column(values, types[name].with_nullable(True), name))
    yield from pa.table(columns, names=list(names)).to_batches()


def _read(value: Any, data_type: DataType, name: str, line: int) -> Any:
    try:
        return _value(value, data_type)
    except (ArithmeticError, TypeError, ValueError):
        raise InputError(
            f"column {name!r} line {line}: {value!r} is not a value of {data_type}; correct it",
            column=name,
            line=line,
            value=value,
        ) from None


def _value(value: Any, data_type: DataType) -> Any:
    """Read what JSON has no values of its own for from its text; the rest as it is."""
    root = data_type.root
    if isinstance(value, list) and data_type.element is not None:
        return [_value(part, data_type.element) for part in value]
    if root == "MAP" and data_type.key is not None and data_type.value is not None:
        if not isinstance(value, dict | list):
            return value
        pairs = value.items() if isinstance(value, dict) else value
        if any(isinstance(pair, dict) for pair in pairs):
            return value
        return [(_key(key, data_type.key), _value(item, data_type.value)) for key, item in pairs]
    if isinstance(value, dict) and data_type.fields is not None:
        types = {field.name: field.type for field in data_type.fields}
        return {k: _value(v, types[k]) if k in types else v for k, v in value.items()}
    if isinstance(value, Decimal) and root != "DECIMAL":
        return float(value)
    return _of_text(value, root) if isinstance(value, str) else value


def _of_text(text: str, root: str) -> Any:
    if root in BINARIES:
        return bytes.fromhex(text)
    if root == "DECIMAL":
        return Decimal(text)
    if root == "DATE":
        return date.fromisoformat(text)
    if root == "TIME":
        return time.fromisoformat(text)
    if root in ("FLOAT", "DOUBLE") and text in _NOT_FINITE:
        return float(text)
    if root in TIMESTAMPS:
        if _MORE_THAN_MICROS.search(text):  # which Python's datetime cuts off
            return pa.scalar(text).cast(nanoseconds(root))
        return datetime.fromisoformat(text)
    return text


def _key(key: Any, data_type: DataType) -> Any:
    """Read a key of an object: JSON's keys are text."""
    if isinstance(key, str) and data_type.root in INTEGERS:
        return int(key)
    return _value(key, data_type)
