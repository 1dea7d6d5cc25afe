"""Publishes the files that writers prepared as snapshots, each once."""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pkray.arguments.whole_number import GREATEST
from pkray.clock import now_millis
from pkray.commit.backoff import Backoff
from pkray.commit.change import Change
from pkray.commit.checks import CommitChecks
from pkray.commit.committable import Committable
from pkray.commit.message_files import missing_files
from pkray.commit.overwriting import Partitions, overwrite_entries
from pkray.commit.publisher import CommitRetriesExhausted, CommittedElsewhere, Publisher
from pkray.commit.table_state import TableState
from pkray.errors import CommitConflictError, CommitError, CommitFencedError, CommitUnknownError
from pkray.format import paths
from pkray.format.commit_message import CommitMessage
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_name import CommitName, CommitToken
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True)
class CommitResult:
    """The outcome of a commit.

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
        identity: of the table that is expected; None: whichever is there.
        snapshots: shared with other committers of the process, so that each is read once.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema | Callable[[], TableSchema],
        commit_user: str,
        clock: Callable[[], int] = now_millis,
        rng: random.Random | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        ignore_empty: bool = False,
        identity: TableIdentity | None = None,
        snapshots: SnapshotStore | None = None,
    ) -> None:
        self.commit_user = commit_user
        self._store = store
        self._schema_source = schema
        self._rng = rng or random.SystemRandom()
        self._ignore_empty = ignore_empty
        self._table = TableState(store, commit_user, identity, snapshots, self._read_schema)
        self.snapshots = self._table.snapshots
        self._history = self._table.history
        self._checks = CommitChecks(store, self._table)
        self._names = paths.FileNames()
        backoff = Backoff(self._rng, sleep)
        self._publisher = Publisher(store, self._table, self._checks, self._names, clock, backoff)

    def commit(
        self,
        name: CommitName,
        messages: Sequence[CommitMessage],
        *,
        watermark: int | None = None,
        properties: dict[str, str] | None = None,
        assigned_at: int | None = None,
        base: int | None = None,
        generation: int | None = None,
        seen: bool = False,
    ) -> CommitResult:
        """Publish an APPEND snapshot, then a COMPACT snapshot if the messages compact.

        An identifier not above the newest committed one makes no APPEND snapshot again; of the
        newest one the COMPACT snapshot is still made, where it is missing. A token does so where
        a snapshot carries it; otherwise it gets the next identifier, whoever uses the commit
        user concurrently with this committer.

        Args:
            assigned_at: for a table with dynamic buckets, the snapshot (0 before the first) by
                whose hash indexes rows were given their buckets.
            base: the snapshot (0 before the first) after which the new rows were numbered. By
                default other commits may add rows to the same buckets meanwhile; which row of a
                key wins then is chance.
            generation: of the writer, as of `WriterFences`; None: nobody takes over from it.
            seen: publish on top of what `base` saw, without looking again: who has committed
                since has taken the snapshot's id, and is seen then.

        Raises:
            CommitBaseMovedError: rows were added to a bucket after ``base``: number the new ones
                again and commit with this identifier; nothing was committed.
            CommitConflictError: nothing was committed: files it deletes are gone, or files it
                adds above level 0 overlap others, or hash indexes have changed.
            CommitFencedError: another writer of the user took over; nothing was committed.
            CommitUnknownError: the store gave no answer; commit again with this identifier.
            CommitError: others kept committing first; nothing was committed.
            TableReplacedError: another table is there; nothing was committed.
            StorageError: a file could not be read or written; commit again with this identifier.
        """
        while True:
            how = (watermark, properties)
            known, committable = self._committable(name, messages, *how, seen=seen)
            if known:
                return self._repeat(committable)
            self._use_schema_of(messages)
            has_looked, seen = not seen, False
            change = committable.appended(assigned_at, base, generation)
            published = None
            try:
                if not (change.is_empty and self._ignore_empty):
                    published = self._publish(change)
            except CommittedElsewhere:  # by whom, is seen now
                continue
            except CommitFencedError:
                if has_looked:
                    raise
                continue  # whoever took over may have made this very commit
            compact, conflict = self._compact(committable)
            return CommitResult(published, compact, bool(published or compact), conflict)

    def overwrite(
        self,
        name: CommitName,
        messages: Sequence[CommitMessage],
        replaced: Partitions,
        *,
        watermark: int | None = None,
        properties: dict[str, str] | None = None,
        read_at: int | None = None,
    ) -> CommitResult:
        """Publish an OVERWRITE snapshot: new files in the place of all that are in some partitions.

        An identifier not above the newest committed one, or a token that a snapshot carries,
        changes nothing. No changelog is made, as in Paimon.

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
        known, committable = self._committable(name, messages, watermark, properties)
        if known:
            return CommitResult(self._history.find(committable.identifier).append, None, False)
        overwriting = committable.overwriting()

        def on_top_of(latest: Snapshot | None) -> Change:
            live = self._table.live.at(latest)
            if read_at is not None:
                rewritten = {message.partition for message in messages}
                rewritten |= set(replaced.select({partition for partition, _ in live}))
                self._checks.check_rows_unchanged(overwriting, read_at, latest, rewritten)
            entries, index = overwrite_entries(
                self._store, self._schema, latest, live, replaced, messages
            )
            return replace(overwriting, entries=entries, index=index)

        try:
            return CommitResult(self._publish(overwriting, on_top_of), None, True)
        except CommittedElsewhere:  # by whom, is seen now
            times = {"watermark": watermark, "read_at": read_at}
            return self.overwrite(name, messages, replaced, properties=properties, **times)

    def check_files_exist(self, messages: Sequence[CommitMessage]) -> None:
        """Look whether the new files of messages are there: a rollback deletes them, where an
        earlier commit of theirs was not answered, and so does an orphan cleaner after a day.

        Raises:
            CommitConflictError: some are gone.
        """
        missing = missing_files(self._store, self._schema, messages)
        if missing:
            raise CommitConflictError(
                f"{len(missing)} files to be committed by {self.commit_user!r} do not exist, "
                f"{missing[0]!r} among them: the table was rolled back, or cleaned of orphan "
                "files, since they were written; nothing is committed: do it again",
                user=self.commit_user,
                missing=tuple(missing),
            )

    def committed_identifier(self) -> int | None:
        """Return the newest identifier that the commit user committed."""
        self._table.synchronise()
        return self._history.identifier

    def snapshot_of(self, identifier: int) -> Snapshot | None:
        """Return the newest snapshot of a commit; None if it was not made or has expired."""
        self._table.synchronise()
        return self._history.find(identifier).newest

    def base(self, *, seen: bool = False) -> Snapshot | None:
        """Return the newest snapshot (None: none) for what is to be committed next.

        If the table is rolled back meanwhile, new rows are refused where they are numbered after
        a base, and a compaction is dropped.

        Args:
            seen: the one that `find` has just seen.
        """
        return self._table.take_base(seen=seen)

    def find(self, name: CommitName, *, seen: bool = False) -> int | None:
        """Return the identifier of a commit; None where it was not made.

        Args:
            seen: as far as was seen before.
        """
        if not seen:
            self._table.synchronise(with_schema=True)
        if isinstance(name, CommitToken):
            return self._history.find_uuid(name.uuid, name.since)
        newest = self._history.identifier
        return name if newest is not None and name <= newest else None

    def check_remembered(self, token: CommitToken) -> None:
        """Check that a commit whose snapshot is not found cannot have expired.

        Raises:
            CommitUnknownError: it may.
        """
        first = self.snapshots.earliest_id()
        earliest = None if first is None else next(self.snapshots.range(first, first), None)
        if earliest is None or earliest.id == 1 or earliest.time_millis <= token.since:
            return
        raise CommitUnknownError(
            f"whether a commit of {self.commit_user!r} to {self._store.url!r} happened is not "
            "known, as the service restarted and snapshots made since have expired: look for its "
            "rows, and write those that are missing in a new writer",
            user=self.commit_user,
            uuid=token.uuid,
        )

    def _committable(
        self,
        name: CommitName,
        messages: Sequence[CommitMessage],
        watermark: int | None,
        properties: dict[str, str] | None,
        *,
        seen: bool = False,
    ) -> tuple[bool, Committable]:
        """Whether a commit was made before, and what it is made of."""
        known = self.find(name, seen=seen)
        identifier = self._next_identifier(name) if known is None else known
        token, is_numbered = self._uuid(), True
        if isinstance(name, CommitToken):
            token, is_numbered = name.uuid, False
        how = (token, is_numbered, watermark, properties)
        return known is not None, Committable(self.commit_user, identifier, messages, *how)

    def _next_identifier(self, name: CommitName) -> int:
        if not isinstance(name, CommitToken):
            return name
        newest = self._history.identifier
        if newest == GREATEST:
            raise CommitError(
                f"commit user {self.commit_user!r} has no identifier left after {newest}, which "
                "jobs that commit once use: open a writer with another commit user",
                user=self.commit_user,
                identifier=newest,
            )
        return 0 if newest is None else max(newest + 1, 0)

    def _compact(self, committable: Committable) -> tuple[Snapshot | None, bool]:
        """Publish the COMPACT snapshot, if there is anything for it; return it and whether it was
        dropped."""
        change = committable.compacted(self._uuid())
        if change.is_empty:
            return None, False
        try:
            return self._publish(change), False
        except CommittedElsewhere:
            return self._history.find(committable.identifier).compact, True
        except (CommitConflictError, CommitRetriesExhausted):
            return None, True

    def _repeat(self, committable: Committable) -> CommitResult:
        append, compact = self._history.find(committable.identifier)
        conflict = False
        is_newest = committable.identifier == self._history.identifier
        if append is not None and compact is None and is_newest:
            compact, conflict = self._compact(committable)
        return CommitResult(append, compact, False, conflict)

    def _publish(
        self, change: Change, on_top_of: Callable[[Snapshot | None], Change] | None = None
    ) -> Snapshot:
        return self._publisher.publish(change, self._schema, on_top_of)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    @property
    def _schema(self) -> TableSchema:
        return self._table.schema or self._read_schema()

    def _read_schema(self) -> TableSchema:
        source = self._schema_source
        return source if isinstance(source, TableSchema) else source()

    def _use_schema_of(self, messages: Sequence[CommitMessage]) -> None:
        """Read the newest schema again, if files were written under a later one than was seen."""
        files = (f for m in messages for f in (*m.new_files, *m.compact_after))
        if any(file.schema_id > self._schema.id for file in files):
            self._table.schema = self._read_schema()
