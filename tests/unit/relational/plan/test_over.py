"""Which rows of OVER come at the watermark, and what is kept for those that come after them."""

from dataclasses import replace
from typing import Any

import pytest

from pkray.errors import UnsupportedError
from pkray.relational import Relation, changelog, query
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.lints import lints
from pkray.relational.optimizer import optimize
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.node import INSERT
from pkray.relational.plan.nodes import Over
from pkray.relational.plan.over import History, history
from pkray.relational.plan.physical import to_physical

COLUMNS = {"k": "INT", "v": "INT", "at": "TIMESTAMP(3)"}
MARK = ("at", "at - INTERVAL '5' SECOND")
BY = "PARTITION BY k ORDER BY at"


def sources(**how: Any) -> dict[str, Relation]:
    timed = {"watermark": MARK, **how}
    found: dict[str, Relation] = {
        "a": changelog(COLUMNS, name="a", **timed),
        "b": changelog(COLUMNS, name="b", **timed),
        "c": changelog(COLUMNS, primary_key=["k"], mode="upsert", watermark=MARK, name="c"),
        "plain": changelog(COLUMNS, name="plain"),
    }
    views = {
        "both_": "SELECT * FROM a UNION ALL SELECT * FROM b",
        "kept": "SELECT k, v, at FROM a WHERE v > 1",
        "renamed": "SELECT v AS k, k AS v, at FROM kept",
        "cast_": "SELECT k, v, CAST(at AS TIMESTAMP(6)) AS at FROM a",
        "joined": "SELECT a.k, b.v, a.at FROM a JOIN b ON a.k = b.k",
        "near": "SELECT a.k, b.v, a.at FROM a JOIN b ON a.k = b.k AND a.at BETWEEN b.at - "
        "INTERVAL '3' SECOND AND b.at",
        "versioned": "SELECT a.k, c.v, a.at FROM a JOIN c FOR SYSTEM_TIME AS OF a.at ON a.k = c.k",
        "windows": "SELECT k, sum(v) AS v, window_time AS at FROM TABLE(TUMBLE(TABLE a, "
        "DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY k, window_start, window_end, window_time",
        "sessions": "SELECT k, v, at FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(at), "
        "INTERVAL '9' SECOND))",
        "firsts": "SELECT k, v, at FROM (SELECT *, row_number() OVER (PARTITION BY k, v ORDER BY "
        "at) AS n FROM a) WHERE n = 1",
        "sums": f"SELECT k, sum(v) OVER ({BY}) AS v, at FROM a",
        "hinted": "SELECT /*+ UPDATES('a' = 'true') */ k, v, at FROM a",
        "not_hinted": "SELECT /*+ UPDATES('a' = 'false') */ k, v, at FROM a",
    }
    for name, text in views.items():
        found[name] = query(text, **found)
    return found


def overs(text: str, **how: Any) -> list[Over]:
    plan = to_physical(optimize(query(text, **sources(**how)).plan), before=True)
    return [node for node in plan.walk() if isinstance(node, Over)]


IN_TIME = (
    *("a", "both_", "kept", "renamed", "versioned", "windows", "firsts", "sums", "not_hinted"),
)
AT_ONCE = ("plain", "c", "cast_", "joined", "near", "sessions", "hinted")


@pytest.mark.parametrize("name", [*IN_TIME, *AT_ONCE])
def test_rows_come_at_the_watermark_where_it_has_not_passed_them_before(name: str) -> None:
    node = overs(f"SELECT k, at, sum(v) OVER ({BY}) AS s FROM {name}")[0]
    assert node.waits == (name in IN_TIME)
    assert (change_kinds(node) == INSERT) == (name in IN_TIME)


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        (f"sum(v) OVER ({BY} ROWS 3 PRECEDING)", True),
        (f"sum(v) OVER ({BY} RANGE INTERVAL '3' SECOND PRECEDING)", True),
        (f"sum(v) OVER ({BY} ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING)", True),
        (f"sum(v) OVER ({BY} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", False),
        (f"sum(v) OVER ({BY} RANGE BETWEEN CURRENT ROW AND INTERVAL '3' SECOND FOLLOWING)", False),
        (f"sum(v) OVER ({BY} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)", False),
        (f"lag(v) OVER ({BY})", True),
        (f"lead(v) OVER ({BY})", False),
        (f"rank() OVER ({BY})", True),
        (f"ntile(2) OVER ({BY})", False),
        (f"cume_dist() OVER ({BY})", False),
        (f"lag(v) OVER ({BY}), lead(v) OVER ({BY})", False),
        (f"sum(v) OVER ({BY} DESC)", False),
        (f"sum(v) OVER ({BY}, v)", True),
        ("sum(v) OVER (PARTITION BY k ORDER BY v, at)", False),
        ("sum(v) OVER (PARTITION BY k)", False),
    ],
)
def test_only_what_looks_back_waits(call: str, waits: bool) -> None:
    (node,) = overs(f"SELECT k, {call} FROM a")
    assert node.waits == waits


