"""Rows by key in one bucket: its committed files, and what writers hold on top of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.lookup.levels import LevelsLookup
from pkray.lookup.source import DataFileSource
from pkray.lookup.store import LookupStore
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import KIND, SEQUENCE, RowOrder, concat, take
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import is_add, without_deletes
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.schema.table_schema import TableSchema


class BucketLookup:
    """Lookups in the buckets of one owner.

    Args:
        cache: the owner's copies of data files.
    """

    def __init__(self, schema: TableSchema, cache: LookupStore) -> None:
        self._schema = schema
        self._cache = cache
        self._engine = merge_engine(schema)
        self._order = RowOrder(schema)
        self._names = [field.name for field in schema.fields]

    def compaction_lookup(self, files: DataFileStore) -> StoreLookup:
        """Make the lookup of old rows that compactions of one bucket need."""
        return StoreLookup(self._cache, self._schema, files, self._engine)

    def find(
        self,
        files: DataFileSource,
        levels: Levels,
        held: Sequence[Uncommitted],
        keys: pa.RecordBatch,
        columns: Sequence[str],
    ) -> tuple[np.ndarray, pa.Table]:
        """Find keys: positions of those found, and their rows' columns.

        Args:
            levels: the committed files.
            held: by writers, whose rows count too, the oldest first.
            keys: the table's primary key columns; a key may come twice.
        """
        wanted = keys.select(self._order.key_columns)
        if not held:
            positions, rows = self._files_lookup(files).find(levels, wanted, columns)
            return positions, rows.select(columns)
        return self._find_latest(files, levels, held, wanted, columns)

    def find_prefixes(
        self,
        files: DataFileSource,
        levels: Levels,
        held: Sequence[Uncommitted],
        keys: pa.RecordBatch,
        columns: Sequence[str],
    ) -> tuple[np.ndarray, pa.Table]:
        """Find all rows whose keys begin so, as `find`; each position's rows in key order.

        Args:
            keys: leading columns of the trimmed primary key.
        """
        leading = [name for name in self._order.key_columns if name in keys.schema.names]
        prefixes = KeyPrefixes([keys.column(name) for name in leading])
        levels = _with(levels, held)
        memory = [each.lookup_memory_prefixes(prefixes, levels) for each in _in_memory(held)]
        rows = without_deletes(
            self._files_lookup(files).find_prefixes(levels, prefixes, columns, memory)
        )
        positions, numbers = prefixes.answers([rows.column(name) for name in leading])
        return positions, pa.Table.from_batches([take(rows, numbers).select(list(columns))])

    def _find_latest(
        self,
        files: DataFileSource,
        levels: Levels,
        held: Sequence[Uncommitted],
        keys: pa.RecordBatch,
        columns: Sequence[str],
    ) -> tuple[np.ndarray, pa.Table]:
        levels = _with(levels, held)
        distinct = self._distinct(keys)
        memory = [each.lookup_memory(distinct, levels) for each in _in_memory(held)]
        lookup = self._files_lookup(files)
        if not self._engine.keeps_newest:
            positions, rows = lookup.find(levels, keys, columns, newer=memory)
            return positions, rows.select(list(columns))
        _, stored = lookup.find(levels, distinct, self._names, keep_deletes=True)
        system = [SEQUENCE, KIND, *self._names]
        layers = [stored.select(system).combine_chunks().to_batches()]
        layers += [[rows.select(system)] for rows in memory]
        found = [batch for layer in layers for batch in layer]
        if not found:  # all that is held was flushed, and has none of the keys
            return np.empty(0, np.intp), stored.select(list(columns))
        merged = self._engine.merge(self._order.group(concat(found)))
        merged = merged.filter(pa.array(is_add(merged.column(KIND))))
        places, hit = self._order.keys(merged).search(self._order.keys(keys))
        positions = np.flatnonzero(hit)
        rows = merged.take(pa.array(places[hit])).select(list(columns))
        return positions, pa.Table.from_batches([rows])

    def _files_lookup(self, files: DataFileSource) -> LevelsLookup:
        return LevelsLookup(self._cache, files, self._schema, self._engine)

    def _distinct(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        order, starts = self._order.keys(keys).sort(stable=True)
        return keys.take(pa.array(order[starts]))


def _with(levels: Levels, held: Sequence[Uncommitted]) -> Levels:
    """The committed files, and what the writers have flushed."""
    for each in held:
        levels = each.on(levels)
    return levels


def _in_memory(held: Sequence[Uncommitted]) -> list[Uncommitted]:
    return [each for each in held if each.memory.rows]
