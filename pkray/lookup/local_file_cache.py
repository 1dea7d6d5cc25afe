"""Copy data files to the local disk, within limits."""

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from pkray.errors import StorageError
from pkray.format.data_file import DataFileMeta
from pkray.lookup.arrow_copy import ArrowCopy
from pkray.lookup.block_store import BlockStore, LocalDiskError
from pkray.lookup.cache_entry import CacheEntry, CopyThread, DroppedError, while_live
from pkray.lookup.cached_file import CachedFile
from pkray.lookup.lookups_first import LookupsFirst
from pkray.lookup.page_search import PageSearch
from pkray.lookup.source import SYSTEM_COLUMNS, DataFileSource
from pkray.options import TableOptions
from pkray.storage.owned_directory import OwnedDirectory

_log = logging.getLogger(__name__)

READS_BEFORE_COPY = 1
LARGE_FILE_ROWS = 1 << 20
"""Whole reads of a file after which the next one copies it, as many do not live so long; a large
file is copied by the first."""
RETRY_MILLIS = 60_000
"""How long a full or failing disk is not used: what was full is rarely free sooner, and each try
costs a lookup the time of a copy."""


@dataclass(frozen=True)
class CopyLimits:
    """Limits the local disk and memory that one store's copies take, and for how long.

    Args:
        max_disk_bytes: of all copies; the least recently used go first. None: no limit.
            Source: ``lookup.cache-max-disk-size``.
        max_memory_bytes: of the indexes of the copies. Source: ``lookup.cache-max-memory-size``.
        retention_millis: copies not used for so long are removed when another is made, or by
            `LookupStore.expire`.
            Source: ``lookup.cache-file-retention``.
    """

    max_disk_bytes: int | None
    max_memory_bytes: int
    retention_millis: int

    @classmethod
    def from_options(cls, options: TableOptions) -> Self:
        return cls(
            options.lookup_cache_max_disk_size,
            options.lookup_cache_max_memory_size,
            options.lookup_cache_file_retention,
        )


@dataclass(frozen=True)
class LookupStats:
    """Counters since the store was made, and what it holds now.

    Args:
        hits: lookups in a file whose copy was there.
        builds: copies made.
        scans: lookups that read the data file, for many keys or without a copy.
        page_reads: lookups that read pages beside the data file.
        degraded: those of them that did so because the local disk failed.
        evictions: copies removed for space, age or damage.
        making: copies being made now; lookups read these files meanwhile.
    """

    hits: int = 0
    builds: int = 0
    scans: int = 0
    page_reads: int = 0
    degraded: int = 0
    evictions: int = 0
    making: int = 0
    files: int = 0
    disk_bytes: int = 0
    memory_bytes: int = 0


