"""Read data files without the rows that deletion vectors mark.

The vectors leave one row a key above level 0: files are read one by one there, and nothing is
merged.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.lsm.levels import Vectors
from pkray.lsm.merge.merge_function import without_deletes
from pkray.lsm.merge.merge_read import READ_ROWS
from pkray.schema.table_schema import KIND
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
        """Read a file's key-value rows that are left, in key order."""
        deleted = self._vectors.get(file.file_name)
        return self._files.read(
            file, columns, batch_rows=batch_rows, batch_bytes=batch_bytes, deleted=deleted
        )


def raw_read(
    files: Iterable[DataFileMeta],
    reader: MarkedFileReader,
    vectors: Vectors,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some files above level 0, file after file, each in key order.

    Args:
        vectors: rows of the files that are gone.
        columns: of the rows yielded.
    """
    live = LiveRows(reader, vectors)
    wanted = list(columns)
    for file in files:
        extra = [KIND] if file.delete_row_count != 0 and KIND not in wanted else []
        for rows in live.read(file, [*wanted, *extra]):
            kept = without_deletes(rows)
            if kept.num_rows:
                yield kept.select(wanted) if extra else kept
