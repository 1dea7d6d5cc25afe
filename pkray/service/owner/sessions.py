"""The sessions that an owner holds."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from pkray.errors import LostBatchesError, SchemaChangedError
from pkray.service.owner.buckets import OwnedBuckets
from pkray.service.owner.prepared_commit import PreparedCommit
from pkray.service.owner.session import OwnerSession
from pkray.service.owner_settings import OwnerSettings
from pkray.service.protocol import Holding, Push, SessionId
from pkray.service.schema_cache import SchemaCache
from pkray.service.staging import StagingArea


class OwnerSessions:
    """Sessions from their first message to their end, one a commit user.

    Args:
        buckets: opens their writers.
        settings: the owner's.
        clock: epoch milliseconds.

    Attributes:
        lock: held for moments: rows are written, compacted and looked up without it.
    """

    def __init__(
        self,
        buckets: OwnedBuckets,
        schema: SchemaCache,
        settings: OwnerSettings,
        clock: Callable[[], int],
    ) -> None:
        self.lock = threading.RLock()
        self._buckets = buckets
        self._schema = schema
        self._settings = settings
        self._clock = clock
        self._staging = f"{settings.local_directory}/staging"
        shutil.rmtree(self._staging, ignore_errors=True)
        self._sessions: dict[SessionId, OwnerSession] = {}
        self._generations: dict[str, int] = {}
        self._closed: dict[str, SessionId] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: SessionId) -> OwnerSession:
        """The session, begun where it is not there; earlier ones of its user end.

        Raises:
            CommitFencedError: a newer writer of the user took over.
        """
        if session_id not in self._sessions:
            self._fence(session_id)
            self._sessions[session_id] = self._open(session_id)
        return self._sessions[session_id]

    def receiving(self, push: Push) -> OwnerSession | None:
        """The session of rows that come; None where it is over, and they are late.

        Raises:
            CommitFencedError: a newer writer of the user took over.
            SchemaChangedError: the session's rows before them have another schema, or the table
                has another of that id.
        """
        with self.lock:
            closed = self._closed.get(push.session.user)
            if closed is not None and push.session <= closed:
                return None
            session = self.get(push.session)
            self._schema.meant(push.schema_id, push.schema_digest)
            session.expect(push)
            return session

    def close(self, session_id: SessionId) -> OwnerSession | None:
        """Let a session go, for its owner to finish; what still comes of it is late."""
        newest = self._closed.get(session_id.user, session_id)
        self._closed[session_id.user] = max(newest, session_id)
        return self._sessions.pop(session_id, None)

    def drop(self, session_id: SessionId) -> None:
        """Let a session go with all that it holds; its writer pushes again."""
        self._sessions.pop(session_id).end()

    def drop_abandoned(self, session_ids: Iterable[SessionId]) -> list[SessionId]:
        """Let sessions go whose writers are gone, but those whose commit may be under way; what
        is gone."""
        now = self._clock()
        gone = []
        for session_id in session_ids:
            held = self._sessions.get(session_id)
            if held is not None:
                if held.prepared.base_in_flight(now) is not None:
                    continue
                self.drop(session_id)
            gone.append(session_id)
        return gone

    def drop_all(self) -> None:
        for session_id in list(self._sessions):
            self.drop(session_id)

    def renew_files(self) -> None:
        """Write files again that sessions hold for so long that cleaners of orphan files may soon
        take them."""
        with self.lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            with suppress(LostBatchesError, SchemaChangedError), session.exclusive():
                session.renew()  # of those that have lost their rows their writers are told

    def batches_of(self, session_id: SessionId) -> int:
        """How many of the driver's batches are in memory; without waiting for anybody."""
        held = self._sessions.get(session_id)
        return 0 if held is None else held.batches

    def require(self, expected: Iterable[Holding]) -> None:
        """See that rows are here, unless their session has ended or their schema is gone: then
        they will not be committed, as their writer is told.

        Raises:
            LostBatchesError: they are not.
        """
        for each in expected:
            closed = self._closed.get(each.session.user)
            if closed is not None and each.session <= closed:
                continue
            held = self._sessions.get(each.session)
            if held is not None and held.is_replaced:
                continue
            if self.batches_of(each.session) < each.batches:
                raise LostBatchesError(
                    f"rows that {each.session.user!r} wrote are not here: the owner restarted, "
                    "or has not heard of the writer for long; push them again",
                    user=each.session.user,
                    expected=each.batches,
                )

    def newest_generation(self, user: str) -> int:
        """Of the user's writers; 0 without one."""
        return self._generations.get(user, 0)

    def items(self) -> list[tuple[SessionId, OwnerSession]]:
        return list(self._sessions.items())

    def in_doubt(self) -> list[tuple[SessionId, PreparedCommit]]:
        """The commits that may have been published for all that is known here: see
        `PreparedCommit.is_in_doubt`."""
        now = self._clock()
        prepared = [(session_id, held.prepared) for session_id, held in self.items()]
        return [(session_id, each) for session_id, each in prepared if each.is_in_doubt(now)]

    def base_in_flight(self) -> int | None:
        """The snapshot under a commit that may be published at any moment, None without one."""
        now = self._clock()
        bases = [held.prepared.base_in_flight(now) for held in self._sessions.values()]
        return min((base for base in bases if base is not None), default=None)

    def clear_in_flight(self) -> None:
        """Note that the coordinator publishes nothing of what it was given."""
        for held in self._sessions.values():
            held.prepared.release()

    @property
    def memory_bytes(self) -> int:
        sessions = list(self._sessions.values())  # others open and end them meanwhile
        writers = [writer for held in sessions for writer in list(held.writers.values())]
        return sum(writer.memory_bytes for writer in writers)

    def _open(self, session_id: SessionId) -> OwnerSession:
        self._schema.catch_up()
        directory = f"{self._staging}/{session_id.generation}-{session_id.epoch}"
        staging = StagingArea(directory, self._settings.staging_memory)
        return OwnerSession(self._buckets, staging, self._schema.current.core.write_buffer_size)

    def _fence(self, session_id: SessionId) -> None:
        session_id.refuse_fenced(self.newest_generation(session_id.user))
        self._generations[session_id.user] = session_id.generation
        for other in [s for s in self._sessions if s.user == session_id.user and s < session_id]:
            self.drop(other)
