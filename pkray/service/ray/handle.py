"""Calls to actors, their failures as pkray errors."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from pkray import spans
from pkray.service.call_limits import CallLimits
from pkray.service.calls import OwnerClient
from pkray.service.client.lookup_wire import decode_answer, encode_request
from pkray.service.handles.handle import Method, Pending, persist
from pkray.service.ray.callee import Callee

P = ParamSpec("P")
T = TypeVar("T")

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
