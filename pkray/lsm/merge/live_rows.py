"""Data files less the rows that deletion vectors mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.lsm.levels import Vectors
from pkray.lsm.merge.merge_read import READ_ROWS
from pkray.storage.parquet.reader import BATCH_BYTES


class MarkedFileReader(Protocol):
    """Reads key-value rows of one file (``DataFileStore``)."""

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = ...,
        batch_bytes: int = ...,
        deleted: DeletionVector | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...


class LiveRows:
    """Reads files as if the rows marked deleted were not there.

    Args:
        vectors: of the files; those without one are read whole.
    """

    def __init__(self, files: MarkedFileReader, vectors: Vectors) -> None:
        self._files = files
        self._vectors = vectors

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = READ_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """A file's key-value rows that are left, in key order."""
        deleted = self._vectors.get(file.file_name)
        return self._files.read(
            file, columns, batch_rows=batch_rows, batch_bytes=batch_bytes, deleted=deleted
        )
