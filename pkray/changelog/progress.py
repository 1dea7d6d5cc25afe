"""Record how far a stream has come, under a consumer's name."""

from __future__ import annotations

import time
from collections.abc import Callable

from pkray.changelog.start import Position
from pkray.metadata.consumers import Consumer, ConsumerStore


class Progress:
    """The place of one consumer, which also keeps what it has still to read from expiring.

    Args:
        looks_back: changes are found with the help of the snapshot before: that is kept too.
        every: seconds between two records at least; 0 records every step.
        clock: seconds, ascending.
    """

    def __init__(
        self,
        consumers: ConsumerStore,
        name: str,
        *,
        looks_back: bool = False,
        every: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumers = consumers
        self._name = name
        self._looks_back = looks_back
        self._every = every
        self._clock = clock
        self._recorded: tuple[int, bool] | None = None
        self._recorded_at = 0.0

    def resume(self) -> Consumer | None:
        """Find where the consumer is; None where there is none yet."""
        return self._consumers.find(self._name)

    def begin(self, position: Position) -> None:
        """Record where the consumer begins, so that what it will read does not expire."""
        if position.content is not None:
            self._record(position.content.id, loading=True)
        else:
            self._record(position.next_id)

    def reached(self, next_id: int, *, force: bool = False) -> None:
        """Record that all before a snapshot was taken."""
        if self._recorded == (next_id, False):
            return
        if force or not self._every or self._clock() - self._recorded_at >= self._every:
            self._record(next_id)

    def _record(self, next_id: int, *, loading: bool = False) -> None:
        before = next_id - 1 if self._looks_back and not loading and next_id > 1 else None
        self._consumers.record(self._name, next_id, keeps_from=before, is_loading=loading)
        self._recorded = next_id, loading
        self._recorded_at = self._clock()
