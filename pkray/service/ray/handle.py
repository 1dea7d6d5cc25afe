"""Calls to actors, and to parts that a pool's keeper has assigned to its workers.

Failures are pkray errors.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from pkray import spans
from pkray.errors import ServiceUnavailableError, StorageError
from pkray.service import versions
from pkray.service.call_limits import CallLimits
from pkray.service.calls import OwnerClient
from pkray.service.client.lookup_wire import decode_answer, encode_request
from pkray.service.handles.handle import Method, Pending, persist
from pkray.service.pool.calls import KeeperClient
from pkray.service.pool.in_order import Ticket
from pkray.service.pool.parts import Assignment, HostedThing, MovedError
from pkray.service.ray.callee import Callee

P = ParamSpec("P")
T = TypeVar("T")

_MOVES = 4
"""Times that a call is sent to another place; by then it is asked anew where the part is."""
_LOOK_SECONDS = 1.0
"""Between two looks whether a part that is silent is elsewhere by now."""
AS_BYTES: dict[Method[..., Any], tuple[Callable[..., bytes], Callable[[bytes], Any]]] = {
    OwnerClient.lookup: (encode_request, decode_answer)
}
"""How a method's arguments and its answer travel, where not as Ray has it."""


class RayPending(Generic[T]):
    """An answer that an actor owes.

    Args:
        decode: makes the answer of what travels; by default it is the answer.
    """

    def __init__(
        self,
        ref: Any,
        callee: Callee,
        method: Method[..., T],
        decode: Callable[[Any], T] | None = None,
    ) -> None:
        self._ref = ref
        self._callee = callee
        self._method = method
        self._decode = decode
        self._called = time.monotonic()

    def result(self) -> T:
        """Wait for the answer."""
        if self._decode is None:
            return self._callee.wait(self._ref, self._method, self._called)
        return self._decode(self._callee.wait(self._ref, self._method, self._called))


