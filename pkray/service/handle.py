"""How one part of the service calls another, in this process or in an actor.

A `Client` lists the methods of an owner or a coordinator, each a `Method` with its `Group`; what
is got from a client's instance is a `Call`. A `Handle` carries calls: `LocalHandle` to an object of
this process, ``ray.handle`` to an actor. Names of methods become attributes in `Method.of` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import (
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.job import Job, Lane
from pkray.service.progress import BESIDE_CALLS, WorkingThreads

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """An answer on its way."""

    def result(self) -> T_co:
        """Wait for it.

        Raises:
            ServiceUnavailableError: the callee died or does not answer.
        """
        ...


@dataclass(frozen=True)
class Group:
    """Methods that share threads of the callee, and wait for no others.

    Args:
        name: as `progress` has it.
        threads: of an actor.
        is_ordered: in this process, what is submitted runs after all such that was before.
    """

    name: str
    threads: int
    is_ordered: bool = False


class Method(Generic[P, T]):
    """A method that a `Client` lists.

    Args:
        stub: has its name, arguments and result; it is never run.
        is_short: comes again and again, and would hide that other calls hang.
        is_lookup: is given up after the time of a lookup, though it gets on.
    """

    def __init__(
        self,
        stub: Callable[Concatenate[Any, P], T],
        group: Group,
        is_short: bool = False,
        is_lookup: bool = False,
    ) -> None:
        self.name = stub.__name__
        self.stub = stub
        self.group = group
        self.is_short = is_short
        self.is_lookup = is_lookup
        self.__doc__ = stub.__doc__
        self._client: type | None = None

    def of(self, target: object) -> Callable[P, T]:
        """The method of an object that has it."""
        return cast(Callable[P, T], getattr(target, self.name))

    def __set_name__(self, client: type, name: str) -> None:
        self._client = client

    @overload
    def __get__(self, client: None, kind: type) -> Method[P, T]: ...
    @overload
    def __get__(self, client: Client, kind: type) -> Call[P, T]: ...
    def __get__(self, client: Client | None, kind: type) -> Method[P, T] | Call[P, T]:
        return self if client is None else Call(client.handle, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._client, self.name)


def method(
    group: Group, *, is_short: bool = False, is_lookup: bool = False
) -> Callable[[Callable[Concatenate[Any, P], T]], Method[P, T]]:
    """List a method of a `Client`; the arguments are those of `Method`."""
    return lambda stub: Method(stub, group, is_short, is_lookup)


class Handle(Protocol):
    """Carries calls to an owner or a coordinator."""

    limits: CallLimits

    def submit(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]: ...

    def call(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`submit` and wait, again while the callee restarts: for what may be done twice."""
        ...

    def call_once(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`submit` and wait; what is not answered may have been done, or not."""
        ...


class Call(Generic[P, T]):
    """A method of one callee. Called, it is asked again while the callee restarts."""

    __slots__ = ("_handle", "_method")

    def __init__(self, handle: Handle, method: Method[P, T]) -> None:
        self._handle = handle
        self._method = method

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it, and again while the callee restarts: for what may be done twice.

        Raises:
            ServiceUnavailableError: the callee does not answer.
        """
        return self._handle.call(self._method, *args, **kwargs)

    def once(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it once; what is not answered may have been done, or not.

        Raises:
            ServiceUnavailableError: the callee does not answer.
        """
        return self._handle.call_once(self._method, *args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Call it once, and wait for the answer later."""
        return self._handle.submit(self._method, *args, **kwargs)


class Client:
    """Typed methods of a callee; subclasses list them with `method`."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    @property
    def limits(self) -> CallLimits:
        return self.handle.limits


def methods_of(client: type[Client]) -> Iterator[Method[..., Any]]:
    """What a client lists."""
    return (each for each in vars(client).values() if isinstance(each, Method))


class LocalHandle:
    """An object of this process; what is submitted of ordered groups runs in order.

    Nobody waits for it for ever; what hangs goes on in a thread of its own.

    Args:
        name: what it is, for messages.
    """

    def __init__(self, target: object, name: str, limits: CallLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.target = target
        self.name = name
        self.working = WorkingThreads()
        self._lane = Lane()
        self._is_closed = False

    def submit(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        if self._is_closed:
            raise ServiceUnavailableError(
                f"{self.name} has ended: its catalog was closed, or its table dropped or renamed; "
                "connect and load the table again",
                name=self.name,
            )
        pending = self._pending(method, *args, **kwargs)
        if method.group.is_ordered:
            self._lane.add(pending.job)
        else:
            pending.job.start()
        return pending

    def call(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        pending = self._pending(method, *args, **kwargs)
        pending.job.start()
        return pending.result()

    call_once = call  # nothing restarts here

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run other work than a listed method, given up as a call is."""
        pending = _LocalPending(self, work.__name__, False, Job(work, args, kwargs, self.working))
        pending.job.start()
        return pending.result()

    def close(self) -> None:
        """Take nothing more; what was submitted is done."""
        last = Job(lambda: None)
        self._is_closed = True
        self._lane.add(last)
        _LocalPending(self, "close", False, last).result()

    def _pending(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> _LocalPending[T]:
        noted = None if method.is_short else self.working
        job = Job(method.of(self.target), args, kwargs, noted)
        return _LocalPending(self, method.name, method.is_lookup, job)


GLANCE_SECONDS = 0.5
"""How long one look at a late answer takes. Who waits for others is seen to live by it."""


class _LocalPending(Generic[T]):
    """A job, given up where it takes too long, or longer without progress of its owner."""

    def __init__(self, handle: LocalHandle, name: str, is_lookup: bool, job: Job[T]) -> None:
        self.job = job
        self._handle = handle
        self._name = name
        self._is_lookup = is_lookup
        self._called = time.monotonic()

    def result(self) -> T:
        if not self.job.wait(GLANCE_SECONDS):
            self._wait_long()
        return self.job.answer()

    def _wait_long(self) -> None:
        limits = self._handle.limits
        total = limits.total(self._is_lookup)
        sign, moved = self._sign(), time.monotonic()
        while not self.job.wait(GLANCE_SECONDS):
            now = time.monotonic()
            if total is not None and now - self._called >= total:
                self._give_up(f"{total:g} s (lookup_timeout)")
            if total is None and now - moved >= limits.call_seconds:
                self._give_up(f"{limits.call_seconds:g} s without progress (call_timeout)")
            seen = self._sign()
            if seen != sign:
                sign, moved = seen, now

    def _sign(self) -> Hashable:
        return self._handle.working.sign(), BESIDE_CALLS.sign()

    def _give_up(self, after: str) -> NoReturn:
        raise ServiceUnavailableError(
            f"{self._handle.name} in this process gave no answer to {self._name!r} within "
            f"{after}: its storage hangs, or much of its machine is taken; try again",
            callee=self._handle.name,
        )


def gather(
    pending: Sequence[Pending[T]],
    together: Callable[[Sequence[Exception]], Exception] = lambda failures: failures[0],
) -> list[T]:
    """All answers, in order; failures are raised when every call has ended.

    Args:
        together: what stands for all failures; by default the first.
    """
    answers: list[T] = []
    failures: list[Exception] = []
    for one in pending:
        try:
            answers.append(one.result())
        except Exception as error:
            failures.append(error)
    if failures:
        raise together(failures)
    return answers
