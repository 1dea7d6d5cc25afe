"""Parquet files: written for speed in what every Paimon reader reads, read in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pkray.errors import CorruptFileError, StorageError
from pkray.storage.encoding import ColumnEncodings, choose_encodings
from pkray.storage.object_store import ObjectStore, OutputFile
from pkray.storage.parquet_footer import annotate, has_nanoseconds, plain_timestamps

if TYPE_CHECKING:
    from pkray.options import TableOptions

ROW_GROUP_ROWS = 128 << 10
"""A merge holds one row group of each run; lookups and filters skip whole ones."""
ROW_GROUP_BYTES = 64 << 20
"""Row groups of wide rows are cut at this size in memory."""
REMOTE_READ_BYTES = 16 << 20
"""Object stores are read this much at a time, as far as row groups allow."""

BUFFER_BYTES = 1 << 20


class ParquetWriter:
    """Writes one file; it appears whole on `close`.

    As a context manager: left by an exception it aborts, else it closes.

    Args:
        store: where to.
        path: the file, relative to the store.
        schema: names, types and nullability as in the file.
        options: ``file.compression``, ``file.compression.zstd-level`` and
            ``parquet.writer.version`` are honoured.

    Attributes:
        num_rows: rows written so far.
    """

    def __init__(
        self, store: ObjectStore, path: str, schema: pa.Schema, options: TableOptions
    ) -> None:
        self.path = path
        self.num_rows = 0
        self._schema = schema
        self._options = options
        self._annotations: dict[str, pa.DataType] = {}
        self._int96 = any(has_nanoseconds(field.type) for field in schema)
        if self._int96:
            self._schema, self._annotations = plain_timestamps(schema)
        self._location = store.location(path)
        self._output = store.open_output(path)
        self._tail: _HeldTail | None = None
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._raw_bytes = 0

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows whose columns are the schema's, in order.

        Raises:
            StorageError: the file cannot be written (`StorageFullError` when the disk is full).
        """
        if rows.num_rows == 0:
            return
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        columns = rows.columns
        if self._annotations:
            columns = [
                column.cast(field.type) if column.type != field.type else column
                for column, field in zip(columns, self._schema, strict=True)
            ]
        self._pending.append(pa.Table.from_arrays(columns, schema=self._schema))
        self.num_rows += rows.num_rows
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    @property
    def bytes_written(self) -> int:
        """An estimate of the file's size, were it closed now, for rolling to the next one."""
        written = self._output.tell()
        ratio = written / self._raw_bytes if self._raw_bytes else 0.5
        return int(written + self._pending_bytes * ratio)

    def close(self) -> int:
        """Publish the file and return its size in bytes."""
        self._flush(last=True)
        assert self._writer is not None
        try:
            if self._tail is not None:
                self._tail.hold()
            self._writer.close()
            if self._tail is not None:
                self._output.write(annotate(self._tail.held(), self._annotations))
            size = self._output.tell()
        except (OSError, pa.ArrowException) as error:
            self.abort()
            raise self._failure(error) from error
        self._output.close()
        return size

    def abort(self) -> None:
        """Give the file up: nothing of it stays."""
        self._pending.clear()
        self._writer = None
        self._output.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _flush(self, last: bool = False) -> None:
        if not self._pending and not (last and self._writer is None):
            return
        table = pa.concat_tables(self._pending or [self._schema.empty_table()])
        try:
            if self._writer is None:
                self._writer = self._start(table)
            while table.num_rows:
                rows = _row_group_rows(table)
                if not last and table.num_rows < rows:
                    break
                self._writer.write_table(table.slice(0, rows), row_group_size=rows)
                table = table.slice(rows)
        except (OSError, pa.ArrowException) as error:
            self.abort()
            raise self._failure(error) from error
        left = table.nbytes if table.num_rows else 0
        self._raw_bytes += self._pending_bytes - left
        self._pending = [table] if table.num_rows else []
        self._pending_rows, self._pending_bytes = table.num_rows, left

    def _start(self, sample: pa.Table) -> pq.ParquetWriter:
        encodings: ColumnEncodings = choose_encodings(sample, self._options)
        sink = self._output.sink
        if self._annotations:
            self._tail = _HeldTail(self._output)
            sink = pa.PythonFile(self._tail, mode="w")
        return pq.ParquetWriter(
            sink,
            self._schema,
            compression=encodings.codecs,
            compression_level=encodings.levels or None,
            use_dictionary=encodings.dictionaries,
            column_encoding=encodings.encodings or None,
            write_statistics=encodings.statistics,
            use_deprecated_int96_timestamps=self._int96,
            store_decimal_as_integer=True,
            store_schema=False,
            write_batch_size=64 << 10,
        )

    def _failure(self, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        from pkray.storage.local import explain

        if isinstance(error, OSError):
            return explain(error, "write", self._location)
        return StorageError(f"cannot write {self._location!r}: {error}", path=self._location)


class _HeldTail:
    """A sink that can keep back what is written last."""

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._held: list[bytes] | None = None

    def hold(self) -> None:
        self._held = []

    def held(self) -> bytes:
        return b"".join(self._held or ())

    def write(self, data: Any) -> None:
        if self._held is None:
            self._output.write(data)
        else:
            self._held.append(bytes(data))

    def tell(self) -> int:
        return self._output.tell()

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The output is closed by the one who opened it."""


def _row_group_rows(table: pa.Table) -> int:
    width = max(1, table.nbytes // table.num_rows)
    return max(1, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES // width))


def read_batches(
    store: ObjectStore,
    path: str,
    columns: Sequence[str] | None = None,
    batch_rows: int = 64 << 10,
    row_groups: Sequence[int] | None = None,
    filter: pc.Expression | None = None,
    *,
    schema: pa.Schema | None = None,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in order, a row group in memory at a time.

    Args:
        columns: names in the order wanted; all by default.
        batch_rows: most rows of a batch.
        row_groups: which row groups, by position; all by default.
        filter: keep the rows it holds for; row groups that have none are not read.
        schema: types wanted by column name, where the file's differ (INT96 timestamps have no
            time zone); the file's own types by default.
        use_threads: decode columns in parallel.

    Raises:
        MissingFileError: there is no such file.
        CorruptFileError: it is not Parquet, is cut short, or lacks a column.
    """
    file = store.open_input(path)
    remote = store.local_path(path) is None
    location = store.location(path)
    try:
        try:
            yield from _read(
                file, columns, batch_rows, row_groups, filter, schema, use_threads, remote
            )
        except StorageError:
            raise
        except (pa.ArrowException, OSError, KeyError) as error:
            if isinstance(error.__cause__, StorageError):
                raise error.__cause__ from None
            raise corrupt(location, error) from error
    finally:
        file.close()


def corrupt(location: str, error: BaseException) -> CorruptFileError:
    """The error for a data file whose bytes cannot be read."""
    reason = (str(error) or type(error).__name__).split("\n", 1)[0]
    return CorruptFileError(
        f"cannot read the data file {location!r}: {reason}; it is damaged or cut short: restore "
        "it from a copy, or roll the table back to a snapshot without it",
        path=location,
        reason=reason,
    )


def _read(
    file: pa.NativeFile,
    columns: Sequence[str] | None,
    batch_rows: int,
    row_groups: Sequence[int] | None,
    filter: pc.Expression | None,
    schema: pa.Schema | None,
    use_threads: bool,
    remote: bool,
) -> Iterator[pa.RecordBatch]:
    reader = _Reader(file, schema, remote)
    names = list(columns) if columns is not None else reader.arrow_schema.names
    for name in names:
        if reader.arrow_schema.get_field_index(name) < 0:
            raise KeyError(f"it has no column {name!r}, only {reader.arrow_schema.names}")
    groups = list(range(reader.num_row_groups)) if row_groups is None else list(row_groups)
    read_names = names
    if filter is not None:
        groups = reader.prune(groups, filter)
        read_names = reader.arrow_schema.names  # an expression does not tell its columns
    for batch in reader.batches(groups, read_names, batch_rows, use_threads):
        if filter is not None:
            batch = batch.filter(filter)
            if batch.num_rows == 0:
                continue
        yield batch.select(names) if batch.schema.names != names else batch


class _Reader:
    """One open file."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema | None, remote: bool) -> None:
        self._file = file
        self._remote = remote
        buffer = 0 if remote else BUFFER_BYTES
        self._parquet = pq.ParquetFile(file, pre_buffer=remote, buffer_size=buffer)
        self.arrow_schema = self._parquet.schema_arrow
        self.num_row_groups = self._parquet.metadata.num_row_groups
        self._targets = {
            field.name: schema.field(field.name).type
            for field in self.arrow_schema
            if schema is not None
            and field.name in schema.names
            and schema.field(field.name).type != field.type
        }

    def prune(self, groups: list[int], filter: pc.Expression) -> list[int]:
        """The row groups that may have rows the filter holds for."""
        fragment = ds.ParquetFileFormat().make_fragment(self._file)
        kept = {group.id for group in fragment.subset(filter, self.arrow_schema).row_groups}
        return [group for group in groups if group in kept]

    def batches(
        self, groups: list[int], names: list[str], batch_rows: int, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        for run in self._runs(groups):
            for batch in self._parquet.iter_batches(
                batch_rows, row_groups=run, columns=names, use_threads=use_threads
            ):
                yield self._cast(batch)

    def _runs(self, groups: list[int]) -> Iterator[list[int]]:
        """Row groups to read together: all of a local file's, as these are read as they come."""
        if not self._remote:
            if groups:
                yield groups
            return
        run: list[int] = []
        size = 0
        for group in groups:
            run.append(group)
            size += self._parquet.metadata.row_group(group).total_byte_size // 2
            if size >= REMOTE_READ_BYTES:
                yield run
                run, size = [], 0
        if run:
            yield run

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for index, name in enumerate(batch.schema.names):
            target = self._targets.get(name)
            if target is not None:
                array = pc.cast(batch.column(index), target, safe=False)
                batch = batch.set_column(index, pa.field(name, target), array)
        return batch


def read_metadata(store: ObjectStore, path: str) -> Any:
    """A file's `pyarrow.parquet.FileMetaData`. Raises as `read_batches`."""
    with store.open_input(path) as file:
        try:
            return pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise corrupt(store.location(path), error) from error
