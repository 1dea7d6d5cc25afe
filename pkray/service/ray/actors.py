"""The actors: thin shells around an owner and a coordinator."""

from __future__ import annotations

from typing import Any

import ray

from pkray.service.alarm import Alarm
from pkray.service.commit_queue import CommitQueue
from pkray.service.committers import Committers
from pkray.service.coordinator import Coordinator
from pkray.service.handle import Handle, LocalHandle
from pkray.service.local import now_millis
from pkray.service.lookup_wire import decode_request, encode_answer
from pkray.service.owner import BucketOwner
from pkray.service.owner_settings import LEASE_MILLIS, OwnerSettings
from pkray.service.ray.handle import RayHandle
from pkray.service.upkeep import Upkeep
from pkray.storage.location import TableLocation
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory

NAMESPACE = "pkray"


def owner_name(location: TableLocation, index: int) -> str:
    return f"{service_name(location)}owner-{index}"


def coordinator_name(location: TableLocation) -> str:
    return f"{service_name(location)}coordinator"


def service_name(location: TableLocation) -> str:
    """What the names of all actors of a table begin with."""
    return f"pkray-{location.fingerprint}-"


class _Owner:
    """Writes run one after another; beside them lookups, and a commit that is prepared."""

    def __init__(
        self,
        location: TableLocation,
        index: int,
        owners: int,
        local: str | None,
        lease_millis: int = LEASE_MILLIS,
    ) -> None:
        base = local or default_local_directory()
        # One folder of all tables, so that whoever starts removes what any killed owner left.
        self._local = OwnedDirectory(f"{base}/owners")
        settings = OwnerSettings(
            index,
            owners,
            str(self._local.path),
            refresh_millis=1000,
            lease_millis=lease_millis,
        )
        self._location, self._index, self._owners = location, index, owners
        self._owner = BucketOwner(location, settings, now_millis, peers=self._peers)
        self._itself = LocalHandle(self._owner, "pkray-owner")

    @ray.method(concurrency_group="read")
    def ping(self) -> None:
        self._owner.ping()

    @ray.method(concurrency_group="hear")
    def heartbeat(self, *args: Any) -> Any:
        return self._owner.heartbeat(*args)

    @ray.method(concurrency_group="write")
    def push(self, *args: Any) -> None:
        self._owner.push(*args)

    @ray.method(concurrency_group="write")
    def take_over(self, *args: Any) -> None:
        self._owner.take_over(*args)

    @ray.method(concurrency_group="prepare")
    def prepare(self, *args: Any) -> Any:
        return self._owner.prepare(*args)

    @ray.method(concurrency_group="write")
    def acknowledge(self, *args: Any) -> Any:
        return self._owner.acknowledge(*args)

    @ray.method(concurrency_group="write")
    def give_up(self, *args: Any) -> None:
        self._owner.give_up(*args)

    @ray.method(concurrency_group="assign")
    def newest_generation(self, *args: Any) -> Any:
        return self._owner.newest_generation(*args)

    @ray.method(concurrency_group="compact")
    def compact(self, *args: Any) -> Any:
        return self._owner.compact(*args)

    @ray.method(concurrency_group="compact")
    def compactions(self, *args: Any) -> Any:
        return self._owner.compactions(*args)

    @ray.method(concurrency_group="write")
    def abort(self, *args: Any) -> None:
        self._owner.abort(*args)

    @ray.method(concurrency_group="assign")
    def assign(self, *args: Any) -> Any:
        return self._owner.assign(*args)

    @ray.method(concurrency_group="assign")
    def locate(self, *args: Any) -> Any:
        return self._owner.locate(*args)

    @ray.method(concurrency_group="assign")
    def place(self, *args: Any) -> Any:
        return self._owner.place(*args)

    @ray.method(concurrency_group="assign")
    def locate_keys(self, *args: Any) -> Any:
        return self._owner.locate_keys(*args)

    @ray.method(concurrency_group="write")
    def stage(self, *args: Any) -> None:
        self._owner.stage(*args)

    @ray.method(concurrency_group="assign")
    def place_staged(self, *args: Any) -> Any:
        return self._owner.place_staged(*args)

    @ray.method(concurrency_group="read")
    def lookup(self, request: bytes) -> bytes:
        return encode_answer(*self._owner.lookup(decode_request(request)))

    @ray.method(concurrency_group="read")
    def stats(self) -> Any:
        return self._owner.stats()

    @ray.method(concurrency_group="write")
    def close(self) -> None:
        self._owner.close()
        self._itself.close()
        self._local.close()

    def _peers(self) -> list[Handle]:
        """All owners of the table; this one without a call."""
        return [
            self._itself
            if index == self._index
            else RayHandle(ray.get_actor(owner_name(self._location, index), NAMESPACE), "owner")
            for index in range(self._owners)
        ]


class _Coordinator:
    """Starts the owners, finds them again after a restart, and commits."""

    def __init__(
        self,
        location: TableLocation,
        owners: int,
        owner_cpus: float,
        local: str | None,
        lease_millis: int = LEASE_MILLIS,
    ) -> None:
        self._location = location
        self._owners = [
            OwnerActor.options(
                name=owner_name(location, index),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=owner_cpus,
            ).remote(location, index, owners, local, lease_millis)
            for index in range(owners)
        ]
        self._coordinator = Coordinator(
            [RayHandle(owner, "owner") for owner in self._owners],
            Committers(location, now_millis),
            now_millis,
            alarm=Alarm(),
            upkeep=Upkeep.at(location, now_millis),
            queue=CommitQueue.of_table(location.fingerprint),
        )
        self._coordinator.watch()  # the one before may have left compactions uncommitted

    @ray.method(concurrency_group="ask")
    def ping(self) -> None:
        self._coordinator.ping()

    @ray.method(concurrency_group="ask")
    def stats(self) -> Any:
        return self._coordinator.stats()

    @ray.method(concurrency_group="ask")
    def owner_count(self) -> int:
        return len(self._owners)

    @ray.method(concurrency_group="ask")
    def begin(self, *args: Any) -> Any:
        return self._coordinator.begin(*args)

    @ray.method(concurrency_group="ask")
    def last_identifier(self, user: str) -> Any:
        return self._coordinator.last_identifier(user)

    @ray.method(concurrency_group="ask")
    def committed(self, user: str, identifier: int) -> Any:
        return self._coordinator.committed(user, identifier)

    @ray.method(concurrency_group="commit")
    def commit(self, request: Any) -> Any:
        return self._coordinator.commit(request)

    @ray.method(concurrency_group="commit")
    def overwrite(self, *args: Any) -> Any:
        return self._coordinator.overwrite(*args)

    @ray.method(concurrency_group="compact")
    def compact(self, chosen: Any) -> Any:
        return self._coordinator.compact(chosen)

    @ray.method(concurrency_group="commit")
    def abort(self, session: Any) -> None:
        self._coordinator.abort(session)


def _actor(kind: type, concurrency: dict[str, int]) -> Any:
    """Restarted by Ray for ever; a call is never made twice by Ray."""
    remote: Any = ray.remote
    return remote(max_restarts=-1, max_task_retries=0, concurrency_groups=concurrency)(kind)


OwnerActor = _actor(
    _Owner, {"write": 1, "prepare": 1, "read": 4, "assign": 2, "compact": 2, "hear": 1}
)
CoordinatorActor = _actor(_Coordinator, {"commit": 1, "compact": 1, "ask": 4})
