"""The actors: thin shells around an owner and a coordinator."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import ray

from pkray.clock import now_millis
from pkray.service.call_limits import CallLimits
from pkray.service.client.lookup_wire import decode_request, encode_answer
from pkray.service.coordinator.commit_queue import CommitQueue
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.coordinator.maintenance import TableMaintenance
from pkray.service.debounced_timer import DebouncedTimer
from pkray.service.handle import Handle, LocalHandle
from pkray.service.late import Late
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.service.progress import START, CallProgress, in_group
from pkray.service.ray.handle import RayHandle, RayOwnerHandle
from pkray.storage.location import TableLocation
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory

NAMESPACE = "pkray"


def owner_name(location: TableLocation, index: int) -> str:
    return f"{service_name(location)}owner-{index}"


def coordinator_name(location: TableLocation) -> str:
    return f"{service_name(location)}coordinator"


def owner_label(location: TableLocation, index: int) -> str:
    """The owner in messages."""
    return f"owner {index} of table {location.name}"


def owner_handle(
    location: TableLocation,
    index: int,
    limits: CallLimits,
    look: Callable[[], None] = lambda: None,
    start: Callable[[], object] = lambda: None,
) -> RayHandle:
    """The owner's methods, wherever it runs.

    Args:
        look: as of `RayHandle`.
        start: starts owners that are dead for good; by default others do.
    """

    def find() -> Any:
        start()
        return ray.get_actor(owner_name(location, index), NAMESPACE)

    actor = ray.get_actor(owner_name(location, index), NAMESPACE)
    return RayOwnerHandle(actor, owner_label(location, index), limits, look, find)


def service_name(location: TableLocation) -> str:
    """What the names of all actors of a table begin with."""
    return f"pkray-{location.fingerprint}-"


def noted_call(group: str) -> Callable[[Callable[..., Any]], Any]:
    """A method that runs in a concurrency group and is seen to get on."""
    return lambda method: ray.method(concurrency_group=group)(in_group(group, method))


def sign_of_life(actor: Any, method: str) -> tuple[str, object]:
    """The actor's node, and what is another value whenever such a call may have got on."""
    group = getattr(getattr(actor, method, None), "__ray_concurrency_group__", None)
    node: Any = ray.util.get_node_ip_address  # it has no types
    return node(), (os.getpid(), actor.progress.sign(group))


