"""Whether a worker may still answer for its parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pkray.errors import ServiceUnavailableError
from pkray.service.pool.assignments import LEASE_SECONDS

_PATIENCE_SECONDS = 5.0
"""How long a call waits for another one that renews the lease."""


def awake_and_asleep() -> float:
    """Return seconds of a clock that goes on while the machine sleeps, where there is one."""
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if kind is None else time.clock_gettime(kind)


class Lease:
    """Runs out some seconds after the keeper was last asked. Thread-safe.

    Args:
        ask: asks the keeper, and drops what is no longer the worker's.
        clock: seconds; also while the machine sleeps.
    """

    def __init__(
        self, ask: Callable[[], object], clock: Callable[[], float] = awake_and_asleep
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._until = -1.0
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Ask the keeper.

        Raises:
            ServiceUnavailableError: it does not answer.
        """
        if not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            raise ServiceUnavailableError(
                "the keeper of the pool of workers does not answer: try again"
            )
        try:
            asked = self._clock()  # before: the answer may be long on its way
            self._ask()
            self._until = asked + LEASE_SECONDS
        finally:
            self._lock.release()

    def ensure(self) -> None:
        """See that the lease has not run out; renew it where it has, as after a sleep.

        Raises:
            ServiceUnavailableError: the keeper does not answer.
        """
        while self._clock() >= self._until:
            self.renew()
