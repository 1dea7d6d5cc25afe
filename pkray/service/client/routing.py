"""Route rows to owners, as a pure function of partition and bucket; and prefixes of keys to those
that have rows of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.format.bucket import assign_buckets
from pkray.format.hash_index import unique
from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema
from pkray.service.protocol import ANY_BUCKET, ANY_PARTITION, RoutedBatch, Slice


def owner_of(partition: bytes, bucket: int, owners: int) -> int:
    """Choose the owner's index: buckets of one partition go to owners in turn."""
    return (zlib.crc32(partition) + bucket) % owners


@dataclass(frozen=True)
class RowRouting:
    """The partition and the bucket of each row of a batch.

    Args:
        indices: each row's partition, as a position in ``partitions``.
        buckets: each row's bucket, int32; negative ones are left out of `positions`.
        hashes: each row's key hash, int32, where buckets are dynamic.
        is_new: whether that hash may be missing in the bucket's committed index.
        totals: the number of buckets of partitions that have another than the table.
    """

    indices: np.ndarray
    partitions: Sequence[bytes]
    buckets: np.ndarray
    hashes: np.ndarray | None = None
    is_new: np.ndarray | None = None
    totals: Mapping[bytes, int] = field(default_factory=dict)

    def are(self, others: RowRouting) -> bool:
        """Whether all rows are in the same buckets of the same partitions."""
        if not np.array_equal(self.buckets, others.buckets):
            return False
        mine = {partition: index for index, partition in enumerate(self.partitions)}
        index_of = np.array([mine.get(partition, -1) for partition in others.partitions], np.int32)
        known = self.buckets >= 0
        return np.array_equal(self.indices[known], index_of[others.indices[known]])

    def route(self, rows: pa.RecordBatch, owners: int) -> dict[int, RoutedBatch]:
        """Split rows by owner, in arrival order within each bucket."""
        if rows.num_rows == 0:
            return {}
        order, targets, starts = self._grouped(owners)
        routed: dict[int, RoutedBatch] = {}
        for owner in sorted({target[0] for target in targets}):
            slices: list[Slice] = []
            pieces: list[np.ndarray] = []
            offset = 0
            for (target, partition, bucket), start, end in zip(
                targets, starts[:-1], starts[1:], strict=True
            ):
                if target == owner:
                    length = int(end - start)
                    taken = slice(None) if order is None else order[start:end]
                    new = self._new_hashes(taken)
                    slices.append(Slice(partition, bucket, offset, length, new))
                    offset += length
                    if order is not None:
                        pieces.append(order[start:end])
            mine = rows if order is None else rows.take(pa.array(np.concatenate(pieces)))
            routed[owner] = RoutedBatch(mine, tuple(slices))
        return routed

    def positions(self, owners: int) -> dict[int, list[tuple[Slice, np.ndarray]]]:
        """Split row positions by owner, with the bucket they fall in."""
        if len(self.buckets) == 1 and self.buckets[0] >= 0:  # most lookups are for one key
            partition, bucket = self.partitions[self.indices[0]], int(self.buckets[0])
            piece = Slice(partition, bucket, 0, 1, b"", self.totals.get(partition, 0))
            return {owner_of(partition, bucket, owners): [(piece, np.zeros(1, np.intp))]}
        known = np.flatnonzero(self.buckets >= 0)
        if len(known) < len(self.buckets):
            some = RowRouting(self.indices[known], self.partitions, self.buckets[known])
            found = some.positions(owners) if len(known) else {}
            return {
                owner: [(piece, known[rows]) for piece, rows in pieces]
                for owner, pieces in found.items()
            }
        order, targets, starts = self._grouped(owners)
        found = {}
        for (owner, partition, bucket), start, end in zip(
            targets, starts[:-1], starts[1:], strict=True
        ):
            rows = np.arange(start, end) if order is None else order[start:end]
            taken = sum(piece.length for piece, _ in found.get(owner, ()))
            total = self.totals.get(partition, 0)
            piece = Slice(partition, bucket, taken, int(end - start), b"", total)
            found.setdefault(owner, []).append((piece, rows))
        return found

    def _grouped(
        self, owners: int
    ) -> tuple[np.ndarray | None, list[tuple[int, bytes, int]], np.ndarray]:
        width = int(self.buckets.max(initial=0)) + 1
        numbers = self.indices.astype(np.int64) * width + self.buckets
        order, distinct, starts = _group(numbers, len(self.partitions) * width)
        targets = []
        for number in distinct.tolist():
            index, bucket = divmod(number, width)
            partition = self.partitions[index]
            targets.append((owner_of(partition, bucket, owners), partition, bucket))
        return order, targets, starts

    def _new_hashes(self, rows: np.ndarray | slice) -> bytes:
        if self.hashes is None or self.is_new is None:
            return b""
        hashes = self.hashes[rows][self.is_new[rows]]
        return unique(hashes).tobytes() if len(hashes) else b""


