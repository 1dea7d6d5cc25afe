"""Rows written under one schema of a table, as another schema of it has them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.schema.table_schema import TableSchema
from pkray.schema.type_change import Convert, converter


@dataclass(frozen=True)
class _Column:
    """A column and the source of its values; ``source`` None: there are none."""

    field: pa.Field
    source: str | None
    convert: Convert | None


class RowSchemaAdapter:
    """Columns are matched by field id: renamed, moved, added (nulls), dropped, of a wider type.

    System columns stay as they are.

    Args:
        old: the schema the rows were written under; it may also be the newer one of the two.
        new: the schema they are wanted under.

    Raises:
        UnsupportedError: a column has types between which there is no conversion; only when that
            column is asked for.
    """

    def __init__(self, old: TableSchema, new: TableSchema) -> None:
        self._old = old
        self._new = new
        self._columns: dict[str, _Column] = {}
        self._by_id = {field.id: field for field in old.fields}

    def is_identity(self, names: Sequence[str] | None = None) -> bool:
        """Whether these columns (all by default) are the same, in whatever order."""
        for name in self._new.names if names is None else names:
            try:
                column = self._column(name)
            except UnsupportedError:
                return False
            if column is not None and (column.source != name or column.convert is not None):
                return False
        return True

    def sources(self, names: Sequence[str]) -> list[str]:
        """Return the old names of what these columns are made of, each once."""
        found = (self.source(name) for name in names)
        return list(dict.fromkeys(name for name in found if name is not None))

    def source(self, name: str) -> str | None:
        """Return the old name of a column; None if it did not exist."""
        column = self._column(name)
        return name if column is None else column.source

    def apply(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Convert rows that have at least `sources` of ``names`` to the columns ``names``."""
        arrays, fields = [], []
        for name in names:
            column = self._column(name)
            if column is None:
                arrays.append(rows.column(name))
                fields.append(rows.schema.field(name))
                continue
            arrays.append(_values(column, rows))
            fields.append(column.field)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def apply_table(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Do as `apply`, for a table."""
        if rows.num_rows == 0:
            columns = [(name, self._column(name)) for name in names]
            return pa.schema(
                rows.schema.field(name) if column is None else column.field
                for name, column in columns
            ).empty_table()
        batches = rows.combine_chunks().to_batches()
        return pa.Table.from_batches([self.apply(batch, names) for batch in batches])

    def _column(self, name: str) -> _Column | None:
        """Return the new column; None for a system column."""
        if name not in self._new.names:
            return None
        if name not in self._columns:
            field = self._new.field(name)
            was = self._by_id.get(field.id)
            convert: Convert | None = None
            if was is not None:
                is_older = self._old.id <= self._new.id
                convert = converter(was.type, field.type, name, is_older=is_older)
            self._columns[name] = _Column(field.arrow, was.name if was else None, convert)
        return self._columns[name]


def _values(column: _Column, rows: pa.RecordBatch) -> pa.Array:
    if column.source is None:
        return pa.nulls(rows.num_rows, column.field.type)
    values = rows.column(column.source)
    return values if column.convert is None else column.convert(values)
