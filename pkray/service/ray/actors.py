"""The actors: thin shells around an owner and a coordinator."""

from __future__ import annotations  # an actor's handle carries them to other versions: as text

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import ray
from ray.util import list_named_actors

from pkray import spans
from pkray.clock import now_millis
from pkray.errors import ServiceUnavailableError
from pkray.service import versions
from pkray.service.call_limits import CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.lookup_wire import decode_request, encode_answer
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.handle import Client, Group, Method, methods_of
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.service.progress import LOOKUPS, START, CallProgress, WorkingThreads, in_group
from pkray.service.ray.handle import RayHandle
from pkray.service.served import Served
from pkray.service.versions import Spoken
from pkray.storage.location import TableLocation
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory

NAMESPACE = "pkray"

T = TypeVar("T")


class Late(Generic[T]):
    """Makes it on a thread of its own, at once; whoever asks waits for it.

    Args:
        make: where it fails, it is called again by whoever asks next.
        threads: notes the thread.
    """

    def __init__(self, make: Callable[[], T], threads: WorkingThreads) -> None:
        self._make = make
        self._threads = threads
        self._made: T | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._begin, name="pkray-start", daemon=True).start()

    def get(self) -> T:
        """Return what is made.

        Raises:
            Exception: it cannot be made.
        """
        return self._made or self._wait()

    def _begin(self) -> None:
        with suppress(Exception):  # who asks is told
            self._wait()

    def _wait(self) -> T:
        with self._lock:
            if self._made is None:
                with self._threads:
                    self._made = self._make()
            return self._made


def owner_name(location: TableLocation, index: int) -> str:
    return f"{service_name(location)}owner-{index}"


def coordinator_name(location: TableLocation) -> str:
    return f"{service_name(location)}coordinator"


def owner_label(location: TableLocation, index: int) -> str:
    """Name the owner in messages."""
    return f"owner {index} of table {location.name}"


def owner_client(
    location: TableLocation,
    index: int,
    limits: CallLimits,
    look: Callable[[], None] = lambda: None,
    start: Callable[[], object] = lambda: None,
) -> OwnerClient:
    """Make the client of an owner, wherever it runs.

    Args:
        look: as of `RayHandle`.
        start: starts owners that are dead for good; by default others do.

    Raises:
        ServiceUnavailableError: there is no such owner, as after the table was dropped.
    """
    label = owner_label(location, index)

    def find() -> Any:
        start()
        return ray.get_actor(owner_name(location, index), NAMESPACE)

    actor = found_actor(owner_name(location, index))
    if actor is None:
        raise ServiceUnavailableError(
            f"{label} does not run: load the table again, which starts it unless it was dropped",
            callee=label,
        )
    return OwnerClient(RayHandle(actor, label, limits, look, find))


def service_name(location: TableLocation) -> str:
    """Make what the names of all actors of a table begin with."""
    return f"pkray-{location.fingerprint}-"


