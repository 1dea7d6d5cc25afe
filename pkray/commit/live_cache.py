"""The live files of a table, moved on from snapshot to snapshot by what each changed."""

from __future__ import annotations

from collections.abc import Iterable

from pkray.commit.conflicts import LiveFile, LiveFiles
from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import BucketId, FileKey, apply_changes, delta_entries, live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore

MAX_DELTAS = 64
"""Beyond so many snapshots, reading the table anew costs less."""


class LiveCache:
    """Keeps keys and levels of every live file at one snapshot; reads nothing before it is asked.

    Some 300 bytes a file: all that checks of conflicts need, of the whole table. The changelog's
    `LiveBuckets` keeps files whole, which is ten times as much. An owner's `CommittedFiles` keeps
    the levels of its own buckets, at several snapshots.
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
        apply_changes(self._buckets, entries, _live_file)


def _live_file(entry: ManifestEntry) -> LiveFile:
    return LiveFile(entry.file.min_key, entry.file.max_key, entry.total_buckets)
