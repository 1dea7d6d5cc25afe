"""Whoever is killed or sleeps as it makes a savepoint leaves one that is whole, or nothing."""

import json
from itertools import count

import pytest

from tests.faults.lives.books import folder_of, folder_of_life
from tests.faults.lives.jobs import MAIN, Setting
from tests.faults.lives.life import Life, life_of, played
from tests.faults.lives.machines import Fate, Fault
from tests.faults.lives.plans import Plan
from tests.faults.lives.steps import Begin, Expire, GoBack, Resume, Stop, Wake, Write

SETTING = Setting(
    Plan("totals"), producers=("none", "none"), shown="none", checkpoint_epochs=1, apart=True
)


def write(number: int) -> Write:
    return Write("d.a", ((number, 0, number, 0),))


FURTHER = [write(number) for number in (3, 4, 5)]
"""As many as let go of a checkpoint that was there before a run began."""


def held(life: Life) -> set[str]:
    """Name what keeps anything for savepoints."""
    files = [
        path.removeprefix(f"{folder_of(table)}{kind}/{kind}-")
        for table, kind in [("d.a", "consumer"), ("d.r", "tag")]
        for path in life.world.below(f"{folder_of(table)}{kind}/")
    ]
    return {name for name in files if name.startswith("savepoint-")}


def made(life: Life) -> set[str]:
    """Name what is kept for the savepoints that are there."""
    files = life.world.below(f"{folder_of_life(life.world, life.main.query)}savepoints/")
    return {json.loads(file.data)["held"] for file in files.values()}


def attempted(fault: Fault) -> str:
    """Make a savepoint in the middle of which its process is killed or sleeps, and go on elsewhere;
    say before which call, or nothing where it has no such call.
    """
    with life_of(SETTING) as life:
        job = life.main
        played(life, write(1), Begin(MAIN), write(2))
        machine = life.machine_of(job)
        machine.expect(fault)
        outcome = machine.call(lambda catalog: catalog.query(job.query).savepoint("s"))
        if machine.is_awake:
            return ""
        life.look_at(machine, outcome, "savepoint s", job)
        played(life, Resume(MAIN), *FURTHER, Expire("d.a"))
        if fault.fate == "sleep":
            played(life, Wake(), write(6))
        if job.is_running:
            played(life, Stop(MAIN))
        played(life, Resume(MAIN), write(7))
        assert held(life) == made(life), machine.met
        if made(life):
            job.savepoints["s"] = job.plan
            played(life, GoBack(MAIN, "s"), write(8))
        return machine.met


@pytest.mark.timeout(1800)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("fate", ["kill", "sleep"])
@pytest.mark.parametrize(
    "path", ["savepoint", pytest.param("", marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_an_attempt_leaves_a_whole_savepoint_or_holds_nothing(fate: Fate, path: str) -> None:
    met = []
    for at in count(1):
        call = attempted(Fault(fate, at, path))
        if not call:
            break
        met.append(call)
    for changed in ("/consumer/consumer-savepoint-", "/tag/tag-savepoint-", "/savepoints/s"):
        assert any(changed in call for call in met), met
