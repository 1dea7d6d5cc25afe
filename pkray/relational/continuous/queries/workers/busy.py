"""Says what share of the last seconds each operator of a query worked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_LEAST_SECONDS = 5.0
"""Over which a share is taken: an epoch that takes longer than a second is no jump from 0 to 1."""


class BusyShares:
    """Compares what operators have worked with the time that has passed.

    Attributes:
        shares: from 0 to 1, as the mean of the workers, by the operator's number; empty until
            enough time has passed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.shares: dict[str, float] = {}
        self._clock = clock
        self._before: tuple[float, dict[str, float]] | None = None

    def note(self, nodes: Sequence[Mapping[str, Any]], workers: int) -> None:
        """Look how long operators have worked by now.

        Args:
            nodes: as the status of a query has them: ``seconds`` of all workers.
        """
        now, worked = self._clock(), {str(each["id"]): float(each["seconds"]) for each in nodes}
        if self._before is None:
            self._before = now, worked
            return
        since, before = self._before
        passed = (now - since) * max(workers, 1)
        if now - since < _LEAST_SECONDS:
            return
        self._before = now, worked
        self.shares = {
            each: round(min(max(seconds - before.get(each, 0.0), 0.0) / passed, 1.0), 4)
            for each, seconds in worked.items()
        }
