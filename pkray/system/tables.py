"""The system tables by name."""

import difflib
from collections.abc import Callable

import pyarrow as pa

from pkray.errors import TableNotFoundError
from pkray.format.snapshot import Snapshot
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.system import contents, history, rows
from pkray.system.source import Source

TABLES: dict[str, Callable[[Source], pa.Table | pa.RecordBatchReader]] = {
    "snapshots": history.snapshots,
    "schemas": history.schemas,
    "options": history.options,
    "manifests": contents.manifests,
    "files": contents.files,
    "partitions": contents.partitions,
    "buckets": contents.buckets,
    "table_indexes": contents.table_indexes,
    "compactions": contents.compactions,
    "tags": history.tags,
    "branches": history.branches,
    "consumers": history.consumers,
    "aggregation_fields": history.aggregation_fields,
    "statistics": history.statistics,
    "audit_log": rows.audit_log,
    "binlog": rows.binlog,
    "ro": rows.read_optimized,
}


class SystemTables:
    """The system tables of one table.

    Args:
        schema: the one that rows are read under.
    """

    def __init__(self, location: TableLocation, store: ObjectStore, schema: TableSchema) -> None:
        self._location = location
        self._store = store
        self._schema = schema

    def open(self, name: str, snapshot: Snapshot | None = None) -> pa.RecordBatchReader:
        """Open a system table, as Paimon names it and its columns; times are in UTC.

        Rows of the table itself are read as they are taken.

        Args:
            name: one of `TABLES`.
            snapshot: the one whose contents to show; default the newest.

        Raises:
            TableNotFoundError: there is no such system table.
        """
        check_system_name(self._location.name, name)
        rows = TABLES[name](Source(self._location, self._store, self._schema, snapshot))
        return rows.to_reader() if isinstance(rows, pa.Table) else rows


def check_system_name(table: str, name: str) -> None:
    """Raise a `TableNotFoundError` for a name that no system table has."""
    if name not in TABLES:
        near = difflib.get_close_matches(str(name), TABLES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise TableNotFoundError(
            f"{table} has no system table {name!r}: {hint}they are {', '.join(TABLES)}",
            table=f"{table}${name}",
        )
