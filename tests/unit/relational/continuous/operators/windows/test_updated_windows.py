import random
from typing import Any

import pytest

import pkray
from pkray.errors import UnsupportedError
from pkray.relational import changelog, query
from pkray.relational.api.windows import Cumulate, Session, Tumble
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.nodes import Window
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, kinds_of
from tests.unit.relational.continuous.operators.windows.test_window_aggregate import (
    COLUMNS,
    DELAY,
    at,
    row,
    stream,
)


def opened(emission: str, mode: str = "insert", values: str = "SUM(v) AS s", **options: Any) -> Any:
    source = changelog(COLUMNS, mode=mode, watermark=("ts", DELAY))
    sql = (
        f"SELECT window_end, {values} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        f"INTERVAL '10' SECOND, {emission})) GROUP BY window_start, window_end"
    )
    return Continuous(query(sql, t=source), {"t": source}, **options)


def test_early_results_come_in_each_epoch_and_change() -> None:
    query = opened("EARLY => INTERVAL '0' SECOND")
    assert kinds_of(query.push("t", [row(1)])) == [("+I", (at(10), 1))]
    assert kinds_of(query.push("t", [row(2, value=4), row(11)])) == [
        ("-U", (at(10), 1)),
        ("+U", (at(10), 5)),
        ("+I", (at(20), 1)),
    ]
    assert not len(query.push("t", [row(15)])) - 2
    assert (at(10), 5) in query.content
    query.finish()
    assert not query.kept_rows()


def test_early_results_wait_for_their_interval() -> None:
    query = opened("EARLY => INTERVAL '10' SECOND")
    assert not len(query.push("t", [row(1)], time=1_000))
    assert not len(query.push("t", [row(2)], time=9_999))
    assert kinds_of(query.push("t", [row(3)], time=10_000)) == [("+I", (at(10), 3))]
    assert not len(query.push("t", [row(4)], time=19_000))
    assert kinds_of(query.run(time=20_000)) == [("-U", (at(10), 3)), ("+U", (at(10), 4))]


def test_a_window_that_was_given_early_is_given_again_only_if_it_changed() -> None:
    query = opened("EARLY => INTERVAL '0' SECOND")
    query.push("t", [row(1)])
    assert kinds_of(query.push("t", [row(15)])) == [("+I", (at(20), 1))]


def test_rows_change_results_until_they_are_later_than_is_allowed() -> None:
    query = opened("LATENESS => INTERVAL '20' SECOND")
    assert not len(query.push("t", [row(1)]))
    assert kinds_of(query.push("t", [row(16)])) == [("+I", (at(10), 1))]
    assert kinds_of(query.push("t", [row(2, value=4)])) == [
        ("-U", (at(10), 1)),
        ("+U", (at(10), 5)),
    ]
    query.push("t", [row(35)])
    assert not len(query.push("t", [row(3)]))
    (name,) = query.late
    assert query.late_of(name) == [(at(0), at(10), 1)]


def test_a_window_that_is_over_may_come_into_being_by_a_late_row() -> None:
    query = opened("LATENESS => INTERVAL '20' SECOND")
    query.push("t", [row(16)])
    assert kinds_of(query.push("t", [row(2, value=4)])) == [("+I", (at(10), 4))]


def test_a_retraction_takes_an_early_result_back() -> None:
    query = opened("EARLY => INTERVAL '0' SECOND", "all")
    query.push("t", [row(1)])
    assert kinds_of(query.push("t", [{**row(1), "_row_kind": "-D"}])) == [("-D", (at(10), 1))]


@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("early", [0, 3])
@pytest.mark.parametrize("lateness", [0, 7])
def test_results_that_change_end_as_those_that_are_given_once(
    early: int, lateness: int, seed: int
) -> None:
    rng = random.Random(f"{early} {lateness} {seed}")
    emission = f"EARLY => INTERVAL '{early}' SECOND, LATENESS => INTERVAL '{lateness}' SECOND"
    values = "COUNT(DISTINCT v) AS a, SUM(v) AS b, MAX(k) AS c, COUNT(*) AS d"
    query = opened(emission, values=values, parts=rng.choice([1, 3]), memory=1 << 12)
    for number, rows in enumerate(stream(rng, span=15)):
        query.sources["t"].push(rows)
        query.run(time=2_000 * number)
    query.finish()
    query.check_without_late()
    assert not query.kept_rows()


def test_results_that_change_are_said_by_the_plan() -> None:
    source = changelog(COLUMNS, mode="insert", watermark=("ts", DELAY))
    windows = source.window(
        Cumulate.over("10 s").step("5 s").on("ts"), early="10 s", lateness="1 h"
    )
    counted = windows.group_by("window_start", "window_end").agg("COUNT(*) AS n")
    assert change_kinds(counted.plan) == {"I", "U"}
    assert "early=[10 s], lateness=[1 h]" in str(counted.explain())


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT * FROM {w}(TABLE t PARTITION BY k, {rest}))", "sessions"),
        (
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
            "ORDER BY v) AS n FROM {w}(TABLE t, {rest}))) WHERE n <= 2",
            "TopN",
        ),
    ],
)
def test_other_nodes_refuse_results_that_change(sql: str, named: str) -> None:
    source = changelog(COLUMNS, mode="insert", watermark=("ts", DELAY))
    kind = "TABLE(SESSION" if named == "sessions" else "TABLE(TUMBLE"
    rest = "DESCRIPTOR(ts), INTERVAL '10' SECOND, EARLY => INTERVAL '1' SECOND"
    with pytest.raises(UnsupportedError, match=named):
        check_operators(
            Continuous(query(sql.format(w=kind, rest=rest), t=source), {"t": source}).plan, "spark"
        )


def test_sessions_say_that_they_give_rows_once() -> None:
    source = changelog(COLUMNS, mode="insert", watermark=("ts", DELAY))
    relation = source.window(Session.with_gap("2 s").on("ts"), lateness="1 s")
    with pytest.raises(UnsupportedError, match="sessions give rows when they are over"):
        relation.stream()


def test_options_say_when_windows_give_results(tmp_path: Any) -> None:
    with pkray.connect(tmp_path) as catalog:
        catalog.create_table("default.t", [("ts", "TIMESTAMP(3)"), ("k", "INT NOT NULL")], ["k"])
        for key, value in (
            ("early-fire.enabled", "true"),
            ("early-fire.delay", "10 s"),
            ("allow-lateness", "1 h"),
            ("late-fire.enabled", "true"),
            ("late-fire.delay", "1 min"),
        ):
            catalog.sql(f"SET 'table.exec.emit.{key}' = '{value}'", dialect="flink")
        sql = "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
        plan = catalog.sql(sql, dialect="flink").plan
    (window,) = (node for node in plan.walk() if isinstance(node, Window))
    assert (window.early, window.lateness, window.late_delay) == (10**7, 3600 * 10**6, 60 * 10**6)


def test_a_window_says_its_own_emission_before_the_options() -> None:
    source = changelog(COLUMNS, mode="insert", watermark=("ts", DELAY))
    plan = source.window(Tumble.over("10 s").on("ts"), early="0 s").plan
    (window,) = (node for node in plan.walk() if isinstance(node, Window))
    assert (window.early, window.lateness) == (0, 0)