class _Owner:
    """Writes run one after another; beside them lookups, and a commit that is prepared."""

    def __init__(
        self,
        location: TableLocation,
        index: int,
        owners: int,
        local: str | None,
        lease_millis: int,
        limits: CallLimits,
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
        self._limits = limits
        self._itself: LocalHandle | None = None
        self.progress = CallProgress()
        self._made = Late(
            lambda: BucketOwner(location, settings, now_millis, peers=self._peers),
            self.progress.at(START),
        )

    @property
    def _owner(self) -> BucketOwner:
        return self._made.get()

    @ray.method(concurrency_group="watch")
    def sign_of_life(self, method: str) -> Any:
        return sign_of_life(self, method)

    @ray.method(concurrency_group="read")
    def ping(self) -> None:
        self._owner.ping()

    @ray.method(concurrency_group="hear")
    def heartbeat(self, *args: Any) -> Any:
        return self._owner.heartbeat(*args)

    @noted_call("write")
    def push(self, *args: Any) -> None:
        self._owner.push(*args)

    @noted_call("write")
    def take_over(self, *args: Any) -> None:
        self._owner.take_over(*args)

    @noted_call("prepare")
    def prepare(self, *args: Any) -> Any:
        return self._owner.prepare(*args)

    @noted_call("write")
    def acknowledge(self, *args: Any) -> Any:
        return self._owner.acknowledge(*args)

    @noted_call("write")
    def give_up(self, *args: Any) -> None:
        self._owner.give_up(*args)

    @ray.method(concurrency_group="assign")
    def newest_generation(self, *args: Any) -> Any:
        return self._owner.newest_generation(*args)

    @noted_call("compact")
    def compact(self, *args: Any) -> Any:
        return self._owner.compact(*args)

    @ray.method(concurrency_group="compact")
    def compactions(self, *args: Any) -> Any:
        return self._owner.compactions(*args)

    @noted_call("write")
    def abort(self, *args: Any) -> None:
        self._owner.abort(*args)

    @noted_call("assign")
    def assign(self, *args: Any) -> Any:
        return self._owner.assign(*args)

    @noted_call("assign")
    def locate(self, *args: Any) -> Any:
        return self._owner.locate(*args)

    @noted_call("assign")
    def place(self, *args: Any) -> Any:
        return self._owner.place(*args)

    @noted_call("assign")
    def locate_keys(self, *args: Any) -> Any:
        return self._owner.locate_keys(*args)

    @noted_call("write")
    def stage(self, *args: Any) -> None:
        self._owner.stage(*args)

    @noted_call("assign")
    def place_staged(self, *args: Any) -> Any:
        return self._owner.place_staged(*args)

    @ray.method(concurrency_group="read")
    def lookup(self, request: bytes) -> bytes:
        return encode_answer(*self._owner.lookup(decode_request(request)))

    @ray.method(concurrency_group="read")
    def stats(self) -> Any:
        return self._owner.stats()

    @noted_call("write")
    def close(self) -> None:
        self._owner.close()
        self._local.close()

    def _peers(self) -> list[Handle]:
        """All owners of the table; this one without a call."""
        itself = self._itself = self._itself or LocalHandle(
            self._owner, owner_label(self._location, self._index), self._limits
        )
        return [
            itself if index == self._index else owner_handle(self._location, index, self._limits)
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
        lease_millis: int,
        limits: CallLimits,
    ) -> None:
        self.progress = CallProgress()

        def start(index: int) -> Any:
            return OwnerActor.options(
                name=owner_name(location, index),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=owner_cpus,
            ).remote(location, index, owners, local, lease_millis, limits)

        self._start = start
        self._owners = [start(index) for index in range(owners)]

        def make() -> Coordinator:
            made = Coordinator(
                [
                    RayHandle(
                        owner, owner_label(location, index), limits, find=partial(start, index)
                    )
                    for index, owner in enumerate(self._owners)
                ],
                Committers(location, now_millis),
                now_millis,
                alarm=DebouncedTimer(),
                upkeep=TableMaintenance.at(location, now_millis),
                queue=CommitQueue.of_table(location.fingerprint),
            )
            made.watch()  # the one before may have left compactions uncommitted
            return made

        self._made = Late(make, self.progress.at(START))

    @property
    def _coordinator(self) -> Coordinator:
        return self._made.get()

    @ray.method(concurrency_group="watch")
    def sign_of_life(self, method: str) -> Any:
        return sign_of_life(self, method)

    @ray.method(concurrency_group="ask")
    def ping(self) -> None:
        self._coordinator.ping()

    @ray.method(concurrency_group="ask")
    def stats(self) -> Any:
        return self._coordinator.stats()

    @ray.method(concurrency_group="ask")
    def start_owners(self) -> None:
        """Start those that are dead for good."""
        for index in range(len(self._owners)):
            self._start(index)

    @ray.method(concurrency_group="ask")
    def owner_count(self) -> int:
        return len(self._owners)

    @noted_call("ask")
    def begin(self, *args: Any) -> Any:
        return self._coordinator.begin(*args)

    @noted_call("ask")
    def last_identifier(self, user: str) -> Any:
        return self._coordinator.last_identifier(user)

    @noted_call("ask")
    def committed(self, user: str, identifier: int) -> Any:
        return self._coordinator.committed(user, identifier)

    @noted_call("commit")
    def commit(self, request: Any) -> Any:
        return self._coordinator.commit(request)

    @noted_call("commit")
    def overwrite(self, *args: Any) -> Any:
        return self._coordinator.overwrite(*args)

    @noted_call("compact")
    def compact(self, chosen: Any) -> Any:
        return self._coordinator.compact(chosen)

    @noted_call("commit")
    def abort(self, session: Any) -> None:
        self._coordinator.abort(session)


def _actor(kind: type, concurrency: dict[str, int]) -> Any:
    """Restarted by Ray for ever; a call is never made twice by Ray."""
    remote: Any = ray.remote
    return remote(max_restarts=-1, max_task_retries=0, concurrency_groups=concurrency)(kind)


OwnerActor = _actor(
    _Owner,
    {"write": 1, "prepare": 1, "read": 4, "assign": 2, "compact": 2, "hear": 1, "watch": 1},
)
CoordinatorActor = _actor(_Coordinator, {"commit": 1, "compact": 1, "ask": 4, "watch": 1})
