"""An object whose making takes long, and is seen to get on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from pkray.service.progress import WorkingThreads

T = TypeVar("T")


class Late(Generic[T]):
    """Makes it on a thread of its own, at once; whoever asks waits for it.

    Args:
        make: where it fails, it is called again by whoever asks next.
        threads: notes the thread.
    """

    def __init__(self, make: Callable[[], T], threads: WorkingThreads) -> None:
        self._make = make
        self._threads = threads
        self._made: T | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._begin, name="pkray-start", daemon=True).start()

    def get(self) -> T:
        """Return what is made.

        Raises:
            Exception: it cannot be made.
        """
        return self._made or self._wait()

    def _begin(self) -> None:
        with suppress(Exception):  # who asks is told
            self._wait()

    def _wait(self) -> T:
        with self._lock:
            if self._made is None:
                with self._threads:
                    self._made = self._make()
            return self._made
