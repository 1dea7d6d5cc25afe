"""The process that runs a query is killed at each operation on its storage, and it goes on."""

import datetime
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

import pkray
from tests.effort import stride
from tests.faults.changed_orders import changed_orders, verify_snapshots
from tests.faults.conftest import Check, Sweep

QUERIES = {
    "totals": "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most"
    " FROM shop.orders GROUP BY v % 2",
    "bag": "SELECT v % 2 AS side FROM shop.orders",
    "paired": "SELECT a.k, a.v, b.v AS w FROM shop.orders a JOIN shop.orders b ON a.v = b.k",
    "not in": "SELECT k FROM shop.orders WHERE v * 2 NOT IN (SELECT NULLIF(k, 4) FROM shop.orders)",
    "not in, expiring": "SELECT /*+ STATE_TTL('a' = '1 h') */ a.k FROM shop.orders a WHERE a.v * 2"
    " NOT IN (SELECT /*+ STATE_TTL('b' = '1 h') */ NULLIF(b.k, 4) FROM shop.orders b)",
}
WORKERS = {"one worker": (1, 1, 1, 1), "two workers": (2, 2, 2, 2), "rescaled": (1, 3, 2, 1)}
"""How many workers run each epoch."""


def cases(names: Iterable[str], *quick: tuple[str, str, int]) -> pytest.MarkDecorator:
    """Some cases at some crash points, and in slow runs all of them at each."""
    every = itertools.product(names, WORKERS, [1])
    slow = [pytest.param(*case, marks=pytest.mark.slow) for case in every]
    return pytest.mark.parametrize(("name", "workers", "every"), [*quick, *slow])


def changed(catalog: pkray.Catalog, text: str, workers: Sequence[int]) -> None:
    """Fill the source and run the query up to what it holds, four times; safe to do again."""
    for number in changed_orders(catalog):
        catalog.sql(f"SET 'query.parallelism' = '{workers[number]}'")
        query = catalog.sql(text).materialize("shop.result", trigger="available_now")
        query.wait_ended()


BOUNDS = "window_start, window_end"
WINDOWS = {
    "tumbling": f"SELECT v % 2 AS side, {BOUNDS}, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE "
    f"shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY v % 2, {BOUNDS}",
    "sessions": f"SELECT v, {BOUNDS}, COUNT(*) AS n FROM TABLE(SESSION(TABLE shop.clicks "
    f"PARTITION BY v, DESCRIPTOR(at), INTERVAL '5' SECOND)) GROUP BY v, {BOUNDS}",
    "paired": "SELECT a.k, b.k AS other, a.window_end FROM (SELECT * FROM TABLE(TUMBLE(TABLE "
    "shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND))) a LEFT JOIN (SELECT * FROM "
    "TABLE(TUMBLE(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND))) b ON a.v = b.v + 1 "
    "AND a.window_start = b.window_start AND a.window_end = b.window_end",
    "so far": "SELECT k, SUM(k) OVER (PARTITION BY v ORDER BY at) AS s, COUNT(*) OVER (PARTITION "
    "BY v ORDER BY at RANGE INTERVAL '9' SECOND PRECEDING) AS n FROM shop.clicks",
}
CLICKS = [(1, 5, 12), (9, 14, 25), (16, 31), (45, 28)]
"""Seconds of the clicks of each epoch: the watermark is two seconds behind, 9 and 16 are late."""


def windowed(catalog: pkray.Catalog, text: str, workers: Sequence[int]) -> None:
    """Run a query of windows over clicks, some of which come late, as `changed` does."""
    clicks = catalog.create_table(
        "shop.clicks",
        [("k", "BIGINT"), ("v", "BIGINT"), ("at", "TIMESTAMP(3)")],
        ["k"],
        options={
            "merge-engine": "first-row",  # rows are only added
            "changelog-producer": "lookup",
            "schema.watermark.0.rowtime": "at",
            "schema.watermark.0.strategy.expr": "`at` - INTERVAL '2' SECOND",
        },
        if_not_exists=True,
    )
    for number, seconds in enumerate(CLICKS):
        with clicks.open_writer("clicks") as writer:
            rows = [
                {"k": second, "v": second % 3, "at": datetime.datetime(1969, 12, 31, 0, 0, second)}
                for second in seconds
            ]
            writer.upsert(rows)
            writer.commit(number)
        catalog.sql(f"SET 'query.parallelism' = '{workers[number]}'")
        query = catalog.sql(text, dialect="flink").materialize(
            "shop.result", trigger="available_now"
        )
        query.wait_ended()


def late(catalog: pkray.Catalog) -> Counter[tuple[Any, ...]]:
    rows = catalog.load_table("shop.result$late").to_arrow().drop_columns(["node"])
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@cases(WINDOWS, ("sessions", "one worker", stride(120)), ("so far", "two workers", stride(220)))
def test_windows_go_on_from_every_crash_point(
    name: str, workers: str, every: int, sweep: Sweep
) -> None:
    def job(catalog: pkray.Catalog) -> Check:
        windowed(catalog, WINDOWS[name], WORKERS[workers])
        expected, came_late = content(catalog), late(catalog)
        assert expected
        assert came_late

        def check(catalog: pkray.Catalog) -> None:
            windowed(catalog, WINDOWS[name], WORKERS[workers])
            _check(catalog, expected)
            assert late(catalog) == came_late

        return check

    sweep(f"windows {name}, {workers}", every, job)


def content(catalog: pkray.Catalog) -> Counter[tuple[Any, ...]]:
    rows = catalog.load_table("shop.result").to_arrow()
    kept = rows.drop_columns([n for n in rows.column_names if n == "_row_key"])
    return Counter(tuple(row.values()) for row in kept.to_pylist())


@cases(QUERIES, ("totals", "one worker", stride(120)), ("totals", "rescaled", stride(120)))
def test_a_query_goes_on_from_every_crash_point(
    name: str, workers: str, every: int, sweep: Sweep
) -> None:
    def job(catalog: pkray.Catalog) -> Check:
        changed(catalog, QUERIES[name], WORKERS[workers])
        expected = content(catalog)
        bounded = catalog.sql(QUERIES[name]).to_arrow()
        assert expected == Counter(tuple(row.values()) for row in bounded.to_pylist())

        def check(catalog: pkray.Catalog) -> None:
            changed(catalog, QUERIES[name], WORKERS[workers])
            _check(catalog, expected)

        return check

    sweep(f"query {name}, {workers}", every, job)


def _check(catalog: pkray.Catalog, expected: Counter[tuple[Any, ...]]) -> None:
    assert content(catalog) == expected
    verify_snapshots(catalog)
