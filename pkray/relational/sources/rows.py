"""Rows that users bring as sources: their columns and types."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from pkray.errors import InputError
from pkray.relational.plan.fields import Field, Fields
from pkray.schema.casts import cast_column
from pkray.schema.column_checks import check_names
from pkray.schema.table_schema import VERSION, TableSchema
from pkray.schema.types import DataField, DataType


def described(fields: Iterable[Field]) -> TableSchema:
    """Describe columns without a key as rows are checked by."""
    columns = tuple(
        DataField(number, field.name, field.type) for number, field in enumerate(fields)
    )
    return TableSchema(0, columns, len(columns) - 1, (), (), {}, None, 0, VERSION)


def fields_of(schema: pa.Schema) -> Fields:
    """Give the columns of an Arrow schema.

    Raises:
        SchemaError: two have one name.
        UnsupportedError: a type that no column has.
    """
    check_names(schema.names)
    return Fields(tuple(Field(each.name, DataType.from_field(each)) for each in schema))


def as_table(data: object) -> pa.Table:
    """Take rows in any of the forms that users have them in.

    Args:
        data: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, a
            list of dicts, a mapping of columns, or whatever exports an Arrow stream.

    Raises:
        InputError: something else.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and isinstance(data, pandas.DataFrame):
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        if isinstance(data, list | tuple) and data and all(isinstance(r, Mapping) for r in data):
            names = dict.fromkeys(name for row in data for name in row)
            return pa.table({name: [row.get(name) for row in data] for name in names})
    except OverflowError as error:
        raise InputError(
            f"these rows hold a whole number beyond 64 bits ({error}): give it as a Decimal or as "
            "text"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"these rows do not become Arrow columns: {error}") from error
    raise InputError(
        f"rows cannot be {type(data).__name__}: give a pyarrow Table, a pandas or polars "
        "DataFrame, or a list of dicts",
        type=type(data).__name__,
    )


def conformed(table: pa.Table, fields: Fields) -> pa.Table:
    """Cast columns to the types of `fields`, which are theirs but for details of Arrow.

    Raises:
        InputError: a value that does not fit, or text that is no UTF-8.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            raise InputError(
                f"column {name!r} holds what its type cannot be: {error}; text must be UTF-8, "
                "other bytes go into a BINARY column",
                column=name,
            ) from error
    columns: list[Any] = [
        cast_column(column, field.type, field.name)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=fields.arrow)
