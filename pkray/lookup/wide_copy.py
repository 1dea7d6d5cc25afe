"""A data file's rows in the block store as plain columns: for reading all of them again and again.

Old rows of many keys are found fastest by reading a whole file; from Parquet most of that time
goes into decompression and decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.lookup.block_store import BlockFile, BlockStore
from pkray.lookup.cached_file import Entries, block_keys

CHUNK_ROWS = 64 << 10
CHUNK_BYTES = 4 << 20
"""A chunk is one value of the store: both bound it."""


class WideCopy:
    """Chunks of rows, each an Arrow message.

    Args:
        schema: of the rows.
        chunks: how many there are.
    """

    def __init__(self, schema: pa.Schema, blocks: BlockFile, chunks: int) -> None:
        self.schema = schema
        self.blocks = blocks
        self._chunks = chunks

    @classmethod
    def build(cls, store: BlockStore, batches: Iterable[pa.RecordBatch]) -> WideCopy | None:
        """Copy a file's rows into the store; None if it has none.

        Raises:
            LocalDiskError: the disk is full or fails.
        """
        encoder = _Encoder(batches)
        blocks = store.load(encoder.entries())
        if encoder.schema is None:
            store.drop(blocks)
            return None
        return cls(encoder.schema, blocks, encoder.chunks)

    def holds(self, columns: Sequence[str]) -> bool:
        return set(columns) <= set(self.schema.names)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, in file order.

        Raises:
            LocalDiskError: chunks are damaged or gone.
        """
        names = list(columns)
        for chunk in range(self._chunks):
            (value,) = self.blocks.get(block_keys(np.array([chunk])))
            yield pa.ipc.read_record_batch(pa.py_buffer(value), self.schema).select(names)


class _Encoder:
    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.schema: pa.Schema | None = None
        self.chunks = 0

    def entries(self) -> Iterator[Entries]:
        for rows in self._batches:
            if not rows.num_rows:
                continue
            self.schema = rows.schema
            step = max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows.num_rows // max(1, rows.nbytes)))
            parts = [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
            numbers = np.arange(self.chunks, self.chunks + len(parts))
            self.chunks += len(parts)
            yield block_keys(numbers), [part.serialize().to_pybytes() for part in parts]