class LocalFileCache:
    """Makes copies of data files, and lets the least recently used go. Thread-safe.

    Args:
        directory: on the local disk; each store makes its own folder in it, and removes those of
            processes that are gone.
        limits: of all copies together.
        clock: epoch milliseconds.
        in_background: make copies that nobody waits for in a thread of their own.

    Attributes:
        lookups_first: what copies that nobody waits for leave the interpreter to.
    """

    def __init__(
        self, directory: str, limits: CopyLimits, *, clock: Callable[[], int], in_background: bool
    ) -> None:
        self._root = directory
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: OrderedDict[str, CacheEntry] = OrderedDict()
        self._counters: Counter[str] = Counter()
        self._owned: OwnedDirectory | None = None
        self._blocks: BlockStore | None = None
        self._retry_at = 0
        self._warned = self._warned_of_pages = False
        self.lookups_first = LookupsFirst()
        self._thread = CopyThread(self._on_disk_error, self._back_off) if in_background else None

    def cached_file(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        columns: list[str],
        *,
        waits: bool,
        begins: bool = True,
    ) -> CachedFile | None:
        """Return the copy to find rows by key in; None if there is none yet, or can be none now.

        Args:
            waits: until there is one, if there can be.
            begins: to make one, where there is none.

        Raises:
            LocalDiskError: the local disk fails; say so to `failed`.
        """
        entry = self._touch(file)
        held = entry.holds(columns)
        if held is not None:
            self.count(hits=1)
            return held
        if not (waits or begins or self._thread is None):
            return None
        if entry.is_unsorted or self._clock() < max(entry.retry_at, self._retry_at):
            self.count(degraded=1)
            return None
        make = partial(self._make, source, file, entry, key_columns, columns)
        if waits or self._thread is None:
            try:
                with self._waiting(entry):
                    return make()
            except DroppedError:
                return None
        self._thread.make(entry, file.file_name, make)
        return None

    @contextmanager
    def _waiting(self, entry: CacheEntry) -> Iterator[None]:
        with self._lock:
            entry.waiting += 1
        try:
            yield
        finally:
            with self._lock:
                entry.waiting -= 1

    def pages(self, source: DataFileSource, file: DataFileMeta) -> PageSearch | None:
        """Return what finds keys in the pages beside a file; None if there are none to be read,
        or there is a copy."""
        if not file.extra_files:
            return None
        entry = self._touch(file)
        with entry.pages_lock:
            if entry.pages is not None or self._clock() < entry.pages_retry_at:
                return entry.pages
            if entry.cached_file is not None:
                return None
            try:
                opened = source.as_written(file).row_pages(file)
            except StorageError as error:
                self.pages_failed(file, error)
                return None
            if opened is None or opened.row_count != file.row_count:
                return None
            found = PageSearch(opened)
            with self._lock:
                if self._entries.get(file.file_name) is entry:
                    entry.pages = found
                    self._evict_beyond_limits()
            return found

    def pages_failed(self, file: DataFileMeta, error: StorageError) -> None:
        """Leave the pages beside a file alone for a while: lookups read the file."""
        level = logging.DEBUG if self._warned_of_pages else logging.WARNING
        self._warned_of_pages = True
        _log.log(level, "lookups read %s itself, slower: %s", file.file_name, error)
        self.count(degraded=1)
        entry = self._touch(file)
        entry.pages, entry.pages_retry_at = None, self._clock() + RETRY_MILLIS

    def count_rows(self, file: DataFileMeta, rows: int) -> int:
        """Count rows that lookups read of a file without a copy; return how many there were so
        far."""
        with self._lock:
            entry = self._entries.get(file.file_name)  # none of a file that went meanwhile
            if entry is None:
                return 0
            entry.rows_read += rows
            return entry.rows_read

    def rows_read(self, file: DataFileMeta) -> int:
        """Count the rows that lookups have read of a file without a copy."""
        return self.count_rows(file, 0)

    def _make(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        entry: CacheEntry,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        """Make a copy with these columns, unless another thread has made it meanwhile."""
        with entry.lock:
            held = entry.holds(columns)
            if held is not None:
                self.count(hits=1)
                return held
            before = () if entry.cached_file is None else entry.cached_file.columns
            return self._build(source, file, entry, key_columns, [*before, *columns])

    def arrow_copy(
        self, source: DataFileSource, file: DataFileMeta, columns: Sequence[str]
    ) -> ArrowCopy | None:
        """Return the copy to read whole; None if there is none yet.

        Raises:
            LocalDiskError: as `cached`.
        """
        entry = self._touch(file)
        with entry.lock:
            if entry.arrow_copy is not None and entry.arrow_copy.holds(columns):
                self.count(hits=1)
                return entry.arrow_copy
            entry.reads += 1
            wait = max(entry.retry_at, self._retry_at)
            is_short_lived = entry.reads <= READS_BEFORE_COPY and file.row_count < LARGE_FILE_ROWS
            if is_short_lived or self._clock() < wait:
                return None
            copy = ArrowCopy.build(self._directory(), source.read(file, columns))
            if copy is not None:
                self._add(file, entry, copy)
            return copy

    def _add(self, file: DataFileMeta, entry: CacheEntry, copy: CachedFile | ArrowCopy) -> None:
        """Put a copy in its entry, in the place of an earlier one, and make room for it."""
        with self._lock:
            if isinstance(copy, CachedFile):
                self._drop_blocks(entry.cached_file)
                entry.cached_file, entry.pages = copy, None
            else:
                entry.arrow_copy = copy
            self.count(builds=1)
            self.expire()
            if self._entries.get(file.file_name) is not entry:
                self._drop_copies(entry)  # the file went while it was copied
            self._evict_beyond_limits()
            if not entry.has_copy:
                self._back_off(entry)

    def _back_off(self, entry: CacheEntry) -> None:
        entry.retry_at = self._clock() + RETRY_MILLIS

    def _touch(self, file: DataFileMeta) -> CacheEntry:
        with self._lock:
            entry = self._entries.setdefault(file.file_name, CacheEntry())
            self._entries.move_to_end(file.file_name)
            entry.last_access = self._clock()
            return entry

    def _build(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        entry: CacheEntry,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        read = list(dict.fromkeys([*SYSTEM_COLUMNS, *key_columns, *columns]))
        # A copy may have columns that the table has dropped.
        rows = while_live(entry, source.as_written(file).read(file, read))

        def before_each() -> None:
            if not entry.waiting:
                self.lookups_first.let_go_first()

        cached = CachedFile.build(self._open(), rows, key_columns, before_each)
        if cached is None:
            entry.is_unsorted = True
            self.count(degraded=1)
        else:
            self._add(file, entry, cached)
        return cached

    def _open(self) -> BlockStore:
        with self._lock:
            if self._blocks is None:
                self._blocks = BlockStore(self._directory())
            return self._blocks

    def _directory(self) -> Path:
        with self._lock:
            if self._owned is None:
                try:
                    self._owned = OwnedDirectory(self._root)
                except OSError as error:
                    raise LocalDiskError(str(error)) from error
            return self._owned.path

    def failed(self, file_name: str, error: LocalDiskError) -> None:
        """Drop a file's copy with which the local disk failed, and do not use that disk for a
        while."""
        self.count(degraded=1)
        self._on_disk_error(file_name, error)

    def _on_disk_error(self, file_name: str, error: LocalDiskError) -> None:
        with self._lock:
            level = logging.DEBUG if self._warned else logging.WARNING
            self._warned = True
            _log.log(
                level,
                "the local copies below %s fail (%s): lookups read %s itself, slower; "
                "free or replace that disk",
                self._root,
                error,
                file_name,
            )
            entry = self._entries.get(file_name)
            if entry is not None and entry.has_copy:
                self.count(evictions=1)
                self._drop_copies(entry)
                self._back_off(entry)
            else:
                # A database whose disk was full may refuse all writes from then on.
                self._clear()
                self._retry_at = self._clock() + RETRY_MILLIS

    def _evict_beyond_limits(self) -> None:
        stats = self.stats()
        disk, memory = stats.disk_bytes, stats.memory_bytes
        for entry in self._entries.values():
            if memory <= self._limits.max_memory_bytes:
                break
            if entry.cached_file is not None and entry.cached_file.index.filter is not None:
                index = replace(entry.cached_file.index, filter=None)
                memory -= entry.cached_file.index.nbytes - index.nbytes
                entry.cached_file.index = index
        for entry in self._entries.values():
            full = self._limits.max_disk_bytes is not None and disk > self._limits.max_disk_bytes
            if not full and memory <= self._limits.max_memory_bytes:
                break
            if entry.is_held:
                disk -= entry.disk_bytes
                memory -= entry.memory_bytes
                self.count(evictions=entry.has_copy)
                self._drop_copies(entry)

    def expire(self) -> None:
        """Remove the copies that were not used for the retention time."""
        with self._lock:
            oldest = self._clock() - self._limits.retention_millis
            for name, entry in list(self._entries.items()):
                if entry.last_access < oldest:
                    self.count(evictions=entry.has_copy)
                    self._remove(name)

    def drop(self, file_names: Iterable[str]) -> None:
        """Remove the copies of files that are no longer live."""
        with self._lock:
            for name in file_names:
                self._remove(name)

    def _remove(self, file_name: str) -> None:
        entry = self._entries.pop(file_name, None)
        if entry is not None:
            entry.is_dropped = True
            self._drop_copies(entry)

    def _drop_copies(self, entry: CacheEntry) -> None:
        cached = entry.cached_file
        entry.cached_file = entry.arrow_copy = entry.pages = None
        entry.rows_read = 0
        self._drop_blocks(cached)

    def _drop_blocks(self, copy: CachedFile | None) -> None:
        if copy is not None and self._blocks is not None:
            try:
                self._blocks.drop(copy.blocks)
            except LocalDiskError as error:
                _log.debug(
                    "the copy %s was not removed from the local disk: %s", copy.blocks.name, error
                )

    def count(self, **more: int) -> None:
        """Add to counters of `LookupStats`."""
        with self._lock:
            self._counters.update(more)

    def stats(self) -> LookupStats:
        """Count what is held."""
        with self._lock:
            held = [entry for entry in self._entries.values() if entry.is_held]
            return LookupStats(
                **self._counters,
                files=sum(entry.has_copy for entry in held),
                making=sum(entry.is_being_made for entry in self._entries.values()),
                disk_bytes=sum(entry.disk_bytes for entry in held),
                memory_bytes=sum(entry.memory_bytes for entry in held),
            )

    def close(self) -> None:
        """Remove everything from the local disk."""
        if self._thread is not None:
            with self._lock:
                for entry in self._entries.values():
                    entry.is_dropped = True
            self._thread.close()
        self._clear()

    def _clear(self) -> None:
        with self._lock:
            self._entries.clear()
            if self._blocks is not None:
                try:
                    self._blocks.close()
                except LocalDiskError as error:
                    _log.debug("the lookup store below %s did not close: %s", self._root, error)
                self._blocks = None
            if self._owned is not None:
                self._owned.close()
                self._owned = None
