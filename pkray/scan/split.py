"""A part of a table that one task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pkray import spans
from pkray.arguments.facade import checked_class
from pkray.errors import InputError, SchemaError
from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.format.index_file import IndexFileMeta
from pkray.lsm.data_files import READ_ROWS, DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_read import merge_read, raw_read
from pkray.metadata.schemas import unless_dropped
from pkray.scan.predicate import Predicate
from pkray.schema.columns import check_name_list, filter_rows
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet.reader import BATCH_BYTES, RowGroupFilter


@checked_class
@dataclass(frozen=True)
class Split:
    """The files of one bucket, with what is wanted of their rows; it pickles.

    Args:
        columns: the columns to yield, in this order.
        predicate: rows for which it is not true are left out.
        vector_files: the bucket's index files of deletion vectors.
    """

    location: TableLocation
    schema: TableSchema
    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    vector_files: tuple[IndexFileMeta, ...] = ()

    def __repr__(self) -> str:
        counts = f"files={len(self.files)}, rows={self.row_count}"
        return f"Split({self.location.name!r}, bucket={self.bucket}, {counts})"

    @property
    def row_count(self) -> int:
        """Count the rows in the files; merging leaves at most so many."""
        return sum(file.row_count for file in self.files)

    def by_files(self) -> list[Split]:
        """Split it into its files, where none of them needs another one for its rows."""
        alone = self.schema.core.deletion_vectors_enabled or len(Levels(self.files).runs()) == 1
        return [replace(self, files=(file,)) for file in self.files] if alone else [self]

    def read(
        self, store: ObjectStore | None = None, counters: ReadCounters | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read batches of the merged rows, in bounded memory.

        They are in key order, but for deletion vectors: then each file's are.

        Args:
            counters: gets what was read.

        Raises:
            TableReplacedError, TableNotFoundError: the table was dropped meanwhile.
        """
        counters = ReadCounters() if counters is None else counters
        rows = self._read(store, counters)
        return spans.over("split", rows, table=self.location.name, bucket=self.bucket)

    def _read(self, store: ObjectStore | None, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        with unless_dropped(self.location):
            yield from self._rows(store, counters)

    def _rows(self, store: ObjectStore | None, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        files = DataFileStore(
            store or self.location.open(), self.schema, self.partition, self.bucket
        )
        filtered = FilteredFiles(files, self._of_single_files(), counters)
        wanted = self._columns_to_read()
        if self.schema.core.deletion_vectors_enabled:
            names = {file.file_name for file in self.files}
            vectors = read_vectors(files.store, self.vector_files, names)
            rows = raw_read(self.files, filtered, vectors, wanted)
        else:
            rows = merge_read(
                Levels(self.files).runs(),
                filtered,
                merge_engine(self.schema),
                self.schema,
                columns=wanted,
                drop_deletes=True,
            )
        schema = pa.schema([self.schema.arrow_schema.field(name) for name in self.columns])
        expression = self.predicate.to_expression() if self.predicate else None
        for stored in rows:
            batch = with_defaults(stored, self.schema.default_values)
            kept = batch if expression is None else filter_rows(batch, expression)
            counters.rows_merged += batch.num_rows
            counters.rows_yielded += kept.num_rows
            if kept.num_rows and not self.columns:
                yield kept.select([])  # as many rows without anything in them
            elif kept.num_rows:
                arrays = [kept.column(name) for name in self.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _of_single_files(self) -> pc.Expression | None:
        """Return the filter as far as it decides for a row of a file, whatever other files hold."""
        predicate = self.predicate and self.predicate.of_stored(self.schema)
        if predicate is not None and not self.schema.core.deletion_vectors_enabled:
            predicate = predicate.only(self.schema.trimmed_primary_keys)
        return None if predicate is None else predicate.to_expression()

    def _columns_to_read(self) -> list[str]:
        wanted = set(self.columns)
        if self.predicate is not None:
            wanted |= set(self.predicate.columns)
        wanted = wanted or {self.schema.trimmed_primary_keys[0]}  # some column has the rows
        return [field.name for field in self.schema.fields if field.name in wanted]


def arrow_schema(schema: TableSchema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the rows a read yields.

    Raises:
        InputError: there is no such column.
    """
    check_name_list("columns", columns)
    if columns is None:
        return schema.arrow_schema
    try:
        return pa.schema([schema.arrow_schema.field(schema.field(name).name) for name in columns])
    except SchemaError as error:
        raise InputError(error.message, **error.values) from None


@dataclass
class ReadCounters:
    """Counts what is read of a split.

    Args:
        files: data files that were opened.
        row_groups_total, row_groups_read: of these files, without and with the filter.
        rows_read: rows of the files, before merging.
        rows_merged: rows before the filter.
        rows_yielded: rows that came out.
    """

    files: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0
    rows_read: int = 0
    rows_merged: int = 0
    rows_yielded: int = 0


class FilteredFiles:
    """Reads the files of a bucket without row groups of which no row matters.

    Args:
        condition: leaves out row groups in which it holds for no row; None reads all.
        counters: what to count in.
    """

    def __init__(
        self, files: DataFileStore, condition: pc.Expression | None, counters: ReadCounters
    ) -> None:
        self._files = files
        self._condition = condition
        self._counters = counters

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = READ_ROWS,
        batch_bytes: int = BATCH_BYTES,
        deleted: DeletionVector | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield a file's key-value rows in key order. Raises as `DataFileStore.read`."""
        counters = self._counters
        counters.files += 1
        groups = RowGroupFilter(self._condition)
        for batch in self._files.read(
            file,
            columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            deleted=deleted,
            row_group_filter=groups,
        ):
            counters.rows_read += batch.num_rows
            yield batch
        counters.row_groups_total += groups.total
        counters.row_groups_read += groups.kept
