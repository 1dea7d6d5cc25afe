"""Find the changes of some keys, by looking up their rows before and after."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pkray.changelog.bucket_state import BucketState
from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import ROWS_SCANNED_PER_KEY, LookupStore
from pkray.lsm.compaction.changelog_rows import differences
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import Deduplicate, merge_engine
from pkray.lsm.keys.key_groups import RowOrder
from pkray.lsm.levels import Levels
from pkray.lsm.merge.live_rows import LiveRows
from pkray.lsm.merge.merge_function import without_deletes
from pkray.lsm.merge.merge_read import merge_read
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.owned_directory import default_local_directory


def key_changes(
    store: ObjectStore,
    schema: TableSchema,
    touched: Sequence[DataFileMeta],
    before: BucketState,
    after: BucketState,
) -> Iterator[pa.RecordBatch]:
    """Look the keys of some files up in two states of a bucket, and yield the rows that differ.
    Rows have ``_VALUE_KIND`` and all value columns, in key order.

    Few keys are looked up, many are found by reading the bucket once; see `_Rows`.

    Args:
        touched: files of the bucket whose keys may have changed.
    """
    files = DataFileStore(store, schema, before.partition, before.bucket)
    states = [_Rows(files, state.levels(store)) for state in (before, after)]
    columns = [KIND, *schema.names]
    keys_of_touched = merge_read(
        Levels(touched).runs(),
        files,
        Deduplicate(),
        schema,
        list(schema.trimmed_primary_keys),
        drop_deletes=False,
    )
    for keys in keys_of_touched:
        (old, old_rows), (new, new_rows) = (state.find(keys) for state in states)
        both = pa.concat_tables([old_rows.select(columns), new_rows.select(columns)])
        new = np.where(new >= 0, new + old_rows.num_rows, -1)
        for rows in both.combine_chunks().to_batches():
            yield differences(rows, old, new)


class _Rows:
    """A bucket's rows by key.

    Keys that are few compared with the rows are looked up: that copies each file to the local disk
    when it is first asked (``lookup.cache-max-disk-size``, ``lookup.cache-max-memory-size``,
    ``lookup.cache-file-retention``). Else the bucket is read, once, in key order.
    """

    def __init__(self, files: DataFileStore, levels: Levels) -> None:
        self._files = files
        self._levels = levels
        self._engine = merge_engine(files.schema)
        self._order = RowOrder(files.schema)
        self._scan = ScanLookup(files.schema, LiveRows(files, levels.vectors), self._engine)

    def find(self, keys: pa.RecordBatch) -> tuple[np.ndarray, pa.Table]:
        """Find rows by key: the number of each key's row, -1 where it has none, and the rows.

        Args:
            keys: distinct, beyond those asked for before.
        """
        if keys.num_rows * ROWS_SCANNED_PER_KEY < self._levels.row_count:
            schema = self._files.schema
            cache = _cache(CopyLimits.from_options(schema.core))
            lookup = BucketLookup(cache, self._files, schema, self._engine)
            found, rows = lookup.find(self._levels, keys, [KIND, *schema.names])
            numbers = np.full(keys.num_rows, -1)
            numbers[found] = np.arange(rows.num_rows)
            return numbers, rows
        batch = without_deletes(self._scan.find(keys, self._levels.runs()))
        places, hit = self._order.keys(batch).search(self._order.keys(keys))
        return np.where(hit, places, -1), pa.Table.from_batches([batch])


@lru_cache
def _cache(limits: CopyLimits) -> LookupStore:
    """Return the copies that this process shares: data files never change."""
    cache = LookupStore(f"{default_local_directory()}/changes", limits, clock=now_millis)
    atexit.register(cache.close)
    return cache
