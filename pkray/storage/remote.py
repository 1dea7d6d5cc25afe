"""Files in S3, GCS, Azure or this process's memory, through obstore."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import MemoryStore, from_url

from pkray.errors import MissingFileError, OptionError, StorageError, UnsupportedError
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths, below, in_url
from pkray.storage.remote_files import PART_BYTES, RangeReader, RemoteOutput
from pkray.storage.requests import RequestLimits, Requests
from pkray.storage.secrets import HIDDEN, Secret, hide, may_hold_secret, redact, reveal, shown_key
from pkray.storage.uploads import settle
from pkray.storage.warehouse_mark import MARK, warehouse_of

T = TypeVar("T")

_log = logging.getLogger(__name__)

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
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "randomize_addresses",
        "root_certificate",
        "read_timeout",
        "timeout",
        "user_agent",
    )
)
LIST_CHUNK = 1000
"""Files that obstore hands over at a time: as many as S3 lists in one answer."""
GAP_BYTES = 128 << 10
"""Ranges of a file so near each other are one request: what is between costs less than another."""
_QUOTED = re.compile(r'"[^"]*"')
_open_url: Any = from_url
_memory: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()
_BUCKET_SCHEMES = ("s3", "s3a", "gs", "memory")
"""A URL's path is that of files here; Azure's may begin with a container."""
_VENDORS = ("AWS_", "AZURE_", "GOOGLE_", "GCP_", "GCS_")
_shared: WeakValueDictionary[Hashable, _Connections] = WeakValueDictionary()
_shared_lock = threading.Lock()


class RemoteStore(ObjectStore):
    """A prefix of a bucket. See `open_store` for the options."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url.rstrip("/")
        self._options = hide(options)
        parts = urlsplit(self.url)
        is_below = parts.scheme in _BUCKET_SCHEMES
        self._prefix = "/".join(filter(None, unquote(parts.path).split("/"))) if is_below else ""
        root = f"{parts.scheme}://{parts.netloc}" if is_below else self.url
        self._connections = _shared_connections(root, self.url, self._options)

    @property
    def parallel_requests(self) -> int:
        return self._requests.at_once

    @property
    def _store(self) -> Any:
        return self._connections.store

    @property
    def _uploads(self) -> Any:
        return self._connections.uploads

    @property
    def _requests(self) -> Requests:
        return self._connections.requests

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self.url, self._options)

    def child(self, prefix: str) -> RemoteStore:
        made = copy(self)
        inner = below(prefix.strip("/"))
        made.url = f"{self.url}/{in_url(inner)}"
        made._prefix = f"{self._prefix}/{inner}" if self._prefix else inner
        return made

    def local_path(self, path: str) -> None:
        return None

    def _key(self, path: str) -> str:
        below(path)
        return f"{self._prefix}/{path}" if self._prefix else path

    def _call(self, doing: str, path: str, call: Callable[[], T]) -> T:
        settle(self.location(path))
        return self._requests.send(doing, self.location(path), call)

    def read(self, path: str) -> bytes:
        key = self._key(path)
        return self._call("read", path, lambda: obstore.get(self._store, key).bytes().to_bytes())

    def read_marked(self, path: str) -> tuple[bytes, Hashable]:
        key = self._key(path)

        def get() -> tuple[bytes, Hashable]:
            found = obstore.get(self._store, key)
            return found.bytes().to_bytes(), found.meta.get("e_tag")

        return self._call("read", path, get)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        key = self._key(path)
        starts, ends = ([each[at] for each in ranges] for at in (0, 1))

        def get() -> list[bytes]:
            parts = obstore.get_ranges(
                self._store, key, starts=starts, ends=ends, coalesce=GAP_BYTES
            )
            return [part.to_bytes() for part in parts]

        return self._call("read", path, get)

    def write(self, path: str, data: bytes) -> None:
        key = self._key(path)
        store = self._store if len(data) < PART_BYTES else self._uploads
        self._call("write", path, lambda: obstore.put(store, key, data))

    def create(self, path: str, data: bytes) -> bool:
        key = self._key(path)

        def put() -> bool:
            try:
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
            return True

        return self._call("create", path, put)

    def check_creates(self) -> None:
        url, tried = warehouse_of(self.url), self._connections.tried
        if url is None or url in tried:
            return
        warehouse = RemoteStore(url, self._options)
        try:
            # Once the mark is there, the first is refused.
            is_replaced = warehouse.create(MARK, b"") and warehouse.create(MARK, b"")
        except StorageError as error:  # such as keys that may not write there
            _log.debug("creates are not tried: %s", error)
            return
        if is_replaced:
            mark = warehouse.location(MARK)
            raise UnsupportedError(
                f"the store creates a file that is there: {mark} was created twice, although "
                "requests said If-None-Match, so that writers would take each other's commits "
                "away; use a store, and no proxy before it, but one that obeys conditional writes",
                path=mark,
            )
        tried.add(url)

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
        cut = len(self._prefix) + 1 if self._prefix else 0
        chunks = self._all_below(prefix) if recursive else iter([self._listed(prefix)["objects"]])
        for item in chain.from_iterable(chunks):
            path = item["path"][cut:]
            if hidden or not path.rpartition("/")[2].startswith("."):
                modified = int(item["last_modified"].timestamp() * 1000)
                yield FileStatus(path, item["size"], modified, item.get("e_tag") or modified)

    def _all_below(self, prefix: str) -> Iterator[Any]:
        """List in chunks; where the answer breaks off, go on after the last file that came."""
        start = self._key(prefix) or None
        chunks: Any = None
        last: str | None = None

        def following() -> Any:
            nonlocal chunks
            if chunks is None:
                chunks = iter(obstore.list(self._store, start, offset=last, chunk_size=LIST_CHUNK))
            try:
                return next(chunks, None)
            except Exception:
                chunks = None
                raise

        while (chunk := self._call("list", prefix, following)) is not None:
            yield chunk
            last = chunk[-1]["path"] if chunk else last

    def _listed(self, prefix: str) -> Any:
        start = self._key(prefix) or None
        return self._call("list", prefix, lambda: obstore.list_with_delimiter(self._store, start))

    def list_dirs(self, prefix: str = "") -> Paths:
        cut = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[cut:] for path in self._listed(prefix.strip("/"))["common_prefixes"])

    def delete(self, paths: str | Iterable[str]) -> None:
        named = [paths] if isinstance(paths, str) else list(paths)
        for start in range(0, len(named), 1000):
            some = named[start : start + 1000]
            for path in some:
                settle(self.location(path))
            keys = [self._key(path) for path in some]
            self._call("delete", named[start], partial(self._delete, keys))

    def _delete(self, keys: Paths) -> None:
        try:
            obstore.delete(self._store, keys)
        except FileNotFoundError:  # stores that say so stop there: one by one
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, key)

    def open_input(self, path: str) -> pa.NativeFile:
        settle(self.location(path))
        reader = RangeReader(self._store, self._key(path), self.location(path), self._requests)
        return pa.PythonFile(reader, mode="r")

    def open_output(self, path: str) -> OutputFile:
        return RemoteOutput(
            self._uploads, self._key(path), path, self.location(path), self._requests
        )


