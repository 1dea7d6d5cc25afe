"""Files in S3, GCS, Azure or this process's memory, through obstore."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
import tenacity
from obstore import exceptions
from obstore.store import MemoryStore, from_url

from pkray.errors import MissingFileError, OptionError, StorageError, StorageFullError
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths

T = TypeVar("T")

PART_BYTES = 8 << 20
"""Size of an upload's parts; S3 takes 10,000 of at least 5 MB."""
TAIL_BYTES = 64 << 10
"""The end of a file that opening it fetches: it holds a Parquet file's footer."""

_ALIASES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
}
_CLIENT_OPTIONS = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_headers",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "root_certificate",
        "read_timeout",
        "timeout",
        "user_agent",
    )
)
_TRANSIENT = (
    "timed out",
    "timeout",
    "connection",
    "error sending request",
    "error decoding response body",
    "broken pipe",
    "server error",
    "slow down",
    "too many requests",
    "503",
    "500",
)
_open_url: Any = from_url
_memory: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


class RemoteStore(ObjectStore):
    """A prefix of a bucket. See `ObjectStore.open` for the options."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url.rstrip("/")
        self._options = dict(options)
        parts = urlsplit(self.url)
        if parts.scheme == "memory":
            self._store: Any = _memory_store(parts.netloc)
            self._prefix = parts.path.strip("/")
        else:
            self._store = _connect(self.url, self._options)
            self._prefix = ""  # obstore takes it from the URL

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self.url, self._options)

    def child(self, prefix: str) -> RemoteStore:
        return RemoteStore(f"{self.url}/{prefix.strip('/')}", self._options)

    def local_path(self, path: str) -> None:
        return None

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _call(self, doing: str, path: str, call: Callable[[], T]) -> T:
        try:
            return _retrying(call)
        except Exception as error:
            raise _explain(error, doing, self.location(path)) from error

    def read(self, path: str) -> bytes:
        key = self._key(path)
        return self._call("read", path, lambda: obstore.get(self._store, key).bytes().to_bytes())

    def write(self, path: str, data: bytes) -> None:
        key = self._key(path)
        self._call("write", path, lambda: obstore.put(self._store, key, data))

    def create(self, path: str, data: bytes) -> bool:
        key = self._key(path)

        def put() -> bool:
            try:
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
            return True

        return self._call("create", path, put)

    def exists(self, path: str) -> bool:
        try:
            self._head(path)
        except MissingFileError:
            return False
        return True

    def size(self, path: str) -> int:
        return int(self._head(path)["size"])

    def fingerprint(self, path: str) -> None:
        return None

    def _head(self, path: str) -> Any:
        key = self._key(path)
        return self._call("read", path, lambda: obstore.head(self._store, key))

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        prefix = prefix.strip("/")
        start = self._key(prefix)
        if recursive:
            chunks: Iterator[Any] = iter(obstore.list(self._store, start or None, chunk_size=1000))
        else:
            listed = self._call(
                "list", prefix, lambda: obstore.list_with_delimiter(self._store, start or None)
            )
            chunks = iter([listed["objects"]])
        while chunk := self._call("list", prefix, lambda: next(chunks, None)):
            for item in chunk:
                path = item["path"][len(self._prefix) + 1 if self._prefix else 0 :]
                if hidden or not path.rpartition("/")[2].startswith("."):
                    modified = int(item["last_modified"].timestamp() * 1000)
                    yield FileStatus(path, item["size"], modified)

    def list_dirs(self, prefix: str = "") -> Paths:
        start = self._key(prefix.strip("/"))
        listed = self._call(
            "list", prefix, lambda: obstore.list_with_delimiter(self._store, start or None)
        )
        cut = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[cut:] for path in listed["common_prefixes"])

    def delete(self, paths: str | Iterable[str]) -> None:
        named = [paths] if isinstance(paths, str) else list(paths)
        for start in range(0, len(named), 1000):
            keys = [self._key(path) for path in named[start : start + 1000]]
            self._call("delete", named[start], partial(self._delete, keys))

    def _delete(self, keys: Paths) -> None:
        try:
            obstore.delete(self._store, keys)
        except FileNotFoundError:  # stores that say so stop there: one by one
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, key)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_RangeReader(self, path), mode="r")

    def open_output(self, path: str) -> OutputFile:
        return _RemoteOutput(self, path)


class _RangeReader(io.RawIOBase):
    """Random access by ranged reads; opening it fetches the size and the file's end at once."""

    def __init__(self, store: RemoteStore, path: str) -> None:
        self._owner = store
        self._path = path
        self._position = 0
        self._size, self._tail = store._call("read", path, self._open)

    def _open(self) -> tuple[int, bytes]:
        store, key = self._owner._store, self._owner._key(self._path)
        try:
            result = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
            return int(result.meta["size"]), result.bytes().to_bytes()
        except exceptions.BaseError:  # Azure takes no suffix ranges; an empty file has none
            size = int(obstore.head(store, key)["size"])
            start = max(0, size - TAIL_BYTES)
            if size == 0:
                return 0, b""
            return size, obstore.get_range(store, key, start=start, end=size).to_bytes()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, count: int | None = -1) -> Any:
        start = min(self._position, self._size)
        end = self._size if count is None or count < 0 else min(start + count, self._size)
        self._position = end
        if start == end:
            return b""
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : end - tail_start]
        store, key = self._owner._store, self._owner._key(self._path)
        return self._owner._call(
            "read", self._path, lambda: obstore.get_range(store, key, start=start, end=end)
        ).to_bytes()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _RemoteOutput(OutputFile):
    """A multipart upload; one that is not completed never becomes a file."""

    def __init__(self, store: RemoteStore, path: str) -> None:
        self.path = path
        self._owner = store
        self._writer: Any = obstore.open_writer(
            store._store, store._key(path), buffer_size=PART_BYTES, max_concurrency=4
        )
        self._sink = pa.PythonFile(self, mode="w")
        self._written = 0
        self.closed = False

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def write(self, data: Any) -> None:
        try:
            self._writer.write(memoryview(data).cast("B"))
        except Exception as error:
            raise _explain(error, "write", self._owner.location(self.path)) from error
        self._written += memoryview(data).nbytes

    def flush(self) -> None:
        """Parts go out when they are full: there is nothing to do."""

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._writer.close()
        except Exception as error:
            raise _explain(error, "write", self._owner.location(self.path)) from error

    def abort(self) -> None:
        self.closed = True
        self._writer = None  # dropped before completion


