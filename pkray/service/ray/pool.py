"""A pool's keeper and workers as named, detached actors."""

from __future__ import annotations  # an actor's handle carries them to other versions: as text

import asyncio
import hashlib
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.experimental import internal_kv as kv
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pkray import spans
from pkray.clock import now_millis
from pkray.errors import OptionError, ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.service.calls import OwnerClient
from pkray.service.client.lookup_wire import decode_request, encode_answer
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.handle import Method
from pkray.service.handles.local_handle import Job, Lane, LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.service.pool.assignments import Assignments
from pkray.service.pool.calls import KeeperClient
from pkray.service.pool.host import HostedPart, PartHost, Target, awake_and_asleep
from pkray.service.pool.in_order import InOrder, Ticket
from pkray.service.pool.memory import WorkerMemory
from pkray.service.pool.parts import (
    COORDINATOR,
    Assignment,
    HostedTable,
    HostedThing,
    HostedWork,
    Part,
    WorkerProcess,
)
from pkray.service.pool.placement import Slots
from pkray.service.pool.shared_executor import SharedExecutor
from pkray.service.pool.work import Work
from pkray.service.progress import CallProgress
from pkray.service.ray.actors import actor_names, actor_of, found_actor, living_nodes, named_actor
from pkray.service.ray.deaths import DeathWatch, end_of, this_process
from pkray.service.ray.handle import PlacedHandle, RayHandle
from pkray.service.ray.remembered_works import RememberedWorks
from pkray.service.served import Served
from pkray.service.timing.pulse import Pulse
from pkray.service.versions import Spoken, check_understood, spoken
from pkray.storage.location import TableLocation
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory
from pkray.storage.secrets import reveal

_log = logging.getLogger(__name__)

_KEEP_UP_SECONDS = 2.0
"""How often the keeper looks for workers that are dead for good, and for new nodes."""
_WATCH_SECONDS = 0.1
"""How often it looks whether a worker has died."""
_MOVES_AT_A_TIME = 8
"""Parts that are moved to even loads out: each has to be opened anew by its next call."""
_UNEVEN_SECONDS = 10.0
"""How long loads are uneven before parts are moved: workers that begin anew come one by one."""
_IDLE_WITHIN_SECONDS = 20.0
"""After which a worker hands over what is never idle, too."""
_EMPTY_SECONDS = 30.0
"""After which a pool without tables ends, if nobody holds it."""
_OVERTAKEN_SECONDS = 5.0
"""How long a call waits for one that its caller made before it, and that may be lost."""
_COMPACTIONS = 2
"""At a time in one worker: one that waits for its storage holds up no other."""
_DERIVATIONS = 50_000
"""Rounds of a hash in the name of a pool: names are public, and a short secret could be guessed."""
_DROP_SECONDS = 30.0
_LEAST_MEMORY = 64 << 20
"""In which a worker can work at all."""


def pool_name(location: TableLocation) -> str:
    """Name the pool of the table's warehouse and of the keys that open it."""
    return pool_of(location.warehouse, location.storage_options)


def pool_of(warehouse: str, storage_options: Mapping[str, Any]) -> str:
    """Name the pool of a warehouse and of the keys that open it."""
    return _named(warehouse.rstrip("/"), repr(sorted(reveal(storage_options).items())))


@lru_cache(maxsize=64)
def _named(warehouse: str, keys: str) -> str:
    digest = hashlib.pbkdf2_hmac("sha256", keys.encode(), warehouse.encode(), _DERIVATIONS, 8)
    return f"pkray-pool-{digest.hex()}"


@lru_cache(maxsize=64)
def _doubts_of(name: str) -> Counter[int]:
    """Give what all clients of a pool in this process know: see `ReachedPool.doubts`."""
    return Counter()


