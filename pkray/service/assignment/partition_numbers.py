"""Partitions by number, as locations name them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pkray.service.assignment.placement import bucket_of, is_there, numbers_of
from pkray.service.client.key_ids import Bools, Words

Codes = npt.NDArray[np.int32]


class PartitionNumbers:
    """Numbers partitions; once others have changed the rows of one, it gets another number.

    The locations of keys in it need not be looked for then: they name a number that is gone.
    """

    def __init__(self) -> None:
        self._partitions: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._gone: Bools = np.zeros(64, np.bool_)

    def number(self, partition: bytes) -> int:
        """Return the partition's number, a new one where it has none."""
        if partition not in self._numbers:
            self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
            if len(self._partitions) > len(self._gone):
                self._gone = np.concatenate((self._gone, np.zeros_like(self._gone)))
        return self._numbers[partition]

    def numbers(self, partitions: Sequence[bytes]) -> Words:
        return np.array([self.number(each) for each in partitions], np.uint64)

    def is_gone(self, number: int) -> bool:
        """Whether others have changed the rows of the partition since it got its number."""
        return bool(self._gone[number])

    def are_gone(self, locations: Words) -> Bools:
        """Whether each location is in a partition whose number is gone: bool."""
        there = is_there(locations)
        numbers = np.where(there, numbers_of(locations), np.uint64(0))
        gone: Bools = self._gone[numbers.astype(np.int64)] & there
        return gone

    def named(self, locations: Words) -> tuple[list[bytes], Codes, Codes]:
        """Name the partitions of locations; return them, each location's position in them and its
        bucket, int32 both; -1 for both without one."""
        there = np.flatnonzero(is_there(locations))
        indices = np.full(len(locations), -1, np.int32)
        buckets = indices.copy()
        numbers, indices[there] = np.unique(numbers_of(locations[there]), return_inverse=True)
        buckets[there] = bucket_of(locations[there])
        return [self._partitions[number] for number in numbers.tolist()], indices, buckets

    def retire(self, partition: bytes) -> int | None:
        """Forget a partition whose rows others have changed; return its number, if it had one."""
        number = self._numbers.pop(partition, None)
        if number is not None:
            self._gone[number] = True
        return number

    def retire_all(self) -> None:
        """Forget all partitions."""
        self._gone[: len(self._partitions)] = True
        self._numbers.clear()