class _Connections:
    """obstore's clients, which keep connections open, and the requests that go through them.

    Args:
        root: of all stores that share them.
        url: that is opened, for messages.
        options: as `hide` gives them.

    ``tried`` are the warehouses in which files are known not to be replaced by those created.
    """

    def __init__(self, root: str, url: str, options: Mapping[str, Any]) -> None:
        given = reveal(options)
        limits = RequestLimits.from_options(given)
        self.requests = Requests(limits, options)
        parts = urlsplit(root)
        if parts.scheme == "memory":
            self._connect: Callable[[bool], Any] = lambda uploads: _memory_store(parts.netloc)
        else:
            self._connect = _connection(root, url, given, limits)
        self.store = self._connect(False)
        self.tried: set[str] = set()

    @cached_property
    def uploads(self) -> Any:
        """For what takes long to send."""
        return self._connect(True)


def _shared_connections(root: str, url: str, options: Mapping[str, Any]) -> _Connections:
    """Return the connections of this process to a root, as long as a store uses them.

    Options and the environment are what they are opened with: with others they are others.
    """
    around = sorted((k, v) for k, v in os.environ.items() if k.startswith(_VENDORS))
    key = (os.getpid(), root, tuple(sorted(options.items(), key=itemgetter(0))), tuple(around))
    try:
        hash(key)
    except TypeError:  # headers are a mapping
        return _Connections(root, url, options)
    with _shared_lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = _Connections(root, url, options)
        return found


