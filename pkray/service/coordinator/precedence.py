"""Lets a commit that lost its race go before the next commits of those that won."""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from pkray.errors import MissingFileError, StorageError
from pkray.format import paths
from pkray.storage.object_store import ObjectStore

PATIENCE_SECONDS = 5.0
"""Longer than a commit takes as a rule that goes first; whoever needs longer is passed."""
_LOOK_SECONDS = 0.1
"""Between two looks whether the other is through: a few requests of an object store."""


class Precedence:
    """A file of the table, ``snapshot/WAITING``, made by a committer that lost a race.

    Whoever loses has to read what the winner did before it tries again, which takes longer than the
    winner's next commit: processes on other machines would let it wait until they have nothing to
    commit. So it says that it waits. Others see that as they prepare a commit, and begin the next
    one when the file is gone. Commits are right without it. On a local disk `CommitQueue` orders
    committers, and this does nothing.

    Args:
        store: the table's root; None: nobody is waited for.
        clock: seconds, monotonic.
        sleep: takes seconds.
    """

    def __init__(
        self,
        store: ObjectStore | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        is_remote = store is not None and store.local_path("") is None
        self._store = store if is_remote else None
        self._clock = clock
        self._sleep = sleep
        self._own: bytes | None = None
        self._other: bytes | None = None

    def look(self) -> None:
        """See whether another committer waits: one request."""
        if self._store is not None and self._own is None:
            self._other = self._read(self._store)

    def give_way(self) -> bool:
        """Wait until a committer that was seen is through, five seconds at most; whether one was.

        What is still there then was left by one that was killed, and is deleted.
        """
        if self._store is None or self._other is None:
            return False
        first, end = self._other, self._clock() + PATIENCE_SECONDS
        while self._other == first and self._clock() < end:
            self._sleep(_LOOK_SECONDS)
            self._other = self._read(self._store)
        if self._other == first:
            with suppress(StorageError):
                self._store.delete(paths.WAITING)
        self._other = None
        return True

    def claim(self) -> None:
        """Go before others from now on, unless another one does."""
        if self._store is not None and self._own is None:
            own = uuid.uuid4().hex.encode()
            with suppress(StorageError):
                if self._store.create(paths.WAITING, own):
                    self._own = own

    def release(self) -> None:
        """Let others go on."""
        if self._store is not None and self._own is not None:
            self._own = None
            with suppress(StorageError):
                self._store.delete(paths.WAITING)

    @staticmethod
    def _read(store: ObjectStore) -> bytes | None:
        with suppress(MissingFileError, StorageError):
            return store.read(paths.WAITING)
        return None


NOBODY = Precedence(None)
"""Nobody waits, and nobody is waited for."""
