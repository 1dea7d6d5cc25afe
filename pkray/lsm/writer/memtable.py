"""Hold rows that are in memory only, and find them by key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.lsm.keys import key_groups
from pkray.lsm.keys.key_prefixes import KeyPrefixes, KeyRanges, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.merge.merge_function import MergeEngine, cut_at_deletes, is_add
from pkray.schema.table_schema import KIND, TableSchema

BLOCK_KEYS = 64 << 10
BLOCK_BYTES = 16 << 20
"""Keys merged and handed on at a time: so many, or fewer if their rows are wide."""


@dataclass(frozen=True)
class FrozenRows:
    """A memtable's rows, sorted.

    Args:
        groups: the rows by key.
        shift: what is added to their sequence numbers, so that they follow those of older runs.
    """

    groups: key_groups.KeyGroups
    shift: int = 0

    def runs(self, engine: MergeEngine) -> list[FrozenRows]:
        """Split the rows into runs, the oldest first: two if deletes must stay apart."""
        if not engine.deletes_reset:
            return [self]
        cut = cut_at_deletes(self.groups)
        return [FrozenRows(run, number * run.rows.num_rows) for number, run in enumerate(cut)]

    def merged(
        self, engine: MergeEngine, *, nothing_before: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Merge the rows: yield one key-value row a key, in key order.

        Args:
            nothing_before: there are no older rows of any key.
        """
        for block in self._blocks():
            rows = engine.merge(block)
            if nothing_before and engine.drops_passing:
                rows = _without_passing(rows, block)
            if rows.num_rows:
                yield key_groups.shifted(rows, self.shift)

    def every(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows by key, user sequence and arrival; needs groups that are ordered."""
        for block in self._blocks():
            yield block.take(block.order)

    def _blocks(self) -> Iterator[key_groups.KeyGroups]:
        width = self.groups.rows.nbytes // max(1, len(self.groups))
        return self.groups.blocks(max(1, min(BLOCK_KEYS, BLOCK_BYTES // max(1, width))))


def _without_passing(rows: pa.RecordBatch, groups: key_groups.KeyGroups) -> pa.RecordBatch:
    """Leave out the keys of several rows that are gone after the last of them."""
    several = np.diff(groups.starts, append=len(groups.order)) > 1
    passing = several & ~is_add(rows.column(KIND))
    return rows.filter(pa.array(~passing)) if passing.any() else rows


class Memtable:
    """Holds incoming rows in the order of their arrival. One thread adds; others may look up
    concurrently.

    Attributes:
        bytes: what they take up.
        rows: how many.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._order = key_groups.RowOrder(schema)
        names = [field.name for field in schema.fields]
        self._names = [KIND, *names]
        self._schema = schema.row_schema
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self.rows = 0
        self._segments: list[_Segment] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows with all value columns and ``_VALUE_KIND``."""
        if rows.num_rows:
            with self._lock:
                self._batches.append(rows.select(self._names))
            self.bytes += rows.nbytes
            self.rows += rows.num_rows

    def freeze(self, first_sequence: int, *, ordered: bool = True) -> FrozenRows:
        """Sort the rows, and number them in the order of their arrival.

        Args:
            ordered: False is faster, and enough for engines without ``needs_order``.
        """
        return FrozenRows(self._order.group(self._combined(first_sequence), ordered=ordered))

    def lookup(
        self, keys: pa.RecordBatch, engine: MergeEngine, first_sequence: int
    ) -> pa.RecordBatch:
        """Find the merged key-value rows of keys, deletes included, as runs have them.

        Args:
            keys: the key columns, distinct.
            first_sequence: of the oldest row here.
        """
        wanted = self._order.keys(keys)
        return self._merged(lambda segment: segment.find(wanted), engine, first_sequence)

    def lookup_prefixes(
        self, prefixes: KeyPrefixes, engine: MergeEngine, first_sequence: int
    ) -> pa.RecordBatch:
        """Find as `lookup` does, all keys that begin with the prefixes."""
        return self._merged(lambda segment: segment.find_prefixes(prefixes), engine, first_sequence)

    def in_ranges(
        self, ranges: KeyRanges, count: int
    ) -> Iterator[tuple[np.ndarray, pa.RecordBatch, np.ndarray]]:
        """Find the newest rows of the first or last keys of ranges, part by part, oldest first.

        Args:
            count: keys of each range at most.

        Yields:
            the number of each row's range, ascending, and within it in key order; the rows, without
            sequence numbers, deletes included; whether each range has more keys in this part.
        """
        for segment, rows in self._sorted():
            of_row, numbers, more = segment.find_ranges(ranges, count)
            if len(numbers):
                yield of_row, key_groups.take(rows, numbers), more

    def _sorted(self) -> list[tuple[_Segment, pa.RecordBatch]]:
        with self._lock:
            self._sort_new_rows()
            return list(zip(self._segments, self._batches, strict=True))

    def _merged(
        self, find: Callable[[_Segment], np.ndarray], engine: MergeEngine, first_sequence: int
    ) -> pa.RecordBatch:
        found = []
        for segment, rows in self._sorted():
            numbers = find(segment)
            if len(numbers):
                sequence = pa.array(numbers + first_sequence)
                found.append(self._numbered(sequence, key_groups.take(rows, numbers)))
            first_sequence += rows.num_rows
        if not found:
            return key_groups.empty_rows(self._schema)
        runs = FrozenRows(self._order.group(key_groups.concat(found))).runs(engine)
        return key_groups.concat([engine.merge(run.groups) for run in runs])

    def _combined(self, first_sequence: int) -> pa.RecordBatch:
        with self._lock:
            rows = key_groups.concat(self._batches)
            self._batches, self._segments = [rows], []
        numbers = np.arange(first_sequence, first_sequence + rows.num_rows)
        return self._numbered(pa.array(numbers), rows)

    def _numbered(self, numbers: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([numbers, *rows.columns], schema=self._schema)

    def _sort_new_rows(self) -> None:
        """Index the batches that came since, joined with sorted ones that are not much larger.

        So a row is sorted again a logarithmic number of times, however often one looks.
        """
        known = len(self._segments)
        if known == len(self._batches):
            return
        rows = sum(batch.num_rows for batch in self._batches[known:])
        while known and self._batches[known - 1].num_rows <= 2 * rows:
            known -= 1
            rows += self._batches[known].num_rows
        self._batches[known:] = [key_groups.concat(self._batches[known:])]
        self._segments[known:] = [_Segment(self._order, self._batches[known])]


class _Segment:
    """A part of the memtable, sorted by key."""

    def __init__(self, order: key_groups.RowOrder, rows: pa.RecordBatch) -> None:
        keys = [rows.column(name) for name in order.key_columns]
        normalized = NormalizedKeys(keys)
        self._rows, self._starts = normalized.sort()
        self._sizes = np.diff(self._starts, append=len(self._rows))
        firsts = self._rows[self._starts]
        self._columns = [column.take(pa.array(firsts)) for column in keys]
        self._keys = normalized.taken(firsts, self._columns)
        self._by_width: dict[int, SortedPrefixes] = {}

    def find(self, keys: NormalizedKeys) -> np.ndarray:
        """Find the numbers of all rows of these keys, those of one key in the order of their
        arrival."""
        positions, found = self._keys.search(keys)
        return self._rows_of(positions[found])

    def find_prefixes(self, prefixes: KeyPrefixes) -> np.ndarray:
        """Find as `find` does, all keys that begin with the prefixes."""
        return self._rows_of(spread(*self._leading(prefixes.width).spans(prefixes))[1])

    def find_ranges(
        self, ranges: KeyRanges, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the first or last keys of ranges.

        Returns:
            For each key found its range and the number of its newest row; whether each range has
            more keys.
        """
        spans = ranges.spans(self._leading(ranges.width), self._keys)
        low, high, more = ranges.cut(*spans, count)
        of_key, keys = spread(low, high)
        return of_key, self._rows[self._starts[keys] + self._sizes[keys] - 1], more

    def _leading(self, width: int) -> SortedPrefixes:
        if width not in self._by_width:
            self._by_width[width] = SortedPrefixes(self._columns[:width])
        return self._by_width[width]

    def _rows_of(self, groups: np.ndarray) -> np.ndarray:
        sizes = self._sizes[groups]
        before = np.cumsum(sizes) - sizes
        places = np.repeat(self._starts[groups] - before, sizes) + np.arange(sizes.sum())
        return self._rows[places]
