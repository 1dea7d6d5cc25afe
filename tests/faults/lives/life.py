"""A life: steps that are played, and what becomes of the processes meanwhile."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

import pkray
from pkray.errors import PkrayError
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from tests.faults.lives import checks, machines, stepping
from tests.faults.lives.books import Histories, History, Result, Source, Stamp, snapshots_of
from tests.faults.lives.checks import Wrong
from tests.faults.lives.jobs import MAIN, READ, READER, RESULT, SECOND, Job, Setting, Sleeper
from tests.faults.lives.plans import A, B

SILENCE = 60_000
"""Milliseconds after which a process that says nothing is given up by all others."""


class Life:
    """One life.

    Args:
        setting: what it begins with.

    Attributes:
        admin: a machine that nothing happens to: its user fills the sources, and looks.
        sleepers: machines that sleep, by how long.
        zombies: machines that woke when others had gone on with their queries.
        told: what `on_failure` was called with, where.
        fault: what is to happen to the next machine that does something.
        refused: calls that failed for a reason, and queries that did.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.world = machines.World()
        self.admin = machines.new_machine(self.world)
        self.sleepers: list[Sleeper] = []
        self.zombies: list[machines.Machine] = []
        self.told: list[tuple[machines.Machine, dict[str, Any]]] = []
        self.fault: machines.Fault | None = None
        self.refused: list[str] = []
        self._armed: machines.Machine | None = None
        catalog = self.admin.catalog
        self.sources = {
            name: Source(name, setting.layout, producer, self.world, catalog)
            for name, producer in zip((A, B), setting.producers, strict=True)
        }
        for source in self.sources.values():
            source.create()
        catalog.create_table("d.other", [("k", "BIGINT")], ["k"]).upsert([{"k": 1}])
        self._others = self.world.below("w/d.db/other/")
        tables = tuple(setting.results)
        query = RESULT if len(tables) == 1 else "both"
        self.jobs = {
            MAIN: Job(MAIN, query, tables),
            SECOND: Job(SECOND, "d.second", (RESULT,)),
            READER: Job(READER, READ, (READ,)),  # the last one: it reads what the others write
        }
        self.results = {name: Result(name, self.world, catalog) for name in (*tables, READ)}
        if setting.form == "insert":
            for table in tables:
                self._make_result(table)

    def _make_result(self, table: str) -> None:
        setting = self.setting
        columns, key = setting.columns_of(table)
        parted = ["p"] if setting.spread == "parted" and "p" in key else []
        self.admin.catalog.create_table(table, columns, key, parted, options=setting.options)

    def close(self) -> None:
        machines.forget_machines(self.world)

    @property
    def main(self) -> Job:
        return self.jobs[MAIN]

    def histories(self, job: Job) -> Histories:
        """Give what the sources of a query held, as they are now."""
        found: dict[str, History] = {each.name: each.history for each in self.sources.values()}
        found |= {each.name: each.history for each in self.results.values()}
        return {name: found[name] for name in job.sources}

    def places(self, job: Job) -> dict[str, list[Stamp]]:
        """Give the newest snapshots of the sources of a query."""
        return {name: snapshots_of(self.world, name)[-1:] for name in job.sources}

    def excuse(self, job: Job, why: str) -> None:
        """Have a query refuse to go on."""
        job.excuses.add(why)
        job.excused = self.places(job)

    # -- machines --

    def machine_of(self, job: Job) -> machines.Machine:
        """Find the machine on which its user does something with a query; a new one if need be."""
        if job.machine is not None and job.machine.is_awake:
            return job.machine
        machine = machines.new_machine(self.world)
        workers = self.setting.workers if job.name == MAIN else 1
        machine.call(lambda catalog: catalog.sql(f"SET 'query.parallelism' = '{workers}'"))
        job.machine = machine
        if not self.setting.apart:
            for other in self.jobs.values():
                if other.machine is None or not other.machine.is_awake:
                    other.machine = machine
        return machine

    def look_at(
        self,
        machine: machines.Machine,
        pending: machines.Outcome | None = None,
        what: str = "",
        called: Job | None = None,
    ) -> None:
        """Take note of what became of a machine."""
        if machine.state == "dead":
            self._ended(machine)
        elif machine.state == "asleep":
            self._asleep(machine, pending, what, called)

    def _ended(self, machine: machines.Machine) -> None:
        machine.bury()
        self.world.late += SILENCE
        for job in self.jobs.values():
            if job.machine is machine:
                job.machine = None
                job.state = "gone" if job.state == "running" else job.state

    def _asleep(
        self,
        machine: machines.Machine,
        pending: machines.Outcome | None,
        what: str,
        called: Job | None,
    ) -> None:
        if any(each.machine is machine for each in self.sleepers):
            return
        self.world.late += SILENCE
        jobs = [job for job in self.jobs.values() if job.machine is machine]
        slept = [job for job in jobs if job.is_running or job is called]
        self.sleepers.append(Sleeper(machine, slept, pending, what, called))
        for job in jobs:
            job.machine = None
            job.state = "asleep" if job.state == "running" else job.state

    def arm(self, machine: machines.Machine) -> None:
        """Have what is planned come to a machine."""
        fault, self.fault = self.fault, None
        if fault is not None:
            machine.expect(fault)
            self._armed = machine

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
        self.fault = None
        self._strike()
        checks.check(self)
        if self.world.below("w/d.db/other/") != self._others:
            raise Wrong("a table that nobody uses has changed")
        return True

    def _strike(self) -> None:
        """Have a fault that did not come in time come now."""
        machine, self._armed = self._armed, None
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
        for machine in self.zombies:  # before who reads what one of them may have committed
            if machine.is_awake:
                stepping.settle(machine)
        for job in self.jobs.values():
            machine = job.machine
            if machine is None:
                continue
            if not machine.is_awake:
                self.look_at(machine)  # it met what was planned after the call was over
                continue
            if job.is_running and self.trigger(job) == "available_now":
                self._run_out(job, machine)
            else:
                stepping.settle(machine)
            self.look_at(machine)

    def _run_out(self, job: Job, machine: machines.Machine) -> None:
        """Start a query that ends with what there is."""

        def run(catalog: pkray.Catalog) -> None:
            catalog.query(job.query).resume().wait_ended()

        outcome = machine.call(run)
        if machine.is_awake and outcome.failure is not None:
            checks.typed(outcome, f"resume {job.query}")
            self.failed(job, str(outcome.failure))
        self.look_at(machine, outcome, f"resume {job.query}")

    def failed(self, job: Job, why: str) -> None:
        """Take note that a query does not go on.

        Raises:
            Wrong: it has no reason.
        """
        job.state = "failed"
        if not job.excuses:
            raise Wrong(f"{job.query} failed without a reason: {why}")
        self.refused.append(f"{job.query}: {why}")

    def trigger(self, job: Job) -> str:
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

        Raises:
            Wrong: it failed for no reason.
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
        checks.typed(outcome, what)
        if isinstance(error, accepted):
            return True
        self.refused.append(f"{what}: {type(error).__name__}: {error}")
        refuses = refuses() if callable(refuses) else refuses
        if not refuses and not (is_excused and job.excuses):
            raise Wrong(f"{what} failed without a reason: {type(error).__name__}: {error}")
        return False

    def ask(self, job: Job, what: str, act: Callable[[Any], Any], **how: Any) -> bool:
        """Have a user do something with a query that there is, as `control` says."""
        return self.control(job, what, lambda catalog: act(catalog.query(job.query)), **how)

    def _overtake(self, job: Job) -> None:
        for sleeper in self.sleepers:
            if job in sleeper.jobs:
                sleeper.overtaken.add(job.name)

    def on_failure(self, machine: machines.Machine) -> Callable[[dict[str, Any]], None]:
        return lambda said: self.told.append((machine, said))


_playing: machines.World | None = None


@contextlib.contextmanager
def stage() -> Iterator[None]:
    """Within it lives can be played."""
    with machines.machines_open_stores(), stepping.stepping(lambda: _playing):
        yield


@contextlib.contextmanager
def life_of(setting: Setting) -> Iterator[Life]:
    """Open a life; its processes end with it."""
    global _playing
    life = Life(setting)
    _playing = life.world
    defaults = {each.name: each.default for each in fields(QueryOptions)}
    defaults["checkpoint_epochs"] = setting.checkpoint_epochs
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(QueryOptions.__init__, "__defaults__", tuple(defaults.values()))
            yield life
    finally:
        life.close()
        _playing = None


def played(life: Life, *steps: Any) -> None:
    """Play steps each of which can be."""
    for step in steps:
        assert life.play(step), step
