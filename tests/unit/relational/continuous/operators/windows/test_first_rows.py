import random
from datetime import datetime
from typing import Any

import pytest

from tests.effort import examples
from tests.unit.relational.continuous.event_times import EventTimes, at

FIRST = (
    "SELECT k, v, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) AS n FROM l) "
    "WHERE n = 1"
)


def fields(rng: random.Random) -> dict[str, Any]:
    return {"k": rng.choice([None, *range(12)]), "v": rng.randrange(50)}


def is_late(name: str, moment: datetime, met: datetime) -> bool:
    return moment <= met


def first_rows(rng: random.Random, **arguments: Any) -> EventTimes:
    return EventTimes(rng, FIRST, {"l": ({"k": "INT", "v": "INT"}, fields)}, is_late, **arguments)


@pytest.mark.parametrize("seed", range(examples(6)))
def test_the_first_row_of_each_key_comes_when_the_watermark_passes_it(seed: int) -> None:
    rng = random.Random(seed)
    run = first_rows(rng, memory=rng.choice([2 << 10, 64 << 10]), parts=rng.choice([1, 3]))
    for _ in range(8):
        run.epoch(20)
        mark = run.watermark
        passed = [row for row in run.expected() if mark is not None and row[-1] <= mark]
        assert run.given() == passed
    run.run.finish()
    assert run.given() == run.expected()
    assert len(run.run.late_rows()) == run.late


def row(k: int, v: int, seconds: float) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at(seconds), "met": None}


def test_rows_of_a_key_that_came_give_nothing() -> None:
    run = first_rows(random.Random(0)).run
    run.push("l", [row(1, 5, 1), row(0, 0, 10)])
    run.push("l", [row(1, 6, 11), row(0, 0, 30)])
    assert run.content == {(1, 5, at(1)): 1, (0, 0, at(10)): 1}
    assert run.late_rows() == []


def test_a_key_is_remembered_as_long_as_its_state_lives() -> None:
    run = first_rows(random.Random(0), ttl="10 ms").run
    run.push("l", [row(1, 5, 1), row(0, 0, 10)], time=1)
    run.push("l", [row(1, 6, 11)], time=5)
    run.push("l", [row(1, 7, 12)], time=20)
    run.finish()
    assert run.content == {(1, 5, at(1)): 1, (1, 7, at(12)): 1, (0, 0, at(10)): 1}


def test_a_row_that_waits_does_not_expire() -> None:
    run = first_rows(random.Random(0), ttl="10 ms").run
    run.push("l", [row(1, 5, 4)], time=1)
    run.push("l", [row(1, 6, 5), row(1, 4, 3)], time=50)
    run.finish()
    assert run.content == {(1, 4, at(3)): 1}
