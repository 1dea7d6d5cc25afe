"""Work that no service has a part in, spread over processes of the cluster."""

from __future__ import annotations  # an actor's handle carries them to other versions: as text

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.service.handles.handle import GLANCE_SECONDS, Group, Method
from pkray.service.progress import CallProgress
from pkray.service.ray.actors import in_concurrency_group, sign_of_life
from pkray.service.ray.callee import Callee, CallWatch

_TRIES = 3
"""Times that a piece of work is begun whose process is lost."""
_STARTS = 10
"""How many times the limit of a call it may take until a processor is free."""


_WORK = Group("work", threads=1)


class _Process:
    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.progress = CallProgress()
        self._work = work

    @ray.method(concurrency_group="watch")
    def sign_of_life(self, group: str) -> tuple[str, object]:
        return sign_of_life(self.progress, group)

    @in_concurrency_group(_WORK, is_noted=False)
    def begin(self) -> None:
        """Answer once there is a processor for it."""

    @in_concurrency_group(_WORK)
    def run(self, argument: Any) -> Any:
        return self._work(argument)


_RUN: Method[[Any], Any] = Method(_Process.run, _WORK)


class Worker:
    """One process, and what it is doing.

    Attributes:
        number: of the piece of work; None: it waits for a processor, or for work.
    """

    def __init__(self, kind: Any, work: Any, limits: CallLimits) -> None:
        self._actor = kind.remote(work)
        self._callee = Callee(self._actor, "a process that compacts", limits)
        self.number: int | None = None
        self.ref: Any = self._actor.begin.remote()
        self._watch: CallWatch | None = None

    def begin(self, number: int, argument: Any) -> None:
        """Give it an argument to work on."""
        self.number, self.ref = number, self._actor.run.remote(argument)
        self._watch = CallWatch(self._callee, _RUN, time.monotonic())

    def check(self) -> None:
        """Check that it gets on.

        Raises:
            ServiceUnavailableError: it does not get on.
        """
        if self._watch is not None:
            self._watch.check()

    def answer(self) -> Any:
        """Take what came of its work, an error perhaps; it is free from now on."""
        ref, self.ref = self.ref, None
        self.number = self._watch = None
        try:
            return self._callee.wait(ref, _RUN, time.monotonic())
        except Exception as error:
            return error

    def end(self) -> None:
        ray.kill(self._actor)


class Workers:
    """A pool of processes that do the same work with many arguments; they end with it.

    Args:
        count: how many; each takes a processor.
    """

    def __init__(self, work: Callable[[Any], Any], count: int, limits: CallLimits) -> None:
        remote: Any = ray.remote
        groups = {_WORK.name: _WORK.threads, "watch": 1}
        kind = remote(num_cpus=1, concurrency_groups=groups)(_Process)
        self._hire: Callable[[], Worker] = lambda: Worker(kind, ray.put(work), limits)
        self._workers = [self._hire() for _ in range(count)]
        self._patience = _STARTS * limits.call_seconds

    def run(self, arguments: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield positions of the arguments with what came of them, an error perhaps, as they end.

        Raises:
            ServiceUnavailableError: no processor gets free.
        """
        waiting, tries = deque(range(len(arguments))), Counter[int]()
        worked = time.monotonic()
        while waiting or any(worker.number is not None for worker in self._workers):
            for worker in self._workers:
                if worker.ref is None and waiting:
                    worker.begin(waiting[0], arguments[waiting.popleft()])
            for number, outcome in self._ended():
                tries[number] += 1
                if isinstance(outcome, ServiceUnavailableError) and tries[number] < _TRIES:
                    waiting.append(number)
                else:
                    yield number, outcome
            if any(worker.number is not None or worker.ref is None for worker in self._workers):
                worked = time.monotonic()
            elif time.monotonic() - worked > self._patience:
                raise ServiceUnavailableError(
                    f"no processor of the Ray cluster was free for {self._patience:g} s: end what "
                    "takes them, or add nodes",
                    callee="compaction",
                )

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.end()

    def _ended(self) -> Iterator[tuple[int, Any]]:
        busy = [worker.ref for worker in self._workers if worker.ref is not None]
        ready, _ = ray.wait(busy, timeout=GLANCE_SECONDS)
        for at, worker in enumerate(self._workers):
            number, outcome = worker.number, None
            try:
                if worker.ref not in ready:
                    worker.check()
                    continue
                outcome = worker.answer()
            except ServiceUnavailableError as error:
                outcome = error
            if isinstance(outcome, ServiceUnavailableError):
                worker.end()
                self._workers[at] = self._hire()
            if number is not None:
                yield number, outcome
