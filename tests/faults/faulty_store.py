"""Storage that is killed, fails, tears or loses its answers, by plan; and remembers its states."""

import contextlib
import enum
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import pkray.storage.location
import pkray.table.catalog
from pkray.errors import StorageError
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile
from pkray.storage.opening import open_store

MUTATIONS = ("write", "create", "close", "delete")


class Killed(BaseException):
    """The process is dead; nothing of it reaches the storage any more."""


class Operation(NamedTuple):
    """One call of a store; ``path`` is relative to the warehouse, of a delete the first."""

    number: int
    name: str
    path: str


class Fault(enum.Enum):
    """What happens to an operation."""

    FAIL = "it is not done, and raises"
    LOSE_ANSWER = "it is done, and raises"
    TEAR = "half of its bytes are written where none looks, and it raises"
    KILL_BEFORE = "the process ends before it"
    KILL_AFTER = "the process ends after it"


Plan = Callable[[Operation], Fault | Exception | None]


def nothing(_: Operation) -> None:
    """The plan of a clean run."""


class Change(NamedTuple):
    """What one operation did to a file: its bytes from now on, or None where it is gone."""

    path: str
    data: bytes | None


@dataclass
class Storage:
    """What all stores of one warehouse share.

    Args:
        root: its URL.
        plan: says which operation fails and how; an exception is raised instead of the work.

    Attributes:
        operations: those that began, in order.
        changes: every change of a file, in order: the first n of them are a state on storage.
        seen: for each operation the number of changes before and after it.
    """

    root: str
    plan: Plan = nothing
    operations: list[Operation] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    seen: list[tuple[int, int]] = field(default_factory=list)
    is_dead: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def has(self, url: str) -> bool:
        return f"{url}/".startswith(f"{self.root}/")

    def relative(self, location: str) -> str:
        return location.removeprefix(self.root).lstrip("/")

    def perform(
        self,
        name: str,
        location: str,
        work: Callable[[], Any],
        changes: Callable[[Any], list[Change]] = lambda _: [],
        tear: Callable[[], None] = lambda: None,
    ) -> Any:
        with self.lock:
            if self.is_dead:
                raise Killed
            operation = Operation(len(self.operations), name, self.relative(location))
            self.operations.append(operation)
            before = len(self.changes)
            self.seen.append((before, before))
            fault = self.plan(operation)
            if isinstance(fault, Exception):
                raise fault
            if fault in (Fault.FAIL, Fault.TEAR):
                if fault is Fault.TEAR:
                    tear()
                raise StorageError(f"{name} of {location!r} failed, as planned", path=location)
            if fault is Fault.KILL_BEFORE:
                self.is_dead = True
                raise Killed
            try:
                result = work()
            except Exception:
                if fault is not Fault.KILL_AFTER:
                    raise
                self.is_dead = True
                raise Killed from None
            self.changes += changes(result)
            self.seen[operation.number] = before, len(self.changes)
            if fault is Fault.KILL_AFTER:
                self.is_dead = True
                raise Killed
            if fault is Fault.LOSE_ANSWER:
                raise StorageError(f"the answer to {name} of {location!r} was lost", path=location)
            return result

    def state(self, count: int) -> dict[str, bytes]:
        """The files after so many changes."""
        files: dict[str, bytes] = {}
        for path, data in self.changes[:count]:
            if data is None:
                files.pop(path, None)
            else:
                files[path] = data
        return files


