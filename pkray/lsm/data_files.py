"""Write and read the data and changelog files of one bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.format.schema_files import SchemaFiles
from pkray.lsm.bucket_files import BucketFiles, Clock
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.run_writer import RunWriter
from pkray.schema.row_schema_adapter import RowSchemaAdapter
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore, ahead
from pkray.storage.parquet import read_batches
from pkray.storage.parquet.reader import BATCH_BYTES, RowGroupFilter, numbered, row_groups_with
from pkray.storage.row_pages import SUFFIX, RowPages

T = TypeVar("T")
R = TypeVar("R")

READ_ROWS = 64 << 10
"""Rows of a batch, unless the reader says how many."""


class DataFileStore(BucketFiles):
    """Writes and reads the files of one bucket.

    Args:
        store, schema, partition, bucket, clock, flushed_rows: as of `BucketFiles`.
        schemas: the table's schemas by id; by default read as they are needed.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        partition: bytes,
        bucket: int,
        clock: Clock = now_millis,
        schemas: Callable[[int], TableSchema] | None = None,
        flushed_rows: FlushedRowsCache | None = None,
    ) -> None:
        super().__init__(store, schema, partition, bucket, clock, flushed_rows)
        self.row_schema = schema.row_schema
        self._schemas = schemas or SchemaFiles(store, schema)
        self._evolutions: dict[int, tuple[TableSchema, RowSchemaAdapter | None]] = {}

    def open_run(
        self, level: int, source: int, prefix: Literal["data", "changelog"] = "data"
    ) -> RunWriter:
        return RunWriter(self, level, source, prefix)

    def write_run(
        self,
        batches: Iterable[pa.RecordBatch],
        level: int,
        source: int,
        prefix: Literal["data", "changelog"] = "data",
    ) -> list[DataFileMeta]:
        """Write key-value rows, sorted by key, to as many files as ``target-file-size`` asks.

        Of level 0 it is one file, as each would be a run.

        Args:
            batches: no key in two of them.
            source: APPEND_SOURCE or COMPACT_SOURCE.
        """
        room = (
            self._flushed_rows.free_bytes
            if self._flushed_rows and (level, prefix) == (0, "data")
            else 0
        )
        kept: list[pa.RecordBatch] = []
        with self.open_run(level, source, prefix) as writer:
            for rows in batches:
                writer.write(rows)
                room -= rows.nbytes
                if room >= 0:
                    kept.append(rows)
                else:
                    kept.clear()
        if self._flushed_rows and kept:
            (file,) = writer.files
            self._flushed_rows.keep(file.file_name, kept)
        return writer.files

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = READ_ROWS,
        batch_bytes: int = BATCH_BYTES,
        row_groups: Sequence[int] | None = None,
        deleted: DeletionVector | None = None,
        row_group_filter: RowGroupFilter | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read a file's key-value rows in key order; those of other schemas are adapted to this
        one.

        Args:
            columns: system and value columns, in the order wanted; all by default.
            batch_rows, batch_bytes: most of a batch; wide rows are at least one.
            deleted: rows to leave out.
            row_group_filter: leaves out row groups of files that have this schema's columns.

        Raises:
            MissingFileError: the file is gone.
            CorruptFileError: the file cannot be read.
            UnsupportedError: a column had a type that does not convert to what it is now.
            SchemaError: a newer schema's file has values that do not fit this schema.
        """
        names = list(columns) if columns is not None else self.row_schema.names
        evolution = self.evolution(file)
        if evolution is None:
            yield from self._read(
                file, names, batch_rows, batch_bytes, row_groups, deleted, row_group_filter
            )
            return
        sources = evolution.sources(names) or [KIND]  # the number of rows, at least
        own = self.as_written(file)
        for batch in own._read(file, sources, batch_rows, batch_bytes, row_groups, deleted):
            yield evolution.apply(batch, names)

    def read_numbered(
        self, file: DataFileMeta, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read rows of a file of this schema, with the position of each batch's first one.

        Args:
            condition: of the file's columns: row groups without a row that it holds for, by their
                statistics, may be left out.

        Raises:
            MissingFileError, CorruptFileError: as `read`.
        """
        if condition is None or self.is_at_hand(file):
            yield from numbered(self.read(file, columns), 0)
            return
        for group, first in row_groups_with(self.store, self.path(file.file_name), condition):
            yield from numbered(self.read(file, columns, row_groups=[group]), first)

    def row_pages(self, file: DataFileMeta) -> RowPages | None:
        """Open the pages of a file's rows, written beside it; None where there are none.

        Raises:
            MissingFileError, CorruptFileError: as `RowPages.open`.
        """
        name = file.file_name + SUFFIX
        return RowPages.open(self.store, self.path(name)) if name in file.extra_files else None

    def side_by_side(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield what is made of each item, as `ahead`."""
        return ahead(self.store, work, items)

    def is_at_hand(self, file: DataFileMeta) -> bool:
        """Whether the file's rows are in memory, from where they are read."""
        return self._flushed_rows is not None and self._flushed_rows.has(file.file_name)

    def evolution(self, file: DataFileMeta) -> RowSchemaAdapter | None:
        """Return what adapts the rows of a file to this schema; None if they have it already."""
        if file.schema_id == self.schema.id:
            return None
        written = self._schemas(file.schema_id)
        known = self._evolutions.get(file.schema_id)
        if known is None or known[0] is not written:  # a branch's has taken its place
            evolution = RowSchemaAdapter(written, self.schema)
            known = written, None if evolution.is_identity() else evolution
            self._evolutions[file.schema_id] = known
        return known[1]

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the table's schema of that id."""
        return self._schemas(schema_id)

    def as_written(self, file: DataFileMeta) -> DataFileStore:
        """Return these files under the schema that a file was written under."""
        if file.schema_id == self.schema.id:
            return self
        return DataFileStore(
            self.store,
            self._schemas(file.schema_id),
            self.partition,
            self.bucket,
            self.clock,
            self._schemas,
            self._flushed_rows,
        )

    def _read(
        self,
        file: DataFileMeta,
        names: Sequence[str],
        batch_rows: int,
        batch_bytes: int,
        row_groups: Sequence[int] | None,
        deleted: DeletionVector | None,
        row_group_filter: RowGroupFilter | None = None,
    ) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.row_schema.field(name) for name in names])
        if self._flushed_rows and row_groups is None and deleted is None:
            fresh = self._flushed_rows.read(file.file_name, batch_rows, batch_bytes)
            if fresh is not None:
                for batch in fresh:
                    columns = [batch.column(name) for name in names]
                    yield pa.RecordBatch.from_arrays(columns, schema=wanted)
                return
        for batch in read_batches(
            self.store,
            self.path(file.file_name),
            names,
            batch_rows,
            row_groups,
            batch_bytes=batch_bytes,
            schema=wanted,
            deleted=deleted,
            row_group_filter=row_group_filter,
        ):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=wanted)
