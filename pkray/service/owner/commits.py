"""An owner's part in commits: it prepares, and is told what became of that."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress

from pkray import spans
from pkray.errors import TableError
from pkray.format.commit_message import CommitMessage
from pkray.metadata.live import BucketId
from pkray.service.assignment.buckets import DynamicBuckets
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.scheduler import CompactionScheduler
from pkray.service.owner.buckets import OwnedBuckets, ReadContexts
from pkray.service.owner.session import OwnerSession
from pkray.service.owner.sessions import OwnerSessions
from pkray.service.owner.snapshot_refresher import SnapshotRefresher
from pkray.service.protocol import Acknowledgement, PrepareRequest, SessionId, Slice
from pkray.service.schema_cache import SchemaCache


class CommitPreparation:
    """Chooses the buckets of a commit, and makes their messages.

    Args:
        owned: the owner's buckets.
        lock: of the owner's sessions; not held while rows are written and compacted.
    """

    def __init__(
        self,
        schema: SchemaCache,
        views: ReadContexts,
        committed: CommittedFiles,
        compaction: CompactionScheduler,
        owned: OwnedBuckets,
        lock: threading.RLock,
    ) -> None:
        self._schema = schema
        self._views = views
        self._committed = committed
        self._compaction = compaction
        self._owned = owned
        self._lock = lock
        self._attempt_id = ""
        self._replacements = schema.replacements
        self._rollbacks = committed.rollbacks
        self._interrupted = compaction.interrupted(committed.buckets)

    def note_interrupted(self, buckets: Iterable[BucketId] = ()) -> None:
        """See which buckets a killed commit left to be compacted, and whether these are some."""
        self._interrupted = self._compaction.interrupted({*self._interrupted, *buckets})

    def prepare(
        self, session: OwnerSession, wanted: PrepareRequest
    ) -> tuple[list[BucketId], set[BucketId]]:
        """Give the session its messages, if compaction leaves room; once for what is wanted.

        Returns:
            The buckets to be written, and those of them to be compacted fully, for which room
            has to be made where there are no messages.

        Raises:
            LostBatchesError: batches of the attempts are not here.
            SchemaChangedError: the table was rescaled since the rows were written, or its schemas
                were replaced.
            PartitionBucketsError: it was, and back again, but not all that they are written to.
        """
        if session.prepared.answers(wanted):
            return [], set()
        session.send_again()
        with self._lock:
            self._schema.refresh(listing=wanted.schemas)
            self._leave_replaced_schemas()
            session.leave_replaced_schemas()
            if session.schema_id is not None:
                self._views.incoming(session.schema_id, self._schema.current)
            if self._attempt_id != wanted.attempt_id:
                # What became of the attempt before is not known here.
                self._compaction.compactions.release(self._committed.levels)
                self._attempt_id = wanted.attempt_id
            self._compaction.settle(begin=False)
            self._note_rollback()
        session.requeue(wanted.attempt_id)
        session.renew()
        session.rebase(self._committed.levels)
        self._check_routing(session)
        session.promote(wanted.attempts)
        compactions = self._compaction.compactions
        with ExitStack() as reserved:
            with self._lock:
                written = self._buckets(session, wanted)
                full = self._compacted_fully(written, wanted)
                if not self._compaction.has_room(written, full):
                    return written, full
                reserved.enter_context(compactions.reserved(written))
            session.prepared.prepare(wanted, self._written(session, written, full))
        return written, full

    def _leave_replaced_schemas(self) -> None:
        """Drop compactions that may have been made under schemas that are no more."""
        if self._replacements != self._schema.replacements:
            self._compaction.compactions.discard(self._compaction.compactions.buckets())
            self._replacements = self._schema.replacements

    def _note_rollback(self) -> None:
        """See which buckets a rollback left to be compacted: it may go back to a snapshot whose
        compaction was the next one."""
        if self._rollbacks != self._committed.rollbacks:
            self._rollbacks = self._committed.rollbacks
            self.note_interrupted(self._committed.buckets)

    def _check_routing(self, session: OwnerSession) -> None:
        """Rows that fitted their partitions' buckets when they were written may do so no more."""
        if session.schema_id is None:
            return
        total = self._schema.read(session.schema_id).core.bucket
        self._owned.check_buckets(
            Slice(*bucket, 0, 0, total_buckets=total) for bucket in session.written
        )

    def _buckets(self, session: OwnerSession, wanted: PrepareRequest) -> list[BucketId]:
        """Buckets that the session's commit is about."""
        written = set(session.writers) | set(self._compaction.compactions.finished())
        written |= self._interrupted & set(self._committed.buckets)
        for bucket in self._committed.buckets:
            asked = wanted.compacts(bucket) and self._compaction.commits_compact
            if wanted.full_compact or asked:
                written.add(bucket)
        if wanted.compaction is None:
            written.update(self._compaction.overdue(written))
        return sorted(written)

    def _compacted_fully(
        self, written: Sequence[BucketId], wanted: PrepareRequest
    ) -> set[BucketId]:
        """Select the buckets that the commit itself compacts into one run."""
        if wanted.full_compact:
            return set(written)
        if wanted.compaction is None:
            return self._compaction.overdue(written)
        by_commit = wanted.compaction.full and self._compaction.is_inline
        return {bucket for bucket in written if by_commit and wanted.compacts(bucket)}

    def _written(
        self, session: OwnerSession, written: Iterable[BucketId], full: Collection[BucketId]
    ) -> list[CommitMessage]:
        """Make messages of files that are all there."""
        with ExitStack() as undo:
            with session.sending():
                messages = self._messages(session, written, full, undo)
            self._compaction.compactions.hold_prepared(messages)
            undo.pop_all()
        return messages

    def _messages(
        self,
        session: OwnerSession,
        written: Iterable[BucketId],
        full: Collection[BucketId],
        undo: ExitStack,
    ) -> list[CommitMessage]:
        """Flush the session's writers, with the compactions that have finished meanwhile."""
        compactions = self._compaction.compactions
        messages = []
        for bucket in written:
            levels, writer = self._committed.levels(bucket), session.writer(bucket)
            writer.rebase(levels)
            finished = compactions.result(bucket, levels)
            if finished is not None:
                writer.adopt(finished)
            compacting = compactions.files_compacting(bucket)
            with spans.span("flush", bucket=bucket[1]):
                message = writer.prepare_commit(full_compact=bucket in full, compacting=compacting)
            messages.append(message)
            undo.callback(writer.undo_prepare)
        return messages


