"""BinaryRow and its hash, one value at a time: what the vectorised code is checked against."""

import struct
from datetime import date, time
from typing import Any

from pkray.schema.types import DataType

_FORMATS = {
    "BOOLEAN": "<?7x",
    "TINYINT": "<b7x",
    "SMALLINT": "<h6x",
    "INT": "<i4x",
    "BIGINT": "<q",
    "FLOAT": "<f4x",
    "DOUBLE": "<d",
    "DATE": "<i4x",
    "TIME": "<i4x",
}


def row_of(values: list[Any], kinds: list[DataType]) -> bytes:
    """The BinaryRow without arity. Timestamps are given as (epoch second, nanosecond)."""
    bits = ((len(kinds) + 63 + 8) // 64) * 8
    fixed = bytearray(bits + 8 * len(kinds))
    tail = bytearray()
    for i, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        at = bits + 8 * i
        where = len(fixed) + len(tail)
        reserved = _reserved(kind)
        if value is None:
            fixed[(i + 8) // 8] |= 1 << (i + 8) % 8
            if reserved:
                fixed[at : at + 8] = struct.pack("<q", where << 32)
                tail += bytes(reserved)
            continue
        slot, variable = _value(value, kind)
        fixed[at : at + 8] = slot if variable is None else slot[:4] + struct.pack("<i", where)
        tail += variable or b""
    return bytes(fixed + tail)


def _reserved(kind: DataType) -> int:
    if kind.root == "DECIMAL" and kind.precision > 18:
        return 16
    return 8 if kind.root.startswith("TIMESTAMP") and kind.precision > 3 else 0


def _value(value: Any, kind: DataType) -> tuple[bytes, bytes | None]:
    root = kind.root
    if root in _FORMATS:
        return struct.pack(_FORMATS[root], _number(value)), None
    if root == "DECIMAL":
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        if kind.precision <= 18:
            return struct.pack("<q", unscaled), None
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        data = unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
        return struct.pack("<ii", len(data), 0), data.ljust(16, b"\0")
    if root.startswith("TIMESTAMP"):
        second, nano = value
        millis = second * 1000 + nano // 1_000_000
        if kind.precision <= 3:
            return struct.pack("<q", millis), None
        return struct.pack("<ii", nano % 1_000_000, 0), struct.pack("<q", millis)
    data = value.encode() if isinstance(value, str) else value
    if len(data) <= 7:
        return data.ljust(7, b"\0") + bytes([0x80 | len(data)]), None
    return struct.pack("<ii", len(data), 0), data + bytes(-len(data) % 8)


def _number(value: Any) -> Any:
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + (
            value.microsecond // 1000
        )
    return value


def hash_of(row: bytes) -> int:
    """Murmur3_32, seed 42, as a signed 32-bit integer."""
    mask = 0xFFFFFFFF
    h = 42
    for (word,) in struct.iter_unpack("<I", row):
        k = word * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) & mask
        h ^= k * 0x1B873593 & mask
        h = (h << 13 | h >> 19) & mask
        h = (h * 5 + 0xE6546B64) & mask
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def bucket_of(code: int, num_buckets: int) -> int:
    """Java's ``Math.abs(code % num_buckets)``."""
    return abs(code) % num_buckets
