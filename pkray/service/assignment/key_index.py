"""Buckets by key hash, in memory."""

from collections.abc import Iterator
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


class Ordered(NamedTuple):
    """Hashes of some rows, as `KeyIndex` takes them.

    Args:
        wanted: each hash in the upper half of a number, ascending.
        rows: the row that each is of.
    """

    wanted: Packed
    rows: npt.NDArray[np.int64]


def ordered(hashes: Hashes) -> Ordered:
    """Sort hashes (int32, one a row) and rows as one uint64, which is several times an argsort's
    speed."""
    packed = pack(hashes)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    rows = (packed & _LOW).view(np.int64)
    packed &= ~_LOW
    return Ordered(packed, rows)


def distinct(wanted: Packed) -> tuple[Packed, npt.NDArray[np.int64]]:
    """Drop duplicates of ascending numbers, and say each one's position in the rest: int64."""
    is_first = np.ones(len(wanted), np.bool_)
    np.not_equal(wanted[1:], wanted[:-1], out=is_first[1:])
    return wanted[is_first], np.cumsum(is_first) - 1


def pack(hashes: Hashes) -> Packed:
    """Put the hashes in the upper halves of uint64, their order kept."""
    packed = (hashes.view(np.uint32) ^ _SIGN).astype(np.uint64)
    packed <<= _HALF
    return packed


def unpack(wanted: Packed) -> Hashes:
    """Return the hashes of such numbers: int32."""
    return ((wanted >> _HALF).astype(np.uint32) ^ _SIGN).view(np.int32)


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

    def find(self, wanted: Packed) -> Buckets:
        """Find the bucket of each hash: int32; `ABSENT` where there is none.

        Args:
            wanted: ascending, which makes the search several times as fast.
        """
        if not self._runs:
            return np.full(len(wanted), ABSENT, np.int32)
        found = self._find_in(self._runs[0], wanted)
        for run in self._runs[1:]:
            absent = np.flatnonzero(found == ABSENT)
            found[absent] = self._find_in(run, wanted[absent])
        return found

    def add(self, wanted: Packed, buckets: Buckets | int) -> None:
        """Add distinct hashes that are not there yet, and the bucket of each: int32."""
        if not len(wanted):
            return
        run = wanted | np.asarray(buckets).astype(np.uint64)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.concatenate((self._runs.pop(), run))
        run.sort()
        self._runs.append(run)

    def items(self) -> Iterator[tuple[Packed, Buckets]]:
        """Yield the hashes of each run, ascending, with their buckets."""
        for run in self._runs:
            yield run & ~_LOW, (run & _LOW).astype(np.int32)

    @staticmethod
    def _find_in(run: Packed, wanted: Packed) -> Buckets:
        at = np.searchsorted(run, wanted)
        np.minimum(at, len(run) - 1, out=at)
        there = run[at]
        there ^= wanted
        found = there.astype(np.int32)
        found[there > _LOW] = ABSENT
        return found
