"""The committed files of an owner's buckets, kept at one snapshot and moved on by deltas."""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from pkray.commit.index_files import index_files
from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.format.data_file import ADD, DataFileMeta
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.snapshot import APPEND, OVERWRITE, Snapshot
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.levels import Levels
from pkray.metadata.live import BucketId, by_bucket, delta_entries, live_files
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, ahead, together

_KEPT_VERSIONS = 4
"""Snapshots kept for lookups that began before the newest one."""
_MAX_DELTAS = 64
"""Beyond so many snapshots, reading the table anew costs less."""
_TRIES = 8
"""Times that the newest snapshot is read, as snapshots expire while they are read."""


class CommittedFiles:
    """Keeps levels by bucket at the newest snapshot known, and at a few before it. Thread-safe.

    Lookups are answered from those versions, with their deletion vectors; a committer's `LiveCache`
    and the changelog's `LiveBuckets` have one version of the whole table, and neither levels nor
    vectors.

    Args:
        owns: whether this owner has the bucket; others are not kept.
        on_removed: told the names of files that the newest snapshot no longer has.
        identity: of the table that is expected; None: whichever is there.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        snapshots: SnapshotStore,
        owns: Callable[[bytes, int], bool],
        on_removed: Callable[[set[str]], None] = lambda _: None,
        identity: TableIdentity | None = None,
    ) -> None:
        self._identity = identity
        self._store = store
        self._schema = schema
        self._snapshots = snapshots
        self._owns = owns
        self._on_removed = on_removed
        self.snapshot_id = 0
        self.rollbacks = 0
        """How often `advance` met a table that had been rolled back."""
        self._snapshot: Snapshot | None = None
        self._lock = threading.Lock()
        self._versions: OrderedDict[int, Mapping[BucketId, Levels]] = OrderedDict({0: {}})
        self._totals: dict[int, dict[bytes, int]] = {0: {}}
        self.buckets: Mapping[BucketId, Levels] = {}
        """Levels at the newest snapshot known; another mapping when that is another one."""

    def levels(self, bucket: BucketId) -> Levels:
        return self.buckets.get(bucket, _EMPTY)

    def total_buckets(self, partition: bytes, snapshot_id: int | None = None) -> int | None:
        """Count the buckets that a partition's rows are spread over; None without rows.

        Args:
            snapshot_id: one that `version` has just answered; by default the newest known.
        """
        number = self.snapshot_id if snapshot_id is None else snapshot_id
        return self._totals.get(number, {}).get(partition)

    def begin(self, latest: Snapshot | None) -> None:
        """Begin with the snapshot that was just found to be the newest of the expected table.

        Raises:
            TableReplacedError: another table is there.
        """
        if self._identity is not None:
            self._identity.note_checked(self._snapshots.invalidations)
        if latest is None:
            return
        self._snapshots.note_published(latest)
        try:
            with self._lock:
                self._move(latest)
        except (SnapshotNotFoundError, MissingFileError):  # it has expired meanwhile
            self.advance()

    def advance(self, snapshot_id: int | None = None, seen: Sequence[Snapshot] = ()) -> int:
        """Move on to the snapshot (the latest by default).

        Going back is not done, unless the table was rolled back: then everything is read anew.

        Args:
            seen: snapshots up to that one, each made on top of the one before, as the table's
                coordinator has just seen them.

        Raises:
            TableReplacedError: another table is there.
        """
        with self._lock:
            if snapshot_id is not None and self._follow_seen(snapshot_id, seen):
                return self.snapshot_id
            for _ in range(_TRIES):
                try:
                    return self._advance(snapshot_id)
                except (SnapshotNotFoundError, MissingFileError):  # rolled back under our hands
                    snapshot_id = None
            return self._advance(None)

    def _follow_seen(self, snapshot_id: int, seen: Sequence[Snapshot]) -> bool:
        """Move on without a request, if the snapshots seen go on from the one that is held."""
        numbers = [snapshot.id for snapshot in seen]
        is_chain = numbers == list(range(snapshot_id - len(seen) + 1, snapshot_id + 1))
        if not seen or not is_chain:
            return False
        held = self._snapshot
        if held not in (seen if seen[0].id > 1 else (None, *seen)):
            return False
        for snapshot in seen[0 if held is None else seen.index(held) + 1 :]:
            self._snapshots.note_published(snapshot)
        if snapshot_id > self.snapshot_id:
            try:
                self._move(seen[-1])
            except (SnapshotNotFoundError, MissingFileError):  # rolled back under our hands
                return False
        return True

    def _advance(self, snapshot_id: int | None) -> int:
        latest = self._snapshots.latest() if snapshot_id is None else None
        target = snapshot_id if latest is None else latest.id
        is_empty = snapshot_id is None and latest is None
        is_ahead = target is not None and target > self.snapshot_id

        def read() -> Snapshot | None:
            if target is None or not is_ahead:
                return None
            return latest or self._snapshots.read(target, fresh=True)

        was_rolled_back, found = together(
            self._store, lambda: self._was_rolled_back(latest, is_empty), read
        )
        if self._identity is not None:
            self._identity.check_same_table_after(self._snapshots.invalidations)
        if was_rolled_back:
            self._start_anew(self._snapshots.latest())
        elif is_ahead:
            self._move(found)
        return self.snapshot_id

    def version(self, snapshot_id: int | None) -> tuple[int, Mapping[BucketId, Levels]]:
        """Return a snapshot's id and levels by bucket; the newest known by default.

        Raises:
            SnapshotNotFoundError: it has expired.
        """
        with self._lock:
            number = self.snapshot_id if snapshot_id is None else snapshot_id
            if number not in self._versions:
                self._keep(number, self._load(self._snapshots.read(number, fresh=True)))
            return number, self._versions[number]

    def appended_by(self, user: str, after: int, until: int) -> Iterator[tuple[int, set[str]]]:
        """List the files that a user's APPEND snapshots added, by id, after one snapshot and up to
        another; those that expired are left out."""
        for snapshot in self._snapshots.range(after + 1, until):
            if snapshot.commit_user == user and snapshot.commit_kind == APPEND:
                entries = delta_entries(self._store, snapshot)
                yield snapshot.id, {entry.file.file_name for entry in entries}

    def _was_rolled_back(self, latest: Snapshot | None, is_empty: bool) -> bool:
        held = self._snapshot
        if held is None or held == latest:
            return False
        return is_empty or not self._snapshots.rests_on(held)

    def _start_anew(self, latest: Snapshot | None) -> None:
        before = _file_names(self.buckets)
        self._versions = OrderedDict({0: {}})
        self._totals = {0: {}}
        self.snapshot_id = 0
        self._snapshot = None
        self.rollbacks += 1
        if latest is not None:
            self._move(latest)
        else:
            self.buckets = {}
        self._on_removed(before - _file_names(self.buckets))

    def _move(self, target: Snapshot) -> None:
        try:
            buckets = self._follow(target.id)
        except SnapshotNotFoundError:
            buckets = None
        if buckets is None:
            before, held = self.buckets, self._load(target)
            self._on_removed(_file_names(before) - _file_names(held))
        else:
            held = self._with_vectors(target, buckets)
        self._keep(target.id, held)
        self.snapshot_id = target.id
        self._snapshot = target
        self.buckets = held

    def _follow(self, target: int) -> Mapping[BucketId, Levels] | None:
        if self.snapshot_id == 0 or target - self.snapshot_id > _MAX_DELTAS:
            return None
        buckets = dict(self.buckets)
        totals = dict(self._totals[self.snapshot_id])
        gone: set[str] = set()
        numbers = range(self.snapshot_id + 1, target + 1)
        for snapshot in ahead(self._store, self._snapshots.read, numbers):
            if snapshot.commit_kind == OVERWRITE:
                return None  # partitions may have gone, or have other buckets now
            for bucket, (removed, added) in self._changes(snapshot, totals).items():
                buckets[bucket] = buckets.get(bucket, _EMPTY).apply(removed, added)
                gone.update(file.file_name for file in removed)
                gone.difference_update(file.file_name for file in added)
        self._on_removed(gone)
        self._totals[target] = totals
        return buckets

    def _changes(
        self, snapshot: Snapshot, totals: dict[bytes, int]
    ) -> dict[BucketId, tuple[list[DataFileMeta], list[DataFileMeta]]]:
        changes: dict[BucketId, tuple[list[DataFileMeta], list[DataFileMeta]]]
        changes = defaultdict(lambda: ([], []))
        for entry in delta_entries(self._store, snapshot):
            if entry.kind == ADD:
                totals[entry.partition] = entry.total_buckets
            if self._owns(entry.partition, entry.bucket):
                changes[entry.partition, entry.bucket][entry.kind == ADD].append(entry.file)
        return changes

    def _load(self, snapshot: Snapshot) -> Mapping[BucketId, Levels]:
        entries = live_files(self._store, snapshot, self._schema)
        self._totals[snapshot.id] = {entry.partition: entry.total_buckets for entry in entries}
        owned = by_bucket(e for e in entries if self._owns(e.partition, e.bucket))
        levels = {bucket: Levels(files) for bucket, files in owned.items()}
        return self._with_vectors(snapshot, levels)

    def _with_vectors(
        self, snapshot: Snapshot, buckets: Mapping[BucketId, Levels]
    ) -> Mapping[BucketId, Levels]:
        """Add the snapshot's deletion vectors; those held already are not read again."""
        if not self._schema.core.deletion_vectors_enabled:
            return buckets
        saved = index_files(self._store, snapshot, DELETION_VECTORS)
        held = {}
        for bucket, levels in buckets.items():
            files = saved.get(bucket, [])
            names = tuple(sorted(file.file_name for file in files))
            if names != levels.vector_files:
                levels = levels.with_vectors(read_vectors(self._store, files), names)
            held[bucket] = levels
        return held

    def _keep(self, snapshot_id: int, buckets: Mapping[BucketId, Levels]) -> None:
        self._versions[snapshot_id] = buckets
        while len(self._versions) > _KEPT_VERSIONS:
            oldest = next(v for v in self._versions if v not in (self.snapshot_id, snapshot_id))
            del self._versions[oldest]
            self._totals.pop(oldest, None)


def _file_names(buckets: Mapping[BucketId, Levels]) -> set[str]:
    return {file.file_name for levels in buckets.values() for file in levels.files}


_EMPTY = Levels(())
