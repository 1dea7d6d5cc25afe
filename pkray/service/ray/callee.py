"""An actor that is called: how long it may take, and what is done where it does not answer."""

import logging
import math
import random
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError

from pkray.errors import PkrayError, ServiceUnavailableError, StorageError
from pkray.service.call_limits import CallLimits
from pkray.service.handles.handle import GLANCE_SECONDS, LEAST_WATCHED, Method
from pkray.service.progress import LOOKUPS

T = TypeVar("T")
_log = logging.getLogger(__name__)

_SIGNS = 12
"""Signs of life that are asked for before an actor is replaced, if that takes a minute or less."""
_LONGEST_APART_SECONDS = 5.0
"""However long a call may take, a callee that is gone is noticed soon."""
_START_SECONDS = 20.0
"""How long one that may be starting is left alone: Ray takes 5 s to kill a stopped process."""


class Callee:
    """An actor, and since when it is silent.

    An actor that does not answer, or does not get on with a call, is killed, and Ray starts it
    anew in its place: under its name, for every handle. Ray does not start it before the old
    process is dead, or its node is. Killing it twice does no harm, as what an owner loses is pushed
    again.

    Args:
        name: what it is, for messages.
        look: where there is no answer, raises an error of its own if none will ever come.
        find: the actor of its name, where this one is dead for good; started if there is none.
        clock: seconds.
    """

    def __init__(
        self,
        actor: Any,
        name: str,
        limits: CallLimits,
        look: Callable[[], None] = lambda: None,
        find: Callable[[], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.actor = actor
        self._find = find
        self.name = name
        self.limits = limits
        self.clock = clock
        self._look = look
        self.left_alone_until = clock() + _START_SECONDS
        self._silent_since: float | None = None
        self._node: str | None = None

    def wait(self, ref: Any, method: Method[..., T], called: float) -> T:
        """Wait for the answer of a call that was made at that time.

        Raises:
            ServiceUnavailableError: it is dead, silent, or does not get on.
        """
        try:
            try:
                answer: T = ray.get(ref, timeout=GLANCE_SECONDS)
            except GetTimeoutError:
                answer = self._wait_long(ref, method, called)
            self._silent_since, self.left_alone_until = None, -math.inf
            return answer
        except RayTaskError as error:
            raise cause_of(error) from None
        except RayError as error:
            if isinstance(error, ActorDiedError):
                self._find_again()
            self.unavailable(
                f"does not answer ({type(error).__name__}): it is restarting, or its node is gone; "
                "try again",
                error,
            )

    def _wait_long(self, ref: Any, method: Method[..., T], called: float) -> T:
        watch = CallWatch(self, method, called)
        while True:
            try:
                watch.check()
            except PkrayError:
                ref.future()  # Ray prints late errors that nobody waits for
                raise
            with suppress(GetTimeoutError):
                answer: T = ray.get(ref, timeout=GLANCE_SECONDS)
                return answer

    def heard(self, node: str) -> None:
        """Note that it lives, on this node."""
        self._silent_since, self._node = None, node

    def silent_seconds(self) -> float:
        """Say how long it has not been heard of, since that was first noticed."""
        now = self.clock()
        if self._silent_since is None:
            self._silent_since = now
        return now - self._silent_since

    def ask_sign(self, group: str) -> Any:
        """Ask for a sign of life: see `CallProgress.sign`."""
        return self.actor.sign_of_life.remote(group)

    def replace(self, is_silent: bool) -> None:
        """Have Ray kill it, which takes some seconds where it is stopped, and start it anew.

        Args:
            is_silent: it gives no sign of life; else a call does not get on.
        """
        self._silent_since = None
        self.left_alone_until = self.clock() + _START_SECONDS
        _log.warning("%s is replaced: it shows no progress", self)
        self._replace(is_silent)

    def _replace(self, is_silent: bool) -> None:
        with suppress(RayError, ValueError):
            ray.kill(self.actor, no_restart=False)

    def check_place(self) -> None:
        """See whether another one is in its place; called now and then while it is silent.

        Raises:
            ServiceUnavailableError: another one is.
        """

    def unavailable(self, what: str, error: Exception | None = None) -> NoReturn:
        """Say that it does not answer.

        Raises:
            ServiceUnavailableError: unless `look` knows better.
        """
        with suppress(StorageError):
            self._look()
        raise ServiceUnavailableError(
            f"{self} {what}", callee=self.name, node=self._node
        ) from error

    def _find_again(self) -> None:
        with suppress(StorageError):
            self._look()
        if self._find is not None:
            with suppress(ValueError, RayError, ServiceUnavailableError):
                self.actor = self._find()

    def __str__(self) -> str:
        return self.name if self._node is None else f"{self.name} on node {self._node}"


class CallWatch:
    """One call that takes long.

    Args:
        called: when it was made.
    """

    def __init__(self, callee: Callee, method: Method[..., Any], called: float) -> None:
        self._callee = callee
        self._method = method
        limits = callee.limits
        self._limit = limits.lookup_seconds if method.is_lookup else limits.call_seconds
        self._apart = min(self._limit / _SIGNS, _LONGEST_APART_SECONDS)
        now = callee.clock()
        self._moved = max(called, now - (1 - LEAST_WATCHED) * self._limit)
        self._lookups: dict[int, int] = {}
        self._asked: Any = None
        self._asked_at = now - self._apart
        self._sign: Hashable = None

    def check(self) -> None:
        """Check that it gets on.

        Raises:
            ServiceUnavailableError: it does not; a callee that is lost is replaced.
        """
        callee, now = self._callee, self._callee.clock()
        self._listen(now)
        if now - self._moved < self._limit:
            return
        if self._method.is_lookup:
            self._abandon(now)
        elif now >= callee.left_alone_until:
            self._replace()

    @property
    def _is_silent(self) -> bool:
        return self._sign is None

    def _listen(self, now: float) -> None:
        if self._asked is not None:
            ready, _ = ray.wait([self._asked], timeout=0)
            if ready:
                self._hear(now)
        if self._asked is None and now - self._asked_at >= self._apart:
            self._asked_at = now
            with suppress(RayError):
                group = LOOKUPS if self._method.is_lookup else self._method.group.name
                self._asked = self._callee.ask_sign(group)
        if self._asked is not None and now > self._asked_at:
            self._callee.check_place()
            if now - self._asked_at >= self._apart:
                self._callee.silent_seconds()

    def _hear(self, now: float) -> None:
        asked, self._asked = self._asked, None
        with suppress(RayError):
            node, sign = ray.get(asked, timeout=GLANCE_SECONDS)
            self._callee.heard(node)
            if self._method.is_lookup:
                has_moved = self._lookups_have_moved(dict(sign[1]))
            else:
                has_moved = self._sign not in (None, sign)
            if has_moved:
                self._moved = now
            self._sign = sign

    def _lookups_have_moved(self, times: dict[int, int]) -> bool:
        """Whether those that were under way get on; others that come and go would hide that this
        one hangs."""
        before = self._lookups
        left = {number: times[number] for number in before if number in times}
        self._lookups = left or times
        return left != before

    def _abandon(self, now: float) -> NoReturn:
        """Give a lookup up; whoever has been silent for as long as any call may take is
        replaced."""
        callee = self._callee
        is_lost = callee.silent_seconds() >= callee.limits.call_seconds
        if self._is_silent and is_lost and now >= callee.left_alone_until:
            callee.replace(is_silent=True)
        callee.unavailable(
            f"did not answer a {self._method.name} within {self._limit:g} s without progress "
            "(lookup_timeout): try again"
        )

    def _replace(self) -> NoReturn:
        callee = self._callee
        seconds = callee.limits.call_seconds
        was_silent = self._is_silent
        if was_silent:  # others notice it too: whoever comes late finds it replaced
            time.sleep(random.SystemRandom().uniform(0, seconds / _SIGNS))
            self._listen(callee.clock())
        if self._is_silent or not was_silent:
            callee.replace(self._is_silent)
        callee.unavailable(
            f"showed no progress with {self._method.name!r} for {seconds:g} s (call_timeout): "
            "it is replaced; try again"
        )


def cause_of(error: RayTaskError) -> BaseException:
    """Find what an actor raised: Ray's own error has its whole traceback as its text."""
    cause = error.cause
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    return cause if isinstance(cause, BaseException) else error
