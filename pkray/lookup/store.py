"""Find rows of data files by key, through copies of the files on the local disk."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import StorageError
from pkray.format.data_file import DataFileMeta
from pkray.lookup.block_layout import Ints
from pkray.lookup.block_store import LocalDiskError
from pkray.lookup.cached_file import CachedFile
from pkray.lookup.key_hash import one_chunk
from pkray.lookup.local_file_cache import CopyLimits, LocalFileCache, LookupStats
from pkray.lookup.scan_search import ScanSearch
from pkray.lookup.source import DataFileSource
from pkray.lsm.keys.key_prefixes import Bools, KeyPrefixes, KeyRanges, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.schema.table_schema import KIND
from pkray.storage.parquet.reader import numbered

MANY_KEYS = 8_192
"""From so many keys on a file is read whole where that is cheaper (`ROWS_SCANNED_PER_KEY`)."""
FEW_KEYS = 64
"""So few keys may be in a few row groups of a file; for more it is read from front to back."""
SMALL_ROWS = 4 << 10
"""A copy of so few rows finds them no faster than they are found in memory."""
LARGE_ROWS = 128 << 10
"""Copying more takes a lookup noticeable time."""
ROWS_SCANNED_PER_KEY = 32
"""A key found through blocks costs as much as reading so many rows of a file."""

PAGES_BEFORE_COPY = 4
"""A file is copied once lookups have read one row in so many of it in pages: until then they cost
less than the copy."""

Found = tuple[Ints, Ints, pa.Table]
"""Query positions, row positions in the file, rows."""
_NOWHERE = np.zeros(0, np.int64), np.zeros(0, np.int64)


class _Wanted(NamedTuple):
    """Names what to find in one file.

    Attributes:
        key_columns: all of the key's.
        columns: what to return.
    """

    source: DataFileSource
    file: DataFileMeta
    key_columns: list[str]
    columns: list[str]

    def nothing(self) -> Found:
        """Make an empty table, in the columns' types."""
        batch = next(iter(self.source.read(self.file, self.columns)), None)
        if batch is None:
            return *_NOWHERE, pa.schema([(name, pa.null()) for name in self.columns]).empty_table()
        return *_NOWHERE, batch.schema.empty_table()


