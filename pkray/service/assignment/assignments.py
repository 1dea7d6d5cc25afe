"""Buckets that sessions were assigned and have not committed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np

from pkray.service.assignment.key_index import ABSENT, Buckets, KeyIndex, Packed
from pkray.service.assignment.open_sessions import OpenSessions


@dataclass
class Assignments:
    """The buckets that one session was assigned.

    Args:
        token: told with each assignment; another one means that the session was forgotten.
        new: the buckets of keys that are not committed, by partition.
        counts: keys by bucket, by partition.
        used: the partitions it was assigned in, with the state of their index then.
    """

    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    new: dict[bytes, KeyIndex] = field(default_factory=dict)
    counts: dict[bytes, dict[int, int]] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=dict)

    def find(self, partition: bytes, hashes: Packed) -> Buckets:
        """Find the bucket of each hash, int32; `ABSENT` where it was assigned none."""
        return self.new.get(partition, KeyIndex()).find(hashes)

    def add(self, partition: bytes, hashes: Packed, buckets: Buckets) -> None:
        """Note distinct hashes that were assigned none yet, and the bucket of each: int32."""
        self.new.setdefault(partition, KeyIndex()).add(hashes, buckets)
        counts = self.counts.setdefault(partition, {})
        sizes = np.bincount(buckets)
        for bucket in np.flatnonzero(sizes).tolist():
            counts[bucket] = counts.get(bucket, 0) + int(sizes[bucket])


class OpenAssignments(OpenSessions[Assignments]):
    """The assignments of all sessions that have not ended."""

    def __len__(self) -> int:
        """Keys that are not committed."""
        return sum(len(index) for each in self for index in each.new.values())

    def fill(self, partition: bytes, hashes: Packed, found: Buckets) -> None:
        """Set the bucket of each hash that is still absent, where some session was assigned it."""
        for each in self:
            absent = np.flatnonzero(found == ABSENT)
            if not len(absent):
                return
            if partition in each.new:
                found[absent] = each.find(partition, hashes[absent])

    def sizes(self, partition: bytes) -> dict[int, int]:
        """Count keys by bucket."""
        sizes: dict[int, int] = {}
        for each in self:
            for bucket, count in each.counts.get(partition, {}).items():
                sizes[bucket] = sizes.get(bucket, 0) + count
        return sizes
