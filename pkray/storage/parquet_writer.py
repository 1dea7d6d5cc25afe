"""Writes Parquet files, fast, in what every Paimon reader reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pkray.checksums import EMPTY, KEY, seal
from pkray.closing import Abortable
from pkray.errors import StorageError
from pkray.storage import block_checksums
from pkray.storage.encoding import choose_encodings
from pkray.storage.local import explain
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet_footer import FOOTER_MARK, annotate, has_nanoseconds, plain_timestamps

if TYPE_CHECKING:
    from pkray.options import TableOptions

ROW_GROUP_ROWS = 128 << 10
"""A merge holds one row group of each run; lookups and filters skip whole ones."""
ROW_GROUP_BYTES = 32 << 20
"""Row groups of wide rows are cut at this size in memory."""
PAGE_BYTES, MIN_PAGE_BYTES = 1 << 20, 64 << 10
PAGES_BYTES = 8 << 20
"""Readers hold a page of each column: of wide tables they are smaller."""
PAGE_ROWS = 64 << 10
_UNLIMITED = 2**31


class ParquetWriter(Abortable):
    """Writes one file; it appears whole on `close`.

    Args:
        store: where to.
        path: the file, relative to the store.
        schema: names, types and nullability as in the file.
        options: ``file.compression``, ``file.compression.zstd-level``, ``file.block-size`` and
            ``parquet.writer.version`` count.

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
        block_size = options.file_block_size
        self._max_rows = ROW_GROUP_ROWS if block_size is None else _UNLIMITED
        self._max_bytes = ROW_GROUP_BYTES if block_size is None else block_size
        self._location = store.location(path)
        self._output = store.open_output(path)
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
        if self._pending_rows >= self._max_rows or self._pending_bytes >= self._max_bytes:
            self._flush()

    @property
    def bytes_written(self) -> int:
        """An estimate of the file's size, were it closed now, for rolling to the next one."""
        written = self._output.tell()
        ratio = written / self._raw_bytes if self._raw_bytes else 0.5
        return int(written + self._pending_bytes * ratio)

    def close(self) -> int:
        """Publish the file and return its size in bytes."""
        try:
            self._flush(last=True)
            assert self._writer is not None
            marks = {block_checksums.KEY: self._output.checksums(), KEY: EMPTY.decode()}
            self._writer.add_key_value_metadata(marks)
            self._output.hold()
            self._writer.close()
            tail = self._output.held()
            if self._annotations:
                tail = annotate(tail, self._annotations)
            self._output.write(seal(tail, FOOTER_MARK))
            size = self._output.tell()
        except (OSError, pa.ArrowException) as error:
            self.abort()
            raise self._failure(error) from error
        except BaseException:
            self.abort()
            raise
        self._output.close()
        return size

    def abort(self) -> None:
        """Give the file up: nothing of it stays."""
        self._pending.clear()
        self._writer = None
        self._output.abort()

    def _flush(self, last: bool = False) -> None:
        if not self._pending and not (last and self._writer is None):
            return
        table = pa.concat_tables(self._pending or [self._schema.empty_table()])
        try:
            if self._writer is None:
                self._writer = self._start(table)
            while table.num_rows:
                rows = self._row_group_rows(table)
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
        encodings = choose_encodings(sample, self._options)
        page_bytes = max(MIN_PAGE_BYTES, min(PAGE_BYTES, PAGES_BYTES // sample.num_columns))
        widest = max(column.nbytes for column in sample.columns) // max(1, sample.num_rows)
        return pq.ParquetWriter(
            self._output.sink,
            self._schema,
            compression=encodings.codecs,
            compression_level=encodings.levels or None,
            use_dictionary=encodings.dictionaries,
            column_encoding=encodings.encodings or None,
            write_statistics=encodings.statistics,
            use_deprecated_int96_timestamps=self._int96,
            store_decimal_as_integer=True,
            store_schema=False,
            data_page_size=page_bytes,
            # Pages end after whole batches alone.
            write_batch_size=max(1, min(PAGE_ROWS, page_bytes // max(1, widest))),
        )

    def _row_group_rows(self, table: pa.Table) -> int:
        width = max(1, table.nbytes // table.num_rows)
        return max(1, min(self._max_rows, self._max_bytes // width))

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, StorageError | MemoryError):
            return error
        if isinstance(error, OSError):
            return explain(error, "write", self._location)
        return StorageError(f"cannot write {self._location!r}: {error}", path=self._location)
