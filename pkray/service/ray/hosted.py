"""Hosted work as named, detached actors: a process each, begun again when it is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from pkray.errors import PkrayError, ServiceUnavailableError
from pkray.service.hosted import NOTHING, Caller, Hosted, Reserved
from pkray.service.ray.actors import NAMESPACE
from pkray.service.ray.callee import cause_of

_ANSWER_SECONDS = 30.0
"""For how long an answer is waited for: an actor that is begun again loads its modules anew."""
_LOOK_SECONDS = 0.05
_ENDED: dict[str, Any] = {
    "state": "stopped",
    "failure": None,
    "epoch": -1,
    "sources": {},
    "nodes": [],
}
"""The status of work whose process was ended."""


class _Host:
    """Hosts one piece of work.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[..., Hosted], *arguments: Any) -> None:
        self._work = make(*arguments)

    def status(self) -> tuple[bool, dict[str, Any]]:
        """Say whether it may still do something, and what it does."""
        return self._work.is_running, self._work.status()

    def keep(self, seconds: float) -> bool:
        """Write down what it has; false where that takes longer."""
        return self._work.keep(seconds)

    def stop(self, seconds: float) -> bool:
        """End it; false where that takes longer."""
        return self._work.stop(seconds)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of it."""
        return getattr(self._work, method)(*arguments)


HostActor: Any = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=32)(_Host)  # type: ignore[call-overload] # it has no types


class RemoteHosted(Hosted):
    """Work that an actor hosts."""

    def __init__(self, actor: Any, name: str) -> None:
        self._actor = actor
        self._name = name

    def status(self) -> dict[str, Any]:
        return self._ask()[1]

    @property
    def is_running(self) -> bool:
        return self._ask()[0]

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            running, status = self._ask()
            if reached(status) or not running or time.monotonic() >= deadline:
                return reached(status)
            time.sleep(_LOOK_SECONDS)

    def keep(self, seconds: float = 60.0) -> bool:
        answer: bool = self._get(self._actor.keep.remote(seconds), seconds + _ANSWER_SECONDS)
        return answer

    def stop(self, seconds: float = 60.0) -> bool:
        answer: bool = self._get(self._actor.stop.remote(seconds), seconds + _ANSWER_SECONDS)
        return answer

    def close(self) -> None:
        return  # it outlives whoever began it

    def _ask(self) -> tuple[bool, dict[str, Any]]:
        """Ask for the status, once more while the actor is begun again."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                answer: tuple[bool, dict[str, Any]] = self._get(
                    self._actor.status.remote(), _ANSWER_SECONDS
                )
            except ServiceUnavailableError:
                if find(self._name) is None:
                    return False, dict(_ENDED)
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                return answer

    def _get(self, ref: Any, seconds: float) -> Any:
        try:
            return ray.get(ref, timeout=seconds)
        except GetTimeoutError:
            raise ServiceUnavailableError(
                f"{self._name} does not answer within {seconds:.0f} s"
            ) from None
        except (PkrayError, RayError) as error:
            raise _error_of(self._name, error) from None


class RemoteCaller(Caller):
    """Calls methods of work that an actor hosts."""

    def __init__(self, actor: Any, name: str) -> None:
        self._actor = actor
        self._name = name

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        given = self._actor.call.remote(method, *arguments).future()
        given.add_done_callback(lambda done: self._answer(done, answer))
        return answer

    def _answer(self, done: Future[Any], answer: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(_error_of(self._name, error))


def _error_of(name: str, error: BaseException) -> BaseException:
    """Find what an actor raised, or say that it is not there."""
    cause = cause_of(error) if isinstance(error, RayTaskError) else error
    if not isinstance(cause, RayError):
        return cause
    return ServiceUnavailableError(f"{name} is not there: {cause}")


def host(
    name: str, make: Callable[..., Any], *arguments: Any, reserved: Reserved = NOTHING
) -> RemoteHosted:
    """Find the actor that hosts work of this name, or start it."""
    options = HostActor.options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=reserved.cpus,
        memory=reserved.memory or None,
    )
    return RemoteHosted(options.remote(make, *arguments), name)


def caller(name: str) -> RemoteCaller:
    """Call methods of the work that the actor of this name hosts.

    Raises:
        ServiceUnavailableError: there is no such actor.
    """
    try:
        return RemoteCaller(ray.get_actor(name, NAMESPACE), name)
    except ValueError:
        raise ServiceUnavailableError(f"{name} is not there: it was stopped") from None


def find(name: str) -> RemoteHosted | None:
    """Find the actor that hosts work of this name."""
    try:
        return RemoteHosted(ray.get_actor(name, NAMESPACE), name)
    except ValueError:
        return None


def end(name: str) -> None:
    """Kill the actor that hosts work of this name, and those whose names go on with a slash."""
    known: Any = ray.util.list_named_actors  # it has no types
    named = [each["name"] for each in known(True) if each["namespace"] == NAMESPACE]
    for each in named:
        if each == name or each.startswith(f"{name}/"):
            with suppress(ValueError):
                ray.kill(ray.get_actor(each, NAMESPACE), no_restart=True)
