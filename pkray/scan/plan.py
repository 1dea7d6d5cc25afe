"""From a snapshot and a filter to the splits that have to be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pkray.commit.snapshots import SnapshotStore
from pkray.errors import InputError
from pkray.format.data_file import DataFileMeta, ManifestEntry
from pkray.format.partition import PartitionSpec
from pkray.format.snapshot import Snapshot
from pkray.scan.files import live_files
from pkray.scan.predicate import Predicate
from pkray.scan.split import Split
from pkray.schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore


class ScanPlanner:
    """Plans reads of one table.

    Args:
        schema: the schema that rows are read under.
    """

    def __init__(self, location: TableLocation, store: ObjectStore, schema: TableSchema) -> None:
        self._location = location
        self._store = store
        self._schema = schema
        self._snapshots = SnapshotStore(store)

    def snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """The snapshot of that id, the newest by default; None on an empty table.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
        """
        if snapshot_id is None:
            snapshot_id = self._snapshots.latest_id()
        return None if snapshot_id is None else self._snapshots.read(snapshot_id)

    def plan(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        snapshot_id: int | None = None,
    ) -> list[Split]:
        """One split a bucket, those that cannot match left out.

        Raises:
            InputError: a column the table does not have.
        """
        names = tuple(field.name for field in self._schema.fields)
        for column in columns or ():
            if column not in names:
                raise InputError(
                    f"column {column!r} is not in table {self._location.name}, which has "
                    f"{', '.join(names)}",
                    column=column,
                )
        snapshot = self.snapshot(snapshot_id)
        if snapshot is None:
            return []
        entries = self._matching(live_files(self._store, snapshot, self._schema), predicate)
        buckets: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
        for entry in entries:
            buckets[entry.partition, entry.bucket].append(entry.file)
        wanted = names if columns is None else tuple(columns)
        return [
            Split(self._location, self._schema, *bucket, tuple(files), wanted, predicate)
            for bucket, files in sorted(buckets.items())
        ]

    def _matching(
        self, entries: list[ManifestEntry], predicate: Predicate | None
    ) -> list[ManifestEntry]:
        if self._schema.core.deletion_vectors_enabled or (
            self._schema.core.merge_engine == "first-row"
        ):
            entries = [entry for entry in entries if entry.file.level > 0]
        on_partition = predicate.only(self._schema.partition_keys) if predicate else None
        if on_partition is None or not self._schema.partition_keys or not entries:
            return entries
        partitions = sorted({entry.partition for entry in entries})
        values = PartitionSpec(self._schema).values(partitions)
        named = dict(zip(self._schema.partition_keys, values, strict=True))
        nulls = {
            name: column.is_null().to_numpy(False).astype(int) for name, column in named.items()
        }
        keep = on_partition.prune(named, named, nulls, np.ones(len(partitions), np.int64))
        kept = {partition for partition, kept in zip(partitions, keep, strict=True) if kept}
        return [entry for entry in entries if entry.partition in kept]
