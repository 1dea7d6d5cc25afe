"""Requests to an object store: how long they may take, how often they are sent again, and what the
log says meanwhile."""

import itertools
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeVar

from pkray.errors import MissingFileError, OptionError
from pkray.metrics.names import STORE_REQUEST_SECONDS, STORE_REQUESTS_TOTAL
from pkray.metrics.registry import REGISTRY
from pkray.storage.object_store import PARALLEL_REQUESTS
from pkray.storage.remote_errors import explain, is_transient, plain_cause

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


T = TypeVar("T")

ATTEMPTS = 3
"""obstore repeats requests itself, but not those whose answer breaks off while it is read."""
PAUSE_SECONDS = 0.1
"""Before a request is sent again, at most; each time twice as long."""
READ_FACTOR = 4
"""A large read over a slow line may take so many times the limit, while bytes come."""
UPLOAD_FACTOR = 2
"""As `READ_FACTOR`, of a part of an upload, of which nothing is heard until it is there."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|sec|m|min)?")
_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, None: 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class RequestLimits:
    """The time that a request may go without an answer, all repetitions included.

    Args:
        seconds: then it fails. Source: the storage option ``retry_timeout``.
        retries: by obstore. Source: ``max_retries``.
        at_once: under way for one piece of work. Source: ``parallel_requests``.
    """

    seconds: float = 30.0
    retries: int = 10
    at_once: int = PARALLEL_REQUESTS

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """Take ``retry_timeout``, ``max_retries`` and ``parallel_requests`` out of storage options.

        Raises:
            OptionError: a value that is none.
        """
        seconds, retries = options.pop("retry_timeout", "30s"), options.pop("max_retries", "10")
        at_once = whole("parallel_requests", options.pop("parallel_requests", str(cls.at_once)))
        limits = cls(duration("retry_timeout", seconds), whole("max_retries", retries), at_once)
        if not at_once:
            raise OptionError("storage option 'parallel_requests' is 0: give 1 or more")
        if not limits.seconds:
            raise OptionError("storage option 'retry_timeout' is 0: give more, such as 30s")
        return limits

    def retry_config(self) -> dict[str, Any]:
        """Make obstore's configuration: it begins no repetition after a third of the time."""
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.seconds / 3),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=min(2.0, self.seconds / 10)),
                "base": 2,
            },
        }

    def client_options(self, given: Mapping[str, Any], *, uploads: bool) -> dict[str, Any]:
        """Make obstore's options of one sending of a request, where they are not given.

        Args:
            uploads: silence is no sign while the request itself is on its way.
        """
        whole = timedelta(seconds=self.seconds * (UPLOAD_FACTOR if uploads else READ_FACTOR))
        silence = {} if uploads else {"read_timeout": timedelta(seconds=self.seconds / 3)}
        return {"timeout": whole, **silence, **given}


class Requests:
    """Sends the requests of a store.

    Args:
        options: of the store, as `hide` gives them: no error shows their secrets.
    """

    def __init__(self, limits: RequestLimits, options: Mapping[str, Any]) -> None:
        self.at_once = limits.at_once
        self._again_within = limits.seconds / 3
        self._options = options
        self._slow = SLOW_REQUESTS

    def send(self, doing: str, location: str, call: Callable[[], T], attempts: int = ATTEMPTS) -> T:
        """Call, and call again, after a while, what failed in passing.

        Args:
            doing: for messages.
            location: the whole URL, for messages.
            attempts: at most.

        Raises:
            StorageError: it failed for good, or for too long.
        """
        outcome = "failed"
        try:
            with REGISTRY.timed(STORE_REQUEST_SECONDS, doing):
                answer = self._send(doing, location, call, attempts)
            outcome = "ok"
            return answer
        except MissingFileError:
            outcome = "absent"
            raise
        finally:
            REGISTRY.count(STORE_REQUESTS_TOTAL, 1, doing, outcome)

    def _send(self, doing: str, location: str, call: Callable[[], T], attempts: int) -> T:
        failure: Exception
        started = time.monotonic()
        with self._slow.watching(doing, location):
            for attempt in range(attempts):
                try:
                    return call()
                except Exception as error:
                    failure = error
                wait = random.uniform(PAUSE_SECONDS / 2, PAUSE_SECONDS) * 2**attempt
                passed = time.monotonic() + wait - started
                if passed >= self._again_within or not is_transient(failure):
                    break
                if attempt + 1 < attempts:
                    REGISTRY.count(STORE_REQUESTS_TOTAL, 1, doing, "repeated")
                    time.sleep(wait)
        # Out of the `except`: what obstore says may have secrets, and would be the context.
        raise explain(failure, doing, location, self._options) from plain_cause(
            failure, self._options
        )


def duration(key: str, value: object) -> float:
    """Parse the seconds of a storage option, which is not printed.

    Raises:
        OptionError: it is none.
    """
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise OptionError(f"storage option {key!r} is no duration: write one such as 30s", key=key)
    return float(found[1]) * _UNITS[found[2]]


def whole(key: str, value: object) -> int:
    """Parse the number of a storage option, which is not printed.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(value, str) or re.fullmatch(r"\d{1,4}", value) is None:
        raise OptionError(f"storage option {key!r} is no whole number: write, say, 10", key=key)
    return int(value)
