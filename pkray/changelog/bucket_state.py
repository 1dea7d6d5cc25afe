"""What a bucket held at a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import IndexFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge.live_rows import LiveRows
from pkray.lsm.merge.merge_read import merge_read
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True)
class BucketState:
    """The files of one bucket; it pickles.

    Args:
        partition: as manifests hold it.
        vector_files: the bucket's index files of deletion vectors.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    vector_files: tuple[IndexFileMeta, ...] = ()

    def levels(self, store: ObjectStore) -> Levels:
        """The sorted runs, with the rows of them that are gone."""
        names = {file.file_name for file in self.files}
        vectors = read_vectors(store, self.vector_files, names)
        return Levels(self.files, vectors, tuple(file.file_name for file in self.vector_files))

    def rows(
        self, store: ObjectStore, schema: TableSchema, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Merged, in key order, in bounded memory."""
        levels = self.levels(store)
        files = DataFileStore(store, schema, self.partition, self.bucket)
        reader = LiveRows(files, levels.vectors)
        engine = merge_engine(schema)
        yield from merge_read(levels.runs(), reader, engine, schema, list(columns))
