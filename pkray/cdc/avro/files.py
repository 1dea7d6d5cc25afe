"""Avro's files of events: object containers, which bring their schema, and single messages."""

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from pkray.cdc.avro.schemas import event_schema
from pkray.cdc.decoder import Records
from pkray.cdc.sources import EventFile
from pkray.errors import InputError
from pkray.format.avro.files import Container

_LONGEST = 256 << 20
"""Bytes of a block, or of a message, that are held in memory to be read: writers' blocks have some
ten thousand."""
_RECORDS = 8192
"""Records decoded at a time, as their values are Python's for a while."""


@dataclass(frozen=True)
class AvroFile(EventFile):
    """An object container of events, or one message that begins with its schema's id."""

    def records(self) -> Iterator[tuple[Records, int]]:
        """Yield some records at a time, and how many bytes of the file were read so far.

        Raises:
            InputError: the file is damaged.
        """
        with self._open() as raw:
            if raw.peek(1)[:1] == b"\0":
                message = raw.read(_LONGEST)
                yield Records(pa.array([message], pa.large_binary()), self.name, 1), len(message)
                return
            first = 1
            try:
                container = Container(raw)
                schema = container.schema.decode()
                for count, block in container.blocks(_LONGEST):
                    bounds = _bounds(schema, count, block)
                    for start in range(0, count, _RECORDS):
                        texts = _cut(block, bounds[start : start + _RECORDS + 1])
                        records = Records(texts, self.name, first, schema=schema)
                        yield records, 0 if self.is_stream else raw.tell()
                        first += len(texts)
            except InputError:
                raise
            except Exception as error:  # of fastavro and of codecs, which have many kinds
                raise InputError(
                    f"{self.name}: it is no whole Avro file: {type(error).__name__}: {error}, "
                    f"after record {first - 1}",
                    path=str(self.path),
                ) from None

    def _open(self) -> AbstractContextManager[Any]:
        if self.is_stream:
            return nullcontext(sys.stdin.buffer)
        return self.path.open("rb")


def _bounds(schema: str, count: int, block: bytes) -> Any:
    """Find where each record of a block begins, and where the last one ends: int64."""
    parsed = event_schema(schema).parsed
    # A reader that wants no field has values passed over rather than made.
    nothing: Any = None
    if isinstance(parsed, dict) and parsed["type"] == "record":
        nothing = fastavro.parse_schema({"type": "record", "name": parsed["name"], "fields": []})
    stream = io.BytesIO(block)
    bounds = [0]
    for _ in range(count):
        fastavro.schemaless_reader(stream, parsed, nothing)
        bounds.append(stream.tell())
    if bounds[-1] != len(block):
        raise InputError("a block holds more than its records")
    return np.array(bounds, np.int64)


def _cut(block: bytes, bounds: Any) -> pa.Array:
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)
