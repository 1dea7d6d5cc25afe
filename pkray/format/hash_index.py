"""HASH index files: which keys a dynamic bucket has, as the hashes of their trimmed primary keys.

Source: "dynamic bucket" in Apache Paimon; a file is big-endian int32 values without a header.
"""

import re
import zlib

import numpy as np
import numpy.typing as npt

from pkray.errors import CorruptFileError
from pkray.format import paths
from pkray.format.index_file import HASH, IndexFileMeta, own_path
from pkray.storage.object_store import ObjectStore

Hashes = npt.NDArray[np.int32]

_FILE_TYPE = np.dtype(">i4")
_CHECKSUM = re.compile(r"-crc([0-9a-f]{8})$")


def unique(hashes: Hashes) -> Hashes:
    """Sort the hashes (int32) and drop duplicates; `np.unique` takes a hundred times as long."""
    ordered = np.sort(hashes)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def read_hashes(store: ObjectStore, file: IndexFileMeta) -> Hashes:
    """Read the hashes in a file, in its order: int32, one a key.

    Raises:
        MissingFileError: it is gone: the snapshots that name it have expired.
        CorruptFileError: it is not as long as its entry says, or not as it was written.
        UnsupportedError: it lies outside the table.
    """
    path = own_path(file)
    data = store.read(path)
    if len(data) != file.row_count * _FILE_TYPE.itemsize:
        raise CorruptFileError(
            f"hash index {path!r} has {len(data)} bytes, where its {file.row_count} hashes make "
            f"{file.row_count * _FILE_TYPE.itemsize}: it is damaged; restore it from a copy, or "
            "roll back to an earlier snapshot",
            path=path,
        )
    known = _CHECKSUM.search(file.file_name)
    if known is not None and int(known[1], 16) != zlib.crc32(data):
        raise CorruptFileError(
            f"hash index {path!r} has another checksum than its name says: it is damaged; restore "
            "it from a copy, or roll back to an earlier snapshot",
            path=path,
        )
    return np.frombuffer(data, _FILE_TYPE).astype(np.int32)


def write_hashes(store: ObjectStore, names: paths.FileNames, hashes: Hashes) -> IndexFileMeta:
    """Write a new file of these hashes (int32); its name ends in their checksum, as its format has
    none."""
    data = hashes.astype(_FILE_TYPE).tobytes()
    name = f"{names.index()}-crc{zlib.crc32(data):08x}"
    store.write(paths.index(name), data)
    return IndexFileMeta(
        index_type=HASH, file_name=name, file_size=len(data), row_count=len(hashes)
    )
