"""Reads the metadata of Parquet files, and says why one cannot be read."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pkray.checksums import is_damaged
from pkray.errors import CorruptFileError, StorageError
from pkray.storage import block_checksums
from pkray.storage.block_checksums import BlockChecksums
from pkray.storage.local import explain
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet.footer import FOOTER_MARK

TAIL_BYTES = 16 << 10
"""The end of a file that is read at once; a footer is mostly smaller."""


def read_footer(file: pa.NativeFile) -> Any:
    """Read an open file's metadata, if it is as it was written.

    Raises:
        pa.ArrowInvalid: it is not.
    """
    size = file.size()
    tail = file.read_at(min(size, TAIL_BYTES), max(0, size - TAIL_BYTES))
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < length <= size:
        tail = file.read_at(length, size - length)
    if len(tail) >= length and is_damaged(tail[-length:], FOOTER_MARK):
        raise pa.ArrowInvalid("the checksum of its footer is wrong")
    return pq.read_metadata(pa.BufferReader(tail))


def checked(file: pa.NativeFile, metadata: Any) -> pa.NativeFile:
    """Check the open file as it is read, if pkray wrote it."""
    found = (metadata.metadata or {}).get(block_checksums.KEY.encode())
    if found is None:
        return file
    try:
        checksums = BlockChecksums.parse(found.decode())
    except ValueError as error:
        raise pa.ArrowInvalid(f"its checksums cannot be read: {error}") from None
    return block_checksums.checked(file, checksums)


def read_metadata(store: ObjectStore, path: str) -> Any:
    """Read a file's `pyarrow.parquet.FileMetaData`. Raises as `read_batches`."""
    with store.open_input(path) as file, explained(store.location(path)):
        return read_footer(file)


@contextlib.contextmanager
def explained(location: str) -> Iterator[None]:
    """Name the file in errors of reading, and say whether the disk or the file is damaged."""
    try:
        yield
    except (StorageError, MemoryError):
        raise
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error.__cause__, StorageError):
            raise error.__cause__ from None
        raise failure(location, error) from error


def _corrupt(location: str, error: BaseException) -> CorruptFileError:
    """The error for a data file whose bytes cannot be read."""
    reason = (str(error) or type(error).__name__).split("\n", 1)[0]
    return CorruptFileError(
        f"cannot read the data file {location!r}: {reason}; it is damaged or cut short: restore "
        "it from a copy, or roll the table back to a snapshot without it",
        path=location,
        reason=reason,
    )


def failure(location: str, error: BaseException) -> StorageError:
    """Make the error for a data file: of the disk, or of what the file holds."""
    if isinstance(error, OSError) and error.errno:
        return explain(error, "read", location)
    return _corrupt(location, error)
