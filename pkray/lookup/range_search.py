"""Find the first or the last rows of ranges of keys, and read little more than these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.lookup.block_layout import Ints
from pkray.lookup.bucket_lookup import run_ranges
from pkray.lookup.key_hash import one_batch
from pkray.lookup.source import DataFileSource
from pkray.lookup.store import LookupStore
from pkray.lsm.keys.key_groups import concat, empty_rows, take
from pkray.lsm.keys.key_prefixes import Bools, KeyRanges, spread
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.levels import Levels, SortedRun
from pkray.lsm.writer.memtable import Memtable
from pkray.schema.table_schema import KIND, TableSchema

GROWTH = 4
"""Where deletes leave too few rows, so many times as many keys are read next."""


@dataclass(frozen=True)
class _Layer:
    """Holds the rows that one run, or a part of the memory, has of each range.

    Attributes:
        of_row: the number of each row's range, ascending; rows of a range are in key order.
        rows: deletes among them.
        more: whether the layer has more rows of each range.
    """

    of_row: Ints
    rows: pa.RecordBatch
    more: Bools


@dataclass(frozen=True)
class RangeSearch:
    """Finds rows in a bucket where the newest row of a key counts, of one writer, without deletion
    vectors and of one schema.

    Each run and each part of the memory is asked for so many keys of a range. What lies beyond the
    nearest of the places where one of them stopped is not known yet: where deletes leave fewer rows
    before it than are wanted, more keys are read.

    Args:
        store: of the copies in which rows are found.
        source: reads the bucket's data files.
        is_live: tells which of some rows are there, by their kinds and values: bool, one a row.
    """

    store: LookupStore
    source: DataFileSource
    schema: TableSchema
    is_live: Callable[[pa.RecordBatch], np.ndarray]

    def find(
        self,
        levels: Levels,
        memory: Memtable,
        ranges: KeyRanges,
        count: int,
        columns: Sequence[str],
    ) -> tuple[Ints, pa.RecordBatch]:
        """Find so many rows of each range, the first or the last ones.

        Args:
            levels: all files.
            memory: newer rows.
            columns: to return, beside row kinds and key columns.

        Returns:
            The number of each row's range, ascending, and within it in key order; the rows.
        """
        names = list(dict.fromkeys([KIND, *self.schema.trimmed_primary_keys, *columns]))
        left = np.arange(len(ranges) if count else 0)
        positions, found = [np.zeros(0, np.int64)], [self._nothing(names)]
        asked = count
        while len(left):
            some = ranges if len(left) == len(ranges) else ranges.take(left)
            layers = self._layers(levels, memory, some, asked, names)
            if not layers:
                break
            of_row, rows, unknown = self._known(layers, some, count)
            positions.append(left[of_row])
            found.append(rows)
            left = left[unknown]
            asked *= GROWTH
        if len(found) < 3:
            return positions[-1], found[-1]
        joined = np.concatenate(positions)
        order = np.argsort(joined, kind="stable")
        return joined[order], take(concat(found), order)

    def _layers(
        self, levels: Levels, memory: Memtable, ranges: KeyRanges, asked: int, names: list[str]
    ) -> list[_Layer]:
        """Ask for so many keys of each range; the oldest layer comes first."""
        runs = (self._in_run(run, ranges, asked, names) for run in reversed(levels.runs()))
        layers = [each for each in runs if each is not None]
        for of_row, rows, more in memory.in_ranges(ranges, asked):
            layers.append(_Layer(of_row, rows.select(names), more))
        return layers

    def _known(
        self, layers: Sequence[_Layer], ranges: KeyRanges, count: int
    ) -> tuple[Ints, pa.RecordBatch, Ints]:
        """Give the rows of ranges of which enough keys are read, and the numbers of the others."""
        of_key, rows, stops = self._merged(layers, ranges.last)
        numbers = np.arange(len(ranges))
        low = np.searchsorted(of_key, numbers)
        high = np.searchsorted(of_key, numbers, side="right")
        first = np.searchsorted(stops, low)
        end = np.searchsorted(stops, high)
        cut = first < end
        if ranges.last:
            low = np.where(cut, np.append(0, stops)[end], low)
        else:
            high = np.where(cut, np.append(stops, 0)[first] + 1, high)
        live = np.flatnonzero(self.is_live(rows))
        low, high = np.searchsorted(live, low), np.searchsorted(live, high)
        unknown = cut & (high - low < count)
        low, high, _ = ranges.cut(low, np.where(unknown, low, high), count)
        of_row, chosen = spread(low, high)
        return of_row, take(rows, live[chosen]), np.flatnonzero(unknown)

    def _merged(
        self, layers: Sequence[_Layer], last: bool
    ) -> tuple[Ints, pa.RecordBatch, np.ndarray]:
        """Merge layers.

        Returns:
            The range of each key, ascending; the keys' newest rows; the places where a layer
            stopped that has more of the range.
        """
        of_row = np.concatenate([layer.of_row for layer in layers])
        rows = concat([layer.rows for layer in layers])
        stops = np.concatenate([_stops(layer, last) for layer in layers])
        if len(layers) == 1:
            return of_row, rows, np.flatnonzero(stops)
        key = self.schema.trimmed_primary_keys[-1]
        order, starts = NormalizedKeys([pa.array(of_row), rows.column(key)]).sort(stable=True)
        newest = order[np.append(starts[1:], len(order)) - 1]
        merged = np.logical_or.reduceat(stops[order], starts)
        return of_row[newest], take(rows, newest), np.flatnonzero(merged)

    def _in_run(
        self, run: SortedRun, ranges: KeyRanges, asked: int, names: list[str]
    ) -> _Layer | None:
        """Ask the files of a run, one after the other until they have enough of each range."""
        keys = list(self.schema.trimmed_primary_keys)
        files = run_ranges(run, tuple(self.schema.types(keys)))
        first, end = files.spans(ranges)
        step = -1 if ranges.last else 1
        at, stop = (end - 1, first - 1) if ranges.last else (first.copy(), end)
        left = np.flatnonzero(first < end)
        have = np.zeros(len(ranges), np.int64)
        more = np.zeros(len(ranges), np.bool_)
        found: list[tuple[Ints, pa.Table]] = []
        while len(left):
            for number in np.unique(at[left]).tolist():
                some = left[at[left] == number]
                of_row, rows, goes_on = self.store.locate_ranges(
                    self.source, files.files[number], keys, ranges.take(some), asked, names
                )
                found.append((some[of_row], rows))
                have[some] += np.bincount(of_row, minlength=len(some))
                more[some] = goes_on
            at[left] += step
            has_next = at[left] != stop[left]
            asks_on = has_next & ~more[left] & (have[left] < asked)
            more[left] |= has_next & ~asks_on
            left = left[asks_on]
        return self._layer([each for each in found if len(each[0])], more, ranges.last, names)

    def _layer(
        self, found: list[tuple[Ints, pa.Table]], more: Bools, last: bool, names: list[str]
    ) -> _Layer | None:
        """Join the rows of a run's files."""
        if not found:
            return None
        if last:
            found = found[::-1]
        target = self._nothing(names).schema
        of_row = np.concatenate([each for each, _ in found])
        rows = one_batch(pa.concat_tables([table.cast(target) for _, table in found]))
        if (of_row[1:] < of_row[:-1]).any():
            order = np.argsort(of_row, kind="stable")
            of_row, rows = of_row[order], take(rows, order)
        return _Layer(of_row, rows, more)

    def _nothing(self, names: list[str]) -> pa.RecordBatch:
        return empty_rows(pa.schema([self.schema.row_schema.field(name) for name in names]))


def _stops(layer: _Layer, last: bool) -> np.ndarray:
    """Whether each row is the farthest that is known of a range of which the layer has more."""
    differs = layer.of_row[1:] != layer.of_row[:-1]
    farthest = np.r_[True, differs] if last else np.r_[differs, True]
    result: np.ndarray = farthest & layer.more[layer.of_row]
    return result
