"""Find a compaction's rows in the levels above it: by key if keys are few, else by one scan.

Like ``lsm.compaction.upper_lookup.ScanLookup``, whose ways it has, but through local copies: the
LSM tree may not know of these.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.lookup.bucket_lookup import BucketLookup, RunsSearch
from pkray.lookup.key_hash import one_batch, one_chunk
from pkray.lookup.source import DataFileSource
from pkray.lookup.store import ROWS_SCANNED_PER_KEY, LookupStore
from pkray.lsm.compaction.upper_lookup import FoundRows, ScanLookup, in_key_order_of
from pkray.lsm.keys.key_groups import RowOrder
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.levels import SortedRun, Vectors
from pkray.lsm.merge.located_rows import LocatedRows, placed
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.schema.table_schema import TableSchema


class StoreLookup:
    """Finds rows by key in the runs above a compaction's output level.

    Args:
        files: of one bucket.
    """

    def __init__(
        self, store: LookupStore, schema: TableSchema, files: DataFileSource, engine: MergeEngine
    ) -> None:
        self._store = store
        self._schema = schema
        self._files = files
        self._lookup = BucketLookup(store, files, schema, engine)
        self._order = RowOrder(schema)
        self._row_schema = schema.row_schema
        self._key_types = schema.types(schema.trimmed_primary_keys)
        self._scan = ScanLookup(schema, _CopiedFiles(store, files), engine)

    def find(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> pa.RecordBatch:
        """Find the merged rows of keys, in key order, deletes among them.

        Args:
            keys: the key columns, distinct and ascending.
            runs: newest first.
        """
        if self._are_dense(keys, runs):
            return self._scan.find(keys, runs)
        positions, found = self._looked_up(keys, runs)
        return in_key_order_of(positions, found, self._row_schema)

    def newest(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> FoundRows:
        """Find the newest rows of keys, deletes among them."""
        if self._are_dense(keys, runs):
            return self._scan.newest(keys, runs)
        return self._looked_up(keys, runs)

    def _looked_up(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> FoundRows:
        positions, rows = self._lookup.find_in_runs(runs, {}, keys, self._schema.names)
        return positions, [one_batch(rows.select(self._row_schema.names))]

    def locate(
        self,
        keys: pa.RecordBatch,
        runs: Sequence[SortedRun],
        vectors: Vectors,
        columns: Sequence[str],
    ) -> LocatedRows:
        """Find rows by key, in key order, and where they are."""
        if self._are_dense(keys, runs):
            return self._scan.locate(keys, runs, vectors, columns)
        names = list(dict.fromkeys([*self._order.key_columns, *columns]))
        schema = pa.schema([self._row_schema.field(name) for name in names])
        files = [file.file_name for run in runs for file in run.files]
        numbers = {name: number for number, name in enumerate(files)}
        search = RunsSearch(self._store, self._files, self._schema, keys, vectors)
        found = [
            placed(one_batch(rows.cast(schema)), numbers[file.file_name], positions)
            for file, positions, rows in search.locate(runs, names)
            if rows.num_rows
        ]
        return LocatedRows.from_batches(found, files, schema, self._order)

    def _are_dense(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> bool:
        """Whether reading all rows in the keys' range costs less than looking each key up."""
        return keys.num_rows * ROWS_SCANNED_PER_KEY >= self._rows_between(keys, runs)

    def _rows_between(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> float:
        """Estimate how many rows the runs have from the first key to the last, evenly spread."""
        files = [file for run in runs for file in run.files]
        ends = [end for file in files for end in (file.min_key, file.max_key)]
        columns = [
            pa.concat_arrays([one_chunk(keys.column(i)).take(pa.array([0, keys.num_rows - 1])), of])
            for i, of in enumerate(binary_row.decode(ends, self._key_types))
        ]
        places = NormalizedKeys(columns).prefix()[0].astype(np.float64)
        (first, last), lows, highs = places[:2], places[2::2], places[3::2]
        shared = np.minimum(highs, last) - np.maximum(lows, first)
        share = np.clip(shared / np.maximum(highs - lows, 1), 0, 1)
        return float((share * [file.row_count for file in files]).sum())


class _CopiedFiles:
    """Reads files through their local copies."""

    def __init__(self, store: LookupStore, files: DataFileSource) -> None:
        self._store = store
        self._files = files

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = 0,
        batch_bytes: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        assert columns is not None
        return self._store.read(self._files, file, columns)
