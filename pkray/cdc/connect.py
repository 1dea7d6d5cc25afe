"""Kafka Connect's schemas, as types and ways to read values.

The logical types are those of Debezium (``io.debezium.…``) and of Connect
(``org.apache.kafka.connect.data.…``). A type without a known name is read as what it is written
as.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.readings import (
    DATE_TEXTS,
    DAYS,
    FLOATS,
    ISO_TIMESTAMPS,
    TEXTS,
    TIME_TEXTS,
    Handling,
    Reading,
    binary,
    list_of,
    precise,
    row_of,
    ticks,
    ticks_of_day,
    timestamp_texts,
    unscaled,
)
from pkray.errors import InputError, SchemaError, UnsupportedError
from pkray.schema.types import DataField, DataType

_DEBEZIUM, _CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
_ZONED = DataType("TIMESTAMP_LTZ", precision=6)
_LOGICAL: dict[str, tuple[DataType, Reading]] = {
    f"{_DEBEZIUM}time.Date": (DataType("DATE"), DAYS),
    f"{_DEBEZIUM}time.Time": (DataType("TIME", precision=3), ticks_of_day("ms")),
    f"{_DEBEZIUM}time.MicroTime": (DataType("TIME", precision=3), ticks_of_day("us")),
    f"{_DEBEZIUM}time.NanoTime": (DataType("TIME", precision=3), ticks_of_day("ns")),
    f"{_DEBEZIUM}time.Timestamp": (DataType("TIMESTAMP", precision=3), ticks("ms")),
    f"{_DEBEZIUM}time.MicroTimestamp": (DataType("TIMESTAMP", precision=6), ticks("us")),
    f"{_DEBEZIUM}time.NanoTimestamp": (DataType("TIMESTAMP", precision=9), ticks("ns")),
    f"{_DEBEZIUM}time.ZonedTimestamp": (_ZONED, timestamp_texts(_ZONED)),
    f"{_DEBEZIUM}time.ZonedTime": (DataType("TIME", precision=3), TIME_TEXTS),
    f"{_DEBEZIUM}time.IsoDate": (DataType("DATE"), DATE_TEXTS),
    f"{_DEBEZIUM}time.IsoTime": (DataType("TIME", precision=3), TIME_TEXTS),
    f"{_DEBEZIUM}time.IsoTimestamp": (DataType("TIMESTAMP", precision=6), ISO_TIMESTAMPS),
    f"{_CONNECT}Date": (DataType("DATE"), DAYS),
    f"{_CONNECT}Time": (DataType("TIME", precision=3), ticks_of_day("ms")),
    f"{_CONNECT}Timestamp": (DataType("TIMESTAMP", precision=3), ticks("ms")),
}
_PLAIN = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
}
_FLOATS = {"float": "FLOAT", "float32": "FLOAT", "double": "DOUBLE", "float64": "DOUBLE"}
_MOST_DIGITS = 38


@dataclass(frozen=True)
class ConnectField:
    """A field of a schema.

    Args:
        schema: its JSON.
    """

    name: str
    schema: Mapping[str, Any]

    def data_field(self) -> DataField:
        """Give the column that a table is given for it.

        Raises:
            UnsupportedError: no type holds its values surely.
        """
        return DataField(0, self.name, _type_of(self.schema, self.name))

    def readings(self, handling: Handling | None) -> list[Reading]:
        """List how its values may stand in events.

        Args:
            handling: how JSON has bytes; None: they are bytes, as in Avro.

        Raises:
            UnsupportedError: they are not read.
        """
        return _readings(self.schema, self.name, handling)


def image_fields(schema: str) -> dict[str, ConnectField]:
    """Read the fields of the images that a schema's text describes.

    Raises:
        InputError: it describes none.
    """
    try:
        described = json.loads(schema)
        members = {each["field"]: each for each in described["fields"]}
        image = members.get("after") or members["before"]
        return {each["field"]: ConnectField(each["field"], each) for each in image["fields"]}
    except (KeyError, TypeError, ValueError, RecursionError):
        if '"field":"ts_ms"' in schema.replace(" ", ""):
            return {}  # of a heartbeat
        raise InputError("the event's schema describes no rows: is it of this format?") from None


def _logical(schema: Mapping[str, Any]) -> str:
    return str(schema.get("name") or "")


def _decimal_type(schema: Mapping[str, Any], name: str) -> DataType:
    said = schema.get("parameters") or {}
    try:
        scale = int(said["scale"])
        digits = int(said.get("connect.decimal.precision", _MOST_DIGITS))
        return DataType("DECIMAL", precision=digits, scale=scale)
    except (LookupError, TypeError, ValueError, OverflowError, SchemaError):
        raise UnsupportedError(
            f"column {name!r} is a decimal of {dict(said)}, which no DECIMAL of 38 digits holds: "
            "have the connector write it with decimal.handling.mode = string",
            column=name,
        ) from None


def _type_of(schema: Mapping[str, Any], name: str) -> DataType:
    logical, plain = _logical(schema), schema.get("type")
    if logical in _LOGICAL:
        return _LOGICAL[logical][0]
    if logical == f"{_CONNECT}Decimal":
        if "connect.decimal.precision" not in (schema.get("parameters") or {}):
            raise UnsupportedError(
                f"the new column {name!r} is a decimal whose precision its schema does not say: "
                "add it by table.alter.add_column",
                column=name,
            )
        return _decimal_type(schema, name)
    if plain in _PLAIN or plain in _FLOATS:
        return DataType(_PLAIN.get(plain) or _FLOATS[plain])
    if plain in ("string", "bytes"):
        return DataType("STRING" if plain == "string" else "BYTES")
    if plain == "array":
        return DataType("ARRAY", element=_type_of(schema.get("items") or {}, name))
    if plain == "struct" and logical != f"{_DEBEZIUM}data.VariableScaleDecimal":
        parts = schema.get("fields") or []
        fields = [DataField(0, each["field"], _type_of(each, name)) for each in parts]
        return DataType("ROW", fields=tuple(fields))
    raise UnsupportedError(
        f"the new column {name!r} is {logical or plain}, of which its schema says no type: add it "
        "by table.alter.add_column",
        column=name,
    )


def _readings(schema: Mapping[str, Any], name: str, handling: Handling | None) -> list[Reading]:
    logical, plain = _logical(schema), schema.get("type")
    stored = pa.binary() if handling is None else pa.string()
    if logical in _LOGICAL:
        return [_LOGICAL[logical][1]]
    if logical == f"{_CONNECT}Decimal":
        kind = _decimal_type(schema, name)
        assert kind.precision is not None
        assert kind.scale is not None
        # Connect's converter writes numbers with decimal.format = NUMERIC.
        plain_numbers = [] if handling is None else [Reading(kind.arrow)]
        return [precise(kind.precision, kind.scale, stored), *plain_numbers]
    if logical == f"{_DEBEZIUM}data.VariableScaleDecimal":
        return [_variable_scales(stored)]
    if plain in _PLAIN:
        return [Reading(DataType(_PLAIN[plain]).arrow)]
    if plain in _FLOATS:
        return FLOATS
    if plain == "string":
        return TEXTS
    if plain == "bytes":
        if handling is None:
            return [Reading(stored)]
        return [binary(handling.binary_handling_mode or "base64")]
    if plain == "array":
        return [list_of(each) for each in _readings(schema.get("items") or {}, name, handling)]
    if plain == "struct":
        parts = schema.get("fields") or []
        ways = [_readings(each, name, handling)[0] for each in parts]
        return [row_of([each["field"] for each in parts], ways)]
    raise UnsupportedError(
        f"column {name!r} is a {plain}, which is not read from events: have the connector "
        "write text",
        column=name,
    )


def _variable_scale(rows: pa.Array) -> pa.Array:
    """Read decimals that each bring their scale, in as many digits as all of them need."""
    scales = pc.struct_field(rows, "scale")
    known = [each for each in pc.unique(scales).to_pylist() if each is not None]
    if not known:
        return pa.nulls(len(rows), pa.decimal128(_MOST_DIGITS, 0))
    widest = max(0, *known)
    if min(known) < -_MOST_DIGITS or widest > _MOST_DIGITS:
        raise InputError(f"a decimal has a scale of {min(known)} to {widest}: 38 digits are read")
    kind = pa.decimal128(_MOST_DIGITS, widest)
    found = pa.nulls(len(rows), kind)
    for scale in known:  # few: scales, not rows
        chosen = pc.fill_null(pc.equal(scales, scale), False)
        numbers = pc.struct_field(rows, "value").filter(chosen)
        values = unscaled(numbers, _MOST_DIGITS, scale).cast(kind)
        found = pc.replace_with_mask(found, chosen, values)
    return found


def _variable_scales(stored: pa.DataType) -> Reading:
    return Reading(pa.struct([("scale", pa.int32()), ("value", stored)]), _variable_scale)
