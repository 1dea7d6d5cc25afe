"""The copies of one data file, and what is known of it."""

from __future__ import annotations

import threading
from collections.abc import Collection

from pkray.lookup.arrow_copy import ArrowCopy
from pkray.lookup.cached_file import CachedFile


class CacheEntry:
    """A data file in the store.

    Attributes:
        lock: held while a copy is looked for or made.
        is_being_made: a copy to find rows by key in, behind the lookups.
        is_dropped: the data file is not live any more.
        cached: finds rows by key.
        wide: is read whole.
        reads: whole reads of the data file so far.
        last_access: epoch milliseconds.
        retry_at: until then no copy is made; epoch milliseconds.
        unsorted: its rows are not in the order of their keys: none can be made.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_being_made = False
        self.is_dropped = False
        self.cached: CachedFile | None = None
        self.wide: ArrowCopy | None = None
        self.reads = 0
        self.last_access = 0
        self.retry_at = 0
        self.unsorted = False

    def holds(self, columns: Collection[str]) -> CachedFile | None:
        """The copy to find rows by key in, if it has these columns."""
        held = self.cached
        return held if held is not None and set(columns) <= set(held.columns) else None

    @property
    def disk_bytes(self) -> int:
        blocks = 0 if self.cached is None else self.cached.blocks.size
        return blocks + (0 if self.wide is None else self.wide.size)

    @property
    def memory_bytes(self) -> int:
        return 0 if self.cached is None else self.cached.index.nbytes

    @property
    def is_held(self) -> bool:
        return self.cached is not None or self.wide is not None
