"""A data file's rows as plain columns on the local disk: for reading all of them again and again.

Old rows of many keys are found fastest by reading a whole file; from Parquet most of that time
goes into decompression and decoding. Here a column's values are used where they lie in the page
cache.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pyarrow as pa

from pkray.lookup.block_store import LocalDiskError

CHUNK_ROWS = 64 << 10
CHUNK_BYTES = 4 << 20
"""A chunk is mapped while its rows are used: both bound it."""
WRITE_BYTES = 256 << 10
"""A larger write takes large pages of the page cache. On a virtual machine these were memory that
had not been used lately, at ten times the cost."""
SECTOR_BYTES = 512


class ArrowCopy:
    """Chunks of rows, each an Arrow message. Readable until the last reader lets go of it.

    Its file has no name on the disk: nobody can cut it short while it is mapped, and it is gone
    with the last reference, or with the process.

    Attributes:
        schema: of the rows.
        size: bytes on disk.
    """

    def __init__(self, schema: pa.Schema, file: IO[bytes], chunks: Sequence[_Chunk]) -> None:
        self.schema = schema
        self.size = chunks[-1].end
        self._file = file
        self._chunks = chunks

    @classmethod
    def build(cls, directory: Path, batches: Iterable[pa.RecordBatch]) -> ArrowCopy | None:
        """Copy a file's rows; None if it has none.

        Raises:
            LocalDiskError: the disk is full or fails.
        """
        writer = ArrowCopyWriter(directory)
        for rows in batches:
            writer.write(rows)
        return writer.finish()

    def holds(self, columns: Sequence[str]) -> bool:
        return set(columns) <= set(self.schema.names)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, in file order.

        Raises:
            LocalDiskError: chunks are damaged or gone.
        """
        names = list(columns)
        for chunk in self._chunks:
            yield chunk.read(self._file, self.schema).select(names)


class ArrowCopyWriter:
    """Takes the rows of a copy, batch after batch.

    Raises:
        LocalDiskError: by all methods: the disk is full or fails.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._schema: pa.Schema | None = None
        self._chunks: list[_Chunk] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        step = max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows.num_rows // max(1, rows.nbytes)))
        try:
            for start in range(0, rows.num_rows, step):
                self._write(rows.slice(start, step))
        except MemoryError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise LocalDiskError(str(error)) from error

    def finish(self) -> ArrowCopy | None:
        """Finish the copy; None without rows."""
        if self._file is None or self._schema is None:
            return None
        try:
            self._file.flush()
        except OSError as error:
            raise LocalDiskError(str(error)) from error
        return ArrowCopy(self._schema, self._file, self._chunks)

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=self._directory)  # noqa: SIM115
            self._schema = rows.schema
        message = rows.serialize()
        start = -(-self._file.tell() // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._file.seek(start)
        for at in range(0, message.size, WRITE_BYTES):
            self._file.write(message[at : at + WRITE_BYTES])
        self._chunks.append(_Chunk(start, message.size, _checksum(message)))


class _Chunk:
    """The place of a message in the file."""

    def __init__(self, start: int, size: int, checksum: int) -> None:
        self._start = start
        self._size = size
        self._checksum = checksum

    @property
    def end(self) -> int:
        return self._start + self._size

    def read(self, file: IO[bytes], schema: pa.Schema) -> pa.RecordBatch:
        """Map the rows, for as long as they are used."""
        try:
            place = mmap.mmap(
                file.fileno(), self._size, offset=self._start, access=mmap.ACCESS_READ
            )
        except (OSError, ValueError) as error:
            raise LocalDiskError(str(error)) from error
        message = pa.py_buffer(place)
        if _checksum(message) != self._checksum:
            raise LocalDiskError(f"a local copy is damaged before byte {self.end}")
        return pa.ipc.read_record_batch(message, schema)


def _checksum(message: pa.Buffer) -> int:
    """Sum a word of each sector: what disks lose, they lose by the sector."""
    words = np.frombuffer(message, np.uint64, message.size // 8)
    return int(words[:: SECTOR_BYTES // 8].sum())
