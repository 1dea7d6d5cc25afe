"""The live files of a table, moved on from snapshot to snapshot by what each changed."""

from __future__ import annotations

from collections.abc import Iterable

from pkray.commit.conflicts import BucketId, FileKey, LiveFile, LiveFiles
from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import DELETE, ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import delta_entries, live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore

MAX_DELTAS = 64
"""Beyond so many snapshots, reading the table anew costs less."""


class LiveCache:
    """Keys and levels of every live file, at one snapshot; nothing is read before it is asked.

    Some 300 bytes a file.
    """

    def __init__(self, store: ObjectStore, snapshots: SnapshotStore) -> None:
        self._store = store
        self._snapshots = snapshots
        self._snapshot_id: int | None = None
        self._buckets: dict[BucketId, dict[FileKey, LiveFile]] = {}

    def reset(self) -> None:
        """Forget everything: the table was rolled back."""
        self._snapshot_id = None
        self._buckets = {}

    def at(self, snapshot: Snapshot | None) -> LiveFiles:
        """Return the files of a snapshot not older than the one before; None is the empty table."""
        if snapshot is None:
            self.reset()
            self._snapshot_id = 0
        elif self._snapshot_id != snapshot.id and not self._follow(snapshot):
            self.reset()
            self._apply(live_files(self._store, snapshot))
            self._snapshot_id = snapshot.id
        return self._buckets

    def committed(self, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> None:
        """Move on to a snapshot whose changes are at hand."""
        if self._snapshot_id == snapshot.id - 1:
            self._apply(entries)
            self._snapshot_id = snapshot.id

    def _follow(self, snapshot: Snapshot) -> bool:
        start = self._snapshot_id
        if start is None or not start < snapshot.id <= start + MAX_DELTAS:
            return False
        try:
            deltas = [
                delta_entries(self._store, self._snapshots.read(number))
                for number in range(start + 1, snapshot.id + 1)
            ]
        except SnapshotNotFoundError:
            return False
        for entries in deltas:
            self._apply(entries)
        self._snapshot_id = snapshot.id
        return True

    def _apply(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            bucket = self._buckets.setdefault((entry.partition, entry.bucket), {})
            file = entry.file
            key = (file.level, file.file_name)
            if entry.kind == DELETE:
                bucket.pop(key, None)
            else:
                bucket[key] = LiveFile(file.min_key, file.max_key, entry.total_buckets)
