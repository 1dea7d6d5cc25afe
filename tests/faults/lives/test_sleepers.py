"""Whoever sleeps in the middle of changing a query leaves the one alone that is begun meanwhile."""

from itertools import count

import pytest

from pkray.errors import QueryExistsError, QueryFencedError
from tests.faults.lives import steps
from tests.faults.lives.books import definition_of, folder_of_life
from tests.faults.lives.jobs import MAIN, Setting
from tests.faults.lives.life import Life, life_of, played
from tests.faults.lives.machines import Fault, File
from tests.faults.lives.plans import Plan

SETTING = Setting(Plan("filter"), producers=("lookup", "none"), checkpoint_epochs=1)
NEXT = Plan("filter", bound=5)
CHANGES = {
    "drop": steps.Drop(MAIN),
    "begin anew": steps.Begin(MAIN, Plan("filter", bound=6), replace=True),
    "go back": steps.GoBack(MAIN, "saved"),
    "rescale": steps.Rescale(MAIN, 2),
    "upgrade": steps.Upgrade(MAIN, Plan("filter", bound=4)),
}
DEFINITIONS = "definitions/"


def files_of_query(life: Life) -> dict[str, File]:
    folder = folder_of_life(life.world, life.main.query)
    found = life.world.below(folder)
    return {path: file for path, file in found.items() if not path.endswith("/status.json")}


def slept(change: steps.Step, fault: Fault) -> str:
    """Sleep in a change while another process drops the query and begins it anew; say before which
    call, or nothing where the change has no such call.
    """
    with life_of(SETTING) as life:
        rows = [(number, number % 3, number, number % 2) for number in range(8)]
        played(
            life,
            steps.Write("d.a", tuple(rows[:4])),
            steps.Begin(MAIN),
            steps.Savepoint(MAIN, "saved"),
        )
        played(life, steps.Write("d.a", tuple(rows[4:6])))
        if isinstance(change, steps.Begin):
            played(life, steps.Stop(MAIN))
        played(life, steps.Faulted(change, fault))
        if not life.sleepers or life.sleepers[0].pending is None:
            return ""
        if life.main.exists:
            played(life, steps.Drop(MAIN))
        played(life, steps.Begin(MAIN, NEXT), steps.Savepoint(MAIN, "saved"))
        before = definition_of(life.world, life.main.query), files_of_query(life)
        sleeper = life.sleepers[0]
        steps.Wake().play(life)
        assert (definition_of(life.world, life.main.query), files_of_query(life)) == before
        assert sleeper.pending is not None
        call = sleeper.machine.met
        if f"create w/.queries/{life.main.query}/{DEFINITIONS}" in call:
            assert isinstance(sleeper.pending.failure, QueryFencedError | QueryExistsError), call
        played(life, steps.Write("d.a", tuple(rows[6:])), steps.Stop(MAIN), steps.Resume(MAIN))
        played(life, steps.GoBack(MAIN, "saved"), steps.Write("d.a", (), (rows[0],)))
        return call


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "path", [DEFINITIONS, pytest.param(".queries/", marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_a_sleeper_leaves_the_next_query_of_the_name_alone(change: str, path: str) -> None:
    met = []
    for at in count(1):
        call = slept(CHANGES[change], Fault("sleep", at, path))
        if not call:
            break
        met.append(call)
    assert any(f"/{DEFINITIONS}" in call for call in met), met
