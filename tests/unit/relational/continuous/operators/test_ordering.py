import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from pkray.relational import changelog, query
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of

COLUMNS = {"id": "INT", "k": "INT", "s": "STRING", "x": "DOUBLE"}
TOP = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY {}) AS n FROM t)"
TOTAL = "x DESC NULLS LAST, s, id"
QUERIES = {
    "top": f"SELECT id, k, s, x FROM ({TOP.format(TOTAL)}) WHERE n <= 3",
    "top with numbers": f"{TOP.format(TOTAL)} WHERE n <= 3",
    "a range": f"SELECT id, k FROM ({TOP.format('s DESC, x, id DESC')}) WHERE n > 1 AND n < 4",
    "a range with numbers": f"{TOP.format('s NULLS LAST, x DESC, id')} WHERE n BETWEEN 2 AND 3",
    "one number": f"SELECT id, s FROM ({TOP.format('id, s')}) WHERE n = 2",
    "of all rows": "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY s, id, k, x) AS n FROM t) "
    "WHERE n <= 5",
    "without the order's columns": f"SELECT k FROM ({TOP.format('s, id')}) WHERE n <= 2",
    "sorted and limited": "SELECT id, s FROM t ORDER BY s DESC, x, id LIMIT 4",
    "with an offset": "SELECT * FROM t ORDER BY x, s, id, k LIMIT 3 OFFSET 2",
    "with an offset alone": "SELECT * FROM t ORDER BY x, id, s, k LIMIT ALL OFFSET 3",
    "sorted": "SELECT * FROM t ORDER BY x",
}


def row(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(1000),
        "k": rng.choice([None, 1, 1, 1, 2]),
        "s": rng.choice([None, "", "a", "a\0", "b", "é"]),
        "x": rng.choice([None, 0.0, -0.0, 1.5, -1e300, float("nan"), float("inf")]),
    }


def run_of(text: str, mode: str = "all", **how: Any) -> Continuous:
    t = changelog(COLUMNS, mode=mode, name="t")  # type: ignore[arg-type]
    return Continuous(query(text, t=t), {"t": t}, **how)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("mode", ["insert", "all"])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_by_number_follow_the_bounded_run(name: str, mode: str, seed: int) -> None:
    rng = random.Random(f"{name} {mode} {seed}")
    run = run_of(QUERIES[name], mode, memory=16 << 10, parts=rng.choice([1, 3]))
    history = RandomHistory(rng, row, keyed=rng.random() < 0.5)
    for size in (1, 4, 60, 3, 300, 1, 20):
        run.push("t", history.epoch(size, inserts=mode == "insert"))
        run.check()


@pytest.mark.parametrize("mode", ["insert", "all"])
@pytest.mark.parametrize("first", [True, False])
def test_one_row_a_key_by_a_time_follows_the_bounded_run(first: bool, mode: str) -> None:
    order = "at" if first else "at DESC"
    text = (
        "SELECT id, k, at FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY "
        f"{order}) AS n FROM t) WHERE n = 1"
    )
    t = changelog({"id": "INT", "k": "INT", "at": "TIMESTAMP(3) NOT NULL"}, mode=mode, name="t")  # type: ignore[arg-type]
    run = Continuous(query(text, t=t), {"t": t}, memory=16 << 10)
    assert any(type(node).__name__ == "Deduplicate" for node in run.plan.walk())
    rng = random.Random(f"{first} {mode}")
    times = iter(rng.sample(range(10**6), 10**4))

    def timed(rng: random.Random) -> dict[str, Any]:
        at = datetime(1969, 12, 31, 23) + timedelta(seconds=next(times))
        return {"id": rng.randrange(9), "k": rng.choice([None, 1, 2]), "at": at}

    history = RandomHistory(rng, timed)
    for size in (1, 4, 60, 300):
        run.push("t", history.epoch(size, inserts=mode == "insert"))
        run.check()


