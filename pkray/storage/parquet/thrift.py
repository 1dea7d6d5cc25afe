"""Reads and writes structures in Thrift's compact protocol, whatever they are.

Source: the protocol's specification. Parquet's metadata is written in it; of what it knows, maps
are left out, as Parquet has none.
"""

import struct
from typing import Any

Struct = dict[int, tuple[int, Any]]
"""By its number, each field's type and value.

A list is a pair as well, of its elements' type and its elements.
"""

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
I32, I64 = 5, 6
_INTEGERS = (4, I32, I64)
_LONG_LIST = 15


def decode(data: bytes) -> Struct:
    """Decode a structure; raise ValueError if this is none, or more than one."""
    reader = _Reader(data)
    try:
        found = reader.struct()
    except (IndexError, struct.error):
        raise ValueError(f"{len(data)} bytes hold no whole structure") from None
    if reader.at != len(data):
        raise ValueError(f"a structure ends at byte {reader.at} of {len(data)}")
    return found


def encode(value: Struct) -> bytes:
    """Encode a structure."""
    out = bytearray()
    _put_struct(out, value)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self) -> Struct:
        found: Struct = {}
        data, number = self._data, 0
        while head := data[self.at]:
            self.at += 1
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._integer()
            found[number] = kind, (kind == TRUE if kind in (TRUE, FALSE) else self._value(kind))
        self.at += 1
        return found

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == BINARY:
            size = self._varint()
            self.at += size
            return self._data[self.at - size : self.at]
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self._byte()
            count, inner = head >> 4, head & 15
            if count == _LONG_LIST:
                count = self._varint()
            return inner, [self._value(inner) for _ in range(count)]
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == DOUBLE:
            self.at += 8
            return struct.unpack_from("<d", self._data, self.at - 8)[0]
        raise ValueError(f"a value of the unknown type {kind} at byte {self.at}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        data, at = self._data, self.at
        value, shift = data[at] & 0x7F, 0
        while data[at] & 0x80:
            at += 1
            shift += 7
            value |= (data[at] & 0x7F) << shift
        self.at = at + 1
        return value

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _put_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(fields.items()):
        delta = number - before
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _put_integer(out, number)
        before = number
        if kind not in (TRUE, FALSE):
            _put(out, kind, value)
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _put_integer(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, SET):
        inner, values = value
        if len(values) < _LONG_LIST:
            out.append(len(values) << 4 | inner)
        else:
            out.append(_LONG_LIST << 4 | inner)
            _put_varint(out, len(values))
        for one in values:
            _put(out, inner, one)
    elif kind == DOUBLE:
        out += struct.pack("<d", value)
    else:
        out.append(value)


def _put_integer(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 ^ value >> 63)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
