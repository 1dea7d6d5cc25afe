"""Calls to actors, their failures as pkray errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from pkray.errors import ServiceUnavailableError, StorageError
from pkray.service.handle import Pending
from pkray.service.lookup_wire import decode_answer, encode_request
from pkray.service.retry import PATIENCE_SECONDS, persist


class RayPending:
    """An answer that an actor owes.

    Args:
        look: as of `RayHandle`.
    """

    def __init__(
        self,
        ref: Any,
        callee: str,
        timeout_seconds: float | None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._look = look
        self._ref = ref
        self._callee = callee
        self._timeout = timeout_seconds

    def result(self) -> Any:
        try:
            return ray.get(self._ref, timeout=self._timeout)
        except RayTaskError as error:
            raise _cause(error) from None
        except (RayActorError, GetTimeoutError, RayError) as error:
            with suppress(StorageError):
                self._look()
            raise ServiceUnavailableError(
                f"the table's {self._callee} does not answer ({type(error).__name__}): it is "
                "restarting, or its node is gone; try again",
                callee=self._callee,
            ) from error


class RayHandle:
    """An actor's methods.

    Args:
        callee: what it is, for messages.
        timeout_seconds: how long an answer may take; default for ever.
        patience_seconds: how long `call` asks again while the actor restarts.
        look: where there is no answer, raises an error of its own if none will ever come.
    """

    def __init__(
        self,
        actor: Any,
        callee: str,
        timeout_seconds: float | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._look = look
        self._patience = patience_seconds
        self._actor = actor
        self._callee = callee
        self._timeout = timeout_seconds

    def submit(self, method: str, *args: Any) -> Pending:
        ref = getattr(self._actor, method).remote(*args)
        return RayPending(ref, self._callee, self._timeout, self._look)

    def call(self, method: str, *args: Any) -> Any:
        return persist(lambda: self.call_once(method, *args), self._patience)

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


def _cause(error: RayTaskError) -> BaseException:
    cause = error.cause
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    return cause if isinstance(cause, BaseException) else error
