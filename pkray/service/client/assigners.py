"""Choose the owner that assigns a new key's bucket: a pure function of partition and key hash.

As in Paimon's assigners: the hash picks one of the partition's assigners, and that one alone puts
new keys into the buckets whose number it has modulo the assigners. A key that is there already
stays in its bucket, wherever that is, so that the number of owners may differ between runs.
"""

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pkray.format.hash_index import Hashes
from pkray.options import TableOptions
from pkray.service.protocol import HashedKeys


def assigner_count(options: TableOptions, owners: int) -> int:
    """Count the assigners of a partition: one an owner, if the options do not ask for fewer."""
    wanted = (options.dynamic_bucket_assigner_parallelism, options.dynamic_bucket_initial_buckets)
    return min(owners, *(count for count in wanted if count is not None)) if any(wanted) else owners


def classes(hashes: Hashes, count: int) -> npt.NDArray[np.int64]:
    """Number each hash's assigner within its partition: int64, one a hash, 0 … count-1."""
    return np.mod(hashes, np.int64(count))


def assigning_owner(partition: bytes, number: int, owners: int) -> int:
    """Find the owner that is the partition's assigner of this number."""
    return (zlib.crc32(partition) + number) % owners


def assigning_owners(keys: HashedKeys, count: int, owners: int) -> npt.NDArray[np.int64]:
    """Find the owner that assigns each key: int64, one a key."""
    if owners == 1:
        return np.zeros(len(keys), np.int64)
    firsts = (assigning_owner(partition, 0, owners) for partition in keys.partitions)
    starts = np.fromiter(firsts, np.int64, len(keys.partitions))
    return (starts[keys.indices] + classes(keys.hashes, count)) % owners


@dataclass(frozen=True)
class KeyShare:
    """One owner's share of a table's keys.

    Args:
        owner: its index.
        owners: how many there are.
        assigners: a partition.
    """

    owner: int
    owners: int
    assigners: int

    def has_hashes(self, partition: bytes, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Say of each hash whether this owner is its assigner."""
        first = assigning_owner(partition, 0, self.owners)
        mine: npt.NDArray[np.bool_] = (
            first + classes(hashes, self.assigners)
        ) % self.owners == self.owner
        return mine

    def has_bucket(self, partition: bytes, bucket: int) -> bool:
        """Whether this owner puts new keys into the bucket."""
        number = bucket % self.assigners
        return assigning_owner(partition, number, self.owners) == self.owner
