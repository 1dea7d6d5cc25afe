"""An owner's part in commits: it prepares, and is told what became of that."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from pkray.errors import TableError
from pkray.format.commit_message import CommitMessage
from pkray.service.assignment.buckets import DynamicBuckets
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.scheduler import CompactionScheduler
from pkray.service.owner.preparation import CommitPreparation
from pkray.service.owner.sessions import OwnerSessions
from pkray.service.owner.snapshot_refresher import SnapshotRefresher
from pkray.service.protocol import Acknowledgement, PrepareRequest, SessionId


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
