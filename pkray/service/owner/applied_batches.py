"""Which batches of a session are in its writers, so that each counts once."""

from __future__ import annotations

from pkray.errors import LostBatchesError
from pkray.service.protocol import Attempts
from pkray.service.staging import StagingArea

Attempt = tuple[int, int]
"""A source, and which of its attempts."""


class AppliedBatches:
    """Counts the batches taken of each attempt.

    Args:
        staging: where batches of tasks wait until they are taken.
    """

    def __init__(self, staging: StagingArea) -> None:
        self._staging = staging
        self._taken: dict[Attempt, int] = {}

    def count(self, attempt: Attempt) -> int:
        """Count those that are in the writers; batches of an attempt are taken in order."""
        return self._taken.get(attempt, 0)

    def note(self, attempt: Attempt, count: int) -> None:
        """Note that so many are in the writers."""
        self._taken[attempt] = count

    def clear(self) -> None:
        """Note that none is in the writers any more."""
        self._taken.clear()

    def require(self, attempts: Attempts) -> None:
        """Check that batches of these attempts are in the writers or staged.

        Raises:
            LostBatchesError: batches of these attempts are neither in the writers nor staged.
        """
        lost = [
            source
            for source, (attempt, count) in attempts.items()
            if self._held((source, attempt)) != count
        ]
        if lost:
            raise LostBatchesError(
                f"the owner no longer holds every batch of sources {sorted(lost)}: it restarted, "
                "or a cleaner of orphan files took what was written long ago, or the table was "
                "rolled back; push them again",
                sources=sorted(lost),
            )

    def _held(self, attempt: Attempt) -> int:
        return self.count(attempt) or self._staging.count(attempt)