@dataclass(frozen=True)
class PoolSettings:
    """Sets up a pool for whoever starts it.

    Args:
        name: what the names of its actors begin with.
        workers: processes; None: one a processor of the cluster, on the processor's node.
        worker_cpus: processors Ray reserves for each.
        worker_memory: bytes of rows that a worker holds; None: its share of half of its node's.
        local_directory: the nodes' folder for spooled rows and lookup caches.
        limits: of calls to the pool.
    """

    name: str
    workers: int | None
    worker_cpus: float
    worker_memory: int | None
    local_directory: str | None
    limits: CallLimits

    def worker_name(self, number: int | str) -> str:
        return f"{self.name}-worker-{number}"


class Pool:
    """A pool as its clients, and its own workers, see it."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.doubts = _doubts_of(settings.name)

        def find() -> Any:
            return named_actor(KeeperActor, f"{settings.name}-keeper").remote(settings)

        name = "the keeper of the pool of workers"
        self.keeper = KeeperClient(RayHandle(find(), name, settings.limits, find=find))

    @staticmethod
    def is_running(name: str) -> bool:
        """Whether the pool of this name has a keeper."""
        return found_actor(f"{name}-keeper") is not None

    def worker(self, number: int) -> Any:
        """Find a worker's actor.

        Raises:
            ServiceUnavailableError: it is being started anew.
        """
        found = found_actor(self.settings.worker_name(number))
        if found is None:
            raise ServiceUnavailableError(
                f"worker {number} of the pool is being started anew: try again"
            )
        return found

    def release(self, fingerprint: str) -> None:
        """Have the workers drop a table's parts."""
        self._drop(self.keeper.release(fingerprint))

    def release_all(self) -> None:
        """Have the workers drop all parts, after the calls that they are in."""
        self._drop(self.keeper.released())

    def _drop(self, parts: Mapping[Part, Assignment]) -> None:
        for part, given in parts.items():
            with suppress(Exception):  # a worker that does not answer is told by the keeper
                dropping = self.worker(given.worker).drop.remote(part, given.number)
                ray.get(dropping, timeout=_DROP_SECONDS)
                self.keeper.dropped(part, given.number)


