"""Find rows by the beginning of their key over the sorted runs of a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.lookup.key_hash import one_chunk
from pkray.lookup.run_ranges import run_ranges
from pkray.lookup.source import SYSTEM_COLUMNS, DataFileSource
from pkray.lookup.store import LookupStore
from pkray.lsm.keys.key_groups import concat, empty_rows, row_schema
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from pkray.lsm.levels import Levels, SortedRun
from pkray.lsm.merge.merge_function import MergeEngine, newest_images
from pkray.lsm.merge.merge_read import row_order
from pkray.schema.table_schema import TableSchema


def lookup_prefixes(
    store: LookupStore,
    source: DataFileSource,
    levels: Levels,
    prefixes: KeyPrefixes,
    columns: Sequence[str],
    schema: TableSchema,
    engine: MergeEngine,
    newer: Sequence[pa.RecordBatch] = (),
) -> pa.RecordBatch:
    """Find rows by the beginning of their keys, merged over the bucket's files; deletes are among
    them.

    Args:
        prefixes: of the trimmed primary key.
        columns: value columns.
        newer: key-value rows of such keys that are in no file yet, the oldest first, to be merged
            with those of the files.

    Returns:
        Key-value rows in key order: the system columns, ``columns``, the key columns.
    """
    runs = levels.runs()
    order = row_order(runs, schema)
    wanted = [*SYSTEM_COLUMNS, *columns, *schema.trimmed_primary_keys]
    names = list(dict.fromkeys([*wanted, *order.columns, *engine.also_needed(columns)]))
    if not engine.keeps_newest:
        names = list(dict.fromkeys([*names, *schema.names]))
    target = pa.schema([row_schema(schema).field(name) for name in names])
    found: list[pa.RecordBatch] = []
    is_image: list[np.ndarray] = []
    for run in reversed(runs):
        for table in _in_run(store, source, levels, run, prefixes, names, schema):
            rows = [one_chunk(column) for column in table.cast(target).columns]
            found.append(pa.RecordBatch.from_arrays(rows, schema=target))
            is_image.append(np.full(table.num_rows, run.level > 0))
    found += [rows.select(names) for rows in newer]
    is_image += [np.zeros(rows.num_rows, np.bool_) for rows in newer]
    chosen = list(dict.fromkeys(wanted))
    if not found:
        return empty_rows(target).select(chosen)
    groups = newest_images(engine, order.group(concat(found)), np.concatenate(is_image))
    return engine.merge(groups).select(chosen)


def _in_run(
    store: LookupStore,
    source: DataFileSource,
    levels: Levels,
    run: SortedRun,
    prefixes: KeyPrefixes,
    columns: list[str],
    schema: TableSchema,
) -> Iterator[pa.Table]:
    keys = list(schema.trimmed_primary_keys)
    for file in run_ranges(run, tuple(schema.types(keys))).files_with(prefixes):
        places, rows = store.locate_prefixes(source, file, keys, prefixes, columns)
        deleted = levels.vectors.get(file.file_name)
        if deleted is not None:
            rows = rows.filter(pa.array(~deleted.contains(places)))
        if rows.num_rows:
            yield rows
