"""Refuses changes that contradict what other commits have done."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from pkray.commit.change import Change
from pkray.commit.conflicts import find_changed_bucket, find_conflict, needs_check
from pkray.commit.index_files import find_assignment_conflict, find_index_conflict, index_entries
from pkray.commit.table_state import TableState
from pkray.commit.writer_fences import WriterFences
from pkray.errors import CommitBaseMovedError, CommitConflictError, SnapshotNotFoundError
from pkray.format.data_file import ADD, ManifestEntry
from pkray.format.snapshot import COMPACT, OVERWRITE, Snapshot
from pkray.metadata.live import BucketId, delta_entries
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


class CommitChecks:
    """Compares a change with the snapshot that it is to be put on top of."""

    def __init__(self, store: ObjectStore, table: TableState) -> None:
        self._store = store
        self._table = table
        self._fences = WriterFences(store)

    def check_newest_writer(self, change: Change) -> None:
        """Check that no other writer has taken over from the change's.

        Raises:
            CommitFencedError: the change's is one.
        """
        if change.generation is not None:
            self._fences.check_newest(change.user, change.generation)

    def check_base(self, change: Change, latest: Snapshot | None, schema: TableSchema) -> None:
        """Check that buckets got no commits since the snapshot after which their rows are numbered.

        Rows placed by where their keys were do not fit a table in which others may have moved.

        Raises:
            CommitBaseMovedError: they are to be numbered again.
        """
        base = change.base
        if base is None:
            return
        if self._table.has_lost_base:
            moved: str | None = "the table was rolled back since"
        elif base == _id(latest):
            return
        elif schema.crosses_partitions:
            moved = self._first_move(base, latest, _changed_rows)
        else:
            buckets = {(entry.partition, entry.bucket) for entry in change.entries}
            moved = self._first_move(base, latest, partial(_changed_buckets, buckets))
        if moved:
            raise CommitBaseMovedError(
                f"{self._named(change)} was prepared on snapshot {base} of its buckets, and "
                f"{moved}; nothing was committed: {change.again}",
                user=change.user,
                identifier=change.identifier,
                base=base,
                conflict=moved,
                snapshot_id=latest.id if latest else None,
            )

    def check_rows_unchanged(
        self, change: Change, read_at: int, latest: Snapshot | None, partitions: Collection[bytes]
    ) -> None:
        """Check that partitions rewritten as of one snapshot have not got or lost rows since.

        Raises:
            CommitBaseMovedError: they are to be read again.
        """
        moved = self._first_move(read_at, latest, partial(_changed_partitions, partitions))
        if moved:
            raise CommitBaseMovedError(
                f"{self._named(change)} rewrote partitions as of snapshot {read_at}, but {moved}; "
                "nothing was committed: read them again",
                user=change.user,
                identifier=change.identifier,
                base=read_at,
            )

    def check_conflicts(self, change: Change, latest: Snapshot | None, schema: TableSchema) -> None:
        """Check that files and indexes that a change replaces are there, and that those it adds
        fit.

        Raises:
            CommitConflictError: they do not.
        """
        conflict = (
            self._file_conflict(change, latest, schema)
            or self._index_conflict(change, latest)
            or self._lost_compaction(change)
            or self._assignment_conflict(change, latest)
        )
        if conflict:
            raise CommitConflictError(
                f"{self._named(change)} contradicts another commit: {conflict}; nothing was "
                "committed: let one process compact a table, and write what was lost again",
                user=change.user,
                identifier=change.identifier,
                conflict=conflict,
                snapshot_id=latest.id if latest else None,
            )

    def _file_conflict(
        self, change: Change, latest: Snapshot | None, schema: TableSchema
    ) -> str | None:
        conflict = None
        if needs_check(change.entries):
            types = schema.types(schema.trimmed_primary_keys)
            conflict = find_conflict(change.entries, self._table.live.at(latest), types)
        if conflict is None and change.upper_files:
            conflict = find_changed_bucket(change.upper_files, self._table.live.at(latest))
        return conflict

    def _index_conflict(self, change: Change, latest: Snapshot | None) -> str | None:
        if not change.index:
            return None
        return find_index_conflict(index_entries(self._store, latest), change.index)

    def _lost_compaction(self, change: Change) -> str | None:
        if change.kind == COMPACT and self._table.has_lost_base:
            return "the table was rolled back since the compaction"
        return None

    def _assignment_conflict(self, change: Change, latest: Snapshot | None) -> str | None:
        base = change.assigned_at
        if base is None or base == _id(latest):
            return None
        before = self._table.snapshots.read(base) if base else None
        return find_assignment_conflict(
            index_entries(self._store, before),
            index_entries(self._store, latest),
            {entry.partition for entry in (*change.entries, *change.changelog)}
            | {each.partition for each in change.index},
        )

    def _first_move(
        self,
        base: int,
        latest: Snapshot | None,
        done_by: Callable[[Snapshot, Iterable[ManifestEntry]], str | None],
    ) -> str | None:
        """Say what other commits did since a snapshot; None if nothing but compactions.

        Args:
            base: the snapshot's id; 0 is the empty table.
            done_by: says what one of them did.
        """
        newest = _id(latest)
        if newest < base:
            return f"the table was rolled back from snapshot {base} to {newest}"
        for number in range(base + 1, newest + 1):
            try:
                snapshot = self._table.snapshots.read(number)
            except SnapshotNotFoundError:
                return f"snapshot {number} has expired"
            if snapshot.commit_kind == COMPACT:
                continue
            done = done_by(snapshot, delta_entries(self._store, snapshot))
            if done is not None:
                return f"snapshot {number} of {snapshot.commit_user!r} {done}"
        return None

    def _named(self, change: Change) -> str:
        return f"commit {change.identifier} of {change.user!r} to {self._store.url!r}"


def _id(snapshot: Snapshot | None) -> int:
    return snapshot.id if snapshot else 0


def _changed_buckets(
    buckets: Collection[BucketId], snapshot: Snapshot, entries: Iterable[ManifestEntry]
) -> str | None:
    """Rows of a bucket are numbered in the order of their commits. Numbers given on top of a base
    are no longer right once another commit has added rows; compactions add none. An overwrite may
    also have given the whole partition another number of buckets, or removed rows that those to
    be committed were merged or compared with."""
    partitions = {partition for partition, _ in buckets}
    overwritten = snapshot.commit_kind == OVERWRITE
    for entry in entries:
        if overwritten and entry.partition in partitions:
            return "overwrote their partition"
        if entry.kind == ADD and (entry.partition, entry.bucket) in buckets:
            return "added rows to them"
    return None


def _changed_partitions(
    partitions: Collection[bytes], _: Snapshot, entries: Iterable[ManifestEntry]
) -> str | None:
    is_changed = any(entry.partition in partitions for entry in entries)
    return "changed their rows" if is_changed else None


def _changed_rows(_: Snapshot, entries: Iterable[ManifestEntry]) -> str | None:
    return "changed rows" if any(True for _ in entries) else None
