"""Calls within a process on threads of their own, so that whoever waits for one can give up."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_MOST_IDLE = 16
"""Threads that are kept for the next job."""
_idle: list[SimpleQueue[Job[Any]]] = []
os.register_at_fork(after_in_child=_idle.clear)  # threads do not come along


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
        """Its answer, or its error raised, once it has ended."""
        if self._error is not None:
            raise self._error
        return cast(T, self._answer)


class Lane:
    """Jobs that run one after another, in the order in which they came. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Job[Any]] = deque()
        self._is_running = False

    def add(self, job: Job[Any]) -> None:
        with self._lock:
            self._waiting.append(job)
            if self._is_running:
                return
            self._is_running = True
        Job(self._drain).start()

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
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
