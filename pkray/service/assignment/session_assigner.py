"""Share sessions, and the snapshot that they look into, among assigners."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.assignment.snapshot_watch import SnapshotWatch
from pkray.service.client.tokens import check_tokens, require_tokens
from pkray.service.protocol import Holding, SessionId


class AssignerSession(Protocol):
    """An assigner's record of what it told one session."""

    token: str


class Committed(Protocol):
    """The committed part of what an assigner knows, as of one snapshot."""

    watch: SnapshotWatch

    @property
    def snapshot_id(self) -> int: ...

    def refresh(self) -> None:
        """See the newest snapshot, if no commit is under way whose own changes it may have."""

    def await_commit(self, session_id: SessionId, base: int) -> None:
        """See a snapshot until the session is committed on top of it."""


S = TypeVar("S", bound=AssignerSession)


class SessionAssigner(ABC, Generic[S]):
    """Tells sessions where rows go, by what is committed and by what it has told. Thread-safe.

    Args:
        index: the owner's.
        open_sessions: what was told and is not committed.
        committed: what is.
    """

    def __init__(self, index: int, open_sessions: OpenSessions[S], committed: Committed) -> None:
        self._index = index
        self._sessions = open_sessions
        self._committed = committed
        self._lock = threading.RLock()

    @abstractmethod
    def _begun(self) -> S:
        """Make a session that was told nothing."""

    @abstractmethod
    def _check_session(self, session: S) -> None:
        """Check that nobody else has changed what the session was told."""

    def check(self, session_id: SessionId, tokens: Iterable[str], base: int) -> None:
        """Check that what a session was told holds on top of snapshot ``base``.

        Args:
            tokens: what was said to those whose rows are to be committed.

        Raises:
            LostBatchesError: this assigner has restarted, or dropped the session, since.
            CommitConflictError: another writer changed what the session was told.
        """
        with self._lock:
            check_tokens(self.token(session_id), tokens, self._index, session_id)
            self._committed.await_commit(session_id, base)
            session = self._sessions.get(session_id)
            if session is not None:
                self._check_session(session)

    def abort_prepare(self, session_id: SessionId) -> None:
        """See other commits again: the session's own did not happen."""
        with self._lock:
            self._committed.watch.ended(session_id)

    def drop(self, session_id: SessionId) -> None:
        """Forget a session that was not committed."""
        with self._lock:
            self._sessions.end(session_id)
            self._committed.watch.ended(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Forget a session whose writer is gone, or pushes again."""
        with self._lock:
            self._sessions.forget(session_id)
            self._committed.watch.ended(session_id)

    def token(self, session_id: SessionId) -> str | None:
        """Return what a session is told with each answer, None where it is not known."""
        session = self._sessions.get(session_id)
        return None if session is None else session.token

    def _session(self, session_id: SessionId) -> S:
        """Find the session, begun where it is not there; earlier ones of its user end."""
        session = self._sessions.get(session_id)
        if session is None:
            for other in self._sessions.take_over(session_id):
                self._committed.watch.ended(other)
            self._committed.watch.expire()
            self._committed.refresh()
            session = self._sessions.begin(session_id, self._begun())
        return session

    def _look(self, snapshot_id: int | None, expected: Sequence[Holding]) -> None:
        """See the newest snapshot, at least this one. Raises LostBatchesError where what is
        expected of sessions is not known here."""
        require_tokens(expected, self.token, self._sessions.has_ended, self._index)
        if snapshot_id is not None and self._committed.snapshot_id < snapshot_id:
            self._committed.watch.expire()
        self._committed.refresh()
