"""Read parts of what changed, each by one task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pkray.changelog.bucket_state import BucketState, difference
from pkray.changelog.key_changes import key_changes
from pkray.changelog.request import ChangeRequest
from pkray.format.data_file import DataFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_read import merge_read
from pkray.metadata.live import unless_expired
from pkray.scan.split import Split
from pkray.schema.row_kind import DELETE, INSERT
from pkray.schema.table_schema import KIND
from pkray.storage.object_store import ObjectStore


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
        """
        store = store or self.request.open()
        with unless_expired(store, self.snapshot_id):
            for rows in self._rows(store):
                if rows.num_rows:
                    yield rows

    @abstractmethod
    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class ContentSplit(ChangeSplit):
    """Rows of the table as a snapshot has it, +I each."""

    split: Split

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        for rows in self.split.read(store):
            yield self.request.labelled(rows, self.snapshot_id, INSERT)


@dataclass(frozen=True)
class BucketStateSplit(ChangeSplit):
    """A bucket's rows merged over all levels, +I each."""

    state: BucketState

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        for rows in self.state.rows(store, self.request.schema, self.request.needed):
            yield self.request.labelled(rows, self.snapshot_id, INSERT)


@dataclass(frozen=True)
class ChangelogSplit(ChangeSplit):
    """Changelog files of a bucket."""

    files: tuple[DataFileMeta, ...]

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

    def _rows(self, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        schema = self.request.schema
        for rows in key_changes(store, schema, self.touched, self.before, self.after):
            yield self.request.labelled(rows, self.snapshot_id)
