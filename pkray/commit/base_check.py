"""Finds what other commits did since the snapshot that a commit was prepared on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import ADD, ManifestEntry
from pkray.format.snapshot import COMPACT, OVERWRITE, Snapshot
from pkray.metadata.live import BucketId, delta_entries
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore


def bucket_moved(
    store: ObjectStore,
    snapshots: SnapshotStore,
    base: int,
    latest: Snapshot | None,
    buckets: Collection[BucketId],
) -> str | None:
    """Say what other commits did to the buckets; None if nothing.

    Rows of a bucket are numbered in the order of their commits. Numbers given on top of ``base``
    are no longer right once another commit has added rows; compactions add none. An overwrite may
    also have given the whole partition another number of buckets, or removed rows that those to
    be committed were merged or compared with.

    Args:
        base: a snapshot's id; 0 is the empty table.
    """
    partitions = {partition for partition, _ in buckets}

    def done_by(snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> str | None:
        overwritten = snapshot.commit_kind == OVERWRITE
        for entry in entries:
            if overwritten and entry.partition in partitions:
                return "overwrote their partition"
            if entry.kind == ADD and (entry.partition, entry.bucket) in buckets:
                return "added rows to them"
        return None

    return _first_move(store, snapshots, base, latest, done_by)


def partitions_moved(
    store: ObjectStore,
    snapshots: SnapshotStore,
    base: int,
    latest: Snapshot | None,
    partitions: Collection[bytes],
) -> str | None:
    """Say what other commits did to the rows of the partitions; None if nothing but compactions."""

    def done_by(_: Snapshot, entries: Iterable[ManifestEntry]) -> str | None:
        is_changed = any(entry.partition in partitions for entry in entries)
        return "changed their rows" if is_changed else None

    return _first_move(store, snapshots, base, latest, done_by)


def rows_moved(
    store: ObjectStore, snapshots: SnapshotStore, base: int, latest: Snapshot | None
) -> str | None:
    """Say what other commits did to rows anywhere; None if nothing but compactions."""

    def done_by(_: Snapshot, entries: Iterable[ManifestEntry]) -> str | None:
        return "changed rows" if any(True for _ in entries) else None

    return _first_move(store, snapshots, base, latest, done_by)


def _first_move(
    store: ObjectStore,
    snapshots: SnapshotStore,
    base: int,
    latest: Snapshot | None,
    done_by: Callable[[Snapshot, Iterable[ManifestEntry]], str | None],
) -> str | None:
    newest = latest.id if latest else 0
    if newest < base:
        return f"the table was rolled back from snapshot {base} to {newest}"
    for number in range(base + 1, newest + 1):
        try:
            snapshot = snapshots.read(number)
        except SnapshotNotFoundError:
            return f"snapshot {number} has expired"
        if snapshot.commit_kind == COMPACT:
            continue
        done = done_by(snapshot, delta_entries(store, snapshot))
        if done is not None:
            return f"snapshot {number} of {snapshot.commit_user!r} {done}"
    return None