class LookupStore:
    """Finds rows by key in data files, which it copies to the local disk.

    The first lookup in a file waits for its copy, but for lookups of few keys in large files, and
    in those whose rows are still in memory: they read these until the copy is made.

    Files that are read whole again and again are copied in a form of their own (`ArrowCopy`).

    Whatever happens to the local disk, lookups are answered: from the data file then, slower,
    with a warning in the log and ``stats().degraded`` counting.

    Args:
        directory: on the local disk; each store makes its own folder in it, and removes those of
            processes that are gone.
        limits: of all copies together.
        clock: epoch milliseconds.
        in_background: make copies that nobody waits for in a thread of their own.
    """

    def __init__(
        self,
        directory: str,
        limits: CopyLimits,
        *,
        clock: Callable[[], int],
        in_background: bool = False,
    ) -> None:
        self._in_background = in_background
        self._copies = LocalFileCache(directory, limits, clock=clock, in_background=in_background)

    def read(
        self, source: DataFileSource, file: DataFileMeta, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns of a whole file, in file order; faster from the second time on."""
        evolution = source.evolution(file)
        if evolution is not None:
            own, sources = source.as_written(file), evolution.sources(columns) or [KIND]
            for batch in self.read(own, file, sources):
                yield evolution.apply(batch, columns)
            return
        done = 0
        try:
            copy = self._copies.arrow_copy(source, file, columns)
            for batch in copy.read(columns) if copy is not None else ():
                yield batch
                done += batch.num_rows
            if copy is not None:
                return
        except LocalDiskError as error:
            self._copies.failed(file.file_name, error)
        for batch in source.read(file, columns):
            passed = min(done, batch.num_rows)
            done -= passed
            if passed < batch.num_rows:
                yield batch.slice(passed)

    def locate(
        self, source: DataFileSource, file: DataFileMeta, keys: pa.Table, columns: list[str]
    ) -> Found:
        """Find rows of one file by key, in no particular order.

        Args:
            keys: the key columns, in key order, with any number of rows; a key asked twice is
                answered twice. No key with a null is ever found.
            columns: what to return of the key-value rows.
        """
        evolution = source.evolution(file)
        if evolution is not None:
            # Copies hold rows as they were written: they outlive changes of the table's columns.
            old_keys = keys.rename_columns([str(evolution.source(n)) for n in keys.column_names])
            sources = evolution.sources(columns) or [KIND]
            own = source.as_written(file)
            queries, places, rows = self.locate(own, file, old_keys, sources)
            return queries, places, evolution.apply_table(rows, columns)
        wanted = _Wanted(source, file, keys.column_names, columns)
        arrays = [one_chunk(column) for column in keys.columns]
        answerable = _not_null(arrays)
        if answerable is not None:
            arrays = [array.take(pa.array(answerable)) for array in arrays]
        if len(arrays[0]) == 0 or file.row_count == 0:
            return wanted.nothing()
        with self._copies.lookups_first.looking_up():
            queries, rows, table = self._answer(wanted, arrays)
        return (queries if answerable is None else answerable[queries]), rows, table

    def locate_prefixes(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        prefixes: KeyPrefixes,
        columns: list[str],
    ) -> tuple[Ints, pa.Table]:
        """Find rows of one file whose keys begin with the prefixes, in file order, and their
        positions in the file.

        Args:
            key_columns: all of the key's.
            columns: what to return.
        """
        evolution = source.evolution(file)
        if evolution is not None:
            own, sources = source.as_written(file), evolution.sources(columns) or [KIND]
            old_keys = [str(evolution.source(name)) for name in key_columns]
            places, rows = self.locate_prefixes(own, file, old_keys, prefixes, sources)
            return places, evolution.apply_table(rows, columns)
        wanted = _Wanted(source, file, key_columns, columns)
        if not len(prefixes) or file.row_count == 0:
            return wanted.nothing()[1:]
        try:
            cached = self._copied(wanted, len(prefixes))
            if cached is not None:
                blocks = cached.index.blocks_with(prefixes)
                rows_held = len(blocks) * cached.index.layout.block_rows
                if rows_held < MANY_KEYS or 2 * rows_held < file.row_count:
                    if not len(blocks):
                        return wanted.nothing()[1:]
                    return _joined_rows(list(cached.find_prefixes(prefixes, blocks, columns)))
        except LocalDiskError as error:
            self._copies.failed(file.file_name, error)
            cached = None
        self._copies.count(scans=1)
        leading = key_columns[: prefixes.width]
        read = list(dict.fromkeys([*columns, *leading]))
        if cached is None:
            condition = _condition(leading[0], prefixes.columns[0])
            batches = source.read_numbered(file, read, condition)
        else:
            batches = numbered(self.read(source, file, read))
        found = list(_with_prefixes(batches, leading, prefixes, columns))
        return _joined_rows(found) if found else wanted.nothing()[1:]

    def locate_ranges(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        ranges: KeyRanges,
        count: int,
        columns: list[str],
    ) -> tuple[Ints, pa.Table, Bools]:
        """Find the first or last rows of ranges of keys in one file, of the newest schema.

        Args:
            key_columns: all of the key's.
            count: rows of each range at most.
            columns: what to return; the key columns among them.

        Returns:
            The number of each row's range, ascending, and within it in key order; the rows;
            whether the file has more rows of each range.
        """
        wanted = _Wanted(source, file, key_columns, columns)
        rows, more = self._around(wanted, ranges, count)
        if not rows.num_rows:
            return np.zeros(0, np.int64), rows, np.zeros(len(ranges), np.bool_)
        keys = [one_chunk(rows.column(name)) for name in key_columns]
        leading = SortedPrefixes(keys[: ranges.width])
        low, high, cut = ranges.cut(*ranges.spans(leading, NormalizedKeys(keys)), count)
        of_row, numbers = spread(low, high)
        return of_row, rows.take(pa.array(numbers)), more | cut

    def _around(self, wanted: _Wanted, ranges: KeyRanges, count: int) -> tuple[pa.Table, Bools]:
        """Read rows of a file, in its order, that hold the first or last ones of ranges; tell
        which ranges go on."""
        source, file, key_columns, columns = wanted
        all_of = np.zeros(len(ranges), np.bool_)
        try:
            cached = self._copied(wanted, len(ranges))
            if cached is not None:
                blocks, more = cached.index.blocks_of_ranges(ranges, count)
                rows_held = len(blocks) * cached.index.layout.block_rows
                if rows_held < MANY_KEYS or 2 * rows_held < file.row_count:
                    if not len(blocks):
                        return wanted.nothing()[2], more
                    return _joined_rows(list(cached.read_blocks(blocks, columns)))[1], more
        except LocalDiskError as error:
            self._copies.failed(file.file_name, error)
            cached = None
        self._copies.count(scans=1)
        if cached is None:
            condition = _condition(key_columns[0], ranges.prefixes[0])
            batches = [batch for _, batch in source.read_numbered(file, columns, condition)]
        else:
            batches = list(self.read(source, file, columns))
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return wanted.nothing()[2], all_of
        return pa.Table.from_batches(filled).combine_chunks(), all_of

    def prepare(
        self, source: DataFileSource, file: DataFileMeta, key_columns: list[str], columns: list[str]
    ) -> None:
        """Begin to copy a file in which keys are going to be found, if that is done in the
        background.

        Args:
            key_columns: all of the key's.
            columns: what will be asked for.
        """
        if not self._in_background or file.row_count <= SMALL_ROWS:
            return
        try:
            self._copies.cached_file(source, file, key_columns, columns, waits=False)
        except LocalDiskError as error:
            self._copies.failed(file.file_name, error)

    def expire(self) -> None:
        """Remove the copies that were not used for the retention time."""
        self._copies.expire()

    def drop(self, file_names: Iterable[str]) -> None:
        """Remove the copies of files that are no longer live."""
        self._copies.drop(file_names)

    def stats(self) -> LookupStats:
        return self._copies.stats()

    def close(self) -> None:
        """Remove everything from the local disk."""
        self._copies.close()

    def _answer(self, wanted: _Wanted, keys: list[pa.Array]) -> Found:
        file = wanted.file
        few = len(keys[0]) < MANY_KEYS or len(keys[0]) * ROWS_SCANNED_PER_KEY < file.row_count
        if few:
            in_pages = self._in_pages(wanted, keys)
            if in_pages is not None:
                return in_pages
            pays = self._is_read_much(wanted.source, file, len(keys[0]))
            try:
                cached = self._copied(wanted, len(keys[0]), pays)
                if cached is not None:
                    return _joined(list(cached.find(keys, wanted.columns)))
            except LocalDiskError as error:
                self._copies.failed(file.file_name, error)
        self._copies.count(scans=1)
        found = list(self._scan(wanted, keys))
        if self._copies.rows_read(file) >= file.row_count and len(keys[0]) <= FEW_KEYS:
            self.prepare(*wanted)
        return _joined(found) if found else wanted.nothing()

    def _is_read_much(self, source: DataFileSource, file: DataFileMeta, asked: int) -> bool:
        """Whether a copy pays that nobody waits for: many keys are asked for, or lookups of few
        have read as many rows as the file has."""
        is_sparse = asked <= FEW_KEYS and not source.is_at_hand(file)
        return not is_sparse or self._copies.rows_read(file) >= file.row_count

    def _in_pages(self, wanted: _Wanted, keys: list[pa.Array]) -> Found | None:
        """Find keys in the pages beside a file; None: there are none, or it would be too many."""
        source, file, _, columns = wanted
        search = None if source.is_at_hand(file) else self._copies.pages(source, file)
        if search is None or not search.holds(columns):
            return None
        pages = search.pages_of(keys)
        if 2 * len(pages) > len(search):
            return None
        try:
            found = list(search.find(keys, pages, columns))
        except StorageError as error:
            self._copies.pages_failed(file, error)
            return None
        self._copies.count(page_reads=1)
        rows = len(pages) * file.row_count // len(search)
        if self._copies.count_rows(file, rows) * PAGES_BEFORE_COPY >= file.row_count:
            self.prepare(*wanted)
        return _joined(found) if found else (*_NOWHERE, search.schema_of(columns).empty_table())

    def _copied(self, wanted: _Wanted, asked: int, pays: bool = True) -> CachedFile | None:
        """Return the file's copy, to find so many keys in; None: they are found in the file.

        Args:
            pays: to begin a copy, though it is not waited for.

        Raises:
            LocalDiskError: the local disk fails.
        """
        file, at_hand = wanted.file, wanted.source.is_at_hand(wanted.file)
        if at_hand and file.row_count <= SMALL_ROWS:
            return None
        waits = not at_hand and (asked > FEW_KEYS or file.row_count <= LARGE_ROWS)
        return self._copies.cached_file(*wanted, waits=waits, begins=pays)

    def _scan(self, wanted: _Wanted, keys: list[pa.Array]) -> Iterator[Found]:
        source, file, key_columns, columns = wanted
        search = ScanSearch(keys)
        read = list(dict.fromkeys([*columns, *key_columns]))
        batches = source.read_numbered(file, read, _condition(key_columns[0], keys[0]))
        for queries, rows, batch in search.find(self._counted(file, batches), key_columns):
            yield queries, rows, pa.Table.from_batches([batch]).select(columns)

    def _counted(
        self, file: DataFileMeta, batches: Iterable[tuple[int, pa.RecordBatch]]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        for first, batch in batches:
            self._copies.count_rows(file, batch.num_rows)
            yield first, batch


def _condition(name: str, keys: pa.Array) -> pc.Expression | None:
    """Make a condition that holds for rows with these keys; None where it would not tell row groups
    apart.

    Nor is it known what the statistics of files say of NaN and negative zeros.
    """
    if len(keys) > FEW_KEYS or pa.types.is_floating(keys.type):
        return None
    return pc.field(name).isin(keys)


def _not_null(arrays: list[pa.Array]) -> Ints | None:
    """Return the rows without a null; None if that is all."""
    if not any(array.null_count for array in arrays):
        return None
    valid = [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
    return np.flatnonzero(np.logical_and.reduce(valid))


def _joined(parts: list[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    queries, rows, tables = zip(*parts, strict=True)
    return np.concatenate(queries), np.concatenate(rows), pa.concat_tables(tables)


def _with_prefixes(
    batches: Iterable[tuple[int, pa.RecordBatch]],
    leading: list[str],
    prefixes: KeyPrefixes,
    columns: list[str],
) -> Iterator[tuple[Ints, pa.Table]]:
    for first, batch in batches:
        if batch.num_rows:
            keys = [one_chunk(batch.column(name)) for name in leading]
            rows = np.flatnonzero(prefixes.begin(keys))
            if len(rows):
                found = batch.select(columns).take(pa.array(rows))
                yield rows + first, pa.Table.from_batches([found])


def _joined_rows(parts: list[tuple[Ints, pa.Table]]) -> tuple[Ints, pa.Table]:
    if len(parts) == 1:
        return parts[0]
    places, tables = zip(*parts, strict=True)
    return np.concatenate(places), pa.concat_tables(tables)
