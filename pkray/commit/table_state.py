"""Holds what a committer knows of its table."""

from collections.abc import Callable, Iterable

from pkray.commit.change import Change
from pkray.commit.conflicts import LiveFile, LiveFiles
from pkray.errors import SnapshotNotFoundError, TableNotFoundError
from pkray.format.data_file import ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_history import CommitHistory
from pkray.metadata.live import BucketId, FileKey, apply_changes, delta_entries, live_files
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, together


class TableState:
    """The newest snapshot, its live files and the commits of one user, as they were last seen.

    Args:
        user: the commit user.
        identity: of the table that is expected; None: whichever is there.
        snapshots: shared with others, so that each is read once.
        schema: reads the table's newest schema.
    """

    def __init__(
        self,
        store: ObjectStore,
        user: str,
        identity: TableIdentity | None,
        snapshots: SnapshotStore | None,
        schema: Callable[[], TableSchema],
    ) -> None:
        self._store = store
        self._read_schema = schema
        self.schema: TableSchema | None = None
        self.identity = identity
        self.snapshots = snapshots or SnapshotStore(store)
        self.history = CommitHistory(self.snapshots, user)
        self.live = LiveCache(store, self.snapshots)
        self.newest: Snapshot | None = None
        self.rollbacks = 0
        """The number of times that the table was seen to be rolled back."""
        self._based_at: int | None = None

    def synchronise(self, *, with_schema: bool = False) -> Snapshot | None:
        """See what others committed meanwhile; the newest snapshot.

        Args:
            with_schema: read the newest schema, too.

        Raises:
            TableReplacedError: another table is there.
        """
        if with_schema:
            works = (self.snapshots.latest, self._newest_schema)
            latest, self.schema = together(self._store, *works)
        else:
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

    def _newest_schema(self) -> TableSchema:
        try:
            return self._read_schema()
        except TableNotFoundError:
            if self.identity is not None:
                self.identity.check_same_table()  # says that it was there
            raise

    def take_base(self, *, seen: bool = False) -> Snapshot | None:
        """See the newest snapshot and schema, and from now on whether the snapshot is lost.

        Args:
            seen: take those that were last seen.
        """
        if not seen or self.schema is None:
            self.synchronise(with_schema=True)
        self._based_at = self.rollbacks
        return self.newest

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
