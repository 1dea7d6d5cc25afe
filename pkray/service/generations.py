"""Which writer of a commit user is the newest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from pkray.service.handle import Handle, call_all
from pkray.service.protocol import SessionId


class Generations:
    """Numbers the writers of each commit user, and fences all but the newest. Thread-safe.

    Args:
        owners: those of the table; they know of writers before a restart.
        clock: epoch milliseconds.
        new_users: commit users that had no writer yet.
    """

    def __init__(
        self, owners: Sequence[Handle], clock: Callable[[], int], new_users: Iterable[str] = ()
    ) -> None:
        self._owners = owners
        self._clock = clock
        self._newest = dict.fromkeys(new_users, 0)
        self._lock = threading.Lock()

    def begin(self, user: str) -> SessionId:
        """The first session of a new writer; the user's writers before it are fenced."""
        with self._lock:
            if user not in self._newest:
                # The clock may have been set back since a coordinator before this one.
                known = call_all(self._owners, "newest_generation", lambda _: (user,))
                self._newest[user] = max(known, default=0)
            generation = max(self._clock(), self._newest[user] + 1)
            self._newest[user] = generation
            return SessionId(user, generation)

    def refuse_fenced(self, session: SessionId) -> None:
        """
        Raises:
            CommitFencedError: a newer writer of the user has begun.
        """
        session.refuse_fenced(self._newest.get(session.user, 0))
