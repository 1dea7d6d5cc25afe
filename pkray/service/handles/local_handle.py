"""Carries calls to an object of this process, each on a thread that its caller may give up."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, cast

from pkray import spans
from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.handles.handle import GLANCE_SECONDS, LEAST_WATCHED, Method, Pending
from pkray.service.progress import BESIDE_CALLS, WorkingThreads

P = ParamSpec("P")
T = TypeVar("T")

_MOST_IDLE = 16
"""Threads that are kept for the next job."""
_idle: list[SimpleQueue[Job[Any]]] = []
os.register_at_fork(after_in_child=_idle.clear)  # threads do not come along


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
        """Begin a call on a thread."""
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
        """Begin a call on a thread of its own, and wait for the answer."""
        pending = self._pending(method, *args, **kwargs)
        pending.job.start()
        return pending.result()

    call_once = call  # nothing restarts here

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run other work than a listed method, given up as a call is."""
        pending = _LocalPending(self, work.__name__, Job(work, args, kwargs, self.working))
        pending.job.start()
        return pending.result()

    def close(self) -> None:
        """Take nothing more; what was submitted is done."""
        last = Job(lambda: None)
        self._is_closed = True
        self._lane.add(last)
        _LocalPending(self, "close", last).result()

    def _pending(self, method: Method[P, T], *args: P.args, **kwargs: P.kwargs) -> _LocalPending[T]:
        work = spans.carried(method.of(self.target))
        if method.is_lookup:
            alone = WorkingThreads()
            return _LocalPending(self, method.name, Job(work, args, kwargs, alone), alone)
        noted = None if method.is_short else self.working
        return _LocalPending(self, method.name, Job(work, args, kwargs, noted))


class _LocalPending(Generic[T]):
    """A job, given up where it takes too long without progress of its owner.

    Args:
        alone: notes a lookup, whose own progress alone counts: others that come again and again
            would hide that it hangs.
    """

    def __init__(
        self, handle: LocalHandle, name: str, job: Job[T], alone: WorkingThreads | None = None
    ) -> None:
        self.job = job
        self._handle = handle
        self._name = name
        self._alone = alone
        self._called = time.monotonic()

    def result(self) -> T:
        if not self.job.wait(GLANCE_SECONDS):
            self._wait_long()
        return self.job.answer()

    def _wait_long(self) -> None:
        limits, is_lookup = self._handle.limits, self._alone is not None
        seconds = limits.lookup_seconds if is_lookup else limits.call_seconds
        sign, moved = self._sign(), time.monotonic()
        if is_lookup:  # of several that were asked at once the last hangs no longer than the first
            moved = max(self._called, moved - (1 - LEAST_WATCHED) * seconds)
        while not self.job.wait(GLANCE_SECONDS):
            now, seen = time.monotonic(), self._sign()
            if seen != sign:
                sign, moved = seen, now
            elif now - moved >= seconds:
                self._abandon(seconds, "lookup_timeout" if is_lookup else "call_timeout")

    def _sign(self) -> Hashable:
        if self._alone is not None:
            return self._alone.sign()
        return self._handle.working.sign(), BESIDE_CALLS.sign()

    def _abandon(self, seconds: float, limit: str) -> NoReturn:
        raise ServiceUnavailableError(
            f"{self._handle.name} in this process gave no answer to {self._name!r} within "
            f"{seconds:g} s without progress ({limit}): its storage hangs, or much of its machine "
            "is taken; try again",
            callee=self._handle.name,
        )


class Job(Generic[T]):
    """One call.

    Args:
        noted: entered while it runs.
    """

    __slots__ = ("_answer", "_args", "_done", "_error", "_kwargs", "_noted", "_work")

    def __init__(
        self,
        work: Callable[..., T],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = MappingProxyType({}),
        noted: AbstractContextManager[None] | None = None,
    ) -> None:
        self._work = work
        self._args = args
        self._kwargs = kwargs
        self._noted = noted or nullcontext()
        self._answer: T | None = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self) -> None:
        """Run it at once. Its thread does not keep the process alive."""
        try:
            _idle.pop().put(self)
        except IndexError:
            inbox: SimpleQueue[Job[Any]] = SimpleQueue()
            inbox.put(self)
            threading.Thread(target=_serve, args=(inbox,), name="pkray-call", daemon=True).start()

    def run(self) -> None:
        """Run it here, once."""
        try:
            with self._noted:
                self._answer = self._work(*self._args, **self._kwargs)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        """Let those that wait go on."""
        self._done.release()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, within this time."""
        if not self._done.acquire(timeout=seconds):
            return False
        self._done.release()
        return True

    def answer(self) -> T:
        """Return its answer, or raise its error, once it has ended."""
        if self._error is not None:
            raise self._error
        return cast(T, self._answer)


class Lane:
    """Jobs that begin in the order in which they came. Thread-safe.

    Args:
        width: how many run at a time.
    """

    def __init__(self, width: int = 1) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Job[Any]] = deque()
        self._width = width
        self._running = 0

    def add(self, job: Job[Any]) -> None:
        """Queue a job."""
        with self._lock:
            self._waiting.append(job)
            if self._running == self._width:
                return
            self._running += 1
        Job(self._drain).start()

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                job = self._waiting.popleft()
            job.run()
            job.end()


def _serve(inbox: SimpleQueue[Job[Any]]) -> None:
    while True:
        job = inbox.get()
        job.run()
        is_kept = len(_idle) < _MOST_IDLE
        if is_kept:
            _idle.append(inbox)
        job.end()
        del job
        if not is_kept:
            return
