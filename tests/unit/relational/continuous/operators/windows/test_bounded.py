import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.event_times import MILLI, EventTimes, at
from tests.unit.relational.continuous.histories import Continuous

TVF = {
    "tumble": "TUMBLE(TABLE {t}, DESCRIPTOR(at), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE {t}, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "cumulate": "CUMULATE(TABLE {t}, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
}
IN_TIME = "WHERE met IS NULL OR window_end > met + INTERVAL '0.001' SECOND"
ON = "l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
COLUMNS = {"k": "INT", "v": "INT"}


def fields(rng: random.Random) -> dict[str, Any]:
    return {"k": rng.choice([None, 0, 0, 0, 1, 2, 3]), "v": rng.randrange(50)}


def never(name: str, moment: datetime, met: datetime) -> bool:
    """The model itself leaves out what is late for one of its windows."""
    return False


def late_for_tumbling(name: str, moment: datetime, met: datetime) -> bool:
    second = moment.second % 10 + moment.microsecond / 1e6
    return moment + timedelta(seconds=10 - second) - MILLI <= met


def windows(kind: str, name: str) -> str:
    return f"SELECT * FROM TABLE({TVF[kind].format(t=name)})"


def run_of(rng: random.Random, sql: str, kind: str, names: str, *, updating: bool) -> EventTimes:
    """Run a query of `{l}` and `{r}`, subqueries of windows."""
    plain = {name: f"({windows(kind, name)})" for name in "lr"}
    filtered = {name: f"({windows(kind, name)} {IN_TIME})" for name in "lr"}
    return EventTimes(
        rng,
        sql.format(**plain),
        dict.fromkeys(names, (COLUMNS, fields)),
        late_for_tumbling if updating else never,
        model=sql.format(**filtered),
        updating=updating,
        memory=rng.choice([4 << 10, 64 << 10]),
        parts=rng.choice([1, 3]),
    )


def check(run: EventTimes, epochs: int, rows: int) -> None:
    """Compare after each epoch the windows that are over, and all at the end."""
    for _ in range(epochs):
        run.epoch(rows)
        mark = run.watermark
        over = [row for row in run.expected() if mark is not None and row[-1] - MILLI <= mark]
        assert run.given() == over
    run.run.finish()
    assert run.given() == run.expected()
    assert run.run.held_rows() == 0


KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
CASES = [("tumble", False), ("hop", False), ("cumulate", False), ("tumble", True)]
"""Kinds of windows, and whether the streams take rows back."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("join", KINDS)
@pytest.mark.parametrize(("kind", "updating"), CASES)
def test_window_joins_give_what_the_bounded_run_gives(kind: str, join: str, updating: bool) -> None:
    rng = random.Random(f"{kind} {join}")
    and_ = rng.choice(["", " AND l.v < r.v + 10"])
    sql = (
        "SELECT l.k, l.v, r.k AS rk, r.v AS rv, "
        "COALESCE(l.window_end, r.window_end) AS we "
        f"FROM {{l}} l {join} {{r}} r ON {ON}{and_}"
    )
    check(run_of(rng, sql, kind, "lr", updating=updating), 6, 25)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize(("kind", "updating"), CASES)
def test_semi_and_anti_window_joins_give_what_the_bounded_run_gives(
    kind: str, word: str, updating: bool
) -> None:
    sql = f"SELECT k, v, window_end FROM {{l}} l WHERE {word} (SELECT 1 FROM {{r}} r WHERE {ON})"
    check(run_of(random.Random(kind), sql, kind, "lr", updating=updating), 6, 25)


TOP = (
    "SELECT {columns}, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by}"
    "window_start, window_end ORDER BY {order}) AS n FROM {l}) WHERE n {which}"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", ["k, v, at", "k, v, n"])
@pytest.mark.parametrize(("kind", "updating"), CASES)
def test_window_top_n_gives_what_the_bounded_run_gives(
    kind: str, columns: str, updating: bool
) -> None:
    rng = random.Random(f"{kind} {columns} {updating}")
    by, which = rng.choice(["", "k, "]), rng.choice(["<= 3", "= 2", "<= 1"])
    sql = TOP.format(columns=columns, by=by, order="v DESC, at, k", which=which, l="{l}")
    check(run_of(rng, sql, kind, "l", updating=updating), 6, 25)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["at", "at DESC"])
@pytest.mark.parametrize("kind", TVF)
def test_window_deduplication_keeps_the_first_or_last_row_of_each_window(
    kind: str, order: str
) -> None:
    sql = TOP.format(columns="k, v", by="k, ", order=order, which="= 1", l="{l}")
    check(run_of(random.Random(kind), sql, kind, "l", updating=False), 6, 25)


def test_what_is_late_for_one_window_counts_in_the_others() -> None:
    sql = "SELECT l.v, r.v AS rv, l.window_end AS we FROM {l} l JOIN {r} r ON " + ON
    run = run_of(random.Random(0), sql, "hop", "lr", updating=False).run
    row = {"k": 1, "v": 1, "met": None}
    run.sources["l"].push([{**row, "at": at(2)}, {**row, "at": at(12), "k": 2}])
    run.sources["r"].push([{**row, "at": at(12), "k": 2}])
    run.run()  # the watermark is at 7 seconds: the window that ends at 5 is over
    run.sources["r"].push([{**row, "at": at(2), "v": 3}])
    run.run()
    run.finish()
    assert sorted(row for row in run.content if row[1] == 3) == [(1, 3, at(10)), (1, 3, at(15))]
    (late,) = run.late_rows()
    assert (late[1], late[-2]) == (3, at(5))


def test_a_retraction_of_a_window_that_is_over_changes_nothing() -> None:
    sql = TOP.format(columns="k, v", by="", order="v", which="= 1", l="{l}")
    run = run_of(random.Random(0), sql, "tumble", "l", updating=True).run
    row = {"k": 1, "v": 1, "met": None, "at": at(2)}
    run.push("l", [row, {**row, "at": at(20)}])
    assert run.content == {(1, 1, at(10)): 1}
    assert not len(run.push("l", [{**row, "_row_kind": "-D"}]))
    assert run.late_rows() == []


def test_a_join_waits_for_a_stream_that_had_no_row_yet() -> None:
    sql = f"SELECT l.v, r.v AS rv, l.window_end AS we FROM {{l}} l JOIN {{r}} r ON {ON}"
    run = run_of(random.Random(0), sql, "tumble", "lr", updating=False).run
    row = {"k": 1, "v": 1, "met": None}
    run.push("l", [{**row, "at": at(2)}, {**row, "at": at(40)}])
    run.push("r", [{**row, "at": at(3)}, {**row, "at": at(40)}])
    assert run.content == {(1, 1, at(10)): 1}
    assert run.late_rows() == []


def test_columns_may_be_called_as_states_call_theirs() -> None:
    sql = f"SELECT l.due, l.window_end AS we FROM {{l}} l JOIN {{r}} r ON {ON}"
    row = {"k": 1, "due": 7}
    run = EventTimes(
        random.Random(0),
        sql.format(l=f"({windows('tumble', 'l')})", r=f"({windows('tumble', 'r')})"),
        {name: ({"k": "INT", "due": "INT"}, lambda rng: row) for name in "lr"},
        never,
    )
    run.epoch(10)
    run.run.finish()
    assert run.given() == run.expected()


def test_a_row_that_is_updated_leaves_the_window_that_it_was_in() -> None:
    mark = ("at", "at - INTERVAL '5' SECOND")
    columns = {"k": "INT", "v": "INT", "at": "TIMESTAMP(3)"}
    sources = {
        "l": changelog(columns, watermark=mark, name="l"),
        "r": changelog(columns, mode="upsert", primary_key=["k"], watermark=mark, name="r"),
    }
    sql = f"SELECT l.v, r.v AS rv FROM ({windows('tumble', 'l')}) l JOIN "
    sql += f"({windows('tumble', 'r')}) r ON {ON}"
    run = Continuous(query(sql, **sources), sources, before=False)
    run.push("l", [{"k": k, "v": 0, "at": at(2)} for k in (1, 2)])
    run.push("r", [{"k": 1, "v": 1, "at": at(2)}, {"k": 2, "v": 2, "at": at(3)}])
    run.push("r", [{"k": 1, "v": 3, "at": at(4)}, {"k": 2, "v": 4, "at": at(12)}])
    run.finish()
    assert run.content == {(0, 3): 1}
