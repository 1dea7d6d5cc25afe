"""Work that is done again and again while its object lives."""

import logging
import threading
import weakref
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Pulse:
    """Calls a method every so often, on a thread that keeps neither its object nor the process
    alive.

    Args:
        beat: the method; returns whether it is to be called again.
        seconds: between two calls.
        name: the thread's.
    """

    def __init__(self, beat: Callable[[], bool], seconds: float, name: str) -> None:
        self._beat = weakref.WeakMethod(beat)
        self._seconds = seconds
        self._name = name
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._is_wanted = False
        self._is_running = False
        self._is_failing = False

    def start(self) -> None:
        """Have the method called, from now on and at least once more; not after `stop`."""
        with self._lock:
            self._is_wanted = True
            if not self._is_running and not self._stopped.is_set():
                self._is_running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def stop(self) -> None:
        """Have it called no more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._is_wanted = False
            if self._call():
                continue
            with self._lock:
                if not self._is_wanted:
                    self._is_running = False
                    return

    def _call(self) -> bool:
        beat = self._beat()
        if beat is None:
            return False
        try:
            goes_on = beat()
            self._is_failing = False
            return goes_on
        except Exception as error:
            if not self._is_failing:
                _log.warning("%s: %s; it is tried again", self._name, error)
            self._is_failing = True
            return True
