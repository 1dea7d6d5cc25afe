"""Converts a table's columns to Spark's types and back."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas import types as conversion
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pkray.errors import SchemaError

_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"}
    if "timezone" in inspect.signature(conversion.to_arrow_schema).parameters
    else {}  # as it is in Spark before 4.2, without being asked
)

TIME_TYPE = "spark.sql.timeType.enabled"
"""Spark's setting without which it refuses columns of type TIME; it is off by default."""

Convert: TypeAlias = Callable[[pa.DataType], pa.DataType]


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert a table's Arrow schema to a Spark type.

    TIME becomes Spark's TIME, TIMESTAMP its TIMESTAMP_NTZ, TIMESTAMP_LTZ its TIMESTAMP; Spark
    keeps microseconds.
    """
    return from_arrow_schema(exchange_schema(schema), prefer_timestamp_ntz=True)


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to the Arrow one that Spark exchanges with Python; times are in UTC.

    Raises:
        PySparkTypeError: a type that Spark does not exchange.
    """
    return conversion.to_arrow_schema(schema, **_IN_UTC)


def exchange_schema(schema: pa.Schema) -> pa.Schema:
    """Return the Arrow schema in which Spark takes and gives these columns."""
    return pa.schema([_exchange_field(field) for field in schema])


def incoming_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's rows reach Python.

    Raises:
        SchemaError: a column's type has no Arrow form, or a name appears twice.
    """
    names = schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(
            f"the DataFrame has column {twice[0]!r} more than once: rename or drop one of them",
            column=twice[0],
        )
    fields = []
    for field in schema:
        try:
            fields += to_arrow_schema(StructType([field]))
        except PySparkTypeError as error:
            raise SchemaError(
                f"column {field.name!r} has Spark type {field.dataType.simpleString()}, which "
                "no table column can hold: cast or drop it",
                column=field.name,
                type=field.dataType.simpleString(),
            ) from error
    return pa.schema(fields)


def added_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the columns that a DataFrame adds to a table: a TIME is kept in
    milliseconds.

    Raises:
        SchemaError: as of `incoming_schema`.
    """
    return pa.schema(
        [field.with_type(_nested(field.type, _added_type)) for field in incoming_schema(schema)]
    )


def _added_type(kind: pa.DataType) -> pa.DataType:
    return pa.time32("ms") if pa.types.is_time(kind) else kind


def to_exchange(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a table's rows to the exchange schema; finer than microseconds is rounded down."""
    columns = [
        _convert(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _exchange_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _nested(field.type, _exchange_type), field.nullable)


def _exchange_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return pa.time64("ns") if pa.types.is_time(kind) else kind


def _nested(kind: pa.DataType, convert: Convert) -> pa.DataType:
    """Convert a type, or those inside it."""
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(pa.field("element", _nested(element.type, convert), element.nullable))
    if pa.types.is_map(kind):
        return pa.map_(
            pa.field("key", _nested(kind.key_type, convert), nullable=False),
            pa.field("value", _nested(kind.item_type, convert), kind.item_field.nullable),
        )
    if pa.types.is_struct(kind):
        return pa.struct(
            [pa.field(each.name, _nested(each.type, convert), each.nullable) for each in kind]
        )
    return convert(kind)


def _convert(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return pc.floor_temporal(column, unit="microsecond").cast(kind)
    return column.cast(kind, safe=not pa.types.is_nested(kind))
