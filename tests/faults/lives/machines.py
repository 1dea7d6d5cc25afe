"""Processes that die and sleep at any call of their store, and the files that they share."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pytest

import pkray
import pkray.api.table
import pkray.storage.location
import pkray.table.catalog
from pkray.errors import MissingFileError
from pkray.storage.block_checksums import BlockHasher
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths, below
from pkray.storage.opening import open_store
from tests.faults.faulty_store import Killed

SCHEME = "lives://"
PATIENCE = 60.0
"""Seconds after which a machine hangs: far above what anything takes on a busy computer."""

_numbers = itertools.count()


@dataclass(frozen=True)
class File:
    data: bytes
    millis: int
    mark: int


class World:
    """The files of a warehouse, and the time of day.

    Attributes:
        files: by path.
        late: milliseconds by which the clocks of all machines are ahead of this computer's.
    """

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.late = 0
        self.lock = threading.RLock()
        self._marks = itertools.count(1)

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.late

    def put(self, path: str, data: bytes) -> None:
        with self.lock:
            self.files[path] = File(bytes(data), self.now(), next(self._marks))

    def below(self, folder: str) -> dict[str, File]:
        """Give the files in a folder; its name ends with a slash."""
        with self.lock:
            return {path: file for path, file in self.files.items() if path.startswith(folder)}

    def replace(self, folder: str, files: dict[str, File]) -> None:
        """Put a folder in the place of the one that is there."""
        with self.lock:
            for path in self.below(folder):
                del self.files[path]
            self.files.update(files)


Fate = Literal["kill", "sleep"]


@dataclass(frozen=True)
class Fault:
    """What becomes of a machine.

    Attributes:
        at: before its so-manieth call that changes a file (``kill``), or that does anything
            (``sleep``).
        path: of whose paths this is a part, and that change them; empty: all.
    """

    fate: Fate
    at: int
    path: str = ""


class Outcome:
    """What came of a call of a machine: a value, an error, or nothing yet."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False

    @property
    def failure(self) -> Exception | None:
        """The error, unless the machine died of it."""
        return self.error if isinstance(self.error, Exception) else None


@dataclass
class Mutation:
    """A change of a file by a machine."""

    name: str
    path: str


_QUIET = re.compile(r"/status\.json$")
"""Files whose changes are not counted: when they are written depends on the time."""