def _memory_store(name: str) -> MemoryStore:
    with _memory_lock:
        return _memory.setdefault(name, MemoryStore())


def _connect(url: str, options: dict[str, Any]) -> Any:
    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for key, value in options.items():
        (client if key in _CLIENT_OPTIONS else config)[_ALIASES.get(key, key)] = value
    if str(config.get("endpoint", "")).startswith("http://"):
        client.setdefault("allow_http", True)
    if isinstance(client.get("allow_http"), str):
        client["allow_http"] = client["allow_http"].strip().lower() == "true"
    try:
        return _open_url(url, config=config or None, client_options=client or None)
    except exceptions.UnknownConfigurationKeyError as error:
        raise OptionError(
            f"unknown storage option for {url!r} among {sorted(options)}: "
            "use endpoint, region, access_key_id, secret_access_key, session_token, allow_http "
            "or a configuration key of obstore",
            url=url,
            options=sorted(options),
        ) from error
    except Exception as error:
        raise StorageError(
            f"cannot open {url!r}: {_first_line(error)}; check the URL and the storage options",
            url=url,
        ) from error


def _transient(error: BaseException) -> bool:
    if not isinstance(error, (exceptions.GenericError, OSError, TimeoutError)):
        return False
    if isinstance(error, FileNotFoundError):
        return False
    text = str(error).lower()
    return any(sign in text for sign in _TRANSIENT)


def _retrying(call: Callable[[], T]) -> T:
    # obstore repeats requests itself; this covers answers that break off while they are read.
    try:
        return call()
    except Exception as error:
        if not _transient(error):
            raise
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_transient),
        stop=tenacity.stop_after_attempt(2),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
        reraise=True,
    )(call)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().split("\n", 1)[0]


def _explain(error: BaseException, doing: str, location: str) -> StorageError:
    if isinstance(error, StorageError):
        return error
    reason = _first_line(error)
    if isinstance(error, (FileNotFoundError, exceptions.NotFoundError)):
        return MissingFileError(
            f"no file {location!r}: it was deleted, or its snapshot has expired", path=location
        )
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        remedy = "check the keys and rights given as storage options or in the environment"
    elif "no space" in reason.lower() or "quota" in reason.lower():
        return StorageFullError(
            f"cannot {doing} {location!r}: {reason}; free space there and try again",
            path=location,
        )
    elif _transient(error):
        remedy = "the store does not answer: check the endpoint and the network, then try again"
    else:
        remedy = "check the URL and the storage options, then try again"
    return StorageError(f"cannot {doing} {location!r}: {reason}; {remedy}", path=location)
