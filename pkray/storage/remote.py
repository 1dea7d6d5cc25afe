"""Files in S3, GCS, Azure or this process's memory, through obstore."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import MemoryStore, from_url

from pkray.errors import MissingFileError, OptionError, StorageError
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths, below
from pkray.storage.opening import in_url
from pkray.storage.remote_errors import explain, first_line, retrying
from pkray.storage.remote_files import RangeReader, RemoteOutput

T = TypeVar("T")

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
_open_url: Any = from_url
_memory: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


class RemoteStore(ObjectStore):
    """A prefix of a bucket. See `open_store` for the options."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url.rstrip("/")
        self._options = dict(options)
        parts = urlsplit(self.url)
        if parts.scheme == "memory":
            self._store: Any = _memory_store(parts.netloc)
            self._prefix = unquote(parts.path).strip("/")
        else:
            self._store = _connect(self.url, self._options)
            self._prefix = ""  # obstore takes it from the URL

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self.url, self._options)

    def child(self, prefix: str) -> RemoteStore:
        return RemoteStore(f"{self.url}/{in_url(below(prefix.strip('/')))}", self._options)

    def local_path(self, path: str) -> None:
        return None

    def _key(self, path: str) -> str:
        below(path)
        return f"{self._prefix}/{path}" if self._prefix else path

    def _call(self, doing: str, path: str, call: Callable[[], T]) -> T:
        try:
            return retrying(call)
        except Exception as error:
            raise explain(error, doing, self.location(path)) from error

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
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:
                raise explain(error, "list", self.location(prefix)) from error
            if chunk is None:
                return
            for item in chunk:
                path = item["path"][len(self._prefix) + 1 if self._prefix else 0 :]
                if hidden or not path.rpartition("/")[2].startswith("."):
                    modified = int(item["last_modified"].timestamp() * 1000)
                    yield FileStatus(path, item["size"], modified, item.get("e_tag") or modified)

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
        return pa.PythonFile(
            RangeReader(self._store, self._key(path), self.location(path)), mode="r"
        )

    def open_output(self, path: str) -> OutputFile:
        return RemoteOutput(self._store, self._key(path), path, self.location(path))


def _memory_store(name: str) -> MemoryStore:
    with _memory_lock:
        return _memory.setdefault(name, MemoryStore())


def _connect(url: str, options: dict[str, Any]) -> Any:
    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for key, value in options.items():
        (client if key in _CLIENT_OPTIONS else config)[_ALIASES.get(key, key)] = value
    _check_config(config)
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
            f"cannot open {url!r}: {first_line(error)}; check the URL and the storage options",
            url=url,
        ) from error


def _check_config(config: dict[str, Any]) -> None:
    for key, value in config.items():
        if not isinstance(value, str | bool):
            remedy = "leave it out" if value is None else f"write {str(value)!r}"
            raise OptionError(
                f"storage option {key!r} cannot be {value!r}: {remedy}", key=key, value=value
            )
        # obstore does not survive one without a scheme.
        if "endpoint" in key.lower() and urlsplit(str(value)).scheme not in ("http", "https"):
            raise OptionError(
                f"storage option {key!r} cannot be {value!r}: write it with its scheme, such as "
                "https://host:port",
                key=key,
                value=value,
            )
