"""Rows of data files by key, through copies of the files on the local disk."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lookup.block_layout import Ints
from pkray.lookup.block_store import BlockStore, LocalDiskError
from pkray.lookup.cached_file import CachedFile
from pkray.lookup.key_hash import one_chunk
from pkray.lookup.scan_search import ScanSearch
from pkray.lookup.source import SYSTEM_COLUMNS, DataFileSource
from pkray.lookup.wide_copy import WideCopy
from pkray.lsm.key_prefixes import KeyPrefixes
from pkray.schema import KIND
from pkray.storage.owned_directory import OwnedDirectory

_log = logging.getLogger(__name__)

MANY_KEYS = 8_192
ROWS_SCANNED_PER_KEY = 32
"""A key found through blocks costs as much as reading so many rows of a file."""
READS_BEFORE_COPY = 1
"""Whole reads of a file after which the next one copies it: many files do not live so long."""
RETRY_MILLIS = 60_000
"""How long a full or failing disk is left alone."""

Found = tuple[Ints, Ints, pa.Table]
"""Query positions, row positions in the file, rows."""


@dataclass(frozen=True)
class LookupStats:
    """Counters since the store was made, and what it holds now.

    Args:
        hits: lookups in a file whose copy was there.
        builds: copies made.
        scans: lookups that read the data file, for many keys or without a copy.
        degraded: those of them that did so because the local disk failed.
        evictions: copies removed for space, age or damage.
    """

    hits: int = 0
    builds: int = 0
    scans: int = 0
    degraded: int = 0
    evictions: int = 0
    files: int = 0
    disk_bytes: int = 0
    memory_bytes: int = 0


class _Slot:
    """One data file in the store."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cached: CachedFile | None = None
        self.wide: WideCopy | None = None
        self.reads = 0
        self.last_access = 0
        self.retry_at = 0
        self.unsorted = False

    @property
    def disk_bytes(self) -> int:
        return sum(copy.blocks.size for copy in (self.cached, self.wide) if copy is not None)

    @property
    def memory_bytes(self) -> int:
        return 0 if self.cached is None else self.cached.index.nbytes

    @property
    def is_held(self) -> bool:
        return self.cached is not None or self.wide is not None


