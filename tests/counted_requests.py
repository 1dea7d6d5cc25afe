"""Counts the requests to object stores, and the rounds in which they are sent.

A round is what is under way together. No clock measures it: a request belongs to the round after
the latest one that its sender had heard the answer of, be it by its own request, by a call or job
that it waited for, or by a file that somebody else wrote. So the same calls give the same rounds on
any machine.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from pkray.service.handles.local_handle import Job
from pkray.storage.remote_files import RangeReader
from pkray.storage.requests import Requests


class Request(NamedTuple):
    """One request: what it does, the URL, and its round, from 1."""

    doing: str
    location: str
    round: int


@dataclass
class Counted:
    """What was sent between two moments."""

    sent: list[Request] = field(default_factory=list)
    seconds: float = 0.0

    rounds: int = 0
    """Until the block's own thread went on: what goes on in the background takes none."""

    @property
    def requests(self) -> int:
        return len(self.sent)

    def __str__(self) -> str:
        return "\n".join(
            f"{each.round:4} {each.doing:7} {each.location}"
            for each in sorted(self.sent, key=lambda each: each.round)
        )


Plan = Callable[[str, str], Exception | None]
"""What a request of this kind, to this URL, fails with."""


@dataclass
class _Clock:
    """The round that one piece of work has heard of, and who counts its requests."""

    round: int = 0
    counted: Counted | None = None


class _Thread(threading.local):
    clock = _Clock()
    listed = ""

    def __init__(self) -> None:
        self.clock = _Clock()