class Router:
    """Splits rows of a table with fixed buckets by owner and bucket.

    Args:
        schema: the table's schema.

    Raises:
        UnsupportedError: the table has dynamic buckets (``bucket = -1``): owners assign them.
    """

    def __init__(self, schema: TableSchema) -> None:
        if schema.core.bucket < 1:
            raise UnsupportedError(
                f"rows of a table with bucket={schema.core.bucket} have no bucket of their own: "
                "the table's owners assign one",
                bucket=schema.core.bucket,
            )
        self.schema = schema
        self._partitions = PartitionSpec(schema)
        self._bucket_types = schema.types(schema.bucket_keys)

    def buckets(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray:
        """Find the bucket of each row: int32, one a row."""
        core = self.schema.core
        if core.bucket == 1:
            return np.zeros(rows.num_rows, np.int32)
        return self._hashed(rows, core.bucket)

    def routing(
        self, rows: pa.Table | pa.RecordBatch, totals: Mapping[bytes, int] | None = None
    ) -> RowRouting:
        """Find where rows go.

        Args:
            totals: the number of buckets of partitions that have another than the table.
        """
        indices, partitions = self._partitions.encode(rows)
        buckets = self.buckets(rows)
        for index, partition in enumerate(partitions if totals else ()):
            if totals and partition in totals:
                at = np.flatnonzero(indices == index)
                buckets[at] = self._hashed(rows.take(pa.array(at)), totals[partition])
        return RowRouting(indices, partitions, buckets, totals=totals or {})

    def _hashed(self, rows: pa.Table | pa.RecordBatch, total: int) -> np.ndarray:
        keys = [rows.column(name) for name in self.schema.bucket_keys]
        function = self.schema.core.bucket_function_type
        return assign_buckets(keys, self._bucket_types, total, function)


def _group(numbers: np.ndarray, bound: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Sort numbers, stably: their order (None when they are all one), the distinct ones, and where
    each of these starts."""
    if len(numbers) == 0 or (numbers[0] == numbers).all():
        return None, numbers[:1], np.array([0, len(numbers)])
    if bound <= 1 << 8:
        numbers = numbers.astype(np.uint8)
    elif bound <= 1 << 16:
        numbers = numbers.astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, ordered[starts], np.append(starts, len(numbers))


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
            assert self._router is not None
            return requests_of(keys, self._router.routing(keys, totals), self._owners)
        pieces = list(self._pieces(keys, by_bucket, by_partition))
        order = np.concatenate([rows for _, rows in pieces])
        slices, offset = [], 0
        for piece, rows in pieces:
            slices.append(Slice(*piece, offset, len(rows), b"", self._schema.core.bucket))
            offset += len(rows)
        asked = (_batch(keys, order), tuple(slices), order)
        return dict.fromkeys(range(self._owners), asked)

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


def requests_of(keys: pa.Table, routing: RowRouting, owners: int) -> dict[int, Request]:
    """Split keys into what each owner is asked."""
    requests = {}
    for owner, pieces in routing.positions(owners).items():
        order = joined([rows for _, rows in pieces])
        is_all = len(pieces) == 1 and len(order) == keys.num_rows
        batch = _batch(keys, None if is_all else order)
        requests[owner] = (batch, tuple(piece for piece, _ in pieces), order)
    return requests


def joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays, without a copy of one that is alone."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _batch(keys: pa.Table, order: np.ndarray | None) -> pa.RecordBatch:
    taken = keys if order is None else keys.take(pa.array(order))
    chunks = taken.to_batches()
    return chunks[0] if len(chunks) == 1 else taken.combine_chunks().to_batches()[0]
