"""How long a commit that lost a race leaves the field to others."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_WAIT, LONGEST_WAIT = 0.01, 2.0
"""Seconds waited at most, after the first loss and ever."""
_MOST_DOUBLINGS = 10


class Backoff:
    """Waits at random, on average twice as long each time.

    Args:
        rng: of waiting times.
        sleep: takes seconds.
    """

    def __init__(self, rng: random.Random, sleep: Callable[[float], None]) -> None:
        self._rng = rng
        self._sleep = sleep

    def wait(self, doublings: int) -> None:
        """Wait for a random part of ``FIRST_WAIT``, doubled so often."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(doublings, _MOST_DOUBLINGS))
        self._sleep(self._rng.uniform(0, longest))
