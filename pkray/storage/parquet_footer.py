"""Adds to a Parquet footer what pyarrow cannot write beside INT96: INT64 timestamps.

pyarrow stores either all timestamps of a file as INT96 or none, but Paimon's readers want INT96
for nanoseconds and annotated INT64 for the rest. So the rest is written as plain INT64, and its
annotations are put into the footer afterwards.

Source: FileMetaData and SchemaElement in the Parquet format, in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pkray.checksums import KEY

MAGIC = b"PAR1"
FOOTER_MARK = KEY.encode() + b"\x18\x08"
"""A key of the file's metadata, and what comes before a value of eight bytes."""
_BOOLEANS, _INTEGERS, _DOUBLE, _BINARY = (1, 2), (4, 5, 6), 7, 8
_BYTE, _LISTS, _MAP, _STRUCT = 3, (9, 10), 11, 12
_FILE_SCHEMA, _NAME, _NUM_CHILDREN, _CONVERTED_TYPE, _LOGICAL_TYPE = 2, 4, 5, 6, 10
_UNITS = {"ms": (1, 9), "us": (2, 10)}
"""The field of TimeUnit and the ConvertedType of a unit."""


def plain_timestamps(schema: pa.Schema) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """The schema with millisecond and microsecond timestamps as int64, and these by leaf path."""
    found: dict[str, pa.DataType] = {}
    fields = [_plain_field(field, "", found) for field in schema]
    return pa.schema(fields), found


def annotate(footer: bytes, timestamps: Mapping[str, pa.DataType]) -> bytes:
    """A file's last bytes, from the metadata to the magic, with the leaves annotated.

    Raises:
        ValueError: these are not the last bytes of a Parquet file.
    """
    length = int.from_bytes(footer[-8:-4], "little")
    if footer[-4:] != MAGIC or length != len(footer) - 8:
        raise ValueError(f"{len(footer)} bytes are not a Parquet footer of {length}")
    metadata = _Metadata(footer[:-8]).annotated(timestamps)
    return metadata + len(metadata).to_bytes(4, "little") + MAGIC


def has_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a type is, or holds, a timestamp of nanoseconds."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(has_nanoseconds(kind.field(n).type) for n in range(kind.num_fields))


def _plain_field(field: pa.Field, path: str, found: dict[str, pa.DataType]) -> pa.Field:
    path = f"{path}.{field.name}" if path else field.name
    return field.with_type(_plain_type(field.type, path, found))


def _plain_type(kind: pa.DataType, path: str, found: dict[str, pa.DataType]) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit in _UNITS:
        found[path] = kind
        return pa.int64()
    if pa.types.is_list(kind):
        item = kind.value_field.with_name("element")
        return pa.list_(_plain_field(item, f"{path}.list", found))
    if pa.types.is_map(kind):
        inside = f"{path}.key_value"
        return pa.map_(
            _plain_field(kind.key_field.with_name("key"), inside, found),
            _plain_field(kind.item_field.with_name("value"), inside, found),
        )
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(child, path, found) for child in kind])
    return kind


class _Metadata:
    """A FileMetaData as bytes, walked without being decoded."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def annotated(self, timestamps: Mapping[str, pa.DataType]) -> bytes:
        out = bytearray()
        copied = 0
        field = 0
        while True:
            field, kind = self._field(field)
            if field == _FILE_SCHEMA and kind in _LISTS:
                break
            if kind == 0:
                raise ValueError("a Parquet footer without a schema")
            self._skip(kind)
        count, _ = self._list()
        parents: list[tuple[str, int]] = []  # of the path so far: prefix, children left
        for position in range(count):
            name, children, last_field = self._element()
            prefix = parents[-1][0] if parents else ""
            path = "" if position == 0 else f"{prefix}.{name}" if prefix else name
            if path in timestamps and not children:
                end = self._at - 1  # before the stop byte
                out += self._data[copied:end] + _annotation(timestamps[path], last_field)
                copied = end
            if parents:
                parents[-1] = (prefix, parents[-1][1] - 1)
            if children:
                parents.append((path, children))
            while parents and parents[-1][1] == 0:
                parents.pop()
        return bytes(out + self._data[copied:])

    def _element(self) -> tuple[str, int, int]:
        """Read a SchemaElement: its name, its number of children, its last field's id."""
        name, children, field = "", 0, 0
        while True:
            before = field
            field, kind = self._field(field)
            if kind == 0:
                return name, children, before
            if field == _NAME:
                length = self._varint()
                name = self._data[self._at : self._at + length].decode()
                self._at += length
            elif field == _NUM_CHILDREN:
                children = _unzigzag(self._varint())
            else:
                self._skip(kind)

    def _field(self, before: int) -> tuple[int, int]:
        head = self._byte()
        if head == 0:
            return before, 0
        delta, kind = head >> 4, head & 15
        return (before + delta if delta else _unzigzag(self._varint())), kind

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        return (self._varint() if count == 15 else count), kind

    def _skip(self, kind: int, in_list: bool = False) -> None:
        if kind in _BOOLEANS:
            self._at += in_list
        elif kind == _BYTE:
            self._at += 1
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            self._at += self._varint()
        elif kind in _LISTS:
            count, inner = self._list()
            for _ in range(count):
                self._skip(inner, in_list=True)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, in_list=True)
                self._skip(kinds & 15, in_list=True)
        elif kind == _STRUCT:
            field = 0
            while True:
                field, inner = self._field(field)
                if inner == 0:
                    return
                self._skip(inner)
        else:
            raise ValueError(f"a Parquet footer with a value of unknown type {kind}")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def _annotation(kind: pa.DataType, last_field: int) -> bytes:
    """The fields that make a leaf a timestamp; the older of the two means UTC."""
    unit, converted = _UNITS[kind.unit]
    out = b""
    if kind.tz is not None:
        out += _head(_CONVERTED_TYPE, 5, last_field) + bytes([converted << 1])
        last_field = _CONVERTED_TYPE
    # LogicalType.TIMESTAMP (8) holds isAdjustedToUTC (1) and unit (2), a union of empty structs.
    adjusted = 0x11 if kind.tz is not None else 0x12
    stamp = bytes([adjusted, 0x1C, unit << 4 | _STRUCT, 0, 0, 0])
    return out + _head(_LOGICAL_TYPE, _STRUCT, last_field) + bytes([0x8C]) + stamp + b"\x00"


def _head(field: int, kind: int, before: int) -> bytes:
    delta = field - before
    return bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind, field << 1])


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
