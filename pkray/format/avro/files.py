"""Avro object container files in memory, as Paimon's manifests use them.

Records are decoded by fastavro; the container around them (header, blocks, codec) is read here, so
that bytes cut off anywhere are noticed, and times stay the integers they are stored as.

Source: "Object Container Files" in the Avro specification.
"""

from __future__ import annotations

import functools
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.validation import validate

from pkray.checksums import EMPTY, KEY, is_damaged, seal

_MAGIC = b"Obj\x01"
_CHECKSUM = KEY.encode() + b"\x10"
"""A key of the file's metadata, and the length of its value."""
_SYNC_BYTES = 16
_BLOCK_BYTES = 1 << 20
_ARROW_CODECS = {"zstandard": "zstd", "bzip2": "bz2"}
_CODECS = {"zstd": "zstandard", "default": "zstandard", "snappy": "snappy", "none": "null"}
_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})
_LONG = fastavro.parse_schema("long")

Schema = Any
Record = dict[str, Any]


class AvroError(ValueError):
    """Bytes that are no whole Avro file."""


def read_records(data: bytes, expected: Expected | None = None) -> Iterator[Record]:
    """Read the records of an Avro file, decoded by the schema it carries.

    Timestamps come as the integers stored. Codecs: null, deflate, zstandard, snappy, bzip2.

    Args:
        expected: what the records are held against where the file's own schema has other types.

    Raises:
        AvroError: the bytes are no Avro file, or end early. Damage inside a record surfaces as
            whatever fastavro raises.
    """
    stream = BytesIO(data)
    container = Container(stream)
    if is_damaged(data, _CHECKSUM):
        raise AvroError("its checksum is wrong")
    schema = _parsed(container.schema)
    is_alike = expected is None or expected.is_alike(container.schema)
    for count, raw in container.blocks(len(data)):
        block = BytesIO(raw)
        for _ in range(count):
            record: Any = fastavro.schemaless_reader(block, schema, None)
            if expected is not None and not is_alike and not expected.holds(record):
                raise AvroError("a record has other types than such a file's")
            yield record
        if block.read(1):
            raise AvroError(f"the block before byte {stream.tell()} holds more than its records")