class PatientHandle(ABC):
    """Calls that are made again while their callee restarts, or finds another place.

    Attributes:
        patience_seconds: how long `call` asks again; None: as the limits say.
    """

    limits: CallLimits
    patience_seconds: float | None = None

    @abstractmethod
    def submit(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call."""

    def call(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call and wait, again while there is no answer."""
        patience = self.patience_seconds
        if patience is None:
            patience = self.limits.patience(method.is_lookup)
        return persist(lambda: self.call_once(method, *args, **kwargs), patience)

    def call_once(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call once, and wait."""
        return self.submit(method, *args, **kwargs).result()


def _begun(actor: Any, method: Method[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Begin a call, with what this thread is at work on, unless the actor is of a version that
    takes none."""
    envelope = spans.envelope()
    within = None if envelope is None else getattr(actor, "within", None)
    if within is None:
        remote: Any = method.of(actor)
        return remote.remote(*args, **kwargs)
    grouped = within.options(concurrency_group=method.group.name)
    return grouped.remote(envelope, method.name, *args, **kwargs)


class RayHandle(PatientHandle):
    """An actor's methods.

    Args:
        name: what it is, for messages.
        look, find: as of `Callee`.
        patience_seconds: how long `call` asks again while the actor restarts; default as the
            limits say.
    """

    def __init__(
        self,
        actor: Any,
        name: str,
        limits: CallLimits,
        look: Callable[[], None] = lambda: None,
        find: Callable[[], Any] | None = None,
        patience_seconds: float | None = None,
    ) -> None:
        self._callee = Callee(actor, name, limits, look, find)
        self.patience_seconds = patience_seconds
        self.limits = limits

    def submit(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call of the actor."""
        callee, travels = self._callee, AS_BYTES.get(method)
        if travels is None:
            return RayPending(_begun(callee.actor, method, *args, **kwargs), callee, method)
        encode, decode = travels
        ref = _begun(callee.actor, method, encode(*args, **kwargs))
        return RayPending(ref, callee, method, decode)


class ReachedPool(Protocol):
    """The keeper and the workers of a pool."""

    keeper: KeeperClient
    doubts: Counter[int]
    """Count how often each worker does not answer: what is thought to be there may be elsewhere."""

    def worker(self, number: int) -> Any:
        """Find a worker's actor.

        Raises:
            ServiceUnavailableError: it is being started anew.
        """


class _Place(Callee):
    """A part at a worker, under one number.

    Where it does not answer, its worker's process is replaced; where a call alone hangs, the keeper
    gives the part to another worker.
    """

    def __init__(
        self,
        pool: ReachedPool,
        table: HostedThing,
        index: int,
        assignment: Assignment,
        limits: CallLimits,
        look: Callable[[], None],
    ) -> None:
        self.assignment = assignment
        self._pool = pool
        self._table = table
        self._index = index
        self._part = table.part(index)
        self._looked = time.monotonic()
        self._doubts = pool.doubts[assignment.worker]
        self._tickets = 0
        self._caller = uuid.uuid4().hex
        self._ordering = threading.Lock()

        def find() -> Any:
            return pool.worker(assignment.worker)

        super().__init__(find(), table.label(index), limits, look, find)

    def send(
        self, method: Method[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Begin a call; those of ordered groups run in the order in which they were begun."""
        if not (method.group.is_ordered and method.group.threads == 1):
            return self._remote(None, method, args, kwargs)
        with self._ordering:
            ticket = Ticket(self._caller, self._tickets)
            self._tickets += 1
            return self._remote(ticket, method, args, kwargs)

    def ask_sign(self, group: str) -> Any:
        return self.actor.sign_of_life.remote(self._part, group)

    def check_place(self) -> None:
        """See whether the keeper has given the part to another worker, as the lease ran out."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        given = self.assignment
        with suppress(ServiceUnavailableError):
            given = self._pool.keeper.locate.once(self._table, self._index)
        if given != self.assignment:
            self.unavailable("is at another worker now, as this one is silent; try again")

    def unavailable(self, what: str, error: Exception | None = None) -> NoReturn:
        self._pool.doubts[self.assignment.worker] += 1
        super().unavailable(what, error)

    def is_sure(self) -> bool:
        """Whether the worker has answered since the keeper was asked where the part is."""
        return self._doubts == self._pool.doubts[self.assignment.worker]

    def is_confirmed(self, given: Assignment) -> bool:
        """Whether the part is here still, as the keeper says."""
        self._doubts = self._pool.doubts[self.assignment.worker]
        return given == self.assignment

    def _replace(self, is_silent: bool) -> None:
        if is_silent:
            super()._replace(is_silent)
        else:
            self._pool.keeper.move.once(self._part, self.assignment.number)

    def _remote(
        self,
        ticket: Ticket | None,
        method: Method[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        about = (versions.spoken, self._part, self.assignment.number, ticket, method)
        envelope = spans.envelope()
        within = None if envelope is None else getattr(self.actor, "call_within", None)
        if within is None:  # or the worker is of a version that takes none
            return self.actor.call.remote(*about, *args, **kwargs)
        return within.remote(envelope, *about, *args, **kwargs)


class _PlacedPending(Generic[T]):
    """An answer that a part owes; asked for at its new place where it has moved."""

    def __init__(
        self,
        handle: PlacedHandle,
        method: Method[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        decode: Callable[[Any], T],
    ) -> None:
        self._handle = handle
        self._method = method
        self._args = args
        self._kwargs = kwargs
        self._decode = decode
        self._send()

    def result(self) -> T:
        """Wait for the answer."""
        for left in range(_MOVES, 0, -1):
            try:
                return self._decode(self._place.wait(self._ref, self._method, self._called))
            except MovedError as error:
                self._handle.leave(self._place, error.assignment)
                if left == 1:
                    raise
                self._send()
            except ServiceUnavailableError:
                self._handle.leave(self._place)
                raise
        raise AssertionError("unreachable")

    def _send(self) -> None:
        self._place = self._handle.place()
        self._called = time.monotonic()
        self._ref = self._place.send(self._method, self._args, self._kwargs)


class PlacedHandle(PatientHandle):
    """The methods of a part, wherever it is.

    Args:
        index: of the part.
        look: as of `Callee`.
        limits: default those that the table is hosted with.
    """

    def __init__(
        self,
        pool: ReachedPool,
        table: HostedThing,
        index: int,
        look: Callable[[], None] = lambda: None,
        limits: CallLimits | None = None,
    ) -> None:
        self.limits = limits or table.limits
        self._pool = pool
        self._table = table
        self._index = index
        self._look = look
        self._place: _Place | None = None
        self._lock = threading.Lock()

    def submit(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call of the part."""
        if method not in AS_BYTES:
            return _PlacedPending(self, method, args, kwargs, lambda answer: answer)
        encode, decode = AS_BYTES[method]
        return _PlacedPending(self, method, (encode(*args, **kwargs),), {}, decode)

    @property
    def number(self) -> int:
        """Under which the part is called.

        Raises:
            ServiceUnavailableError: nobody says where it is.
        """
        return self.place().assignment.number

    def place(self) -> _Place:
        """Find where the part is.

        Raises:
            ServiceUnavailableError: nobody says.
        """
        with self._lock:
            place = self._place
            if place is not None and place.is_sure():
                return place
            if place is None:
                with suppress(StorageError):  # it hides no table that is gone
                    self._look()
            given = self._pool.keeper.locate.once(self._table, self._index)
            if place is None or not place.is_confirmed(given):
                place = self._place = self._at(given)
            return place

    def leave(self, place: _Place, assignment: Assignment | None = None) -> None:
        """Ask where the part is before the next call, unless that is known by now.

        Args:
            assignment: where it is said to be.
        """
        with self._lock:
            if self._place is not place:
                return
            self._place = None
            if assignment is not None and assignment.number > place.assignment.number:
                self._place = self._at(assignment)

    def _at(self, assignment: Assignment) -> _Place:
        return _Place(self._pool, self._table, self._index, assignment, self.limits, self._look)
