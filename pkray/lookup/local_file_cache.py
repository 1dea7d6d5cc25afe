"""Copies of data files on the local disk, within limits."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pkray.format.data_file import DataFileMeta
from pkray.lookup.arrow_copy import ArrowCopy
from pkray.lookup.block_store import BlockStore, LocalDiskError
from pkray.lookup.cache_entry import CacheEntry
from pkray.lookup.cached_file import CachedFile
from pkray.lookup.copy_limits import CopyLimits
from pkray.lookup.copy_thread import CopyThread, DroppedError, while_live
from pkray.lookup.source import SYSTEM_COLUMNS, DataFileSource
from pkray.lookup.stats import LookupStats
from pkray.storage.owned_directory import OwnedDirectory

_log = logging.getLogger(__name__)

READS_BEFORE_COPY = 1
LARGE_FILE_ROWS = 1 << 20
"""Whole reads of a file after which the next one copies it, as many do not live so long; a large
file is copied by the first."""
RETRY_MILLIS = 60_000
"""How long a full or failing disk is left alone."""


class LocalFileCache:
    """Makes copies of data files, and lets the least recently used go. Thread-safe.

    Args:
        directory: on the local disk; each store makes its own folder in it, and removes those of
            processes that are gone.
        limits: of all copies together.
        clock: epoch milliseconds.
        in_background: make copies that nobody waits for in a thread of their own.
    """

    def __init__(
        self, directory: str, limits: CopyLimits, *, clock: Callable[[], int], in_background: bool
    ) -> None:
        self._root = directory
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        self._slots: OrderedDict[str, CacheEntry] = OrderedDict()
        self._counters: Counter[str] = Counter()
        self._owned: OwnedDirectory | None = None
        self._blocks: BlockStore | None = None
        self._retry_at = 0
        self._warned = False
        self._thread = CopyThread(self._leave_alone, self._forbid) if in_background else None

    def cached(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        key_columns: list[str],
        columns: list[str],
        *,
        waits: bool,
    ) -> CachedFile | None:
        """The copy to find rows by key in; None if there is none yet, or can be none now.

        Args:
            waits: until there is one, if there can be.

        Raises:
            LocalDiskError: the local disk fails; say so to `failed`.
        """
        slot = self._touch(file)
        held = slot.holds(columns)
        if held is not None:
            self.count(hits=1)
            return held
        if slot.unsorted or self._clock() < max(slot.retry_at, self._retry_at):
            self.count(degraded=1)
            return None
        make = partial(self._make, source, file, slot, key_columns, columns)
        if waits or self._thread is None:
            try:
                return make()
            except DroppedError:
                return None
        self._thread.make(slot, file.file_name, make)
        return None

    def _make(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        slot: CacheEntry,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        """A copy with these columns, unless another thread has made it meanwhile."""
        with slot.lock:
            held = slot.holds(columns)
            if held is not None:
                self.count(hits=1)
                return held
            before = () if slot.cached is None else slot.cached.columns
            return self._build(source, file, slot, key_columns, [*before, *columns])

    def wide(
        self, source: DataFileSource, file: DataFileMeta, columns: Sequence[str]
    ) -> ArrowCopy | None:
        """The copy to read whole; None if there is none yet.

        Raises:
            LocalDiskError: as `cached`.
        """
        slot = self._touch(file)
        with slot.lock:
            if slot.wide is not None and slot.wide.holds(columns):
                self.count(hits=1)
                return slot.wide
            slot.reads += 1
            wait = max(slot.retry_at, self._retry_at)
            is_short_lived = slot.reads <= READS_BEFORE_COPY and file.row_count < LARGE_FILE_ROWS
            if is_short_lived or self._clock() < wait:
                return None
            wide = ArrowCopy.build(self._directory(), source.read(file, columns))
            if wide is not None:
                self._keep(file, slot, wide)
            return wide

    def _keep(self, file: DataFileMeta, slot: CacheEntry, copy: CachedFile | ArrowCopy) -> None:
        """Put a copy in its slot, in the place of an earlier one, and make room for it."""
        with self._lock:
            if isinstance(copy, CachedFile):
                self._drop_blocks(slot.cached)
                slot.cached = copy
            else:
                slot.wide = copy
            self.count(builds=1)
            self.expire()
            if self._slots.get(file.file_name) is not slot:
                self._drop_copies(slot)  # the file went while it was copied
            self._keep_within_limits()
            if not slot.is_held:
                self._forbid(slot)

    def _forbid(self, slot: CacheEntry) -> None:
        slot.retry_at = self._clock() + RETRY_MILLIS

    def _touch(self, file: DataFileMeta) -> CacheEntry:
        with self._lock:
            slot = self._slots.setdefault(file.file_name, CacheEntry())
            self._slots.move_to_end(file.file_name)
            slot.last_access = self._clock()
            return slot

    def _build(
        self,
        source: DataFileSource,
        file: DataFileMeta,
        slot: CacheEntry,
        key_columns: list[str],
        columns: list[str],
    ) -> CachedFile | None:
        read = list(dict.fromkeys([*SYSTEM_COLUMNS, *key_columns, *columns]))
        # A copy may have columns that the table has dropped.
        rows = while_live(slot, source.as_written(file).read(file, read))
        cached = CachedFile.build(self._open(), rows, key_columns)
        if cached is None:
            slot.unsorted = True
            self.count(degraded=1)
        else:
            self._keep(file, slot, cached)
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
        """The local disk failed a lookup: forget the file's copy, and leave the disk alone."""
        self.count(degraded=1)
        self._leave_alone(file_name, error)

    def _leave_alone(self, file_name: str, error: LocalDiskError) -> None:
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
                self.count(evictions=1)
                self._drop_copies(slot)
                self._forbid(slot)
            else:
                # A database whose disk was full may refuse all writes from then on.
                self._clear()
                self._retry_at = self._clock() + RETRY_MILLIS

    def _keep_within_limits(self) -> None:
        stats = self.stats()
        disk, memory = stats.disk_bytes, stats.memory_bytes
        for slot in self._slots.values():
            if memory <= self._limits.max_memory_bytes:
                break
            if slot.cached is not None and slot.cached.index.filter is not None:
                index = replace(slot.cached.index, filter=None)
                memory -= slot.cached.index.nbytes - index.nbytes
                slot.cached.index = index
        for slot in self._slots.values():
            full = self._limits.max_disk_bytes is not None and disk > self._limits.max_disk_bytes
            if not full and memory <= self._limits.max_memory_bytes:
                break
            if slot.is_held:
                disk -= slot.disk_bytes
                memory -= slot.memory_bytes
                self._drop_copies(slot)
                self.count(evictions=1)

    def expire(self) -> None:
        """Remove the copies that were not used for the retention time."""
        with self._lock:
            oldest = self._clock() - self._limits.retention_millis
            for name, slot in list(self._slots.items()):
                if slot.last_access < oldest:
                    self.count(evictions=slot.is_held)
                    self._remove(name)

    def drop(self, file_names: Iterable[str]) -> None:
        """Remove the copies of files that are no longer live."""
        with self._lock:
            for name in file_names:
                self._remove(name)

    def _remove(self, file_name: str) -> None:
        slot = self._slots.pop(file_name, None)
        if slot is not None:
            slot.is_dropped = True
            self._drop_copies(slot)

    def _drop_copies(self, slot: CacheEntry) -> None:
        cached = slot.cached
        slot.cached = slot.wide = None
        self._drop_blocks(cached)

    def _drop_blocks(self, copy: CachedFile | None) -> None:
        if copy is not None and self._blocks is not None:
            try:
                self._blocks.drop(copy.blocks)
            except LocalDiskError as error:
                _log.debug("a copy was not removed: %s", error)

    def count(self, **more: int) -> None:
        """Add to counters of `LookupStats`."""
        with self._lock:
            self._counters.update(more)

    def stats(self) -> LookupStats:
        with self._lock:
            held = [slot for slot in self._slots.values() if slot.is_held]
            return LookupStats(
                **self._counters,
                files=len(held),
                making=sum(slot.is_being_made for slot in self._slots.values()),
                disk_bytes=sum(slot.disk_bytes for slot in held),
                memory_bytes=sum(slot.memory_bytes for slot in held),
            )

    def close(self) -> None:
        """Remove everything from the local disk."""
        if self._thread is not None:
            with self._lock:
                for slot in self._slots.values():
                    slot.is_dropped = True
            self._thread.close()
        self._clear()

    def _clear(self) -> None:
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