def test_rows_that_may_be_taken_back_do_not_wait() -> None:
    (node,) = overs(f"SELECT k, sum(v) OVER ({BY}) FROM a", mode="all")
    assert not node.waits


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (f"sum(v) OVER ({BY}), avg(v) OVER ({BY}), rank() OVER ({BY})", History(1, 0)),
        (f"sum(v) OVER ({BY}), lag(v, 4) OVER ({BY})", History(4, 0)),
        (f"max(v) OVER ({BY} RANGE INTERVAL '3' SECOND PRECEDING)", History(0, 3_000_000)),
        (f"last_value(v) OVER ({BY}), sum(v) OVER ({BY} RANGE CURRENT ROW)", History(0, 0)),
        (f"sum(v) OVER ({BY}), stddev_pop(v) OVER ({BY})", None),
        (f"lag(v) IGNORE NULLS OVER ({BY})", None),
        (f"nth_value(v, 2) OVER ({BY})", None),
    ],
)
def test_what_is_kept_follows_from_the_calls(calls: str, expected: History | None) -> None:
    (node,) = overs(f"SELECT k, {calls} FROM a")
    assert history(node.calls) == expected


def test_frames_of_time_are_kept_until_the_watermark() -> None:
    (near,) = overs(f"SELECT sum(v) OVER ({BY} RANGE INTERVAL '3' SECOND PRECEDING) FROM a")
    (far,) = overs(f"SELECT sum(v) OVER ({BY}) FROM a")
    assert [each.cleaned_by for each in near.states()] == ["watermark", "watermark"]
    assert [each.cleaned_by for each in far.states()] == ["ttl", "watermark"]
    assert [each.code for each in lints(near)] == []
    assert [each.code for each in lints(far)] == ["unbounded-state"]


@pytest.mark.parametrize(
    ("call", "depends"),
    [
        (f"row_number() OVER ({BY})", True),
        (f"sum(v) OVER ({BY} ROWS 1 PRECEDING)", True),
        (f"last_value(v) OVER ({BY})", True),
        (f"row_number() OVER ({BY}, v)", False),
        (f"rank() OVER ({BY})", False),
        (f"sum(v) OVER ({BY})", False),
        ("sum(v) OVER (PARTITION BY k)", False),
    ],
)
def test_equal_rows_are_told_apart_by_arrival(call: str, depends: bool) -> None:
    (node,) = overs(f"SELECT k, v, at, {call} AS x FROM a")
    assert node.depends_on_arrival() == depends


def test_a_key_tells_rows_apart() -> None:
    (node,) = overs("SELECT row_number() OVER (PARTITION BY k ORDER BY at) FROM c")
    assert not node.depends_on_arrival()


def test_a_plan_that_has_changing_rows_wait_is_refused() -> None:
    (node,) = overs(f"SELECT k, sum(v) OVER ({BY}) FROM a", mode="all")
    with pytest.raises(UnsupportedError, match="only adds rows"):
        check_operators(replace(node, waits=True), "spark")


def test_every_form_runs() -> None:
    for name in (*IN_TIME, *AT_ONCE):
        text = f"SELECT k, at, sum(v) OVER ({BY}) AS s FROM {name}"
        check_operators(to_physical(optimize(query(text, **sources()).plan), before=True), "spark")
