import random
from datetime import datetime
from typing import Any

import pytest

from pkray.relational.continuous.operators.joins import intervals
from pkray.relational.plan.nodes import IntervalJoin
from tests.unit.relational.continuous.event_times import EventTimes, at

JOINED = "SELECT l.k, l.v, l.at, r.k AS rk, r.v AS rv, r.at AS rat FROM l {kind} r ON {on}"
MET = "SELECT k, v, at FROM l WHERE {kind} (SELECT 1 FROM r WHERE {on})"
BOUNDS = [
    ("- INTERVAL '4' SECOND", "+ INTERVAL '3' SECOND"),
    ("+ INTERVAL '1' SECOND", "+ INTERVAL '6' SECOND"),
    ("- INTERVAL '6' SECOND", "- INTERVAL '2' SECOND"),
    ("", ""),
]
KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS"]
COLUMNS = {"k": "INT", "v": "INT"}


def fields(rng: random.Random) -> dict[str, Any]:
    return {"k": rng.choice([None, 0, 0, 0, 1, 2, 3]), "v": rng.randrange(3)}


def is_late(name: str, moment: datetime, met: datetime) -> bool:
    return moment <= met


def interval_join(
    rng: random.Random, kind: str, bounds: tuple[str, str], and_: str = "", **arguments: Any
) -> EventTimes:
    low, high = bounds
    on = f"l.k = r.k AND l.at BETWEEN r.at {low} AND r.at {high}{and_}"
    sql = (MET if "EXISTS" in kind else JOINED).format(kind=kind, on=on)
    streams = dict.fromkeys("lr", (COLUMNS, fields))
    return EventTimes(rng, sql, streams, is_late, **arguments)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("updating", [False, True])
@pytest.mark.parametrize("bounds", range(len(BOUNDS)))
def test_what_all_times_passed_left_is_what_the_bounded_run_gives(
    kind: str, updating: bool, bounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{kind} {updating} {bounds}")
    monkeypatch.setattr(intervals, "FIRST_ROWS", rng.choice([1, 16]))
    run = interval_join(
        rng,
        kind,
        BOUNDS[bounds],
        rng.choice(["", " AND l.v <= r.v"]),
        updating=updating,
        memory=rng.choice([4 << 10, 64 << 10]),
        parts=rng.choice([1, 3]),
    )
    assert any(isinstance(node, IntervalJoin) for node in run.run.plan.walk())
    for _ in range(6):
        run.epoch(20)
        extra = set(run.given()) - set(run.expected())
        assert not extra
        if kind in ("JOIN", "EXISTS"):
            assert run.given() == run.expected()
    run.run.finish()
    assert run.given() == run.expected()
    assert run.run.held_rows() == 0


def row(k: int | None, v: int, seconds: float, kind: str = "+I") -> dict[str, Any]:
    return {"k": k, "v": v, "at": at(seconds), "met": None, "_row_kind": kind}


def test_rows_without_a_match_come_when_none_can_come_any_more() -> None:
    run = interval_join(random.Random(0), "LEFT JOIN", BOUNDS[0]).run
    run.push("r", [row(9, 0, 100)])
    assert not len(run.push("l", [row(1, 5, 2), row(9, 0, 10)]))
    assert not len(run.push("l", [row(9, 0, 10.9)]))  # the watermark is at 5.9
    run.push("l", [row(9, 0, 11)])
    assert run.content == {(1, 5, at(2), None, None, None): 1}


def test_late_rows_are_left_out() -> None:
    run = interval_join(random.Random(0), "JOIN", BOUNDS[0]).run
    run.push("r", [row(1, 0, 10), row(9, 0, 100)])
    run.push("l", [row(9, 0, 20)])
    run.push("l", [row(1, 5, 10)])
    run.finish()
    assert run.content == {}
    assert [late[:2] for late in run.late_rows()] == [(1, 5)]


def test_rows_are_forgotten_when_none_can_meet_them() -> None:
    run = interval_join(random.Random(0), "JOIN", BOUNDS[0]).run
    for second in range(0, 120, 2):
        run.sources["l"].push([row(1, 0, second)])
        run.push("r", [row(1, 0, second)])
    assert run.held_rows() < 40
