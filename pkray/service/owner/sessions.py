"""The sessions that an owner holds."""

import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from pkray.errors import LostBatchesError, SchemaChangedError
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.owner.buckets import OwnedBuckets
from pkray.service.owner.prepared_commit import PreparedCommit
from pkray.service.owner.session import OwnerSession
from pkray.service.owner_settings import OwnerSettings
from pkray.service.protocol import Holding, Push, SessionId
from pkray.service.schema_cache import SchemaCache
from pkray.service.staging import StagingArea


class Memory(Protocol):
    """Says what an owner may use now, of what its table's options give it."""

    def for_rows(self, wanted: int) -> int:
        """Return the bytes that rows of one session may take before they are flushed."""

    def for_flushed(self, wanted: int) -> int:
        """Return the bytes that flushed rows may take that are kept for compactions."""


class OwnMemory:
    """Lets an owner use what its table's options give it."""

    def for_rows(self, wanted: int) -> int:
        return wanted

    def for_flushed(self, wanted: int) -> int:
        return wanted


class OwnerSessions:
    """Begins, fences and ends the sessions of an owner's writers.

    One of a writer that came after the user's newest ends those before it. One that came before is
    refused by its generation, and what comes of one that has ended is late and is dropped.

    Args:
        buckets: opens their writers.
        settings: the owner's.
        clock: epoch milliseconds.
        memory: that rows may take.

    Attributes:
        lock: held for moments: rows are written, compacted and looked up without it.
    """

    def __init__(
        self,
        buckets: OwnedBuckets,
        schema: SchemaCache,
        settings: OwnerSettings,
        clock: Callable[[], int],
        memory: Memory,
    ) -> None:
        self._memory = memory
        self.lock = threading.RLock()
        self._buckets = buckets
        self._schema = schema
        self._settings = settings
        self._clock = clock
        self._staging = f"{settings.local_directory}/staging"
        shutil.rmtree(self._staging, ignore_errors=True)
        self._open: OpenSessions[OwnerSession] = OpenSessions()
        self._newest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.items())

    def get(self, session_id: SessionId) -> OwnerSession:
        """Find the session, begun where it is not there; earlier ones of its user end.

        Raises:
            CommitFencedError: a newer writer of the user took over.
        """
        held = self._open.get(session_id)
        if held is None:
            self._fence(session_id)
            held = self._open.begin(session_id, self._begin(session_id))
        return held

    def receiving(self, push: Push) -> OwnerSession | None:
        """Find the session of rows that come; None where it is over, and they are late.

        Raises:
            CommitFencedError: a newer writer of the user took over.
            SchemaChangedError: the session's rows before them have another schema, or the table
                has another of that id.
        """
        with self.lock:
            if self._open.has_ended(push.session):
                return None
            session = self.get(push.session)
            self._schema.resolve(push.schema_id, push.schema_digest)
            session.expect(push)
            return session

    def close(self, session_id: SessionId) -> OwnerSession | None:
        """Let a session go, for its owner to finish; what still comes of it is late."""
        held = self._open.get(session_id)
        self._open.end(session_id)
        return held

    def drop(self, session_id: SessionId) -> None:
        """Let a session go with all that it holds; its writer pushes again."""
        held = self._open.forget(session_id)
        if held is not None:
            held.end()

    def drop_abandoned(self, session_ids: Iterable[SessionId]) -> list[SessionId]:
        """Let sessions go whose writers are gone, but those whose commit may be under way; what
        is gone."""
        now = self._clock()
        gone = []
        for session_id in session_ids:
            held = self._open.get(session_id)
            if held is None or held.prepared.base_in_flight(now) is None:
                self.drop(session_id)
                gone.append(session_id)
        return gone

    def drop_all(self) -> None:
        """Drop every session."""
        for session_id, _ in self.items():
            self.drop(session_id)

    def renew_files(self) -> None:
        """Write files again that sessions hold for so long that cleaners of orphan files may soon
        take them."""
        with self.lock:
            sessions = self.items()
        for _, session in sessions:
            with suppress(LostBatchesError, SchemaChangedError), session.exclusive():
                session.renew()  # of those that have lost their rows their writers are told

    def batches_of(self, session_id: SessionId) -> int:
        """Count the driver's batches in memory; without waiting for anybody."""
        held = self._open.get(session_id)
        return 0 if held is None else held.batches

    def require(self, expected: Iterable[Holding]) -> None:
        """See that rows are here, unless their session has ended or their schema is gone: then
        they will not be committed, as their writer is told.

        Raises:
            LostBatchesError: they are not.
        """
        for each in expected:
            if self._open.has_ended(each.session):
                continue
            held = self._open.get(each.session)
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
        """Find the newest of the user's writers; 0 without one."""
        return self._newest.get(user, 0)

    def items(self) -> list[tuple[SessionId, OwnerSession]]:
        return self._open.items()

    def in_doubt(self) -> list[tuple[SessionId, PreparedCommit]]:
        """List the commits that may have been published for all that is known here: see
        `PreparedCommit.is_in_doubt`."""
        now = self._clock()
        prepared = [(session_id, held.prepared) for session_id, held in self.items()]
        return [(session_id, each) for session_id, each in prepared if each.is_in_doubt(now)]

    def base_in_flight(self) -> int | None:
        """Return the snapshot under a commit that may be published at any moment, None without
        one."""
        now = self._clock()
        bases = [held.prepared.base_in_flight(now) for _, held in self.items()]
        return min((base for base in bases if base is not None), default=None)

    def clear_in_flight(self) -> None:
        """Note that the coordinator publishes nothing of what it was given."""
        for _, held in self.items():
            held.prepared.release()

    @property
    def memory_bytes(self) -> int:
        sessions = self.items()  # others open and end them meanwhile
        writers = [writer for _, held in sessions for writer in list(held.writers.values())]
        return sum(writer.memory_bytes for writer in writers)

    def _begin(self, session_id: SessionId) -> OwnerSession:
        self._schema.refresh()
        directory = f"{self._staging}/{session_id.generation}-{session_id.epoch}"
        staging = StagingArea(directory, self._settings.staging_memory)
        wanted = self._schema.current.core.write_buffer_size
        return OwnerSession(self._buckets, staging, lambda: self._memory.for_rows(wanted))

    def _fence(self, session_id: SessionId) -> None:
        session_id.check_not_fenced(self.newest_generation(session_id.user))
        self._newest[session_id.user] = session_id.generation
        for other in self._open.for_user(session_id.user):
            if other < session_id:
                self.drop(other)
