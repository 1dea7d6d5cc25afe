"""Holds what a committer knows of its table."""

from __future__ import annotations

from pkray.commit.change import Change
from pkray.commit.live_cache import LiveCache
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_history import CommitHistory
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.table_identity import TableIdentity
from pkray.storage.object_store import ObjectStore


class TableState:
    """The newest snapshot, its live files and the commits of one user, as they were last seen.

    Args:
        user: the commit user.
        identity: of the table that is expected; None: whichever is there.
        snapshots: shared with others, so that each is read once.
    """

    def __init__(
        self,
        store: ObjectStore,
        user: str,
        identity: TableIdentity | None = None,
        snapshots: SnapshotStore | None = None,
    ) -> None:
        self.identity = identity
        self.snapshots = snapshots or SnapshotStore(store)
        self.history = CommitHistory(self.snapshots, user)
        self.live = LiveCache(store, self.snapshots)
        self.newest: Snapshot | None = None
        self.rollbacks = 0
        """The number of times that the table was seen to be rolled back."""
        self._based_at: int | None = None

    def synchronise(self) -> Snapshot | None:
        """See what others committed meanwhile; the newest snapshot.

        Raises:
            TableReplacedError: another table is there.
        """
        latest = self.snapshots.latest()
        if self.identity is not None:
            self.identity.check_same_table_after(self.snapshots.invalidations)
        if self.snapshots.rollbacks != self.rollbacks:
            self.rollbacks = self.snapshots.rollbacks
            self.history.reset()
            self.live.reset()
        self.newest = latest
        self.history.advance(latest)
        return latest

    def take_base(self) -> Snapshot | None:
        """See the newest snapshot, and from now on whether it is lost."""
        latest = self.synchronise()
        self._based_at = self.rollbacks
        return latest

    @property
    def has_lost_base(self) -> bool:
        """Whether the table was rolled back since a base was last taken."""
        return self._based_at is not None and self._based_at != self.rollbacks

    def published(self, change: Change, snapshot: Snapshot) -> None:
        """Move on to our own snapshot."""
        self.live.committed(snapshot, change.entries)
        if self.newest is None or snapshot.id == self.newest.id + 1:
            self.newest = snapshot
            self.history.advance(snapshot)
