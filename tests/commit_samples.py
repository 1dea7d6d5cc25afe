"""Schemas, files and stores for the tests of commits."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from pkray.errors import StorageError
from pkray.format import binary_row
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta, SimpleStats
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore
from tests.delegating_store import DelegatingStore
from tests.lsm_samples import file_of

UNPARTITIONED = bytes(12)


def schema(partitioned: bool = False, **options: str) -> TableSchema:
    fields = [pa.field("k", pa.int64(), False), ("v", pa.string())]
    if partitioned:
        fields.append(pa.field("p", pa.string(), False))
    return TableSchema.create(
        pa.schema(fields),
        primary_keys=["k", "p"] if partitioned else ["k"],
        partition_keys=["p"] if partitioned else [],
        options={"bucket": "2"} | {k.replace("_", "-"): v for k, v in options.items()},
    )


@functools.cache
def key(value: int) -> bytes:
    types = schema().types(["k"])
    return binary_row.encode([pa.array([value], pa.int64())], types)[0].as_py()


def partition(value: str) -> bytes:
    types = schema(partitioned=True).types(["p"])
    return binary_row.encode([pa.array([value])], types)[0].as_py()


def data_file(
    name: str, level: int = 0, low: int = 0, high: int = 9, rows: int = 5
) -> DataFileMeta:
    stats = SimpleStats(key(low), key(high), (0,))
    counts = {"row_count": rows, "max_sequence_number": rows}
    keys = {"min_key": key(low), "max_key": key(high), "key_stats": stats, "value_stats": stats}
    return file_of(name, level, 100, **counts, **keys, creation_time=1, file_source=0)


def message(
    new: Iterable[DataFileMeta] = (),
    before: Iterable[DataFileMeta] = (),
    after: Iterable[DataFileMeta] = (),
    *,
    bucket: int = 0,
    part: bytes = UNPARTITIONED,
    total_buckets: int = 2,
    changelog: Iterable[DataFileMeta] = (),
    compact_changelog: Iterable[DataFileMeta] = (),
) -> CommitMessage:
    return CommitMessage(
        partition=part,
        bucket=bucket,
        total_buckets=total_buckets,
        new_files=tuple(new),
        changelog_files=tuple(changelog),
        compact_before=tuple(before),
        compact_after=tuple(after),
        compact_changelog_files=tuple(compact_changelog),
    )


class WrappedStore(DelegatingStore):
    """Another store, with its creations watched: `on_create` may act, fail or answer itself."""

    def __init__(
        self,
        inner: ObjectStore,
        on_create: Callable[[str, Callable[[], bool]], bool] = lambda path, create: create(),
        local: bool = True,
    ) -> None:
        super().__init__(inner)
        self.on_create = on_create
        self._local = local
        self.bytes_read = 0
        self.reads: list[str] = []
        self.before_read: Callable[[str], None] = lambda path: None

    def create(self, path: str, data: bytes) -> bool:
        return self.on_create(path, lambda: self.inner.create(path, data))

    def read(self, path: str) -> bytes:
        self.before_read(path)
        data = super().read(path)
        self.reads.append(path)
        self.bytes_read += len(data)
        return data

    def local_path(self, path: str) -> str | None:
        return self.inner.local_path(path) if self._local else None

    def fingerprint(self, path: str) -> Any:
        return object()  # never the same: nothing is kept in memory


def lose_answers(path: str, create: Callable[[], bool]) -> bool:
    """Every creation happens, and none is answered."""
    create()
    raise StorageError("connection reset")
