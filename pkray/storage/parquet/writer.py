"""Writes Parquet files, fast, in what every Paimon reader reads."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pkray.checksums import EMPTY, KEY, seal
from pkray.closing import Abortable
from pkray.errors import StorageError
from pkray.options import TableOptions
from pkray.storage import block_checksums
from pkray.storage.local import explain
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet.encoding import choose_encodings
from pkray.storage.parquet.footer import FOOTER_MARK, footer_bytes, parse_footer
from pkray.storage.parquet.plain_timestamps import annotate, has_nanoseconds, plain_timestamps
from pkray.storage.parquet.required_parts import has_required_parts, with_required_parts
from pkray.storage.parquet.shared_columns import SharedColumns

ROW_GROUP_ROWS = 128 << 10
"""A merge holds one row group of each run; lookups and filters skip whole ones."""
ROW_GROUP_BYTES = 32 << 20
"""Row groups of wide rows are cut at this size in memory."""
PAGE_BYTES, MIN_PAGE_BYTES = 1 << 20, 64 << 10
PAGES_BYTES = 8 << 20
"""Readers hold a page of each column: of wide tables they are smaller."""
PAGE_ROWS = 64 << 10
"""Most rows of a page, so that a reader of a few rows decodes few."""
SHARED_ROWS = 32 << 10
"""Files with fewer rows have their copies encoded: that takes less than sharing them does."""
MOST_ROWS = 64 << 20
"""pyarrow itself cuts row groups at so many rows."""


class ParquetWriter(Abortable):
    """Writes one file; it appears whole on `close`.

    Args:
        store: where to.
        path: the file, relative to the store.
        schema: names, types and nullability as in the file.
        options: ``file.compression``, ``file.compression.zstd-level``, ``file.block-size`` and
            ``parquet.writer.version`` count.
        copies: by the name of a column, the one that holds the same, and is of the same type and
            nullability. Rows have the latter only.

    Attributes:
        num_rows: rows written so far.
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        schema: pa.Schema,
        options: TableOptions,
        copies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self.num_rows = 0
        self._schema = schema
        self._options = options
        self._annotations: dict[str, pa.DataType] = {}
        self._int96 = any(has_nanoseconds(field.type) for field in schema)
        if self._int96:
            self._schema, self._annotations = plain_timestamps(schema)
        self._copies = copies
        self._row_schema = pa.schema([f for f in self._schema if f.name not in copies])
        kinds = self._row_schema.types
        self._of_parts = [n for n, kind in enumerate(kinds) if has_required_parts(kind)]
        self._shared: SharedColumns | None = None
        block_size = options.file_block_size
        self._max_rows = ROW_GROUP_ROWS if block_size is None else MOST_ROWS
        self._max_bytes = ROW_GROUP_BYTES if block_size is None else block_size
        self._location = store.location(path)
        self._output = store.open_output(path)
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._raw_bytes = 0

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows whose columns are the schema's, in order, without the copies.

        Raises:
            StorageError: the file cannot be written (`StorageFullError` when the disk is full).
        """
        if rows.num_rows == 0:
            return
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        columns = list(rows.columns)
        if self._annotations:
            columns = [
                column.cast(field.type) if column.type != field.type else column
                for column, field in zip(columns, self._row_schema, strict=True)
            ]
        for place in self._of_parts:
            columns[place] = with_required_parts(columns[place])
        rows = pa.Table.from_arrays(columns, schema=self._row_schema)
        self._pending.append(rows)
        self.num_rows += rows.num_rows
        self._pending_rows += rows.num_rows
        self._pending_bytes += self._size(rows)
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
            self._output.write(seal(self._completed(tail), FOOTER_MARK))
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
        table = pa.concat_tables(self._pending or [self._row_schema.empty_table()])
        try:
            if self._writer is None:
                self._writer = self._start(table)
            while table.num_rows:
                rows = self._row_group_rows(table)
                if not last and table.num_rows < rows:
                    break
                group = self._with_copies(table.slice(0, rows))
                self._writer.write_table(group, row_group_size=rows)
                table = table.slice(rows)
        except (OSError, pa.ArrowException) as error:
            self.abort()
            raise self._failure(error) from error
        left = self._size(table) if table.num_rows else 0
        self._raw_bytes += self._pending_bytes - left
        self._pending = [table] if table.num_rows else []
        self._pending_rows, self._pending_bytes = table.num_rows, left

    def _start(self, sample: pa.Table) -> pq.ParquetWriter:
        arguments = self._arguments(sample)
        schema = self._schema
        if self._copies and sample.num_rows >= SHARED_ROWS:
            self._shared = SharedColumns(schema, self._copies, arguments)
            schema = self._shared.schema_of_others
        return pq.ParquetWriter(self._output.sink, schema, **arguments)

    def _arguments(self, sample: pa.Table) -> dict[str, Any]:
        """Make the arguments of pyarrow's writer."""
        sample = self._expanded(sample)
        encodings = choose_encodings(sample, self._options)
        page_bytes = max(MIN_PAGE_BYTES, min(PAGE_BYTES, PAGES_BYTES // sample.num_columns))
        widest = max(column.nbytes for column in sample.columns) // max(1, sample.num_rows)
        return {
            "compression": encodings.codecs,
            "compression_level": encodings.levels or None,
            "use_dictionary": encodings.dictionaries,
            "column_encoding": encodings.encodings or None,
            "write_statistics": encodings.statistics,
            "use_deprecated_int96_timestamps": self._int96,
            "store_decimal_as_integer": True,
            "store_schema": False,
            "data_page_size": page_bytes,
            # Pages end after whole batches alone.
            "write_batch_size": max(1, min(PAGE_ROWS, page_bytes // max(1, widest))),
        }

    def _with_copies(self, rows: pa.Table) -> pa.Table:
        """Write what is shared, and return what pyarrow is to write of a row group."""
        return self._shared.write(rows, self._output) if self._shared else self._expanded(rows)

    def _expanded(self, rows: pa.Table) -> pa.Table:
        names = self._schema.names
        columns = [rows.column(self._copies.get(name, name)) for name in names]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _completed(self, tail: bytes) -> bytes:
        """The file's last bytes, from those that pyarrow wrote."""
        if not self._annotations and not self._shared:
            return tail
        metadata = parse_footer(tail)
        if self._shared:
            self._shared.complete(metadata)
        annotate(metadata, self._annotations)
        return footer_bytes(metadata)

    def _row_group_rows(self, table: pa.Table) -> int:
        width = max(1, self._size(table) // table.num_rows)
        return max(1, min(self._max_rows, self._max_bytes // width))

    def _size(self, rows: pa.Table) -> int:
        """Bytes in memory, as if the copies were there."""
        size: int = rows.nbytes
        return size + sum(rows.column(name).nbytes for name in self._copies.values())

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, StorageError | MemoryError):
            return error
        if isinstance(error, OSError):
            return explain(error, "write", self._location)
        return StorageError(f"cannot write {self._location!r}: {error}", path=self._location)
