"""Values as the Java driver's lines of JSON have them, so that both sides compare exactly."""

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pkray.schema.types import DataType

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def to_arrow(values: Sequence[Any], kind: DataType) -> pa.Array:
    """A column of plain values."""
    if pa.types.is_temporal(kind.arrow):
        numbers = [_ticks(value, kind) for value in values]
        machine = pa.int64() if pa.types.is_timestamp(kind.arrow) else pa.int32()
        return pa.array(numbers, machine).cast(kind.arrow)
    return pa.array([_read(value, kind) for value in values], kind.arrow)


def from_arrow(column: pa.Array, kind: DataType) -> list[Any]:
    """The plain values of a column; entries of a map in key order."""
    if kind.root in ("ARRAY", "MAP"):
        items = (item.values if item.is_valid else None for item in column)
        return [None if item is None else _parts(item, kind) for item in items]
    if kind.root == "ROW":
        children = zip(column.flatten(), kind.fields or (), strict=True)
        rows = zip(*(from_arrow(child, field.type) for child, field in children), strict=True)
        valid = column.is_valid().to_pylist()
        return [list(row) if there else None for row, there in zip(rows, valid, strict=True)]
    if pa.types.is_timestamp(column.type):
        nanos = _NANOS[column.type.unit]
        return [
            None if ticks is None else [ticks * nanos // 10**6, ticks * nanos % 10**6]
            for ticks in column.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_temporal(column.type):
        return column.cast(pa.int32()).to_pylist()
    return [None if value is None else _write(value) for value in column.to_pylist()]


def in_order(value: Any, kind: DataType) -> Any:
    """A plain value with the entries of its maps in key order."""
    if value is None or not kind.is_nested:
        return value
    if kind.root == "ROW":
        return [
            in_order(part, field.type) for part, field in zip(value, kind.fields or (), strict=True)
        ]
    if kind.root == "MAP":
        return sorted(([key, in_order(part, kind.value)] for key, part in value), key=str)
    return [in_order(part, kind.element) for part in value]


def _parts(items: pa.Array, kind: DataType) -> list[Any]:
    if kind.root == "ARRAY":
        return from_arrow(items, kind.element)
    keys, values = (
        from_arrow(part, part_kind)
        for part, part_kind in zip(items.flatten(), (kind.key, kind.value), strict=True)
    )
    return sorted(([key, value] for key, value in zip(keys, values, strict=True)), key=str)


def _ticks(value: Any, kind: DataType) -> int | None:
    if value is None or not pa.types.is_timestamp(kind.arrow):
        return value
    millis, above = value
    return (millis * 10**6 + above) // _NANOS[kind.arrow.unit]


def _read(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    match kind.root:
        case "FLOAT" | "DOUBLE":
            return struct.unpack(">d", bytes.fromhex(value))[0]
        case "DECIMAL":
            return Decimal(value)
        case "BINARY" | "VARBINARY" | "BYTES":
            return bytes.fromhex(value)
        case "ARRAY":
            return to_arrow(value, kind.element).to_pylist()
        case "MAP":
            keys = to_arrow([key for key, _ in value], kind.key).to_pylist()
            values = to_arrow([part for _, part in value], kind.value).to_pylist()
            return list(zip(keys, values, strict=True))
        case "ROW":
            return {
                field.name: to_arrow([part], field.type)[0].as_py()
                for field, part in zip(kind.fields or (), value, strict=True)
            }
    return value


def _write(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", math.nan if math.isnan(value) else value).hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else value
