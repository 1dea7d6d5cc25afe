"""A system table, as ``catalog.load_table("shop.orders$files")`` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from pkray.arguments.facade import ColumnNames, Name, SnapshotId, checked_class
from pkray.errors import UnsupportedError
from pkray.extras import require_extra
from pkray.scan.moment import Timestamp
from pkray.scan.predicate import Predicate
from pkray.scan.split import arrow_schema
from pkray.schema.columns import filter_rows
from pkray.schema.table_schema import VERSION, TableSchema
from pkray.schema.types import DataField, DataType
from pkray.storage.secrets import shown_url

if TYPE_CHECKING:
    from pkray.table.reads import Reads
    from pkray.table.table import Table


@checked_class
class SystemTable:
    """A table that only reads what another holds of itself: its snapshots, files, options and more.

    ``table.system(name)`` is the same as a pyarrow Table.

    Args:
        table: the table, or a branch of it; its reads where nothing else is asked for.
        system: as of ``Table.system``.
    """

    def __init__(self, table: Table | Reads, system: str) -> None:
        self.table = table
        self.system_name = system
        self.name = f"{table.name}${system}"
        """``database.table$name``."""

    def __repr__(self) -> str:
        return f"SystemTable({self.name!r}, {shown_url(self.table.location.url)!r})"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as reads yield them."""
        return self.table.open_system(self.system_name).schema

    def to_arrow(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.Table:
        """Read the rows.

        Args:
            columns, filter: as of ``Table.to_arrow``, with the system table's columns.
            snapshot_id, tag, timestamp: as of ``Table.system``.

        Raises:
            InputError: a column it does not have, or a filter that is not understood.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        rows = self.to_batches(columns, filter, snapshot_id, tag=tag, timestamp=timestamp)
        return rows.read_all()

    def to_batches(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.RecordBatchReader:
        """Read as `to_arrow`, batch by batch."""
        rows = self.table.open_system(self.system_name, snapshot_id, tag=tag, timestamp=timestamp)
        schema = _described(rows.schema)
        wanted = arrow_schema(schema, columns).names
        found = pa.schema([rows.schema.field(name) for name in wanted])
        predicate = None if filter is None else Predicate.parse(filter, schema).to_expression()
        kept = (batch if predicate is None else filter_rows(batch, predicate) for batch in rows)
        return pa.RecordBatchReader.from_batches(found, (batch.select(wanted) for batch in kept))

    def to_pandas(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> Any:
        """Read as `to_arrow`, as a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        require_extra("pandas", "pandas", "to_pandas()")
        found = self.to_arrow(columns, filter, snapshot_id, tag=tag, timestamp=timestamp)
        return found.to_pandas()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name == "table" or not hasattr(self.table, name):
            raise AttributeError(f"a system table has no attribute {name!r}")
        raise UnsupportedError(
            f"{self.name} is a system table, which has no {name}: it is read by to_arrow, "
            f"to_batches and to_pandas; {name} goes with {self.table.name}",
            table=self.name,
            attribute=name,
        )


def _described(schema: pa.Schema) -> TableSchema:
    """The columns as filters know them."""
    fields = tuple(
        DataField(number, field.name, DataType.from_field(field))
        for number, field in enumerate(schema)
    )
    return TableSchema(0, fields, len(fields) - 1, (), (), {}, None, 0, VERSION)
