"""Read parts of what changed, each by one task; of some keys by their rows before and after.

What a bucket held at a snapshot is read, and what a partition held at two is compared, too.
"""

import atexit
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
import pyarrow as pa

from pkray import spans
from pkray.changelog.request import ChangeRequest
from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import IndexFileMeta
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import ROWS_SCANNED_PER_KEY, LookupStore
from pkray.lsm.compaction.changelog_rows import differences
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import Deduplicate, merge_engine
from pkray.lsm.keys.key_groups import KeyGroups, RowOrder
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import without_deletes
from pkray.lsm.merge.merge_read import LiveRows, merge_read
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.metadata.live import unless_expired
from pkray.metadata.schemas import unless_dropped
from pkray.scan.split import Split
from pkray.schema.row_kind import DELETE, INSERT
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.owned_directory import default_local_directory


@dataclass(frozen=True)
class BucketState:
    """The files of one bucket; it pickles.

    Args:
        partition: as manifests hold it.
        vector_files: the bucket's index files of deletion vectors.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    vector_files: tuple[IndexFileMeta, ...] = ()

    def levels(self, store: ObjectStore) -> Levels:
        """Make sorted runs of the files, and read which of their rows are deleted."""
        names = {file.file_name for file in self.files}
        vectors = read_vectors(store, self.vector_files, names)
        return Levels(self.files, vectors, tuple(file.file_name for file in self.vector_files))

    def rows(
        self, store: ObjectStore, schema: TableSchema, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read the merged rows, in key order, in bounded memory."""
        levels = self.levels(store)
        files = DataFileStore(store, schema, self.partition, self.bucket)
        reader = LiveRows(files, levels.vectors)
        engine = merge_engine(schema)
        yield from merge_read(levels.runs(), reader, engine, schema, list(columns))


