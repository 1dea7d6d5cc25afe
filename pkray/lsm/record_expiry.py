"""Find rows whose time has passed, which compactions leave out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.format.words import fixed_values
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import is_add
from pkray.schema.table_schema import KIND, TableSchema

_LEAST_MILLIS = 1_000_000_000_000
"""BIGINT times from here on are milliseconds, below it seconds, unless the table says which."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Schemas = Callable[[int], "TableSchema"]


class RecordExpiry:
    """Finds the rows that are older than a table keeps them.

    A row without a time never expires. TIMESTAMP counts as UTC.

    Source: ``record-level.expire-time``, ``record-level.time-field`` and
        ``record-level.time-field-type``. As in Paimon, expiry happens in compaction alone: reads
        and lookups see what is there.

    Args:
        now: epoch milliseconds.
    """

    def __init__(self, schema: TableSchema, now: int) -> None:
        options = schema.core
        assert options.record_level_expire_time is not None
        assert options.record_level_time_field is not None
        self._name = options.record_level_time_field
        self._id = schema.field(self._name).id
        self._says = options.record_level_time_field_type
        self._oldest = now // 1000 - options.record_level_expire_time // 1000
        # Who deletes whole rows must go on doing so: without it an older row would come back.
        # Elsewhere a retraction expires with what it takes back.
        self._keeps_deletes = (
            options.merge_engine in ("deduplicate", "first-row") or options.deletes_reset
        )

    @classmethod
    def from_schema(cls, schema: TableSchema, now: int) -> RecordExpiry | None:
        """Make the expiry of a table whose rows expire; None of others."""
        return None if schema.core.record_level_expire_time is None else cls(schema, now)

    def expired(self, rows: pa.RecordBatch) -> np.ndarray:
        """Whether each of these key-value rows has expired."""
        found = self._passed(rows.column(self._name))
        return found & is_add(rows.column(KIND)) if self._keeps_deletes else found

    def may_be_in(self, file: DataFileMeta, schemas: Schemas) -> bool:
        """Whether a file has expired rows; no where its statistics do not tell.

        Args:
            schemas: the table's schemas by id.
        """
        written = schemas(file.schema_id)
        columns = file.value_stats_cols
        names = written.names if columns is None else list(columns)
        ids = [written.field(name).id for name in names]
        if self._id not in ids:
            return False
        rows, place = pa.array([file.value_stats.min_values]), ids.index(self._id)
        least = binary_row.decode_column(rows, place, written.types(names))
        return bool(self._passed(least)[0])

    def _passed(self, times: pa.Array) -> np.ndarray:
        late = self._seconds(times) < self._oldest
        if times.null_count:
            late &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return late

    def _seconds(self, times: pa.Array) -> np.ndarray:
        kind = times.type
        if pa.types.is_timestamp(kind):
            return fixed_values(times, np.dtype("i8")) // _PER_SECOND[kind.unit]
        values = fixed_values(times, np.dtype(kind.to_pandas_dtype())).astype(np.int64)
        if self._says == "millis-long":
            return values // 1000
        if self._says == "seconds-long" or pa.types.is_int32(kind):
            return values
        return np.where(values >= _LEAST_MILLIS, values // 1000, values)


def files_to_purge(levels: Levels, schema: TableSchema, schemas: Schemas, now: int) -> set[str]:
    """Return the names of files that hold rows which are marked deleted, or have expired.

    Args:
        schemas: the table's schemas by id.
        now: epoch milliseconds.
    """
    expiry = RecordExpiry.from_schema(schema, now)
    files = () if expiry is None else levels.files
    expired = (file.file_name for file in files if expiry and expiry.may_be_in(file, schemas))
    return {*levels.vectors, *expired}
