import random
from typing import Any

import pytest

from pkray.errors import UnsupportedError
from pkray.relational import changelog, query
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.continuous.state.state import Found, State
from pkray.relational.plan.physical import to_physical
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of

COLUMNS = {"id": "INT", "k": "INT", "s": "STRING", "x": "DOUBLE", "n": "BIGINT"}
BY_K = "PARTITION BY k ORDER BY"
TOTAL = f"{BY_K} s, id, n, x"
NEAR = "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"
CALLS = {
    "near sums": f"sum(n) OVER ({TOTAL} {NEAR}), max(x) OVER ({TOTAL} {NEAR})",
    "rows before": f"lag(n, 2, -1) OVER ({TOTAL}), first_value(s) OVER ({TOTAL} ROWS 1 PRECEDING)",
    "rows after": f"lead(s) OVER ({TOTAL} DESC), count(*) OVER ({TOTAL} DESC ROWS BETWEEN "
    "1 FOLLOWING AND 3 FOLLOWING)",
    "the row alone": f"sum(n) OVER ({TOTAL} ROWS BETWEEN CURRENT ROW AND CURRENT ROW)",
    "without partitions": "lag(id) OVER (ORDER BY s NULLS LAST, id, n, x, k), rank() OVER "
    "(ORDER BY s)",
    "numbers": f"row_number() OVER ({TOTAL}), rank() OVER ({BY_K} s), dense_rank() OVER "
    f"({BY_K} s), ntile(3) OVER ({TOTAL})",
    "numbers so far": f"row_number() OVER ({TOTAL}), rank() OVER ({BY_K} s), dense_rank() OVER "
    f"({BY_K} s)",
    "so far": f"sum(n) OVER ({TOTAL} ROWS UNBOUNDED PRECEDING), count(*) OVER ({TOTAL} ROWS "
    f"UNBOUNDED PRECEDING), lag(n, 2) OVER ({TOTAL})",
    "so far, with peers": f"sum(n) OVER ({BY_K} s), sum(x) OVER ({BY_K} s), count(x) OVER ({BY_K} "
    f"s), min(n) OVER ({BY_K} s), max(x) OVER ({BY_K} s), min(s) OVER ({BY_K} s)",
    "decimals so far": f"sum(CAST(n AS DECIMAL(9, 2))) OVER ({TOTAL}), first_value(n) OVER "
    f"({TOTAL}), max(s) OVER ({TOTAL})",
    "so far as rows came": "count(*) OVER (PARTITION BY k ORDER BY id, s, n, x ROWS UNBOUNDED "
    "PRECEDING), rank() OVER (ORDER BY n)",
    "running": f"sum(n) OVER ({BY_K} s), count(x) OVER ({TOTAL} ROWS UNBOUNDED PRECEDING), "
    f"min(n) OVER ({BY_K} s DESC)",
    "by range": f"sum(n) OVER ({BY_K} n RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "whole": "sum(n) OVER (PARTITION BY k), last_value(id) OVER (PARTITION BY k ORDER BY s, id, n, "
    "x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), nth_value(n, 2) OVER "
    f"({TOTAL})",
}


def row(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(1000),
        "k": rng.choice([None, 1, 1, 1, 2]),
        "s": rng.choice([None, "", "a", "b", "c"]),
        "x": rng.choice([None, 0.5, -0.0, 0.0, float("nan")]),
        "n": rng.choice([None, *range(8)]),
    }


def run_of(text: str, mode: str = "all", **how: Any) -> Continuous:
    t = changelog(COLUMNS, mode=mode, name="t")  # type: ignore[arg-type]
    return Continuous(query(text, t=t), {"t": t}, **how)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", ["insert", "all"])
@pytest.mark.parametrize("name", CALLS)
def test_window_functions_follow_the_bounded_run(name: str, mode: str) -> None:
    rng = random.Random(f"{name} {mode}")
    text = f"SELECT *, {CALLS[name]} FROM t"
    run = run_of(text, mode, memory=16 << 10, parts=rng.choice([1, 3]))
    history = RandomHistory(rng, row, keyed=rng.random() < 0.5)
    for size in (1, 4, 40, 3, 200, 1, 2, 20):
        run.push("t", history.epoch(size, inserts=mode == "insert"))
        run.check()


def changes(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Write changes: (kind, id, k, n)."""
    return [
        {"_row_kind": kind, "id": id_, "k": k, "s": None, "x": None, "n": n}
        for kind, id_, k, n in rows
    ]


LAST_TWO = "SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id ROWS 1 PRECEDING) FROM t"


def test_a_row_at_the_end_comes_alone() -> None:
    run = run_of(LAST_TWO)
    run.push("t", changes(("+I", 1, 1, 10), ("+I", 2, 1, 20)))
    assert kinds_of(run.push("t", changes(("+I", 3, 1, 30)))) == [("+I", (3, 50))]


def test_rows_around_a_change_are_updated() -> None:
    run = run_of(LAST_TWO)
    run.push("t", changes(*(("+I", id_, 1, 10 * id_) for id_ in (1, 3, 4))))
    made = run.push("t", changes(("+I", 2, 1, 20)))
    assert kinds_of(made) == [("+I", (2, 30)), ("-U", (3, 40)), ("+U", (3, 50))]
    made = run.push("t", changes(("-D", 3, 1, 30), ("-D", 9, 1, 30)))
    assert kinds_of(made) == [("-D", (3, 50)), ("-U", (4, 70)), ("+U", (4, 60))]


def test_unchanged_values_do_not_come_out() -> None:
    run = run_of("SELECT id, max(n) OVER (PARTITION BY k) FROM t")
    run.push("t", changes(("+I", 1, 1, 10), ("+I", 2, 1, 20)))
    assert kinds_of(run.push("t", changes(("+I", 3, 1, 5)))) == [("+I", (3, 20))]


def test_rows_that_are_equal_in_order_stand_as_they_came() -> None:
    run = run_of("SELECT id, row_number() OVER (PARTITION BY k ORDER BY s) FROM t")
    run.push("t", changes(("+I", 7, 1, 0), ("+I", 3, 1, 0)))
    run.push("t", changes(("+I", 5, 1, 0)))
    assert set(run.content) == {(7, 1), (3, 2), (5, 3)}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes how many rows each read of a state gives."""
    counts: list[int] = []
    rows_of = State.rows_of

    def counted(self: State, *keys: Any, **how: Any) -> Found:
        found = rows_of(self, *keys, **how)
        counts.append(len(found.positions))
        return found

    monkeypatch.setattr(State, "rows_of", counted)
    return counts


def test_near_frames_read_no_more_of_a_long_partition_than_they_see(read: list[int]) -> None:
    run = run_of(LAST_TWO)
    run.push("t", changes(*(("+I", id_, 1, 1) for id_ in range(3000))))
    read.clear()
    run.push("t", changes(("+I", 3000, 1, 1), ("-D", 1500, 1, 1), ("+I", -1, 1, 1)))
    run.check()
    assert sum(read) < 100


def test_sums_so_far_go_on_from_the_row_before(read: list[int]) -> None:
    run = run_of(
        "SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id), rank() OVER (PARTITION BY k "
        "ORDER BY id) FROM t"
    )
    run.push("t", changes(*(("+I", id_, 1, 1) for id_ in range(3000))))
    read.clear()
    made = run.push("t", changes(("+I", 3000, 1, 5), ("-D", 2999, 1, 1)))
    assert set(kinds_of(made)) == {("-D", (2999, 3000, 3000)), ("+I", (3000, 3004, 3000))}
    assert sum(read) < 5


def test_rows_by_their_rank_are_refused_in_the_flink_dialect_alone() -> None:
    text = (
        "SELECT id FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY s) AS r FROM t) WHERE r < 3"
    )
    for dialect in ("spark", "flink"):
        t = changelog(COLUMNS, name="t", dialect=dialect)
        plan = to_physical(query(text, dialect=dialect, t=t).plan, before=True)
        if dialect == "spark":
            check_operators(plan, dialect)
        else:
            with pytest.raises(UnsupportedError, match=r"RANK\(\).*use ROW_NUMBER"):
                check_operators(plan, dialect)
