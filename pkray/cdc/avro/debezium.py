"""Debezium's events in Avro: messages that name their schemas by ids, and records of files."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.avro.schemas import AvroSchemas, EventSchema, event_schema
from pkray.cdc.debezium import added, changes_of, image_readings, runs
from pkray.cdc.envelopes import NewColumns, metadata_types
from pkray.cdc.images import Events, Image, ImageColumns
from pkray.cdc.json_index import Members
from pkray.cdc.row_changes import Changes, Target
from pkray.errors import InputError

_MAGIC, _HEADER_BYTES = b"\0", 5
_IMAGES = ("before", "after")


class DebeziumAvro:
    """Reads events that Debezium's connectors write by an Avro converter.

    Args:
        schemas: those of messages.
    """

    def __init__(self, target: Target, schemas: AvroSchemas) -> None:
        self.target = target
        self._schemas = schemas
        self._single: int | None = None

    def read(self, messages: pa.Array, schema: str | None) -> list[Changes]:
        """Read events into changes, in parts that follow each other.

        Args:
            messages: large_binary, without nulls.
            schema: of all of them, which are records of a file; None: each begins with its id.

        Raises:
            InputError, pa.ArrowInvalid: an event is not as it must be.
            NewColumns: events have columns that the target has not.
        """
        if schema is not None:
            return self._changes(messages.to_pylist(), event_schema(schema))
        ids = _ids(messages)
        bodies = pc.binary_slice(messages, _HEADER_BYTES)
        return [
            part
            for start, stop in runs(ids)
            for part in self._changes(
                bodies[start:stop].to_pylist(), self._schema_of(ids[start].as_py())
            )
        ]

    def _schema_of(self, raw: bytes) -> EventSchema:
        number = int.from_bytes(raw, "big")
        if self._schemas.alone is not None:
            # One schema is no other's: values read by a wrong one may look right.
            self._single = number if self._single is None else self._single
            if number != self._single:
                raise InputError(
                    f"the message's schema has the id {number}, and the one schema given is that "
                    f"of {self._single}: give avro_schema={{{self._single}: …, {number}: …}}",
                    id=number,
                )
        return event_schema(self._schemas.of(number))

    def _changes(self, bodies: Sequence[bytes], schema: EventSchema) -> list[Changes]:
        events = [event for body in bodies if (event := _decoded(body, schema)) is not None]
        if schema.fields is None or not events:
            return []
        if strange := added(schema.fields, self.target):
            raise NewColumns([each.data_field() for each in strange])
        columns = ImageColumns(image_readings(schema.fields, self.target, None))
        others = {"op": pa.string(), **metadata_types(self.target)}
        fields = [*((name, columns.json) for name in _IMAGES), *others.items()]
        try:
            rows = pa.array(events, pa.struct(fields))
        except (TypeError, pa.ArrowTypeError) as error:
            raise InputError(f"a value is of another type than its column: {error}") from None
        names = [name for name in columns.readings if name in schema.fields]
        images = {name: _image(pc.struct_field(rows, name), names) for name in _IMAGES}
        kept = pa.table([pc.struct_field(rows, name) for name in others], list(others))
        return [changes_of(self.target, Events(rows, images, {}, kept, None), columns)]


def _ids(messages: pa.Array) -> pa.Array:
    """Cut out the ids of the messages' schemas.

    Raises:
        InputError: a message does not begin with one.
    """
    starts = pc.equal(pc.binary_slice(messages, 0, 1), pa.scalar(_MAGIC, messages.type))
    is_framed = pc.and_(starts, pc.greater_equal(pc.binary_length(messages), _HEADER_BYTES))
    if not pc.all(is_framed, min_count=0).as_py():
        raise InputError(
            "the message does not begin with a zero byte and the 4 bytes of a schema's id: is it "
            "written by an Avro converter with a registry?"
        )
    return pc.binary_slice(messages, 1, _HEADER_BYTES)


def _decoded(body: bytes, schema: EventSchema) -> Any:
    stream = BytesIO(body)
    try:
        event = fastavro.schemaless_reader(stream, schema.parsed, None)
    except Exception as error:  # fastavro has no kind of its own for bytes that are no record
        raise InputError(
            f"the bytes are no record of the schema: {type(error).__name__}: {error}"
        ) from None
    if left := len(body) - stream.tell():
        raise InputError(f"{left} bytes follow the schema's record: is it the message's schema?")
    return event


def _image(rows: pa.Array, names: Sequence[str]) -> Image:
    objects = len(rows) - rows.null_count
    places = np.tile(np.arange(len(names), dtype=np.int32), objects)
    encoded = pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string()))
    return Image(rows, Members(objects, np.repeat(np.arange(objects), len(names)), encoded))
