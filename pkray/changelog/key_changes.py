"""The changes of some keys, by looking up their rows before and after."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pkray.changelog.images import BucketImage
from pkray.format.data_file import DataFileMeta
from pkray.lookup.levels import lookup_levels
from pkray.lookup.store import LookupStore
from pkray.lsm.changelog_rows import differences
from pkray.lsm.data_files import DataFileStore, now_millis
from pkray.lsm.engines import Deduplicate, merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge_read import merge_read
from pkray.options import TableOptions
from pkray.schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.owned_directory import default_local_directory


def key_changes(
    store: ObjectStore,
    schema: TableSchema,
    touched: Sequence[DataFileMeta],
    before: BucketImage,
    after: BucketImage,
) -> Iterator[pa.RecordBatch]:
    """``_VALUE_KIND`` and all value columns of the rows that are others, in key order.

    Time grows with the keys, but for the first lookup in a file, which copies it to the local
    disk (``lookup.cache-max-disk-size``, ``lookup.cache-max-memory-size``,
    ``lookup.cache-file-retention``).

    Args:
        touched: files of the bucket whose keys may have changed.
    """
    files = DataFileStore(store, schema, before.partition, before.bucket)
    cache = _cache(schema.core)
    engine = merge_engine(schema)
    states = [before.levels(store), after.levels(store)]
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
        numbers, parts = [], []
        held = 0
        for levels in states:
            found, rows = lookup_levels(cache, files, levels, keys, schema.names, schema, engine)
            number = np.full(keys.num_rows, -1)
            number[found] = held + np.arange(rows.num_rows)
            held += rows.num_rows
            numbers.append(number)
            parts.append(rows.select(columns))
        for rows in pa.concat_tables(parts).combine_chunks().to_batches():
            yield differences(rows, *numbers)


def _cache(options: TableOptions) -> LookupStore:
    return _process_cache(
        options.lookup_cache_max_disk_size,
        options.lookup_cache_max_memory_size,
        options.lookup_cache_file_retention,
    )


@lru_cache
def _process_cache(disk: int | None, memory: int, retention: int) -> LookupStore:
    """Data files never change: all that this process reads share the copies."""
    cache = LookupStore(
        f"{default_local_directory()}/changes",
        max_disk_bytes=disk,
        max_memory_bytes=memory,
        retention_millis=retention,
        clock=now_millis,
    )
    atexit.register(cache.close)
    return cache
