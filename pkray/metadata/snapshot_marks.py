"""Tells snapshots from others with the same ids."""

import hashlib

from pkray.errors import SnapshotNotFoundError
from pkray.format.snapshot import Snapshot
from pkray.metadata.schemas import read_identity
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore


class SnapshotMarks:
    """Marks of a table's snapshots: others after a rollback, or of a table made in its place, have
    other ones.

    Args:
        store: the table's root, or a branch.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._snapshots = SnapshotStore(main_and_history(store)[1])

    def at(self, snapshot_id: int) -> str | None:
        """Read the mark of a snapshot, as it is in the store now; None where it has expired, or
        was never made. That of 0, before the first, is the table's own.
        """
        if snapshot_id <= 0:
            return read_identity(self._store)
        try:
            return mark_of(self._snapshots.read(snapshot_id, fresh=True))
        except SnapshotNotFoundError:
            return None

    def latest_id(self) -> int:
        """Find the newest snapshot; 0 before the first."""
        return self._snapshots.latest_id() or 0

    def earliest_id(self) -> int:
        """Find the oldest snapshot that has not expired; 0 before the first."""
        return self._snapshots.earliest_id() or 0


def mark_of(snapshot: Snapshot) -> str:
    """Make the mark of a snapshot: its lists of files have names that no other's have."""
    named = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return hashlib.blake2b("\n".join(named).encode(), digest_size=8).hexdigest()
