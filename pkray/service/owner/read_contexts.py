"""An owner's buckets under each schema that somebody asks for."""

from collections.abc import Callable

from pkray.errors import SchemaChangedError
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.store import LookupStore
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.metadata.live import BucketId
from pkray.schema.row_schema_adapter import RowSchemaAdapter
from pkray.schema.table_schema import TableSchema
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