@dataclass
class Machine:
    """A process of its own: it shares nothing but the files with the others.

    Attributes:
        state: ``awake``, ``asleep`` or ``dead``.
        fault: what is to become of it; None: nothing.
        mutations: what it did to files, in order.
        met: before which call its fault came.
        workers: of the queries that it runs or ran.
        driven: calls under way that wait for its queries to go on.
    """

    world: World
    name: str
    state: str = "awake"
    fault: Fault | None = None
    mutations: list[Mutation] = field(default_factory=list)
    met: str = ""
    workers: list[Any] = field(default_factory=list)
    driven: int = 0

    def __post_init__(self) -> None:
        self.moved = threading.Condition()
        self._calls = self._changes = 0
        self._catalog: pkray.Catalog | None = None

    def __repr__(self) -> str:
        return f"{self.name} ({self.state})"

    @property
    def is_awake(self) -> bool:
        return self.state == "awake"

    @property
    def catalog(self) -> pkray.Catalog:
        if self._catalog is None:
            options = {"owners": 1, "local_directory": _local_directory()}
            url = f"{SCHEME}{self.name}/w"
            self._catalog = pkray.connect(url, runtime_options=options)
        return self._catalog

    # -- what its store asks --

    def enter(self, name: str, path: str, *, changes: bool) -> None:
        """Wait while the machine sleeps, and end here if it is dead."""
        if self.state == "awake" and self.fault is None:
            return
        with self.moved:
            fault = self.fault
            is_met = fault is not None and (not fault.path or (changes and fault.path in path))
            if self.state == "awake" and is_met and not _QUIET.search(path):
                self._calls += 1
                self._changes += changes
                assert fault is not None
                self._meet(fault, name, path, changes=changes)
            while self.state == "asleep":
                self.moved.wait()
            if self.state == "dead":
                raise Killed

    def _meet(self, fault: Fault, name: str, path: str, *, changes: bool) -> None:
        counted = self._changes if fault.fate == "kill" else self._calls
        if counted >= fault.at and (changes or fault.fate == "sleep"):
            self.met = f"{name} {path}"
            self._become("dead" if fault.fate == "kill" else "asleep")

    def note(self, name: str, path: str) -> None:
        self.mutations.append(Mutation(name, path))

    # -- what fate does --

    def expect(self, fault: Fault | None) -> None:
        """Have a fault come, counted from now on."""
        with self.moved:
            self.fault, self._calls, self._changes = fault, 0, 0

    def _become(self, state: str) -> None:
        with self.moved:
            self.state, self.fault = state, None
            self.moved.notify_all()

    def kill(self) -> None:
        self._become("dead")

    def sleep(self) -> None:
        self._become("asleep")

    def wake(self) -> None:
        self._become("awake")

    # -- what its user does --

    def call(self, work: Callable[[pkray.Catalog], Any], *, drives: bool = False) -> Outcome:
        """Do something in the process, until it is done, or the machine sleeps.

        Args:
            drives: whether it waits for the queries of the machine, which go on meanwhile.
        """
        outcome = Outcome()
        self.driven += drives

        def run() -> None:
            _here.machine = self
            try:
                outcome.value = work(self.catalog)
            except BaseException as error:
                outcome.error = error
            with self.moved:
                outcome.is_done = True
                self.driven -= drives
                self.moved.notify_all()

        threading.Thread(target=run, name=f"life-{self.name}", daemon=True).start()
        self.await_(lambda: outcome.is_done)
        return outcome

    @contextlib.contextmanager
    def driven_by_others(self) -> Iterator[None]:
        """Let its queries go on, as a call of another machine waits for them."""
        self._drive(1)
        try:
            yield
        finally:
            self._drive(-1)

    def _drive(self, calls: int) -> None:
        with self.moved:
            self.driven += calls
            self.moved.notify_all()

    def await_(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so, or the machine sleeps.

        Raises:
            TimeoutError: neither comes.
        """
        deadline = time.monotonic() + PATIENCE
        with self.moved:
            while not reached() and self.state != "asleep":
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self} hangs")
                self.moved.wait(0.05)

    def bury(self) -> None:
        """End the threads of a process that died, or whose life is over."""
        self.kill()
        for worker in self.workers:
            worker._stopping.set()
            worker._thread.join(5.0)
        if self._catalog is not None:
            _end(self._catalog.runtime)


def _end(runtime: Any) -> None:
    """Stop the services of a runtime without another call of its store."""
    for service in list(runtime._services.values()):
        for stop in (service.writers.stop, service.coordinator.close):
            with contextlib.suppress(BaseException):
                stop()
        for owner in service.owners:
            with contextlib.suppress(BaseException):
                owner.close()
            with contextlib.suppress(BaseException):
                owner.handle.close()
        with contextlib.suppress(BaseException):
            service.coordinator.handle.close()
    runtime._services.clear()
    with contextlib.suppress(BaseException):
        runtime.close()


class _Here(threading.local):
    machine: Machine | None = None


_here = _Here()


def this_machine() -> Machine | None:
    """Find the machine whose user this thread is."""
    return _here.machine


def _local_directory() -> str:
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    return f"{folder}/pkray-lives-{os.getpid()}"


_machines: dict[str, Machine] = {}


M = TypeVar("M", bound="Machine")


def new_machine(world: World, kind: type[M] = Machine) -> M:  # type: ignore[assignment]
    """Start a process."""
    machine = kind(world, f"m{next(_numbers)}")
    _machines[machine.name] = machine
    return machine


def forget_machines(world: World) -> None:
    """End all processes of a world."""
    for name, machine in list(_machines.items()):
        if machine.world is world:
            machine.bury()
            del _machines[name]


class MachineStore(ObjectStore):
    """The files of a world as one machine sees them: ``lives://machine/path``."""

    def __init__(self, url: str, machine: Machine | None = None) -> None:
        self.url = url.rstrip("/")
        host, _, prefix = self.url.removeprefix(SCHEME).partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._machine = machine or _machines[host]
        self._world = self._machine.world

    def __reduce__(self) -> tuple[Any, ...]:
        return MachineStore, (self.url,)

    def _path(self, path: str) -> str:
        return f"{self._prefix}{below(path)}"

    def _enter(self, name: str, path: str, *, changes: bool = False) -> str:
        key = self._path(path)
        self._machine.enter(name, key, changes=changes)
        return key

    def child(self, prefix: str) -> MachineStore:
        return MachineStore(f"{self.url}/{below(prefix.strip('/'))}", self._machine)

    def local_path(self, path: str) -> str | None:
        return None

    def fingerprint(self, path: str) -> Hashable:
        return None

    def _find(self, name: str, path: str) -> File:
        found = self._world.files.get(self._enter(name, path))
        if found is None:
            raise MissingFileError(f"{self.location(path)} is not there", path=path)
        return found

    def read(self, path: str) -> bytes:
        return self._find("read", path).data

    def size(self, path: str) -> int:
        return len(self._find("size", path).data)

    def exists(self, path: str) -> bool:
        return self._enter("exists", path) in self._world.files

    def write(self, path: str, data: bytes) -> None:
        key = self._enter("write", path, changes=True)
        self._world.put(key, data)
        self._machine.note("write", key)

    def create(self, path: str, data: bytes) -> bool:
        key = self._enter("create", path, changes=True)
        with self._world.lock:
            is_new = key not in self._world.files
            if is_new:
                self._world.put(key, data)
                self._machine.note("create", key)
        return is_new

    def delete(self, paths: str | Iterable[str]) -> None:
        named = [paths] if isinstance(paths, str) else list(paths)
        for path in named:
            key = self._enter("delete", path, changes=True)
            with self._world.lock:
                if self._world.files.pop(key, None) is not None:
                    self._machine.note("delete", key)

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        folder = (
            f"{self._enter('list', prefix.strip('/'))}/".lstrip("/") if prefix else self._prefix
        )
        cut = len(self._prefix)
        for path, file in sorted(self._world.below(folder).items()):
            if not recursive and "/" in path[len(folder) :]:
                continue
            if hidden or not path.rpartition("/")[2].startswith("."):
                yield FileStatus(path[cut:], len(file.data), file.millis, file.mark)

    def list_dirs(self, prefix: str = "") -> Paths:
        folder = f"{self._enter('list', prefix.strip('/'))}/" if prefix else self._prefix
        cut, found = len(self._prefix), set()
        for path in self._world.below(folder):
            name, slash, _ = path[len(folder) :].partition("/")
            if slash:
                found.add(f"{folder[cut:]}{name}")
        return sorted(found)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._find("read", path).data)

    def open_output(self, path: str) -> OutputFile:
        return _Output(self, path)