def difference(
    store: ObjectStore,
    schema: TableSchema,
    before: Sequence[BucketState],
    after: Sequence[BucketState],
    *,
    show_old: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read two states of a partition, and yield the rows in which they differ, in key order.

    A key may have moved from one bucket to another. Rows have ``_VALUE_KIND`` and all value
    columns.

    Args:
        before, after: of buckets of one partition.
        show_old: with -U.
    """
    columns = [KIND, *schema.names]
    streams = [state.rows(store, schema, columns) for state in (*before, *after)]
    order, limits = RowOrder(schema, by_user_sequence=False), MergeLimits.from_options(schema.core)
    for groups, source in group_sorted(streams, order, limits):
        is_old = source < len(before)
        old, new = _row_of_key(groups, is_old), _row_of_key(groups, ~is_old)
        yield differences(groups.rows, old, new, show_old=show_old)


def _row_of_key(groups: KeyGroups, chosen: np.ndarray) -> np.ndarray:
    """Return the number of each key's row among those chosen; -1 where it has none."""
    found = np.full(len(groups), -1)
    of_key = chosen[groups.order]
    found[groups.group_of_row()[of_key]] = groups.order[of_key]
    return found


@dataclass(frozen=True)
class ChangeSplit(ABC):
    """A part of a snapshot's changes, or of its contents; it pickles.

    Args:
        partition: as manifests hold it.
        bucket: None: of several buckets of the partition.
    """

    request: ChangeRequest
    snapshot_id: int
    partition: bytes
    bucket: int | None

    def read(self, store: ObjectStore | None = None) -> Iterator[pa.RecordBatch]:
        """Read batches of ``_row_kind``, ``_snapshot_id`` and the columns, in bounded memory.

        Changes of one key come in their order.

        Raises:
            SnapshotNotFoundError: the snapshot has expired meanwhile.
            TableReplacedError, TableNotFoundError: the table was dropped meanwhile.
        """
        place = self.request.location
        table = None if place is None else place.name
        return spans.over("changes", self._read(store), table=table, bucket=self.bucket)

    def _read(self, store: ObjectStore | None) -> Iterator[pa.RecordBatch]:
        store = store or self.request.open()
        with unless_dropped(self.request.location), unless_expired(store, self.snapshot_id):
            for rows in self._rows(store):
                if rows.num_rows:
                    yield rows

    @property
    @abstractmethod
    def row_count(self) -> int:
        """Count the rows in the files it reads: it has about so many changes at most."""

    def by_files(self) -> Sequence[Self]:
        """Split it into its files, in their order, where none of them needs another one."""
        return [self]

    @abstractmethod
    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class ContentSplit(ChangeSplit):
    """Rows of the table as a snapshot has it, +I each."""

    split: Split

    @property
    def row_count(self) -> int:
        return self.split.row_count

    def by_files(self) -> list[Self]:
        return [replace(self, split=split) for split in self.split.by_files()]

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        for rows in self.split.read(store):
            yield self.request.labelled(rows, self.snapshot_id, INSERT)


@dataclass(frozen=True)
class BucketStateSplit(ChangeSplit):
    """A bucket's rows merged over all levels, +I each."""

    state: BucketState

    @property
    def row_count(self) -> int:
        return _count(self.state.files)

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        for rows in self.state.rows(store, self.request.schema, self.request.needed):
            yield self.request.labelled(rows, self.snapshot_id, INSERT)


@dataclass(frozen=True)
class ChangelogSplit(ChangeSplit):
    """Changelog files of a bucket."""

    files: tuple[DataFileMeta, ...]

    @property
    def row_count(self) -> int:
        return _count(self.files)

    def by_files(self) -> list[Self]:
        return [replace(self, files=(file,)) for file in self.files]

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        assert self.bucket is not None
        source = DataFileStore(store, self.request.schema, self.partition, self.bucket)
        for file in self.files:
            for rows in source.read(file, [KIND, *self.request.needed]):
                yield self.request.labelled(rows, self.snapshot_id)


@dataclass(frozen=True)
class DeltaSplit(ChangeSplit):
    """Data files that writers added to a bucket: merged by key within themselves."""

    files: tuple[DataFileMeta, ...]

    @property
    def row_count(self) -> int:
        return _count(self.files)

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        assert self.bucket is not None
        schema = self.request.schema
        source = DataFileStore(store, schema, self.partition, self.bucket)
        for rows in merge_read(
            Levels(self.files).runs(),
            source,
            merge_engine(schema),
            schema,
            [KIND, *self.request.needed],
            drop_deletes=False,
        ):
            yield self.request.labelled(rows, self.snapshot_id)


@dataclass(frozen=True)
class OverwriteSplit(ChangeSplit):
    """The changes of an overwrite in one partition: -D of all that it removed, then +I of its
    own."""

    before: tuple[BucketState, ...]
    after: tuple[BucketState, ...]

    @property
    def row_count(self) -> int:
        return sum(_count(state.files) for state in (*self.before, *self.after))

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        for states, kind in ((self.before, DELETE), (self.after, INSERT)):
            for state in states:
                for rows in state.rows(store, self.request.schema, self.request.needed):
                    yield self.request.labelled(rows, self.snapshot_id, kind)


@dataclass(frozen=True)
class DifferenceSplit(ChangeSplit):
    """The rows in which two states of a partition's buckets differ.

    Args:
        show_old: with -U.
    """

    before: tuple[BucketState, ...]
    after: tuple[BucketState, ...]
    show_old: bool = True

    @property
    def row_count(self) -> int:
        return sum(_count(state.files) for state in (*self.before, *self.after))

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        schema = self.request.schema
        for rows in difference(store, schema, self.before, self.after, show_old=self.show_old):
            yield self.request.labelled(rows, self.snapshot_id)


@dataclass(frozen=True)
class NormalizedSplit(ChangeSplit):
    """The rows in which two states of a bucket differ, for the keys that some files have.

    Args:
        touched: these files.
        before, after: the bucket, with what it had and what it has.
    """

    touched: tuple[DataFileMeta, ...]
    before: BucketState
    after: BucketState

    @property
    def row_count(self) -> int:
        return 2 * _count(self.touched)

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        schema = self.request.schema
        for rows in key_changes(store, schema, self.touched, self.before, self.after):
            yield self.request.labelled(rows, self.snapshot_id)


def _count(files: Sequence[DataFileMeta]) -> int:
    return sum(file.row_count for file in files)


def key_changes(
    store: ObjectStore,
    schema: TableSchema,
    touched: Sequence[DataFileMeta],
    before: BucketState,
    after: BucketState,
) -> Iterator[pa.RecordBatch]:
    """Look the keys of some files up in two states of a bucket, and yield the rows that differ.
    Rows have ``_VALUE_KIND`` and all value columns, in key order.

    Few keys are looked up, many are found by reading the bucket once; see `_Rows`.

    Args:
        touched: files of the bucket whose keys may have changed.
    """
    files = DataFileStore(store, schema, before.partition, before.bucket)
    states = [_Rows(files, state.levels(store)) for state in (before, after)]
    columns = [KIND, *schema.names]
    keys_of_touched = merge_read(
        Levels(touched).runs(),
        files,
        Deduplicate(),
        schema,
        list(schema.trimmed_primary_keys),
        drop_deletes=False,
    )
    for keys in keys_of_touched:
        (old, old_rows), (new, new_rows) = (state.find(keys) for state in states)
        both = pa.concat_tables([old_rows.select(columns), new_rows.select(columns)])
        new = np.where(new >= 0, new + old_rows.num_rows, -1)
        for rows in both.combine_chunks().to_batches():
            yield differences(rows, old, new)


class _Rows:
    """A bucket's rows by key.

    Keys that are few compared with the rows are looked up: that copies each file to the local disk
    when it is first asked (``lookup.cache-max-disk-size``, ``lookup.cache-max-memory-size``,
    ``lookup.cache-file-retention``). Else the bucket is read, once, in key order.
    """

    def __init__(self, files: DataFileStore, levels: Levels) -> None:
        self._files = files
        self._levels = levels
        self._engine = merge_engine(files.schema)
        self._order = RowOrder(files.schema)
        self._scan = ScanLookup(files.schema, LiveRows(files, levels.vectors), self._engine)

    def find(self, keys: pa.RecordBatch) -> tuple[np.ndarray, pa.Table]:
        """Find rows by key: the number of each key's row, -1 where it has none, and the rows.

        Args:
            keys: distinct, beyond those asked for before.
        """
        if keys.num_rows * ROWS_SCANNED_PER_KEY < self._levels.row_count:
            schema = self._files.schema
            cache = _cache(CopyLimits.from_options(schema.core))
            lookup = BucketLookup(cache, self._files, schema, self._engine)
            found, rows = lookup.find(self._levels, keys, [KIND, *schema.names])
            numbers = np.full(keys.num_rows, -1)
            numbers[found] = np.arange(rows.num_rows)
            return numbers, rows
        batch = without_deletes(self._scan.find(keys, self._levels.runs()))
        places, hit = self._order.keys(batch).search(self._order.keys(keys))
        return np.where(hit, places, -1), pa.Table.from_batches([batch])


@lru_cache
def _cache(limits: CopyLimits) -> LookupStore:
    """Return the copies that this process shares: data files never change."""
    cache = LookupStore(f"{default_local_directory()}/changes", limits, clock=now_millis)
    atexit.register(cache.close)
    return cache
