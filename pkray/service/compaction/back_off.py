"""Buckets that are left alone for a while, as their last compaction failed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pkray.metadata.live import BucketId
from pkray.service.timing.elapsed import elapsed

_log = logging.getLogger(__name__)

FIRST_REST_MILLIS, LONGEST_REST_MILLIS = 1_000, 300_000
"""How long a bucket is left alone after a compaction of it failed, at first and at most."""


@dataclass(frozen=True)
class _Rest:
    since: int
    millis: int
    error: BaseException


class CompactionBackoff:
    """The back-off of buckets whose compaction failed; each failure in a row doubles it.

    Args:
        clock: epoch milliseconds.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._back_off: dict[BucketId, _Rest] = {}

    def __bool__(self) -> bool:
        return bool(self._back_off)

    def buckets(self) -> list[BucketId]:
        """List the buckets whose last compaction failed, rested or not."""
        return list(self._back_off)

    def has(self, bucket: BucketId) -> bool:
        """Whether the bucket is to be left alone now."""
        rest = self._back_off.get(bucket)
        return rest is not None and not elapsed(rest.since, self._clock(), rest.millis)

    def reason(self, bucket: BucketId) -> BaseException | None:
        """Say why the bucket's last compaction failed, while it rests."""
        return self._back_off[bucket].error if self.has(bucket) else None

    def add(self, bucket: BucketId, error: BaseException) -> None:
        """Note that a compaction of the bucket failed."""
        last = self._back_off.get(bucket)
        millis = min(2 * last.millis, LONGEST_REST_MILLIS) if last else FIRST_REST_MILLIS
        self._back_off[bucket] = _Rest(self._clock(), millis, error)
        _log.warning(
            "compacting bucket %s failed (%s); it is tried again in %.0f s at the earliest",
            bucket[1],
            error,
            millis / 1000,
        )

    def end(self, bucket: BucketId) -> None:
        """Note that a compaction of the bucket succeeded, or that there is nothing to compact any
        more."""
        self._back_off.pop(bucket, None)
