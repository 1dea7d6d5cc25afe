"""Run the work on an owner's buckets, under the newest schema or each that somebody asks for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from pkray.errors import PartitionBucketsError, SchemaChangedError
from pkray.format.partition import PartitionSpec
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.store import LookupStore
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.compaction.compactor import Compactor
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.metadata.live import BucketId
from pkray.schema.row_schema_adapter import RowSchemaAdapter
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.job import CancellationToken, StoppableFiles
from pkray.service.compaction.policy import compacts_inline
from pkray.service.protocol import Slice
from pkray.service.schema_cache import SchemaCache, with_buckets
from pkray.storage.object_store import ObjectStore


class ReadContexts:
    """Keeps what reading under a schema needs.

    Args:
        store: the table's root.
        schemas: the table's schemas by id.
        cache: the owner's copies of data files.
        flushed_rows: rows that the owner flushed just now.
    """

    def __init__(
        self,
        store: ObjectStore,
        schemas: Callable[[int], TableSchema],
        cache: LookupStore,
        flushed_rows: FlushedRowsCache,
    ) -> None:
        self.flushed_rows = flushed_rows
        self._store = store
        self._schemas = schemas
        self._cache = cache
        self._files: dict[tuple[str, BucketId], DataFileStore] = {}
        self._lookups: dict[tuple[str, BucketId], BucketLookup] = {}
        self._evolutions: dict[tuple[str, str], RowSchemaAdapter | None] = {}

    def files(self, schema: TableSchema, bucket: BucketId) -> DataFileStore:
        """Make what reads and writes the files of a bucket under a schema."""
        key = (schema.digest, bucket)
        if key not in self._files:
            self._files[key] = DataFileStore(
                self._store, schema, *bucket, schemas=self._schemas, flushed_rows=self.flushed_rows
            )
        return self._files[key]

    def lookup(self, schema: TableSchema, bucket: BucketId) -> BucketLookup:
        """Make what looks a bucket's rows up under a schema."""
        key = (schema.digest, bucket)
        if key not in self._lookups:
            files, engine = self.files(schema, bucket), merge_engine(schema)
            self._lookups[key] = BucketLookup(self._cache, files, schema, engine)
        return self._lookups[key]

    def compaction_lookup(self, schema: TableSchema, bucket: BucketId) -> StoreLookup:
        """Make the lookup of old rows that compactions of the bucket need."""
        return StoreLookup(self._cache, schema, self.files(schema, bucket), merge_engine(schema))

    def incoming(self, schema_id: int, schema: TableSchema) -> RowSchemaAdapter | None:
        """Return what makes rows pushed under one schema those of another; None where they are.

        Raises:
            SchemaChangedError: the rows were spread over another number of buckets.
        """
        old = self._schemas(schema_id) if schema_id != schema.id else schema
        if old.core.bucket != schema.core.bucket:
            raise SchemaChangedError(
                f"the table has {schema.core.bucket} buckets now, and the rows were written for "
                f"{old.core.bucket}: load the table again, open a new writer and write them again",
                schema_id=schema_id,
                newest=schema.id,
            )
        return self.evolution(old, schema)

    def evolution(self, old: TableSchema, new: TableSchema) -> RowSchemaAdapter | None:
        """Return what makes rows of one schema those of another; None where they are the same."""
        key = (old.digest, new.digest)
        if key not in self._evolutions:
            evolution = RowSchemaAdapter(old, new)
            same = old.names == new.names and evolution.is_identity()
            self._evolutions[key] = None if same else evolution
        return self._evolutions[key]


