"""Find the rows that a compaction's keys have in the levels above its output.

`ScanLookup` reads these levels; ``lookup.store_lookup``, which may not be imported from here, asks
local copies where keys are few.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from pkray.lsm.keys.key_groups import RowOrder, concat, empty_rows, take
from pkray.lsm.keys.keys import KeyBound
from pkray.lsm.keys.sections import in_key_order
from pkray.lsm.levels import SortedRun, Vectors
from pkray.lsm.merge.located_rows import LocatedRows, placed
from pkray.lsm.merge.merge_function import MergeEngine, newest_images
from pkray.lsm.merge.merge_read import FileReader, row_order
from pkray.schema.table_schema import TableSchema

READ_ROWS = 32 << 10
"""Rows of a batch: each run that is searched holds one."""

FoundRows = tuple[np.ndarray, list[pa.RecordBatch]]
"""Positions in the keys, in no particular order, and for each its key-value row, one batch after
the other."""


class UpperLevelLookup(Protocol):
    """Finds rows by key in the runs above a compaction's output level."""

    def find(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> pa.RecordBatch:
        """Find the merged rows of keys.

        Args:
            keys: the key columns, distinct and ascending; those of one compaction ascend from
                call to call as well.
            runs: newest first.

        Returns:
            Key-value rows with all columns, in key order, deletes among them: by its sequence
            fields one may win over what is compacted.
        """

    def newest(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> FoundRows:
        """Find the newest rows of keys, by arrival; deletes are among them.

        Args:
            keys, runs: as of `find`.
        """

    def locate(
        self,
        keys: pa.RecordBatch,
        runs: Sequence[SortedRun],
        vectors: Vectors,
        columns: Sequence[str],
    ) -> LocatedRows:
        """Find rows by key, and where they are, where vectors leave one row a key.

        Args:
            keys: as of `find`.
            vectors: rows that are not there any more.
            columns: of the rows, in addition to the key columns.
        """


class ScanLookup:
    """Reads the runs in key order, alongside the compaction, once."""

    def __init__(self, schema: TableSchema, files: FileReader, engine: MergeEngine) -> None:
        self._schema = schema
        self._files = files
        self._engine = engine
        self._order = RowOrder(schema)
        self._row_schema = schema.row_schema
        self._opened: object = None
        self._scans: list[_Scan] = []
        self._passed: KeyBound | None = None

    def find(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> pa.RecordBatch:
        """Find keys by reading the runs whole, as `UpperLookup.find`."""
        order = row_order(runs, self._schema)
        if self._engine.keeps_newest and order.columns == order.key_columns:
            positions, found = self.newest(keys, runs)
            return in_key_order_of(positions, found, self._row_schema)
        self._go_to(keys, runs)
        return self._merged(keys, order)

    def newest(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> FoundRows:
        """Find the newest rows of keys by reading the runs whole."""
        self._go_to(keys, runs)
        left = np.arange(keys.num_rows)
        positions: list[np.ndarray] = [np.empty(0, np.intp)]
        found: list[pa.RecordBatch] = []
        for scan in self._scans:  # older ones are asked only for keys that no newer one has
            if not len(left):
                break
            hits, rows = scan.find(take(keys, left))
            positions.append(left[hits])
            found += rows
            left = np.delete(left, hits)
        return np.concatenate(positions), found

    def locate(
        self,
        keys: pa.RecordBatch,
        runs: Sequence[SortedRun],
        vectors: Vectors,
        columns: Sequence[str],
    ) -> LocatedRows:
        """Find where keys are by reading the runs whole."""
        wanted = self._order.keys(keys)
        names = list(dict.fromkeys([*self._order.key_columns, *columns]))
        first = wanted.bound(0)
        if self._must_open((tuple(runs), tuple(names), vectors), first):
            self._scans = [
                _Scan(self._placed_rows(run, runs, vectors, names, first), self._order)
                for run in runs
            ]
        self._passed = wanted.bound(-1)
        return LocatedRows.from_batches(
            [rows for scan in self._scans for rows in scan.find(keys)[1]],
            [file.file_name for run in runs for file in run.files],
            pa.schema([self._row_schema.field(name) for name in names]),
            self._order,
        )

    def _go_to(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> None:
        """Open the runs, or go on in them."""
        wanted = self._order.keys(keys)
        first = wanted.bound(0)
        if self._must_open(tuple(runs), first):
            self._scans = [_Scan(self._rows(run, first), self._order) for run in runs]
        self._passed = wanted.bound(-1)

    def _merged(self, keys: pa.RecordBatch, order: RowOrder) -> pa.RecordBatch:
        found = [rows for scan in reversed(self._scans) for rows in scan.find(keys)[1]]
        if not found:
            return empty_rows(self._row_schema)
        groups = order.group(concat(found))
        are_images = np.ones(len(groups.order), np.bool_)
        return self._engine.merge(newest_images(self._engine, groups, are_images))

    def _rows(self, run: SortedRun, first: KeyBound) -> Iterator[pa.RecordBatch]:
        """Yield the run's rows from about the first key on."""
        for file in in_key_order(run, self._schema, first):
            yield from self._files.read(file, self._row_schema.names, batch_rows=READ_ROWS)

    def _must_open(self, source: object, first: KeyBound) -> bool:
        """Whether to begin anew: with other runs, or as keys come again."""
        goes_on = self._opened == source and self._passed is not None and first > self._passed
        self._opened = source
        return not goes_on

    def _placed_rows(
        self,
        run: SortedRun,
        runs: Sequence[SortedRun],
        vectors: Vectors,
        names: Sequence[str],
        first: KeyBound,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the run's rows that are there, from about the first key on."""
        numbers = {
            file.file_name: number
            for number, file in enumerate(file for run in runs for file in run.files)
        }
        for file in in_key_order(run, self._schema, first):
            deleted = vectors.get(file.file_name)
            number = numbers[file.file_name]
            before = 0
            for rows in self._files.read(file, names, batch_rows=READ_ROWS):
                count = rows.num_rows
                positions = np.arange(before, before + count)
                if deleted is not None:
                    kept = np.ones(count, np.bool_)
                    kept[deleted.within(before, count)] = False
                    rows, positions = rows.filter(pa.array(kept)), positions[kept]
                before += count
                if rows.num_rows:
                    yield placed(rows, number, positions)


def in_key_order_of(
    positions: np.ndarray, found: Sequence[pa.RecordBatch], schema: pa.Schema
) -> pa.RecordBatch:
    """Sort `FoundRows` by their positions (int64, one a row), as the keys are sorted."""
    return take(concat(found), np.argsort(positions)) if found else empty_rows(schema)


class _Scan:
    """Rows in key order, passed once."""

    def __init__(self, batches: Iterable[pa.RecordBatch], order: RowOrder) -> None:
        self._batches = iter(batches)
        self._order = order
        self._rows: pa.RecordBatch | None = None

    def find(self, keys: pa.RecordBatch) -> tuple[np.ndarray, list[pa.RecordBatch]]:
        """Find rows by key: positions of the keys that are there, and their rows.

        Args:
            keys: beyond those asked for before.
        """
        wanted = self._order.keys(keys)
        last = wanted.bound(-1)
        hits: list[np.ndarray] = [np.empty(0, np.intp)]
        found = []
        answered = 0
        while self._load():
            end = self._keys.bound(-1)
            here = wanted.count_le(end)
            if here > answered:
                asked = self._order.keys(keys.slice(answered, here - answered))
                positions, hit = self._keys.search(asked)
                if hit.any():
                    found.append(take(self._rows, positions[hit]))
                    hits.append(answered + np.flatnonzero(hit))
                answered = here
            if end >= last:
                break
            self._rows = None
        return np.concatenate(hits), found

    def _load(self) -> bool:
        """Make sure that there are rows not passed yet; False at the end."""
        if self._rows is None:
            self._rows = next(self._batches, None)
            if self._rows is None:
                return False
            self._keys = self._order.keys(self._rows)
        return True
