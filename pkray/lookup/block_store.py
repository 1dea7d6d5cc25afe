"""RocksDB as a store of blocks: one column family a data file, loaded in bulk, read one by one."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from rocksdict import (
    BlockBasedOptions,
    ChecksumType,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
)

from pkray.storage.private_files import private_directory

INDEX_BYTES_PER_ENTRY = 16
"""Memory RocksDB takes for finding a block, about."""
READAHEAD_BYTES = 128 << 10
"""What Linux reads ahead at most for one request."""


def _options() -> Options:
    # One entry a RocksDB block: a batch of random keys would read the rest of a larger one in vain.
    # No block cache: blocks come from the page cache, and a cache that random keys thrash costs a
    # third of a batch lookup. Mapped files save a third of it; `BlockFile` sees to it that what is
    # mapped is there, as reading beyond the end of a file that was cut short is a signal.
    blocks = BlockBasedOptions()
    blocks.disable_cache()
    blocks.set_block_size(1)
    # A search of the index ends among neighbours, which then share a line of the processor's cache.
    blocks.set_index_block_restart_interval(4)
    blocks.set_format_version(5)
    blocks.set_checksum_type(ChecksumType.xxh3())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.none())
    options.set_disable_auto_compactions(True)
    options.set_keep_log_file_num(1)
    options.set_use_fsync(False)
    options.set_allow_mmap_reads(True)
    return options


class LocalDiskError(Exception):
    """The lookup store's local disk is full, damaged or gone."""


class BlockFile:
    """The blocks of one data file, by their keys. Readable until the last reader lets go of it."""

    def __init__(self, name: str, family: Rdict, inode: BinaryIO, size: int) -> None:
        self.name = name
        self.size = size
        """Bytes on disk."""
        self._family = family
        self._inode = inode

    def get(self, keys: list[bytes]) -> list[bytes]:
        """Read the values of keys.

        Raises:
            LocalDiskError: a block is missing or damaged, or the disk fails.
        """
        if os.fstat(self._inode.fileno()).st_size != self.size:
            raise LocalDiskError(f"the blocks of {self.name} were cut short")
        get: Any = self._family.get
        try:
            values = [get(key) for key in keys]  # a tenth faster than all in one call
        except Exception as error:
            raise LocalDiskError(str(error)) from error
        if None in values:
            raise LocalDiskError(f"{values.count(None)} blocks of {self.name} are gone")
        return values


class BlockStore:
    """Blocks on the local disk. Nothing in it survives its process, or needs to.

    Raises:
        LocalDiskError: the disk refuses.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = map(str, itertools.count(1))
        self._lock = threading.Lock()
        folder = _guarded(private_directory, directory / "rocksdb")
        self._database: Rdict = _guarded(Rdict, folder, _options())

    def load(self, entries: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> BlockFile:
        """Load entries in bulk, as the blocks of one file.

        Args:
            entries: keys and values, all keys ascending.

        Raises:
            LocalDiskError: the disk is full or fails.
        """
        name = next(self._names)
        path = self._directory / f"{name}.sst"
        try:
            return self._load(name, str(path), entries)
        finally:
            path.unlink(missing_ok=True)

    def _load(
        self, name: str, path: str, entries: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> BlockFile:
        writer = _guarded(SstFileWriter, _options())
        _guarded(writer.open, path)
        for keys, values in entries:
            _guarded(_put_all, writer, keys, values)
        _guarded(writer.finish)
        inode = _guarded(Path(path).open, "rb")
        _guarded(_warm, path)
        with self._lock:
            return self._ingest(name, path, inode)

    def _ingest(self, name: str, path: str, inode: BinaryIO) -> BlockFile:
        size = os.fstat(inode.fileno()).st_size
        family = _guarded(self._database.create_column_family, name, _options())
        moving = IngestExternalFileOptions()
        moving.set_move_files(True)
        try:
            _guarded(family.ingest_external_file, [path], moving)
        except LocalDiskError:
            self._database.drop_column_family(name)
            raise
        reading = ReadOptions()
        reading.set_verify_checksums(True)
        family.set_read_options(reading)
        Path(path).unlink(missing_ok=True)
        if os.fstat(inode.fileno()).st_nlink == 0:  # copied: the file system has no hard links
            inode = _guarded(self._newest().open, "rb")
        return BlockFile(name, family, inode, size)

    def _newest(self) -> Path:
        return max((self._directory / "rocksdb").glob("*.sst"), key=lambda path: path.name)

    def drop(self, file: BlockFile) -> None:
        """Free the file's disk space, once nobody reads it any more."""
        with self._lock:
            _guarded(self._database.drop_column_family, file.name)

    def close(self) -> None:
        _guarded(self._database.close)


def _put_all(writer: SstFileWriter, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    put = writer.__setitem__
    for key, value in zip(keys, values, strict=True):
        put(key, value)


def _warm(path: str) -> None:
    """Bring a file back to the page cache, from which RocksDB drops what it has written."""
    if not hasattr(os, "posix_fadvise"):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for offset in range(0, os.fstat(descriptor).st_size, READAHEAD_BYTES):
            os.posix_fadvise(descriptor, offset, READAHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)


def _guarded(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call rocksdict, and turn the plain Exceptions that it raises into `LocalDiskError`."""
    try:
        return call(*arguments)
    except Exception as error:
        raise LocalDiskError(str(error)) from error