@dataclass(frozen=True)
class OwnedBuckets:
    """Opens writers and compactors of buckets, and takes rows for them.

    Args:
        clock: epoch milliseconds.
        local_directory: on the local disk, for rows that compactions set aside.
    """

    store: ObjectStore
    schema: SchemaCache
    committed: CommittedFiles
    views: ReadContexts
    clock: Callable[[], int]
    local_directory: str | None = None

    @property
    def schema_replacements(self) -> int:
        """The number of times that schemas were replaced: see `SchemaCache`."""
        return self.schema.replacements

    def open_writer(self, bucket: BucketId) -> BucketWriter:
        """Open a writer on the committed levels of a bucket."""
        levels = self.committed.levels(bucket)
        self.schema.refresh(max((file.schema_id for file in levels.files), default=0))
        schema = self.schema.current
        files = self.views.files(schema, bucket)
        return BucketWriter(
            self._written_under(bucket),
            files,
            levels,
            self.views.compaction_lookup(schema, bucket),
            clock=self.clock,
            inline=compacts_inline(schema),
            local_directory=self.local_directory,
        )

    def keep_current(self, writer: BucketWriter) -> None:
        """Let a writer go on under the newest schema, and its partition's number of buckets."""
        schema, bucket = self.schema.current, (writer.partition, writer.bucket)
        total = self.committed.total_buckets(writer.partition) or schema.core.bucket
        if writer.schema.id < schema.id or writer.schema.core.bucket != total:
            files = self.views.files(schema, bucket)
            lookup = self.views.compaction_lookup(schema, bucket)
            writer.change_schema(self._written_under(bucket), files, lookup)

    def open_compactor(
        self, bucket: BucketId, stop: CancellationToken
    ) -> tuple[Compactor, DataFileStore]:
        """Open a compactor of a bucket, with the files that it reads until it is to stop."""
        levels = self.committed.levels(bucket)
        self.schema.refresh(max((file.schema_id for file in levels.files), default=0))
        schema = self.schema.current
        files = StoppableFiles(
            self.store,
            schema,
            *bucket,
            schemas=self.schema.read,
            flushed_rows=self.views.flushed_rows,
        )
        files.stop = stop
        lookup = self.views.compaction_lookup(schema, bucket)
        engine, local = merge_engine(schema), self.local_directory
        return Compactor(schema, files, engine, lookup, self.clock, local), files

    def as_current(self, schema_id: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows pushed under a schema to what the writers take.

        Raises:
            SchemaChangedError: they were spread over another number of buckets.
        """
        schema = self.schema.current
        evolution = self.views.incoming(schema_id, schema)
        return rows if evolution is None else evolution.apply(rows, [*schema.names, KIND])

    def check_routing(self, slices: Iterable[Slice], schema_id: int) -> None:
        """Check that rows pushed under a schema were spread over the buckets that their partition
        has.

        Raises:
            SchemaChangedError: the table was rescaled since, perhaps by others.
            PartitionBucketsError: the partition was not, yet.
        """
        try:
            self.check_buckets(slices)
        except PartitionBucketsError:
            self.check_not_rescaled(schema_id)
            self.committed.advance()  # others may have rolled the table back since
            self.check_buckets(slices)

    def check_not_rescaled(self, schema_id: int) -> None:
        """Check that the table was not rescaled after a schema; else raise `SchemaChangedError`."""
        self.schema.refresh()
        self.views.incoming(schema_id, self.schema.current)

    def check_buckets(
        self,
        slices: Iterable[Slice],
        schema: TableSchema | None = None,
        snapshot_id: int | None = None,
    ) -> None:
        """Check that keys or rows were spread over the buckets that their partition has.

        Args:
            schema: by default the newest.
            snapshot_id: as `CommittedFiles.total_buckets` takes it.

        Raises:
            PartitionBucketsError: there are some.
        """
        schema = schema or self.schema.current
        wrong: dict[bytes, int] = {}
        for piece in slices:
            there = self.committed.total_buckets(piece.partition, snapshot_id)
            if there not in (None, piece.total_buckets or schema.core.bucket):
                wrong[piece.partition] = there
        if wrong:
            partition, there = next(iter(wrong.items()))
            raise PartitionBucketsError(
                f"{_named(schema, partition)}: spread over {there} buckets, while the table has "
                f"{schema.core.bucket}; rescale the partition before writing to it: "
                f"table.rescale(buckets={schema.core.bucket})",
                totals=wrong,
                buckets=schema.core.bucket,
            )

    def fits(self, bucket: BucketId, total: int, snapshot_id: int) -> bool:
        """Whether rows that were spread over so many buckets have their keys' committed rows in
        the bucket of theirs."""
        return self.committed.total_buckets(bucket[0], snapshot_id) in (None, total)

    def waiting(self, partition: bytes, snapshot_id: int) -> PartitionBucketsError:
        """Make the error for lookups of rows that do not fit yet; without ``totals``, as there is
        no way round."""
        schema = self.schema.current
        buckets = schema.core.bucket
        there = self.committed.total_buckets(partition, snapshot_id)
        return PartitionBucketsError(
            f"{_named(schema, partition)}: spread over {there} buckets, and rows that are not "
            f"committed over {buckets}: look up with visibility='committed', or rescale the "
            f"partition, so that they can be committed: table.rescale(buckets={buckets})",
            totals={},
            buckets=buckets,
        )

    def _written_under(self, bucket: BucketId) -> TableSchema:
        """The newest schema, with the number of buckets that the partition has."""
        return with_buckets(self.schema.current, self.committed.total_buckets(bucket[0]))


def _named(schema: TableSchema, partition: bytes) -> object:
    return PartitionSpec(schema).to_dict(partition) or "the table's rows"
