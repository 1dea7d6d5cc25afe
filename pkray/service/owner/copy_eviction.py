"""Local copies of data files that nobody uses any more."""

from __future__ import annotations

from pkray.lookup.store import LookupStore
from pkray.service.timing.debounced_timer import DebouncedTimer

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 60.0
"""Between two looks for copies that nobody used: often enough for the retention, seldom enough to
cost nothing."""


class CopyEviction:
    """Has copies expire though nobody looks anything up: by a timer, as long as there are any.

    Args:
        retention_millis: source: ``lookup.cache-file-retention``.
    """

    def __init__(self, cache: LookupStore, retention_millis: int) -> None:
        self._cache = cache
        self._seconds = max(_LEAST_SECONDS, min(_MOST_SECONDS, retention_millis / 1000))
        self._timer = DebouncedTimer()
        self._is_set = False

    def watch(self) -> None:
        """Note that there may be copies, made before this."""
        if not self._is_set:
            self._is_set = True
            self._timer.set(self._seconds, self._look)

    def close(self) -> None:
        self._timer.close()

    def _look(self) -> None:
        self._is_set = False
        self._cache.expire()
        stats = self._cache.stats()
        if stats.files or stats.making or stats.memory_bytes:
            self.watch()
