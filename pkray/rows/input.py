"""Checks what a user passes as rows, and turns it into a table's Arrow columns."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from pkray.errors import InputError
from pkray.rows.python_values import to_column
from pkray.schema.casts import cast_column
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType

Missing: TypeAlias = Literal["error", "null"]
"""The treatment of columns that rows lack."""


def conform(
    data: object, schema: TableSchema, *, keys_only: bool = False, missing: Missing = "error"
) -> pa.Table:
    """Convert rows to the columns of ``schema.arrow_schema``; uncopied where they are that already.

    Args:
        data: a ``pa.Table``, ``RecordBatch``, pandas DataFrame (NaN in it is null), a list of
            dicts, or whatever exports an Arrow stream.
        keys_only: only the primary key must be there. Other columns may be; those that are not
            become null, or a zero or empty value where they are NOT NULL.
        missing: ``null`` writes nulls where rows lack a column, but for one that is NOT NULL or
            that says which row is newer or of what kind. A column that has a default value, and
            every column of a partial-update table, may be lacking without.

    Raises:
        InputError: a missing, extra or repeated column; a column of a type that does not convert;
            a value that does not fit its type; a null in a NOT NULL column. Conversions never
            lose anything, except that Python's floats are rounded to FLOAT.
    """
    required = schema.primary_keys if keys_only else _required(schema, missing)
    return _conform(data, schema, required)


def conform_deletes(data: object, schema: TableSchema) -> pa.Table:
    """Conform rows to delete: as :func:`conform` with ``keys_only``, and what orders the delete.

    Raises:
        InputError: as :func:`conform`; a table with ``sequence.field`` needs those columns too,
            since a delete without them is older than every row.
    """
    sequence = [name for name in schema.core.sequence_field if name not in schema.primary_keys]
    return _conform(data, schema, [*schema.primary_keys, *sequence])


def conform_prefixes(data: object, schema: TableSchema) -> pa.Table:
    """Conform the beginnings of keys: as :func:`conform`, with the columns given alone.

    Raises:
        InputError: as :func:`conform`; columns that are not the first ones of the primary key
            (less the partition columns), with all partition columns or none.
    """
    trimmed = schema.trimmed_primary_keys
    if isinstance(data, list | tuple) and not data:
        data = pa.schema([schema.arrow_schema.field(trimmed[0])]).empty_table()
    rows = _Rows.from_data(data)
    partition = [name for name in schema.partition_keys if name in rows.names]
    given = [name for name in rows.names if name not in partition]
    fits = given and set(given) == set(trimmed[: len(given)])
    if not fits or partition not in ([], list(schema.partition_keys)):
        extra = ""
        if schema.partition_keys:
            extra = f", with all of ({', '.join(schema.partition_keys)}) or none"
        raise InputError(
            f"a prefix is the first columns of ({', '.join(trimmed)}){extra}: it cannot be "
            f"({', '.join(rows.names)})",
            columns=rows.names,
        )
    _check_columns(rows.names, schema, ())
    names = [*partition, *trimmed[: len(given)]]
    columns = {name: rows.column(name, schema.field(name).type) for name in names}
    return pa.table(columns, pa.schema([schema.arrow_schema.field(name) for name in names]))


def _required(schema: TableSchema, missing: Missing) -> list[str]:
    """List the columns that rows to be written must have."""
    core = schema.core
    if missing == "null" or core.merge_engine == "partial-update":
        required = {*schema.primary_keys, *core.sequence_field, core.rowkind_field}
        return [f.name for f in schema.fields if f.name in required or not f.type.nullable]
    defaults = {name for name in schema.default_values if schema.field(name).type.nullable}
    return [name for name in schema.names if name not in defaults]


def _conform(data: object, schema: TableSchema, required: Sequence[str]) -> pa.Table:
    if isinstance(data, list | tuple) and not data:
        return schema.arrow_schema.empty_table()
    rows = _Rows.from_data(data, required)
    _check_columns(rows.names, schema, required, rows.index)
    columns = []
    for column in schema.fields:
        if column.name in rows.names:
            columns.append(rows.column(column.name, column.type))
        else:
            columns.append(pa.chunked_array([absent(column.type, rows.count)]))
    return pa.Table.from_arrays(columns, schema=schema.arrow_schema)


def _check_columns(
    given: Sequence[str], schema: TableSchema, required: Sequence[str], index: Sequence[object] = ()
) -> None:
    for name in given:
        if given.count(name) > 1:
            raise InputError(f"column {name!r} is there twice: rename or drop one", column=name)
        if name not in schema.names:
            nearest = difflib.get_close_matches(str(name), schema.names, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else "drop it."
            if name == "_row_kind":
                hint = "write(..., row_kinds='_row_kind') takes row kinds."
            raise InputError(
                f"column {name!r} is not in the table: {hint} It has {', '.join(schema.names)}",
                column=name,
            )
    for name in required:
        if name not in given:
            what, remedy = "column", "add it, with nulls where there is no value"
            if name in schema.primary_keys:
                what, remedy = "primary key column", "add it"
            elif name in schema.core.sequence_field:
                what, remedy = "sequence.field column", "add it, as it says which row is newer"
            elif schema.field(name).type.nullable:
                remedy += ", or say missing='null'"
            if name in index:
                remedy = "it is the DataFrame's index, which reset_index() makes a column"
            raise InputError(
                f"{what} {name!r} ({schema.field(name).type}) is missing: {remedy}", column=name
            )


def absent(data_type: DataType, count: int) -> pa.Array:
    """Make nulls, or zero and empty values where the column has no nulls."""
    if data_type.nullable:
        return pa.nulls(count, data_type.arrow)
    if data_type.root == "ROW":
        parts = data_type.fields or ()
        arrays = [absent(part.type, count) for part in parts]
        return pa.StructArray.from_arrays(arrays, fields=[part.arrow for part in parts])
    return pa.repeat(_empty(data_type), count)


def _empty(data_type: DataType) -> pa.Scalar:
    arrow = data_type.arrow
    if data_type.root in ("ARRAY", "MAP"):
        return pa.scalar([], arrow)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return pa.scalar(b"", pa.binary()).cast(arrow)
    if pa.types.is_decimal(arrow):
        return pa.scalar(Decimal(0), arrow)
    return pa.scalar(0, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)


class _Rows:
    """Rows of some source: names, count, a column as the table's type, and names that are no
    columns but of its index."""

    def __init__(
        self,
        names: Sequence[str],
        count: int,
        column: Callable[[str, DataType], pa.ChunkedArray],
        index: Sequence[object] = (),
    ) -> None:
        self.names = list(names)
        self.count = count
        self.column = column
        self.index = index

    @staticmethod
    def from_data(data: object, required: Sequence[str] | None = None) -> _Rows:
        """Take dicts; the columns must be in each, by default all."""
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            return _of_table(data)
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(data, pandas.DataFrame):
            return _of_pandas(data)
        if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
            return _of_dicts(data, required)
        if hasattr(data, "__arrow_c_stream__"):
            with suppress(pa.ArrowException, TypeError, ValueError):  # of values, not of rows
                return _of_table(pa.table(data))
        hint = "; wrap the row in a list" if isinstance(data, Mapping) else ""
        what = type(data).__name__
        if isinstance(data, list | tuple):
            odd = next(type(row).__name__ for row in data if not isinstance(row, Mapping))
            what = f"{what} with a {odd} in it"
        raise InputError(
            f"rows cannot be a {what}: give a pyarrow Table or RecordBatch, a "
            f"pandas DataFrame or a list of dicts{hint}",
            type=type(data).__name__,
        )


def _of_table(table: pa.Table) -> _Rows:
    def column(name: str, data_type: DataType) -> pa.ChunkedArray:
        return cast_column(table.column(name), data_type, name)

    return _Rows(table.column_names, table.num_rows, column)


def _of_pandas(frame: Any) -> _Rows:
    def column(name: str, data_type: DataType) -> pa.ChunkedArray:
        series = frame[name]
        if series.dtype == object:
            values = series.where(series.notna(), None).tolist()
            return to_column(values, data_type, name)
        try:
            array = pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _unlike_arrow(series, data_type, name) from error
        chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
        return cast_column(chunked, data_type, name)

    return _Rows(list(frame.columns), len(frame), column, list(frame.index.names))


def _unlike_arrow(series: Any, data_type: DataType, name: str) -> InputError:
    """Make the error for a column of a type that only pandas has."""
    remedy = f"cast it to {data_type.arrow} first"
    if hasattr(series, "sparse"):
        remedy = f"make it dense (frame[{name!r}].sparse.to_dense())"
    elif series.dtype.kind == "c":
        remedy = "give its real and imaginary parts as columns of their own"
    return InputError(
        f"column {name!r} is {series.dtype} in pandas, which does not become {data_type}: {remedy}",
        column=name,
        type=str(series.dtype),
        expected=str(data_type),
    )


def _of_dicts(rows: Sequence[Mapping[str, Any]], required: Sequence[str] | None) -> _Rows:
    def column(name: str, data_type: DataType) -> pa.ChunkedArray:
        try:
            values = [row[name] for row in rows]
        except KeyError:
            if required is not None and name not in required:
                return to_column([row.get(name) for row in rows], data_type, name)
            row = next(i for i, given in enumerate(rows) if name not in given)
            raise InputError(
                f"row {row} lacks column {name!r}: write None where there is no value",
                column=name,
                row=row,
            ) from None
        return to_column(values, data_type, name)

    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return _Rows(list(names), len(rows), column)
