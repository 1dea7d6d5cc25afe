"""A table as those who look rows up by key hold it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from pkray.arguments.facade import ColumnNames, Name, SnapshotId, checked_class
from pkray.errors import InputError
from pkray.rows.input import conform, conform_prefixes
from pkray.scan.snapshot_selector import SnapshotSelector, Timestamp
from pkray.scan.split import arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.column_checks import repeated
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import TableSchema
from pkray.service.client.lookup_client import LookupClient
from pkray.service.client.lookup_state import LookupState, check_visibility
from pkray.service.protocol import Visibility
from pkray.service.runtime import Runtime, TableService
from pkray.storage.location import TableLocation
from pkray.table.streamable_table import StreamableTable


@checked_class
class LookupTable(StreamableTable):
    """Rows by key, from the owners of the buckets."""

    def __init__(self, location: TableLocation, schema: TableSchema, runtime: Runtime) -> None:
        self.runtime = runtime
        super().__init__(location, schema)

    def lookup(
        self,
        keys: object,
        *,
        columns: ColumnNames | None = None,
        visibility: Visibility = "latest",
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """Rows by primary key, in the order asked; absent keys are left out.

        Args:
            keys: the primary key columns: pa.Table, RecordBatch, pandas or a list of dicts.
            columns: what to return; default every column.
            visibility: ``latest`` also sees rows that are written but not committed;
                ``committed`` sees a snapshot.
            snapshot_id, tag, timestamp, watermark: with ``committed``, a moment as of `view`,
                instead of the newest snapshot.

        Raises:
            InputError: the keys do not fit the table, or a column that it has not, or named twice.
            OptionError: ``visibility`` is another word, or a moment goes with ``latest``.
        """
        schema, rows = self._finder(visibility, snapshot_id, tag, timestamp, watermark)
        wanted = _wanted(schema, columns)
        checked = conform(keys, schema, keys_only=True).select(schema.primary_keys)
        return _selected(schema, wanted, lambda columns: rows.find(checked, columns))

    def lookup_prefix(
        self,
        keys: object,
        *,
        columns: ColumnNames | None = None,
        visibility: Visibility = "latest",
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """All rows whose primary key begins with given values: in the order asked, and the rows
        of each in key order.

        One bucket is asked where the values have the ``bucket-key``, else each of the partition.

        Args:
            keys: the first columns of the primary key (less the partition columns), with all
                partition columns or none, which means every partition; as `lookup` takes keys.
                Text columns match as a whole.
            columns, visibility, snapshot_id, tag, timestamp, watermark: as of `lookup`.

        Raises:
            InputError, OptionError: as `lookup`.
        """
        schema, rows = self._finder(visibility, snapshot_id, tag, timestamp, watermark)
        wanted = _wanted(schema, columns)
        prefixes = conform_prefixes(keys, schema)
        return _selected(schema, wanted, lambda columns: rows.find_prefixes(prefixes, columns))

    def _use(self, schema: TableSchema) -> None:
        super()._use(schema)
        self._client: tuple[TableService, LookupClient] | None = None

    def _finder(
        self,
        visibility: Visibility,
        snapshot_id: SnapshotId | None,
        tag: Name | None,
        timestamp: Timestamp | None,
        watermark: int | None,
    ) -> tuple[TableSchema, LookupState | SnapshotView]:
        """What a lookup asks, and the schema of its rows."""
        moment = (snapshot_id, tag, timestamp, watermark)
        names_moment = any(each is not None for each in moment)
        check_visibility(visibility, names_moment)
        if not names_moment:
            return self.schema, LookupState(lambda: self._lookups(self.schema), visibility)
        view = self._view(
            SnapshotSelector.of(self.schema.core, *moment)
        )  # owners know another table
        snapshot, schema = view.snapshot, view.schema
        if tag is not None and snapshot is not None and not self._history.holds(snapshot):
            self._identity.check_same_table()
            return schema, view  # the owners know snapshots by their ids
        answer_from = None if snapshot is None else snapshot.id
        return schema, LookupState(lambda: self._lookups(schema), visibility, answer_from)

    def _lookups(self, schema: TableSchema) -> LookupClient:
        service = self._service()
        if schema is not self.schema:
            return LookupClient(schema, service.owners, service.writers)
        if self._client is None or self._client[0] is not service:
            self._client = service, LookupClient(self.schema, service.owners, service.writers)
        return self._client[1]

    def _service(self) -> TableService:
        return self.runtime.service(self.location, self.schema)


def _selected(
    schema: TableSchema, wanted: pa.Schema, find: Callable[[pa.Schema], pa.Table]
) -> pa.Table:
    """The rows that are found; as many of them where no column is wanted."""
    if not len(wanted):
        return find(arrow_schema(schema, schema.primary_keys[:1])).select([])
    return with_defaults(find(wanted), schema.default_values)


def _wanted(schema: TableSchema, columns: ColumnNames | None) -> pa.Schema:
    wanted = arrow_schema(schema, columns)
    again = repeated(wanted.names)
    if again is not None:
        raise InputError(f"column {again!r} is asked for twice: name it once", column=again)
    return wanted
