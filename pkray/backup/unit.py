"""The files of one table or query in a backup."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pkray.errors import CorruptFileError, MissingFileError
from pkray.storage.object_store import ObjectStore, ahead, below

TABLE = "table"
QUERY = "query"
_DIGEST_BYTES = 16
_CHUNK_BYTES = 8 << 20
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("digest", pa.binary(_DIGEST_BYTES)),
        ("content", pa.large_binary()),
    ]
)


class Unit(msgspec.Struct, frozen=True):
    """A table or a query of a backup.

    Attributes:
        kind: ``table`` or ``query``.
        name: of it.
        identity: tells it from others of its name.
        list: the file in which its files are listed, beside ``backup.json``.
        digest: of that list, 32 hexadecimal digits.
        files: how many it has.
        bytes: of all of them.
        savepoint: of a query, the one that it begins with when it is restored.
    """

    kind: str
    name: str
    identity: str
    list: str = ""
    digest: str = ""
    files: int = 0
    bytes: int = 0
    savepoint: str = ""

    @property
    def folder(self) -> str:
        """Name the folder of its files that are never rewritten."""
        return f"files/{self.kind}-{self.identity}/"


class Copied(NamedTuple):
    """Identifies a file as it was when it was copied: bytes, and a digest of 16 bytes."""

    size: int
    digest: bytes


def digest_of(data: bytes) -> bytes:
    """Compute the digest of a content: 16 bytes."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def copy(source: ObjectStore, path: str, target: ObjectStore, to: str) -> Copied:
    """Copy a file from store to store, in pieces of 8 MiB; it appears whole."""
    hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    size = 0
    with source.open_input(path) as file:
        out = target.open_output(to)
        try:
            while data := file.read(_CHUNK_BYTES):
                hasher.update(data)
                size += len(data)
                out.write(data)
            out.close()
        except BaseException:
            out.abort()
            raise
    return Copied(size, hasher.digest())


def look_at(store: ObjectStore, path: str) -> Copied:
    """Read a file, and compute its digest."""
    hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    size = 0
    with store.open_input(path) as file:
        while data := file.read(_CHUNK_BYTES):
            hasher.update(data)
            size += len(data)
    return Copied(size, hasher.digest())


def write_list(
    store: ObjectStore, path: str, small: Mapping[str, bytes], shared: Mapping[str, Copied]
) -> str:
    """Write the list of a unit's files; return its digest in hexadecimal digits."""
    small_digests = [digest_of(data) for data in small.values()]
    table = pa.table(
        [
            [*small, *shared],
            [*map(len, small.values()), *(each.size for each in shared.values())],
            [*small_digests, *(each.digest for each in shared.values())],
            pa.array([*small.values(), *[None] * len(shared)], pa.large_binary()),
        ],
        schema=_SCHEMA,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    store.write(path, data)
    return digest_of(data).hex()


class UnitFiles(NamedTuple):
    """The files of a unit.

    Attributes:
        small: content by path.
        shared: of files that are never rewritten, size and digest by path.
    """

    small: dict[str, bytes]
    shared: dict[str, Copied]

    def together(self) -> Iterator[tuple[str, Copied]]:
        """Yield all files, the small ones first."""
        for path, data in self.small.items():
            yield path, Copied(len(data), digest_of(data))
        yield from self.shared.items()


def read_list(store: ObjectStore, path: str, digest: str) -> UnitFiles:
    """Read the list of a unit's files.

    Args:
        digest: of the list as it was written.

    Raises:
        MissingFileError: it is gone.
        CorruptFileError: it is not as it was written.
    """
    data = store.read(path)
    if digest_of(data).hex() != digest:
        raise CorruptFileError(
            f"{store.location(path)} is damaged: it is not as it was written; use another backup",
            path=path,
        )
    table = pq.read_table(pa.BufferReader(data), schema=_SCHEMA)
    paths, sizes, digests, contents = (column.to_pylist() for column in table.columns)
    files = UnitFiles({}, {})
    for name, size, known, content in zip(paths, sizes, digests, contents, strict=True):
        if content is None:
            files.shared[below(name)] = Copied(size, known)
        else:
            files.small[below(name)] = content
    return files


def read_small(store: ObjectStore, paths: Iterable[str]) -> dict[str, bytes]:
    """Read small files that are there, side by side; those that went meanwhile are left out."""

    def read(path: str) -> tuple[str, bytes | None]:
        try:
            return path, store.read(path)
        except MissingFileError:
            return path, None

    return {path: data for path, data in ahead(store, read, paths) if data is not None}
