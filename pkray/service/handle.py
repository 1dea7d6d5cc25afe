"""How one part of the service calls another, in this process or in an actor."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.job import Job, Lane
from pkray.service.progress import BESIDE_CALLS, WorkingThreads


class Pending(Protocol):
    """An answer on its way."""

    def result(self) -> Any:
        """Wait for it.

        Raises:
            ServiceUnavailableError: the callee died or does not answer.
        """
        ...


class Handle(Protocol):
    """Calls methods of an owner or a coordinator."""

    limits: CallLimits

    def submit(self, method: str, *args: Any) -> Pending: ...

    def call(self, method: str, *args: Any) -> Any:
        """`submit` and wait, again while the callee restarts: for what may be done twice."""
        ...

    def call_once(self, method: str, *args: Any) -> Any:
        """`submit` and wait; what is not answered may have been done, or not."""
        ...


class LocalHandle:
    """An object of this process; what is submitted runs in order, but for what takes long or must
    not wait.

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

    def submit(self, method: str, *args: Any) -> Pending:
        if self._is_closed:
            raise ServiceUnavailableError(
                f"{self.name} has ended: its catalog was closed, or its table dropped or renamed; "
                "connect and load the table again",
                name=self.name,
            )
        if method in _BESIDE:
            return self._start(method, args)
        pending = self._pending(method, args)
        self._lane.add(pending.job)
        return pending

    def call(self, method: str, *args: Any) -> Any:
        return self._start(method, args).result()

    def call_once(self, method: str, *args: Any) -> Any:
        return self._start(method, args).result()

    def close(self) -> None:
        """Take nothing more; what was submitted is done."""
        last = Job(lambda: None, ())
        self._is_closed = True
        self._lane.add(last)
        _LocalPending(self, "close", last).result()

    def _start(self, method: str, args: tuple[Any, ...]) -> _LocalPending:
        pending = self._pending(method, args)
        pending.job.start()
        return pending

    def _pending(self, method: str, args: tuple[Any, ...]) -> _LocalPending:
        noted = None if method in _SHORT else self.working
        job = Job(getattr(self.target, method), args, noted)
        return _LocalPending(self, method, job)


_BESIDE = frozenset({"prepare", "lookup", "assign", "heartbeat", "locate", "place", "locate_keys"})
"""What does not wait for the writes before it, as on Ray. Owners prepare one commit at a time."""

_SHORT = frozenset({"lookup", "heartbeat", "compactions", "newest_generation", "stats", "ping"})
"""What comes again and again, and would hide that other calls hang."""

GLANCE_SECONDS = 0.5
"""How long one look at a late answer takes. Who waits for others is seen to live by it."""


class _LocalPending:
    """A job, given up where it takes too long, or longer without progress of its owner."""

    def __init__(self, handle: LocalHandle, method: str, job: Job) -> None:
        self.job = job
        self._handle = handle
        self._method = method
        self._called = time.monotonic()

    def result(self) -> Any:
        if not self.job.wait(GLANCE_SECONDS):
            self._wait_long()
        return self.job.answer()

    def _wait_long(self) -> None:
        limits = self._handle.limits
        total = limits.total(self._method)
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
            f"{self._handle.name} in this process gave no answer to {self._method!r} within "
            f"{after}: its storage hangs, or much of its machine is taken; try again",
            callee=self._handle.name,
        )


def call_all(
    handles: Iterable[Handle], method: str, arguments: Callable[[int], tuple[Any, ...]]
) -> list[Any]:
    """Call the method of every handle side by side; the answers in the handles' order."""
    pending: Sequence[Pending] = [
        handle.submit(method, *arguments(index)) for index, handle in enumerate(handles)
    ]
    return gather(pending)


def gather(
    pending: Sequence[Pending],
    together: Callable[[Sequence[Exception]], Exception] = lambda failures: failures[0],
) -> list[Any]:
    """All answers; failures are raised when every call has ended.

    Args:
        together: what stands for all failures; by default the first.
    """
    answers: list[Any] = []
    failures: list[Exception] = []
    for one in pending:
        try:
            answers.append(one.result())
        except Exception as error:
            failures.append(error)
    if failures:
        raise together(failures)
    return answers
