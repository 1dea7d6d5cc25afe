"""Reads the changes that each snapshot made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from pkray import row_kind
from pkray.commit.changelogs import ChangelogStore
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import ADD, DataFileMeta, ManifestEntry
from pkray.format.snapshot import APPEND, Snapshot
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge_read import merge_read
from pkray.scan.files import changelog_entries, delta_entries
from pkray.schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore

ROW_KIND, SNAPSHOT_ID = "_row_kind", "_snapshot_id"


class ChangelogReader:
    """The changes between two snapshots, in commit order.

    With a changelog producer they are what it saved; with ``none`` they are the rows that each
    APPEND snapshot added, merged by key within the commit.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema) -> None:
        self._store = store
        self._schema = schema
        self._snapshots = SnapshotStore(store)
        self._changelogs = ChangelogStore(store)
        added = [pa.field(ROW_KIND, pa.string(), False), pa.field(SNAPSHOT_ID, pa.int64(), False)]
        self.schema = pa.schema([*added, *schema.arrow_schema])

    def read(
        self, from_snapshot: int | None = None, to_snapshot: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``_row_kind``, ``_snapshot_id`` and the table's columns, both ends included.

        Raises:
            SnapshotNotFoundError: a snapshot between has expired.
        """
        newest = self._snapshots.latest_id()
        if newest is None:
            return
        first = self._earliest() if from_snapshot is None else from_snapshot
        last = newest if to_snapshot is None else to_snapshot
        for number in range(first, last + 1):
            yield from self._changes(self._find(number))

    def _earliest(self) -> int:
        """The oldest changes there are: changelogs may outlive their snapshots."""
        return self._changelogs.earliest_id() or self._snapshots.earliest_id() or 1

    def _find(self, snapshot_id: int) -> Snapshot:
        try:
            return self._snapshots.read(snapshot_id)
        except SnapshotNotFoundError:
            try:
                return self._changelogs.read(snapshot_id)
            except SnapshotNotFoundError:
                pass
            raise

    def _changes(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        if self._schema.core.changelog_producer == "none":
            if snapshot.commit_kind == APPEND:
                entries = delta_entries(self._store, snapshot)
                yield from self._merged(snapshot.id, entries)
        else:
            for entry in changelog_entries(self._store, snapshot):
                for rows in self._files(entry).read(entry.file):
                    yield self._labelled(snapshot.id, rows)

    def _merged(
        self, snapshot_id: int, entries: Iterable[ManifestEntry]
    ) -> Iterator[pa.RecordBatch]:
        added: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
        for entry in entries:
            if entry.kind == ADD:
                added[entry.partition, entry.bucket].append(entry.file)
        for bucket, files in added.items():
            rows = merge_read(
                Levels(tuple(files)).runs(),
                DataFileStore(self._store, self._schema, *bucket),
                merge_engine(self._schema),
                self._schema,
                [KIND, *(field.name for field in self._schema.fields)],
                drop_deletes=False,
            )
            for batch in rows:
                yield self._labelled(snapshot_id, batch)

    def _files(self, entry: ManifestEntry) -> DataFileStore:
        return DataFileStore(self._store, self._schema, entry.partition, entry.bucket)

    def _labelled(self, snapshot_id: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        kinds = row_kind.names(rows.column(KIND))
        ids = pa.array(np.full(rows.num_rows, snapshot_id, np.int64))
        values = [rows.column(field.name) for field in self._schema.fields]
        return pa.RecordBatch.from_arrays([kinds, ids, *values], schema=self.schema)
