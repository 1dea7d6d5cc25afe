"""Columns that rows have and their table has not, as changes that add them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pkray.errors import InputError, UnsupportedError
from pkray.schema.changes import AddColumn
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType


def new_columns(data: object, schema: TableSchema, row_kinds: str | None = None) -> list[AddColumn]:
    """List the columns of rows that a table lacks, in the rows' order, all nullable.

    Args:
        data: rows, or a ``pa.Schema``.
        row_kinds: a column that holds row kinds, and is none of the table.

    Raises:
        InputError: values of a new column in dicts have no common type, or are all None.
        UnsupportedError: a new column is of a type that tables do not have.
    """
    known = {*schema.names, row_kinds}
    added = [field for field in _fields(data, known) if field.name not in known]
    return [AddColumn(each.name, DataType.from_field(each).with_nullable(True)) for each in added]


def _fields(data: object, known: set[str | None]) -> Sequence[pa.Field]:
    if isinstance(data, pa.Schema):
        return list(data)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return list(data.schema)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _of_pandas(data[[name for name in data.columns if name not in known]])
    if isinstance(data, list | tuple):
        return _of_dicts([row for row in data if isinstance(row, Mapping)], known)
    return ()


def _of_pandas(frame: Any) -> Sequence[pa.Field]:
    try:
        return list(pa.Schema.from_pandas(frame, preserve_index=False))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"the types of the new columns {', '.join(map(repr, frame.columns))} are not plain "
            f"({error}): cast them, or add them by table.alter.add_column",
            columns=list(frame.columns),
        ) from error


def _of_dicts(rows: Sequence[Mapping[str, Any]], known: set[str | None]) -> Sequence[pa.Field]:
    names = dict.fromkeys(name for row in rows for name in row if name not in known)
    return [pa.field(name, _type_of([row.get(name) for row in rows], name)) for name in names]


def _type_of(values: list[Any], name: str) -> pa.DataType:
    try:
        found = pa.array(values).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the values of the new column {name!r} have no common type ({error}): make them "
            "alike, or add the column by table.alter.add_column",
            column=name,
        ) from error
    if pa.types.is_null(found):
        raise UnsupportedError(
            f"the new column {name!r} is None in every row, which says nothing of its type: add "
            f"it by table.alter.add_column({name!r}, type), or leave it out",
            column=name,
        )
    return found