class FaultyStore(ObjectStore):
    """Another store, all of whose operations go through a `Storage`.

    Failures keep the contract: a file appears whole or not at all under its name. What is torn
    is a hidden temporary file beside it, and only on a disk.
    """

    def __init__(self, inner: ObjectStore, storage: Storage) -> None:
        self.inner = inner
        self.storage = storage
        self.url = inner.url

    def __reduce__(self) -> tuple[Any, ...]:
        return FaultyStore, (self.inner, self.storage)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaultyStore) and other.inner == self.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def _do(self, name: str, path: str, work: Callable[[], Any], **more: Any) -> Any:
        return self.storage.perform(name, self.inner.location(path), work, **more)

    def _change(self, path: str, data: bytes | None) -> Change:
        return Change(self.storage.relative(self.inner.location(path)), data)

    def _tear(self, path: str, data: bytes) -> None:
        local = self.inner.local_path(path)
        if local is not None:
            leave_torn(Path(local), data)

    def child(self, prefix: str) -> ObjectStore:
        return FaultyStore(self.inner.child(prefix), self.storage)

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self.inner.read(path))

    def write(self, path: str, data: bytes) -> None:
        self._do(
            "write",
            path,
            lambda: self.inner.write(path, data),
            changes=lambda _: [self._change(path, bytes(data))],
            tear=lambda: self._tear(path, data),
        )

    def create(self, path: str, data: bytes) -> bool:
        return self._do(
            "create",
            path,
            lambda: self.inner.create(path, data),
            changes=lambda made: [self._change(path, bytes(data))] if made else [],
            tear=lambda: self._tear(path, data),
        )

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self._do("size", path, lambda: self.inner.size(path))

    def fingerprint(self, path: str) -> Hashable:
        if self.inner.local_path("") is None:
            return self.inner.fingerprint(path)  # no request
        return self._do("fingerprint", path, lambda: self.inner.fingerprint(path))

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        def work() -> Any:
            return list(self.inner.list(prefix, recursive=recursive, hidden=hidden))

        return iter(self._do("list", prefix, work))

    def list_dirs(self, prefix: str = "") -> Any:
        return self._do("list_dirs", prefix, lambda: self.inner.list_dirs(prefix))

    def delete(self, paths: str | Iterable[str]) -> None:
        named = [paths] if isinstance(paths, str) else list(paths)
        if named:
            self._do(
                "delete",
                named[0],
                lambda: self.inner.delete(named),
                changes=lambda _: [self._change(path, None) for path in named],
                tear=lambda: self.inner.delete(named[: len(named) // 2]),
            )

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open_input", path, lambda: self.inner.open_input(path))

    def open_output(self, path: str) -> OutputFile:
        output = self._do("open_output", path, lambda: self.inner.open_output(path))
        return _FaultyOutput(self, output, path)

    def local_path(self, path: str) -> str | None:
        return self.inner.local_path(path)

    def location(self, path: str) -> str:
        return self.inner.location(path)


class _FaultyOutput(OutputFile):
    def __init__(self, store: FaultyStore, inner: OutputFile, path: str) -> None:
        self.path = path
        self._store = store
        self._inner = inner
        self._ended = False

    @property
    def sink(self) -> pa.NativeFile:
        return self._inner.sink

    def write(self, data: Any) -> None:
        self._inner.write(data)

    def tell(self) -> int:
        return self._inner.tell()

    def checksums(self) -> str:
        return self._inner.checksums()

    def hold(self) -> None:
        self._inner.hold()

    def held(self) -> bytes:
        return self._inner.held()

    def close(self) -> None:
        if self._ended:
            return
        store, path = self._store, self.path

        def tear() -> None:
            self._inner.abort()
            store._tear(path, b"PAR1torn")

        try:
            store._do(
                "close",
                path,
                self._inner.close,
                changes=lambda _: [store._change(path, store.inner.read(path))],
                tear=tear,
            )
        except StorageError:
            self.abort()  # as the contract of `close` says
            raise
        self._ended = True

    def abort(self) -> None:
        if not self._ended and not self._store.storage.is_dead:
            self._inner.abort()
        self._ended = True


def leave_torn(path: Path, data: bytes) -> None:
    """A temporary file that was never finished, as a killed process leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f".{path.name}.{id(data):032x}.tmp").write_bytes(data[: len(data) // 2])


@contextlib.contextmanager
def faulty(storage: Storage) -> Iterator[None]:
    """Within it, whatever opens a store below the storage's root gets a faulty one."""

    def open_faulty(url: Any, **options: Any) -> ObjectStore:
        store = open_store(url, **options)
        return FaultyStore(store, storage) if storage.has(store.url) else store

    with pytest.MonkeyPatch.context() as patch:
        for opener in (pkray.table.catalog, pkray.storage.location):
            patch.setattr(opener, "open_store", open_faulty)
        yield


def put_files(root: str, files: dict[str, bytes]) -> None:
    """Make a warehouse of these files."""
    store = open_store(root)
    local = store.local_path("")
    if local is None:
        for path, data in files.items():
            store.write(path, data)
        return
    for folder in {path.rpartition("/")[0] for path in files}:
        Path(local, folder).mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        with open(f"{local}/{path}", "wb", buffering=0) as file:  # noqa: PTH123 - there are many
            file.write(data)
