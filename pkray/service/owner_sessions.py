"""The sessions that an owner holds."""

from __future__ import annotations

from collections.abc import Callable

from pkray.errors import CommitFencedError
from pkray.service.dynamic.committed_keys import PENDING_MILLIS
from pkray.service.elapsed import elapsed
from pkray.service.protocol import SessionId
from pkray.service.session import OwnerSession


class OwnerSessions:
    """Sessions from their first message to their end, one a commit user.

    Args:
        open_session: makes one.
        clock: epoch milliseconds.
        idle_millis: one that is not touched for so long is dropped; None: never.
    """

    def __init__(
        self,
        open_session: Callable[[SessionId], OwnerSession],
        clock: Callable[[], int],
        idle_millis: int | None,
    ) -> None:
        self._open_session = open_session
        self._clock = clock
        self._idle_millis = idle_millis
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
        now = self._clock()
        if session_id not in self._sessions:
            self._drop_idle(now)
            self._fence(session_id)
            self._sessions[session_id] = self._open_session(session_id)
        session = self._sessions[session_id]
        session.touched = now
        return session

    def close(self, session_id: SessionId) -> OwnerSession | None:
        """Let a session go, for its owner to finish; what still comes of it is late."""
        newest = self._closed.get(session_id.user, session_id)
        self._closed[session_id.user] = max(newest, session_id)
        return self._sessions.pop(session_id, None)

    def is_closed(self, session_id: SessionId) -> bool:
        """Whether a message of the session came late, or twice."""
        closed = self._closed.get(session_id.user)
        return closed is not None and session_id <= closed

    def drop(self, session_id: SessionId) -> None:
        """Let a session go with all that it holds; its writer pushes again."""
        self._sessions.pop(session_id).end()

    def drop_all(self) -> None:
        for session_id in list(self._sessions):
            self.drop(session_id)

    def newest_generation(self, user: str) -> int:
        """Of the user's writers; 0 without one."""
        return self._generations.get(user, 0)

    def items(self) -> list[tuple[SessionId, OwnerSession]]:
        return list(self._sessions.items())

    def unanswered(self) -> list[tuple[SessionId, OwnerSession]]:
        """Those whose commit is not under way, and may have been published for all they know."""
        now = self._clock()
        return [
            (session_id, held)
            for session_id, held in self.items()
            if held.handed_over.names
            and held.handed_over.landed_in is None
            and (held.in_flight is None or elapsed(held.in_flight.since, now, PENDING_MILLIS))
        ]

    def base_in_flight(self) -> int | None:
        """The snapshot under a commit that may be published at any moment, None without one."""
        flights = [held.in_flight for held in self._sessions.values() if held.in_flight]
        now = self._clock()
        return min(
            (f.base for f in flights if not elapsed(f.since, now, PENDING_MILLIS)), default=None
        )

    def land(self) -> None:
        """Note that no commit is under way."""
        for held in self._sessions.values():
            held.in_flight = None

    @property
    def memory_bytes(self) -> int:
        sessions = list(self._sessions.values())  # others open and end them meanwhile
        writers = [writer for held in sessions for writer in list(held.writers.values())]
        return sum(writer.memory_bytes for writer in writers)

    def _fence(self, session_id: SessionId) -> None:
        newest = self._generations.get(session_id.user, session_id.generation)
        if session_id.generation < newest:
            raise CommitFencedError(
                f"a newer writer of commit user {session_id.user!r} took over; stop this one, or "
                "open writers with different commit users",
                user=session_id.user,
                generation=session_id.generation,
                newest=newest,
            )
        self._generations[session_id.user] = session_id.generation
        for other in [s for s in self._sessions if s.user == session_id.user and s < session_id]:
            self.drop(other)

    def _drop_idle(self, now: int) -> None:
        if self._idle_millis is None:
            return
        limit = self._idle_millis
        for stale in [s for s, held in self.items() if elapsed(held.touched, now, limit)]:
            self.drop(stale)
