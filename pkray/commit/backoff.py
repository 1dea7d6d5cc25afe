"""Waits after a commit lost a race, so that others come through."""

import random
from collections.abc import Callable

FIRST_WAIT = 0.01
"""Seconds waited at most after the first loss."""
_MOST_DOUBLINGS = 4
"""Losses after which waits get shorter again: whoever has lost often goes before the others."""


class Backoff:
    """Waits at random: longer after each of the first losses, shorter after those that follow.

    Args:
        rng: of waiting times.
        sleep: takes seconds.
    """

    def __init__(self, rng: random.Random, sleep: Callable[[float], None]) -> None:
        self._rng = rng
        self._sleep = sleep

    def wait(self, losses: int) -> None:
        """Wait after so many losses; at most 0.16 s, after the fourth."""
        doublings = min(losses, 2 * _MOST_DOUBLINGS - losses)
        self._sleep(self._rng.uniform(0, FIRST_WAIT * 2.0**doublings))
