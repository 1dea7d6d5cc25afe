"""What may happen in a life: each step is written as it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pkray
from pkray.errors import (
    QueryExistsError,
    QueryNotFoundError,
    UpgradeError,
)
from tests.faults.lives import stepping
from tests.faults.lives.books import folder_of_query
from tests.faults.lives.life import MAIN, READER, REPLACES, Job, Life, Wrong
from tests.faults.lives.machines import Fault, Machine
from tests.faults.lives.plans import Plan, Reading, Row

Part = Literal["", "checkpoints/", "epochs/"]
"""Of the folder of a query; empty: all of it."""


class Step:
    """Something that happens."""

    def can(self, life: Life) -> bool:
        """Whether it may happen now."""
        return True

    def play(self, life: Life) -> None:
        """Do it, and write it into the books.

        Raises:
            Wrong: what came of it is not as it has to be.
        """
        raise NotImplementedError


# -- what happens to the sources --


@dataclass(frozen=True)
class Write(Step):
    source: str
    rows: tuple[Row, ...]
    deleted: tuple[Row, ...] = ()

    def can(self, life: Life) -> bool:
        return bool(self.rows or self.deleted)

    def play(self, life: Life) -> None:
        source = life.sources[self.source]
        known = tuple(row for row in self.deleted if source.key(row) in source.rows)
        if self.rows or known:
            source.write(self.rows, known)


@dataclass(frozen=True)
class Overwrite(Step):
    source: str
    partition: int | None
    rows: tuple[Row, ...]

    def can(self, life: Life) -> bool:
        layout = life.setting.layout
        return layout == "parted" or (self.partition is None and layout == "plain")

    def play(self, life: Life) -> None:
        life.sources[self.source].overwrite(self.partition, self.rows)


@dataclass(frozen=True)
class DropPartition(Step):
    source: str
    partition: int

    def can(self, life: Life) -> bool:
        return life.setting.layout != "plain"

    def play(self, life: Life) -> None:
        life.sources[self.source].drop_partition(self.partition)


@dataclass(frozen=True)
class Compact(Step):
    source: str

    def play(self, life: Life) -> None:
        life.sources[self.source].compact()


@dataclass(frozen=True)
class Expire(Step):
    source: str
    retained: int = 1

    def play(self, life: Life) -> None:
        life.sources[self.source].expire(self.retained)


@dataclass(frozen=True)
class AddColumn(Step):
    source: str
    name: str

    def can(self, life: Life) -> bool:
        return self.name not in life.sources[self.source].table.schema.names

    def play(self, life: Life) -> None:
        life.sources[self.source].add_column(self.name)


@dataclass(frozen=True)
class DropAndAddColumn(Step):
    """The values of ``v`` go, and a column of its name comes."""

    source: str

    def play(self, life: Life) -> None:
        life.sources[self.source].drop_and_add("v")
        _excuse(life, self.source, "a column was dropped and added")


@dataclass(frozen=True)
class MakeAnew(Step):
    source: str

    def play(self, life: Life) -> None:
        life.sources[self.source].make_anew()
        _excuse(life, self.source, "a source was made anew")


@dataclass(frozen=True)
class RollBackSource(Step):
    """To the so-manieth snapshot that is there."""

    source: str
    place: int

    def can(self, life: Life) -> bool:
        return len(life.sources[self.source].held()) > 1

    def play(self, life: Life) -> None:
        source = life.sources[self.source]
        held = source.held()
        source.roll_back(held[self.place % (len(held) - 1)])
        _excuse(life, self.source, "a source was rolled back")


def _excuse(life: Life, source: str, why: str) -> None:
    for job in life.jobs.values():
        if job.exists and source in job.plan.sources:
            life.excuse(job, why)


# -- what happens to queries --


@dataclass(frozen=True)
class Begin(Step):
    """`materialize`: a new query, one that goes on, or one in the place of another."""

    job: str
    plan: Plan | None = None
    replace: bool = False

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        if job.name == READER and not life.main.exists:
            return False
        return not job.is_running

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        plan = self._plan(life, job)
        before = job.plan
        is_there = job.exists
        is_new = not is_there or (self.replace and REPLACES)
        refuses = is_there and plan != job.plan and not is_new
        options = {} if job.name == READER else {"changelog-producer": life.setting.shown}
        more: dict[str, Any] = {"replace": True} if self.replace and REPLACES else {}
        machine = life.machine_of(job)

        def begin(catalog: pkray.Catalog) -> Any:
            relation = catalog.sql(plan.sql)
            hook = life.on_failure(machine)
            return relation.materialize(
                job.table, options=options, trigger=life._trigger(job), on_failure=hook, **more
            )

        if is_new:
            job.former, job.plan = before, plan
            job.runs += 1
        if not life.control(job, f"begin {job.table}", begin, refuses=refuses):
            job.plan, job.former = before, None
            return
        if refuses:
            raise Wrong(f"another plan took the place of the one of {job.table}")
        if is_new:
            job.excuses, job.savepoints, job.older = set(), {}, None
        job.state = "running"

    def _plan(self, life: Life, job: Job) -> Any:
        if job.name == READER:
            main = life.main
            return Reading(main.table, main.plan.columns, life.setting.counts)
        return self.plan


@dataclass(frozen=True)
class Resume(Step):
    job: str

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and not job.is_running

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        machine = life.machine_of(job)

        def resume(catalog: pkray.Catalog) -> Any:
            return catalog.query(job.table).resume(on_failure=life.on_failure(machine))

        if life.control(job, f"resume {job.table}", resume):
            job.state = "running"
        else:
            job.state = "failed"


@dataclass(frozen=True)
class Stop(Step):
    job: str

    def can(self, life: Life) -> bool:
        return life.jobs[self.job].is_running

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        life.control(
            job, f"stop {job.table}", lambda c: c.query(job.table).stop(), takes_over=False
        )
        job.state = "stopped"


@dataclass(frozen=True)
class Savepoint(Step):
    job: str
    name: str

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and job.state != "asleep" and self.name not in job.savepoints

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        done = life.control(
            job,
            f"savepoint {self.name} of {job.table}",
            lambda catalog: catalog.query(job.table).savepoint(self.name),
            already=(QueryExistsError,),
            refuses=lambda: not job.is_running or not (job.result and job.result.seen),
            takes_over=False,
        )
        if done:
            job.savepoints[self.name] = job.plan


@dataclass(frozen=True)
class GoBack(Step):
    """`resume` from a savepoint."""

    job: str
    name: str

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and self.name in job.savepoints

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        readers = [each for each in life.readers_of(job) if each.exists]
        refuses = job.savepoints[self.name] != job.plan or bool(readers)
        machine = life.machine_of(job)

        def go_back(catalog: pkray.Catalog) -> Any:
            query = catalog.query(job.table)
            return query.resume(savepoint=self.name, on_failure=life.on_failure(machine))

        if not life.control(
            job, f"go back to {self.name} of {job.table}", go_back, refuses=refuses
        ):
            return
        job.state = "running"
        for each in readers:
            life.excuse(each, "its source went back")


@dataclass(frozen=True)
class Drop(Step):
    job: str

    def can(self, life: Life) -> bool:
        return life.jobs[self.job].exists

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        life.control(
            job,
            f"drop {job.table}",
            lambda catalog: catalog.query(job.table).drop(),
            already=(QueryNotFoundError,),
            is_excused=False,
        )
        job.state = "dropped"
        job.excuses = set()


@dataclass(frozen=True)
class Upgrade(Step):
    job: str
    plan: Plan

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and job.state != "asleep" and job.name == MAIN

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        before, older = job.plan, job.older
        refuses = older is not None or not job.is_running
        if self.plan != before:
            job.older, job.plan = before, self.plan
        done = life.control(
            job,
            f"upgrade {job.table}",
            lambda catalog: catalog.query(job.table).upgrade(self.plan.sql, timeout=20),
            drives=True,
            refuses=refuses,
        )
        if not done:
            job.plan, job.older = before, older


@dataclass(frozen=True)
class Accept(Step):
    job: str

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and job.older is not None

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        life.control(
            job,
            f"accept the upgrade of {job.table}",
            lambda catalog: catalog.query(job.table).accept(),
            already=(UpgradeError,),
            takes_over=False,
            refuses=True,
        )
        life.settle()
        job.former, job.older = job.older, None


@dataclass(frozen=True)
class RollBack(Step):
    """The older plan of an upgrade comes back."""

    job: str

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and job.older is not None and job.state != "asleep"

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        newer = job.plan
        job.plan, job.older = job.older, newer
        done = life.control(
            job,
            f"roll the upgrade of {job.table} back",
            lambda catalog: catalog.query(job.table).rollback(timeout=20),
            drives=True,
            already=(UpgradeError,),
            refuses=not job.is_running,
        )
        if not done:
            job.plan, job.older = newer, job.plan
            return
        job.former, job.older = newer, None


@dataclass(frozen=True)
class Rescale(Step):
    job: str
    workers: int

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.exists and job.state != "asleep"

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        life.control(
            job,
            f"rescale {job.table}",
            lambda catalog: catalog.query(job.table).rescale(self.workers),
        )


@dataclass(frozen=True)
class Verify(Step):
    job: str

    def can(self, life: Life) -> bool:
        return life.jobs[self.job].is_running

    def play(self, life: Life) -> None:
        life.settle()
        life.verify(life.jobs[self.job])


# -- what happens to processes and folders --


@dataclass(frozen=True)
class Kill(Step):
    """The process of a query dies while nothing happens."""

    job: str

    def can(self, life: Life) -> bool:
        machine = life.jobs[self.job].machine
        return machine is not None and machine.is_awake

    def play(self, life: Life) -> None:
        machine = life.jobs[self.job].machine
        assert machine is not None
        machine.kill()
        life.look_at(machine)


@dataclass(frozen=True)
class Sleep(Step):
    """The process of a query sleeps while nothing happens."""

    job: str

    def can(self, life: Life) -> bool:
        machine = life.jobs[self.job].machine
        return machine is not None and machine.is_awake

    def play(self, life: Life) -> None:
        machine = life.jobs[self.job].machine
        assert machine is not None
        machine.sleep()
        life.look_at(machine)


@dataclass(frozen=True)
class Faulted(Step):
    """A step in the middle of which the process of the main query dies or falls asleep."""

    step: Step
    fault: Fault

    def can(self, life: Life) -> bool:
        return self.step.can(life)

    def play(self, life: Life) -> None:
        life.fault = self.fault
        self.step.play(life)


@dataclass(frozen=True)
class Wake(Step):
    """The process that has slept longest wakes."""

    def can(self, life: Life) -> bool:
        return bool(life.sleepers)

    def play(self, life: Life) -> None:
        sleeper = life.sleepers.pop(0)
        machine, jobs = sleeper.machine, sleeper.jobs
        others = [job for job in jobs if job.name in sleeper.overtaken and job.state != "asleep"]
        over = [job for job in others if job.state not in ("gone", "failed")]
        before, failed = life.stamps(over), {job.name: life.has_failure(job) for job in jobs}
        told = len(life.told)
        machine.wake()
        if sleeper.pending is not None:
            machine.await_(lambda: sleeper.pending is None or sleeper.pending.is_done)
            life._no_untyped(sleeper.pending, sleeper.what)
        stepping.settle(machine)
        if life.stamps(over) != before:
            raise Wrong(f"a process that woke changed a result: {sleeper.what}, {machine.met}")
        for job in over:
            if life.has_failure(job) and not failed[job.name]:
                raise Wrong(f"a process that woke left a failure of {job.table}: {machine.met}")
        names = [job.table for job in over]
        if any(each is machine and said["query"] in names for each, said in life.told[told:]):
            raise Wrong(f"a process that woke called on_failure: {life.told[-1]}")
        for job in jobs:
            took_over = job is sleeper.called and runs_on(job, machine)
            if took_over or (job.name not in sleeper.overtaken and job.state == "asleep"):
                job.state, job.machine = "running", machine
            elif job in over and job.is_running and job.machine is not None:
                stepping.settle(job.machine)
                if life._trigger(job) == "changes" and not runs_on(job, job.machine):
                    raise Wrong(f"a process that woke ended {job.table}: {machine.met}")
            elif job.state == "asleep":
                job.state = "gone"
        if not any(job.machine is machine for job in life.jobs.values()):
            life.zombies.append(machine)


def runs_on(job: Job, machine: Machine) -> bool:
    """Whether a machine runs a query."""
    return any(each.name == job.table and each.is_running for each in machine.workers)


@dataclass(frozen=True)
class Copy(Step):
    """Somebody makes a copy of the folder of a query."""

    job: str

    def can(self, life: Life) -> bool:
        return life.jobs[self.job].exists

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        job.copies["copy"] = life.world.below(folder_of_query(job.table))


@dataclass(frozen=True)
class Restore(Step):
    """The copy comes back, whole or in part, while nobody runs the query."""

    job: str
    part: Part

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return bool(job.copies) and job.state in ("stopped", "gone", "failed")

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        folder = folder_of_query(job.table) + self.part
        before = life.world.below(folder)
        copy = {path: file for path, file in job.copies["copy"].items() if path.startswith(folder)}
        life.world.replace(folder, copy)
        if before != copy:
            life.excuse(job, "its folder is an older one")


@dataclass(frozen=True)
class Remove(Step):
    """A part of the folder of a query is lost."""

    job: str
    part: Literal["checkpoints/", "epochs/", "wanted.json"]

    def can(self, life: Life) -> bool:
        job = life.jobs[self.job]
        return job.state in ("stopped", "gone", "failed")

    def play(self, life: Life) -> None:
        job = life.jobs[self.job]
        life.world.replace(folder_of_query(job.table) + self.part, {})
        if self.part != "wanted.json":
            life.excuse(job, "a part of its folder is lost")


__all__ = [name for name, each in list(globals().items()) if isinstance(each, type)]
