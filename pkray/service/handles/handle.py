"""Call one part of the service from another, in this process or in an actor.

A `Client` lists the methods of an owner or a coordinator, each a `Method` with its `Group`; what
is got from a client's instance is a `Call`. A `Handle` carries calls: ``local_handle`` to an object
of this process, ``ray.handle`` to an actor. Names of methods become attributes in `Method.of`
alone. `persist` asks again while a callee restarts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

GLANCE_SECONDS = 0.5
"""How long one look at a late answer takes. Who waits for others is seen to live by it."""
LEAST_WATCHED = 0.25
"""Of the limit: how long a call is watched at least, however long ago it was made."""


class Pending(Protocol[T_co]):
    """An answer on its way."""

    def result(self) -> T_co:
        """Wait for it.

        Raises:
            ServiceUnavailableError: the callee died or does not answer.
        """


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
        is_lookup: is given up after the time of a lookup without progress of its own.
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
        """Bind the method to an object that has it."""
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
        """Call and wait, again while the callee restarts: for what may be done twice."""

    def call_once(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call and wait; what is not answered may have been done, or not."""


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
    """List a client's methods."""
    return (each for each in vars(client).values() if isinstance(each, Method))


def gather(
    pending: Sequence[Pending[T]],
    together: Callable[[Sequence[Exception]], Exception] = lambda failures: failures[0],
) -> list[T]:
    """Wait for all answers, in order; failures are raised when every call has ended.

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


def persist(work: Callable[[], T], patience_seconds: float) -> T:
    """Repeat work that does no harm when done twice.

    Args:
        patience_seconds: since the call; what was begun by then is ended.

    Raises:
        ServiceUnavailableError: still.
    """
    began = time.monotonic()
    try:
        return work()  # asking for one key takes about as long as making ready to repeat it
    except ServiceUnavailableError:
        patience_seconds -= time.monotonic() - began
        if patience_seconds <= 0:
            raise
    attempts = Retrying(
        retry=retry_if_exception_type(ServiceUnavailableError),
        wait=wait_exponential_jitter(multiplier=0.05, max=1.0, jitter=0.2),
        stop=stop_after_delay(patience_seconds),
        reraise=True,
    )
    return attempts(work)
