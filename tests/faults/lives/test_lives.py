"""Random lives of queries: after each step the results are as they have to be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.effort import examples
from tests.faults.lives.life import stage
from tests.faults.lives.planted import planted
from tests.faults.lives.random_lives import live, play, shorter
from tests.faults.lives.scripts import SCRIPTS

LIVES = 150
TOGETHER = 15


@pytest.fixture(scope="module", autouse=True)
def on_stage() -> Iterator[None]:
    with stage():
        yield


@pytest.mark.parametrize("first", range(0, examples(LIVES), TOGETHER))
def test_queries_live_through_anything(first: int, record_property) -> None:
    steps = 0
    for seed in range(first, first + TOGETHER):
        lived = live(seed)
        steps += len(lived.steps)
        if lived.wrong:
            pytest.fail(str(shorter(lived)), pytrace=False)
    record_property("survived", f"lives from {first}: {TOGETHER} of {steps} steps")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_life_that_once_went_wrong_goes_right(name: str) -> None:
    assert play(*SCRIPTS[name]) == ""


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (
            "a savepoint does not hold its sources",
            "a savepoint is gone back to when its sources would have expired",
        ),
        (
            "a query that is opened is not compared with its result",
            "a folder that is an older copy does not go on",
        ),
        (
            "a run that was overtaken writes checkpoints",
            "a checkpoint that slept is not taken for that of a later run",
        ),
    ],
)
def test_a_fault_that_few_lives_meet_is_found(fault: str, name: str) -> None:
    with planted(fault):
        assert play(*SCRIPTS[name])
