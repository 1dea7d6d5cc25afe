"""Write and read the data and changelog files of one bucket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from pkray.evolution import RowEvolution
from pkray.format import binary_row, paths
from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.format.partition import PartitionSpec
from pkray.format.schema_files import SchemaFiles
from pkray.format.stats import StatsCollector, column_modes
from pkray.lsm.key_groups import row_schema
from pkray.lsm.merge import count_deletes
from pkray.options import TableOptions
from pkray.schema import KEY_PREFIX, KIND, SEQUENCE, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet import ParquetWriter, read_batches
from pkray.storage.parquet_reader import BATCH_BYTES, RowGroupFilter

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
    ) -> None:
        self.store = store
        self.schema = schema
        self.partition = partition
        self.bucket = bucket
        self.clock = clock
        self.names = names or paths.FileNames()
        self._partition_path = PartitionSpec(schema).path(partition)
        self.row_schema = row_schema(schema)
        self._schemas = schemas or SchemaFiles(store, schema)
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
        with self.open_run(level, source, prefix) as writer:
            for rows in batches:
                writer.write(rows)
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
        """How a file of this level is written: with its level's codec.

        ``file.compression.per.level`` says which. Where neither it nor ``file.compression`` does,
        data files of level 0 and changelog files have none: most are compacted, or read and
        expired, soon, and a codec costs several times what encoding does, and as much again when
        they are read. Changelogs that are kept longer than snapshots have one.
        """
        options = self.schema.core
        if prefix == "changelog":
            is_short_lived = not options.keeps_changelogs_longer
            codec = None
        else:
            is_short_lived = level == 0 and not options.write_only
            codec = dict(options.file_compression_per_level).get(level)
        if codec is None and is_short_lived and "file.compression" not in self.schema.options:
            codec = "none"
        return options if codec is None else replace(options, file_compression=codec)

    def delete(self, files: Iterable[DataFileMeta]) -> None:
        """Delete files that were never handed over to a commit."""
        doomed = [self.path(file.file_name) for file in files]
        if doomed:
            self.store.delete(doomed)


class RunWriter:
    """Rows sorted by key, pushed batch after batch into files of one level.

    As a context manager: left by an exception it deletes what it wrote.

    Attributes:
        files: what was written, once closed.
    """

    def __init__(self, store: DataFileStore, level: int, source: int, prefix: str) -> None:
        self.files: list[DataFileMeta] = []
        self._store = store
        self._level = level
        self._source = source
        self._prefix = prefix
        # Each file of level 0 is a run of its own: cutting one would make more to merge.
        is_run = level == 0 and prefix == "data"
        self._target_size = float("inf") if is_run else store.schema.core.target_file_size
        self._open: _OpenFile | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._open is None:
            options = self._store.options_for(self._level, self._prefix)
            name = self._new_name()
            self._open = _OpenFile(self._store, name, self._level, self._source, options)
        self._open.write(rows)
        if self._open.size_estimate >= self._target_size:
            self._finish_file()

    def close(self) -> list[DataFileMeta]:
        if self._open is not None:
            self._finish_file()
        return self.files

    def abort(self) -> None:
        """Give up: delete what was written."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        self._store.delete(self.files)
        self.files = []

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _finish_file(self) -> None:
        assert self._open is not None
        self.files.append(self._open.finish())
        self._open = None

    def _new_name(self) -> str:
        names = self._store.names
        return names.changelog() if self._prefix == "changelog" else names.data()


class _OpenFile:
    """A file being written, and what its metadata will say."""

    def __init__(
        self, store: DataFileStore, name: str, level: int, source: int, options: TableOptions
    ) -> None:
        self._store = store
        self._name = name
        self._level = level
        self._source = source
        schema = store.schema
        self._keys = schema.trimmed_primary_keys
        self._key_types = schema.types(self._keys)
        self._writer = ParquetWriter(store.store, store.path(name), schema.file_schema, options)
        names = [field.name for field in schema.fields]
        self._stats = StatsCollector(names, schema.types(names), column_modes(schema, names))
        self._first: list[pa.Array] | None = None
        self._last: list[pa.Array] = []
        self._rows = 0
        self._deletes = 0
        self._min_sequence = 2**63 - 1
        self._max_sequence = -1

    @property
    def size_estimate(self) -> int:
        return self._writer.bytes_written

    def write(self, rows: pa.RecordBatch) -> None:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        names = self._store.schema.file_schema.names
        arrays = [columns[name.removeprefix(KEY_PREFIX)] for name in names]
        self._writer.write(
            pa.RecordBatch.from_arrays(arrays, schema=self._store.schema.file_schema)
        )
        keys = [columns[name] for name in self._keys]
        if self._first is None:
            self._first = [column.take([0]) for column in keys]  # copied: a slice holds all
        self._last = [column.take([len(column) - 1]) for column in keys]
        self._stats.update(rows)
        self._rows += rows.num_rows
        self._deletes += count_deletes(rows)
        numbers = columns[SEQUENCE].to_numpy()
        self._min_sequence = min(self._min_sequence, int(numbers.min()))
        self._max_sequence = max(self._max_sequence, int(numbers.max()))

    def finish(self) -> DataFileMeta:
        assert self._first is not None
        ends = [pa.concat_arrays(pair) for pair in zip(self._first, self._last, strict=True)]
        min_key, max_key = binary_row.encode(ends, self._key_types).to_pylist()
        return DataFileMeta(
            file_name=self._name,
            file_size=self._writer.close(),
            row_count=self._rows,
            min_key=min_key,
            max_key=max_key,
            key_stats=self._stats.finish(self._keys),
            value_stats=self._stats.finish(),
            min_sequence_number=self._min_sequence,
            max_sequence_number=self._max_sequence,
            schema_id=self._store.schema.id,
            level=self._level,
            creation_time=self._store.clock(),
            delete_row_count=self._deletes,
            file_source=self._source,
        )

    def abort(self) -> None:
        self._writer.abort()
