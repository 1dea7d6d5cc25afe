"""A directory of files on a local disk or in an object store.

Requests to an object store are sent side by side; work on a local disk is done in turn.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from pkray import spans
from pkray.arguments.file_names import leads_out
from pkray.closing import Abortable
from pkray.errors import StorageError

Paths = list[str]

PARALLEL_REQUESTS = 32
"""Under way at a time for one piece of work: each waits for an answer and takes no processor."""


def below(path: str) -> str:
    """Check that a path lies below the root, and return it.

    Raises:
        StorageError: it leads out of it.
    """
    if leads_out(path):
        raise StorageError(
            f"{path!r} is no path of a file here: names that lead to other folders are refused; "
            "what gave it is damaged, or was made to",
            path=path,
        )
    return path


class FileStatus(NamedTuple):
    """A file: path relative to its store, size in bytes, epoch milliseconds.

    Args:
        mark: another one once the file is written again.
    """

    path: str
    size: int
    modified_millis: int
    mark: Hashable = None


class OutputFile(Abortable):
    """A file being written: it appears whole on `close`, and never after `abort`."""

    path: str

    @property
    @abc.abstractmethod
    def sink(self) -> pa.NativeFile:
        """The sink that pyarrow's writers write to. Close this object, not the sink."""

    @abc.abstractmethod
    def write(self, data: Any) -> None:
        """Append a bytes-like object."""

    @abc.abstractmethod
    def tell(self) -> int:
        """Count the bytes written so far."""

    @abc.abstractmethod
    def checksums(self) -> str:
        """Return the checksums of the blocks of what was written so far: see `BlockHasher`."""

    @abc.abstractmethod
    def hold(self) -> None:
        """Keep back what is written from now on, through the sink too: see `held`."""

    @abc.abstractmethod
    def held(self) -> bytes:
        """Return what was kept back since `hold`; it is in the file only if it is written again."""

    @abc.abstractmethod
    def close(self) -> None:
        """Publish the file under its name. Once closed or aborted this does nothing."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Give the file up: nothing of it stays. Once closed or aborted this does nothing."""


class ObjectStore(abc.ABC):
    """The files under one root. Thread-safe; pickles as its URL and options.

    Paths are relative to the root, separated by '/', and lead nowhere else (`below`). Every method
    raises `StorageError` or one of its subclasses: `MissingFileError`, `StorageFullError`.
    """

    url: str

    @property
    def parallel_requests(self) -> int:
        """The number of requests that are under way at a time for one piece of work, where this is
        no disk."""
        return PARALLEL_REQUESTS

    @abc.abstractmethod
    def child(self, prefix: str) -> ObjectStore:
        """Make a store whose root is a directory of this one."""

    @abc.abstractmethod
    def read(self, path: str) -> bytes:
        """Read the whole content. Raises `MissingFileError`."""

    def read_marked(self, path: str) -> tuple[bytes, Hashable]:
        """Read the whole content, and the mark with which a listing has it.

        The mark is None where there is none that stands for the content. Raises `MissingFileError`.
        """
        return self.read(path), None

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read the bytes from each start to each end, together. Raises `MissingFileError`."""
        with self.open_input(path) as file:
            return [file.read_at(end - start, start) for start, end in ranges]

    @abc.abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, at once and whole."""

    @abc.abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Create a file if it is absent: True for exactly one of all who try, else False.

        Whoever sees the file sees its whole content. After an error (a lost answer) the file
        may or may not be there.
        """

    def check_creates(self) -> None:  # noqa: B027
        """Try, once a process and warehouse, whether `create` keeps its word for tables here.

        Disks do.

        Raises:
            UnsupportedError: a file that is there was created again.
        """

    @abc.abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file of this name.

        Raises:
            CorruptFileError: there is a directory instead, on a disk.
        """

    @abc.abstractmethod
    def size(self, path: str) -> int:
        """Count the bytes of a file. Raises `MissingFileError`."""

    @abc.abstractmethod
    def fingerprint(self, path: str) -> Hashable:
        """Return what changes if a file that is never rewritten is damaged, where that costs
        nothing.

        None where asking would be a request of its own. Raises `MissingFileError`.
        """

    @abc.abstractmethod
    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        """List the files in a directory, none when it is absent. Links to directories are not
        followed.

        Args:
            prefix: the directory; its name is matched whole.
            recursive: include the directories below it.
            hidden: include files whose name begins with '.': unfinished output.
        """

    @abc.abstractmethod
    def list_dirs(self, prefix: str = "") -> Paths:
        """List the paths of the directories directly in a directory, sorted."""

    @abc.abstractmethod
    def delete(self, paths: str | Iterable[str]) -> None:
        """Delete files; those already absent are passed over. A link goes, not what it leads to.

        Raises:
            StorageError: the file lies behind a link that leads out of the store.
        """

    @abc.abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random access. Raises `MissingFileError`."""

    @abc.abstractmethod
    def open_output(self, path: str) -> OutputFile:
        """Open for writing; what was there stays until the new file is closed."""

    @abc.abstractmethod
    def local_path(self, path: str) -> str | None:
        """Return the path on this machine's disk, or None."""

    def location(self, path: str) -> str:
        """Return the whole URL of a path, for messages."""
        return f"{self.url.rstrip('/')}/{path}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((type(self), self.url))


def in_url(path: str) -> str:
    """Escape a path for a URL: characters that mean something in URLs mean themselves."""
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


T = TypeVar("T")
R = TypeVar("R")


def each(store: ObjectStore, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do the same work for items; return what is made of each, in their order.

    Raises:
        Exception: the first item's that failed, in their order, once all that began have ended.
    """
    return list(ahead(store, work, items))


def ahead(store: ObjectStore, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield what is made of each item, in their order; as many at a time as the store takes."""
    if store.local_path("") is not None:
        yield from map(work, items)
        return
    left = iter(items)
    first = list(islice(left, store.parallel_requests))
    if len(first) < 2:
        yield from map(work, first)
        return
    done = spans.carried(work)
    with ThreadPoolExecutor(len(first), "pkray-requests") as pool:
        while first:
            yield from pool.map(done, first)
            first = list(islice(left, store.parallel_requests))


def together(store: ObjectStore, *works: Callable[[], Any]) -> list[Any]:
    """Do some works that do not depend on each other; return their results.

    Raises:
        Exception: the first work's that failed, in their order, once all have ended. On a local
            disk those after it have not begun.
    """
    return each(store, lambda work: work(), works)