class _Keeper:
    """Starts the workers, and assigns parts to them."""

    def __init__(self, pool: PoolSettings) -> None:
        self.progress = CallProgress()
        self._pool = pool
        self._used = time.monotonic()
        self._workers: dict[int, Any] = {}
        self._slots = Slots(self._existing())
        self._drained_key = f"{pool.name}-drained".encode()
        self._handing: dict[Any, int] = {}
        self._misplaced: dict[tuple[Part, Assignment], float] = {}
        self._remembered = RememberedWorks(pool.name)
        self.served = Assignments(1, awake_and_asleep, now_millis() * 1000)
        for work in self._remembered.all():
            self.served.open(work)
        self.served.drain(self._drained())
        self._fit()
        self._pulse = Pulse(self._keep_up, _KEEP_UP_SECONDS, "pkray-keeper")
        self._pulse.start()
        self._deaths = DeathWatch(self.served, lambda: dict(self._workers))
        self._watching = Pulse(self._deaths.look, _WATCH_SECONDS, "pkray-watch")
        self._watching.start()

    def open(self, table: HostedThing) -> HostedThing:
        """Host work, or a table of this pool's warehouse and keys."""
        if isinstance(table, HostedTable) and pool_name(table.location) != self._pool.name:
            raise OptionError(
                f"table {table.location.name} is of another warehouse, or opened with other keys, "
                "than this pool of workers: it has its own",
                value=table.location.name,
            )
        if isinstance(table, HostedWork) and not self.served.has(table.key):
            self._remembered.keep(table)
        return self.served.open(table)

    def release(self, table: str) -> dict[Part, Assignment]:
        self._remembered.forget(table)
        return self.served.release(table)

    def released(self) -> dict[Part, Assignment]:
        self._remembered.forget_all()
        return self.served.released()

    def locate(self, table: HostedThing, index: int) -> Assignment:
        if isinstance(table, HostedTable):
            self.open(table)
        return self.served.locate(table, index)

    def hold(self) -> None:
        self._used = time.monotonic()

    def _fit(self) -> None:
        """Start the workers that are to be there and are not."""
        if self._pool.workers is None:
            living = living_nodes()
            processors = {each["NodeID"]: int(each["Resources"].get("CPU", 0)) for each in living}
            known = {number: each.node for number, each in self.served.watched().items()}
            self._slots.fit(processors, known)
        if not self._slots.nodes:  # no node has a processor
            self._slots = Slots([0])
        for number, node in self._slots.nodes.items():
            at = NodeAffinitySchedulingStrategy(node, soft=True) if node else "SPREAD"
            options = named_actor(
                WorkerActor,
                self._pool.worker_name(number),
                num_cpus=self._pool.worker_cpus,
                scheduling_strategy=at,
            )
            self._workers[number] = options.remote(self._pool, number)
        self.served.workers = len(self._workers)

    def _existing(self) -> list[int]:
        """Number the workers that there are to be in any case, or that a keeper before started."""
        if self._pool.workers is not None:
            return list(range(self._pool.workers))
        prefix = self._pool.worker_name("")
        return [int(name.removeprefix(prefix)) for name in actor_names(prefix)]

    def _take_away(self) -> None:
        """Empty workers that are not needed, as their nodes are lost; end those that are empty."""
        if self._pool.workers is not None:
            return
        living = self.served.watched()
        parts = {each.number: each.parts for each in self.served.overview().workers}
        for number in self._slots.surplus(living):
            if not self.served.retire(number, living[number].token) and not parts[number]:
                _log.info("worker %d is ended: its node is lost, and others have its parts", number)
                ray.kill(self._workers.pop(number))
                self._slots.remove(number)

    def _keep_up(self) -> bool:
        now = time.monotonic()
        if len(self.served):
            self._used = now
        if now - self._used > _EMPTY_SECONDS and self.served.close():
            for worker in self._workers.values():
                ray.kill(worker)
            ray.kill(ray.get_runtime_context().current_actor)
        self._fit()
        self._even_out()
        self._take_away()
        for number in self.served.silent(self._pool.limits.call_seconds):
            _log.warning("worker %d is replaced: it shows no sign of life", number)
            with suppress(RayError, KeyError):
                ray.kill(self._workers[number], no_restart=False)
        return True

    def drain_node(self, node: str, drained: bool) -> None:
        """Have the workers of a node get no parts, and lose those that they have; or no longer.

        It is kept beside the cluster's nodes, whose ids are as short-lived, for the next keeper.
        """
        nodes = self._drained() - {node} | ({node} if drained else set())
        put: Any = kv._internal_kv_put  # it has no types
        put(self._drained_key, ",".join(sorted(nodes)).encode(), overwrite=True)
        self.served.drain(nodes)

    def _drained(self) -> set[str]:
        get: Any = kv._internal_kv_get  # it has no types
        return set(filter(None, (get(self._drained_key) or b"").decode().split(",")))

    def _even_out(self) -> None:
        """Have workers hand over what others are to have, as soon as it is idle; after some time
        also what is never idle."""
        now = time.monotonic()
        ended, _ = ray.wait([*self._handing], timeout=0) if self._handing else ([], None)
        for call in ended:
            self._handing.pop(call)
        misplaced = self.served.misplaced(_MOVES_AT_A_TIME)
        self._misplaced = {each: self._misplaced.get(each, now) for each in misplaced.items()}
        asked: dict[tuple[int, bool], dict[Part, int]] = {}
        for (part, given), since in self._misplaced.items():
            is_emptied = self.served.is_emptied(given.worker)
            waits = 0.0 if is_emptied else _UNEVEN_SECONDS
            is_due = now - since >= waits
            is_late = now - since > waits + _IDLE_WITHIN_SECONDS
            if is_due and given.worker not in self._handing.values():
                asked.setdefault((given.worker, is_late), {})[part] = given.number
        for (worker, is_late), parts in asked.items():
            with suppress(RayError, KeyError):
                self.served.ask_for(parts)
                call = self._workers[worker].hand_over.remote(parts, is_late)
                self._handing[call] = worker


