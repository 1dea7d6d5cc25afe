"""Plan the splits of what a snapshot changed, or of what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pkray.changelog.request import ChangeRequest
from pkray.changelog.splits import (
    BucketState,
    BucketStateSplit,
    ChangelogSplit,
    ChangeSplit,
    ContentSplit,
    DeltaSplit,
    DifferenceSplit,
    NormalizedSplit,
    OverwriteSplit,
)
from pkray.commit.index_files import index_files
from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.format.data_file import ADD, DELETE, DataFileMeta, ManifestEntry
from pkray.format.index_file import DELETION_VECTORS, IndexFileMeta
from pkray.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from pkray.lsm.compaction.pick import skips_level_0
from pkray.metadata.live import (
    BucketId,
    FileKey,
    apply_changes,
    by_bucket,
    changelog_entries,
    delta_entries,
    live_files,
    unless_expired,
)
from pkray.options import TableOptions
from pkray.scan.plan import ScanPlanner
from pkray.storage.location import TableLocation
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
        apply_changes(self._buckets, entries, lambda entry: entry.file)


SnapshotOf = Callable[[int], Snapshot]
"""A snapshot by its id. Raises `SnapshotNotFoundError`."""


class ChangePlanner:
    """Plans reads of changes.

    What a snapshot changed is what its changelog files say; where the table has no changelog
    producer, what its writers added. OVERWRITE snapshots are left out, unless the table sets
    ``streaming-read-overwrite``.

    Args:
        store: the table's root, or a branch.
        read_snapshot: of this table.
        normalize: rows before and after are looked up instead, so that the changes are complete
            whatever the producer, and follow overwrites too.
        compares: overwrites are followed, by the rows in which they differ from what was there;
            without -U, unless changes are normalised.
    """

    def __init__(
        self,
        store: ObjectStore,
        request: ChangeRequest,
        read_snapshot: SnapshotOf,
        normalize: bool = False,
        compares: bool = False,
    ) -> None:
        options = request.schema.core
        self._store = store
        self._request = request
        self._read_snapshot = read_snapshot
        self.normalizes = normalize and not is_complete(options)
        self._shows_old = normalize
        self._finds_differences = normalize or compares
        self._reads_overwrites = options.streaming_read_overwrite or self._finds_differences
        self._producer = options.changelog_producer
        self._hides_level_0 = skips_level_0(request.schema)
        self._live = LiveBuckets(store)
        if self.normalizes:
            self._min_level = int(self._hides_level_0)
        else:
            self._min_level = min_changelog_level(options)

    @property
    def looks_back(self) -> bool:
        """Whether changes of a snapshot are found with the help of the one before it."""
        return self.normalizes or self._reads_overwrites

    def changes(self, snapshot: Snapshot) -> list[ChangeSplit]:
        """Plan the changes of a snapshot, in the order in which splits of one key are to be read.

        Raises:
            SnapshotNotFoundError: it, or another one that is needed, has expired.
        """
        if self.normalizes:
            return self._normalized(snapshot)
        if snapshot.commit_kind == OVERWRITE:
            return self._overwritten(snapshot) if self._reads_overwrites else []
        if self._producer != "none":
            entries: Iterable[ManifestEntry] = changelog_entries(self._store, snapshot)
            kind: type[ChangelogSplit | DeltaSplit] = ChangelogSplit
        elif snapshot.commit_kind == APPEND:
            entries = (e for e in delta_entries(self._store, snapshot) if e.kind == ADD)
            kind = DeltaSplit
        else:
            return []
        return [
            kind(self._request, snapshot.id, *bucket, files)
            for bucket, files in by_bucket(entries).items()
        ]

    def can_read(self, snapshot: Snapshot) -> bool:
        """Whether the changes of a snapshot can be read. Some overwrites need the snapshot
        itself, or the one before."""
        if self.normalizes or snapshot.commit_kind != OVERWRITE or not self._reads_overwrites:
            return True
        try:
            entries = self._entries_in_changelog(snapshot)
            if self._request.schema.core.deletion_vectors_enabled:
                self._read_snapshot(snapshot.id)
            if any(entry.kind == DELETE for entry in entries):
                self._before(snapshot)
        except (SnapshotNotFoundError, MissingFileError):
            return False
        return True

    def content(self, snapshot: Snapshot, location: TableLocation) -> list[ChangeSplit]:
        """Plan the contents that the changes up to a snapshot made, as +I.

        With a changelog producer that is what is in the changelogs, which may be less than the
        snapshot holds: the rest comes with the next changelogs.
        """
        if not self._min_level and self._hides_level_0:
            return self._merged_content(snapshot)
        planner = ScanPlanner(location, self._store, self._request.schema)
        request, min_level = self._request, self._min_level or None
        with unless_expired(self._store, snapshot.id):
            splits = planner.scan(
                snapshot, request.columns, request.predicate, from_level=min_level
            )
        return [
            ContentSplit(request, snapshot.id, split.partition, split.bucket, split)
            for split in splits
        ]

    def _merged_content(self, snapshot: Snapshot) -> list[ChangeSplit]:
        """Plan all levels: rows of level 0 are in the changelog, though readers do not see them
        yet."""
        vectors = self._vectors(snapshot)
        files = by_bucket(live_files(self._store, snapshot))
        return [
            BucketStateSplit(
                self._request, snapshot.id, *bucket, _bucket_state(bucket, of_bucket, vectors)
            )
            for bucket, of_bucket in sorted(files.items())
        ]

    def _overwritten(self, snapshot: Snapshot) -> list[ChangeSplit]:
        entries = self._entries_in_changelog(snapshot)
        before = by_bucket(entry for entry in entries if entry.kind == DELETE)
        after = by_bucket(entry for entry in entries if entry.kind == ADD)
        old_vectors = self._vectors(self._before(snapshot)) if before else {}
        new_vectors = self._vectors(snapshot)
        return self._differences(snapshot, before, old_vectors, after, new_vectors)

    def _differences(
        self,
        snapshot: Snapshot,
        before: BucketFiles,
        old_vectors: Vectors,
        after: BucketFiles,
        new_vectors: Vectors,
    ) -> list[ChangeSplit]:
        """Plan what an overwrite made of some buckets.

        A key may be in another bucket of its partition afterwards. Where it may be in another
        partition as well, each bucket tells for itself what became of it.
        """
        crosses = self._finds_differences and self._request.schema.crosses_partitions
        parts: dict[tuple[bytes, int | None], list[BucketId]] = {}
        for bucket in sorted(before.keys() | after.keys()):
            parts.setdefault(bucket if crosses else (bucket[0], None), []).append(bucket)
        request, number = self._request, snapshot.id
        splits: list[ChangeSplit] = []
        for part, buckets in parts.items():
            old = _bucket_states(buckets, before, old_vectors)
            new = _bucket_states(buckets, after, new_vectors)
            if self._finds_differences:
                splits.append(DifferenceSplit(request, number, *part, old, new, self._shows_old))
            else:
                splits.append(OverwriteSplit(request, number, *part, old, new))
        return splits

    def _entries_in_changelog(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return what an overwrite did with files whose rows are in the changelog, or will be."""
        entries = delta_entries(self._store, snapshot)
        return [entry for entry in entries if entry.file.level >= self._min_level]

    def _normalized(self, snapshot: Snapshot) -> list[ChangeSplit]:
        previous = self._before(snapshot)
        live = self._live.at(previous)
        entries = delta_entries(self._store, snapshot)
        touched = by_bucket(self._touching(snapshot, entries))
        ids = {(entry.partition, entry.bucket) for entry in entries}
        wanted = ids if snapshot.commit_kind == OVERWRITE else set(touched)
        before = {bucket: self._visible(live.get(bucket, {})) for bucket in wanted}
        live = self._live.move(snapshot, entries)
        after = {bucket: self._visible(live.get(bucket, {})) for bucket in wanted}
        old_vectors = self._vectors(previous) if wanted else {}
        new_vectors = self._vectors(snapshot) if wanted else {}
        if snapshot.commit_kind != OVERWRITE:
            return [
                NormalizedSplit(
                    self._request,
                    snapshot.id,
                    *bucket,
                    touched[bucket],
                    _bucket_state(bucket, before[bucket], old_vectors),
                    _bucket_state(bucket, after[bucket], new_vectors),
                )
                for bucket in sorted(touched)
            ]
        return self._differences(snapshot, before, old_vectors, after, new_vectors)

    def _touching(
        self, snapshot: Snapshot, entries: Iterable[ManifestEntry]
    ) -> Iterable[ManifestEntry]:
        """Return the files by whose keys what readers see may have changed."""
        if self._hides_level_0:
            if snapshot.commit_kind == COMPACT:
                return [e for e in entries if e.kind == DELETE and e.file.level == 0]
        elif snapshot.commit_kind == APPEND:
            return [e for e in entries if e.kind == ADD]
        return []

    def _visible(self, files: Files) -> tuple[DataFileMeta, ...]:
        return tuple(file for file in files.values() if file.level >= self._min_level)

    def _vectors(self, snapshot: Snapshot | None) -> Vectors:
        if snapshot is None or not self._request.schema.core.deletion_vectors_enabled:
            return {}
        with unless_expired(self._store, snapshot.id):
            return index_files(self._store, snapshot, DELETION_VECTORS)

    def _before(self, snapshot: Snapshot) -> Snapshot | None:
        if snapshot.id == 1:
            return None
        try:
            return self._read_snapshot(snapshot.id - 1)
        except SnapshotNotFoundError as error:
            raise SnapshotNotFoundError(
                f"the changes of snapshot {snapshot.id} of {self._store.url!r} cannot be read: "
                f"snapshot {snapshot.id - 1}, which it replaced rows of, has expired; read from a "
                "later one, or the whole table first, and keep what is to be read by a consumer",
                **{**error.values, "snapshot_id": snapshot.id},
            ) from error


Vectors = dict[BucketId, list[IndexFileMeta]]
BucketFiles = Mapping[BucketId, tuple[DataFileMeta, ...]]


def is_complete(options: TableOptions) -> bool:
    """Whether the table's own changelog has every image before and after."""
    return options.changelog_producer in ("lookup", "full-compaction")


def min_changelog_level(options: TableOptions) -> int:
    """Return the lowest level whose rows are in the changelog: with a producer of complete changes,
    what was compacted."""
    levels = {"lookup": 1, "full-compaction": options.num_levels - 1}
    return levels.get(options.changelog_producer, 0)


def _bucket_state(
    bucket: BucketId, files: tuple[DataFileMeta, ...], vectors: Vectors
) -> BucketState:
    return BucketState(*bucket, files, tuple(vectors.get(bucket, ())))


def _bucket_states(
    buckets: Iterable[BucketId], files: BucketFiles, vectors: Vectors
) -> tuple[BucketState, ...]:
    """List the states of those buckets that hold files."""
    return tuple(_bucket_state(each, files[each], vectors) for each in buckets if files.get(each))
