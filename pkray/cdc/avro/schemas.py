"""Avro's schemas of events: the types of their images, as Kafka Connect names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import fastavro

from pkray.cdc.connect import ConnectField
from pkray.errors import InputError
from pkray.format.avro.files import without_logical_types

Given: TypeAlias = str | PathLike[str] | Mapping[int, str | PathLike[str]]
"""A schema, as text of JSON or the path of a file that has it, or those of the ids that messages
name."""

_PRIMITIVES = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "fixed": "bytes",
    "enum": "string",
}
_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
_LOGICAL = {
    "decimal": f"{_CONNECT}Decimal",
    "date": f"{_TIME}Date",
    "time-millis": f"{_TIME}Time",
    "time-micros": f"{_TIME}MicroTime",
    **{
        f"{kind}-{unit}": f"{_TIME}{name}Timestamp"
        for kind in ("timestamp", "local-timestamp")
        for unit, name in (("millis", ""), ("micros", "Micro"), ("nanos", "Nano"))
    },
}
"""Gives the names of Avro's own logical types, for schemas that no Connect converter wrote."""


class EventSchema:
    """A schema of events.

    Args:
        text: JSON.

    Raises:
        InputError: it is no schema.

    Attributes:
        parsed: as fastavro reads by it: values are as they are stored.
        fields: those of the images; None: such events are no changes, as heartbeats are none.
    """

    def __init__(self, text: str) -> None:
        try:
            plain = json.loads(text)
            self.parsed: Any = fastavro.parse_schema(without_logical_types(plain))
            whole = _connect(fastavro.schema.expand_schema(plain))
        except Exception as error:  # of several kinds, and of fastavro's own
            said = f"{type(error).__name__}: {error}"
            raise InputError(f"the text is no Avro schema: {said}; it is {text[:200]!r}") from None
        self.members = {each["field"]: each for each in whole.get("fields") or ()}
        self.fields = self._images()

    def _images(self) -> dict[str, ConnectField] | None:
        image = self.members.get("after") or self.members.get("before")
        if "op" in self.members and image is not None and image["type"] == "struct":
            return {each["field"]: ConnectField(each["field"], each) for each in image["fields"]}
        if "status" in self.members or set(self.members) == {"ts_ms"}:
            return None
        raise InputError(
            "the schema describes no rows: an envelope of Debezium's has before, after and op, and "
            f"this one has {', '.join(self.members) or 'no members'}"
        )


event_schema = lru_cache(64)(EventSchema)
"""Reads a schema's text, once."""


@dataclass(frozen=True)
class AvroSchemas:
    """The schemas of messages, which bring the id of theirs alone.

    Args:
        alone: of all messages of one id.
        of_ids: by id.
    """

    alone: str | None = None
    of_ids: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def given(cls, schemas: Given | None) -> AvroSchemas:
        """Take what a user gives.

        Raises:
            InputError: there is no such file, or it has no schema.
        """
        if schemas is None:
            return cls()
        if not isinstance(schemas, Mapping):
            return cls(_text(schemas))
        for each in schemas:
            if type(each) is not int or not 0 <= each < 1 << 32:
                raise InputError(f"a schema's id is a number of 32 bits, and {each!r} is none")
        return cls(None, {number: _text(each) for number, each in schemas.items()})

    def of(self, number: int) -> str:
        """Give the schema of an id.

        Raises:
            InputError: it is not known.
        """
        found = self.of_ids.get(number, self.alone)
        if found is None:
            known = ", ".join(map(str, self.of_ids)) or "none"
            raise InputError(
                f"the message's schema has the id {number}, and the ids given are {known}: give "
                f"its schema as avro_schema={{{number}: …}}",
                id=number,
            )
        return found


def _text(given: str | PathLike[str]) -> str:
    text = str(given)
    if not (isinstance(given, str) and text.lstrip().startswith(("{", "["))):
        try:
            text = Path(given).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise InputError(f"the Avro schema {given!r} cannot be read: {error}") from None
    event_schema(text)
    return text


def _connect(kind: Any) -> dict[str, Any]:
    """Describe a type as Connect's JSON does; what it has no word for is of the type's own name."""
    if isinstance(kind, list):
        present = [each for each in kind if each != "null"]
        return _connect(present[0]) if len(present) == 1 else {"type": "union"}
    if isinstance(kind, str):
        return {"type": _PRIMITIVES.get(kind, kind)}
    inner = kind["type"]
    if isinstance(inner, dict | list):
        return {**_connect(inner), **_named(kind)}
    if inner == "record":
        fields = [{**_connect(each["type"]), "field": each["name"]} for each in kind["fields"]]
        return {"type": "struct", "fields": fields, **_named(kind)}
    if inner == "array":
        return {"type": "array", "items": _connect(kind["items"])}
    return {"type": kind.get("connect.type") or _PRIMITIVES.get(inner, inner), **_named(kind)}


def _named(kind: Mapping[str, Any]) -> dict[str, Any]:
    name = kind.get("connect.name") or _LOGICAL.get(kind.get("logicalType", ""))
    if name is None:
        return {}
    said = kind.get("connect.parameters")
    if said is None and "precision" in kind:
        said = {"scale": kind.get("scale", 0), "connect.decimal.precision": kind["precision"]}
    return {"name": name, "parameters": said or {}}
