"""Rows of a data file that are gone, as a bitmap of their positions.

An index file of deletion vectors is a version byte, then for each vector the size of what follows
it but for the checksum, a magic number, a RoaringBitmap, and the CRC32 of magic number and bitmap.
Sizes and checksums are big-endian int32. The magic number says which bitmap: the 32-bit one
(big-endian magic number) or the 64-bit one (little-endian): a little-endian int64 count, then for
each high word a little-endian int32 and a 32-bit bitmap.

Source: Apache Paimon's "concepts/spec/tableindex"; ``deletion-vectors.bitmap64``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format.index_file import DeletionVectorRange

VERSION = 1
MAGIC = 1581511376
MAGIC_64 = 1681511377
MAX_POSITION = 2**32 - 1

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class DeletionVector:
    """Positions (0 is the first row) of a data file's rows that are gone. Immutable."""

    __slots__ = ("_bitmap",)

    def __init__(self, bitmap: BitMap) -> None:
        self._bitmap = bitmap

    @classmethod
    def from_positions(cls, positions: npt.NDArray[np.integer]) -> DeletionVector:
        """Make the vector of positions in any order: any whole numbers, one a row that is gone."""
        bitmap = BitMap(np.ascontiguousarray(positions, np.uint32))
        bitmap.run_optimize()
        return cls(bitmap)

    @property
    def positions(self) -> Ints:
        """Ascending."""
        return _array(self._bitmap)

    def within(self, first: int, count: int) -> Ints:
        """Take the positions from ``first`` to before ``first + count``, counted from ``first``."""
        found = self._bitmap & BitMap(range(first, first + count))
        return _array(found) - first

    def contains(self, positions: Ints) -> Bools:
        """Say of each position (any whole numbers) whether its row is gone: bool, one a
        position."""
        if not len(positions):
            return np.zeros(0, np.bool_)
        asked = BitMap(np.ascontiguousarray(positions, np.uint32))
        return np.isin(positions, _array(self._bitmap & asked))

    def __or__(self, other: DeletionVector) -> DeletionVector:
        bitmap = self._bitmap | other._bitmap
        bitmap.run_optimize()
        return DeletionVector(bitmap)

    def __len__(self) -> int:
        return len(self._bitmap)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletionVector) and bool(self._bitmap == other._bitmap)

    def __hash__(self) -> int:
        return hash((len(self._bitmap), *self._bitmap[:1]))

    def __repr__(self) -> str:
        return f"DeletionVector({len(self)} rows)"

    def to_bytes(self) -> bytes:
        """Encode the vector as it stands in an index file, size and checksum included."""
        body = struct.pack(">i", MAGIC) + self._bitmap.serialize()
        return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _array(bitmap: BitMap) -> Ints:
    return np.frombuffer(memoryview(bitmap.to_array()), np.uint32).astype(np.int64)


IndexBytes = tuple[bytes, tuple[DeletionVectorRange, ...]]
"""An index file, and where each vector lies in it."""


def write_index(vectors: Mapping[str, DeletionVector], target_size: int) -> Iterator[IndexBytes]:
    """Pack vectors by data file into index files.

    Args:
        target_size: a file with so many bytes gets no more vectors.
    """
    data, ranges = bytearray([VERSION]), []
    for name, vector in vectors.items():
        part = vector.to_bytes()
        ranges.append(DeletionVectorRange(name, len(data), len(part) - 8, len(vector)))
        data += part
        if len(data) >= target_size:
            yield bytes(data), tuple(ranges)
            data, ranges = bytearray([VERSION]), []
    if ranges:
        yield bytes(data), tuple(ranges)


def read_index(
    data: bytes, ranges: Iterable[DeletionVectorRange], path: str
) -> dict[str, DeletionVector]:
    """Read the vectors that lie at these ranges of an index file, by data file.

    Raises:
        CorruptFileError: the file is cut short, or its bytes are not as they were written.
        UnsupportedError: a bitmap of a kind that pkray does not know.
    """
    if not data or data[0] != VERSION:
        found = f"version {data[0]}" if data else "nothing"
        raise _corrupt(path, f"it begins with {found}, and {VERSION} was expected")
    return {each.data_file: _read_vector(data, each, path) for each in ranges}


def _read_vector(data: bytes, where: DeletionVectorRange, path: str) -> DeletionVector:
    start = where.offset + 4
    if where.offset < 1 or start + 8 > len(data):
        raise _corrupt(path, f"{len(data)} bytes end before the vector at byte {where.offset}")
    size = int.from_bytes(data[where.offset : start], "big", signed=True)
    # What counts as the length differs between the two kinds of bitmap.
    if size not in (where.length, where.length - 8):
        raise _corrupt(
            path, f"the vector at byte {where.offset} has {size} bytes, not {where.length}"
        )
    end = start + size
    body, checksum = data[start:end], data[end : end + 4]
    if len(checksum) < 4:
        raise _corrupt(path, f"{len(data)} bytes end within the vector at byte {where.offset}")
    if zlib.crc32(body) != int.from_bytes(checksum, "big"):
        raise _corrupt(path, f"the checksum of the vector at byte {where.offset} is wrong")
    try:
        vector = DeletionVector(_read_bitmap(body, path))
    except (ValueError, IndexError) as error:
        raise _corrupt(path, f"the vector at byte {where.offset}: {error}") from error
    if where.cardinality is not None and len(vector) != where.cardinality:
        raise _corrupt(
            path,
            f"the vector at byte {where.offset} has {len(vector)} rows, not {where.cardinality}",
        )
    return vector


def _read_bitmap(body: bytes, path: str) -> BitMap:
    if int.from_bytes(body[:4], "big") == MAGIC:
        return BitMap.deserialize(body[4:])
    if int.from_bytes(body[:4], "little") == MAGIC_64:
        wide = BitMap64.deserialize(body[4:])
        if wide and wide.max() > MAX_POSITION:
            raise UnsupportedError(
                f"the deletion vectors {path!r} name row {wide.max()}; files of more than 2**32 "
                "rows are not supported: compact the table with the engine that wrote them",
                path=path,
            )
        return BitMap(np.asarray(wide.to_array(), np.uint32))
    raise UnsupportedError(
        f"the deletion vectors {path!r} hold a bitmap of an unknown kind "
        f"({body[:4].hex()}): compact the table fully with the engine that wrote them",
        path=path,
    )


def _corrupt(path: str, reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"cannot read the deletion vectors {path!r}: {reason}; the file is damaged or cut short: "
        "restore it from a copy, or roll the table back to a snapshot without it",
        path=path,
        reason=reason,
    )
