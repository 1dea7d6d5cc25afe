"""Tell which writer of a commit user is the newest."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Sequence

from pkray.commit.writer_fences import WriterFences
from pkray.service.calls import OwnerClient
from pkray.service.handles.handle import gather
from pkray.service.protocol import SessionId

_A_MILLISECOND = 1_000_000
"""In nanoseconds, below which generations are random: two processes do not give the same one."""


class WriterFencing:
    """Numbers the writers of each commit user, and fences all but the newest. Thread-safe.

    It gives the numbers out; `WriterFences` keeps the newest where other processes see it, and
    owners and assigners order by it the sessions that reach them (`OpenSessions`).

    Args:
        owners: those of the table; they know of writers before a restart.
        fences: where other processes see it.
        clock: epoch milliseconds.
        new_users: commit users that had no writer yet, and are nobody else's.
    """

    def __init__(
        self,
        owners: Sequence[OwnerClient],
        fences: WriterFences,
        clock: Callable[[], int],
        new_users: Iterable[str] = (),
    ) -> None:
        self._owners = owners
        self._fences = fences
        self._clock = clock
        self._newest = dict.fromkeys(new_users, 0)
        self._alone = set(new_users)
        self._lock = threading.Lock()

    def begin(self, user: str, alone: bool = False) -> SessionId:
        """Begin the first session of a new writer; the user's writers before it are fenced.

        Args:
            alone: nobody else has this name, so that no other process needs to know.
        """
        with self._lock:
            if alone:
                self._alone.add(user)
                self._newest.setdefault(user, 0)
            if user not in self._newest:
                # The clock may have been set back since a coordinator before this one.
                known = gather([owner.newest_generation.submit(user) for owner in self._owners])
                self._newest[user] = max(known, default=0)
            now = self._clock() * _A_MILLISECOND + secrets.randbelow(_A_MILLISECOND)
            generation = max(now, self._newest[user] + 1)
            if user not in self._alone:
                self._fences.take_over(user, generation)
            self._newest[user] = generation
            return SessionId(user, generation)

    def fenced_by(self, session: SessionId) -> int | None:
        """Return the generation by which other processes take over, None where none can."""
        return None if session.user in self._alone else session.generation

    def check_not_fenced(self, session: SessionId) -> None:
        """Check that no newer writer of the user has begun.

        Raises:
            CommitFencedError: a newer writer of the user has begun.
        """
        session.check_not_fenced(self._newest.get(session.user, 0))
