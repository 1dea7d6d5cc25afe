"""Whether rows were added to some buckets after the snapshot that a commit was prepared on."""

from __future__ import annotations

from collections.abc import Collection

from pkray.commit.conflicts import BucketId
from pkray.commit.live import delta_entries
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import SnapshotNotFoundError
from pkray.format.data_file import ADD
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.storage.object_store import ObjectStore


def bucket_moved(
    store: ObjectStore,
    snapshots: SnapshotStore,
    base: int,
    latest: Snapshot | None,
    buckets: Collection[BucketId],
) -> str | None:
    """What other commits did to the buckets, or None.

    Rows of a bucket are numbered in the order of their commits. Numbers given on top of ``base``
    are no longer right once another commit has added rows; compactions add none.

    Args:
        base: a snapshot's id; 0 is the empty table.
    """
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
        for entry in delta_entries(store, snapshot):
            if entry.kind == ADD and (entry.partition, entry.bucket) in buckets:
                return f"snapshot {number} of {snapshot.commit_user!r} added rows to them"
    return None
