"""Which owner a row goes to: a pure function of its partition and bucket."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.format.bucket import assign_buckets
from pkray.format.partition import PartitionSpec
from pkray.schema import TableSchema
from pkray.service.protocol import RoutedBatch, Slice


def owner_of(partition: bytes, bucket: int, owners: int) -> int:
    """The owner's index: buckets of one partition go to owners in turn."""
    return (zlib.crc32(partition) + bucket) % owners


class Router:
    """Splits rows by owner and bucket.

    Args:
        schema: the table's schema.
        owners: how many owners share the buckets.

    Raises:
        UnsupportedError: the table has dynamic buckets (``bucket = -1``).
    """

    def __init__(self, schema: TableSchema, owners: int) -> None:
        if schema.core.bucket < 1:
            raise UnsupportedError(
                f"rows of a table with bucket={schema.core.bucket} cannot be routed: dynamic "
                "buckets are not supported; create the table with a fixed number of buckets",
                bucket=schema.core.bucket,
            )
        self.schema = schema
        self.owners = owners
        self._partitions = PartitionSpec(schema)
        self._bucket_types = schema.types(schema.bucket_keys)

    def buckets(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray:
        """The bucket of each row, int32."""
        core = self.schema.core
        if core.bucket == 1:
            return np.zeros(rows.num_rows, np.int32)
        keys = [rows.column(name) for name in self.schema.bucket_keys]
        return assign_buckets(keys, self._bucket_types, core.bucket, core.bucket_function_type)

    def route(self, rows: pa.RecordBatch) -> dict[int, RoutedBatch]:
        """Rows by owner, in arrival order within each bucket."""
        if rows.num_rows == 0:
            return {}
        codes, partitions = self._partitions.encode(rows)
        cells = codes.astype(np.int64) * self.schema.core.bucket + self.buckets(rows)
        order, cell_ids, starts = _group(cells, len(partitions) * self.schema.core.bucket)
        homes = [self._home(int(cell), partitions) for cell in cell_ids]
        return self._split(rows, order, homes, starts)

    def positions(self, keys: pa.Table) -> dict[int, list[tuple[Slice, np.ndarray]]]:
        """Row positions by owner, with the bucket they fall in."""
        codes, partitions = self._partitions.encode(keys)
        cells = codes.astype(np.int64) * self.schema.core.bucket + self.buckets(keys)
        order, cell_ids, starts = _group(cells, len(partitions) * self.schema.core.bucket)
        found: dict[int, list[tuple[Slice, np.ndarray]]] = {}
        for cell, start, end in zip(cell_ids, starts[:-1], starts[1:], strict=True):
            owner, partition, bucket = self._home(int(cell), partitions)
            rows = np.arange(start, end) if order is None else order[start:end]
            taken = sum(piece.length for piece, _ in found.get(owner, ()))
            piece = Slice(partition, bucket, taken, int(end - start))
            found.setdefault(owner, []).append((piece, rows))
        return found

    def _home(self, cell: int, partitions: Sequence[bytes]) -> tuple[int, bytes, int]:
        code, bucket = divmod(cell, self.schema.core.bucket)
        return owner_of(partitions[code], bucket, self.owners), partitions[code], bucket

    def _split(
        self,
        rows: pa.RecordBatch,
        order: np.ndarray | None,
        homes: Sequence[tuple[int, bytes, int]],
        starts: np.ndarray,
    ) -> dict[int, RoutedBatch]:
        routed: dict[int, RoutedBatch] = {}
        for owner in sorted({home[0] for home in homes}):
            slices: list[Slice] = []
            pieces: list[np.ndarray] = []
            offset = 0
            for (home, partition, bucket), start, end in zip(
                homes, starts[:-1], starts[1:], strict=True
            ):
                if home == owner:
                    length = int(end - start)
                    slices.append(Slice(partition, bucket, offset, length))
                    offset += length
                    if order is not None:
                        pieces.append(order[start:end])
            mine = rows if order is None else rows.take(pa.array(np.concatenate(pieces)))
            routed[owner] = RoutedBatch(mine, tuple(slices))
        return routed


def _group(cells: np.ndarray, bound: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Stable order by cell (None when they are all one), the cells, and where each starts."""
    if len(cells) == 0 or (cells[0] == cells).all():
        return None, cells[:1], np.array([0, len(cells)])
    if bound <= 1 << 8:
        cells = cells.astype(np.uint8)
    elif bound <= 1 << 16:
        cells = cells.astype(np.uint16)
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, ordered[starts], np.append(starts, len(cells))
