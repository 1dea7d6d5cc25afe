"""Copies of data files that are made behind the lookups which asked for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from pkray.lookup.block_store import LocalDiskError
from pkray.lookup.cache_entry import CacheEntry

_log = logging.getLogger(__name__)


class CopyThread:
    """Makes one copy after the other, each once. Thread-safe.

    Args:
        leave_alone: is told of files, by name, whose copy the local disk failed.
        forbid: is told of slots for which nothing should be made for a while.
    """

    def __init__(
        self,
        leave_alone: Callable[[str, LocalDiskError], None],
        forbid: Callable[[CacheEntry], None],
    ) -> None:
        self._leave_alone = leave_alone
        self._forbid = forbid
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "pkray-lookup-copies")

    def make(self, slot: CacheEntry, file_name: str, work: Callable[[], object]) -> None:
        """Make a slot's copy soon, unless that is under way."""
        with self._lock:
            if self._executor is not None and not slot.is_being_made and not slot.is_dropped:
                slot.is_being_made = True
                self._executor.submit(self._make, slot, file_name, work)

    def close(self) -> None:
        """Make no more. Returns once nothing is made: what is should be dropped before."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)

    def _make(self, slot: CacheEntry, file_name: str, work: Callable[[], object]) -> None:
        try:
            if not slot.is_dropped:
                work()
        except DroppedError:
            pass
        except LocalDiskError as error:
            self._leave_alone(file_name, error)
        except Exception as error:
            # Lookups read the file itself, and tell their caller what is wrong with it.
            self._forbid(slot)
            _log.debug("no copy of %s was made: %s", file_name, error, exc_info=True)
        finally:
            slot.is_being_made = False


class DroppedError(Exception):
    """The file whose rows are copied is not live any more."""


def while_live(slot: CacheEntry, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a slot's file, for a copy that is given up if the file goes.

    Raises:
        DroppedError: it went.
    """
    for batch in rows:
        if slot.is_dropped:
            raise DroppedError
        yield batch
