"""Hosted work as named, detached actors: a process each, begun again when it is lost."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from pkray import spans
from pkray.errors import PkrayError, ServiceUnavailableError
from pkray.service.hosted import Caller, Hosted, WorkLostError
from pkray.service.pool.work import Work
from pkray.service.ray.actors import NAMESPACE, found_actor
from pkray.service.ray.callee import cause_of

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
"""For how long an answer is waited for: an actor that is begun again loads its modules anew."""
_START_SECONDS = 120.0
"""For how long one that has not answered yet may be silent: a busy machine starts it late."""
_LOOK_SECONDS = 0.05
_APART_SECONDS = 1.0
"""Between two looks whether an actor that has much to do still answers."""
ENDED: dict[str, Any] = {
    "state": "stopped",
    "failure": None,
    "epoch": -1,
    "sources": {},
    "nodes": [],
}
"""The status of work whose process was ended."""


HostActor: Any = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=32)(Work)  # type: ignore[call-overload] # it has no types


class _SilentError(ServiceUnavailableError):
    """An actor does not answer in time, and Ray knows of nothing."""


class Silence:
    """Measures how long an actor has not answered, as this process has noticed.

    Args:
        seconds: after which one that has answered before is replaced.
        clock: seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = seconds
        self._clock = clock
        self.began_anew()

    def began_anew(self) -> None:
        """Note that it may have to load its modules first."""
        self._limit = max(_START_SECONDS, self._most)
        self._since: float | None = None
        self._has_answered = False

    def heard(self) -> None:
        """Note that it has answered."""
        self._limit, self._since, self._has_answered = self._most, None, True

    @property
    def most_if_heard(self) -> float:
        """The seconds after which it is replaced; 0 where it may not have been started yet."""
        return self._limit if self._has_answered else 0.0

    def left(self) -> float:
        """Say for how many seconds more it may be silent, from the first time on that this is
        asked."""
        if self._since is None:
            self._since = self._clock()
        return self._limit - (self._clock() - self._since)


class FarHosted(Hosted, ABC):
    """Work in another process, which outlives whoever began it."""

    @abstractmethod
    def _ask(self, seconds: float) -> tuple[bool, dict[str, Any]]:
        """Ask whether it may still do something, and for the status, until there is an answer."""

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            running, status = self._ask(max(deadline - time.monotonic(), 1.0))
            if reached(status) or not running or time.monotonic() >= deadline:
                return reached(status)
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        return


class RemoteHosted(FarHosted):
    """Work that an actor hosts. One that does not answer, as its process is stopped, is replaced.

    It goes on from what it wrote down, and should the process wake, that finds itself fenced.

    Args:
        silence: of the actor.
    """

    def __init__(self, actor: Any, name: str, silence: Silence) -> None:
        self._actor = actor
        self._name = name
        self._silence = silence

    def status(self) -> dict[str, Any]:
        return self._ask(_ANSWER_SECONDS + self._silence.most_if_heard)[1]

    @property
    def is_running(self) -> bool:
        return self._ask(_ANSWER_SECONDS + max(self._silence.left(), 0.0))[0]

    def keep(self, seconds: float = 60.0) -> bool:
        return self._await(lambda: self._actor.keep.remote(seconds), seconds + _ANSWER_SECONDS)

    def stop(self, seconds: float = 60.0) -> bool:
        return self._await(lambda: self._actor.stop.remote(seconds), seconds + _ANSWER_SECONDS)

    def _ask(self, seconds: float) -> tuple[bool, dict[str, Any]]:
        """Ask for the status, until there is an answer; again while the actor is begun again."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                answer: tuple[bool, dict[str, Any]] = self._get(
                    self._actor.status.remote(), max(min(left, self._silence.left()), 0.1)
                )
            except ServiceUnavailableError as error:
                is_silent = isinstance(error, _SilentError)
                if not is_silent:  # it is being begun again
                    self._silence.began_anew()
                if found_actor(self._name) is None:
                    return False, dict(ENDED)
                if is_silent:
                    self._replace_if_silent()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                self._silence.heard()
                return answer

    def _await(self, call: Callable[[], Any], seconds: float) -> bool:
        """Wait for what takes its time, and see meanwhile that the actor answers; do it once more
        where that was begun again."""
        deadline = time.monotonic() + seconds
        ref = call()
        while True:
            ready, _ = ray.wait([ref], timeout=_APART_SECONDS)
            is_late = time.monotonic() >= deadline
            try:
                if ready or is_late:
                    return bool(self._get(ref, 0))
            except ServiceUnavailableError:
                if is_late or found_actor(self._name) is None:
                    raise
                ref = None
            running, _ = self._ask(max(deadline - time.monotonic(), 1.0))
            if not running:
                return True
            ref = ref or call()

    def _replace_if_silent(self) -> None:
        if self._silence.left() <= 0:
            _log.warning("%s does not answer: it is replaced", self._name)
            self._silence.began_anew()
            replace(self._name)

    def _get(self, ref: Any, seconds: float) -> Any:
        try:
            return ray.get(ref, timeout=seconds)
        except GetTimeoutError:
            raise _SilentError(f"{self._name} does not answer within {seconds:.0f} s") from None
        except (PkrayError, RayError) as error:
            raise error_of(self._name, error) from None


class RemoteCaller(Caller):
    """Calls methods of work that an actor hosts."""

    def __init__(self, actor: Any, name: str) -> None:
        self._actor = actor
        self._name = name

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        envelope = spans.envelope()
        within = None if envelope is None else getattr(self._actor, "do_within", None)
        if within is None:  # or it is of a version that takes none
            ref = self._actor.do.remote(method, *arguments)
        else:
            ref = within.remote(envelope, method, *arguments)
        given = ref.future()
        given.add_done_callback(lambda done: self._answer(done, answer))
        return answer

    def _answer(self, done: Future[Any], answer: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error_of(self._name, error))


def error_of(name: str, error: BaseException) -> BaseException:
    """Find what an actor raised, or say that it is not there."""
    cause = cause_of(error) if isinstance(error, RayTaskError) else error
    if not isinstance(cause, RayError):
        return cause
    return WorkLostError(f"{name} is not there: {cause}")


def replace(name: str) -> None:
    """Have Ray kill the actor that hosts work of this name, and start it anew: not before the old
    process is dead, or its node is."""
    with suppress(RayError, ValueError):
        ray.kill(ray.get_actor(name, NAMESPACE), no_restart=False)