class OwnerCommits:
    """Prepares the commits of sessions one after another, and ends sessions.

    Args:
        dynamic: the owner's part in dynamic buckets.
        compaction: concurrently with the commits.
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        sessions: OwnerSessions,
        dynamic: DynamicBuckets,
        committed: CommittedFiles,
        refresher: SnapshotRefresher,
        preparation: CommitPreparation,
        compaction: CompactionScheduler,
        clock: Callable[[], int],
    ) -> None:
        self._sessions = sessions
        self._dynamic = dynamic
        self._committed = committed
        self._refresher = refresher
        self._preparation = preparation
        self._compaction = compaction
        self._clock = clock
        self._preparing = threading.Lock()

    def prepare(
        self, session_id: SessionId, wanted: PrepareRequest, tokens: Sequence[str] = ()
    ) -> list[CommitMessage]:
        """Flush a session's buckets on top of ``wanted.base``, and compact what a commit must.

        Compactions that have finished meanwhile are handed over too. Repeating it gives the same
        messages; on another snapshot, others in their place. Where compaction is too far behind
        it waits.

        Args:
            tokens: what this owner said when it assigned dynamic buckets to the attempts.

        Raises:
            LostBatchesError: batches of the attempts, or what was assigned to them, are not here.
            CommitConflictError: another process changed the hash indexes of dynamic buckets.
            SchemaChangedError: the table was rescaled since the rows were written.
        """
        base = wanted.base
        with self._preparing:
            while True:
                with self._sessions.lock:
                    self._refresher.advance(base, [wanted.seen] if wanted.seen else [])
                    self._sessions.clear_in_flight()
                    session = self._sessions.get(session_id)
                    self._dynamic.check(session_id, tokens, base)
                with session.exclusive():
                    written, full = self._preparation.prepare(session, wanted)
                    prepared = session.prepared
                    if prepared.is_prepared:
                        messages = self._dynamic.indexed(prepared.messages, session.new_hashes)
                        prepared.hand_over(self._clock())
                        return messages
                self._compaction.make_room(written, full)

    def acknowledge(self, session_id: SessionId, done: Acknowledgement) -> bool:
        """Note that the session is committed.

        Returns:
            Whether compactions run, or are to be committed or begun.
        """
        with self._sessions.lock:
            self._dynamic.committed(session_id, done)
            self._refresher.advance(done.snapshot_id, done.made)
            self._sessions.clear_in_flight()
            session = self._sessions.close(session_id)
            if session is not None:
                session.prepared.commit(done.snapshot_id)
                session.staging.clear()
            self._preparation.note_interrupted()
            self._compaction.compactions.release(self._committed.levels)
            self._compaction.settle()
            self._compaction.consider(session.writers if session is not None else ())
            return self._compaction.are_pending

    def abort_prepare(self, session_id: SessionId) -> None:
        """Forget what was prepared for the session: it is not published, though the session goes
        on."""
        with self._sessions.lock:
            self._dynamic.abort_prepare(session_id)
            self._sessions.clear_in_flight()

    def abort(self, session_id: SessionId) -> None:
        """Drop a session."""
        with self._sessions.lock:
            self._dynamic.drop(session_id)
            session = self._sessions.close(session_id)
            written = list(session.writers) if session is not None else []
            if session is not None:
                session.end()
            with suppress(TableError):  # nothing is left to be compacted
                self._refresher.advance()
            # It may be committed in part: the coordinator was killed between its two snapshots.
            self._preparation.note_interrupted(written)
            self._compaction.settle()
