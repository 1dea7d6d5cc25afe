"""A table as readers hold it: its files at any moment of its history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pkray.arguments.facade import ColumnNames, Name, NameOfSystemTable, SnapshotId, checked_class
from pkray.changelog.changes import Changes
from pkray.errors import SnapshotNotFoundError
from pkray.extras import require_extra
from pkray.format.snapshot import Snapshot
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.table_identity import TableIdentity
from pkray.scan.plan import ScanPlanner
from pkray.scan.report import ScanReport
from pkray.scan.snapshot_selector import SnapshotFinder, SnapshotSelector, Timestamp, names_changes
from pkray.scan.split import Split, arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.table_schema import TableSchema
from pkray.shown import html_table, html_values
from pkray.storage.location import TableLocation
from pkray.storage.secrets import shown_url
from pkray.system import SystemTables


@checked_class
class ReadableTable:
    """Reads of committed rows, of snapshots and of system tables; no service takes part."""

    def __init__(self, location: TableLocation, schema: TableSchema) -> None:
        self.location = location
        self.schema = schema
        self._store = location.open()
        self._schemas = SchemaStore(self._store, self.name)
        self._history = SnapshotFinder(self._store)
        self._identity = TableIdentity(self._store, self.name, location.identity)
        self._use(schema)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {shown_url(self.location.url)!r})"

    def _repr_html_(self) -> str:
        rows = [
            (each.name, each.type, self._part(each.name), each.description)
            for each in self.schema.fields
        ]
        said = [html_table(repr(self), rows, ("column", "type", "part of", "comment"))]
        if self.comment:
            said.append(html_values("comment", {"": self.comment}))
        return "".join([*said, html_values("options", self.options)])

    @property
    def name(self) -> str:
        """``database.table``."""
        return self.location.name

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as reads yield them."""
        return self.schema.arrow_schema

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The key's columns, partition columns among them, in declared order."""
        return self.schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns that make folders; empty without partitions."""
        return self.schema.partition_keys

    @property
    def comment(self) -> str | None:
        """What the table is, as its maker said."""
        return self.schema.comment

    @property
    def options(self) -> dict[str, str]:
        """The options that were set."""
        return dict(self.schema.options)

    def to_arrow(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """The committed rows, merged; of a table with ``incremental-between`` those that changed.

        Args:
            columns: what to read; default every column.
            filter: SQL text such as ``"amount > 10 AND id IN (1, 2)"``, pyarrow-style lists of
                tuples, or a pyarrow expression.
            snapshot_id, tag, timestamp, watermark: a moment as of `view`.

        Raises:
            InputError: a column the table does not have, or a filter that is not understood.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        if self._reads_changes(snapshot_id, tag, timestamp, watermark):
            rows = self._changes().rows_between(columns, filter)
            return pa.Table.from_batches(rows, arrow_schema(self.schema, columns))
        return self.view(snapshot_id, tag, timestamp, watermark).to_arrow(columns, filter)

    def to_batches(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `to_arrow`, batch by batch in bounded memory."""
        if self._reads_changes(snapshot_id, tag, timestamp, watermark):
            return self._changes().rows_between(columns, filter)
        return self.view(snapshot_id, tag, timestamp, watermark).batches(columns, filter)

    def to_pandas(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Any:
        """As `to_arrow`, as a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        require_extra("pandas", "pandas", "to_pandas()")
        found = self.to_arrow(
            columns, filter, snapshot_id, tag=tag, timestamp=timestamp, watermark=watermark
        )
        return found.to_pandas()

    def splits(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> list[Split]:
        """The read in parts for other processes: each pickles and has ``read()``."""
        return self.view(snapshot_id, tag, timestamp, watermark).splits(columns, filter)

    def explain(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> ScanReport:
        """What `to_arrow` would read of the table: print it, or take its counts."""
        return self.view(snapshot_id, tag, timestamp, watermark).explain(columns, filter)

    def view(
        self,
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> SnapshotView:
        """The table at one moment, with the columns that it had then.

        By default the moment that its ``scan.*`` options name, or else now.

        Args:
            snapshot_id: a snapshot.
            tag: the snapshot of a tag, even if it has expired otherwise.
            timestamp: the newest snapshot at or before it: epoch milliseconds, a datetime or ISO
                text; those without a zone are local time.
            watermark: the oldest snapshot whose watermark is not below it; milliseconds.

        Raises:
            OptionError: a moment is named twice, or the timestamp is none.
            SnapshotNotFoundError: there is no such snapshot, or it has expired.
            TagNotFoundError: there is no such tag.
            TableNotFoundError: the table was dropped.
            TableReplacedError: and another one was created in its place.
        """
        moment = SnapshotSelector.of(self.schema.core, snapshot_id, tag, timestamp, watermark)
        view = self._view(moment)
        if moment.is_latest:
            self._identity.check_same_table_after(self._history.invalidations)
        else:
            self._identity.check_same_table()
        return view

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None before the first commit."""
        return self._planner.snapshot()

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """One snapshot.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
        """
        found = self._planner.snapshot(snapshot_id)
        if found is None:
            raise SnapshotNotFoundError(
                f"snapshot {snapshot_id} of {self.name} does not exist", snapshot_id=snapshot_id
            )
        return found

    def snapshots(self) -> pa.Table:
        """The snapshots that are kept, oldest first, a row each."""
        return self.system("snapshots")

    def files(self, snapshot_id: SnapshotId | None = None) -> pa.Table:
        """The live data files of a snapshot, a row each."""
        return self.system("files", snapshot_id)

    def system(
        self,
        name: NameOfSystemTable,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.Table:
        """A system table, by Paimon's names: ``snapshots``, ``schemas``, ``options``,
        ``manifests``, ``files``, ``partitions``, ``buckets``, ``table_indexes``, ``tags``,
        ``branches``, ``consumers``, ``aggregation_fields``, ``statistics``, ``audit_log``,
        ``binlog``, ``ro``.

        Args:
            snapshot_id, tag, timestamp: of what shows the contents of one snapshot; default the
                newest. As of `to_arrow`.

        Raises:
            TableNotFoundError: there is no such system table.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        return self.open_system(name, snapshot_id, tag=tag, timestamp=timestamp).read_all()

    def open_system(
        self,
        name: NameOfSystemTable,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.RecordBatchReader:
        """As `system`, batch by batch."""
        self._identity.check_same_table()
        moment = None
        if (snapshot_id, tag, timestamp) != (None, None, None):
            moment = self.view(snapshot_id, tag, timestamp).snapshot
        return SystemTables(self.location, self._store, self.schema).open(name, moment)

    def _part(self, column: str) -> str | None:
        """Of what a column is a part, for people."""
        keys = {"primary key": self.primary_keys, "partition": self.partition_keys}
        return ", ".join(what for what, names in keys.items() if column in names) or None

    def _use(self, schema: TableSchema) -> None:
        self.schema = schema
        self._planner = ScanPlanner(self.location, self._store, schema)

    def _forget_schemas(self) -> None:
        """Others have taken the place of those that are known."""
        self._schemas = SchemaStore(self._store, self.name)
        self._use(self._schemas.latest())

    def _view(self, moment: SnapshotSelector) -> SnapshotView:
        snapshot, schema, planner = self._history.find(moment), self.schema, self._planner
        if snapshot is None:
            self._schemas.latest()
        if snapshot and not moment.is_latest and snapshot.schema_id != schema.id:
            schema = self._schemas.read(snapshot.schema_id)
            planner = ScanPlanner(self.location, self._store, schema)
        return SnapshotView(self._store, planner, schema, snapshot)

    def _reads_changes(self, *moment: object) -> bool:
        """Whether the table's ``incremental-between`` says what is read, and no argument does."""
        return all(each is None for each in moment) and names_changes(self.schema.core)

    def _changes(self) -> Changes:
        self._identity.check_same_table()
        return Changes(self.location, self._store, self.schema)
