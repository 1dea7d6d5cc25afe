"""Notice for a pool's keeper that workers have died."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped] # Ray brings it
import ray
from ray.exceptions import RayError, RayTaskError

from pkray.service.pool.assignments import Assignments
from pkray.service.pool.parts import WorkerProcess

_LOOK_SECONDS = 0.1
"""Between two looks whether a process is gone: they cost a read of a small file."""


def this_process(token: str) -> WorkerProcess:
    """Describe the process of a worker, for those that watch it."""
    return WorkerProcess(
        token, ray.get_runtime_context().get_node_id(), os.getpid(), _process_ids()
    )


def _process_ids() -> str:
    """Name the set of process ids that this process is among: containers have their own."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def is_gone(pid: int) -> bool:
    """Whether no process of this machine has an id; one that nobody has buried yet is gone, too."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


async def end_of(process: WorkerProcess) -> bool:
    """Wait until a process of this node is gone; false where that cannot be seen from here."""
    if process.ids != _process_ids():
        return False
    while not is_gone(process.pid):
        await asyncio.sleep(_LOOK_SECONDS)
    return True


class DeathWatch:
    """Tells assignments of workers that have died.

    Ray ends the call in which each worker is; so it seems to be dead. It is known to be dead where
    a process of its node sees that its process is gone: this one, or another worker.

    Args:
        workers: the actors, by their numbers.
    """

    def __init__(self, served: Assignments, workers: Callable[[], Mapping[int, Any]]) -> None:
        self._served = served
        self._workers = workers
        self._here = this_process("")
        self._calls: dict[Any, tuple[int, WorkerProcess, bool]] = {}
        self._ended: set[tuple[WorkerProcess, bool]] = set()

    def look(self) -> bool:
        """Look once, and go on."""
        workers = self._workers()
        watched = {n: each for n, each in self._served.watched().items() if n in workers}
        for number, process in watched.items():
            if self._is_here(process) and is_gone(process.pid):
                self._tell(number, process, is_dead=True)
        self._call(watched)
        self._hear()
        self._ended = {each for each in self._ended if each[0] in watched.values()}
        return True

    def _is_here(self, process: WorkerProcess) -> bool:
        return (process.node, process.ids) == (self._here.node, self._here.ids)

    def _call(self, watched: dict[int, WorkerProcess]) -> None:
        """Call those who tell of deaths, and are not called yet."""
        workers = self._workers()
        called = {(process, sees) for _, process, sees in self._calls.values()} | self._ended
        for number, process in watched.items():
            if (process, False) not in called:
                with suppress(RayError):
                    self._calls[workers[number].live.remote()] = number, process, False
            if (process, True) not in called and not self._is_here(process):
                for beside in self._beside(number, watched):
                    with suppress(RayError):
                        call = workers[beside].end_of.remote(process)
                        self._calls[call] = number, process, True

    @staticmethod
    def _beside(number: int, watched: dict[int, WorkerProcess]) -> Iterator[int]:
        """Yield one other worker of a worker's node, the next in turn, if there is any."""
        node = watched[number].node
        others = [each for each in watched if watched[each].node == node and each != number]
        yield from sorted(others, key=lambda each: (each < number, each))[:1]

    def _hear(self) -> None:
        if not self._calls:
            return
        ended, _ = ray.wait([*self._calls], num_returns=len(self._calls), timeout=0)
        for call in ended:
            number, process, sees = self._calls.pop(call)
            is_dead, has_answered = False, not sees
            try:
                is_dead, has_answered = bool(ray.get(call, timeout=0)), True
            except RayTaskError:  # a worker of an older version cannot tell
                has_answered = True
            except RayError:  # it is the one who was asked that is lost
                pass
            if has_answered:
                self._ended.add((process, sees))
            if is_dead or not sees:
                self._tell(number, process, is_dead)

    def _tell(self, number: int, process: WorkerProcess, is_dead: bool) -> None:
        """Tell of a death, and have the others see at once what work they have now."""
        self._served.suspect(number, process, is_dead)
        workers = self._workers()
        for each in self._served.watched():
            if each != number:
                with suppress(RayError, KeyError):
                    workers[each].renew.remote()
