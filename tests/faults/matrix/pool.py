"""A pool of workers whose processes are machines in this process, killed and stopped by plan."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pkray
from pkray.clock import now_millis
from pkray.errors import PkrayError, ServiceUnavailableError
from pkray.schema.table_schema import TableSchema
from pkray.service.call_limits import CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.pusher import Pusher, pushing
from pkray.service.client.table_service import TableService
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.dedicated_compaction import spread_over_threads
from pkray.service.handles.handle import Method, persist
from pkray.service.handles.local_handle import Job, Lane, LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.service.pool.assignments import LEASE_SECONDS, Assignments
from pkray.service.pool.calls import KeeperClient
from pkray.service.pool.host import HostedPart, PartHost
from pkray.service.pool.parts import (
    COORDINATOR,
    Assignment,
    HostedTable,
    MovedError,
    Part,
    WorkerProcess,
)
from pkray.service.pool.shared_executor import SharedExecutor
from pkray.service.protocol import KeptBatch, RoutedBatch, SessionId, first_push
from pkray.storage.location import TableLocation
from tests.faults.faulty_store import Killed
from tests.faults.lives.machines import SCHEME, Machine, World, forget_machines, new_machine

LIMITS = CallLimits(5.0, 5.0)
OWNERS = 2
NODES = ("one", "one", "two")
"""Of the workers, by their numbers."""
GLANCE = 0.01
_STEP_SECONDS = LEASE_SECONDS / 3
_LATER_KEEPER = 1 << 20
"""By how much the numbers of a keeper are above those of the one before."""


@dataclass
class Moment:
    """Something that a process comes to.

    Args:
        is_it: whether it is this, by the process, the kind of call and its path.
        then: called at the first one.

    Attributes:
        met: what it was.
    """

    is_it: Callable[[Machine, str], bool]
    then: Callable[[], None]
    met: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def come(self, machine: Machine, what: str) -> None:
        if self.met or not self.is_it(machine, what):
            return
        with self._lock:
            if self.met:
                return
            self.met = what
        self.then()


class Member(Machine):
    """A process of, or with, a pool."""

    pool: Pool

    def enter(self, name: str, path: str, *, changes: bool) -> None:
        moment = self.pool.moment
        if moment is not None and self.is_awake:
            moment.come(self, f"{name} {path}")
        super().enter(name, path, changes=changes)

    @property
    def catalog(self) -> pkray.Catalog:
        if self._catalog is None:
            runtime = PoolRuntime(self.pool, self)
            self._catalog = pkray.connect(f"{SCHEME}{self.name}/w", runtime)
        return self._catalog

    def bury(self) -> None:
        self.kill()
        if self._catalog is not None:
            self._catalog.runtime.close()


class Worker:
    """A process of the pool that hosts parts."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.number = number
        self.machine = pool.member()
        self.process = WorkerProcess(self.machine.name, NODES[number])
        self._pool = pool
        self._lanes: dict[tuple[Part, str], Lane] = {}
        self._made: list[Any] = []
        self._under_way = 0
        self._threads = ThreadPoolExecutor(2)
        keeper = KeeperClient(KeeperHandle(pool, self.machine))
        self.host = PartHost(
            number, self.process, keeper, self._make, self.machine.kill, lambda: pool.now
        )

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def begin(self, part: Part, number: int, method: Method[..., Any], args: Any) -> Job[Any]:
        """Have a call arrive, after those of its group that came before."""
        self._under_way += 1

        def run() -> Any:
            try:
                self.machine.enter("begin", f"{method.name} of {part.table}", changes=True)
                answer = self.host.call(part, number, method, *args)
                self.machine.enter("end", f"{method.name} of {part.table}", changes=True)
                return answer
            finally:
                self._under_way -= 1

        job: Job[Any] = Job(run)
        key = part, method.group.name
        self._lanes.setdefault(key, Lane(method.group.threads)).add(job)
        return job

    def hand_over(self, parts: Mapping[Part, int], at_once: bool) -> None:
        """Let other workers have parts; a worker that is lost on the way does not answer."""
        job: Job[Any] = Job(self.host.hand_over, (parts, at_once))
        job.start()
        while self.machine.is_awake and not job.wait(GLANCE):
            pass
        with suppress(PkrayError, Killed):
            if self.machine.is_awake:
                job.answer()

    def close(self) -> None:
        """Let go of the threads of a machine that is dead."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for each in self._made:
            with suppress(BaseException):
                each.close()

    def _make(self, held: HostedPart) -> Any:
        table, index = held.table, held.part.index
        assert isinstance(table, HostedTable)
        location = self._pool.location_at(table.location, self.machine)
        handles = [PartHandle(self._pool, self.machine, table, i) for i in range(table.owners)]
        owners = [OwnerClient(handle) for handle in handles]
        if index == COORDINATOR:

            def numbers() -> dict[Part, int]:
                return {table.part(i): each.number for i, each in enumerate(handles)}

            made = Coordinator.of_table(location, owners, self.host.tenure(held, numbers))
            self._made.append(made)
            made.watch()
            return made

        def peers() -> list[OwnerClient]:
            itself = OwnerClient(LocalHandle(held.target, table.label(index), table.limits))
            return [*owners[:index], itself, *owners[index + 1 :]]

        folder = f"{self._pool.folder}/{held.part.table}-{index}-{held.number}"
        settings = OwnerSettings(index, table.owners, folder, refresh_millis=1000)
        threads = SharedExecutor(self._threads)
        owner = BucketOwner(location, settings, now_millis, threads, peers)
        self._made.append(owner)
        return owner


class KeeperHandle:
    """Carries a process's calls to whichever keeper there is."""

    limits = LIMITS

    def __init__(self, pool: Pool, caller: Machine) -> None:
        self._pool = pool
        self._caller = caller

    def call_once(self, method: Method[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._caller.enter("ask", f"keeper/{method.name}", changes=True)
        keeper = self._pool.keeper
        if keeper is None:
            raise ServiceUnavailableError("the keeper does not answer: try again")
        answer = method.of(keeper)(*args, **kwargs)
        self._caller.enter("hear", f"keeper/{method.name}", changes=True)
        return answer

    call = call_once


class PartHandle:
    """Carries a process's calls to a part, wherever that is."""

    limits = LIMITS

    def __init__(self, pool: Pool, caller: Machine, table: HostedTable, index: int) -> None:
        self.pool = pool
        self.caller = caller
        self.table = table
        self.index = index
        self._given: Assignment | None = None

    def submit(self, method: Method[..., Any], *args: Any, **kwargs: Any) -> Answer:
        return Answer(self, method, (args, kwargs))

    def call(self, method: Method[..., Any], *args: Any, **kwargs: Any) -> Any:
        patience = self.limits.patience(method.is_lookup)
        return persist(lambda: self.call_once(method, *args, **kwargs), patience)

    def call_once(self, method: Method[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.submit(method, *args, **kwargs).result()

    @property
    def number(self) -> int:
        return self.place().number

    def place(self) -> Assignment:
        """Find where the part is; time passes where nobody can have it yet."""
        given = self._given
        if given is None:
            try:
                given = KeeperClient(KeeperHandle(self.pool, self.caller)).locate.once(
                    self.table, self.index
                )
            except ServiceUnavailableError:
                self.pool.pass_time()
                raise
            self._given = given
        return given

    def leave(self, given: Assignment, known: Assignment | None = None) -> None:
        if self._given == given:
            self._given = known if known is not None and known.number > given.number else None


class Answer:
    """What a part owes its caller."""

    def __init__(self, handle: PartHandle, method: Method[..., Any], args: Any) -> None:
        self._handle = handle
        self._method = method
        self._args = args
        self._send()

    def _send(self) -> None:
        handle = self._handle
        self._given = handle.place()
        self._worker = handle.pool.workers[self._given.worker]
        part = handle.table.part(handle.index)
        self._job = self._worker.begin(part, self._given.number, self._method, self._args)

    def result(self) -> Any:
        handle = self._handle
        for _ in range(4):
            machine = self._worker.machine
            while not self._job.wait(GLANCE) and machine.is_awake:
                handle.caller.enter("wait", "", changes=False)
            if not machine.is_awake:  # what it has answered is lost on the way
                handle.leave(self._given)
                handle.pool.pass_time()
                raise ServiceUnavailableError(
                    f"{handle.table.label(handle.index)} does not answer: try again"
                )
            try:
                return self._job.answer()
            except MovedError as error:
                handle.leave(self._given, error.assignment)
                self._send()
            except ServiceUnavailableError:
                handle.leave(self._given)
                raise
        raise ServiceUnavailableError("the part moves too often: try again")


class Pool:
    """Workers, their keeper, and the processes that use them.

    Attributes:
        keeper: None while nobody is in its place.
        now: seconds, on the clock of leases.
        moment: at which something happens; None: nothing does.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.world = World()
        self.now = 0.0
        self.moment: Moment | None = None
        self._keepers = itertools.count(1)
        self._passing = threading.RLock()
        self._all: list[Worker] = []
        self.keeper: Assignments | None = self._new_keeper()
        self.workers = [self._start(number) for number in range(len(NODES))]
        self.pass_time()

    def member(self) -> Member:
        """Start a process that uses the pool."""
        machine = new_machine(self.world, Member)
        machine.pool = self
        return machine

    def location_at(self, location: TableLocation, machine: Machine | None) -> TableLocation:
        """Name a table as one process sees it; None: as the pool does."""
        path = location.url.removeprefix(SCHEME).partition("/")[2]
        return replace(location, url=f"{SCHEME}{machine.name if machine else 'pool'}/{path}")

    def pass_time(self) -> None:
        """Have more time pass than leases last: what is dead begins anew, what sleeps loses its
        parts."""
        with self._passing:
            if self.keeper is None:
                self.keeper = self._new_keeper()
            for number, worker in enumerate(self.workers):
                if worker.machine.state == "dead":
                    self.workers[number] = self._start(number)
            for _ in range(4):
                self.now += _STEP_SECONDS
                for worker in self.workers:
                    if worker.machine.is_awake:
                        with suppress(PkrayError, Killed):
                            worker.host.beat()

    def lose_keeper(self) -> None:
        self.keeper = None

    def workers_of(self, name: str, index: int) -> list[Worker]:
        """Find the worker that has a part of a table, by its name; none where nobody has it."""
        if self.keeper is None:
            return []
        parts = self.keeper.overview().parts
        at = [each.worker for each in parts if (each.thing, each.index) == (name, index)]
        return [self.workers[number] for number in at]

    def move(self, name: str) -> None:
        """Have every part of a table go to another worker."""
        for worker, parts in self._held(lambda thing: thing == name):
            worker.hand_over(parts, True)

    def drain(self, node: str) -> None:
        """Have the workers of a node lose all that they have."""
        if self.keeper is not None:
            self.keeper.drain({node})
        for worker, parts in self._held(lambda _: True):
            if worker.process.node == node:
                worker.hand_over(parts, False)
                worker.hand_over(parts, True)

    def undrain(self) -> None:
        if self.keeper is not None:
            self.keeper.drain(set())

    def _held(self, is_meant: Callable[[str], bool]) -> Iterator[tuple[Worker, dict[Part, int]]]:
        keeper = self.keeper
        if keeper is None:
            return
        names = {key: table.name for key, table in keeper._tables.items()}
        for worker in list(self.workers):
            held = dict(keeper._given)
            parts = {
                part: given.number
                for part, given in held.items()
                if given.worker == worker.number and is_meant(names.get(part.table, ""))
            }
            if parts:
                yield worker, parts

    def close(self) -> None:
        """End all processes."""
        self.moment = None
        forget_machines(self.world)
        for worker in self._all:
            worker.close()

    def _new_keeper(self) -> Assignments:
        return Assignments(len(NODES), lambda: self.now, next(self._keepers) * _LATER_KEEPER)

    def _start(self, number: int) -> Worker:
        worker = Worker(self, number)
        self._all.append(worker)
        return worker


class PoolTarget:
    """What a task pushes with."""

    stages_rows = False

    def __init__(self, runtime: PoolRuntime, table: HostedTable, schema: Any, session: Any) -> None:
        self._runtime = runtime
        self._table = table
        self._schema = schema
        self._session = session

    def at(self, machine: Machine) -> PoolTarget:
        """Make the same for another process."""
        runtime = PoolRuntime(self._runtime.pool, machine)
        return PoolTarget(runtime, self._table, self._schema, self._session)

    def open(self, source: int, attempt: int) -> Pusher:
        owners = self._runtime.owners(self._table)
        first = first_push(self._schema, self._session, source, attempt)
        return Pusher(self._schema, len(owners), pushing(owners), first)


class PoolRuntime:
    """The services of tables in a pool, as one process finds them."""

    def __init__(self, pool: Pool, machine: Machine) -> None:
        self.pool = pool
        self._machine = machine
        self._services: dict[str, TableService] = {}

    def service(self, location: TableLocation, schema: TableSchema) -> TableService:
        if location.fingerprint not in self._services:
            self._services[location.fingerprint] = self._find(location)
        return self._services[location.fingerprint]

    def owners(self, table: HostedTable) -> list[OwnerClient]:
        handles = (PartHandle(self.pool, self._machine, table, i) for i in range(table.owners))
        return [OwnerClient(handle) for handle in handles]

    def stop(self, location: TableLocation) -> None:
        service = self._services.pop(location.fingerprint, None)
        if service is not None:
            service.writers.stop()

    def spread(
        self, work: Callable[[Any], Any], arguments: Sequence[Any], parallelism: int | None
    ) -> Iterator[tuple[int, Any]]:
        return spread_over_threads(work, arguments, parallelism, LIMITS)

    def close(self) -> None:
        for service in self._services.values():
            service.writers.stop()
        self._services.clear()

    def _find(self, location: TableLocation) -> TableService:
        table = HostedTable(self.pool.location_at(location, None), OWNERS, 30_000, LIMITS)
        coordinator = CoordinatorClient(PartHandle(self.pool, self._machine, table, COORDINATOR))

        def target(session: SessionId, schema: TableSchema) -> PoolTarget:
            return PoolTarget(self, table, schema, session)

        def retain(batch: RoutedBatch) -> KeptBatch:
            return KeptBatch(batch)

        def load(kept: KeptBatch) -> Any:
            return kept

        writers = OpenWriters(0.2)
        return TableService(coordinator, self.owners(table), target, retain, load, writers)
