"""The writers of one table that are open in this process."""

import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from pkray.errors import LostBatchesError
from pkray.service.call_limits import DEFAULT_LIMITS
from pkray.service.handles.handle import persist
from pkray.service.leases import LOOK_SECONDS
from pkray.service.protocol import Holding

T = TypeVar("T")
_MAX_RESTORED = 8
"""Times that a lookup is made anew, as owners restart one after another."""


class OpenWriter(Protocol):
    """A writer as a lookup knows it."""

    @property
    def restored(self) -> int:
        """The number of times that it began to push again."""

    def expected(self, owner: int) -> Holding | None:
        """Say what an owner is to hold of its session; None where that is nothing."""

    def restore(self) -> None:
        """Push again what owners have lost."""

    def stop(self) -> None:
        """Send no more heartbeats."""


class OpenWriters:
    """Lets lookups see that owners hold all that these writers have pushed. Thread-safe.

    Writers that nobody holds any more are forgotten.

    Args:
        beat_seconds: how often writers say that they are there.
    """

    def __init__(self, beat_seconds: float = LOOK_SECONDS) -> None:
        self.beat_seconds = beat_seconds
        self._lock = threading.Lock()
        self._writers: tuple[weakref.ref[OpenWriter], ...] = ()

    def add(self, writer: OpenWriter) -> None:
        """Note a writer that has been opened."""
        with self._lock:
            self._writers = (*self._others(), weakref.ref(writer))

    def remove(self, writer: OpenWriter) -> None:
        """Forget a writer that is closed."""
        with self._lock:
            self._writers = tuple(each for each in self._others() if each() is not writer)

    def stop(self) -> None:
        """Send no more heartbeats: the service has ended."""
        for writer in self._open():
            writer.stop()

    def expected(self, owner: int) -> tuple[Holding, ...]:
        """Say what an owner is to hold by now."""
        if not self._writers:
            return ()
        found = (writer.expected(owner) for writer in self._open())
        return tuple(each for each in found if each is not None)

    def complete(self, find: Callable[[], T]) -> T:
        """Look up what is not committed, again where owners have lost rows of these writers.

        Args:
            find: asks owners for what is `expected` of them.

        Raises:
            LostBatchesError: rows of a writer are lost, and it has to write them again.
            CommitUnknownError: they are, and perhaps they are committed.
        """
        for _ in range(_MAX_RESTORED):
            before = self._restored()
            try:
                found = find()
            except LostBatchesError:
                for writer in self._open():
                    persist(writer.restore, DEFAULT_LIMITS.lookup_seconds)
                continue
            if before == self._restored():
                return found
        return find()

    def _restored(self) -> int:
        return sum(writer.restored for writer in self._open()) if self._writers else 0

    def _open(self) -> list[OpenWriter]:
        found = (each() for each in self._writers)
        return [writer for writer in found if writer is not None]

    def _others(self) -> list[weakref.ref[OpenWriter]]:
        return [each for each in self._writers if each() is not None]
