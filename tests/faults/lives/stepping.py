"""Queries that take a step when a life says so, and clocks that go as it says."""

import contextlib
import gc
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pkray.clock
from pkray.relational.continuous.parallel import team
from pkray.relational.continuous.queries import ending, stored, watched
from pkray.relational.continuous.queries.workers import worker
from pkray.relational.continuous.upgrades import upgrade
from pkray.service.handles import local_handle
from tests.faults.faulty_store import Killed
from tests.faults.lives.jobs import READ
from tests.faults.lives.machines import Machine, World, this_machine

GLANCE = 0.002
"""Seconds between two looks of a thread that waits to be let on."""
_BEATS = 200
"""Steps of a query after which it should have come to rest."""


class Turn:
    """Lets the thread of one query go on, loop by loop."""

    def __init__(self, machine: Machine, worker: Any) -> None:
        self.machine = machine
        self.worker = worker
        self.is_waiting = False
        self._permits = 0

    def wait(self) -> None:
        """Wait to be let on; called by the query's thread between two epochs."""
        moved = self.machine.moved
        with moved:
            self.is_waiting = True
            moved.notify_all()
            if self.machine.driven and not self._permits:
                moved.wait(GLANCE)
            while not self._goes_on():
                moved.wait(GLANCE)
            self._permits = max(self._permits - 1, 0)
            self.is_waiting = False

    def _goes_on(self) -> bool:
        if self.machine.state == "dead":
            raise Killed
        if self.machine.state == "asleep":
            return False
        is_asked = self.worker._stopping.is_set() or self.worker._keeping.is_set()
        return bool(self._permits or is_asked or self.machine.driven)

    def take(self) -> None:
        """Let it go on until it waits again, has ended, or its machine sleeps."""
        with self.machine.moved:
            self._permits, self.is_waiting = 1, False
            self.machine.moved.notify_all()
        self.machine.await_(lambda: self.has_rest)

    @property
    def has_rest(self) -> bool:
        if not self.worker.is_running:
            return True
        return self.is_waiting and not self._permits

    def standing(self) -> Any:
        """Tell whether it moved: how far it is, and in which run."""
        status, run = self.worker._status, self.worker._run
        name = run.name if run is not None else ""
        return status["epoch"], dict(status["sources"]), self.worker._state, name


def settle(machine: Machine) -> None:
    """Let the queries of a machine read all that there is, or meet what is planned for it."""
    readers_last = sorted(machine.workers, key=lambda each: bool(each.name == READ))
    for turn in [each._turn for each in readers_last]:
        if machine.is_awake and turn.worker.is_running:
            turn.worker.look_soon()
            machine.await_(lambda turn=turn: turn.has_rest)  # type: ignore[misc]
        for _ in range(_BEATS):
            if not (machine.is_awake and turn.worker.is_running):
                break
            before = turn.standing()
            turn.take()
            if turn.standing() == before:
                break


@contextlib.contextmanager
def stepping(worlds: Callable[[], World | None]) -> Iterator[None]:
    """Within it, queries on machines go on when they are told to, and clocks follow the world's.

    Args:
        worlds: gives the world that is played in now.
    """
    real = pkray.clock.now_millis

    def now_millis() -> int:
        world = worlds()
        return real() if world is None else world.now()

    begin, wait = worker.QueryWorker.__init__, worker.QueryWorker._wait

    def began(self: Any, *args: Any, **kwargs: Any) -> None:
        machine = this_machine()
        if machine is not None:
            self._turn = Turn(machine, self)
            machine.workers.append(self)
        begin(self, *args, **kwargs)

    def waited(self: Any, run: Any, interval: float, begun: float) -> None:
        turn = getattr(self, "_turn", None)
        if turn is None or self._trigger.ends:
            wait(self, run, interval, begun)
            return
        turn.wait()
        self._look()
        self._keep(run)

    with pytest.MonkeyPatch.context() as patch:
        for module in list(sys.modules.values()):
            if getattr(module, "now_millis", None) is real:
                patch.setattr(module, "now_millis", now_millis)
        patch.setattr(worker.QueryWorker, "__init__", began)
        patch.setattr(worker.QueryWorker, "_wait", waited)
        patch.setattr(worker, "POLL_SECONDS", GLANCE)
        patch.setattr(worker, "FIRST_PAUSE_SECONDS", GLANCE)
        patch.setattr(upgrade, "_LOOK_SECONDS", GLANCE)
        for module in (ending, stored, watched):
            patch.setattr(module, "time", _Hurried(worlds))
        patch.setattr(os, "urandom", random.Random(time.time_ns()).randbytes)  # a call less
        answered = staticmethod(_answered(team.ThreadHandle._answer))
        patch.setattr(team.ThreadHandle, "_answer", answered)
        patch.setattr(local_handle.Job, "start", _in_place)
        patch.setattr(threading, "excepthook", _unless_killed(threading.excepthook))
        with _quiet(), _rarely_collected():
            yield


def _in_place(job: Any) -> None:
    """Do a job of a service in the thread that asks for it: calls of a store keep their order."""
    job.run()
    job.end()


def _answered(answer: Callable[..., None]) -> Callable[..., None]:
    """Have a thread of a dead process end what waits for it, which ends with its process."""

    def answered(future: Any, call: Callable[..., Any], arguments: Any) -> None:
        try:
            answer(future, call, arguments)
        except Killed:
            future.set_exception(RuntimeError("its process is dead"))

    return answered


class _Hurried:
    """The module ``time`` for who sleeps: the world's clock goes on instead."""

    def __init__(self, worlds: Callable[[], World | None]) -> None:
        self._worlds = worlds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        world = self._worlds()
        if world is not None:
            world.late += int(seconds * 1000)
        time.sleep(GLANCE / 2)


def _unless_killed(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda args: None if issubclass(args.exc_type, Killed) else hook(args)


@contextlib.contextmanager
def _rarely_collected() -> Iterator[None]:
    """Within it, the garbage collector takes a tenth of the time less."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within it, what pkray warns of is not printed: most of it is wanted here."""
    log = logging.getLogger("pkray")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
