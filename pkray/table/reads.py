"""Reads of a table's committed rows: its files at any moment of its history."""

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from pkray.arguments.facade import ColumnNames
from pkray.changelog.changes import Changes
from pkray.errors import StorageError
from pkray.metadata.live import data_manifests
from pkray.metadata.schemas import SchemaStore, TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.scan.moment import Moment, SnapshotFinder, Timestamp, names_changes
from pkray.scan.plan import ScanPlanner
from pkray.scan.split import arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import together
from pkray.system import SystemTables


class Reads:
    """Finds what is read of one table: a snapshot, changes, a system table. Files alone are
    read: no service takes part.

    Attributes:
        schema: the newest that is known; newest rows are read under it.
        schemas, snapshots: all of the table's.
        identity: tells the table from another one in its place.
    """

    def __init__(self, location: TableLocation, schema: TableSchema) -> None:
        self.location = location
        self.name = location.name
        self.store = location.open()
        self.schemas = SchemaStore(self.store, self.name)
        self.identity = TableIdentity(self.store, self.name, location.identity)
        self.snapshots = SnapshotStore(self.store)
        self._finder = SnapshotFinder(self.store, self.snapshots)
        self.use(schema)

    def use(self, schema: TableSchema) -> None:
        """Read under another schema from now on."""
        self.schema = schema
        self._planner = ScanPlanner(self.location, self.store, schema)

    def forget_schemas(self) -> None:
        """Read all schemas again: others have taken the place of those that are known."""
        self.schemas = SchemaStore(self.store, self.name)
        self.use(self.schemas.latest())

    def at(self, moment: Moment) -> SnapshotView:
        """Find the table at one moment; as of ``Table.at``."""
        moment = moment.or_of(self.schema.core)
        view = self.find(moment)
        if moment.is_latest:
            together(self.store, self._check_same_table, lambda: self._read_ahead(view))
        else:
            self.identity.check_same_table()
        return view

    def _check_same_table(self) -> None:
        self.identity.check_same_table_after(self.snapshots.invalidations)

    def _read_ahead(self, view: SnapshotView) -> None:
        """Read which manifests a snapshot has, which what is read next asks for, beside the look
        whether it is the same table."""
        if view.snapshot is not None and self.store.local_path("") is None:
            with contextlib.suppress(StorageError):  # met again when its turn comes
                data_manifests(self.store, view.snapshot)

    def find(self, moment: Moment) -> SnapshotView:
        """Find the table at one moment, whatever table has taken its place meanwhile."""
        snapshot, schema, planner = self._finder.find(moment), self.schema, self._planner
        if snapshot is None:
            self.schemas.latest()
        if snapshot and not moment.is_latest and snapshot.schema_id != schema.id:
            schema = self.schemas.read(snapshot.schema_id)
            planner = ScanPlanner(self.location, self.store, schema)
        return SnapshotView(self.store, planner, schema, snapshot)

    def to_arrow(self, moment: Moment, columns: ColumnNames | None, filter: object) -> pa.Table:
        """Read the rows at one moment, or those that changed; as of ``Table.to_arrow``."""
        if self._names_changes(moment):
            rows = self.changes().rows_between(columns, filter)
            return pa.Table.from_batches(rows, arrow_schema(self.schema, columns))
        return self.at(moment).to_arrow(columns, filter)

    def to_batches(
        self, moment: Moment, columns: ColumnNames | None, filter: object
    ) -> Iterator[pa.RecordBatch]:
        """Read as `to_arrow`, batch by batch in bounded memory."""
        if self._names_changes(moment):
            return self.changes().rows_between(columns, filter)
        return self.at(moment).to_batches(columns, filter)

    def changes(self) -> Changes:
        """Read what changed."""
        self.identity.check_same_table()
        return Changes(self.location, self.store, self.schema)

    def open_system(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.RecordBatchReader:
        """Read a system table, as ``Table.open_system``."""
        self.identity.check_same_table()
        snapshot = None
        if (snapshot_id, tag, timestamp) != (None, None, None):
            snapshot = self.at(Moment.from_arguments(snapshot_id, tag, timestamp)).snapshot
        return SystemTables(self.location, self.store, self.schema).open(name, snapshot)

    def _names_changes(self, moment: Moment) -> bool:
        """Whether the table's ``incremental-between`` says what is read, and no argument does."""
        return moment.is_latest and names_changes(self.schema.core)
