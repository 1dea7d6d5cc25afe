"""Epochs of the queries of one process take turns, so that few are at work at a time."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LONG_SECONDS = 5.0
"""After which an epoch counts no more: one that hangs, or waits for others, holds up nobody."""
_LOOK_SECONDS = 0.5
_POLLS_A_SECOND = 200
"""That all queries of a process make together, so that idle ones cost little."""


class Turns:
    """Lets so many epochs run at a time, in the order in which they came. Thread-safe.

    Args:
        most: epochs at a time.
        clock: seconds.
    """

    def __init__(self, most: int = 4, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._begun: dict[object, float] = {}
        self._queries = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, and have it until the end."""
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                while self._waiting[0] is not turn or not self._is_free():
                    self._changed.wait(_LOOK_SECONDS)
                self._begun[turn] = self._clock()
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[turn]
                self._changed.notify_all()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count one more query until the end."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    @property
    def poll_seconds(self) -> float:
        """Say how long a query that found nothing new waits at least."""
        return self._queries / _POLLS_A_SECOND

    def _is_free(self) -> bool:
        since = self._clock() - _LONG_SECONDS
        return sum(begun > since for begun in self._begun.values()) < self._most

    def _count(self, more: int) -> None:
        with self._changed:
            self._queries += more


TURNS = Turns()
"""Orders the queries of this process that the cluster hosts."""