def changes(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Write changes: (kind, id, k, s)."""
    return [{"_row_kind": kind, "id": id_, "k": k, "s": s, "x": None} for kind, id_, k, s in rows]


TIES = f"SELECT id FROM ({TOP.format('s')}) WHERE n <= 2"


@pytest.mark.parametrize("mode", ["insert", "all"])
def test_rows_that_are_equal_in_order_stand_as_they_came(mode: str) -> None:
    run = run_of(TIES, mode)
    run.push("t", changes(("+I", 1, 1, "b"), ("+I", 2, 1, "b"), ("+I", 3, 1, "b")))
    assert set(run.content) == {(1,), (2,)}
    run.push("t", changes(("+I", 0, 1, "b")))
    assert set(run.content) == {(1,), (2,)}
    made = run.push("t", changes(("+I", 4, 1, "a")))
    assert kinds_of(made) == [("-D", (2,)), ("+I", (4,))]


def test_the_next_of_equal_rows_comes_up_when_one_goes() -> None:
    run = run_of(TIES)
    run.push("t", changes(*(("+I", id_, 1, "b") for id_ in (5, 3, 4, 1, 2))))
    assert set(run.content) == {(5,), (3,)}
    made = run.push("t", changes(("-D", 5, 1, "b")))
    assert kinds_of(made) == [("-D", (5,)), ("+I", (4,))]
    run.push("t", changes(("-U", 3, 1, "b"), ("+U", 3, 1, "b")))
    assert set(run.content) == {(4,), (1,)}


def test_of_equal_rows_the_oldest_is_retracted() -> None:
    run = run_of(f"SELECT id, n FROM ({TOP.format('s')}) WHERE n <= 3")
    run.push("t", changes(("+I", 1, 1, "a"), ("+I", 2, 1, "a"), ("+I", 1, 1, "a")))
    run.push("t", changes(("-D", 1, 1, "a")))
    assert set(run.content) == {(2, 1), (1, 2)}


def test_retractions_of_unknown_rows_are_swallowed_alone() -> None:
    run = run_of(TIES)
    run.push("t", changes(("-D", 9, 1, "a"), ("+I", 1, 1, "a"), ("-U", 1, 1, "z")))
    assert set(run.content) == {(1,)}
    run.push("t", changes(("-D", 2, 1, "a"), ("+I", 2, 1, "a"), ("-D", 1, 1, "a")))
    assert set(run.content) == {(2,)}
    run.push("t", changes(("-D", 2, 1, "a"), ("-D", 2, 1, "a"), ("+I", 2, 1, "a")))
    assert set(run.content) == {(2,)}


def test_a_row_that_comes_and_goes_within_an_epoch_leaves_no_trace() -> None:
    run = run_of(TIES)
    run.push("t", changes(("+I", 1, 1, "b")))
    made = run.push("t", changes(("+I", 2, 1, "a"), ("-D", 2, 1, "a"), ("+I", 3, 2, "a")))
    assert kinds_of(made) == [("+I", (3,))]


def test_only_changed_numbers_come_out() -> None:
    run = run_of(f"SELECT id, n FROM ({TOP.format('s')}) WHERE n <= 3")
    run.push("t", changes(("+I", 1, 1, "a"), ("+I", 3, 1, "c"), ("+I", 4, 1, "d")))
    made = run.push("t", changes(("+I", 2, 1, "b")))
    assert kinds_of(made) == [("-U", (3, 2)), ("+U", (2, 2)), ("-U", (4, 3)), ("+U", (3, 3))]


def test_a_limit_without_an_order_keeps_the_rows_that_came_first() -> None:
    run = run_of("SELECT id FROM t LIMIT 2 OFFSET 1")
    made = run.push("t", changes(*(("+I", id_, 1, "a") for id_ in (9, 5, 7, 1))))
    assert kinds_of(made) == [("+I", (5,)), ("+I", (7,))]
    made = run.push("t", changes(("-D", 9, 1, "a")))
    assert kinds_of(made) == [("-U", (5,)), ("+U", (7,)), ("-U", (7,)), ("+U", (1,))]


def test_the_first_row_by_event_time_waits_for_watermarks() -> None:
    text = (
        "SELECT k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY at) AS n FROM t) "
        "WHERE n = 1"
    )
    mark = ("at", "at - INTERVAL '5' SECOND")
    t = changelog({"k": "INT", "at": "TIMESTAMP(3)"}, watermark=mark, name="t")
    run = Continuous(query(text, t=t), {"t": t})
    assert not len(run.push("t", [{"k": 1, "at": datetime(1970, 1, 1)}]))
    made = run.push("t", [{"k": 2, "at": datetime(1970, 1, 1, 0, 0, 5)}])
    assert kinds_of(made) == [("+I", (1,))]


def test_a_row_that_rises_among_the_first_is_updated() -> None:
    text = (
        "SELECT k, c FROM (SELECT *, row_number() OVER (ORDER BY c DESC) AS n FROM "
        "(SELECT k, count(*) AS c FROM t GROUP BY k)) WHERE n <= 2"
    )
    run = run_of(text, "insert")
    run.push("t", changes(("+I", 1, 1, "a"), ("+I", 2, 2, "a"), ("+I", 3, 2, "a")))
    made = run.push("t", changes(("+I", 4, 1, "a")))
    assert kinds_of(made) == [("-U", (1, 1)), ("+U", (1, 2))]
    made = run.push("t", changes(*(("+I", each, 3, "a") for each in (5, 6, 7))))
    assert kinds_of(made) == [("-D", (1, 2)), ("+I", (3, 3))]
