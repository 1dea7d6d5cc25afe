"""The parts of tables that one worker of a pool hosts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Protocol

from pkray.errors import PkrayError, ServiceError, ServiceUnavailableError, StorageError
from pkray.service.handles.handle import Method
from pkray.service.handles.local_handle import Job
from pkray.service.owner.owner import BucketOwner
from pkray.service.pool.assignments import LEASE_SECONDS
from pkray.service.pool.calls import KeeperClient
from pkray.service.pool.parts import (
    Assignment,
    HostedThing,
    HostedWork,
    MovedError,
    Part,
    WorkerProcess,
)
from pkray.service.pool.work import Work
from pkray.service.progress import LOOKUPS, START, CallProgress
from pkray.service.timing.pulse import Pulse

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0
"""Seconds for which a call waits for another one that renews the lease."""
BEAT_SECONDS = 1.0
"""How often a worker renews its lease."""
_IDLE_SECONDS = 900.0
"""After which a part that holds nothing is closed; it is opened again when it is called."""
_LEAVE_SECONDS = 5.0
"""How long handing over waits for what closes: others have it then in any case."""
_ENDED_SECONDS = 60.0
"""After which work that has ended, and that nobody asks for, is hosted no more."""


def awake_and_asleep() -> float:
    """Return seconds of a clock that goes on while the machine sleeps, where there is one."""
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if kind is None else time.clock_gettime(kind)


class Lease:
    """Runs out some seconds after the keeper was last asked. Thread-safe.

    Args:
        ask: asks the keeper, and drops what is no longer the worker's.
        clock: seconds; also while the machine sleeps.
    """

    def __init__(
        self, ask: Callable[[], object], clock: Callable[[], float] = awake_and_asleep
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._until = -1.0
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Ask the keeper.

        Raises:
            ServiceUnavailableError: it does not answer.
        """
        if not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            raise ServiceUnavailableError(
                "the keeper of the pool of workers does not answer: try again"
            )
        try:
            asked = self._clock()  # before: the answer may be long on its way
            self._ask()
            self._until = asked + LEASE_SECONDS
        finally:
            self._lock.release()

    def ensure(self) -> None:
        """See that the lease has not run out; renew it where it has, as after a sleep.

        Raises:
            ServiceUnavailableError: the keeper does not answer.
        """
        while self._clock() >= self._until:
            self.renew()


class Target(Protocol):
    """An owner, a coordinator, or work."""

    def close(self) -> None: ...


class HostedPart:
    """A part under one number; made when it is first called.

    Args:
        make: makes the owner or the coordinator.
    """

    def __init__(
        self,
        part: Part,
        number: int,
        table: HostedThing,
        make: Callable[[HostedPart], Target],
        clock: Callable[[], float],
    ) -> None:
        self.part = part
        self.number = number
        self.table = table
        self.progress = CallProgress()
        self._make = make
        self._made: Target | None = None
        self._lock = threading.Lock()
        self._clock = clock
        self._is_closed = False
        self._calls = 0
        self._used = clock()

    @property
    def target(self) -> Any:
        """The owner or the coordinator."""
        if self._made is None:
            with self._lock:
                if self._is_closed:
                    raise self.moved()
                if self._made is None:
                    with self.progress.at(START):
                        self._made = self._make(self)
        return self._made

    @contextmanager
    def called(self, method: Method[..., Any]) -> Iterator[None]:
        """Note a call while it runs."""
        self._calls += 1
        try:
            with ExitStack() as noted:
                if method.is_lookup:
                    noted.enter_context(self.progress.at(LOOKUPS))
                if not method.is_short:
                    noted.enter_context(self.progress.at(method.group.name))
                yield
        finally:
            self._used = self._clock()
            self._calls -= 1

    @property
    def owner(self) -> BucketOwner | None:
        """The owner, if it is one and was made."""
        return self._made if isinstance(self._made, BucketOwner) else None

    @property
    def work(self) -> Work | None:
        """The work, if it is some and was made."""
        return self._made if isinstance(self._made, Work) else None

    def holds_nothing(self) -> bool:
        """Whether it was long not called, and nothing is lost if it is closed."""
        owner = self.owner
        if (
            isinstance(self.table, HostedWork)
            or self._calls
            or self._clock() - self._used < _IDLE_SECONDS
        ):
            return False
        if owner is None:
            return True
        stats = owner.stats()
        return not (stats.sessions or stats.compaction.running)

    def is_idle(self) -> bool:
        """Whether nobody calls it, and nothing that it holds has to be pushed again."""
        if self._calls:
            return False
        owner = self.owner
        if owner is None:
            return True
        stats = owner.stats()
        return not (stats.sessions or stats.compaction.running or stats.compaction.finished)

    def is_fenced(self) -> bool:
        """Whether it is work that another process took from this one."""
        work = self.work
        return work is not None and work.is_fenced

    def has_ended(self) -> bool:
        """Whether it is work that does nothing any more, and that nobody asks for."""
        work = self.work
        if work is None or self._calls:
            return False
        return self._clock() - self._used >= _ENDED_SECONDS and not work.is_running

    def close(self) -> None:
        """Let go of it; wait for what it is at work on."""
        with self._lock:
            self._is_closed = True
            made, self._made = self._made, None
        if made is not None:
            with suppress(PkrayError, OSError):
                made.close()

    def moved(self, assignment: Assignment | None = None) -> MovedError:
        """Say that it is not here under this number."""
        return MovedError(
            f"{self.table.label(self.part.index)} is at another worker: try again",
            assignment=assignment,
        )


