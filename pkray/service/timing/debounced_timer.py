"""Work to be done a little later, unless it is put off again."""

import logging
import threading
from collections.abc import Callable

from pkray.service.progress import BESIDE_CALLS

_log = logging.getLogger(__name__)


class DebouncedTimer:
    """A timer for at most one thing, on a thread that does not keep the process alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._off = False

    def set(self, seconds: float, work: Callable[[], object]) -> None:
        """Do this after so long, and nothing of what was set before."""

        def run() -> None:
            try:
                with BESIDE_CALLS:
                    work()
            except Exception as error:
                _log.warning("%s; it is tried again the next time", error)

        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._off:
                return
            self._timer = threading.Timer(seconds, run)
            self._timer.name = "pkray-timer"
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Do nothing more."""
        with self._lock:
            self._off = True
            if self._timer is not None:
                self._timer.cancel()
