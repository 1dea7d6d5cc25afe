"""Write and read the data and changelog files of one bucket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pkray.evolution import RowEvolution
from pkray.format import paths
from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.format.partition import PartitionSpec
from pkray.format.schema_files import SchemaFiles
from pkray.lsm.fresh_rows import FreshRows
from pkray.lsm.key_groups import row_schema
from pkray.lsm.run_writer import RunWriter
from pkray.options import TableOptions
from pkray.schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet import read_batches
from pkray.storage.parquet_reader import BATCH_BYTES
from pkray.storage.row_groups import RowGroupFilter, numbered, row_groups_with

READ_ROWS = 64 << 10

Clock = Callable[[], int]
"""Epoch milliseconds."""


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class DataFileStore:
    """The files of one bucket.

    Args:
        store: the table's root.
        partition: as manifests hold it.
        clock: for creation times.
        names: gives new files their names; unique by default.
        schemas: the table's schemas by id; by default read as they are needed.
        fresh: keeps rows of level 0 for those that read them soon.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        partition: bytes,
        bucket: int,
        clock: Clock = now_millis,
        names: paths.FileNames | None = None,
        schemas: Callable[[int], TableSchema] | None = None,
        fresh: FreshRows | None = None,
    ) -> None:
        self.store = store
        self.schema = schema
        self.partition = partition
        self.bucket = bucket
        self.clock = clock
        self.names = names or paths.FileNames(
            data_prefix=schema.core.data_file_prefix,
            changelog_prefix=schema.core.changelog_file_prefix,
        )
        self._partition_path = PartitionSpec(schema).path(partition)
        self.row_schema = row_schema(schema)
        self._schemas = schemas or SchemaFiles(store, schema)
        self._fresh = fresh
        self._evolutions: dict[int, RowEvolution | None] = {schema.id: None}

    def path(self, file_name: str) -> str:
        """Of a file of this bucket, relative to the table's root."""
        return paths.data_file(self._partition_path, self.bucket, file_name)

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
        room = self._fresh.free_bytes if self._fresh and (level, prefix) == (0, "data") else 0
        kept: list[pa.RecordBatch] = []
        with self.open_run(level, source, prefix) as writer:
            for rows in batches:
                writer.write(rows)
                room -= rows.nbytes
                if room >= 0:
                    kept.append(rows)
                else:
                    kept.clear()
        if self._fresh and kept:
            (file,) = writer.files
            self._fresh.keep(file.file_name, kept)
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
        """A file's key-value rows in key order; those of other schemas as this one has them.

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
        """Rows of a file of this schema, with the position of each batch's first one.

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

    def is_at_hand(self, file: DataFileMeta) -> bool:
        """Whether the file's rows are in memory, from where they are read."""
        return self._fresh is not None and self._fresh.has(file.file_name)

    def evolution(self, file: DataFileMeta) -> RowEvolution | None:
        """What makes the rows of a file those of this schema; None if they are that already."""
        if file.schema_id not in self._evolutions:
            evolution = RowEvolution(self._schemas(file.schema_id), self.schema)
            self._evolutions[file.schema_id] = None if evolution.is_identity() else evolution
        return self._evolutions[file.schema_id]

    def schema_of(self, schema_id: int) -> TableSchema:
        """The table's schema of that id."""
        return self._schemas(schema_id)

    def as_written(self, file: DataFileMeta) -> DataFileStore:
        """These files under the schema that this one was written under."""
        return DataFileStore(
            self.store,
            self._schemas(file.schema_id),
            self.partition,
            self.bucket,
            self.clock,
            self.names,
            self._schemas,
            self._fresh,
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
        if self._fresh and row_groups is None and deleted is None:
            fresh = self._fresh.read(file.file_name, batch_rows, batch_bytes)
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

    def options_for(self, level: int, prefix: str) -> TableOptions:
        """How a file of this level is written: its codec and which statistics it has.

        ``file.compression.per.level`` and ``changelog-file.compression`` say which. Where neither
        they nor ``file.compression`` do, data files of level 0 and changelog files have none: most
        are compacted, or read and expired, soon, and a codec costs several times what encoding
        does, and as much again when they are read. Changelogs that are kept longer than snapshots
        have one.
        """
        options = self.schema.core
        if prefix == "changelog":
            is_short_lived = not options.keeps_changelogs_longer
            codec = options.changelog_file_compression
            mode = options.changelog_file_stats_mode or options.metadata_stats_mode
            options = replace(options, metadata_stats_mode=mode)
        else:
            is_short_lived = level == 0 and not options.write_only
            codec = dict(options.file_compression_per_level).get(level)
        if codec is None and is_short_lived and "file.compression" not in self.schema.options:
            codec = "none"
        return options if codec is None else replace(options, file_compression=codec)

    def delete(self, files: Iterable[DataFileMeta]) -> None:
        """Delete files that were never handed over to a commit."""
        names = [file.file_name for file in files]
        if self._fresh:
            self._fresh.drop(names)
        if names:
            self.store.delete([self.path(name) for name in names])