def in_concurrency_group(
    group: Group, is_noted: bool = True
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Run a method of an actor in a concurrency group.

    Args:
        is_noted: it is seen to get on, by the actor's ``progress``.
    """

    def decorate(method: Callable[..., T]) -> Callable[..., T]:
        noted = in_group(group.name, method) if is_noted else method
        grouped: Callable[..., T] = ray.method(concurrency_group=group.name)(noted)
        return grouped

    return decorate


def sign_of_life(progress: CallProgress, group: str) -> tuple[str, object]:
    """Return the actor's node, and a value that is another one whenever a call of the group may
    have got on."""
    node: Any = ray.util.get_node_ip_address  # it has no types
    return node(), (os.getpid(), progress.sign(group))


def _sign_of_life(self: Any, group: str) -> tuple[str, object]:
    return sign_of_life(self.progress, group)


def _serving(client: type[Client]) -> Callable[[type], type]:
    """Give an actor the methods of a client, and its ``progress`` as a sign of life; methods that
    it lacks are its ``served`` object's."""

    def decorate(kind: type) -> type:
        for method in methods_of(client):
            own = vars(kind).get(method.name) or _forwarded(method)
            if method.is_lookup:
                own = in_group(LOOKUPS, own)
            grouped = in_concurrency_group(method.group, is_noted=not method.is_short)(own)
            setattr(kind, method.name, grouped)
        watched: Any = kind
        watched.sign_of_life = ray.method(concurrency_group="watch")(_sign_of_life)
        watched.within = _within
        return kind

    return decorate


def _within(self: Any, envelope: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method for what its caller is at work on: see `begun`."""
    with spans.resumed(envelope):
        return getattr(self, name)(*args, **kwargs)


def _forwarded(method: Method[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method.of(self.served)(*args, **kwargs)

    forward.__name__ = method.name
    return forward


def actor_of(kind: type, client: type[Client]) -> Any:
    """Make an actor of a class, with a client's methods. Ray restarts it for ever, and makes no
    call twice."""
    remote: Any = ray.remote
    groups = {method.group.name: method.group.threads for method in methods_of(client)}
    options = {"concurrency_groups": {**groups, "watch": 1}}
    return remote(max_restarts=-1, max_task_retries=0, **options)(_serving(client)(kind))


def named_actor(actor: Any, name: str, num_cpus: float = 0, **options: Any) -> Any:
    """Make what starts a detached actor of this name, or finds it."""
    return actor.options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=num_cpus,
        **options,
    )


def found_actor(name: str) -> Any:
    """Find the actor of this name; None where there is none."""
    with suppress(ValueError):
        return ray.get_actor(name, NAMESPACE)
    return None


def actor_names(prefix: str) -> list[str]:
    """List the actors whose names begin so, whichever process started them."""
    named: Any = list_named_actors(all_namespaces=True)
    names = (each["name"] for each in named if each["namespace"] == NAMESPACE)
    return [name for name in names if name.startswith(prefix)]


def living_nodes() -> list[dict[str, Any]]:
    """List the nodes of the cluster that live, as Ray describes them."""
    nodes: Any = ray.nodes  # it has no types
    return [each for each in nodes() if each["Alive"]]


class _Owner:
    """Writes run one after another; concurrently lookups, and a commit that is prepared."""

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
            index, owners, str(self._local.path), refresh_millis=1000, lease_millis=lease_millis
        )
        self._location, self._index, self._owners = location, index, owners
        self._limits = limits
        self._itself: OwnerClient | None = None
        self.progress = CallProgress()

        def make() -> BucketOwner:
            Served(location, dedicated=True).check()
            return BucketOwner(location, settings, now_millis, peers=self._peers)

        self._made = Late(make, self.progress.at(START))

    @property
    def served(self) -> BucketOwner:
        return self._made.get()

    def lookup(self, request: bytes) -> bytes:
        return encode_answer(*self.served.lookup(decode_request(request)))

    def close(self) -> None:
        self.served.close()
        self._local.close()

    def _peers(self) -> list[OwnerClient]:
        """All owners of the table; this one without a call."""
        itself = self._itself = self._itself or OwnerClient(
            LocalHandle(self.served, owner_label(self._location, self._index), self._limits)
        )
        return [
            itself if index == self._index else owner_client(self._location, index, self._limits)
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
            name = owner_name(location, index)
            return named_actor(OwnerActor, name, owner_cpus).remote(
                location, index, owners, local, lease_millis, limits
            )

        self._start = start
        self._owners = [start(index) for index in range(owners)]

        def make() -> Coordinator:
            Served(location, dedicated=True).check()
            owners = [
                OwnerClient(
                    RayHandle(
                        owner, owner_label(location, index), limits, find=partial(start, index)
                    )
                )
                for index, owner in enumerate(self._owners)
            ]
            made = Coordinator.of_table(location, owners)
            made.watch()  # the one before may have left compactions uncommitted
            return made

        self._made = Late(make, self.progress.at(START))

    @property
    def served(self) -> Coordinator:
        return self._made.get()

    def start_owners(self) -> None:
        """Start those that are dead for good."""
        for index in range(len(self._owners)):
            self._start(index)

    def owner_count(self) -> int:
        return len(self._owners)

    def greet(self, caller: Spoken) -> Spoken:
        return versions.answered(caller)


OwnerActor = actor_of(_Owner, OwnerClient)
CoordinatorActor = actor_of(_Coordinator, CoordinatorClient)
