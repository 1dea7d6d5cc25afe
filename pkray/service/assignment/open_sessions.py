"""Hold what assigners need of sessions that have not ended."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from pkray.errors import CommitFencedError
from pkray.service.protocol import SessionId

T = TypeVar("T")


class OpenSessions(Generic[T]):
    """Holds sessions from their first message to their end; one that has ended stays so.

    It knows the order of the sessions that came here, in this process alone. Which writer of a user
    is the newest of all is given out by the coordinator (`WriterFencing`) and seen by other
    processes in the table (`WriterFences`). `OwnerSessions` adds the generations that an owner has
    met, as a coordinator that starts anew asks for them.
    """

    def __init__(self) -> None:
        self._sessions: dict[SessionId, T] = {}
        self._ended: dict[str, SessionId] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._sessions.values())

    def items(self) -> list[tuple[SessionId, T]]:
        return list(self._sessions.items())

    def get(self, session_id: SessionId) -> T | None:
        return self._sessions.get(session_id)

    def has_ended(self, session_id: SessionId) -> bool:
        """Whether the session has been committed or dropped."""
        ended = self._ended.get(session_id.user)
        return ended is not None and session_id <= ended

    def for_user(self, user: str) -> list[SessionId]:
        """List the open sessions of a commit user."""
        return [each for each in self._sessions if each.user == user]

    def take_over(self, session_id: SessionId) -> list[SessionId]:
        """End the earlier sessions of the user; those.

        Raises:
            CommitFencedError: the session has ended, or has itself been replaced.
        """
        rivals = self.for_user(session_id.user)
        if self.has_ended(session_id) or any(session_id < other for other in rivals):
            raise CommitFencedError(
                f"this session of commit user {session_id.user!r} has ended, or a newer writer "
                "took over; stop this one, or open writers with different commit users",
                user=session_id.user,
                generation=session_id.generation,
            )
        for other in rivals:
            self.end(other)
        return rivals

    def begin(self, session_id: SessionId, state: T) -> T:
        """Hold this of a session from now on."""
        self._sessions[session_id] = state
        return state

    def forget(self, session_id: SessionId) -> T | None:
        """Hold a session no more, which may begin again with nothing; what was held."""
        return self._sessions.pop(session_id, None)

    def end(self, session_id: SessionId) -> None:
        """Forget a session; it cannot begin again."""
        self.forget(session_id)
        newest = self._ended.get(session_id.user, session_id)
        self._ended[session_id.user] = max(newest, session_id)