class RequestCounter:
    """Counts the requests of all stores of this process, delays them and has some fail.

    Args:
        delay: seconds that each request takes.
        plan: says which fail.
    """

    def __init__(self, delay: float = 0.0, plan: Plan = lambda doing, location: None) -> None:
        self.delay = delay
        self.plan = plan
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._written: dict[str, int] = {}
        self._background: list[Future[Any]] = []

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counted]:
        """Count what this thread does in the block, and what others do for it."""
        with self._lock:
            self._written.clear()
            self._background.clear()
        counted = Counted()
        with self._working(_Clock(0, counted)) as clock:
            began = time.perf_counter()
            yield counted
            counted.seconds = time.perf_counter() - began
            counted.rounds = clock.round
            for future in self._background:
                concurrent.futures.wait([future])

    @contextlib.contextmanager
    def _working(self, clock: _Clock) -> Iterator[_Clock]:
        before, self._thread.clock = self._thread.clock, clock
        try:
            yield clock
        finally:
            self._thread.clock = before

    def _sent(self, doing: str, location: str) -> None:
        """Note a request of this thread, let it take its time, and fail."""
        clock = self._thread.clock
        with self._lock:
            clock.round = max(clock.round, self._written.get(location, 0)) + 1
            if clock.counted is not None:
                clock.counted.sent.append(Request(doing, location, clock.round))
        if self.delay:
            time.sleep(self.delay)
        failure = self.plan(doing, location)
        if failure is not None:
            raise failure

    def _wrote(self, location: str) -> None:
        """Note that a file is there from now on."""
        if self._thread.clock.counted is not None:
            with self._lock:
                self._written[location] = self._thread.clock.round

    def _carried(self, work: Callable[..., Any]) -> tuple[Callable[..., Any], _Clock]:
        """Make work that another thread does for this one, and its clock."""
        clock = _Clock(self._thread.clock.round, self._thread.clock.counted)

        def carried(*args: Any, **kwargs: Any) -> Any:
            with self._working(clock):
                return work(*args, **kwargs)

        return carried, clock

    def _heard(self, clock: _Clock | None) -> None:
        """Note that this thread has waited for work."""
        if clock is not None:
            self._thread.clock.round = max(self._thread.clock.round, clock.round)

    @contextlib.contextmanager
    def installed(self) -> Iterator[RequestCounter]:
        """Count from now on, until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Requests, "send", self._sending(Requests.send))
            patch.setattr(ThreadPoolExecutor, "submit", self._submitting(ThreadPoolExecutor.submit))
            patch.setattr(Future, "result", self._resulting(Future.result))
            patch.setattr(Job, "__init__", self._beginning(Job.__init__))
            patch.setattr(Job, "answer", self._answering(Job.answer))
            patch.setattr(RangeReader, "__init__", self._opening(RangeReader.__init__))
            patch.setattr(RangeReader, "_call", self._reading(RangeReader._call))
            yield self

    def _sending(self, send: Any) -> Any:
        def counted(
            requests: Any, doing: str, location: str, call: Any, *args: Any, **kwargs: Any
        ) -> Any:
            is_part = kwargs.get("attempts") == 1 and getattr(call, "__name__", "") != "close"
            if is_part:  # of an upload, which goes out as it is closed
                return send(requests, doing, location, call, *args, **kwargs)
            if doing == "list":
                return self._list(lambda: send(requests, doing, location, call), location)
            self._sent(doing, location)
            result = send(requests, doing, location, call, *args, **kwargs)
            if doing in ("write", "create"):
                self._wrote(location)
            return result

        return counted

    def _list(self, following: Callable[[], Any], location: str) -> Any:
        """Count pages: the end of a list comes with the last of them."""
        answer = following()
        is_end = answer is None and self._thread.listed == location
        self._thread.listed = "" if answer is None else location
        if not is_end:
            self._sent("list", location)
        return answer

    def _submitting(self, submit: Any) -> Any:
        def submitted(pool: Any, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            carried, clock = self._carried(self._in_turn(pool, work))
            future = submit(pool, carried, *args, **kwargs)
            future.clock = clock
            pool.__dict__.setdefault("submitted", []).append(future)
            if clock.counted is not None:
                self._background.append(future)
            return future

        return submitted

    def _in_turn(self, pool: Any, work: Callable[..., Any]) -> Callable[..., Any]:
        """Begin when the job ended whose thread is free by then, if all jobs take as long."""
        before = pool.__dict__.get("submitted", [])[-pool._max_workers :]
        if len(before) < pool._max_workers:
            return work

        def begun(*args: Any, **kwargs: Any) -> Any:
            concurrent.futures.wait(before[:1])
            if before[0].clock.counted is self._thread.clock.counted:
                self._heard(before[0].clock)
            return work(*args, **kwargs)

        return begun

    def _resulting(self, result: Any) -> Any:
        def waited(future: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return result(future, *args, **kwargs)
            finally:
                self._heard(getattr(future, "clock", None))

        return waited

    def _beginning(self, begin: Any) -> Any:
        def begun(job: Any, work: Any, *args: Any, **kwargs: Any) -> None:
            carried, carried.clock = self._carried(work)  # type: ignore[attr-defined]
            begin(job, carried, *args, **kwargs)

        return begun

    def _answering(self, answer: Any) -> Any:
        def answered(job: Any) -> Any:
            self._heard(getattr(job._work, "clock", None))
            return answer(job)

        return answered

    def _opening(self, begin: Any) -> Any:
        def begun(reader: Any, *args: Any, **kwargs: Any) -> None:
            reader.clock, reader.before = self._thread.clock, None
            begin(reader, *args, **kwargs)
            reader.before = reader.clock.round

        return begun

    def _reading(self, call: Any) -> Any:
        """Threads of Arrow read together, for the one that has opened a file."""

        def called(reader: Any, work: Any) -> Any:
            clock = self._thread.clock
            if reader.before is None or reader.clock.counted is None:
                return call(reader, work)
            if clock.counted is not None:
                try:
                    return call(reader, work)
                finally:
                    reader.clock, reader.before = clock, clock.round
            with self._working(_Clock(reader.before, reader.clock.counted)) as ahead:
                try:
                    return call(reader, work)
                finally:
                    with self._lock:
                        reader.clock.round = max(reader.clock.round, ahead.round)

        return called
