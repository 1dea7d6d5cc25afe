"""Some of a table's partitions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.partition import PartitionSpec


@dataclass(frozen=True)
class PartitionFilter:
    """Partitions by their values, whole or in part. Picklable.

    Args:
        spec: how the table is partitioned.
        wanted: values by partition column; columns left out may have any, so that an empty one
            is every partition. One of these has to fit.
    """

    spec: PartitionSpec
    wanted: Sequence[Mapping[str, pa.Scalar]]

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Select the partitions that fit."""
        there = sorted(partitions)
        if not there or any(not each for each in self.wanted):
            return frozenset(there if self.wanted else ())
        columns = dict(zip(self.spec.names, self.spec.values(there), strict=True))
        chosen = pa.array([False] * len(there))
        for each in self.wanted:
            fits = pa.array([True] * len(there))
            for name, value in each.items():
                same = pc.equal(columns[name], value) if value.is_valid else columns[name].is_null()
                fits = pc.and_(fits, pc.fill_null(same, False))
            chosen = pc.or_(chosen, fits)
        hits = zip(there, chosen.to_pylist(), strict=True)
        return frozenset(partition for partition, hit in hits if hit)


@dataclass(frozen=True)
class ExactPartitions:
    """Partitions by their rows."""

    partitions: frozenset[bytes]

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Select the partitions that are among them."""
        return self.partitions.intersection(partitions)
