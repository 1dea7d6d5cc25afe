"""A data or changelog file being written, and what its metadata will say."""

from __future__ import annotations

import pyarrow as pa

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.format.stats import StatsCollector, column_modes
from pkray.lsm.bucket_files import BucketFiles
from pkray.lsm.merge.merge_function import count_deletes
from pkray.options import TableOptions
from pkray.schema.table_schema import KEY_PREFIX, SEQUENCE
from pkray.storage.parquet import ParquetWriter


class OpenFile:
    """Takes key-value rows, sorted by key; one at least.

    Args:
        store: of its bucket.
        options: how it is written.
    """

    def __init__(
        self, store: BucketFiles, name: str, level: int, source: int, options: TableOptions
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


def _value(column: pa.Array, row: int) -> pa.Array:
    """One value, copied: a slice would hold all."""
    return pa.concat_arrays([column.slice(row, 1)])
