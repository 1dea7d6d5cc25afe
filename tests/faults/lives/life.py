"""A life: steps that are played, and what has to be so after each of them."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest

import pkray
from pkray.errors import PkrayError
from pkray.relational import Relation
from pkray.relational.continuous.queries import materializing
from pkray.relational.continuous.queries import options as options_module
from pkray.relational.continuous.queries.options import QueryOptions
from tests.faults.lives import stepping
from tests.faults.lives.books import (
    Histories,
    Layout,
    Producer,
    Result,
    Source,
    Stamp,
    folder_of,
    folder_of_query,
    positions_in,
    snapshots_of,
    sources_of,
)
from tests.faults.lives.machines import (
    Fault,
    Machine,
    Outcome,
    World,
    forget_machines,
    machines_open_stores,
    new_machine,
)
from tests.faults.lives.plans import A, B, Bag, Plan, Reading

REPLACES = "replace" in inspect.signature(Relation.materialize).parameters
"""Whether `materialize` can be told to take the place of what a table holds."""
SILENCE = 60_000
"""Milliseconds after which a process that says nothing is given up by all others."""

MAIN, READER, SECOND = "main", "reader", "second"


class Wrong(AssertionError):
    """Something is not as it has to be."""


@dataclass(frozen=True)
class Setting:
    """What a life begins with.

    Attributes:
        layout: of the sources.
        producers: of the changelogs of the sources.
        shown: the producer of the result's changelog.
        workers: of the main query.
        checkpoint_epochs: after so many epochs a checkpoint is written.
        trigger: of the main query.
        counts: whether the reader counts, or takes all rows as they are.
        apart: whether the reader runs in a process of its own.
    """

    plan: Plan
    layout: Layout = "plain"
    producers: tuple[Producer, Producer] = ("lookup", "lookup")
    shown: Producer = "lookup"
    workers: int = 1
    checkpoint_epochs: int = 100
    trigger: Literal["changes", "available_now"] = "changes"
    counts: bool = False
    apart: bool = False


@dataclass
class Job:
    """What has to be so of a query.

    Attributes:
        table: of its result, and the name of the query.
        plan: None before it began.
        older: the plan that it had, from an upgrade until that is accepted.
        former: the plan that it had before the step that is played.
        state: ``none``, ``running``, ``stopped``, ``gone`` with its process, ``asleep`` with it,
            ``failed``, ``dropped``.
        machine: which runs it.
        histories: of the sources that it began with.
        excuses: why it may refuse to go on, and what it needs then: a savepoint of before, or a
            new beginning.
        excused: where the sources were when that came; it need not notice before they go on.
        savepoints: plans by name.
    """

    name: str
    table: str
    plan: Any = None
    older: Any = None
    former: Any = None
    state: str = "none"
    machine: Machine | None = None
    histories: Histories = field(default_factory=dict)
    excuses: set[str] = field(default_factory=set)
    excused: Mapping[str, Any] = field(default_factory=dict)
    savepoints: dict[str, Any] = field(default_factory=dict)
    copies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    result: Result | None = None
    runs: int = 0

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def exists(self) -> bool:
        return self.state not in ("none", "dropped")


@dataclass
class Sleeper:
    """A machine that sleeps.

    Attributes:
        jobs: those that ran on it.
        pending: the call in the middle of which it fell asleep.
        called: the query of that call.
        overtaken: names of those with which others went on.
    """

    machine: Machine
    jobs: list[Job]
    pending: Outcome | None
    what: str
    called: Job | None = None
    overtaken: set[str] = field(default_factory=set)


class Life:
    """One life.

    Args:
        setting: what it begins with.
        skips_verify: checks of `verify` are left out, but for the last.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.world = World()
        self.admin = new_machine(self.world)
        self.sleepers: list[Sleeper] = []
        self.zombies: list[Machine] = []
        self.told: list[tuple[Machine, dict[str, Any]]] = []
        self.fault: Fault | None = None
        self.refused: list[str] = []
        self.said: list[str] = []
        self._tables = 0
        catalog = self.admin.catalog
        self.sources = {
            name: Source(name, setting.layout, producer, self.world, catalog)
            for name, producer in zip((A, B), setting.producers, strict=True)
        }
        for source in self.sources.values():
            source.create()
        catalog.create_table("d.other", [("k", "BIGINT")], ["k"]).upsert([{"k": 1}])
        self._others = self.world.below("w/d.db/other/")
        self.jobs = {MAIN: self._job(MAIN, "d.r"), READER: self._job(READER, "d.x")}

    def _job(self, name: str, table: str) -> Job:
        return Job(name, table, result=Result(table, self.world, self.admin.catalog))

    def close(self) -> None:
        forget_machines(self.world)

    @property
    def main(self) -> Job:
        return self.jobs[MAIN]

    def readers_of(self, job: Job) -> list[Job]:
        """List the queries that read a result."""
        return [
            each
            for each in self.jobs.values()
            if isinstance(each.plan, Reading) and each.plan.table == job.table
        ]

    # -- machines --

    def machine_of(self, job: Job) -> Machine:
        """Find the machine on which its user does something with a query; a new one if need be."""
        if job.machine is not None and job.machine.is_awake:
            return job.machine
        machine = new_machine(self.world)
        workers = self.setting.workers if job.name == MAIN else 1
        machine.call(lambda catalog: catalog.sql(f"SET 'query.parallelism' = '{workers}'"))
        job.machine = machine
        if not self.setting.apart:
            for other in self.jobs.values():
                if other.machine is None or not other.machine.is_awake:
                    other.machine = machine
        return machine

    def _ended(self, machine: Machine) -> None:
        """Take note that a machine died."""
        machine.bury()
        self.world.late += SILENCE
        for job in self.jobs.values():
            if job.machine is machine:
                job.machine = None
                job.state = "gone" if job.state == "running" else job.state

    def _asleep(
        self, machine: Machine, pending: Outcome | None, what: str, called: Job | None
    ) -> None:
        """Take note that a machine sleeps."""
        if any(each.machine is machine for each in self.sleepers):
            return
        self.world.late += SILENCE
        jobs = [job for job in self.jobs.values() if job.machine is machine]
        slept = [job for job in jobs if job.is_running or job is called]
        self.sleepers.append(Sleeper(machine, slept, pending, what, called))
        for job in jobs:
            job.machine = None
            job.state = "asleep" if job.state == "running" else job.state

    def look_at(
        self,
        machine: Machine,
        pending: Outcome | None = None,
        what: str = "",
        called: Job | None = None,
    ) -> None:
        """Take note of what became of a machine."""
        if machine.state == "dead":
            self._ended(machine)
        elif machine.state == "asleep":
            self._asleep(machine, pending, what, called)

    def arm(self, machine: Machine) -> None:
        """Have what is planned come to a machine."""
        fault, self.fault = self.fault, None
        if fault is not None:
            machine.expect(fault)
            self.armed = machine

    armed: Machine | None = None

    # -- playing --

    def play(self, step: Any) -> bool:
        """Play a step if it can be, and check.

        Raises:
            Wrong: something is not as it has to be.
        """
        if not step.can(self):
            return False
        step.play(self)
        self.settle()
        self._strike()
        self.check()
        return True

    def _strike(self) -> None:
        """Have a fault that did not come in time come now."""
        machine, self.armed = self.armed, None
        if machine is None or machine.fault is None or not machine.is_awake:
            return
        fate = machine.fault.fate
        machine.met = "at rest"
        machine.kill() if fate == "kill" else machine.sleep()
        self.look_at(machine)

    def settle(self) -> None:
        """Let all queries read what there is."""
        if self.fault is not None and self.main.machine is not None:
            self.arm(self.main.machine)
        for job in self.jobs.values():
            machine = job.machine
            if machine is None or not machine.is_awake:
                continue
            if job.is_running and self._trigger(job) == "available_now":
                outcome = machine.call(
                    lambda catalog, job=job: catalog.query(job.table).resume().wait_ended()  # type: ignore[misc]
                )
                if machine.is_awake:
                    self._no_untyped(outcome, "resume")
            else:
                stepping.settle(machine)
            self.look_at(machine)
        for machine in self.zombies:
            if machine.is_awake:
                stepping.settle(machine)

    def _trigger(self, job: Job) -> str:
        return self.setting.trigger if job.name == MAIN else "changes"

    def control(
        self,
        job: Job,
        what: str,
        attempt: Callable[[pkray.Catalog], Any],
        *,
        already: tuple[type[PkrayError], ...] = (),
        refuses: bool | Callable[[], bool] = False,
        is_excused: bool = True,
        takes_over: bool = True,
        drives: bool = False,
    ) -> bool:
        """Have a user do something with a query; again in another process if the first one dies.

        Args:
            already: errors that say, where it is done again, that it was done.
            refuses: whether it may be refused.
            is_excused: whether it may be refused where the query cannot go on.
            takes_over: whether processes that slept are not in charge any more.
            drives: whether it waits for the query to go on.

        Returns:
            whether it was done.
        """
        machine = self.machine_of(job)
        self.arm(machine)
        outcome = machine.call(attempt, drives=drives)
        accepted: tuple[type[PkrayError], ...] = ()
        if not machine.is_awake:
            self.look_at(machine, outcome, what, job)
            accepted = already
            outcome = self.machine_of(job).call(attempt, drives=drives)
        if takes_over:
            self._overtake(job)
        error = outcome.failure
        if error is None:
            return True
        self._no_untyped(outcome, what)
        if isinstance(error, accepted):
            return True
        self.refused.append(f"{what}: {type(error).__name__}: {error}")
        refuses = refuses() if callable(refuses) else refuses
        if not refuses and not (is_excused and job.excuses):
            raise Wrong(f"{what} failed without a reason: {type(error).__name__}: {error}")
        return False

    def _overtake(self, job: Job) -> None:
        for sleeper in self.sleepers:
            if job in sleeper.jobs:
                sleeper.overtaken.add(job.name)

    @staticmethod
    def _no_untyped(outcome: Outcome, what: str) -> None:
        error = outcome.failure
        if error is not None and not isinstance(error, PkrayError):
            raise Wrong(f"{what} failed untyped: {type(error).__name__}: {error}") from error

    def on_failure(self, machine: Machine) -> Callable[[dict[str, Any]], None]:
        return lambda said: self.told.append((machine, said))

    # -- checks --

    def check(self) -> None:
        """Compare everything with the books.

        Raises:
            Wrong: something differs.
        """
        for job in self.jobs.values():
            if job.plan is not None:
                self._check_snapshots(job)
                job.former = None
        for job in self.jobs.values():
            if job.is_running and job.machine is not None and job.machine.is_awake:
                self._check_running(job)
        if self.world.below("w/d.db/other/") != self._others:
            raise Wrong("a table that nobody uses has changed")

    def histories(self, job: Job) -> Histories:
        """Give what the sources of a query held, as they are now."""
        found = {name: source.history for name, source in self.sources.items()}
        for other in self.jobs.values():
            if other.result is not None:
                found[other.table] = other.result.history
        return {name: found[name] for name in job.plan.sources}

    def places(self, job: Job) -> dict[str, Any]:
        """Give the newest snapshots of the sources of a query."""
        return {name: snapshots_of(self.world, name)[-1:] for name in job.plan.sources}

    def excuse(self, job: Job, why: str) -> None:
        """Have a query refuse to go on."""
        job.excuses.add(why)
        job.excused = self.places(job)

    def _check_snapshots(self, job: Job) -> None:
        """Each snapshot is what some plan of the query gives at the positions that it names."""
        assert job.result is not None
        before = job.result.newest if job.result.seen else None
        plans = [each for each in (job.plan, job.older, job.former) if each is not None]
        for stamp, said, rows in job.result.new():
            positions = sources_of(said)
            if not positions:
                if before is not None and rows != before:
                    raise Wrong(
                        f"snapshot {stamp.number} of {job.table} ({said['commitKind']}) names no "
                        f"sources and differs from the one before: {_differ(rows, before)}"
                    )
                continue
            before = rows
            expected = [
                plan.result(held)
                for plan in plans
                for histories in (self.histories(job), job.histories)
                if (held := positions_in(histories, positions)) is not None
            ]
            if rows not in expected:
                first = expected[0] if expected else Counter()
                raise Wrong(
                    f"snapshot {stamp.number} of {job.table} is wrong at {positions}: "
                    f"{_differ(rows, first)}"
                )

    def _check_running(self, job: Job) -> None:
        """What runs has read everything, and the result is what its plan gives of that."""
        assert job.machine is not None
        assert job.result is not None
        outcome = job.machine.call(lambda catalog: catalog.query(job.table).status())
        self._no_untyped(outcome, "status")
        if outcome.failure is not None:
            raise Wrong(f"status of {job.table} failed: {outcome.failure}")
        status = outcome.value
        if status["state"] == "failed":
            job.state = "failed"
            if not job.excuses:
                raise Wrong(f"{job.table} failed without a reason: {status['failure']}")
            self.refused.append(f"{job.table}: {status['failure']}")
            return
        if status["state"] == "stopped" and job.excuses:  # failed, and upgraded where it stood
            job.state = "stopped"
            return
        wanted = "ended" if self._trigger(job) == "available_now" else "running"
        if status["state"] != wanted:
            raise Wrong(f"{job.table} is {status['state']}, and should be {wanted}")
        positions = status["sources"]
        rows = job.result.newest
        now = self.histories(job)
        held = positions_in(now, positions)
        expected = job.plan.result(held) if held is not None else None
        if rows != expected and job.excuses and job.excused == self.places(job):
            held = positions_in(job.histories, positions)  # it need not have noticed
            expected = job.plan.result(held) if held is not None else None
        if expected is None:
            raise Wrong(f"{job.table} is at {positions}, which its sources never were at")
        if rows != expected:
            raise Wrong(
                f"{job.table} is wrong at {positions}: {_differ(rows, expected)}; verify: "
                f"{self._verified(job)}"
            )
        newest = {name: history.at[history.newest] for name, history in now.items()}
        if not job.excuses and self._tells_all(job) and job.plan.result(newest) != expected:
            raise Wrong(f"{job.table} has not read everything: it is at {positions}")
        if not job.excuses:
            job.histories = now
            self._check_holds(job, positions)

    def _check_holds(self, job: Job, positions: Mapping[str, int]) -> None:
        """What the query has still to read does not expire."""
        said = json.loads(self.world.files[f"{folder_of_query(job.table)}query.json"].data)
        reader = said.get("reader") or f"query-{job.table}@{said['incarnation']}"
        for name, at in positions.items():
            file = self.world.files.get(f"{folder_of(name)}consumer/consumer-{reader}")
            if file is None:
                raise Wrong(f"{name} is not held for {job.table}, which is at {positions}")
            following = json.loads(file.data)["nextSnapshot"]
            if following > at + 1:
                raise Wrong(f"{name} is held from {following} on for {job.table} at {positions}")

    def _tells_all(self, job: Job) -> bool:
        """Whether the sources' changelogs tell of every snapshot at once."""
        if job.name == MAIN:
            return "full-compaction" not in self.setting.producers
        assert self.main.result is not None
        return self.setting.shown in ("none", "input") or self.main.result.tells_all

    def _verified(self, job: Job) -> str:
        assert job.machine is not None
        outcome = job.machine.call(lambda catalog: str(catalog.query(job.table).verify()))
        return str(outcome.failure or outcome.value)

    def verify(self, job: Job) -> None:
        """`verify` says that a result is as it should be where it is, and nowhere else.

        Raises:
            Wrong: it says something else.
        """
        if not (job.is_running and job.machine is not None and job.machine.is_awake):
            return
        assert job.result is not None
        outcome = job.machine.call(lambda catalog: catalog.query(job.table).verify())
        if outcome.failure is not None:
            raise Wrong(f"verify of {job.table} failed: {outcome.failure}")
        if not outcome.value.equal:
            raise Wrong(f"verify of {job.table} says {outcome.value}, and it is right")

    def stamps(self, jobs: Sequence[Job]) -> dict[str, list[Stamp]]:
        return {job.table: snapshots_of(self.world, job.table) for job in jobs}

    def has_failure(self, job: Job) -> bool:
        return f"{folder_of_query(job.table)}failure.json" in self.world.files


def _differ(found: Bag, expected: Bag) -> str:
    missing, extra = expected - found, found - expected
    return f"missing {_few(missing)}, extra {_few(extra)}"


def _few(rows: Bag) -> str:
    shown = [*rows.elements()]
    return f"{shown[:4]}{f' and {len(shown) - 4} more' if len(shown) > 4 else ''}"


_playing: World | None = None


@contextlib.contextmanager
def stage() -> Iterator[None]:
    """Within it lives can be played."""
    with machines_open_stores(), stepping.stepping(lambda: _playing):
        yield


@contextlib.contextmanager
def life_of(setting: Setting) -> Iterator[Life]:
    """Open a life; its processes end with it."""
    global _playing
    life = Life(setting)
    _playing = life.world
    options = partial(QueryOptions, checkpoint_epochs=setting.checkpoint_epochs)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module in (materializing, options_module):
                patch.setattr(module, "QueryOptions", options)
            yield life
    finally:
        life.close()
        _playing = None
