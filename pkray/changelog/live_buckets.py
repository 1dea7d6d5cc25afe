"""Keep the live files of a table, moved on from snapshot to snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pkray.format.data_file import DataFileMeta, ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import BucketId, FileKey, apply_changes, live_files
from pkray.storage.object_store import ObjectStore

Files = dict[FileKey, DataFileMeta]
"""In the order in which they were added."""


class LiveBuckets:
    """Keeps the files of each bucket at one snapshot, whole: some kilobytes a file.

    It is moved on by whoever reads every snapshot's changes anyway, where a committer's `LiveCache`
    reads them itself.
    """

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
        apply_changes(self._buckets, entries, _data_file)


def _data_file(entry: ManifestEntry) -> DataFileMeta:
    return entry.file