class LookupStore:
    """Finds rows by key in data files. The first lookup copies a file's rows to the local disk.

    Files that are read whole again and again are copied in a form of their own (`WideCopy`).

    Whatever happens to the local disk, lookups are answered: from the data file then, slower,
    with a warning in the log and ``stats().degraded`` counting.

    Args:
        directory: on the local disk; each store makes its own folder in it, and removes those of
            processes that are gone.
        max_disk_bytes: of all copies; the least recently used go first. None: no limit.
            Source: ``lookup.cache-max-disk-size``.
        max_memory_bytes: of the indexes of the copies. Source: ``lookup.cache-max-memory-size``.
        retention_millis: copies not used for so long are removed when another is made, or by
            :meth:`expire`.
            Source: ``lookup.cache-file-retention``.
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        directory: str,
        *,
        max_disk_bytes: int | None,
        max_memory_bytes: int,
        retention_millis: int,
        clock: Callable[[], int],
    ) -> None:
        self._root = directory
        self._max_disk_bytes = max_disk_bytes
        self._max_memory_bytes = max_memory_bytes
        self._retention_millis = retention_millis
        self._clock = clock
        self._lock = threading.RLock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._counters = LookupStats()
        self._owned: OwnedDirectory | None = None
        self._blocks: BlockStore | None = None
        self._retry_at = 0
        self._warned = False

    def find(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        keys: pa.Table,
        columns: Sequence[str],
    ) -> tuple[Ints, pa.Table]:
        """Rows of one file by key.

        Args:
            keys: the key columns, in key order, with any number of rows; a key asked twice is
                answered twice. No key with a null is ever found.
            columns: value columns to return.

        Returns:
            Positions in ``keys``, and for each the key-value row: sequence number, row kind,
            ``columns``. In no particular order.
        """
        wanted = list(dict.fromkeys([*SYSTEM_COLUMNS, *columns]))
        queries, _, rows = self.locate(source, file, keys, wanted)
        return queries, rows

    def read(
        self, source: DataFileSource, file: DataFileMeta, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows of a file, in file order; faster from the second time on."""
        evolution = source.evolution(file)
        if evolution is not None:
            own, sources = source.as_written(file), evolution.sources(columns) or [KIND]
            for batch in self.read(own, file, sources):
                yield evolution.apply(batch, columns)
            return
        done = 0
        try:
            copy = self._wide_copy(source, file, columns)
            for batch in copy.read(columns) if copy is not None else ():
                yield batch
                done += batch.num_rows
            if copy is not None:
                return
        except LocalDiskError as error:
            self._degrade(file.file_name, error)
            self._count(degraded=1)
        for batch in source.read(file, columns):
            passed = min(done, batch.num_rows)
            done -= passed
            if passed < batch.num_rows:
                yield batch.slice(passed)

    def locate(
        self, source: DataFileSource, file: DataFileMeta, keys: pa.Table, columns: list[str]
    ) -> Found:
        """As `find`, with each row's position in the file, and ``columns`` alone of the rows."""
        evolution = source.evolution(file)
        if evolution is not None:
            # Copies hold rows as they were written: they outlive changes of the table's columns.
            old_keys = keys.rename_columns([str(evolution.source(n)) for n in keys.column_names])
            sources = evolution.sources(columns) or [KIND]
            own = source.as_written(file)
            queries, places, rows = self.locate(own, file, old_keys, sources)
            return queries, places, evolution.apply_table(rows, columns)
        names = keys.column_names
        arrays = [one_chunk(column) for column in keys.columns]
        answerable = _not_null(arrays)
        if answerable is not None:
            arrays = [array.take(pa.array(answerable)) for array in arrays]
        if len(arrays[0]) == 0 or file.row_count == 0:
            return _no_rows(source, file, columns)
        queries, rows, table = self._answer(source, file, names, arrays, columns)
        return (queries if answerable is None else answerable[queries]), rows, table

    def locate_prefixes(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        prefixes: KeyPrefixes,
        columns: list[str],
    ) -> tuple[Ints, pa.Table]:
        """Rows of one file whose keys begin so, in file order, and their positions in the file.

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
        if not len(prefixes) or file.row_count == 0:
            return _no_rows(source, file, columns)[1:]
        try:
            cached = self._cached(source, file, key_columns, columns)
            if cached is not None:
                blocks = cached.index.blocks_with(prefixes)
                rows_held = len(blocks) * cached.index.layout.block_rows
                if rows_held < MANY_KEYS or 2 * rows_held < file.row_count:
                    if not len(blocks):
                        return _no_rows(source, file, columns)[1:]
                    return _joined_rows(list(cached.find_prefixes(prefixes, blocks, columns)))
        except LocalDiskError as error:
            self._degrade(file.file_name, error)
            cached = None
        self._count(scans=1, degraded=cached is None)
        read = list(dict.fromkeys([*columns, *key_columns[: prefixes.width]]))
        batches = source.read(file, read) if cached is None else self.read(source, file, read)
        found = list(_with_prefixes(batches, key_columns[: prefixes.width], prefixes, columns))
        return _joined_rows(found) if found else _no_rows(source, file, columns)[1:]

    def _answer(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        keys: list[pa.Array],
        columns: list[str],
    ) -> Found:
        if len(keys[0]) < MANY_KEYS or len(keys[0]) * ROWS_SCANNED_PER_KEY < file.row_count:
            try:
                cached = self._cached(source, file, key_columns, columns)
                if cached is not None:
                    return _joined(list(cached.find(keys, columns)))
            except LocalDiskError as error:
                self._degrade(file.file_name, error)
            self._count(degraded=1)
        self._count(scans=1)
        found = list(self._scan(source, file, key_columns, keys, columns))
        return _joined(found) if found else _no_rows(source, file, columns)

    @staticmethod
    def _scan(
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        keys: list[pa.Array],
        columns: list[str],
    ) -> Iterator[Found]:
        search = ScanSearch(keys)
        batches = source.read(file, list(dict.fromkeys([*columns, *key_columns])))
        for queries, rows, batch in search.find(batches, key_columns):
            yield queries, rows, pa.Table.from_batches([batch]).select(columns)

    def _cached(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        """The file's copy, made if need be; None if there can be none now."""
        now = self._clock()
        slot = self._touch(file)
        with slot.lock:
            held = slot.cached
            if held is not None and set(columns) <= set(held.columns):
                self._count(hits=1)
                return held
            if slot.unsorted or now < max(slot.retry_at, self._retry_at):
                return None
            before = () if held is None else held.columns
            return self._build(source, file, slot, key_columns, [*before, *columns])

    def _wide_copy(
        self, source: DataFileSource, file: DataFileMeta, columns: Sequence[str]
    ) -> WideCopy | None:
        slot = self._touch(file)
        with slot.lock:
            if slot.wide is not None and slot.wide.holds(columns):
                self._count(hits=1)
                return slot.wide
            slot.reads += 1
            wait = max(slot.retry_at, self._retry_at)
            if slot.reads <= READS_BEFORE_COPY or self._clock() < wait:
                return None
            wide = WideCopy.build(self._open(), source.read(file, columns))
            if wide is not None:
                self._keep(file, slot, wide)
            return wide

    def _keep(self, file: DataFileMeta, slot: _Slot, copy: CachedFile | WideCopy) -> None:
        """Put a copy in its slot, in the place of an earlier one, and make room for it."""
        with self._lock:
            if isinstance(copy, CachedFile):
                self._drop_copy(slot.cached)
                slot.cached = copy
            else:
                self._drop_copy(slot.wide)
                slot.wide = copy
            self._count(builds=1)
            self.expire()
            if self._slots.get(file.file_name) is not slot:
                self._drop_copies(slot)  # the file went while it was copied
            self._keep_within_limits()
            if not slot.is_held:
                slot.retry_at = self._clock() + RETRY_MILLIS

    def _touch(self, file: DataFileMeta) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(file.file_name, _Slot())
            self._slots.move_to_end(file.file_name)
            slot.last_access = self._clock()
            return slot

    def _build(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        slot: _Slot,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        read = list(dict.fromkeys([*SYSTEM_COLUMNS, *key_columns, *columns]))
        cached = CachedFile.build(self._open(), source.read(file, read), key_columns)
        if cached is None:
            slot.unsorted = True
        else:
            self._keep(file, slot, cached)
        return cached

    def _open(self) -> BlockStore:
        with self._lock:
            if self._blocks is None:
                try:
                    self._owned = OwnedDirectory(self._root)
                    self._blocks = BlockStore(self._owned.path)
                except OSError as error:
                    raise LocalDiskError(str(error)) from error
            return self._blocks

    def _degrade(self, file_name: str, error: LocalDiskError) -> None:
        """The local disk failed: forget the file's copy, and leave the disk alone for a while."""
        with self._lock:
            level = logging.DEBUG if self._warned else logging.WARNING
            self._warned = True
            _log.log(
                level,
                "lookups read %s itself: the local copies below %s fail (%s); "
                "free or replace that disk",
                file_name,
                self._root,
                error,
            )
            slot = self._slots.get(file_name)
            if slot is not None and slot.is_held:
                self._count(evictions=1)
                self._drop_copies(slot)
                slot.retry_at = self._clock() + RETRY_MILLIS
            else:
                # A database whose disk was full may refuse all writes from then on.
                self.close()
                self._retry_at = self._clock() + RETRY_MILLIS

    def _keep_within_limits(self) -> None:
        stats = self.stats()
        disk, memory = stats.disk_bytes, stats.memory_bytes
        for slot in self._slots.values():
            if memory <= self._max_memory_bytes:
                break
            if slot.cached is not None and slot.cached.index.filter is not None:
                index = replace(slot.cached.index, filter=None)
                memory -= slot.cached.index.nbytes - index.nbytes
                slot.cached.index = index
        for slot in self._slots.values():
            full = self._max_disk_bytes is not None and disk > self._max_disk_bytes
            if not full and memory <= self._max_memory_bytes:
                break
            if slot.is_held:
                disk -= slot.disk_bytes
                memory -= slot.memory_bytes
                self._drop_copies(slot)
                self._count(evictions=1)

    def expire(self) -> None:
        """Remove the copies that were not used for the retention time."""
        with self._lock:
            oldest = self._clock() - self._retention_millis
            for name, slot in list(self._slots.items()):
                if slot.last_access < oldest:
                    self._count(evictions=slot.is_held)
                    self._remove(name)

    def drop(self, file_names: Iterable[str]) -> None:
        """Remove the copies of files that are no longer live."""
        with self._lock:
            for name in file_names:
                self._remove(name)

    def _remove(self, file_name: str) -> None:
        slot = self._slots.pop(file_name, None)
        if slot is not None:
            self._drop_copies(slot)

    def _drop_copies(self, slot: _Slot) -> None:
        cached, wide = slot.cached, slot.wide
        slot.cached = slot.wide = None
        self._drop_copy(cached)
        self._drop_copy(wide)

    def _drop_copy(self, copy: CachedFile | WideCopy | None) -> None:
        if copy is not None and self._blocks is not None:
            try:
                self._blocks.drop(copy.blocks)
            except LocalDiskError as error:
                _log.debug("a copy was not removed: %s", error)

    def _count(self, **more: int) -> None:
        with self._lock:
            now = {name: getattr(self._counters, name) + n for name, n in more.items()}
            self._counters = replace(self._counters, **now)

    def stats(self) -> LookupStats:
        with self._lock:
            held = [slot for slot in self._slots.values() if slot.is_held]
            return replace(
                self._counters,
                files=len(held),
                disk_bytes=sum(slot.disk_bytes for slot in held),
                memory_bytes=sum(slot.memory_bytes for slot in held),
            )

    def close(self) -> None:
        """Remove everything from the local disk."""
        with self._lock:
            self._slots.clear()
            if self._blocks is not None:
                try:
                    self._blocks.close()
                except LocalDiskError as error:
                    _log.debug("the lookup store did not close: %s", error)
                self._blocks = None
            if self._owned is not None:
                self._owned.close()
                self._owned = None


def _not_null(arrays: list[pa.Array]) -> Ints | None:
    """Rows without a null; None if that is all."""
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
    batches: Iterable[pa.RecordBatch],
    leading: list[str],
    prefixes: KeyPrefixes,
    columns: list[str],
) -> Iterator[tuple[Ints, pa.Table]]:
    before = 0
    for batch in batches:
        if batch.num_rows:
            keys = [one_chunk(batch.column(name)) for name in leading]
            rows = np.flatnonzero(prefixes.begin(keys))
            if len(rows):
                found = batch.select(columns).take(pa.array(rows))
                yield rows + before, pa.Table.from_batches([found])
        before += batch.num_rows


def _joined_rows(parts: list[tuple[Ints, pa.Table]]) -> tuple[Ints, pa.Table]:
    if len(parts) == 1:
        return parts[0]
    places, tables = zip(*parts, strict=True)
    return np.concatenate(places), pa.concat_tables(tables)


def _no_rows(source: DataFileSource, file: DataFileMeta, columns: list[str]) -> Found:
    """Nothing, in the columns' types."""
    batch = next(iter(source.read(file, columns)), None)
    schema = pa.schema([(name, pa.null()) for name in columns]) if batch is None else batch.schema
    return np.zeros(0, np.int64), np.zeros(0, np.int64), schema.empty_table()
