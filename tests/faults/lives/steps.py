"""What may happen in a life: each step is written as it is made."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import pkray
from pkray.errors import QueryExistsError, QueryNotFoundError, UpgradeError
from pkray.relational.continuous.queries.definitions.query_store import UPGRADE
from tests.faults.lives import checks, stepping
from tests.faults.lives.books import (
    Source,
    Stamp,
    definition_of,
    folder_of_life,
    folder_of_query,
    positions_in,
    snapshot_json,
    snapshots_of,
)
from tests.faults.lives.checks import Wrong, typed
from tests.faults.lives.jobs import MAIN, READER, RESULT, SECOND, AnyPlan, Job
from tests.faults.lives.life import Life
from tests.faults.lives.machines import Fault, Machine
from tests.faults.lives.plans import Added, Plan, Reading, Row

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


@dataclass(frozen=True)
class OfSource(Step):
    """Something that happens to a source."""

    source: str

    def can(self, life: Life) -> bool:
        return self.may(life, life.sources[self.source])

    def play(self, life: Life) -> None:
        self.do(life, life.sources[self.source])

    def may(self, life: Life, source: Source) -> bool:
        return True

    def do(self, life: Life, source: Source) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class OfJob(Step):
    """Something that happens to a query."""

    job: str

    def can(self, life: Life) -> bool:
        return self.may(life, life.jobs[self.job])

    def play(self, life: Life) -> None:
        self.do(life, life.jobs[self.job])

    def may(self, life: Life, job: Job) -> bool:
        return True

    def do(self, life: Life, job: Job) -> None:
        raise NotImplementedError


# -- what happens to the sources --


@dataclass(frozen=True)
class Write(OfSource):
    rows: tuple[Row, ...]
    deleted: tuple[Row, ...] = ()

    def may(self, life: Life, source: Source) -> bool:
        return bool(self.rows or self.deleted)

    def do(self, life: Life, source: Source) -> None:
        known = tuple(row for row in self.deleted if source.key(row) in source.rows)
        if self.rows or known:
            source.write(self.rows, known)


@dataclass(frozen=True)
class Overwrite(OfSource):
    partition: int | None
    rows: tuple[Row, ...]

    def may(self, life: Life, source: Source) -> bool:
        layout = life.setting.layout
        return layout == "parted" or (self.partition is None and layout == "plain")

    def do(self, life: Life, source: Source) -> None:
        source.overwrite(self.partition, self.rows)


@dataclass(frozen=True)
class DropPartition(OfSource):
    partition: int

    def may(self, life: Life, source: Source) -> bool:
        return life.setting.layout != "plain"

    def do(self, life: Life, source: Source) -> None:
        source.drop_partition(self.partition)


class Compact(OfSource):
    def do(self, life: Life, source: Source) -> None:
        source.compact()


@dataclass(frozen=True)
class Expire(OfSource):
    retained: int = 1

    def do(self, life: Life, source: Source) -> None:
        source.expire(self.retained)


@dataclass(frozen=True)
class AddColumn(OfSource):
    name: str

    def may(self, life: Life, source: Source) -> bool:
        return self.name not in source.table.schema.names

    def do(self, life: Life, source: Source) -> None:
        source.add_column(self.name)


class DropAndAddColumn(OfSource):
    """The values of ``v`` go, and a column of its name comes."""

    def do(self, life: Life, source: Source) -> None:
        source.drop_and_add("v")
        _excuse(life, self.source, "a column was dropped and added")


class MakeAnew(OfSource):
    def do(self, life: Life, source: Source) -> None:
        source.make_anew()
        _excuse(life, self.source, "a source was made anew")


@dataclass(frozen=True)
class RollBackSource(OfSource):
    """To the so-manieth snapshot that is there."""

    place: int

    def may(self, life: Life, source: Source) -> bool:
        return len(source.held()) > 1

    def do(self, life: Life, source: Source) -> None:
        held = source.held()
        source.roll_back(held[self.place % (len(held) - 1)])
        _excuse(life, self.source, "a source was rolled back")


def _excuse(life: Life, source: str, why: str) -> None:
    for job in life.jobs.values():
        if job.exists and source in job.sources:
            life.excuse(job, why)


# -- what happens to queries --


@dataclass(frozen=True)
class Begin(OfJob):
    """`materialize` or `start`: a new query, one that goes on, or one in the place of another."""

    plan: AnyPlan | None = None
    replace: bool = False

    def may(self, life: Life, job: Job) -> bool:
        if job.is_running or (job.name != MAIN and not life.main.exists):
            return False
        if job.name == SECOND:  # what main is still to clear would take its rows along
            return life.setting.form == "insert" and not (self.replace or life.main.clears)
        return not (self.replace and life.jobs[SECOND].exists)  # it would lose its rows

    def do(self, life: Life, job: Job) -> None:
        plan, before, is_there = self._plan(life), job.plan, job.exists
        is_new = not is_there or self.replace
        refuses = (is_there and plan != before) if not is_new else self._has_others(life, job)
        machine = life.machine_of(job)

        def begin(catalog: pkray.Catalog) -> Any:
            how: dict[str, Any] = {
                "trigger": life.trigger(job),
                "on_failure": life.on_failure(machine),
                "replace": self.replace,
            }
            if self._makes(life):
                options = life.setting.options if job.name == MAIN else None
                return catalog.sql(plan.sql).materialize(job.query, options=options, **how)
            return catalog.sql(insert_of(job, plan)).start(job.query, **how)

        if is_new:
            job.former, job.plan, job.clears = before, plan, self.replace
        begun = life.control(job, f"begin {job.query}", begin, refuses=refuses)
        for sleeper in life.sleepers:
            if sleeper.machine is machine and sleeper.called is job and self.replace:
                sleeper.plan = plan
        if not begun:
            job.plan, job.former = before, None
            return
        if refuses and is_there and not is_new:
            raise Wrong(f"another plan took the place of the one of {job.query}")
        if is_new:
            job.excuses, job.savepoints, job.older = set(), {}, None
        job.state = "running"

    def _makes(self, life: Life) -> bool:
        return self.job == READER or (self.job == MAIN and life.setting.form == "materialize")

    def _has_others(self, life: Life, job: Job) -> bool:
        """Whether others wrote to a result that an earlier query of the name wrote too."""
        if self.replace or self._makes(life) or job.plan is None:
            return False
        return any(life.results[name].others_than(job.query) for name in job.tables) or (
            life.jobs[SECOND].plan is not None
        )

    def _plan(self, life: Life) -> AnyPlan:
        if self.job == MAIN:
            return self.plan or life.setting.plan
        columns = life.setting.plan.columns
        if self.job == SECOND:
            return Added(columns)
        return Reading(RESULT, columns, life.setting.counts)


def insert_of(job: Job, plan: AnyPlan) -> str:
    """Write the INSERT of a plan, or the statement set."""
    each = [
        f"INSERT INTO {table} {part.sql}"
        for table, part in zip(job.tables, plan.parts, strict=True)
    ]
    if len(each) == 1:
        return each[0]
    return f"EXECUTE STATEMENT SET BEGIN {'; '.join(each)}; END"


class Resume(OfJob):
    def may(self, life: Life, job: Job) -> bool:
        return job.exists and not job.is_running

    def do(self, life: Life, job: Job) -> None:
        on_failure = life.on_failure(life.machine_of(job))
        done = life.ask(
            job, f"resume {job.query}", lambda query: query.resume(on_failure=on_failure)
        )
        job.state = "running" if done else "failed"


class Stop(OfJob):
    def may(self, life: Life, job: Job) -> bool:
        return job.is_running

    def do(self, life: Life, job: Job) -> None:
        life.ask(job, f"stop {job.query}", lambda query: query.stop(), takes_over=False)
        job.state = "stopped"


@dataclass(frozen=True)
class Savepoint(OfJob):
    name: str

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.state != "asleep" and self.name not in job.savepoints

    def do(self, life: Life, job: Job) -> None:
        seen = all(life.results[name].seen for name in job.tables)
        done = life.ask(
            job,
            f"savepoint {self.name} of {job.query}",
            lambda query: query.savepoint(self.name),
            already=(QueryExistsError,),
            refuses=lambda: not job.is_running or not seen,
            takes_over=False,
        )
        if done:
            job.savepoints[self.name] = job.plan


@dataclass(frozen=True)
class GoBack(OfJob):
    """`resume` from a savepoint."""

    name: str

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and self.name in job.savepoints

    def do(self, life: Life, job: Job) -> None:
        others = any(life.results[name].others_than(job.query) for name in job.tables)
        was_there = life.jobs[SECOND].plan is not None or "" in life.results[RESULT].parts
        refuses = job.savepoints[self.name] != job.plan or others or was_there
        how = {"savepoint": self.name, "on_failure": life.on_failure(life.machine_of(job))}
        what = f"go back to {self.name} of {job.query}"
        if life.ask(job, what, lambda query: query.resume(**how), refuses=refuses):
            job.state = "running"


class Drop(OfJob):
    def may(self, life: Life, job: Job) -> bool:
        return job.exists

    def do(self, life: Life, job: Job) -> None:
        how = {"already": (QueryNotFoundError,), "is_excused": False}
        life.ask(job, f"drop {job.query}", lambda query: query.drop(), **how)
        job.state = "dropped"
        job.excuses = set()


@dataclass(frozen=True)
class Upgrade(OfJob):
    plan: Plan

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.state != "asleep" and isinstance(job.plan, Plan)

    def do(self, life: Life, job: Job) -> None:
        before, older = job.plan, job.older
        others = any(life.results[name].others_than(job.query) for name in job.tables)
        refuses = older is not None or not job.is_running or others
        is_made = life.setting.form == "materialize"
        text = self.plan.sql if is_made else insert_of(job, self.plan)
        if self.plan != before:
            job.older, job.plan = before, self.plan
        asleep = len(life.sleepers)
        how = {"refuses": refuses, "drives": True}
        upgrade = f"upgrade {job.query}"
        done = life.ask(job, upgrade, lambda query: query.upgrade(text, timeout=20), **how)
        if not done:
            job.plan, job.older = before, older
        elif older is None and _file_of(life, job, UPGRADE) in life.world.files:
            job.older = before  # the plan is another one where its tables have other columns
        for sleeper in life.sleepers[asleep:]:
            sleeper.newer = self.plan


class Accept(OfJob):
    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.older is not None

    def do(self, life: Life, job: Job) -> None:
        what = f"accept the upgrade of {job.query}"
        how = {"already": (UpgradeError,), "takes_over": False}
        life.ask(job, what, lambda query: query.accept(), **how)
        job.former, job.older = job.older, None


class RollBack(OfJob):
    """The older plan of an upgrade comes back."""

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.older is not None and job.state != "asleep"

    def do(self, life: Life, job: Job) -> None:
        newer = job.plan
        others = any(life.results[name].others_than(job.query) for name in job.tables)
        job.plan, job.older = job.older, newer
        what = f"roll the upgrade of {job.query} back"
        refuses = not job.is_running or others
        how = {"already": (UpgradeError,), "refuses": refuses, "drives": True}
        if life.ask(job, what, lambda query: query.rollback(timeout=20), **how):
            job.former, job.older = newer, None
        else:
            job.plan, job.older = newer, job.plan


@dataclass(frozen=True)
class Rescale(OfJob):
    workers: int

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.state != "asleep"

    def do(self, life: Life, job: Job) -> None:
        life.ask(job, f"rescale {job.query}", lambda query: query.rescale(self.workers))


class Verify(OfJob):
    """What `verify` says of a query, wherever it stands, is true."""

    def may(self, life: Life, job: Job) -> bool:
        return job.exists and job.state != "asleep"

    def do(self, life: Life, job: Job) -> None:
        life.settle()
        checks.check(life)
        if job.at_work is not None:
            checks.verify(life, job)
            return
        machine = life.machine_of(job)
        outcome = machine.call(lambda catalog: catalog.query(job.query).verify())
        typed(outcome, f"verify of {job.query}")
        report = outcome.value
        if outcome.failure is not None or not report.equal or len(job.tables) > 1:
            return
        rows = life.results[job.tables[0]].newest
        assert job.plan is not None
        plans = [each for each in (job.plan, job.older) if each is not None]
        held = [positions_in(each, report.sources) for each in (life.histories(job), job.histories)]
        if rows not in [plan.parts[0].result(h) for plan in plans for h in held if h is not None]:
            raise Wrong(f"verify of {job.query} says {report}, and it is not")


class Wait(OfJob):
    """`wait` for what will not come ends at once where nobody runs a query."""

    def may(self, life: Life, job: Job) -> bool:
        return job.state in ("stopped", "failed")

    def do(self, life: Life, job: Job) -> None:
        machine = life.machine_of(job)
        far = dict.fromkeys(job.sources, 1 << 40)
        begun = life.world.late
        outcome = machine.call(lambda catalog: catalog.query(job.query).wait(far, timeout=30))
        typed(outcome, f"wait for {job.query}")
        if outcome.failure is None or life.world.late - begun > 5_000:
            raise Wrong(f"wait for {job.query}, which is {job.state}, gave {outcome.value}")


@dataclass(frozen=True)
class UsersWrite(Step):
    """Users write rows of their own to a result, and delete others."""

    numbers: tuple[int, ...]
    deleted: tuple[int, ...] = ()

    def can(self, life: Life) -> bool:
        return life.setting.form == "insert"

    def play(self, life: Life) -> None:
        result = life.results[RESULT]
        columns, key = life.setting.columns_of(RESULT)
        table = life.admin.catalog.load_table(RESULT)
        names = [name for name, _ in columns]

        def row(number: int) -> dict[str, int]:
            return {name: number % 2 if name == "p" else number for name in names}

        def known(number: int) -> Row:
            return tuple(row(number)[name] for name in key)

        gone = [number for number in self.deleted if known(number) in result.users]
        with table.open_writer("user") as writer:
            if self.numbers:
                writer.upsert([row(number) for number in self.numbers])
            if gone:
                writer.delete([{name: row(number)[name] for name in key} for number in gone])
            writer.commit()
        for number in gone:
            del result.users[known(number)]
        for number in self.numbers:
            result.users[known(number)] = tuple(row(number).values())
        for job in life.jobs.values():
            if job.exists and RESULT in job.tables and _is_to_replace(life, job):
                life.excuse(job, "users wrote before it replaced what was there")


def _is_to_replace(life: Life, job: Job) -> bool:
    """Whether the rows of an earlier query are still to go, and those of users are not."""
    said = definition_of(life.world, job.query)
    made = (
        snapshot_json(life.world, RESULT, each.number).get("properties", {})
        for each in snapshots_of(life.world, RESULT)
    )
    named = {each.get("pkray.query.incarnation") for each in made}
    replaces = RESULT in said.get("replaces", ()) and not said.get("clears")
    return replaces and said["incarnation"] not in named


# -- what happens to processes and folders --


class Kill(OfJob):
    """The process of a query dies while nothing happens."""

    def may(self, life: Life, job: Job) -> bool:
        return job.machine is not None and job.machine.is_awake

    def do(self, life: Life, job: Job) -> None:
        assert job.machine is not None
        machine = job.machine
        self.strike(machine)
        life.look_at(machine)

    def strike(self, machine: Machine) -> None:
        machine.kill()


class Sleep(Kill):
    """The process of a query sleeps while nothing happens."""

    def strike(self, machine: Machine) -> None:
        machine.sleep()


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
        machine, jobs, pending = sleeper.machine, sleeper.jobs, sleeper.pending
        others = [job for job in jobs if job.name in sleeper.overtaken]
        over = [job for job in others if job.state not in ("asleep", "gone", "failed")]
        theirs = {name for job in jobs if job not in others for name in job.tables}
        fixed = {name for job in over if job is not sleeper.called for name in job.tables} - theirs
        before = {name: _newest(life, name) for name in fixed}
        failed = [job for job in over if _has_failure(life, job)]
        told, done = len(life.told), len(machine.mutations)
        was_upgrading = _is_upgrading(life, sleeper.called)
        opening = {each.name for each in machine.workers if each.is_running and each._run is None}
        machine.wake()
        if pending is not None:
            elsewhere = sleeper.called.at_work if sleeper.called is not None else None
            with elsewhere.driven_by_others() if elsewhere is not None else nullcontext():
                machine.await_(lambda: pending.is_done)
            typed(pending, sleeper.what)
        stepping.settle(machine)
        met = f"{sleeper.what} {machine.met}".strip()
        if {name: _newest(life, name) for name in fixed} != before:
            raise Wrong(f"a process that woke changed a result: {met}")
        if sleeper.called in over and sleeper.called.excuses:
            over.remove(sleeper.called)  # it begins now, and sees what who runs it has yet to see
        for job in over:
            if _has_failure(life, job) and job not in failed:
                raise Wrong(f"a process that woke left a failure of {job.query}: {met}")
        names = [job.query for job in over]
        if any(each is machine and said["query"] in names for each, said in life.told[told:]):
            raise Wrong(f"a process that woke called on_failure: {life.told[-1]}")
        called = sleeper.called
        if called is not None and sleeper.what.startswith("drop") and _is_dropped(life, called):
            called.machine, called.state, called.older = None, "dropped", None
        if called is not None and sleeper.what.startswith("stop") and called.is_running:
            wish = _file_of(life, called, f"wanted-{_incarnation(life, called)}.json")
            if any(each.path == wish for each in machine.mutations[done:]):
                called.state = "stopped"  # nothing tells it from one that is called now
        if sleeper.newer is not None and not was_upgrading and _is_upgrading(life, called):
            assert called is not None
            called.older, called.plan = called.plan, sleeper.newer
        for job in jobs:
            starts = called is job or job.query in opening
            self._goes_on(life, starts, job, machine, job.name in sleeper.overtaken)
        if called is not None and sleeper.plan is not None and called.machine is machine:
            called.former, called.plan, called.clears = called.plan, sleeper.plan, True
            called.excuses, called.savepoints, called.older = set(), {}, None
        if not any(job.machine is machine for job in life.jobs.values()):
            life.zombies.append(machine)

    @staticmethod
    def _goes_on(
        life: Life, is_called: bool, job: Job, machine: Machine, is_overtaken: bool
    ) -> None:
        """Take note of where a query runs now."""
        took_over = is_called and runs_on(job, machine)  # it was about to start it
        if took_over or (not is_overtaken and job.state == "asleep"):
            job.state, job.machine = "running", machine
        elif job.state == "asleep":
            job.state = "gone"
        elif job.at_work is not None and is_overtaken:
            stepping.settle(job.at_work)
            if life.trigger(job) == "changes" and not runs_on(job, job.at_work):
                raise Wrong(f"a process that woke ended {job.query}: {machine.met}")


def _incarnation(life: Life, job: Job) -> str:
    return str(definition_of(life.world, job.query)["incarnation"])


def _is_upgrading(life: Life, job: Job | None) -> bool:
    return job is not None and job.exists and _file_of(life, job, UPGRADE) in life.world.files


def _is_dropped(life: Life, job: Job) -> bool:
    try:
        return job.exists and bool(definition_of(life.world, job.query).get("dropped"))
    except ValueError:  # emptied, once all else was deleted
        return True


def runs_on(job: Job, machine: Machine) -> bool:
    """Whether a machine runs a query."""
    return any(each.name == job.query and each.is_running for each in machine.workers)


def _newest(life: Life, table: str) -> list[Stamp]:
    """Find the newest snapshot of other rows; whoever hosts a table may compact it."""
    return [
        each
        for each in snapshots_of(life.world, table)
        if snapshot_json(life.world, table, each.number)["commitKind"] != "COMPACT"
    ][-1:]


def _has_failure(life: Life, job: Job) -> bool:
    files = life.world.below(folder_of_query(job.query))
    return any(path.endswith("/failure.json") for path in files)


def _file_of(life: Life, job: Job, name: str) -> str:
    return f"{folder_of_life(life.world, job.query)}{name}"


class Copy(OfJob):
    """Somebody makes a copy of the folder of a query."""

    def may(self, life: Life, job: Job) -> bool:
        return job.exists

    def do(self, life: Life, job: Job) -> None:
        job.copies["copy"] = life.world.below(folder_of_query(job.query))


@dataclass(frozen=True)
class Restore(OfJob):
    """The copy comes back, whole or in part, while nobody runs the query."""

    part: Part

    def may(self, life: Life, job: Job) -> bool:
        return bool(job.copies) and job.state in ("stopped", "gone", "failed")

    def do(self, life: Life, job: Job) -> None:
        folder = _file_of(life, job, self.part) if self.part else folder_of_query(job.query)
        before = life.world.below(folder)
        copy = {path: file for path, file in job.copies["copy"].items() if path.startswith(folder)}
        life.world.replace(folder, copy)
        if before != copy:
            life.excuse(job, "its folder is an older one")


@dataclass(frozen=True)
class Remove(OfJob):
    """A part of the folder of a query is lost."""

    part: Literal["checkpoints/", "epochs/", "wanted"]

    def may(self, life: Life, job: Job) -> bool:
        return job.state in ("stopped", "gone", "failed")

    def do(self, life: Life, job: Job) -> None:
        life.world.replace(_file_of(life, job, self.part), {})
        if self.part != "wanted":
            life.excuse(job, "a part of its folder is lost")