class PartHost:
    """Opens parts, answers their calls, and drops what is no longer this worker's. Thread-safe.

    Args:
        worker: its number.
        keeper: of the pool.
        make: makes the owner or the coordinator of a part.
        on_replaced: called where another process is in this one's place.
        clock: seconds; also while the machine sleeps.
    """

    def __init__(
        self,
        worker: int,
        process: WorkerProcess,
        keeper: KeeperClient,
        make: Callable[[HostedPart], Target],
        on_replaced: Callable[[], None],
        clock: Callable[[], float] = awake_and_asleep,
    ) -> None:
        self.worker = worker
        self.process = process
        self._keeper = keeper
        self._make = make
        self._on_replaced = on_replaced
        self._clock = clock
        self._parts: dict[Part, HostedPart] = {}
        self._keeper_is = 0
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        self._lease = Lease(self._ask, clock)
        self._pulse = Pulse(self.beat, BEAT_SECONDS, "pkray-lease")

    def start(self) -> None:
        """Renew the lease from now on."""
        self._pulse.start()

    def beat(self) -> bool:
        """Renew the lease, close parts that hold nothing, and trim others; done every second."""
        self._lease.renew()
        for held in list(self._parts.values()):
            with suppress(PkrayError):
                if held.holds_nothing():
                    self._drop(held)
                elif held.is_fenced():  # by one that had it before: it is begun anew
                    self._keeper.move.once(held.part, held.number)
                    self._drop(held)
                elif held.has_ended():
                    self._keeper.release.once(held.table.key)
                    self._drop(held)
                elif held.owner is not None:
                    held.owner.trim_memory()
        return True

    def call(
        self,
        part: Part,
        number: int,
        method: Method[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a method of a part.

        Args:
            number: under which the caller knows the part to be here.

        Raises:
            MovedError: it is not, or no longer when the call ends: its answer counts no more.
            ServiceUnavailableError: whether it is, is not known, as the keeper does not answer.
        """
        held = self._find(part, number)
        with held.called(method):
            answer = method.of(self._target(held))(*args, **(kwargs or {}))
        self.check(held)
        return answer

    def find(self, part: Part, number: int) -> None:
        """Find a part, or take it in where it is this worker's and new here.

        Raises:
            MovedError, ServiceUnavailableError: as of `call`.
        """
        self._find(part, number)

    def check(self, held: HostedPart) -> None:
        """See that a part is here still.

        Raises:
            MovedError: it is not.
        """
        self._lease.ensure()
        if self._parts.get(held.part) is not held:
            raise held.moved()

    def sign(self, part: Part, group: str) -> object:
        """Return another value whenever a call of a part may have got on."""
        held = self._parts.get(part)
        return None if held is None else held.progress.sign(group)

    def drop(self, part: Part, number: int) -> None:
        """Close a part, if it is here under this number or one before; wait until it is."""
        held = self._parts.get(part)
        if held is not None and held.number <= number:
            self._forget(held)
            held.close()

    def hand_over(self, parts: Mapping[Part, int], at_once: bool) -> list[Part]:
        """Let other workers have parts, and return those that they get as soon as they are closed.

        A part that is called, or holds rows that are not committed, stays.

        Args:
            parts: with the numbers under which they are here.
            at_once: what is busy is let go of, too: writers push again what it holds.
        """
        left = []
        for part, number in parts.items():
            held = self._parts.get(part)
            if held is not None and held.number == number and not (at_once or held.is_idle()):
                continue
            self._keeper.move(part, number)
            left.append(part)
        closing = [Job(self._leave, (part, parts[part])) for part in left]
        for each in closing:  # together: one may be in an epoch for long
            each.start()
        deadline = self._clock() + _LEAVE_SECONDS
        for each in closing:
            each.wait(max(deadline - self._clock(), 0.0))
        return left

    def _leave(self, part: Part, number: int) -> None:
        """Close a part that was moved, and say when another worker may have it."""
        self.drop(part, number)
        self._keeper.dropped(part, number)

    def owners(self) -> dict[int, BucketOwner]:
        """Return the owners that are open, by the numbers of their parts."""
        parts = list(self._parts.values())
        return {each.number: each.owner for each in parts if each.owner is not None}

    def work(self) -> dict[int, Work]:
        """Return the work that is open, by the numbers of its parts."""
        made = {each.number: each.work for each in list(self._parts.values())}
        return {number: work for number, work in made.items() if work is not None}

    def has(self, part: Part, number: int | None = None) -> bool:
        """Whether a part is here, under this number."""
        held = self._parts.get(part)
        return held is not None and number in (None, held.number)

    def tenure(
        self, held: HostedPart, others: Callable[[], Mapping[Part, int]]
    ) -> Callable[[], Callable[[], None]]:
        """Make what a coordinator begins a commit with, and checks it with before it publishes.

        Args:
            others: the owners, and the numbers under which they are called.
        """

        def begin() -> Callable[[], None]:
            self.check(held)
            numbers = {held.part: held.number, **others()}
            return lambda: self._confirm(held, numbers)

        return begin

    def _confirm(self, held: HostedPart, numbers: Mapping[Part, int]) -> None:
        self.check(held)
        moved = self._keeper.confirm(numbers)
        if moved:
            names = ", ".join(held.table.label(part.index) for part in sorted(moved))
            raise ServiceUnavailableError(
                f"{names}: at another worker since the commit began, which publishes nothing; "
                "try again",
                table=held.table.name,
            )

    def _find(self, part: Part, number: int) -> HostedPart:
        self._lease.ensure()
        held = self._parts.get(part)
        if held is None or held.number < number:
            held = self._claim(part, number)
        if held.number != number:
            raise held.moved(Assignment(self.worker, held.number))
        return held

    def _claim(self, part: Part, number: int) -> HostedPart:
        with self._claiming:
            held = self._parts.get(part)
            if held is not None and held.number >= number:
                return held
            given, table = self._keeper.claim.once(self.worker, self.process, part)
            if held is not None and (given is None or given.number != held.number):
                self._drop(held)
            if given is None or table is None or given.worker != self.worker:
                raise MovedError("the part is at another worker: try again", assignment=given)
            made = HostedPart(part, given.number, table, self._make, self._clock)
            with self._lock:
                return self._parts.setdefault(part, made)

    def _ask(self) -> None:
        held = {part: each.number for part, each in list(self._parts.items())}
        answer = self._keeper.renew.once(self.worker, self.process, held)
        if answer.is_replaced:
            self._on_replaced()
            raise ServiceUnavailableError("another process is in this worker's place: try again")
        if self._keeper_is not in (0, answer.keeper):
            self._tell_of_work()
        self._keeper_is = answer.keeper
        for part, number in answer.gone.items():
            _log.warning("%s is at another worker now", part)
            found = self._parts.get(part)
            if found is not None and found.number == number:
                self._drop(found)

        for part, number in answer.due.items():
            Job(self._open_work, (part, number)).start()

    def _tell_of_work(self) -> None:
        """Tell a keeper that knows nothing of the work that is done here: it is to go on."""
        for held in list(self._parts.values()):
            if isinstance(held.table, HostedWork):
                self._keeper.open.once(held.table)

    def _open_work(self, part: Part, number: int) -> None:
        """Open work that is this worker's; what fails is due again in a second, or given up."""
        with suppress(ServiceUnavailableError):
            self._target(self._claim(part, number))

    def _target(self, held: HostedPart) -> Any:
        """Make what answers the calls of a part. Work that cannot be begun is given up.

        Raises:
            ServiceUnavailableError: of work: it is begun later, or not at all.
        """
        if not isinstance(held.table, HostedWork):
            return held.target
        name = held.table.name
        try:
            return held.target
        except (ServiceError, StorageError, OSError) as error:
            _log.warning("%s is begun later: %s", name, error)
            self._forget(held)
            raise ServiceUnavailableError(f"{name} is begun later: {error}") from error
        except Exception as error:
            _log.warning("%s is given up: %s", name, error)
            self._forget(held)
            self._keeper.release.once(name)
            raise ServiceUnavailableError(f"{name} has ended: {error}") from error

    def _drop(self, held: HostedPart) -> None:
        """Answer no more calls of a part, at once; it is closed on a thread of its own."""
        self._forget(held)
        Job(held.close).start()

    def _forget(self, held: HostedPart) -> None:
        with self._lock:
            if self._parts.get(held.part) is held:
                del self._parts[held.part]
