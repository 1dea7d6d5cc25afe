"""The type that holds an Arrow column's values."""

from __future__ import annotations

import pyarrow as pa

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.types import BINARIES, STRINGS, DataField, DataType

TYPE_METADATA = b"paimon.type"

_FROM_ARROW = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "STRING"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "BYTES"),
}
_REMEDIES = {
    pa.uint8(): "cast it to int16",
    pa.uint16(): "cast it to int32",
    pa.uint32(): "cast it to int64",
    pa.uint64(): "cast it to decimal128(20, 0)",
    pa.float16(): "cast it to float32",
    pa.date64(): "cast it to date32",
    pa.time64("us"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.time64("ns"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.null(): "a column of nulls has no type of its own: cast it to the type it should have",
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def of_arrow(arrow: pa.DataType) -> DataType:
    if arrow in _FROM_ARROW:
        return DataType(_FROM_ARROW[arrow])
    is_a = pa.types
    if is_a.is_dictionary(arrow):
        return DataType.from_arrow(arrow.value_type)
    if is_a.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return DataType("DECIMAL", precision=arrow.precision, scale=arrow.scale)
    if is_a.is_time32(arrow):
        return DataType("TIME", precision=_DIGITS[arrow.unit])
    if is_a.is_timestamp(arrow):
        root = "TIMESTAMP" if arrow.tz is None else "TIMESTAMP_LTZ"
        return DataType(root, precision=_DIGITS[arrow.unit])
    if is_a.is_fixed_size_binary(arrow):
        return DataType("BINARY", length=arrow.byte_width)
    if is_a.is_map(arrow):
        key, value = DataType.from_field(arrow.key_field), DataType.from_field(arrow.item_field)
        return DataType("MAP", key=key.with_nullable(False), value=value)
    if is_a.is_list(arrow) or is_a.is_large_list(arrow) or is_a.is_fixed_size_list(arrow):
        return DataType("ARRAY", element=DataType.from_field(arrow.value_field))
    if is_a.is_struct(arrow):
        fields = (DataField(i, f.name, DataType.from_field(f)) for i, f in enumerate(arrow))
        return DataType("ROW", fields=tuple(fields))
    raise UnsupportedError(f"{arrow} is not supported: {_remedy(arrow)}", type=str(arrow))


def _remedy(arrow: pa.DataType) -> str:
    if pa.types.is_duration(arrow) or pa.types.is_interval(arrow):
        return "cast it to int64"
    if pa.types.is_decimal(arrow):
        return "use a decimal128 of at most 38 digits and a scale of 0 or more"
    return _REMEDIES.get(arrow, "cast it to a type that Paimon has")


def of_field(field: pa.Field) -> DataType:
    """The type of a field; see :meth:`DataType.from_field`."""
    try:
        said = (field.metadata or {}).get(TYPE_METADATA)
        inferred = DataType.from_arrow(field.type, field.nullable)
    except UnsupportedError as error:
        values = {**error.values, "column": field.name}
        raise UnsupportedError(f"column {field.name!r}: {error.message}", **values) from None
    if said is None:
        return inferred
    declared = DataType.parse(said.decode())
    if _family(declared) != _family(inferred):
        raise SchemaError(
            f"column {field.name!r} is {field.type} in Arrow, which its metadata "
            f"paimon.type={said.decode()!r} does not fit; drop the metadata or cast the column",
            column=field.name,
            type=str(field.type),
        )
    return declared.with_nullable(declared.nullable and field.nullable)


def _family(data_type: DataType) -> str:
    for family, roots in (("string", STRINGS), ("binary", BINARIES)):
        if data_type.root in roots:
            return family
    return data_type.root
