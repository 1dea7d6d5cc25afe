"""Primary keys as 128-bit numbers.

Equal keys have equal ids, whatever their columns' types; that two keys of a table have one id is
less likely than that a disk lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.lookup.key_hash import hash_keys, hash_keys_otherwise, one_chunk

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class KeyIds:
    """An id a row: its upper and its lower half."""

    high: Words
    low: Words

    @property
    def count(self) -> int:
        return len(self.high)

    def at(self, rows: Any) -> KeyIds:
        """Select the ids of some rows; ``rows`` as numpy takes them."""
        return KeyIds(self.high[rows], self.low[rows])

    def order(self) -> Ints:
        """Sort the rows by id, stably: their positions, int64."""
        order = np.argsort(self.high, kind="stable")
        high, low = self.high[order], self.low[order]
        if bool(((high[1:] == high[:-1]) & (low[1:] != low[:-1])).any()):
            order = np.lexsort((self.low, self.high))
        return order

    def firsts(self) -> Bools:
        """Flag those of ordered ids that are not the one before: bool, one an id."""
        firsts = np.ones(self.count, np.bool_)
        np.not_equal(self.high[1:], self.high[:-1], out=firsts[1:])
        firsts[1:] |= self.low[1:] != self.low[:-1]
        return firsts

    def positions_of(self, wanted: KeyIds) -> Ints:
        """Find where each wanted id that is here is, in the order asked: int64."""
        both = join([self, wanted])
        order = both.order()
        group = np.cumsum(both.at(order).firsts()) - 1
        groups = np.empty(len(order), np.int64)
        groups[order] = group
        places = np.full(int(group[-1]) + 1 if len(group) else 0, -1)
        places[groups[: self.count]] = np.arange(self.count)
        found: Ints = places[groups[self.count :]]
        return found[found >= 0]

    def shards(self) -> npt.NDArray[np.int32]:
        """Take 32 bits of each id, spread evenly: int32."""
        return (self.low >> np.uint64(32)).astype(np.uint32).view(np.int32)


@dataclass(frozen=True)
class KeysToPlace:
    """Keys of a batch of rows, which may be in other partitions yet.

    Args:
        batch: 0, 1, 2 … within the session.
        partitions: those there are.
        indices: int32, each row's own partition, as a position in ``partitions``.
        keys: of each row.
        removes: bool, whether each row leaves none of its key.
    """

    batch: int
    partitions: Sequence[bytes]
    indices: npt.NDArray[np.int32]
    keys: KeyIds
    removes: Bools


def identify(columns: Sequence[pa.Array | pa.ChunkedArray]) -> KeyIds:
    """Make the ids of keys, one a row; none of the columns has nulls."""
    arrays = [one_chunk(column) for column in columns]
    return KeyIds(hash_keys(arrays), hash_keys_otherwise(arrays))


def join(parts: Sequence[KeyIds]) -> KeyIds:
    """Concatenate ids."""
    return KeyIds(
        np.concatenate([part.high for part in parts]), np.concatenate([part.low for part in parts])
    )
