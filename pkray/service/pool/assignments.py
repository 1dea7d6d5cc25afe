"""Assign the parts of tables to the workers of a pool."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass

from pkray.errors import ServiceUnavailableError
from pkray.service import versions
from pkray.service.pool.overview import Overview, PartSeen, WorkerSeen
from pkray.service.pool.parts import (
    Assignment,
    HostedThing,
    HostedWork,
    Part,
    Renewal,
    WorkerProcess,
)
from pkray.service.pool.placement import Placement
from pkray.service.versions import Spoken

LEASE_SECONDS = 5.0
"""How long a worker may answer after the keeper has heard of it. Short, as nobody else gets the
parts of a lost worker before; longer than a busy machine keeps a thread waiting as a rule."""
_DRIFT = 1.1
"""The keeper counts a lease as longer than the worker does: their clocks differ in speed."""


@dataclass
class _Worker:
    process: WorkerProcess
    until: float
    has_nothing_older: bool
    is_suspect: bool = False


class Assignments:
    """Assigns parts to workers, each under a number that grows. Thread-safe.

    A part is given away only when the worker that had it cannot answer any more: its lease has run
    out, its process is known to be dead, or it has dropped the part. Keepers remember nothing of
    those before them: a new one waits until their leases have run out, and assigns all parts anew.

    Work (`HostedWork`) is opened by its worker without being called. It may be given away at once:
    should the process before be at it still, what both write tells which of them goes on.

    Args:
        workers: that there are to be.
        clock: seconds; also while the machine sleeps.
        first: above all numbers that keepers before this one gave.
    """

    def __init__(self, workers: int, clock: Callable[[], float], first: int) -> None:
        self.workers = workers
        self._clock = clock
        self._first = self._number = first
        self._lock = threading.Lock()
        self._settled_at = clock() + LEASE_SECONDS * _DRIFT
        self._processes: dict[int, _Worker] = {}
        self._replaced: set[str] = set()
        self._tables: dict[str, HostedThing] = {}
        self._works: dict[str, HostedWork] = {}
        self._silent: set[str] = set()
        self._given: dict[Part, Assignment] = {}
        self._free_at: dict[Part, tuple[float, int]] = {}
        self._asked_for: dict[Part, int] = {}
        self._drained: frozenset[str] = frozenset()
        self._retired: set[str] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._tables)

    def greet(self, caller: Spoken) -> Spoken:
        """Say what the keeper speaks to a caller that it understands."""
        return versions.answered(caller)

    def open(self, table: HostedThing) -> HostedThing:
        """Host a table; return it as it is hosted, perhaps since before."""
        with self._lock:
            if self._is_closed:
                raise ServiceUnavailableError("the pool of workers is ending: try again")
            if isinstance(table, HostedWork):
                self._works.setdefault(table.key, table)
            return self._tables.setdefault(table.key, table)

    def has(self, key: str) -> bool:
        """Whether a table, or work, is hosted."""
        return key in self._tables

    def locate(self, table: HostedThing, index: int) -> Assignment:
        """Find the worker that has a part; assign it where no worker that lives has it.

        Raises:
            ServiceUnavailableError: the table has another number of owners, the part cannot be
                given to anybody yet, or the work has ended.
        """
        if isinstance(table, HostedWork):
            with self._lock:
                if table.key not in self._tables:
                    raise ServiceUnavailableError(f"{table.name} is not there: it was ended")
                return self._assign(table.part(index), self._tables[table.key])
        hosted = self.open(table)
        if hosted.owners != table.owners:
            raise ServiceUnavailableError(
                f"table {table.name} has {hosted.owners} owners by now, not "
                f"{table.owners}: load it again",
                table=table.name,
            )
        with self._lock:
            return self._assign(table.part(index), hosted)

    def claim(
        self, worker: int, process: WorkerProcess, part: Part
    ) -> tuple[Assignment | None, HostedThing | None]:
        """Say where a part is, to a worker that was called for it; None where nobody has it."""
        with self._lock:
            known, given = self._processes.get(worker), self._given.get(part)
            if known is None or known.process != process:
                return None, None
            return given, self._tables.get(part.table)

    def renew(self, worker: int, process: WorkerProcess, held: Mapping[Part, int]) -> Renewal:
        """Extend a worker's lease, for all parts that are still its own.

        Args:
            held: the parts that it has, and under which numbers.
        """
        with self._lock:
            if process.token in self._replaced:
                return Renewal(is_replaced=True)
            now, known = self._clock(), self._processes.get(worker)
            if known is not None and known.process != process:
                self._lose(worker, known, process)
            gone = {
                part: number
                for part, number in held.items()
                if self._given.get(part) != Assignment(worker, number)
            }
            until = now + LEASE_SECONDS * _DRIFT
            self._processes[worker] = _Worker(process, until, len(gone) == 0)
            self._assign_work()
            works = {each.part(): self._given.get(each.part()) for each in self._works.values()}
            due = {
                part: given.number
                for part, given in works.items()
                if given is not None and given.worker == worker and part not in held
            }
            return Renewal(gone, due=due, keeper=self._first)

    def watched(self) -> dict[int, WorkerProcess]:
        """Return the processes whose leases last, by the numbers of their workers."""
        with self._lock:
            now = self._clock()
            return {n: each.process for n, each in self._processes.items() if each.until > now}

    def suspect(self, worker: int, process: WorkerProcess, is_dead: bool = False) -> None:
        """Have others do what a worker was at, whose process seems to be dead.

        Args:
            is_dead: it is known to be: others have its parts of tables, too.
        """
        with self._lock:
            known = self._processes.get(worker)
            if known is None or known.process != process:
                return
            known.is_suspect = True
            if is_dead:
                known.until = min(known.until, self._clock())
                self._replaced.add(process.token)  # what it has asked before is not heard
                self._silent.add(process.token)  # Ray begins it anew already
            for part, given in list(self._given.items()):
                if given.worker == worker and (is_dead or self._is_work(part)):
                    self._revoke(part, given)
            self._assign_work()

    def silent(self, seconds: float) -> list[int]:
        """List the workers whose leases ran out so long ago, each process once."""
        with self._lock:
            now = self._clock()
            found = [
                number
                for number, each in self._processes.items()
                if each.until + seconds < now and each.process.token not in self._silent
            ]
            self._silent.update(self._processes[number].process.token for number in found)
            return found

    def ask_for(self, parts: Mapping[Part, int]) -> None:
        """Note that a worker was asked to hand over parts, by the numbers under which it has them:
        work that it moves is given away when it has dropped it, or when its lease has run out.
        """
        with self._lock:
            given = self._given
            left = {p: n for p, n in self._asked_for.items() if p in given and given[p].number == n}
            self._asked_for = {**left, **parts}

    def move(self, part: Part, number: int) -> None:
        """Take a part from the worker that has it under this number, as it does not get on there,
        or is to be elsewhere."""
        with self._lock:
            given = self._given.get(part)
            if given is not None and given.number == number:
                self._revoke(part, given, closes=self._asked_for.get(part) == number)

    def drain(self, nodes: AbstractSet[str]) -> None:
        """Have workers of these nodes, and of no others, get no parts, and lose those that they
        have."""
        with self._lock:
            self._drained = frozenset(nodes)

    def retire(self, worker: int, token: str) -> int:
        """Have one process get no more parts, and lose those that it has; how many these are."""
        with self._lock:
            known = self._processes.get(worker)
            if known is None or known.process.token != token:
                return 0
            self._retired.add(token)
            if all(map(self._is_emptied, self._processes)):
                return 0  # there is none to give them to
            return sum(each.worker == worker for each in self._given.values())

    def misplaced(self, most: int) -> dict[Part, Assignment]:
        """List parts that are to be handed over to other workers.

        Args:
            most: of them; those of workers that are to be emptied are not counted.
        """
        with self._lock:
            now = self._clock()
            if now < self._settled_at:
                return {}
            living = [
                number
                for number, each in self._processes.items()
                if each.until > now and not each.is_suspect
            ]
            if not living:
                return {}
            placement = self._placement(living, set())
            emptied = {p: a for p, a in self._given.items() if a.worker not in placement.nodes}
            given = self._given
            moved = placement.misplaced(len(emptied) + most)
            return {part: given[part] for part in moved if given[part].worker in living}

    def confirm(self, numbers: Mapping[Part, int]) -> Mapping[Part, int]:
        """Return those of the parts that are assigned under other numbers by now."""
        with self._lock:
            if self._is_closed:
                return numbers
            given = self._given
            return {p: n for p, n in numbers.items() if p not in given or given[p].number != n}

    def release(self, table: str) -> dict[Part, Assignment]:
        """Host a table, or work and its helpers, no longer; the parts that workers may still
        have."""
        with self._lock:
            keys = {each for each in self._tables if each == table or each.startswith(f"{table}/")}
            parts = {p: a for p, a in self._given.items() if p.table == table or p.table in keys}
            for part, given in parts.items():
                self._revoke(part, given)
            for each in keys:
                del self._tables[each]
                self._works.pop(each, None)
            return parts

    def dropped(self, part: Part, number: int) -> None:
        """Note that the worker which had a part under this number has dropped it."""
        with self._lock:
            _, taken = self._free_at.get(part, (0.0, None))
            if taken != number:
                return
            del self._free_at[part]
            table = self._tables.get(part.table)
            if table is not None:  # so that it counts for where others are to be
                with suppress(ServiceUnavailableError):
                    self._assign(part, table)

    def close(self) -> bool:
        """Take no more tables; whether there is none."""
        with self._lock:
            self._is_closed = not self._tables
            return self._is_closed

    def overview(self) -> Overview:
        """Tell what there is, for people."""
        with self._lock:
            now, loads = self._clock(), Counter(each.worker for each in self._given.values())
            workers = tuple(
                WorkerSeen(
                    number, each.process, each.until - now, loads[number], self._is_emptied(number)
                )
                for number, each in sorted(self._processes.items())
            )
            parts = tuple(
                PartSeen(
                    self._tables[part.table].name, part.index, given.worker, self._is_work(part)
                )
                for part, given in sorted(self._given.items())
                if part.table in self._tables
            )
            hosted = self._tables.values()
            tables = sorted(each.name for each in hosted if not isinstance(each, HostedWork))
            return Overview(self.workers, workers, parts, tuple(tables))

    def released(self) -> dict[Part, Assignment]:
        """Host nothing any longer; the parts that workers may still have."""
        parts: dict[Part, Assignment] = {}
        for each in list(self._tables):
            parts |= self.release(each)
        return parts

    def _is_work(self, part: Part) -> bool:
        return isinstance(self._tables.get(part.table), HostedWork)

    def _assign_work(self) -> None:
        """Give all work to workers that live; what cannot be given yet is looked at again."""
        for each in self._works.values():
            with suppress(ServiceUnavailableError):
                self._assign(each.part(), each)

    def _assign(self, part: Part, table: HostedThing) -> Assignment:
        now, given = self._clock(), self._given.get(part)
        if given is not None:
            if self._processes[given.worker].until > now:
                return given
            self._revoke(part, given)
        self._settle(now)
        wait = max(self._settled_at, self._free_at.get(part, (0.0, 0))[0]) - now
        is_work = isinstance(table, HostedWork)
        workers = [
            number
            for number, each in self._processes.items()
            if each.until > now and not (is_work and each.is_suspect)
        ]
        if wait > 0 or not workers:
            reason = f"is given to another worker in {wait:.1f} s" if wait > 0 else "has no worker"
            raise ServiceUnavailableError(
                f"{table.label(part.index)} {reason}: try again", table=table.name
            )
        self._free_at.pop(part, None)
        self._number += 1
        worker = self._placement(workers, {part} if is_work else set()).best(part)
        self._given[part] = Assignment(worker, self._number)
        return self._given[part]

    def _placement(self, workers: Sequence[int], works: AbstractSet[Part]) -> Placement:
        """Say where parts may be: at workers that are not to be emptied, if there are any."""
        nodes = {
            number: each.process.node
            for number, each in self._processes.items()
            if number in workers
        }
        kept = {number: node for number, node in nodes.items() if not self._is_emptied(number)}
        given = {part: each.worker for part, each in self._given.items()}
        of_work = frozenset({*works, *filter(self._is_work, given)})
        return Placement(kept or nodes, given, of_work)

    def is_emptied(self, worker: int) -> bool:
        """Whether a worker is to lose all parts that it has."""
        with self._lock:
            return worker in self._processes and self._is_emptied(worker)

    def _is_emptied(self, worker: int) -> bool:
        process = self._processes[worker].process
        return process.node in self._drained or process.token in self._retired

    def _settle(self, now: float) -> None:
        """See whether all workers have dropped what a keeper before this one gave them."""
        known = self._processes.values()
        if len(known) >= self.workers and all(each.has_nothing_older for each in known):
            self._settled_at = min(self._settled_at, now)

    def _lose(self, worker: int, known: _Worker, process: WorkerProcess) -> None:
        """Take back what a process had that another one has replaced."""
        self._replaced.add(known.process.token)
        # On one node the next is started when the one before is dead; of a lost node nobody knows.
        is_dead = known.process.node == process.node
        for part, given in list(self._given.items()):
            if given.worker == worker:
                is_work = self._is_work(part)
                del self._given[part]
                self._free_at[part] = 0.0 if is_dead or is_work else known.until, given.number

    def _revoke(self, part: Part, given: Assignment, closes: bool = False) -> None:
        del self._given[part]
        if closes or not self._is_work(part):
            self._free_at[part] = self._processes[given.worker].until, given.number
