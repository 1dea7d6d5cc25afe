"""Random lives of queries: after each step the results are as they have to be."""

import pytest

from tests.effort import examples
from tests.faults.lives.planted import planted
from tests.faults.lives.random_lives import live, play, shorter
from tests.faults.lives.scripts import SCRIPTS

LIVES = 2
SLOW_LIVES = 600
TOGETHER = 2


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first >= examples(LIVES) else [])
        for first in range(0, examples(SLOW_LIVES), TOGETHER)
    ],
)
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
        (
            "whoever goes back to a savepoint leaves the result as it is",
            "a query that goes back takes along what came and went since",
        ),
        (
            "processes of other incarnations may commit",
            "a commit that slept is not made when the query was begun anew",
        ),
        ("a run that lost its query fails", "a run that a sleeper cut off goes on"),
    ],
)
def test_a_fault_that_few_lives_meet_is_found(fault: str, name: str) -> None:
    with planted(fault):
        assert play(*SCRIPTS[name])


GUARDS = (
    "processes of other incarnations may commit",
    "a run does not look whether its query is still there",
    "a run does not look whether its checkpoint is still there",
    "a worker does not look whether its query is to run",
)
"""Each alone holds a process back that slept at rest while its query was begun anew: no life finds
the second one where only that is taken away.
"""

SLEPT = SCRIPTS["a process that slept at rest does not go on with a query that was begun anew"]


def test_a_process_that_no_guard_holds_back_goes_on_with_the_next_query_of_the_name() -> None:
    with planted(*GUARDS):
        assert play(*SLEPT)


@pytest.mark.parametrize("left", GUARDS)
def test_each_guard_alone_holds_a_process_back_that_slept_at_rest(left: str) -> None:
    with planted(*(each for each in GUARDS if each != left)):
        assert play(*SLEPT) == ""