class _Output(OutputFile):
    """A file that is written when it is closed."""

    def __init__(self, store: MachineStore, path: str) -> None:
        self.path = path
        self._store = store
        self._parts: list[bytes] = []
        self._held: list[bytes] | None = None
        self._hasher = BlockHasher()
        self._size = 0
        self._sink = pa.PythonFile(self, mode="w")
        self.closed = False

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def write(self, data: Any) -> None:
        taken = bytes(memoryview(data).cast("B"))
        self._size += len(taken)
        if self._held is not None:
            self._held.append(taken)
            return
        self._parts.append(taken)
        self._hasher.update(taken)

    def flush(self) -> None:
        """Do nothing."""

    def tell(self) -> int:
        return self._size

    def checksums(self) -> str:
        return self._hasher.text()

    def hold(self) -> None:
        self._held = []

    def held(self) -> bytes:
        data = b"".join(self._held or ())
        self._held = None
        self._size -= len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._store.write(self.path, b"".join(self._parts))

    def abort(self) -> None:
        self.closed = True


def _open(url: Any, **options: Any) -> ObjectStore:
    text = os.fspath(url)
    return MachineStore(text) if text.startswith(SCHEME) else open_store(text, **options)


@contextlib.contextmanager
def machines_open_stores() -> Iterator[None]:
    """Within it, URLs of machines open."""
    with pytest.MonkeyPatch.context() as patch:
        for opener in (pkray.table.catalog, pkray.storage.location, pkray.api.table):
            patch.setattr(opener, "open_store", _open)
        yield
