"""Keep what is known of a data file and its copies, and make copies in a thread of their own."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from pkray.lookup.arrow_copy import ArrowCopy
from pkray.lookup.block_store import LocalDiskError
from pkray.lookup.cached_file import CachedFile
from pkray.lookup.page_search import PageSearch

_log = logging.getLogger(__name__)


class CacheEntry:
    """The copies of one data file, and what is known of it.

    Attributes:
        lock: held while a copy is looked for or made.
        pages_lock: held while the pages are opened, once for all who ask.
        is_being_made: a `CachedFile` is made by the `CopyThread`.
        waiting: lookups that wait for a copy.
        is_dropped: the data file is not live any more.
        cached_file: finds rows by key.
        arrow_copy: is read whole.
        pages: finds rows by key in what lies beside the data file.
        pages_retry_at: epoch milliseconds; they are not opened before.
        rows_read: of the data file or its pages, for keys, while there was no copy.
        reads: how often the data file was read whole.
        last_access: epoch milliseconds.
        retry_at: epoch milliseconds; no copy is made before.
        is_unsorted: rows are not in key order, so that no `CachedFile` can be made.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pages_lock = threading.Lock()
        self.is_being_made = False
        self.waiting = 0
        self.is_dropped = False
        self.cached_file: CachedFile | None = None
        self.arrow_copy: ArrowCopy | None = None
        self.pages: PageSearch | None = None
        self.pages_retry_at = 0
        self.rows_read = 0
        self.reads = 0
        self.last_access = 0
        self.retry_at = 0
        self.is_unsorted = False

    def holds(self, columns: Collection[str]) -> CachedFile | None:
        """Return the copy to find rows by key in, if it has these columns."""
        held = self.cached_file
        return held if held is not None and set(columns) <= set(held.columns) else None

    @property
    def disk_bytes(self) -> int:
        blocks = 0 if self.cached_file is None else self.cached_file.blocks.size
        return blocks + (0 if self.arrow_copy is None else self.arrow_copy.size)

    @property
    def memory_bytes(self) -> int:
        pages = 0 if self.pages is None else self.pages.nbytes
        return pages + (0 if self.cached_file is None else self.cached_file.index.nbytes)

    @property
    def is_held(self) -> bool:
        return self.has_copy or self.pages is not None

    @property
    def has_copy(self) -> bool:
        return self.cached_file is not None or self.arrow_copy is not None


class CopyThread:
    """Makes copies asynchronously to the lookups that ask for them, one after the other.

    Thread-safe.

    Args:
        on_disk_error: is called with the name of a file whose copy failed with the local disk.
        on_error: is called with an entry whose copy failed for any other reason.
    """

    def __init__(
        self,
        on_disk_error: Callable[[str, LocalDiskError], None],
        on_error: Callable[[CacheEntry], None],
    ) -> None:
        self._on_disk_error = on_disk_error
        self._on_error = on_error
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "pkray-lookup-copies")

    def make(self, entry: CacheEntry, file_name: str, work: Callable[[], object]) -> None:
        """Make an entry's copy soon, unless that is under way."""
        with self._lock:
            if self._executor is not None and not entry.is_being_made and not entry.is_dropped:
                entry.is_being_made = True
                self._executor.submit(self._make, entry, file_name, work)

    def close(self) -> None:
        """Cancel the copies that wait, and return once the one under way has ended.

        Drop its entry before, so that it ends soon.
        """
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)

    def _make(self, entry: CacheEntry, file_name: str, work: Callable[[], object]) -> None:
        try:
            if not entry.is_dropped:
                work()
        except DroppedError:
            pass
        except LocalDiskError as error:
            self._on_disk_error(file_name, error)
        except Exception as error:
            # Lookups read the file itself, and tell their caller what is wrong with it.
            self._on_error(entry)
            _log.debug(
                "no local copy of %s was made, lookups read the file itself: %s",
                file_name,
                error,
                exc_info=True,
            )
        finally:
            entry.is_being_made = False


class DroppedError(Exception):
    """The file whose rows are copied is not live any more."""


def while_live(entry: CacheEntry, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an entry's file, for a copy that is aborted when the file is dropped.

    Raises:
        DroppedError: the file was dropped.
    """
    for batch in rows:
        if entry.is_dropped:
            raise DroppedError
        yield batch
