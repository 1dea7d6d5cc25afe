"""Calls to actors, their failures as pkray errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pkray.service.call_limits import CallLimits
from pkray.service.client.lookup_wire import decode_answer, encode_request
from pkray.service.handle import Pending
from pkray.service.ray.callee import Callee
from pkray.service.retry import persist


class RayPending:
    """An answer that an actor owes."""

    def __init__(self, ref: Any, callee: Callee, method: str) -> None:
        self._ref = ref
        self._callee = callee
        self._method = method
        self._called = time.monotonic()

    def result(self) -> Any:
        return self._callee.wait(self._ref, self._method, self._called)


class RayHandle:
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
        self._patience = patience_seconds
        self.limits = limits

    def submit(self, method: str, *args: Any) -> Pending:
        callee = self._callee
        return RayPending(getattr(callee.actor, method).remote(*args), callee, method)

    def call(self, method: str, *args: Any) -> Any:
        patience = self._patience
        if patience is None:
            patience = self.limits.patience(method)
        return persist(lambda: self.call_once(method, *args), patience)

    def call_once(self, method: str, *args: Any) -> Any:
        return self.submit(method, *args).result()


class RayOwnerHandle(RayHandle):
    """An owner's methods; lookups travel as bytes."""

    def submit(self, method: str, *args: Any) -> Pending:
        if method != "lookup":
            return super().submit(method, *args)
        return _PendingLookup(super().submit(method, encode_request(*args)))


class _PendingLookup:
    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def result(self) -> Any:
        return decode_answer(self._pending.result())
