"""Has files of an object store go out side by side, where none of them is waited for."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import NamedTuple

from pkray import spans
from pkray.storage.object_store import PARALLEL_REQUESTS

MOST_BYTES = 64 << 20
"""Of files that are under way for one piece of work: their content is in memory."""

_under_way: dict[str, Future[None]] = {}
"""Of this process, by their URLs."""


class Upload(NamedTuple):
    """A file that is closed: its URL, its bytes, what sends it, once or again, and how many its
    store takes at a time."""

    location: str
    size: int
    send: Callable[[], None]
    at_once: int = PARALLEL_REQUESTS


class Uploads:
    """The files that one piece of work has closed, and that may not be there yet.

    Attributes:
        unsent: those that could not be written.
    """

    def __init__(self) -> None:
        self.unsent: list[Upload] = []
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[tuple[Future[None], Upload]] = deque()
        self._bytes = 0
        self._failure: BaseException | None = None

    def begin(self, upload: Upload) -> None:
        """Begin to send a file; wait for others where they have too many bytes."""
        while self._pending and self._bytes + upload.size > MOST_BYTES:
            self._settle_first()
        self._pool = self._pool or ThreadPoolExecutor(upload.at_once, "pkray-uploads")
        future = _under_way[upload.location] = self._pool.submit(spans.carried(_sent), upload)
        future.add_done_callback(lambda _: _under_way.pop(upload.location, None))
        self._pending.append((future, upload))
        self._bytes += upload.size

    def wait(self) -> None:
        """Wait until all are there.

        Raises:
            StorageError: the first that failed, once all have ended.
        """
        while self._pending:
            self._settle_first()
        if self._pool is not None:
            self._pool.shutdown()
        if self._failure is not None:
            raise self._failure

    def _settle_first(self) -> None:
        future, upload = self._pending.popleft()
        self._bytes -= upload.size
        try:
            future.result()
        except Exception as error:
            self.unsent.append(upload)
            self._failure = self._failure or error


def _sent(upload: Upload) -> None:
    with spans.span("upload"):
        upload.send()


_current: ContextVar[Uploads | None] = ContextVar("uploads", default=None)


@contextlib.contextmanager
def side_by_side() -> Iterator[Uploads]:
    """Let files that this thread closes in the block go out side by side; all are there at its end.

    Files of several parts are sent as they are written, and waited for one by one.

    Raises:
        StorageError: one was not written, which its writer was not told; it is among the `unsent`.
    """
    uploads = Uploads()
    token = _current.set(uploads)
    try:
        yield uploads
    except BaseException:
        with contextlib.suppress(Exception):
            uploads.wait()
        raise
    finally:
        _current.reset(token)
    uploads.wait()


def current() -> Uploads | None:
    """Return what the files that this thread closes go out with; None: each is waited for."""
    return _current.get()


def settle(location: str) -> None:
    """Wait for a file that this process may still be sending."""
    future = _under_way.get(location) if _under_way else None
    if future is not None:
        with contextlib.suppress(Exception):  # whoever sends it is told
            future.result()
