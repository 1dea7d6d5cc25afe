"""Record how far a stream has come, under a consumer's name."""

import time
from collections.abc import Callable

from pkray.changelog.start import Position
from pkray.expiration.expiry_journal import ExpiryJournal
from pkray.metadata.consumers import Consumer, ConsumerStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore


class Progress:
    """The place of one consumer, which also keeps what it has still to read from expiring.

    Args:
        history: the root of the table, or the branch.
        looks_back: changes are found with the help of the snapshot before: that is kept too.
        every: seconds between two records at least; 0 records every step.
        clock: seconds, ascending.
    """

    def __init__(
        self,
        history: ObjectStore,
        name: str,
        *,
        looks_back: bool = False,
        every: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumers = ConsumerStore(history)
        self._snapshots = SnapshotStore(history)
        self._journal = ExpiryJournal(history)
        self._name = name
        self._looks_back = looks_back
        self._every = every
        self._clock = clock
        self._recorded: tuple[int, bool] | None = None
        self._recorded_at = 0.0

    def resume(self) -> Consumer | None:
        """Find where the consumer is; None where there is none yet."""
        return self._consumers.find(self._name)

    def begin(self, position: Position) -> bool:
        """Record where the consumer begins, so that what it will read does not expire; false where
        it does all the same, as an expiry was faster.
        """
        content = position.content
        if content is None:
            self._record(position.next_id)
            return True
        self._record(content.id, loading=True)
        return self._journal.stays_from() <= content.id and self._snapshots.holds(content)

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
