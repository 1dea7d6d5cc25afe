"""Rows set aside for a while: in memory first, then in unnamed files of the local disk."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, TypeVar

import pyarrow as pa

from pkray.options import TableOptions
from pkray.storage.owned_directory import default_local_directory
from pkray.storage.private_files import not_kept, private_directory

T = TypeVar("T")


@dataclass(frozen=True)
class SpillSettings:
    """The settings for rows that are set aside.

    Args:
        memory_bytes: rows up to this size stay in memory. Source: ``sort-spill-buffer-size``.
        codec: of rows on disk, ``zstd``, ``lz4`` or ``none``. Source: ``spill-compression``.
        level: of zstd. Source: ``spill-compression.zstd-level``.
        directory: on the local disk; by default of this user, in the temporary directory.
    """

    memory_bytes: int
    codec: str = "zstd"
    level: int = 1
    directory: str | None = None

    @classmethod
    def from_options(cls, options: TableOptions, directory: str | None = None) -> SpillSettings:
        return cls(
            options.sort_spill_buffer_size,
            options.spill_compression,
            options.spill_compression_zstd_level,
            directory,
        )


class Spill:
    """Lists of batches that share a limit on what they hold in memory.

    What is on disk has no name there: it is gone with the last reference, or with the process.

    Attributes:
        memory_bytes: that all lists hold in memory.
    """

    def __init__(self, settings: SpillSettings) -> None:
        self._settings = settings
        self.memory_bytes = 0

    def open(self) -> SpilledBatches:
        return SpilledBatches(self)

    def _admits(self, rows: pa.RecordBatch) -> bool:
        if self.memory_bytes + rows.nbytes > self._settings.memory_bytes:
            return False
        self.memory_bytes += rows.nbytes
        return True

    def _release(self, size: int) -> None:
        self.memory_bytes -= size

    def _file(self) -> IO[bytes]:
        directory = self._settings.directory or default_local_directory()
        return tempfile.TemporaryFile(dir=private_directory(directory))

    def _guarded(self, work: Callable[[], T]) -> T:
        where = self._settings.directory or tempfile.gettempdir()
        try:
            return work()
        except MemoryError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise not_kept("set rows aside in", where, error) from error

    def _write_options(self) -> pa.ipc.IpcWriteOptions:
        codec = self._settings.codec
        if codec == "none":
            return pa.ipc.IpcWriteOptions()
        level = self._settings.level if codec == "zstd" else None
        return pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, level))


class SpilledBatches:
    """Batches of one schema, to be read in the order they came.

    Attributes:
        rows: how many, over all batches.
        nbytes: what they take in memory.
        disk_bytes: what is on disk.
    """

    def __init__(self, spill: Spill) -> None:
        self.rows = 0
        self.nbytes = 0
        self.disk_bytes = 0
        self._spill = spill
        self._memory: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, rows: pa.RecordBatch) -> None:
        """Take a batch.

        Raises:
            StorageFullError: the local disk is full.
            StorageError: it cannot be written.
        """
        self.rows += rows.num_rows
        self.nbytes += rows.nbytes
        if self._file is None and self._spill._admits(rows):
            self._memory.append(rows)
        else:
            self._spill._guarded(lambda: self._write(rows))

    def finish(self) -> SpilledBatches:
        """Close the file: no more batches come."""
        if self._writer is not None:
            self._spill._guarded(self._writer.close)
            self._writer = None
        return self

    def read_again(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and keep them."""
        yield from self._memory
        if self._file is not None:
            yield from self._stored()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, once: what has been read is let go."""
        for rows in self._memory:
            self._spill._release(rows.nbytes)
        while self._memory:
            yield self._memory.pop(0)
        if self._file is not None:
            yield from self._stored()
            self.close()

    def _stored(self) -> Iterator[pa.RecordBatch]:
        reader = self._spill._guarded(self._open)
        for number in range(reader.num_record_batches):
            yield self._spill._guarded(partial(reader.get_batch, number))

    def close(self) -> None:
        """Let all of it go."""
        self._spill._release(sum(rows.nbytes for rows in self._memory))
        self._memory = []
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._writer is None:
            self._file = self._spill._file()
            sink = pa.PythonFile(self._file, mode="w")
            options = self._spill._write_options()
            self._writer = pa.ipc.new_file(sink, rows.schema, options=options)
        self._writer.write_batch(rows)
        assert self._file is not None
        self.disk_bytes = self._file.tell()

    def _open(self) -> pa.ipc.RecordBatchFileReader:
        assert self._file is not None
        self._file.flush()
        self._file.seek(0)
        return pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
