"""Publishes what writers did as snapshots, each once."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pkray.commit.attempt import Attempt, Change
from pkray.commit.conflicts import find_changed_bucket, find_conflict, needs_check
from pkray.commit.history import CommitHistory, Committed
from pkray.commit.index_files import (
    IndexChange,
    find_assignment_conflict,
    find_index_conflict,
    index_changes,
    index_entries,
)
from pkray.commit.live_cache import LiveCache
from pkray.commit.moved_base import bucket_moved, partitions_moved
from pkray.commit.overwriting import Partitions, overwrite_entries
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import (
    CommitBaseMovedError,
    CommitConflictError,
    CommitError,
    MissingFileError,
    PkrayError,
    SnapshotNotFoundError,
)
from pkray.format import paths
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import ADD, DELETE, ManifestEntry
from pkray.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from pkray.schema import TableSchema
from pkray.storage.object_store import ObjectStore

FIRST_WAIT, LONGEST_WAIT = 0.01, 2.0
"""Seconds a commit that lost a race waits at most, before the second try and ever."""


@dataclass(frozen=True)
class CommitResult:
    """What became of a commit.

    Args:
        append: the APPEND snapshot, if one was made (and has not expired since).
        compact: the COMPACT snapshot, likewise.
        new: false where the identifier had been committed before.
        compact_conflict: the compaction was dropped, as others changed its files; nothing of it
            is visible, and the writer must read the table's files anew.
    """

    append: Snapshot | None
    compact: Snapshot | None
    new: bool
    compact_conflict: bool = False


class _CommittedElsewhere(Exception):
    """Another process published this commit meanwhile."""


class Committer:
    """Commits for one commit user. For one thread at a time; processes may compete.

    Args:
        store: the table's root.
        schema: the table's newest schema, or what returns it.
        commit_user: with the identifier, the name of a commit; its identifiers must grow.
        clock: epoch milliseconds.
        rng: of waiting times and snapshot uuids.
        sleep: takes seconds.
        ignore_empty: make no APPEND snapshot when nothing is to be appended. Paimon's streaming
            commits do make one.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema | Callable[[], TableSchema],
        commit_user: str,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: random.Random | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        ignore_empty: bool = False,
    ) -> None:
        self.commit_user = commit_user
        self.snapshots = SnapshotStore(store)
        self._store = store
        self._schema_source = schema
        self._clock = clock
        self._rng = rng or random.SystemRandom()
        self._sleep = sleep
        self._ignore_empty = ignore_empty
        self._names = paths.FileNames()
        self._history = CommitHistory(self.snapshots, commit_user)
        self._live = LiveCache(store, self.snapshots)
        self._newest: Snapshot | None = None
        self._rollbacks = 0
        self._based_at: int | None = None

    def commit(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        *,
        watermark: int | None = None,
        properties: dict[str, str] | None = None,
        assigned_at: int | None = None,
        base: int | None = None,
    ) -> CommitResult:
        """Publish an APPEND snapshot, then a COMPACT snapshot if the messages compact.

        An identifier not above the newest committed one makes no APPEND snapshot again; of the
        newest one the COMPACT snapshot is still made, where it is missing.

        Args:
            assigned_at: for a table with dynamic buckets, the snapshot (0 before the first) by
                whose hash indexes rows were given their buckets.
            base: the snapshot (0 before the first) after which the new rows were numbered. By
                default other commits may add rows to the same buckets meanwhile; which row of a
                key wins then is chance.

        Raises:
            CommitBaseMovedError: rows were added to a bucket after ``base``: number the new ones
                again and commit with this identifier; nothing was committed.
            CommitConflictError: nothing was committed: files it deletes are gone, or files it
                adds above level 0 overlap others, or hash indexes have changed.
            CommitUnknownError: the store gave no answer; commit again with this identifier.
            CommitError: others kept committing first; nothing was committed.
            StorageError: a file could not be read or written; commit again with this identifier.
        """
        self._synchronise()
        if self._history.identifier is not None and identifier <= self._history.identifier:
            return self._repeat(identifier, messages, watermark, properties)
        append, changelog = _append_entries(messages)
        published = None
        index = index_changes(messages, APPEND)
        if append or changelog or index or not self._ignore_empty:
            change = self._change(
                APPEND,
                identifier,
                append,
                changelog,
                watermark,
                properties,
                index,
                assigned_at,
                base,
            )
            try:
                published = self._publish(change)
            except _CommittedElsewhere:
                return self._repeat(identifier, messages, watermark, properties)
        compact, conflict = self._compact(identifier, messages, watermark, properties)
        return CommitResult(published, compact, bool(published or compact), conflict)

    def overwrite(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        replaced: Partitions,
        *,
        watermark: int | None = None,
        properties: dict[str, str] | None = None,
        read_at: int | None = None,
    ) -> CommitResult:
        """Publish an OVERWRITE snapshot: new files in the place of all that are in some partitions.

        An identifier not above the newest committed one changes nothing. No changelog is made, as
        in Paimon.

        Args:
            messages: of these the ``new_files`` and ``index_files`` count; they are finished
                files, of any level.
            replaced: the partitions that are emptied, among those there are when it happens.
            read_at: the snapshot that the new files were made from, if they were: they must hold
                all rows of the partitions replaced.

        Raises:
            CommitBaseMovedError: rows of these partitions have changed since ``read_at``.
            As `commit`.
        """
        self._synchronise()
        if self._history.identifier is not None and identifier <= self._history.identifier:
            return CommitResult(self._history.find(identifier).append, None, False)
        first = self._change(OVERWRITE, identifier, [], [], watermark, properties)

        def on_top_of(latest: Snapshot | None) -> Change:
            live = self._live.at(latest)
            if read_at is not None:
                self._refuse_changed_rows(first, read_at, latest, replaced, messages)
            entries, index = overwrite_entries(
                self._store, self._schema, latest, live, replaced, messages
            )
            return replace(first, entries=entries, index=index)

        try:
            return CommitResult(self._publish(first, on_top_of), None, True)
        except _CommittedElsewhere:
            return CommitResult(self._history.find(identifier).append, None, False)

    def _refuse_changed_rows(
        self,
        change: Change,
        read_at: int,
        latest: Snapshot | None,
        replaced: Partitions,
        messages: Sequence[CommitMessage],
    ) -> None:
        partitions = frozenset(message.partition for message in messages) | frozenset(
            replaced.select({partition for partition, _ in self._live.at(latest)})
        )
        moved = partitions_moved(self._store, self.snapshots, read_at, latest, partitions)
        if moved:
            raise CommitBaseMovedError(
                f"commit {change.identifier} of {self.commit_user!r} to {self._store.url!r} rewrote "
                f"partitions as of snapshot {read_at}, but {moved}; nothing was committed: read "
                "them again",
                user=self.commit_user,
                identifier=change.identifier,
                base=read_at,
            )

    def committed_identifier(self, user: str | None = None) -> int | None:
        """The newest identifier that the commit user (this one's by default) committed."""
        latest = self._synchronise()
        if user is None or user == self.commit_user:
            return self._history.identifier
        history = CommitHistory(self.snapshots, user)
        history.advance(latest)
        return history.identifier

    def filter_committed(self, identifiers: Iterable[int]) -> list[int]:
        """Of some identifiers, those that are still to be committed, ascending."""
        newest = self.committed_identifier()
        return sorted(each for each in identifiers if newest is None or each > newest)

    def snapshot_of(self, identifier: int) -> Snapshot | None:
        """The newest snapshot of a commit; None if it was not made or has expired."""
        self._synchronise()
        return self._history.find(identifier).newest

    def base(self) -> int:
        """The newest snapshot's id (0: none) for what is to be committed next.

        If the table is rolled back meanwhile, new rows are refused where they are numbered after
        a base, and a compaction is dropped.
        """
        latest = self._synchronise()
        self._based_at = self._rollbacks
        return latest.id if latest else 0

    def latest_id(self) -> int | None:
        """The table's newest snapshot's id, or None."""
        return self.snapshots.latest_id()

    def latest_snapshot(self) -> Snapshot | None:
        """The table's newest snapshot, or None."""
        return self.snapshots.latest()

    @property
    def _schema(self) -> TableSchema:
        source = self._schema_source
        return source if isinstance(source, TableSchema) else source()

    def _synchronise(self) -> Snapshot | None:
        latest = self.snapshots.latest()
        if self.snapshots.rollbacks != self._rollbacks:
            self._rollbacks = self.snapshots.rollbacks
            self._history.reset()
            self._live.reset()
        self._newest = latest
        self._history.advance(latest)
        return latest

    def _change(
        self,
        kind: str,
        identifier: int,
        entries: Sequence[ManifestEntry],
        changelog: Sequence[ManifestEntry],
        watermark: int | None,
        properties: dict[str, str] | None,
        index: Sequence[IndexChange] = (),
        assigned_at: int | None = None,
        base: int | None = None,
    ) -> Change:
        token = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        return Change(
            self.commit_user,
            kind,
            identifier,
            entries,
            changelog,
            watermark,
            properties,
            token,
            index,
            assigned_at,
            base,
        )

    def _compact(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        watermark: int | None,
        properties: dict[str, str] | None,
    ) -> tuple[Snapshot | None, bool]:
        entries, changelog = _compact_entries(messages)
        index = index_changes(messages, COMPACT)
        if not entries and not changelog and not index:
            return None, False
        change = self._change(COMPACT, identifier, entries, changelog, watermark, properties, index)
        upper_files = {
            (message.partition, message.bucket): message.upper_files
            for message in messages
            if message.has_compact and message.upper_files is not None
        }
        try:
            return self._publish(replace(change, upper_files=upper_files)), False
        except _CommittedElsewhere:
            return self._history.find(identifier).compact, True
        except (CommitConflictError, _OutrunError):
            return None, True

    def _repeat(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        watermark: int | None,
        properties: dict[str, str] | None,
    ) -> CommitResult:
        append, compact = self._history.find(identifier)
        conflict = False
        if append is not None and compact is None and identifier == self._history.identifier:
            compact, conflict = self._compact(identifier, messages, watermark, properties)
        return CommitResult(append, compact, False, conflict)

    def _publish(
        self, change: Change, on_top_of: Callable[[Snapshot | None], Change] | None = None
    ) -> Snapshot:
        schema = self._schema
        attempt = Attempt(self._store, self.snapshots, schema, self._names, self._clock, change)
        retries = schema.core.commit_max_retries
        timeout = schema.core.commit_timeout
        give_up = None if timeout is None else self._clock() + timeout
        rollbacks = self._rollbacks
        try:
            for tries in range(retries + 1):
                # At first what `commit` or the snapshot before found: if that is no longer the
                # latest, creating the next one fails.
                latest = self._newest if tries == 0 else self._synchronise()
                snapshot = self._published_before(change)
                if snapshot is None and attempt.may_be_there and rollbacks != self._rollbacks:
                    raise attempt.rolled_back()
                try:
                    if snapshot is None and on_top_of is not None:
                        change = on_top_of(latest)
                        attempt.renew(change)
                    if snapshot is None:
                        self._refuse_moved_base(change, latest)
                        self._refuse_conflict(change, latest, schema)
                        snapshot = attempt.publish(latest)
                except (MissingFileError, SnapshotNotFoundError):
                    if latest is None or self.snapshots.holds(latest):
                        raise
                    # Rolled back while it was read: tried again on what is there now.
                if snapshot is not None:
                    return self._done(change, snapshot)
                if give_up is not None and self._clock() > give_up:
                    break
                self._sleep(self._rng.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**tries)))
            raise _OutrunError(
                f"commit {change.identifier} of {self.commit_user!r} to {self._store.url!r} gave "
                f"up after {tries + 1} attempts, as other commits came first each time: commit "
                "again with this identifier, or raise commit.max-retries",
                user=self.commit_user,
                identifier=change.identifier,
                attempts=tries + 1,
            )
        except (PkrayError, _CommittedElsewhere):
            attempt.discard()
            raise

    def _published_before(self, change: Change) -> Snapshot | None:
        """Our own snapshot, where its answer was lost.

        Raises:
            _CommittedElsewhere: the name of this commit is taken.
        """
        found: Committed = self._history.find(change.identifier)
        known = found.compact if change.kind == COMPACT else found.append
        if known is not None and known.uuid == change.token:
            return known
        newest = self._history.identifier
        behind = newest is not None and newest > change.identifier
        if known is not None or behind:
            raise _CommittedElsewhere
        return None

    @property
    def _lost_base(self) -> bool:
        return self._based_at is not None and self._based_at != self._rollbacks

    def _refuse_moved_base(self, change: Change, latest: Snapshot | None) -> None:
        base = change.base
        if base is None:
            return
        if self._lost_base:
            moved: str | None = "the table was rolled back since"
        elif base == (latest.id if latest else 0):
            return
        else:
            buckets = {(entry.partition, entry.bucket) for entry in change.entries}
            moved = bucket_moved(self._store, self.snapshots, base, latest, buckets)
        if moved:
            raise CommitBaseMovedError(
                f"commit {change.identifier} of {self.commit_user!r} to {self._store.url!r} was "
                f"prepared on snapshot {base} of its buckets, and {moved}; nothing was committed: "
                "commit again with this identifier",
                user=self.commit_user,
                identifier=change.identifier,
                base=base,
                conflict=moved,
                snapshot_id=latest.id if latest else None,
            )

    def _refuse_conflict(
        self, change: Change, latest: Snapshot | None, schema: TableSchema
    ) -> None:
        conflict = None
        if needs_check(change.entries):
            types = schema.types(schema.trimmed_primary_keys)
            conflict = find_conflict(change.entries, self._live.at(latest), types)
        if conflict is None and change.upper_files:
            conflict = find_changed_bucket(change.upper_files, self._live.at(latest))
        if conflict is None and change.index:
            conflict = find_index_conflict(index_entries(self._store, latest), change.index)
        if conflict is None and change.kind == COMPACT and self._lost_base:
            conflict = "the table was rolled back since the compaction"
        if conflict is None and change.assigned_at is not None:
            conflict = self._assignment_conflict(change, change.assigned_at, latest)
        if conflict:
            raise CommitConflictError(
                f"commit {change.identifier} of {self.commit_user!r} to {self._store.url!r} "
                f"contradicts another commit: {conflict}; nothing was committed: let one "
                "process compact a table, and write what was lost again",
                user=self.commit_user,
                identifier=change.identifier,
                conflict=conflict,
                snapshot_id=latest.id if latest else None,
            )

    def _assignment_conflict(
        self, change: Change, base: int, latest: Snapshot | None
    ) -> str | None:
        if base == (latest.id if latest else 0):
            return None
        before = self.snapshots.read(base) if base else None
        return find_assignment_conflict(
            index_entries(self._store, before),
            index_entries(self._store, latest),
            {entry.partition for entry in (*change.entries, *change.changelog)}
            | {each.partition for each in change.index},
        )

    def _done(self, change: Change, snapshot: Snapshot) -> Snapshot:
        self._live.committed(snapshot, change.entries)
        if self._newest is None or snapshot.id == self._newest.id + 1:
            self._newest = snapshot
            self._history.advance(snapshot)
        return snapshot


class _OutrunError(CommitError):
    """Other commits came first, every time."""


def _append_entries(
    messages: Sequence[CommitMessage],
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    return (
        [entry for m in messages for entry in _entries(ADD, m, m.new_files)],
        [entry for m in messages for entry in _entries(ADD, m, m.changelog_files)],
    )


def _compact_entries(
    messages: Sequence[CommitMessage],
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    entries: list[ManifestEntry] = []
    for message in messages:
        entries += _entries(DELETE, message, message.compact_before)
        entries += _entries(ADD, message, message.compact_after)
    changelog = [e for m in messages for e in _entries(ADD, m, m.compact_changelog_files)]
    return entries, changelog


def _entries(kind: int, message: CommitMessage, files: Iterable[Any]) -> list[ManifestEntry]:
    return [
        ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)
        for file in files
    ]
