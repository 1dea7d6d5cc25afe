"""Find rows by key, or by its beginning, over the sorted runs of a bucket and its memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.lookup.block_layout import Ints
from pkray.lookup.key_hash import one_batch, one_chunk
from pkray.lookup.source import SYSTEM_COLUMNS, DataFileSource
from pkray.lookup.store import MANY_KEYS, Found, LookupStore
from pkray.lsm.keys.key_groups import RowOrder, concat, empty_rows, take
from pkray.lsm.keys.key_prefixes import KeyPrefixes, KeyRanges, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.levels import Levels, SortedRun, Vectors
from pkray.lsm.merge.merge_function import MergeEngine, is_add, newest_images, without_deletes
from pkray.lsm.merge.merge_read import row_order
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.schema.table_schema import KIND, TableSchema
from pkray.schema.types import DataType


@dataclass(frozen=True)
class BucketLookup:
    """Finds rows of one bucket: in its committed files, and in what writers hold on top of them.

    Args:
        store: of the copies in which rows are found.
        source: reads the bucket's data files.
        schema: under which rows are returned.
        engine: merges the rows of a key.
    """

    store: LookupStore
    source: DataFileSource
    schema: TableSchema
    engine: MergeEngine

    def find(
        self,
        levels: Levels,
        keys: pa.RecordBatch,
        columns: Sequence[str],
        held: Sequence[Uncommitted] = (),
    ) -> tuple[Ints, pa.Table]:
        """Find rows by key, merged over files and memory.

        Args:
            levels: the committed files.
            keys: the trimmed primary key's columns, among others; a key asked twice is answered
                twice.
            columns: value columns to return.
            held: by writers, whose rows count too, the oldest first.

        Returns:
            Positions in ``keys``, in no particular order, and the rows' ``columns``.
        """
        levels, newer = _with_files(levels, held), []
        in_memory = _in_memory(held)
        if in_memory:
            order, distinct = self._distinct(keys)
            found = (each.lookup_memory(distinct, levels) for each in in_memory)
            newer = [rows for rows in found if rows.num_rows]
            if newer and self.engine.keeps_newest:
                return self._find_below(levels, order, keys, distinct, columns, newer)
        positions, rows = self.find_in_runs(levels.runs(), levels.vectors, keys, columns, newer)
        if rows.num_rows:
            added = is_add(one_chunk(rows.column(KIND)))
            if not added.all():
                positions, rows = positions[added], rows.filter(pa.array(added))
        return positions, rows.select(list(columns))

    def find_in_runs(
        self,
        runs: Sequence[SortedRun],
        vectors: Vectors,
        keys: pa.RecordBatch,
        columns: Sequence[str],
        newer: Sequence[pa.RecordBatch] = (),
    ) -> tuple[Ints, pa.Table]:
        """Find rows by key as `find`, in some runs, newest first.

        Args:
            vectors: rows of the runs' files that are deleted.
            newer: key-value rows of these keys that are in no file yet, the oldest first, to be
                merged with those of the files; not of an engine that keeps the newest.

        Returns:
            Positions in ``keys``, in no particular order, and for each the key-value row, which
            may delete the key: sequence number, row kind, ``columns``.
        """
        order = row_order(runs, self.schema)
        search = RunsSearch(self.store, self.source, self.schema, keys, vectors)
        if self.engine.keeps_newest and order.columns == order.key_columns:
            return search.newest(runs, columns)
        return search.merged(runs, columns, order, self.engine, newer)

    def find_prefixes(
        self,
        levels: Levels,
        keys: pa.RecordBatch,
        columns: Sequence[str],
        held: Sequence[Uncommitted] = (),
    ) -> tuple[Ints, pa.Table]:
        """Find all rows whose keys begin so, as `find`; each position's rows in key order.

        Args:
            keys: leading columns of the trimmed primary key, among others.
        """
        leading = [name for name in self.schema.trimmed_primary_keys if name in keys.schema.names]
        prefixes = KeyPrefixes([keys.column(name) for name in leading])
        levels = _with_files(levels, held)
        newer = [each.lookup_memory_prefixes(prefixes, levels) for each in _in_memory(held)]
        rows = without_deletes(self._prefixes_merged(levels, prefixes, columns, newer))
        positions, numbers = prefixes.answers([rows.column(name) for name in leading])
        return positions, pa.Table.from_batches([take(rows, numbers).select(list(columns))])

    def _find_below(
        self,
        levels: Levels,
        order: RowOrder,
        keys: pa.RecordBatch,
        distinct: pa.RecordBatch,
        columns: Sequence[str],
        newer: Sequence[pa.RecordBatch],
    ) -> tuple[Ints, pa.Table]:
        """Find rows by key below those in memory, of an engine that keeps the newest."""
        names = self.schema.names
        decides = order.columns == order.key_columns
        asked = _without(distinct, newer, order) if decides else distinct
        _, stored = self.find_in_runs(levels.runs(), levels.vectors, asked, names)
        system = [*SYSTEM_COLUMNS, *names]
        layers = [*stored.combine_chunks().to_batches(), *newer]
        groups = order.group(concat([rows.select(system) for rows in layers]))
        merged = without_deletes(self.engine.merge(groups))
        places, hit = order.keys(merged).packed().search(order.keys(keys))
        found = merged.take(pa.array(places[hit])).select(list(columns))
        return np.flatnonzero(hit), pa.Table.from_batches([found])

    def _distinct(self, keys: pa.RecordBatch) -> tuple[RowOrder, pa.RecordBatch]:
        """Return the order of rows, and the key columns of each key once."""
        order = RowOrder(self.schema)
        keys = keys.select(order.key_columns)
        places, starts = order.keys(keys).sort(stable=True)
        return order, keys.take(pa.array(places[starts]))

    def _prefixes_merged(
        self,
        levels: Levels,
        prefixes: KeyPrefixes,
        columns: Sequence[str],
        newer: Sequence[pa.RecordBatch],
    ) -> pa.RecordBatch:
        """Find rows by the beginning of their keys, merged over files and newer rows.

        Returns:
            Key-value rows in key order, deletes among them: the system columns, ``columns``, the
            key columns.
        """
        schema, engine, runs = self.schema, self.engine, levels.runs()
        order = row_order(runs, schema)
        wanted = [*SYSTEM_COLUMNS, *columns, *schema.trimmed_primary_keys]
        names = list(dict.fromkeys([*wanted, *order.columns, *engine.also_needed(columns)]))
        if not engine.keeps_newest:
            names = list(dict.fromkeys([*names, *schema.names]))
        target = pa.schema([schema.row_schema.field(name) for name in names])
        found: list[pa.RecordBatch] = []
        is_image: list[np.ndarray] = []
        for run in reversed(runs):
            for table in self._with_prefixes(run, levels.vectors, prefixes, names):
                found.append(one_batch(table.cast(target)))
                is_image.append(np.full(table.num_rows, run.level > 0))
        found += [rows.select(names) for rows in newer]
        is_image += [np.zeros(rows.num_rows, np.bool_) for rows in newer]
        chosen = list(dict.fromkeys(wanted))
        if not found:
            return empty_rows(target).select(chosen)
        groups = newest_images(engine, order.group(concat(found)), np.concatenate(is_image))
        return engine.merge(groups).select(chosen)

    def _with_prefixes(
        self, run: SortedRun, vectors: Vectors, prefixes: KeyPrefixes, columns: list[str]
    ) -> Iterator[pa.Table]:
        keys = list(self.schema.trimmed_primary_keys)
        for file in run_ranges(run, tuple(self.schema.types(keys))).files_with(prefixes):
            places, rows = self.store.locate_prefixes(self.source, file, keys, prefixes, columns)
            deleted = vectors.get(file.file_name)
            if deleted is not None:
                rows = rows.filter(pa.array(~deleted.contains(places)))
            if rows.num_rows:
                yield rows


class RunsSearch:
    """A search of keys in one run after the other."""

    def __init__(
        self,
        store: LookupStore,
        source: DataFileSource,
        schema: TableSchema,
        keys: pa.RecordBatch | pa.Table,
        vectors: Vectors,
    ) -> None:
        self._store = store
        self._source = source
        self._vectors = vectors
        self._schema = schema
        self._names = list(schema.trimmed_primary_keys)
        self._types = tuple(schema.types(schema.trimmed_primary_keys))
        self._keys = [one_chunk(keys.column(name)) for name in self._names]
        self._all = np.arange(keys.num_rows)
        for array in self._keys:
            if array.null_count:
                valid = array.is_valid().to_numpy(zero_copy_only=False)
                self._all = self._all[valid[self._all]]

    def newest(self, runs: Sequence[SortedRun], columns: Sequence[str]) -> tuple[Ints, pa.Table]:
        """Find the newest row of each key: runs are asked only for keys that no newer one has."""
        left = self._all
        answered = np.zeros(len(self._keys[0]), np.bool_)
        positions: list[Ints] = []
        tables: list[pa.Table] = []
        for run in runs:
            if not len(left):
                break
            found, rows = self._in_run(run, left, columns)
            positions += found
            tables += rows
            for some in found:
                answered[some] = True
            left = left[~answered[left]]
        return self._all_of(positions, tables, columns)

    def merged(
        self,
        runs: Sequence[SortedRun],
        columns: Sequence[str],
        order: RowOrder,
        engine: MergeEngine,
        newer: Sequence[pa.RecordBatch] = (),
    ) -> tuple[Ints, pa.Table]:
        """Find all rows of each key, and merge them by the table's engine.

        Args:
            newer: rows of these keys that are in no run.
        """
        distinct, starts = order.keys(self._key_table(self._all)).sort()
        asked = self._all[np.sort(distinct[starts])]
        names = list(dict.fromkeys([*columns, *order.columns]))
        if not engine.keeps_newest:
            names = [field.name for field in self._schema.fields]
        names = [name for name in names if name not in SYSTEM_COLUMNS]
        tables: list[pa.Table] = []
        is_image: list[np.ndarray] = []
        for run in reversed(runs):
            found_here = self._in_run(run, asked, names)[1]
            tables += found_here
            is_image += [np.full(table.num_rows, run.level > 0) for table in found_here]
        tables += [
            pa.Table.from_batches([rows]).select([*SYSTEM_COLUMNS, *names]) for rows in newer
        ]
        is_image += [np.zeros(rows.num_rows, np.bool_) for rows in newer]
        _, versions = self._all_of([], tables, names)
        if not versions.num_rows:
            return self._all_of([], [], columns)
        groups = order.group(one_batch(versions))
        groups = newest_images(engine, groups, np.concatenate(is_image))
        merged = engine.merge(groups)
        places, hit = order.keys(merged).packed().search(order.keys(self._key_table(self._all)))
        returned = list(dict.fromkeys([*SYSTEM_COLUMNS, *columns]))
        found = merged.select(returned).take(pa.array(places[hit]))
        return self._all[hit], pa.Table.from_batches([found])

    def locate(
        self, runs: Sequence[SortedRun], columns: Sequence[str]
    ) -> Iterator[tuple[DataFileMeta, Ints, pa.Table]]:
        """Find rows by key, with their file and their positions in it."""
        for run in runs:
            for file, _, places, rows in self._located(run, self._all, columns):
                yield file, places, rows

    def _in_run(
        self, run: SortedRun, wanted: Ints, columns: Sequence[str]
    ) -> tuple[list[Ints], list[pa.Table]]:
        positions, tables = [], []
        read = list(dict.fromkeys([*SYSTEM_COLUMNS, *columns]))
        for _, found, _, rows in self._located(run, wanted, read):
            positions.append(found)
            tables.append(rows)
        return positions, tables

    def _located(
        self, run: SortedRun, wanted: Ints, columns: Sequence[str]
    ) -> Iterator[tuple[DataFileMeta, Ints, Ints, pa.Table]]:
        """Yield for each file positions in the keys, positions in the file, and rows."""
        keys = self._arrays(wanted)

        def locate(part: tuple[DataFileMeta, Ints]) -> tuple[DataFileMeta, Ints, Found]:
            file, inside = part
            some = wanted if len(inside) == len(wanted) else wanted[inside]
            asked = self._key_table(some)
            return file, some, self._store.locate(self._source, file, asked, list(columns))

        parts = run_ranges(run, self._types).files_of(keys)
        together = reads_pages(self._schema, len(wanted))
        located = self._source.side_by_side(locate, parts) if together else map(locate, parts)
        for file, some, (found, places, rows) in located:
            deleted = self._vectors.get(file.file_name)
            if deleted is not None:
                kept = ~deleted.contains(places)
                if not kept.all():
                    found, places, rows = found[kept], places[kept], rows.filter(pa.array(kept))
            yield file, some[found], places, rows

    def _arrays(self, positions: Ints) -> list[pa.Array]:
        """Return the keys at these (ascending, distinct) positions."""
        if len(positions) == len(self._keys[0]):
            return self._keys
        chosen = pa.array(positions)
        return [array.take(chosen) for array in self._keys]

    def _key_table(self, positions: Ints) -> pa.Table:
        return pa.Table.from_arrays(self._arrays(positions), names=self._names)

    def _all_of(
        self, positions: list[Ints], tables: list[pa.Table], columns: Sequence[str]
    ) -> tuple[Ints, pa.Table]:
        schema = self._schema.row_schema
        fields = [schema.field(name) for name in dict.fromkeys([*SYSTEM_COLUMNS, *columns])]
        target = pa.schema(fields)
        filled = [
            table if table.schema.equals(target) else table.cast(target)
            for table in tables
            if table.num_rows
        ]
        rows = pa.concat_tables(filled) if filled else target.empty_table()
        return np.concatenate([np.zeros(0, np.int64), *positions]), rows


def reads_pages(schema: TableSchema, keys: int) -> bool:
    """Whether so many keys are looked for in pages, as a rule: little is read for each, so that
    buckets and files can be searched side by side, in bounded memory."""
    return schema.core.lookup_pages_enabled and keys < MANY_KEYS


def _with_files(levels: Levels, held: Sequence[Uncommitted]) -> Levels:
    """Put what the writers have flushed on the committed files."""
    for each in held:
        levels = each.on(levels)
    return levels


def _without(
    keys: pa.RecordBatch, newer: Sequence[pa.RecordBatch], order: RowOrder
) -> pa.RecordBatch:
    """Return the keys of which no newer rows are there."""
    wanted = order.keys(keys)
    missing = np.ones(keys.num_rows, np.bool_)
    for rows in newer:
        _, found = order.keys(rows).packed().search(wanted)
        missing &= ~found
    return keys.filter(pa.array(missing))


def _in_memory(held: Sequence[Uncommitted]) -> list[Uncommitted]:
    return [each for each in held if each.memory.rows]


_REMEMBERED = "lookup_ranges"


class RunRanges:
    """The files of one run in key order."""

    def __init__(self, files: Sequence[DataFileMeta], types: Sequence[DataType]) -> None:
        count = len(files)
        bounds = [*(file.min_key for file in files), *(file.max_key for file in files)]
        columns = binary_row.decode(bounds, types)
        order = NormalizedKeys([column.slice(0, count) for column in columns]).argsort()
        self.files = [files[i] for i in order.tolist()]
        self._lows = [column.take(pa.array(order)) for column in columns]
        self._highs = [column.take(pa.array(order + count)) for column in columns]
        self.lows, self.highs = NormalizedKeys(self._lows), NormalizedKeys(self._highs).packed()

    def files_of(self, keys: Sequence[pa.Array]) -> Iterator[tuple[DataFileMeta, Ints]]:
        """Yield each file with the positions of the keys in its range."""
        wanted = NormalizedKeys(keys)
        at, _ = self.highs.search(wanted)
        inside = np.flatnonzero(at < len(self.files))
        inside = inside[self.lows.compare(at[inside], wanted, inside) <= 0]
        if not len(inside):
            return
        if len(self.files) == 1:
            yield self.files[0], inside
            return
        inside = inside[np.argsort(at[inside], kind="stable")]
        chosen, starts = np.unique(at[inside], return_index=True)
        ends = np.append(starts[1:], len(inside))
        for i, start, end in zip(chosen.tolist(), starts.tolist(), ends.tolist(), strict=True):
            yield self.files[i], inside[start:end]

    def files_with(self, prefixes: KeyPrefixes) -> Iterator[DataFileMeta]:
        """Yield the files that may have keys which begin with the prefixes, in key order."""
        width = prefixes.width
        first, _ = SortedPrefixes(self._highs[:width]).spans(prefixes)
        _, end = SortedPrefixes(self._lows[:width]).spans(prefixes)
        for number in np.unique(spread(first, end)[1]).tolist():
            yield self.files[number]

    def spans(self, ranges: KeyRanges) -> tuple[Ints, Ints]:
        """Find for each range the first of the files that may have its keys, and the end of
        them."""
        width = ranges.width
        first, _ = SortedPrefixes(self._highs[:width]).spans_of(ranges.keys)
        _, end = SortedPrefixes(self._lows[:width]).spans_of(ranges.keys)
        if ranges.bounds is None:
            return first, end
        if ranges.last:
            return first, np.minimum(end, self.lows.search(ranges.bounded)[0])
        return np.maximum(first, self.highs.search(ranges.bounded)[0]), end


def run_ranges(run: SortedRun, types: tuple[DataType, ...]) -> RunRanges:
    """Return the ranges of a run. The run remembers them, as finding them by its value costs more
    than a lookup."""
    held: RunRanges | None = run.__dict__.get(_REMEMBERED)
    if held is None:
        held = run.__dict__[_REMEMBERED] = RunRanges(run.files, types)
    return held
