"""Buckets by key hash, in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pkray.format.hash_index import Hashes

Buckets = npt.NDArray[np.int32]
Packed = npt.NDArray[np.uint64]

ABSENT = -1

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_SIGN = np.uint32(1 << 31)


class Distinct(NamedTuple):
    """The distinct hashes of some rows.

    Args:
        hashes: ascending.
        of_row: each row's position in them.
    """

    hashes: Hashes
    of_row: npt.NDArray[np.int64]


def distinct(hashes: Hashes) -> Distinct:
    """Sorting hash and position as one number is several times an argsort's speed."""
    packed = _pack(hashes, np.arange(len(hashes), dtype=np.uint64))
    packed.sort()
    ordered = _hashes(packed)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    of_row = np.empty(len(ordered), np.int64)
    of_row[(packed & _LOW).view(np.int64)] = np.cumsum(is_first) - 1
    return Distinct(ordered[is_first], of_row)


class KeyIndex:
    """Maps hashes to buckets: 8 bytes a hash, in sorted runs that merge as they grow.

    Each run is at least twice as long as the next, so adding costs amortised sorts alone.
    """

    def __init__(self) -> None:
        self._runs: list[Packed] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash, `ABSENT` where there is none.

        Args:
            hashes: ascending, which makes the search several times as fast.
        """
        found = np.full(len(hashes), ABSENT, np.int32)
        wanted = _pack(hashes, np.uint64(0))
        for run in self._runs:
            at = np.searchsorted(run, wanted)
            there = run[np.minimum(at, len(run) - 1)]
            hit = (there ^ wanted) <= _LOW
            found[hit] = (there[hit] & _LOW).astype(np.int32)
        return found

    def add(self, hashes: Hashes, buckets: Buckets | int) -> None:
        """Add distinct hashes that are not there yet."""
        if not len(hashes):
            return
        run = _pack(hashes, np.asarray(buckets).astype(np.uint64))
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.concatenate((self._runs.pop(), run))
        run.sort()
        self._runs.append(run)

    def items(self) -> tuple[Hashes, Buckets]:
        """Every hash with its bucket; within a run ascending by hash."""
        if not self._runs:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        packed = np.concatenate(self._runs)
        return _hashes(packed), (packed & _LOW).astype(np.int32)


def _pack(hashes: Hashes, low: Packed | np.uint64) -> Packed:
    """The hash above, order kept, and 32 bits below."""
    high = (hashes.view(np.uint32) ^ _SIGN).astype(np.uint64)
    return (high << _HALF) | low


def _hashes(packed: Packed) -> Hashes:
    return ((packed >> _HALF).astype(np.uint32) ^ _SIGN).view(np.int32)
