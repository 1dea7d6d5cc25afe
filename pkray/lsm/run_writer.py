"""Write sorted rows to files of one level."""

import pyarrow as pa

from pkray.closing import Abortable
from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.format.stats import StatsCollector, column_modes
from pkray.lsm.bucket_files import BucketFiles
from pkray.lsm.merge.merge_function import count_deletes
from pkray.options import TableOptions
from pkray.schema.table_schema import KEY_PREFIX, SEQUENCE
from pkray.storage.parquet import ParquetWriter
from pkray.storage.row_pages import SUFFIX, RowPagesWriter

ROWS_BETWEEN_LOOKS = 1_000
"""A file's size is not looked at more often, however small the target; as in Paimon."""
PAGED_ROWS = 64 << 10
"""A flush of so many may go to a higher level as it is; fewer are merged, or copied, soon."""


class RunWriter(Abortable):
    """Writes rows sorted by key, batch after batch, to files of one level.

    Attributes:
        files: what was written, once closed.
    """

    def __init__(self, store: BucketFiles, level: int, source: int, prefix: str) -> None:
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
        """Append rows, sorted by key after those before."""
        for start in range(0, rows.num_rows, step := self._rows_between_looks(rows)):
            self._write(rows.slice(start, step))

    def _rows_between_looks(self, rows: pa.RecordBatch) -> int:
        if rows.nbytes <= self._target_size:
            return max(1, rows.num_rows)
        return max(ROWS_BETWEEN_LOOKS, int(rows.num_rows * self._target_size / rows.nbytes))

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._open is None:
            options = self._store.options_for(self._level, self._prefix)
            name = self._new_name()
            is_large = self._level > 0 or rows.num_rows >= PAGED_ROWS
            has_pages = is_large and self._prefix == "data" and options.lookup_pages_enabled
            place = (self._level, self._source)
            self._open = _OpenFile(self._store, name, *place, options, has_pages)
        self._open.write(rows)
        if self._open.size_estimate >= self._target_size:
            self._finish_file()

    def close(self) -> list[DataFileMeta]:
        if self._open is not None:
            self._finish_file()
        return self.files

    def abort(self) -> None:
        """Delete what was written."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        self._store.delete(self.files)
        self.files = []

    def _finish_file(self) -> None:
        assert self._open is not None
        self.files.append(self._open.finish())
        self._open = None

    def _new_name(self) -> str:
        names = self._store.names
        return names.changelog() if self._prefix == "changelog" else names.data()


class _OpenFile:
    """Writes one data or changelog file, and collects what its metadata says.

    It takes one row at least; rows are sorted by key.

    Args:
        store: of its bucket.
        options: how it is written.
        has_pages: whether its rows are written in pages too, see `RowPages`.
    """

    def __init__(
        self,
        store: BucketFiles,
        name: str,
        level: int,
        source: int,
        options: TableOptions,
        has_pages: bool,
    ) -> None:
        self._store = store
        self._name = name
        self._level = level
        self._source = source
        schema = store.schema
        self._keys = schema.trimmed_primary_keys
        self._key_types = schema.types(self._keys)
        copies = {KEY_PREFIX + key: key for key in self._keys}
        file_schema = schema.file_schema
        self._writer = ParquetWriter(store.store, store.path(name), file_schema, options, copies)
        self._pages: RowPagesWriter | None = None
        if has_pages:
            path = store.path(name + SUFFIX)
            self._pages = RowPagesWriter(store.store, path, schema.row_schema, self._keys)
        self._columns = [name for name in file_schema.names if name not in copies]
        names = [field.name for field in schema.fields]
        self._stats = StatsCollector(names, schema.types(names), column_modes(options, names))
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
        self._writer.write(rows.select(self._columns))
        if self._pages is not None:
            self._pages.write(rows)
        keys = [columns[name] for name in self._keys]
        if self._first is None:
            self._first = [_value(column, 0) for column in keys]
        self._last = [_value(column, len(column) - 1) for column in keys]
        self._stats.update(rows)
        self._rows += rows.num_rows
        self._deletes += count_deletes(rows)
        numbers = columns[SEQUENCE].to_numpy()
        self._min_sequence = min(self._min_sequence, int(numbers.min()))
        self._max_sequence = max(self._max_sequence, int(numbers.max()))

    def finish(self) -> DataFileMeta:
        assert self._first is not None
        try:
            if self._pages is not None:
                self._pages.close()
            file_size = self._writer.close()
        except BaseException:
            self.abort()
            raise
        ends = [pa.concat_arrays(pair) for pair in zip(self._first, self._last, strict=True)]
        min_key, max_key = binary_row.encode(ends, self._key_types).to_pylist()
        return DataFileMeta(
            file_name=self._name,
            file_size=file_size,
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
            extra_files=() if self._pages is None else (self._name + SUFFIX,),
        )

    def abort(self) -> None:
        self._writer.abort()
        if self._pages is not None:
            self._pages.abort()
            names = self._name, self._name + SUFFIX  # one of the two may be there already
            self._store.store.delete([self._store.path(name) for name in names])


def _value(column: pa.Array, row: int) -> pa.Array:
    """Copy one value: a slice would hold all."""
    return pa.concat_arrays([column.slice(row, 1)])
