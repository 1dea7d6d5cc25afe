"""Find the buckets that have room for new keys."""

import itertools
from collections.abc import Mapping

import numpy as np

from pkray.errors import OptionError
from pkray.format.hash_index import Hashes
from pkray.service.assignment.key_index import Buckets
from pkray.service.client.assigners import classes

MAX_BUCKETS = 32767
"""Buckets a partition; Paimon keeps their numbers in 16 bits."""


class BucketFilling:
    """Fills buckets up to a number of keys, each class of hashes its own buckets.

    Args:
        assigners: a partition; so many classes there are.
        target: keys a bucket, ``dynamic-bucket.target-row-num``.
    """

    def __init__(self, assigners: int, target: int) -> None:
        self._assigners = assigners
        self._target = target

    def place(self, hashes: Hashes, sizes: Mapping[int, int]) -> Buckets:
        """Choose buckets of new hashes, class by class: int32, one a hash.

        Args:
            sizes: keys by bucket.

        Raises:
            OptionError: the partition has as many buckets as there can be.
        """
        placed = np.empty(len(hashes), np.int32)
        numbers = classes(hashes, self._assigners)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            rows = np.flatnonzero(numbers == number)
            placed[rows] = self._fill(number, sizes, len(rows))
        return placed

    def _fill(self, number: int, sizes: Mapping[int, int], count: int) -> Buckets:
        """Fill the class's buckets in order, and then as many new ones as it takes."""
        filled: list[tuple[int, int]] = []
        there = (bucket for bucket in sorted(sizes) if bucket % self._assigners == number)
        numbers = range(number, MAX_BUCKETS, self._assigners)
        unused = (bucket for bucket in numbers if bucket not in sizes)
        for bucket in itertools.chain(there, unused):
            room = min(self._target - sizes.get(bucket, 0), count)
            if room > 0:
                filled.append((bucket, room))
                count -= room
            if not count:
                break
        if count:
            raise OptionError(
                f"a partition has {MAX_BUCKETS} buckets, the most there can be: raise "
                f"dynamic-bucket.target-row-num, which is {self._target}",
                key="dynamic-bucket.target-row-num",
                value=str(self._target),
            )
        return np.repeat(
            np.array([bucket for bucket, _ in filled], np.int32), [room for _, room in filled]
        )
