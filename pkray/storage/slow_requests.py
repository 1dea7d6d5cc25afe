"""A word in the log about requests that take long, while they do."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
"""The watching thread ends when there was no request for so long."""


@dataclass
class _Request:
    doing: str
    location: str
    due: float


class SlowRequests:
    """Says once of each request that it has no answer yet. Thread-safe.

    Args:
        after_seconds: from the request's beginning.
    """

    def __init__(self, after_seconds: float = 5.0) -> None:
        self._after = after_seconds
        self._open: dict[int, _Request] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, doing: str, location: str) -> Iterator[None]:
        """Watch a request until the block ends."""
        number = next(self._numbers)
        self._open[number] = _Request(doing, location, time.monotonic() + self._after)
        if self._thread is None or not self._thread.is_alive():  # in a forked process it is not
            self._start()
        try:
            yield
        finally:
            del self._open[number]

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._watch, name="pkray-slow-requests", daemon=True
                )
                self._thread.start()

    def _watch(self) -> None:
        used = time.monotonic()
        while self._open or time.monotonic() < used + IDLE_SECONDS:
            if self._open:
                used = time.monotonic()
            for request in list(self._open.values()):
                if request.due <= time.monotonic():
                    request.due = float("inf")
                    _log.warning(
                        "no answer for %g seconds: %s %s",
                        self._after,
                        request.doing,
                        request.location,
                    )
            time.sleep(self._after / 5)


SLOW_REQUESTS = SlowRequests()
"""Of all stores of this process."""
