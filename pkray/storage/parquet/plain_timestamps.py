"""Has pyarrow write INT64 timestamps as well as INT96 ones.

pyarrow stores either all timestamps of a file as INT96 or none, but Paimon's readers want INT96
for nanoseconds and annotated INT64 for the rest. So the rest is written as plain INT64, and its
annotations are put into the footer afterwards.

Source: SchemaElement in the Parquet format.
"""

from collections.abc import Mapping

import pyarrow as pa

from pkray.storage.parquet.footer import leaves
from pkray.storage.parquet.thrift import FALSE, I32, STRUCT, TRUE, Struct

_CONVERTED_TYPE, _LOGICAL_TYPE = 6, 10
_TIMESTAMP, _IS_ADJUSTED_TO_UTC, _UNIT = 8, 1, 2
_UNITS = {"ms": (1, 9), "us": (2, 10)}
"""The field of TimeUnit and the ConvertedType of a unit."""


def plain_timestamps(schema: pa.Schema) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Replace millisecond and microsecond timestamps in the schema by int64; return these by leaf
    path too."""
    found: dict[str, pa.DataType] = {}
    fields = [_plain_field(field, "", found) for field in schema]
    return pa.schema(fields), found


def annotate(metadata: Struct, timestamps: Mapping[str, pa.DataType]) -> None:
    """Make leaves of a FileMetaData, by path, the timestamps that they are."""
    for path, element in leaves(metadata):
        if path in timestamps:
            _annotate(element, timestamps[path])


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


def _annotate(element: Struct, kind: pa.DataType) -> None:
    """The older of the two annotations means UTC."""
    unit, converted = _UNITS[kind.unit]
    if kind.tz is not None:
        element[_CONVERTED_TYPE] = I32, converted
    adjusted = kind.tz is not None
    timestamp: Struct = {
        _IS_ADJUSTED_TO_UTC: (TRUE if adjusted else FALSE, adjusted),
        _UNIT: (STRUCT, {unit: (STRUCT, {})}),
    }
    element[_LOGICAL_TYPE] = STRUCT, {_TIMESTAMP: (STRUCT, timestamp)}
