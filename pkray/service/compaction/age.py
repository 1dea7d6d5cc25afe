"""Measure how long ago rows were last compacted fully, in commits and in time."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import ADD, DataFileMeta, ManifestEntry
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.metadata.live import BucketId, delta_entries, live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True, order=True)
class _Since:
    """The commit that brought the oldest rows of a file below the top level."""

    commit: int
    millis: int


class CompactionAge:
    """The rows of a table that are below the top level, and since which commit.

    A commit is an APPEND snapshot of whatever user. What is known follows from the snapshots
    alone, so that it survives restarts; it is as old as the oldest snapshot at most.

    Args:
        schema: the table's newest.
    """

    def __init__(
        self, store: ObjectStore, schema: Callable[[], TableSchema], snapshots: SnapshotStore
    ) -> None:
        self._store = store
        self._schema = schema
        self._snapshots = snapshots
        self._snapshot_id = 0
        self._commits = 0
        self._lock = threading.RLock()
        self._files: dict[BucketId, dict[tuple[str, int], _Since]] = defaultdict(dict)

    def overdue(self, now: int, *, committing: bool) -> bool:
        """Whether the oldest rows below the top level have waited for long enough.

        Args:
            now: epoch milliseconds.
            committing: a commit is being made, and counts.

        Source: ``full-compaction.delta-commits``, ``changelog-producer.compaction-interval``.
        """
        options = self._schema().core
        limit = options.full_compaction_delta_commits
        interval = options.changelog_compaction_interval
        if limit == 1 and committing:
            return True
        with self._lock:
            found = (min(files.values()) for files in self._files.values() if files)
            oldest = min(found, default=None)
        if oldest is None:
            return False
        commits = self._commits - oldest.commit + 1 + committing
        return bool(
            (limit and commits >= limit)
            or (interval is not None and now - oldest.millis >= interval)
        )

    @property
    def dirty(self) -> list[BucketId]:
        """Buckets with rows below the top level."""
        with self._lock:
            return [bucket for bucket, files in self._files.items() if files]

    def is_older(self, bucket: BucketId, now: int, interval: int) -> bool:
        """Whether rows of the bucket have been below the top level for so many milliseconds."""
        with self._lock:
            files = self._files.get(bucket)
            return bool(files) and now - min((files or {}).values()).millis >= interval

    def advance(self, snapshot_id: int) -> None:
        """Take in the snapshots up to this one."""
        with self._lock:
            self._advance(snapshot_id)

    def _advance(self, snapshot_id: int) -> None:
        if snapshot_id < self._snapshot_id:
            self._snapshot_id = 0  # rolled back
        if snapshot_id == self._snapshot_id:
            return
        try:
            if self._snapshot_id == 0:
                self._load(snapshot_id)
            for number in range(self._snapshot_id + 1, snapshot_id + 1):
                self._follow(self._snapshots.read(number))
        except SnapshotNotFoundError:
            self._load(snapshot_id)
        self._snapshot_id = snapshot_id

    def _load(self, snapshot_id: int) -> None:
        """Begin so far back that everything older is overdue, and follow from there."""
        limit = self._schema().core.full_compaction_delta_commits or 0
        later: list[Snapshot] = []
        commits, start = 0, None
        for snapshot in self._snapshots.backwards(snapshot_id):
            start = snapshot
            if commits >= limit and self._is_long_ago(snapshot):
                break
            later.append(snapshot)
            commits += snapshot.commit_kind != COMPACT
        self._files.clear()
        self._commits = 0
        if start is None:
            return
        if later and later[-1].id == start.id:  # the earliest there is
            later.pop()
            self._commits = 1
        since = _Since(self._commits, start.time_millis)
        for entry in live_files(self._store, start, self._schema()):
            if not self._is_top(entry.file):
                self._files[entry.partition, entry.bucket][_key(entry.file)] = since
        for snapshot in reversed(later):
            self._follow(snapshot)

    def _is_long_ago(self, snapshot: Snapshot) -> bool:
        options = self._schema().core
        intervals = (
            options.changelog_compaction_interval,
            options.compaction_optimization_interval,
        )
        newest = self._snapshots.latest()
        age = newest.time_millis - snapshot.time_millis if newest else 0
        return all(interval is None or age >= interval for interval in intervals)

    def _follow(self, snapshot: Snapshot) -> None:
        is_commit = snapshot.commit_kind != COMPACT
        self._commits += is_commit
        since = _Since(self._commits, snapshot.time_millis)
        changes: dict[BucketId, list[ManifestEntry]] = defaultdict(list)
        for entry in delta_entries(self._store, snapshot):
            changes[entry.partition, entry.bucket].append(entry)
        for bucket, entries in changes.items():
            files = self._files[bucket]
            removed = [_key(entry.file) for entry in entries if entry.kind != ADD]
            left = [files.pop(key) for key in removed if key in files]
            kept = since if is_commit else min(left, default=since)
            added = (entry.file for entry in entries if entry.kind == ADD)
            files.update((_key(file), kept) for file in added if not self._is_top(file))
        self._snapshot_id = snapshot.id

    def _is_top(self, file: DataFileMeta) -> bool:
        return file.level >= self._schema().core.num_levels - 1


def _key(file: DataFileMeta) -> tuple[str, int]:
    return file.file_name, file.level
