"""Which owners are asked for all rows whose keys begin somehow, and for which of their buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema
from pkray.service.client.routing import Router
from pkray.service.protocol import ANY_BUCKET, ANY_PARTITION, Slice

Request = tuple[pa.RecordBatch, tuple[Slice, ...], np.ndarray]
"""Keys sorted by bucket, the slices that say so, and each one's position in what was asked."""


class PrefixRouter:
    """Routes the beginnings of keys.

    One bucket is asked where the columns given have the bucket key, else every bucket; and one
    partition where they have the partition columns, else every partition.

    Args:
        router: None where buckets are dynamic, and do not follow from a key.
    """

    def __init__(self, schema: TableSchema, router: Router | None, owners: int) -> None:
        self._schema = schema
        self._router = router
        self._owners = owners
        self._partitions = PartitionSpec(schema)

    def requests(self, keys: pa.Table, totals: Mapping[bytes, int]) -> dict[int, Request]:
        """Plan what to ask of which owner.

        Args:
            keys: partition columns, all or none, and leading columns of the trimmed primary key.
            totals: the number of buckets of partitions that have another than the table.
        """
        names = set(keys.column_names)
        by_bucket = self._router is not None and names.issuperset(self._schema.bucket_keys)
        by_partition = names.issuperset(self._schema.partition_keys)
        if by_bucket and by_partition:
            return self._of_one_owner(keys, totals)
        pieces = list(self._pieces(keys, by_bucket, by_partition))
        order = np.concatenate([rows for _, rows in pieces])
        slices, offset = [], 0
        for piece, rows in pieces:
            slices.append(Slice(*piece, offset, len(rows), b"", self._schema.core.bucket))
            offset += len(rows)
        asked = (_batch(keys, order), tuple(slices), order)
        return dict.fromkeys(range(self._owners), asked)

    def _of_one_owner(self, keys: pa.Table, totals: Mapping[bytes, int]) -> dict[int, Request]:
        assert self._router is not None
        requests = {}
        routing = self._router.routing(keys, totals)
        for owner, pieces in routing.positions(self._owners).items():
            order = np.concatenate([rows for _, rows in pieces])
            requests[owner] = (_batch(keys, order), tuple(piece for piece, _ in pieces), order)
        return requests

    def _pieces(
        self, keys: pa.Table, by_bucket: bool, by_partition: bool
    ) -> Iterator[tuple[tuple[bytes, int], np.ndarray]]:
        if by_partition:
            indices, partitions = self._partitions.encode(keys)
            for index, partition in enumerate(partitions):
                yield (partition, ANY_BUCKET), np.flatnonzero(indices == index)
        elif by_bucket and self._router is not None:
            buckets = self._router.buckets(keys)
            for bucket in np.unique(buckets).tolist():
                yield (ANY_PARTITION, bucket), np.flatnonzero(buckets == bucket)
        else:
            yield (ANY_PARTITION, ANY_BUCKET), np.arange(keys.num_rows)


def _batch(keys: pa.Table, order: np.ndarray) -> pa.RecordBatch:
    return keys.take(pa.array(order)).combine_chunks().to_batches()[0]
