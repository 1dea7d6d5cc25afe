"""Keep the live files of a table, moved on from snapshot to snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pkray.format.data_file import DELETE, DataFileMeta, ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import live_files
from pkray.storage.object_store import ObjectStore

BucketId = tuple[bytes, int]
"""(partition, bucket)."""
Files = dict[tuple[int, str], DataFileMeta]
"""By level and name, in the order in which they were added."""


class LiveBuckets:
    """The files of each bucket at one snapshot: some kilobytes a file."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._at: Snapshot | None = None
        self._buckets: dict[BucketId, Files] = {}

    def at(self, snapshot: Snapshot | None) -> Mapping[BucketId, Files]:
        """Return the files of a snapshot, from memory if it is the one moved to last; None has
        none.

        Raises:
            SnapshotNotFoundError: it has expired.
        """
        if snapshot != self._at or snapshot is None:
            self._at, self._buckets = None, {}
            if snapshot is not None:
                self._apply(live_files(self._store, snapshot))
                self._at = snapshot
        return self._buckets

    def move(
        self, snapshot: Snapshot, entries: Iterable[ManifestEntry]
    ) -> Mapping[BucketId, Files]:
        """Move on to the next snapshot, by what it changed."""
        self._apply(entries)
        self._at = snapshot
        return self._buckets

    def _apply(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            files = self._buckets.setdefault((entry.partition, entry.bucket), {})
            key = (entry.file.level, entry.file.file_name)
            if entry.kind == DELETE:
                files.pop(key, None)
            else:
                files[key] = entry.file