class Container:
    """An Avro file that is read block by block.

    Args:
        stream: stands at the file's beginning; it is read forwards alone.

    Raises:
        AvroError: the bytes are no Avro file, or end early.

    Attributes:
        schema: JSON, of the records.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise AvroError("it does not begin as an Avro file")
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
        self.schema: bytes = header["avro.schema"]
        self._codec = header.get("avro.codec", b"null").decode()
        self._sync = _exactly(stream, _SYNC_BYTES)

    def blocks(self, longest: int) -> Iterator[tuple[int, bytes]]:
        """Yield how many records each block has, and their bytes.

        Args:
            longest: bytes of a block; one that says it has more is damaged.

        Raises:
            AvroError: the file ends early, or a block is damaged.
        """
        number = 0
        while (count := _long(self._stream)) is not None:
            size = _long(self._stream)
            if size is None or not 0 <= size <= longest or count < 0:
                raise AvroError(f"block {number} says that it has {count} records, {size} bytes")
            raw = _decompress(_exactly(self._stream, size), self._codec)
            if _exactly(self._stream, _SYNC_BYTES) != self._sync:
                raise AvroError(f"block {number} does not end in the file's marker")
            yield count, raw
            number += 1


def write_records(schema: Schema, records: Iterable[Record], compression: str = "zstd") -> bytes:
    """Make an Avro file of these records.

    Args:
        schema: as fastavro parsed it.
        compression: ``manifest.compression``: zstd, snappy, none or default (zstd).
    """
    codec = _CODECS[compression]
    sync = os.urandom(_SYNC_BYTES)
    out, block, count = BytesIO(), BytesIO(), 0
    header = {
        "avro.schema": json.dumps(_plain(schema)).encode(),
        "avro.codec": codec.encode(),
        KEY: EMPTY,
    }
    out.write(_MAGIC)
    fastavro.schemaless_writer(out, _HEADER, header)
    out.write(sync)
    for record in records:
        fastavro.schemaless_writer(block, schema, record)
        count += 1
        if block.tell() >= _BLOCK_BYTES:
            _write_block(out, _compress(block.getvalue(), codec), count, sync)
            block, count = BytesIO(), 0
    if count:
        _write_block(out, _compress(block.getvalue(), codec), count, sync)
    return seal(out.getvalue(), _CHECKSUM)


def _write_block(out: BytesIO, packed: bytes, count: int, sync: bytes) -> None:
    fastavro.schemaless_writer(out, _LONG, count)
    fastavro.schemaless_writer(out, _LONG, len(packed))
    out.write(packed)
    out.write(sync)


def _compress(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec == "snappy":
        packed: bytes = pa.compress(block, codec="snappy", asbytes=True)
        return packed + zlib.crc32(block).to_bytes(4, "big")
    return pa.compress(block, codec="zstd", asbytes=True)


def _long(stream: Any) -> int | None:
    """Read a number; None where the stream has ended."""
    found = shift = 0
    while byte := stream.read(1):
        found |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (found >> 1) ^ -(found & 1)
        if shift > 63:
            raise AvroError("a number is longer than 64 bits")
    if shift:
        raise AvroError("it ends early, in a number")
    return None


def _exactly(stream: Any, size: int) -> bytes:
    found = stream.read(size) if size >= 0 else b""
    if len(found) != size:
        raise AvroError(f"it ends early: {size} bytes due, {len(found)} there")
    return found


def _decompress(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec == "deflate":
        return zlib.decompress(block, wbits=-15)
    if codec == "snappy":
        return _unsnap(block)
    if codec in _ARROW_CODECS:
        # A stream, as Avro does not say how large a block is when decompressed.
        with pa.CompressedInputStream(pa.BufferReader(block), _ARROW_CODECS[codec]) as stream:
            return stream.read()
    raise AvroError(f"unknown codec {codec!r}")


def _unsnap(block: bytes) -> bytes:
    """Raw snappy and a CRC32; the size is the varint that raw snappy begins with."""
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    data: bytes = pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(data) != int.from_bytes(block[-4:], "big"):
        raise AvroError("a block's checksum is wrong")
    return data


@functools.lru_cache(maxsize=64)
def _parsed(schema: bytes) -> Schema:
    return fastavro.parse_schema(without_logical_types(json.loads(schema)))


class Expected:
    """The types that records have; fields that it has not got are let be.

    Args:
        schema: as fastavro parsed it.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.is_alike = functools.lru_cache(maxsize=64)(self._is_alike)

    def _is_alike(self, schema: bytes) -> bool:
        """Whether all records of another schema are ones of this."""
        found = without_logical_types(json.loads(schema))
        return _fits(found, without_logical_types(self._schema))

    def holds(self, record: Record) -> bool:
        """Whether a record has these types."""
        return bool(validate(record, self._schema, raise_errors=False))


def _fits(found: Schema, wanted: Schema) -> bool:
    """Whether all values of a type are ones of another; absent records are met when converted."""
    (found, is_absent), (wanted, may_be_absent) = _present(found), _present(wanted)
    kind = _kind(found)
    if kind != _kind(wanted) and (kind, _kind(wanted)) != ("int", "long"):
        return False
    if kind == "record":
        types = {field["name"]: field["type"] for field in found["fields"]}
        return all(
            field["name"] not in types or _fits(types[field["name"]], field["type"])
            for field in wanted["fields"]
        )
    if is_absent and not may_be_absent:
        return False
    return kind != "array" or _fits(found["items"], wanted["items"])


def _present(schema: Schema) -> tuple[Schema, bool]:
    """A type less null, and whether it could be null."""
    if not isinstance(schema, list):
        return schema, False
    rest = [each for each in schema if each != "null"]
    return rest[0] if len(rest) == 1 else rest, len(rest) < len(schema)


def _kind(schema: Schema) -> str | None:
    """The name of a type; None of a union of several."""
    if isinstance(schema, dict):
        return _kind(schema["type"])
    return schema if isinstance(schema, str) else None


def without_logical_types(schema: Schema) -> Schema:
    """Take out what makes other values of those that are stored, such as dates of numbers."""
    if isinstance(schema, dict):
        return {k: without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    return schema


def _plain(schema: Schema) -> Schema:
    """The schema without fastavro's own marks."""
    if isinstance(schema, dict):
        return {k: _plain(v) for k, v in schema.items() if not k.startswith("__")}
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    return schema