class _Answering(Job[Any]):
    """A call whose answer a loop waits for."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[..., Any], *args: Any):
        super().__init__(work, args)
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()

    def end(self) -> None:
        super().end()
        self._loop.call_soon_threadsafe(self._settle)

    async def awaited(self) -> Any:
        return await self._future

    def _settle(self) -> None:
        try:
            self._future.set_result(self.answer())
        except Exception as error:
            self._future.set_exception(error)


@dataclass
class _PartCalls:
    """The calls of one part: a lane a concurrency group, in their callers' order."""

    under_way: int = 0
    lanes: dict[str, Lane] = field(default_factory=dict)
    ordered: InOrder[tuple[Method[..., Any], Job[Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.ordered = InOrder(lambda call: self.begin(*call))

    def begin(self, method: Method[..., Any], job: Job[Any]) -> None:
        """Begin a call, after those that its group's threads are at."""
        group = method.group
        lane = self.lanes.setdefault(group.name, Lane(group.threads))
        lane.add(job)


class _Worker:
    """Hosts parts of many tables; each has lanes of its own, as an actor has threads."""

    def __init__(self, pool: PoolSettings, number: int) -> None:
        # It warns of calls that wait, as those of this actor's threads may.
        os.environ.setdefault("RAY_WARN_BLOCKING_GET_INSIDE_ASYNC", "0")
        # It prints each error of a call whose answer nobody waits for any more, as after a loss.
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        base = pool.local_directory or default_local_directory()
        # One folder of all pools, so that whoever starts removes what any killed worker left.
        self._local = OwnedDirectory(f"{base}/owners")
        process = this_process(uuid.uuid4().hex)
        self._pool = Pool(pool)
        self._threads = ThreadPoolExecutor(_COMPACTIONS, "pkray-compaction")
        self._host = PartHost(number, process, self._pool.keeper, self._make, lambda: os._exit(1))
        limit = pool.worker_memory or _memory_of_node()
        self._memory = WorkerMemory(limit, self._host.owners, work=self._host.work)
        self._calls: dict[Part, _PartCalls] = {}
        Job(self._host.beat).start()
        self._host.start()

    @ray.method(concurrency_group="calls")
    async def call(self, caller: Spoken, *asked: Any, **kwargs: Any) -> Any:
        """Call a method of a part: as `call_within`, of a caller that says nothing of its work."""
        return await self.call_within(None, caller, *asked, **kwargs)

    @ray.method(concurrency_group="calls")
    async def call_within(
        self,
        envelope: str | None,
        caller: Spoken,
        part: Part,
        number: int,
        ticket: Ticket | None,
        method: Method[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call a method of a part, of a caller that is understood: see `PartHost.call`.

        Args:
            envelope: of what the caller is at work on: see `spans.resumed`.
        """
        check_understood(caller, spoken)
        loop = asyncio.get_running_loop()
        if ticket is not None and not self._host.has(part, number):
            # The calls before this one may have gone to another process: none waits for them.
            await self._job(self._host.find, part, number)
        job = _Answering(loop, self._run, envelope, part, number, method, args, kwargs)
        calls = self._calls.setdefault(part, _PartCalls())
        calls.under_way += 1
        try:
            if ticket is None:
                calls.begin(method, job)
            elif calls.ordered.arrive(ticket, (method, job)):
                loop.call_later(_OVERTAKEN_SECONDS, calls.ordered.skip, ticket.caller)
            return await job.awaited()
        finally:
            calls.under_way -= 1
            if not calls.under_way and not self._host.has(part):
                self._calls.pop(part, None)

    @ray.method(concurrency_group="watch")
    async def sign_of_life(self, part: Part, group: str) -> tuple[str, object]:
        node: Any = ray.util.get_node_ip_address  # it has no types
        return node(), (os.getpid(), self._host.sign(part, group) or ())

    @ray.method(concurrency_group="watch")
    async def live(self) -> None:
        """Answer never: whoever asks learns of it when this process dies."""
        await asyncio.Event().wait()

    @ray.method(concurrency_group="watch")
    async def end_of(self, process: WorkerProcess) -> bool:
        """Wait until another process of this node is gone: see `deaths.end_of`."""
        return await end_of(process)

    @ray.method(concurrency_group="watch")
    async def hand_over(self, parts: Mapping[Part, int], at_once: bool) -> list[Part]:
        """Let other workers have parts: see `PartHost.hand_over`."""
        answer: list[Part] = await self._job(self._host.hand_over, parts, at_once)
        return answer

    @ray.method(concurrency_group="watch")
    async def drop(self, part: Part, number: int) -> None:
        """Close a part, and return when it is."""
        await self._job(self._host.drop, part, number)

    @ray.method(concurrency_group="watch")
    async def renew(self) -> None:
        """Renew the lease now, as there is work for this worker."""
        with suppress(ServiceUnavailableError):  # it is done again in a second
            await self._job(self._host.beat)

    @staticmethod
    async def _job(work: Callable[..., Any], *args: Any) -> Any:
        """Do what waits for others on a thread."""
        job = _Answering(asyncio.get_running_loop(), work, *args)
        job.start()
        return await job.awaited()

    def _run(
        self,
        envelope: str | None,
        part: Part,
        number: int,
        method: Method[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        with spans.resumed(envelope):
            if method is not OwnerClient.lookup:
                return self._host.call(part, number, method, args, kwargs)
            asked = (decode_request(args[0]),)
            return encode_answer(*self._host.call(part, number, method, asked))

    def _make(self, held: HostedPart) -> Target:
        table, index = held.table, held.part.index
        if isinstance(table, HostedWork):
            make, arguments = cloudpickle.loads(table.payload)
            work = Work(make, *arguments)
            work.divide(lambda wanted: self._memory.for_work(wanted, held.number))
            return work
        Served(table.location, dedicated=False).check()
        if index == COORDINATOR:
            return self._coordinator(held, table)
        return self._owner(held, table, index)

    def _owner(self, held: HostedPart, table: HostedTable, index: int) -> BucketOwner:
        settings = OwnerSettings(
            index,
            table.owners,
            f"{self._local.path}/{held.part.table}-{index}-{held.number}",
            refresh_millis=1000,
            lease_millis=table.lease_millis,
        )
        others = [OwnerClient(handle) for handle in self._handles(table)]
        itself: list[OwnerClient] = []

        def peers() -> list[OwnerClient]:
            """All owners of the table; this one without a call."""
            if not itself:
                handle = LocalHandle(held.target, table.label(index), table.limits)
                itself.append(OwnerClient(handle))
            return [*others[:index], itself[0], *others[index + 1 :]]

        threads = SharedExecutor(self._threads)
        memory = self._memory.share(held.number)
        return BucketOwner(table.location, settings, now_millis, threads, peers, memory)

    def _handles(self, table: HostedTable) -> list[PlacedHandle]:
        return [PlacedHandle(self._pool, table, index) for index in range(table.owners)]

    def _coordinator(self, held: HostedPart, table: HostedTable) -> Coordinator:
        handles = self._handles(table)

        def numbers() -> dict[Part, int]:
            return {table.part(index): handle.number for index, handle in enumerate(handles)}

        owners = [OwnerClient(handle) for handle in handles]
        tenure = self._host.tenure(held, numbers)
        made = Coordinator.of_table(table.location, owners, tenure)
        made.watch()  # the one before may have left compactions uncommitted
        return made


def _memory_of_node() -> int:
    """A worker's share of half of what Ray takes the node's memory for."""
    nodes: Any = ray.nodes  # it has no types
    itself = ray.get_runtime_context().get_node_id()
    here: Any = [each["Resources"] for each in nodes() if each["NodeID"] == itself]
    resources = here[0] if here else {}
    share = float(resources.get("memory", 0)) / 2 / max(1.0, float(resources.get("CPU", 1)))
    return max(_LEAST_MEMORY, int(share))


def _worker_actor() -> Any:
    remote: Any = ray.remote
    groups = {"calls": 10_000, "watch": 64}
    return remote(max_restarts=-1, max_task_retries=0, concurrency_groups=groups)(_Worker)


KeeperActor = actor_of(_Keeper, KeeperClient)
WorkerActor = _worker_actor()
