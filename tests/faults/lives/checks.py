"""What has to be so after each step of a life."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pkray.errors import PkrayError
from tests.faults.lives.books import Histories, Result, Seen, definition_of, folder_of, positions_in
from tests.faults.lives.jobs import MAIN, Job
from tests.faults.lives.machines import Machine, Outcome
from tests.faults.lives.plans import Bag

if TYPE_CHECKING:
    from tests.faults.lives.life import Life


class Wrong(AssertionError):
    """Something is not as it has to be."""


def typed(outcome: Outcome, what: str) -> None:
    """Check that a call that failed failed with an error of pkray's."""
    error = outcome.failure
    if error is not None and not isinstance(error, PkrayError):
        raise Wrong(f"{what} failed untyped: {type(error).__name__}: {error}") from error


def check(life: Life) -> None:
    """Compare everything with the books.

    Raises:
        Wrong: something differs.
    """
    for result in life.results.values():
        _check_snapshots(life, result)
    for job in life.jobs.values():
        job.former, job.clears = None, job.clears and not job.is_running
    for job in life.jobs.values():
        machine = job.at_work
        if machine is not None:
            _check_running(life, job, machine)


def _check_snapshots(life: Life, result: Result) -> None:
    """Each snapshot holds what a plan gives at the positions that it names, and what others had
    written before.
    """
    jobs = {job.query: job for job in life.jobs.values()}
    before = result.newest
    for seen in result.new():
        job = jobs.get(seen.query) if seen.positions else None
        if job is None:
            _check_users(result, seen, before)
        else:
            _check_snapshot(life, result, seen, job)
        before = seen.rows


def _check_users(result: Result, seen: Seen, before: Bag) -> None:
    others = before - result.parts.get("", Counter())
    result.parts[""] = result.user_rows
    if seen.rows not in (before, others + result.user_rows):
        raise Wrong(
            f"snapshot {seen.stamp.number} of {result.name} ({seen.said['commitKind']}) names no "
            f"sources, and rows that are not its own differ: {differ(seen.rows, before)}"
        )


def _check_snapshot(life: Life, result: Result, seen: Seen, job: Job) -> None:
    others, first = result.others_than(job.query), None
    for given in _given(life, job, result.name, seen.positions):
        first = given + others if first is None else first
        if seen.rows == given + others:
            result.parts[job.query] = given
            return
        if job.clears and seen.rows == given:
            result.parts = {job.query: given}
            result.users = {}
            return
    raise Wrong(
        f"snapshot {seen.stamp.number} of {result.name} is wrong at {seen.positions}: "
        f"{differ(seen.rows, first or Counter())}"
    )


def _given(life: Life, job: Job, table: str, positions: Mapping[str, int]) -> Iterator[Bag]:
    """Give what the plans that a query may have give at positions of its sources."""
    for plan in (job.plan, job.older, job.former):
        if plan is None:
            continue
        part = plan.parts[job.tables.index(table)]
        for histories in (life.histories(job), job.histories, _unnoticed(life, job)):
            held = positions_in(histories, positions)
            if held is not None:
                yield part.result(held)


def _check_running(life: Life, job: Job, machine: Machine) -> None:
    """What runs has read everything, and its results are what its plan gives of that."""
    outcome = machine.call(lambda catalog: catalog.query(job.query).status())
    typed(outcome, "status")
    if outcome.failure is not None:
        raise Wrong(f"status of {job.query} failed: {outcome.failure}")
    status = outcome.value
    if status["state"] == "failed":
        life.failed(job, status["failure"])
        return
    if status["state"] == "stopped" and job.excuses:  # failed, and upgraded where it stood
        job.state = "stopped"
        return
    wanted = "ended" if life.trigger(job) == "available_now" else "running"
    if status["state"] != wanted:
        raise Wrong(f"{job.query} is {status['state']}, and should be {wanted}")
    positions = status["sources"]
    agree = [_check_result(life, job, life.results[each], positions) for each in job.tables]
    if not job.excuses or all(agree):
        job.histories = life.histories(job)
    if not job.excuses:
        _check_holds(life, job, positions)


