"""Keep rows of files written just now, for compactions that come soon after."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa


class FlushedRowsCache:
    """Keeps what was flushed in memory that the write buffer leaves free; the oldest goes first.

    Files do not change, so that what is kept never differs from them. Thread-safe.

    Args:
        limit: bytes of rows, together with those in use. Source: ``write-buffer-size``.
        in_use: bytes of rows that are in memtables now.
    """

    def __init__(self, limit: int, in_use: Callable[[], int]) -> None:
        self._limit = limit
        self._in_use = in_use
        self._files: dict[str, tuple[pa.RecordBatch, ...]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """The bytes that the files' rows take."""
        return self._bytes

    @property
    def free_bytes(self) -> int:
        """The bytes that one more file may take: others make room for it."""
        return self._limit - self._in_use()

    def keep(self, file_name: str, rows: Sequence[pa.RecordBatch]) -> None:
        """Keep a file's rows if there is room for them."""
        size = _size(rows)
        if size > self.free_bytes:
            return
        with self._lock:
            self._files[file_name] = tuple(rows)
            self._bytes += size
        self.trim()

    def trim(self) -> None:
        """Drop the oldest rows whose memory memtables have grown into."""
        free = self.free_bytes
        with self._lock:
            while self._files and self._bytes > free:
                self._bytes -= _size(self._files.pop(next(iter(self._files))))

    def drop(self, file_names: Iterable[str]) -> None:
        """Drop the rows of files that are deleted."""
        with self._lock:
            for name in file_names:
                self._bytes -= _size(self._files.pop(name, ()))

    def has(self, file_name: str) -> bool:
        """Whether a file's rows are kept now."""
        return file_name in self._files

    def read(
        self, file_name: str, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch] | None:
        """Return a file's rows in batches of so many at most; None if they are not kept."""
        rows = self._files.get(file_name)
        return None if rows is None else _pieces(list(rows), batch_rows, batch_bytes)


def _size(rows: Sequence[pa.RecordBatch]) -> int:
    """Return the bytes of memory that rows hold, which may be that of rows which they are a slice
    of."""
    return int(pa.Table.from_batches(rows).get_total_buffer_size()) if rows else 0


def _pieces(
    batches: list[pa.RecordBatch], batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    batches.reverse()
    while batches:
        batch = batches.pop()  # a reader holds no more than is to come
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        step = max(1, min(batch_rows, batch_bytes // width))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
