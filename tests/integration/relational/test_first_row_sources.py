"""Queries over tables with merge engine first-row, whose rows an overwrite takes away."""

from collections.abc import Callable
from typing import Any

import pytest

import pkray
from pkray.errors import QueryFailedError, UnsupportedError
from tests.integration.relational.changed_rows import rows_of

FOLLOWS = "/*+ OPTIONS('streaming-read-overwrite' = 'true') */"
PLANS = {
    "top-n": "SELECT k, p, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v % 2 ORDER BY v DESC)"
    " AS place FROM t {hint}) WHERE place <= 1",
    "greatest": "SELECT v % 2 AS side, MAX(v) AS most, COUNT(*) AS n FROM t {hint} GROUP BY v % 2",
    "over": "SELECT k, SUM(v) OVER (PARTITION BY v % 2 ORDER BY v ROWS UNBOUNDED PRECEDING)"
    " AS so_far FROM t {hint}",
    "distinct": "SELECT DISTINCT v % 2 AS side FROM t {hint}",
    "joined": "SELECT a.k, b.k AS k2 FROM t {hint} a JOIN t {hint} b ON a.v = b.v + 1",
    "outer": "SELECT a.k, b.k AS k2 FROM t {hint} a LEFT JOIN t {hint} b ON a.v = b.v + 1",
}


class Firsts:
    """A table of the first rows of keys, and a query over it."""

    def __init__(self, catalog: pkray.Catalog, producer: str = "lookup") -> None:
        self.catalog = catalog
        options = {"merge-engine": "first-row", "changelog-producer": producer}
        columns = [("k", "INT"), ("p", "INT"), ("v", "INT")]
        self.table = catalog.create_table("default.t", columns, ["k", "p"], ["p"], options=options)
        self.put((1, 0, 5), (2, 0, 6), (3, 1, 7), (4, 1, 8), (5, 0, 1))

    def put(self, *rows: tuple[int, int, int]) -> None:
        self.table.upsert([dict(zip("kpv", row, strict=True)) for row in rows])
        self.table.compact()

    def overwrite(self, partition: int, *rows: tuple[int, int, int]) -> None:
        data = [dict(zip("kpv", row, strict=True)) for row in rows]
        self.table.overwrite(data, {"p": partition})

    def read(self, query: Any) -> None:
        query.wait({"default.t": self.table.latest_snapshot().id})

    def check(self, query: Any, text: str) -> None:
        self.read(query)
        found = self.catalog.load_table("default.r").to_arrow()
        assert rows_of(found) == rows_of(self.catalog.sql(text).to_arrow())
        assert query.verify().equal


@pytest.fixture
def firsts(catalog) -> Callable[..., Firsts]:
    return lambda *how: Firsts(catalog, *how)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("producer", ["lookup", "none"])
@pytest.mark.parametrize("name", PLANS)
def test_rows_that_are_taken_away_leave_what_a_hint_has_follow_them(firsts, name, producer):
    made, text = firsts(producer), PLANS[name].format(hint=FOLLOWS)
    query = made.catalog.sql(text).materialize("default.r")
    made.check(query, text)
    made.overwrite(1, (6, 1, 3), (3, 1, 7))
    made.check(query, text)
    made.table.drop_partitions([{"p": 0}])
    made.put((1, 0, 2), (6, 1, 9))
    made.check(query, text)


@pytest.mark.parametrize(("name", "workers"), [*((each, 1) for each in PLANS), ("joined", 3)])
def test_a_query_that_counts_on_rows_being_added_alone_stops_where_they_are_taken_away(
    firsts, name, workers
):
    made, text = firsts(), PLANS[name].format(hint="")
    made.catalog.sql(f"SET 'query.parallelism' = '{workers}'")
    query = made.catalog.sql(text).materialize("default.r")
    made.check(query, text)
    before = rows_of(made.catalog.load_table("default.r").to_arrow())
    made.overwrite(1, (6, 1, 3))
    for _ in range(2):
        with pytest.raises(QueryFailedError, match=r"rows of default\.t were taken away"):
            made.read(query)
        assert rows_of(made.catalog.load_table("default.r").to_arrow()) == before
        query.resume()
    again = made.catalog.sql(text).materialize("default.r", replace=True)
    made.check(again, text)


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_that_are_taken_away_leave_a_plan_that_looks_at_each_alone(firsts, workers):
    made, text = firsts(), "SELECT v + 1 AS w FROM t WHERE v > 1 UNION ALL SELECT k FROM t"
    made.catalog.sql(f"SET 'query.parallelism' = '{workers}'")
    query = made.catalog.sql(text).materialize("default.r")
    made.overwrite(1, (6, 1, 3))
    made.table.drop_partitions([{"p": 0}])
    made.check(query, text)


def test_a_stream_of_inserts_alone_stops_where_rows_are_taken_away(firsts):
    made = firsts()
    with made.catalog.sql("SELECT k FROM t").stream(encoding="append") as stream:
        assert stream.poll().num_rows == 5
        made.table.drop_partitions([{"p": 0}])
        with pytest.raises(UnsupportedError, match="encoding='append' counts on rows being added"):
            stream.poll()


def test_a_hint_for_overwrites_means_nothing_to_tables_that_are_followed_anyway(catalog):
    catalog.create_table("default.d", [("k", "INT")], ["k"])
    with pytest.raises(UnsupportedError, match=r"'streaming-read-overwrite' of default\.d means"):
        catalog.sql(f"SELECT k FROM d {FOLLOWS}").materialize("default.r")