def _check_result(life: Life, job: Job, result: Result, positions: Mapping[str, int]) -> bool:
    """Check a result; give whether it is what the sources hold now."""
    assert job.plan is not None
    now, rows = life.histories(job), result.newest
    part, others = job.plan.parts[job.tables.index(result.name)], result.others_than(job.query)
    held = positions_in(now, positions)
    expected = part.result(held) + others if held is not None else None
    agrees = rows == expected
    if not agrees and job.excuses:
        held = positions_in(_unnoticed(life, job), positions)
        expected = part.result(held) + others if held is not None else None
    if rows != expected and not positions:  # those of an earlier query stay until it has read
        expected = result.parts.get(job.query, Counter()) + others
    if expected is None:
        raise Wrong(f"{job.query} is at {positions}, which its sources never were at")
    if rows != expected:
        raise Wrong(
            f"{result.name} is wrong at {positions}: {differ(rows, expected)}; verify: "
            f"{_verified(job)}"
        )
    newest = {name: history.at[history.newest] for name, history in now.items()}
    if not job.excuses and _tells_all(life, job) and part.result(newest) + others != expected:
        raise Wrong(f"{job.query} has not read everything: it is at {positions}")
    return agrees


def _unnoticed(life: Life, job: Job) -> Histories:
    """Give what the sources held, as far as the query need have noticed that it changed: of those
    that have not gone on since, what they held before.
    """
    places = life.places(job)
    return {
        name: job.histories.get(name, history) if job.excused.get(name) == places[name] else history
        for name, history in life.histories(job).items()
    }


def _check_holds(life: Life, job: Job, positions: Mapping[str, int]) -> None:
    """What the query has still to read does not expire."""
    reader = f"query-{job.query}@{definition_of(life.world, job.query)['incarnation']}"
    for name, at in positions.items():
        file = life.world.files.get(f"{folder_of(name)}consumer/consumer-{reader}")
        if file is None:
            raise Wrong(f"{name} is not held for {job.query}, which is at {positions}")
        following = json.loads(file.data)["nextSnapshot"]
        if following > at + 1 > 0:
            raise Wrong(f"{name} is held from {following} on for {job.query} at {positions}")


def _tells_all(life: Life, job: Job) -> bool:
    """Whether the sources' changelogs tell of all rows that they hold."""
    if job.name == MAIN:
        return all(life.sources[name].tells_all for name in job.sources)
    tables = [life.results[name] for name in job.sources if name in life.results]
    rows = all(life.sources[name].tells_all for name in job.sources if name in life.sources)
    return rows and (
        life.setting.shown in ("none", "input") or all(each.tells_all for each in tables)
    )


def _verified(job: Job) -> str:
    assert job.machine is not None
    outcome = job.machine.call(lambda catalog: str(catalog.query(job.query).verify()))
    return str(outcome.failure or outcome.value)


def verify(life: Life, job: Job) -> None:
    """Check that `verify` says of a result that is right that it is.

    Raises:
        Wrong: it says something else.
    """
    machine = job.at_work
    if machine is None or any(life.results[name].others_than(job.query) for name in job.tables):
        return
    outcome = machine.call(lambda catalog: catalog.query(job.query).verify())
    typed(outcome, f"verify of {job.query}")
    if outcome.failure is not None and not job.excuses:
        raise Wrong(f"verify of {job.query} failed: {outcome.failure}")
    if outcome.failure is None and not outcome.value.equal:
        raise Wrong(f"verify of {job.query} says {outcome.value}, and it is right")


def differ(found: Bag, expected: Bag) -> str:
    """Say by which rows what was found differs."""
    missing, extra = expected - found, found - expected
    return f"missing {_few(missing)}, extra {_few(extra)}"


def _few(rows: Bag) -> str:
    shown: list[Any] = [*rows.elements()]
    return f"{shown[:4]}{f' and {len(shown) - 4} more' if len(shown) > 4 else ''}"
