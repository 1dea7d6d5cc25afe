"""The service on Ray: tables in a pool of workers, or with named, detached actors of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

import ray
from ray.exceptions import GetTimeoutError

from pkray.arguments.facade import checked_class
from pkray.arguments.whole_number import checked_number
from pkray.errors import ServiceUnavailableError
from pkray.schema.table_schema import TableSchema
from pkray.service import runtime
from pkray.service.administration import Tables
from pkray.service.assignment.staged_pushes import StagingPusher
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.dynamic_client import dynamic_client
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.pusher import Pusher, PushTarget, pushing
from pkray.service.client.table_service import TableService
from pkray.service.hosted import NOTHING, Caller, Hosted, Hosting, Reserved
from pkray.service.leases import beat_seconds
from pkray.service.owner_settings import LEASE_MILLIS
from pkray.service.pool.parts import COORDINATOR, HostedTable
from pkray.service.protocol import KeptBatch, RoutedBatch, SessionId, first_push
from pkray.service.ray.actors import (
    NAMESPACE,
    CoordinatorActor,
    actor_names,
    coordinator_name,
    found_actor,
    named_actor,
    owner_client,
    owner_name,
    service_name,
)
from pkray.service.ray.administration import RayAdministration
from pkray.service.ray.cluster import join, join_known
from pkray.service.ray.handle import PlacedHandle, RayHandle
from pkray.service.ray.hosted import HostActor, RemoteCaller, RemoteHosted, Silence, replace
from pkray.service.ray.pool import Pool, PoolSettings, pool_name, pool_of
from pkray.service.ray.pooled_work import PoolHosting
from pkray.service.ray.workers import Workers
from pkray.service.served import Served, is_dedicated
from pkray.service.versions import check_service
from pkray.storage.location import TableLocation

_FETCH_SECONDS = 60.0
"""How long a batch may take from the disk of this node to its memory."""


class RayRuntime:
    """Finds or starts the actors of tables.

    They outlive this process on a cluster that does; a cluster started here ends with it, unless
    it is to last.

    Args:
        address: the Ray cluster; default the one this process is in, else one that
            ``RAY_ADDRESS`` names, else one that ``ray start`` started on this machine, else one
            that another process of this user and Python environment started here, else a new one;
            ``lasting``: likewise, and a new one outlives this process.
        owners: owners a table, for tables whose service is not running yet; default one a
            bucket, at most one a processor of the cluster.
        owner_cpus: processors Ray reserves for each process of owners. Default 0.
        pool_workers: processes that share the tables of a warehouse, for warehouses whose pool is
            not running yet; default one a processor of the cluster.
        worker_memory: that rows may take in each of these processes, over all tables, as ``2 gb``;
            default its share of half of the node's memory.
        local_directory: the nodes' folder for spooled rows and lookup caches.
        writer_lease: seconds for which `latest` lookups see rows of a writer whose process is
            gone, for tables whose service is not running yet. Default 30.
        call_timeout: seconds that a call may take without progress; then whoever does not answer
            is replaced. Default 60.
        lookup_timeout: seconds that a lookup may take without progress. Default 10.

    Raises:
        OptionError: an argument that is none of these.
        ServiceUnavailableError: no cluster answers at the address.
    """

    def __init__(
        self,
        address: str | None = None,
        owners: int | None = None,
        owner_cpus: float = 0,
        pool_workers: int | None = None,
        worker_memory: str | int | None = None,
        local_directory: str | os.PathLike[str] | None = None,
        writer_lease: float = LEASE_MILLIS / 1000,
        call_timeout: float = DEFAULT_LIMITS.call_seconds,
        lookup_timeout: float = DEFAULT_LIMITS.lookup_seconds,
    ) -> None:
        self._limits = CallLimits.checked(call_timeout, lookup_timeout)
        self._silences: dict[str, Silence] = {}
        self._owners = runtime.checked_owners(owners)
        self._owner_cpus = checked_number("owner_cpus", owner_cpus, 0, "processors")
        self._workers = runtime.checked_owners(pool_workers, "pool_workers")
        self._worker_memory = runtime.checked_memory(worker_memory)
        self._pools: dict[str, Pool] = {}
        self._local = runtime.checked_directory(local_directory)
        self._lease_millis = runtime.checked_lease(writer_lease)
        self._started = not ray.is_initialized()
        if self._started:
            join(address)
        self._services: dict[str, TableService] = {}
        self._dedicated: dict[str, bool] = {}

    def service(self, location: TableLocation, schema: TableSchema) -> TableService:
        """Find the table's service: in the pool, or dedicated to it."""
        found = self._services.get(location.fingerprint)
        if found is not None and self._is_kind(location, schema.core.service_dedicated):
            return found
        dedicated = is_dedicated(location)  # the table may have been loaded before it changed
        if found is None or not self._is_kind(location, dedicated):
            self._leave(location)
            start = self._start if dedicated else self._find
            self._services[location.fingerprint] = start(location, schema)
            self._dedicated[location.fingerprint] = dedicated
        return self._services[location.fingerprint]

    def _is_kind(self, location: TableLocation, dedicated: bool) -> bool:
        return self._dedicated.get(location.fingerprint) == dedicated

    def _leave(self, location: TableLocation) -> None:
        service = self._services.pop(location.fingerprint, None)
        if service is not None:
            service.writers.stop()

    def stop(self, location: TableLocation) -> None:
        """Stop the table's service."""
        self._leave(location)
        self._end_dedicated(location)
        self._release(location)

    def _end_dedicated(self, location: TableLocation) -> None:
        # the coordinator first: it starts owners
        for name in sorted(actor_names(service_name(location))):
            actor = found_actor(name)
            if actor is None:
                continue
            if "owner" in name:
                with contextlib.suppress(ServiceUnavailableError):
                    OwnerClient(RayHandle(actor, name, self._limits, patience_seconds=0)).close()
            ray.kill(actor)

    def _release(self, location: TableLocation) -> None:
        """Have a pool drop the table's parts, if there is one."""
        if Pool.is_running(name := pool_name(location)):
            self._pool(name).release(location.fingerprint)

    def spread(
        self, work: Callable[[Any], Any], arguments: Sequence[Any], parallelism: int | None
    ) -> Iterator[tuple[int, Any]]:
        """Run work as tasks of the cluster: see `Runtime.spread`."""
        count = min(parallelism or self.processors, len(arguments))
        workers = Workers(work, count, self._limits)
        try:
            yield from workers.run(arguments)
        finally:
            workers.close()

    @property
    def processors(self) -> int:
        """Count the processors of the cluster."""
        resources: Any = ray.cluster_resources  # it has no types
        return max(1, int(resources().get("CPU", 1)))

    @property
    def options(self) -> dict[str, Any]:
        """With what a process of the cluster opens a runtime like this one."""
        return {
            "owners": self._owners,
            "owner_cpus": self._owner_cpus,
            "pool_workers": self._workers,
            "worker_memory": self._worker_memory,
            "local_directory": self._local,
            "writer_lease": self._lease_millis / 1000,
            "call_timeout": self._limits.call_seconds,
            "lookup_timeout": self._limits.lookup_seconds,
        }

    @property
    def silent_seconds(self) -> float:
        """For how long a process may be silent before it is replaced: ``call_timeout``."""
        return self._limits.call_seconds

    def _silence(self, name: str) -> Silence:
        return self._silences.setdefault(name, Silence(self.silent_seconds))

    def host(
        self, name: str, make: Callable[..., Any], *arguments: Any, reserved: Reserved = NOTHING
    ) -> Hosted:
        """Find the actor that hosts work of this name, or start it: see `Hosting`."""
        options = named_actor(HostActor, name, reserved.cpus, memory=reserved.memory or None)
        return RemoteHosted(options.remote(make, *arguments), name, self._silence(name))

    def pooled(self, warehouse: str, storage_options: Mapping[str, Any]) -> Hosting:
        """Give what hosts work in the pool of a warehouse: see `Hosting`."""
        name = pool_of(warehouse, storage_options)
        return PoolHosting(self, name, lambda: self._pool(name), self._limits)

    def caller(self, name: str) -> Caller:
        """Call methods of the work of this name: see `Hosting`."""
        actor = found_actor(name)
        if actor is None:
            raise ServiceUnavailableError(f"{name} is not there: it was stopped")
        return RemoteCaller(actor, name)

    def hosted(self, name: str) -> Hosted | None:
        """Find the actor that hosts work of this name."""
        actor = found_actor(name)
        return None if actor is None else RemoteHosted(actor, name, self._silence(name))

    def replace(self, name: str) -> None:
        """Have Ray kill the actor that hosts work of this name, and start it anew."""
        replace(name)

    def end(self, name: str) -> None:
        """Kill the actor that hosts work of this name, and those whose names go on with a slash."""
        self._silences.pop(name, None)
        for each in sorted(actor_names(name)):  # itself first: it would begin the others anew
            if each == name or each.startswith(f"{name}/"):
                with contextlib.suppress(ValueError):
                    ray.kill(ray.get_actor(each, NAMESPACE), no_restart=True)

    def administration(
        self, warehouse: str, storage_options: Mapping[str, Any], tables: Tables
    ) -> RayAdministration:
        """Give the service of a warehouse: see `Administered`."""
        name = pool_of(warehouse, storage_options)

        def named() -> dict[str, str]:
            return {service_name(each): each.name for each in tables()}

        return RayAdministration(name, lambda: self._pool(name), named)

    def close(self) -> None:
        """Leave the cluster."""
        if self._started and ray.is_initialized():
            for service in self._services.values():
                service.writers.stop()
            ray.shutdown()
        self._services.clear()
        self._pools.clear()

    def _start(self, location: TableLocation, schema: TableSchema) -> TableService:
        limits, look = self._limits, Served(location, dedicated=True).check
        look()
        self._release(location)
        wanted = _living_owners(location) or self._owners
        wanted = wanted or runtime.default_owners(schema, self.processors)
        count: int | None = None

        def find() -> Any:
            return named_actor(CoordinatorActor, coordinator_name(location)).remote(
                location, count or wanted, self._owner_cpus, self._local, self._lease_millis, limits
            )

        name = f"the coordinator of table {location.name}"
        coordinator = CoordinatorClient(RayHandle(find(), name, limits, look, find))
        check_service(coordinator.greet)
        count = coordinator.owner_count()

        def start() -> None:
            coordinator.start_owners.once()

        owners = [owner_client(location, index, limits, look, start) for index in range(count)]
        return self._reached(
            location, coordinator, owners, DedicatedOwners(location, count, limits)
        )

    def _find(self, location: TableLocation, schema: TableSchema) -> TableService:
        """Find the table's service in the pool of its warehouse."""
        look = Served(location, dedicated=False).check
        look()
        self._end_dedicated(location)
        pool = self._pool(pool_name(location))
        wanted = self._owners or runtime.default_owners(schema, self.processors)
        wanted_as = HostedTable(location, wanted, self._lease_millis, self._limits)
        table = cast(HostedTable, pool.keeper.open(wanted_as))
        handle = PlacedHandle(pool, table, COORDINATOR, look, self._limits)
        placed = PooledOwners(pool.settings, table)
        return self._reached(location, CoordinatorClient(handle), placed.clients(look), placed)

    def _pool(self, name: str) -> Pool:
        if name not in self._pools:
            how = (self._workers, self._owner_cpus, self._worker_memory, self._local)
            pool = Pool(PoolSettings(name, *how, self._limits))
            check_service(pool.keeper.greet)
            self._pools[name] = pool
        return self._pools[name]

    def _reached(
        self,
        location: TableLocation,
        coordinator: CoordinatorClient,
        owners: Sequence[OwnerClient],
        placed: DedicatedOwners | PooledOwners,
    ) -> TableService:
        address = ray.get_runtime_context().gcs_address

        def push_target(session: SessionId, schema: TableSchema) -> PushTarget:
            return RayTarget(address, location, schema, placed, session)

        writers = _writers_of(address, location, self._lease_millis)
        return TableService(
            coordinator, owners, push_target, _retain, _load, writers, location.name
        )


