"""Decide when an index of keys looks for newer snapshots."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pkray.service.protocol import SessionId
from pkray.service.timing.elapsed import elapsed

PENDING_MILLIS = 60_000
"""After so long without an answer, a commit's coordinator is taken for dead."""


class SnapshotWatch:
    """Says when: now and then, but not while a commit is under way whose changes they may have.

    Args:
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often.
    """

    def __init__(self, clock: Callable[[], int], refresh_millis: int) -> None:
        self._clock = clock
        self._refresh_millis = refresh_millis
        self._awaited: tuple[SessionId, int] | None = None
        self._looked: int | None = None

    def is_due(self) -> bool:
        """Whether to look now."""
        now = self._clock()
        if self._awaited is not None:
            if not elapsed(self._awaited[1], now, PENDING_MILLIS):
                return False
            self._awaited = None
        return self._looked is None or elapsed(self._looked, now, self._refresh_millis)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Hold the watch while the newest snapshot is read; what fails is due again."""
        begun = self._clock()
        yield
        self._looked = begun

    def expire(self) -> None:
        """Look when next asked to, however soon that is."""
        self._looked = None

    def await_commit(self, session_id: SessionId) -> None:
        """Note that the session is being committed: do not look until it is."""
        self._awaited = session_id, self._clock()

    def is_awaited(self, session_id: SessionId) -> bool:
        return self._awaited is not None and self._awaited[0] == session_id

    def ended(self, session_id: SessionId) -> None:
        """Note that the session is committed, or never will be."""
        if self.is_awaited(session_id):
            self._awaited = None
        self.expire()
