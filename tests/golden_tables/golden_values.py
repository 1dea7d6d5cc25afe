"""Values of golden cases: JSON to Arrow and back, so that both sides are written one way."""

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pkray.schema.types import DataType

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = dt.datetime(1970, 1, 1)
_MOMENT = re.compile(r"(.{10})T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?")


def to_arrow(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """A column of a case."""
    return pa.array([_read(value, data_type) for value in values], data_type.arrow)


def fits(value: Any, data_type: DataType) -> bool:
    """Whether Arrow holds the value: its nanoseconds span 1677 to 2262, its decimals the type."""
    try:
        to_arrow([value], data_type)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def from_arrow(column: pa.Array, data_type: DataType) -> list[Any]:
    """A column as the cases write it, but floats as text, so that NaN and -0.0 compare."""
    root = data_type.root
    if root == "ARRAY":
        return [_parts(item, data_type.element) for item in column]
    if root == "MAP":
        return [_entries(item, data_type) for item in column]
    if root == "ROW":
        children = [
            from_arrow(child, field.type)
            for child, field in zip(column.flatten(), data_type.fields or (), strict=True)
        ]
        rows = [list(row) for row in zip(*children, strict=True)]
        return [
            row if valid else None
            for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        per_second = _PER_SECOND[column.type.unit]
        return [
            None if ticks is None else _moment(ticks, per_second, data_type)
            for ticks in column.cast(pa.int64()).to_pylist()
        ]
    if root == "TIME":
        return [
            None if millis is None else str(_EPOCH + dt.timedelta(milliseconds=millis))
            for millis in column.cast(pa.int32()).to_pylist()
        ]
    return [None if value is None else _write(value) for value in column.to_pylist()]


def _read(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    match data_type.root:
        case "FLOAT" | "DOUBLE":
            return float(value)
        case "DECIMAL":
            return Decimal(value)
        case "BINARY" | "VARBINARY" | "BYTES":
            return bytes.fromhex(value)
        case "DATE":
            return dt.date.fromisoformat(value)
        case "TIME":
            return dt.time.fromisoformat(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _ticks(value, _PER_SECOND[data_type.arrow.unit])
        case "ARRAY":
            return [_read(part, data_type.element) for part in value]
        case "MAP":
            return [(_read(k, data_type.key), _read(v, data_type.value)) for k, v in value]
        case "ROW":
            fields = data_type.fields or ()
            return {
                field.name: _read(part, field.type)
                for field, part in zip(fields, value, strict=True)
            }
    return value


def _ticks(text: str, per_second: int) -> int:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day = dt.date.fromisoformat(match[1]).toordinal() - _EPOCH.toordinal()
    seconds = ((day * 24 + int(match[2])) * 60 + int(match[3])) * 60 + int(match[4])
    nanos = int((match[5] or "").ljust(9, "0"))
    ticks = seconds * per_second + nanos * per_second // 10**9
    if not -(2**63) <= ticks < 2**63:
        raise OverflowError(text)
    return ticks


def _moment(ticks: int, per_second: int, data_type: DataType) -> str:
    seconds, below = divmod(ticks, per_second)
    digits = len(str(per_second)) - 1
    fraction = f"{below:0{digits}}".ljust(data_type.precision or 0, "0")[: data_type.precision]
    text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    zone = "Z" if data_type.root == "TIMESTAMP_LTZ" else ""
    return f"{text}{'.' if fraction else ''}{fraction}{zone}"


def _parts(item: pa.Scalar, element: DataType | None) -> list[Any] | None:
    return from_arrow(item.values, element) if item.is_valid and element else None


def _entries(item: pa.Scalar, data_type: DataType) -> list[Any] | None:
    if not item.is_valid or data_type.key is None or data_type.value is None:
        return None
    keys, values = item.values.flatten()
    pairs = zip(from_arrow(keys, data_type.key), from_arrow(values, data_type.value), strict=True)
    return sorted(([key, value] for key, value in pairs), key=str)


def _write(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | str) else str(value)
