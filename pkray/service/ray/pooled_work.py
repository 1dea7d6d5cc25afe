"""Hosted work in the workers of a pool."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ray import cloudpickle

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.service.hosted import NOTHING, Caller, Hosted, Hosting, Reserved
from pkray.service.pool.assignments import LEASE_SECONDS
from pkray.service.pool.calls import WorkClient
from pkray.service.pool.parts import HostedWork
from pkray.service.pool.work import FENCED
from pkray.service.ray.handle import PlacedHandle
from pkray.service.ray.hosted import ENDED, FarHosted, error_of
from pkray.service.ray.pool import Pool

_LOOK_SECONDS = 0.05
_SLICE_SECONDS = 1.0
"""What one call waits at most for something that takes its time: who is asked is seen to live."""
_SILENT_SECONDS = 2 * LEASE_SECONDS


class PoolHosting(Hosting):
    """Hosts work in the workers of one pool.

    Args:
        cluster: hosts work in processes of its own, on the same machines.
        name: of the pool.
        pool: gives it, started where it is not there.
    """

    def __init__(
        self, cluster: Hosting, name: str, pool: Callable[[], Pool], limits: CallLimits
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._pool = pool
        self._limits = limits

    @property
    def processors(self) -> int:
        return self._cluster.processors

    @property
    def options(self) -> dict[str, Any]:
        return self._cluster.options

    @property
    def silent_seconds(self) -> float:
        """For how long a worker may be silent before its work is moved."""
        return min(self._cluster.silent_seconds, _SILENT_SECONDS)

    def pooled(self, warehouse: str, storage_options: Mapping[str, Any]) -> Hosting:
        return self._cluster.pooled(warehouse, storage_options)

    def host(
        self, name: str, make: Callable[..., Any], *arguments: Any, reserved: Reserved = NOTHING
    ) -> Hosted:
        """Find the work of this name, or begin it: see `Hosting`.

        Nothing is reserved: the workers are there.
        """
        pool = self._pool()
        dumps: Any = cloudpickle.dumps  # it has no types
        pool.keeper.open(HostedWork(name, dumps((make, arguments)), self._limits))
        found = self._work(name)
        with suppress(ServiceUnavailableError):  # the worker is told of it by the keeper
            found.submit(WorkClient.status)
        return PooledHosted(pool, name, found)

    def caller(self, name: str) -> Caller:
        return PoolCaller(self._work(name), name)

    def replace(self, name: str) -> None:
        """Have another worker do the work of this name."""
        with suppress(ServiceUnavailableError):
            work = HostedWork(name, b"", self._limits)
            given = self._pool().keeper.locate.once(work, 0)
            self._pool().keeper.move.once(work.part(), given.number)

    def hosted(self, name: str) -> Hosted | None:
        if not Pool.is_running(self._name) or not self._pool().keeper.has(name):
            return None
        return PooledHosted(self._pool(), name, self._work(name))

    def end(self, name: str) -> None:
        """End the work of this name, and that whose names go on with a slash."""
        if Pool.is_running(self._name):
            self._pool().release(name)

    def _work(self, name: str) -> PlacedHandle:
        return PlacedHandle(self._pool(), HostedWork(name, b"", self._limits), 0)


class PoolCaller(Caller):
    """Calls methods of work in a pool."""

    def __init__(self, handle: PlacedHandle, name: str) -> None:
        self._handle = handle
        self._name = name

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            place = self._handle.place()
        except ServiceUnavailableError as error:
            answer.set_exception(error)
            return answer

        def answered(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                answer.set_result(done.result())
                return
            cause = error_of(self._name, error)
            if isinstance(cause, ServiceUnavailableError):
                self._handle.leave(place)
            answer.set_exception(cause)

        given = place.send(WorkClient.do, (method, *arguments), {})
        given.future().add_done_callback(answered)
        return answer


class PooledHosted(FarHosted):
    """Work that a worker of a pool does, whichever has it."""

    def __init__(self, pool: Pool, name: str, handle: PlacedHandle) -> None:
        self._pool = pool
        self._name = name
        self._handle = handle

    def status(self) -> dict[str, Any]:
        return self._ask(self._handle.limits.patience())[1]

    @property
    def is_running(self) -> bool:
        return self._ask(self._handle.limits.patience())[0]

    def keep(self, seconds: float = 60.0) -> bool:
        return self._repeat(WorkClient.keep, seconds)

    def stop(self, seconds: float = 60.0) -> bool:
        return self._repeat(WorkClient.stop, seconds)

    def _repeat(self, method: Any, seconds: float) -> bool:
        """Call what may be called again, in slices, until it says that it is done."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                if self._handle.call_once(method, max(min(left, _SLICE_SECONDS), 0.0)):
                    return True
            except ServiceUnavailableError:
                if not self._ask(max(left, _SLICE_SECONDS))[0]:
                    return True
            if left <= 0:
                return False

    def _ask(self, seconds: float) -> tuple[bool, dict[str, Any]]:
        """Ask for the status, until there is an answer; again while it changes its place."""
        deadline = time.monotonic() + seconds
        while True:
            is_late = time.monotonic() >= deadline
            try:
                place = self._handle.place()
                running, status = self._handle.call_once(WorkClient.status)
                if status.get("state") != FENCED or is_late:
                    return running, status
                self._handle.leave(place)  # it goes on elsewhere, or is begun anew
            except ServiceUnavailableError:
                if is_late and self._pool.keeper.has(self._name):
                    raise
            if not self._pool.keeper.has(self._name):
                return False, dict(ENDED)
            time.sleep(_LOOK_SECONDS)