@dataclass(frozen=True)
class DedicatedOwners:
    """The owners of a table that has processes of its own, for any process of the cluster."""

    location: TableLocation
    count: int
    limits: CallLimits

    def clients(self, look: Callable[[], None]) -> list[OwnerClient]:
        """Make clients of all owners; ``look`` as of `RayHandle`."""
        return [owner_client(self.location, i, self.limits, look) for i in range(self.count)]


@dataclass(frozen=True)
class PooledOwners:
    """The owners of a table in a pool, for any process of the cluster."""

    settings: PoolSettings
    table: HostedTable

    @property
    def count(self) -> int:
        return self.table.owners

    def clients(self, look: Callable[[], None]) -> list[OwnerClient]:
        """Make clients of all owners; ``look`` as of `RayHandle`."""
        pool, table, limits = Pool(self.settings), self.table, self.settings.limits
        return [
            OwnerClient(PlacedHandle(pool, table, index, look, limits))
            for index in range(self.count)
        ]


@checked_class
@dataclass(frozen=True)
class RayTarget:
    """Tasks push straight to the owners' actors."""

    address: str
    location: TableLocation
    schema: TableSchema
    owners: DedicatedOwners | PooledOwners
    session: SessionId

    @property
    def stages_rows(self) -> bool:
        return self.schema.crosses_partitions

    def open(self, source: int, attempt: int) -> Pusher:
        """Open a pusher for an attempt of a task: see `PushTarget`."""
        if not ray.is_initialized():
            os.environ.setdefault("RAY_LOG_TO_DRIVER", "0")
            join_known(self.address)
        dedicated = isinstance(self.owners, DedicatedOwners)
        look = Served(self.location, dedicated=dedicated).check
        owners = self.owners.clients(look)
        first = first_push(self.schema, self.session, source, attempt)
        if self.stages_rows:
            return StagingPusher(self.schema, owners, first)
        assigner = dynamic_client(self.schema, owners)
        return Pusher(self.schema, len(owners), pushing(owners), first, assigner)


def _living_owners(location: TableLocation) -> int:
    """Count the owners that a table has, by the names of those that live; 0 without any.

    A coordinator that is started with them must spread rows as they do.
    """
    first = owner_name(location, 0).removesuffix("0")
    names = actor_names(first)
    return max((int(name.removeprefix(first)) + 1 for name in names), default=0)


_writers: WeakValueDictionary[tuple[str, str], OpenWriters] = WeakValueDictionary()


def _writers_of(cluster: str, location: TableLocation, lease_millis: int) -> OpenWriters:
    """Find the open writers of a table in this process, whichever catalog opened them."""
    found = OpenWriters(beat_seconds(lease_millis))
    return _writers.setdefault((cluster, location.fingerprint), found)


def _retain(batch: RoutedBatch) -> KeptBatch:
    return KeptBatch(ray.put(batch))


def _load(kept: KeptBatch) -> RoutedBatch:
    get: Any = ray.get  # it takes its own references alone
    try:
        batch: RoutedBatch = get(kept, timeout=_FETCH_SECONDS)
    except GetTimeoutError as error:
        raise ServiceUnavailableError(
            "rows that are to be pushed again do not come out of Ray's object store: it is full, "
            "or its process is stopped; try again"
        ) from error
    return batch