def _memory_store(name: str) -> MemoryStore:
    with _memory_lock:
        return _memory.setdefault(name, MemoryStore())


def _connection(
    root: str, url: str, options: dict[str, Any], limits: RequestLimits
) -> Callable[[bool], Any]:
    """Make what opens obstore's store, for uploads or for all else."""
    config: dict[str, Any] = {}
    client = _client_environment(url)
    for key, value in options.items():
        _check_value(key, value)
        (client if key in _CLIENT_OPTIONS else config)[_ALIASES.get(key, key)] = value
    if str(config.get("endpoint", "")).startswith("http://"):
        client.setdefault("allow_http", True)
    if isinstance(client.get("allow_http"), str):
        client["allow_http"] = client["allow_http"].strip().lower() == "true"

    def connect(uploads: bool) -> Any:
        try:
            return _open_url(
                root,
                config=config or None,
                client_options=limits.client_options(client, uploads=uploads),
                retry_config=limits.retry_config(),
            )
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # panics of obstore are no Exception
            failure = _unopened(url, options, error)
        raise failure  # out of the `except`: what obstore says quotes values

    return connect


def _client_environment(url: str) -> dict[str, Any]:
    """Options of the HTTP client in the environment, which obstore forgets where some are given."""
    scheme = urlsplit(url).scheme.lower()
    vendor = {"s3": "AWS", "s3a": "AWS", "gs": "GOOGLE"}.get(scheme, "AZURE")
    names = {option: f"{vendor}_{option.upper()}" for option in _CLIENT_OPTIONS}
    return {option: os.environ[name] for option, name in names.items() if name in os.environ}


def _unopened(
    url: str, options: Mapping[str, Any], error: BaseException
) -> OptionError | StorageError:
    if isinstance(error, exceptions.UnknownConfigurationKeyError):
        keys = sorted(map(shown_key, options))
        return OptionError(
            f"unknown storage option for {url!r} among {keys}: "
            "use endpoint, region, access_key_id, secret_access_key, session_token, allow_http "
            "or a configuration key of obstore",
            url=url,
            options=keys,
        )
    reason = redact(str(error), {key: Secret(value) for key, value in options.items()})
    reason = _QUOTED.sub(f'"{HIDDEN}"', reason.strip().partition("\n")[0])
    return StorageError(
        f"cannot open {url!r}: {reason}; check the URL and the storage options, and AWS_*, AZURE_* "
        "and GOOGLE_* in the environment",
        url=url,
    )


def _check_value(key: str, value: object) -> None:
    """Refuse what obstore does not take; the value may be a secret, and is not shown."""
    name = shown_key(key)
    if key == "default_headers":
        fits = isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
        remedy = "give a dict of texts"
    else:
        fits = isinstance(value, str | bool) or (key == "root_certificate" and type(value) is bytes)
        remedy = "leave it out" if value is None else "give text"
    if not fits:
        given = None if value is None else f"a {type(value).__name__}"
        raise OptionError(f"storage option {name!r} cannot be {given}: {remedy}", key=name)
    # obstore does not survive one without a scheme.
    if "endpoint" in key.lower() and urlsplit(str(value)).scheme not in ("http", "https"):
        raise OptionError(
            f"storage option {name!r} is no URL: write it with its scheme, such as "
            "https://host:port",
            key=name,
        )
    if "endpoint" in key.lower() and may_hold_secret(str(value)):
        raise OptionError(
            f"storage option {name!r} has a user, a password or a query in it, which are printed "
            "with it: give keys and tokens as storage options of their own",
            key=name,
        )
