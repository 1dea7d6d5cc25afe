"""Queries that several workers run: over tables, rescaled, killed."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pkray.errors import OptionError, QueryFailedError
from tests.integration.relational.changed_rows import content

TOTALS = (
    "SELECT v % 5 AS side, COUNT(*) AS n, SUM(v) AS total, COUNT(DISTINCT k % 3) AS some"
    " FROM shop.orders GROUP BY v % 5"
)
PAIRED = "SELECT a.k, a.v, b.v AS w FROM shop.orders a LEFT JOIN shop.orders b ON a.v = b.k"
LATEST = (
    "SELECT side, k, v FROM (SELECT v % 5 AS side, k, v, ROW_NUMBER() OVER"
    " (PARTITION BY v % 5 ORDER BY v DESC, k) AS place FROM shop.orders) WHERE place <= 3"
)
QUERIES = {"totals": TOTALS, "paired": PAIRED, "latest": LATEST}


@pytest.fixture
def catalog(catalog) -> Any:
    yield catalog
    for query in catalog.queries():
        query.drop()


@pytest.fixture
def change(catalog) -> Callable[..., int]:
    """Change rows of the source at random; gives its snapshot."""
    rng = random.Random(5)
    orders = catalog.create_table(
        "shop.orders",
        [("k", "BIGINT"), ("v", "BIGINT")],
        ["k"],
        options={"changelog-producer": "lookup", "bucket": "4"},
    )

    def changed(count: int = 60) -> int:
        with orders.open_writer() as writer:
            writer.upsert([{"k": rng.randrange(80), "v": rng.randrange(40)} for _ in range(count)])
            writer.delete([{"k": rng.randrange(80)} for _ in range(count // 6)])
            return int(writer.commit().id)

    return changed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", QUERIES)
def test_workers_share_the_buckets_of_a_table(catalog, change, name) -> None:
    change()
    catalog.sql("SET 'query.parallelism' = '3'")
    query = catalog.sql(QUERIES[name]).materialize("shop.result")
    for _ in range(3):
        query.wait({"shop.orders": change()})
        assert query.verify().equal
    status = query.status()
    assert status["workers"] == 3
    read = [node["rows_in"] for node in status["nodes"]]
    assert max(read) > 0
    assert len(set(status["processes"])) == 1  # threads of one process


def test_a_query_is_rescaled_while_its_source_changes(catalog, change) -> None:
    query = catalog.sql(TOTALS).materialize("shop.result")
    for workers in (3, 2, 1):
        query.wait({"shop.orders": change()})
        query.rescale(workers)
        query.wait({"shop.orders": change()})
        assert query.status()["workers"] == workers
        assert query.verify().equal
    assert content(catalog, "shop.result") == Counter(
        tuple(row.values()) for row in catalog.sql(TOTALS).to_arrow().to_pylist()
    )


def test_a_stopped_query_goes_on_with_as_many_workers_as_are_set(catalog, change) -> None:
    query = catalog.sql(TOTALS).materialize("shop.result")
    query.wait({"shop.orders": change()})
    query.stop()
    catalog.sql("SET 'query.parallelism' = '2'")
    query.resume().wait({"shop.orders": change()})
    assert query.status()["workers"] == 2
    assert query.verify().equal
    query.stop()
    catalog.sql("RESET 'query.parallelism'")
    query.resume().wait({"shop.orders": change()})
    assert query.status()["workers"] == 2


def test_states_are_read_from_all_workers(catalog, change) -> None:
    catalog.sql("SET 'query.parallelism' = '3'")
    query = catalog.sql(TOTALS).materialize("shop.result")
    query.wait({"shop.orders": change()})
    (state,) = (
        name
        for node in query.status()["nodes"]
        if node["type"] == "Aggregate"
        for name in node["state_rows"]
        if "_" not in name
    )
    query.stop()
    rows = catalog.load_table(f"shop.result$state_{state}").to_arrow()
    assert rows.num_rows == content(catalog, "shop.result").total()


def test_rows_begin_to_expire_in_the_states_of_all_workers(catalog, change) -> None:
    catalog.sql("SET 'query.parallelism' = '3'")
    query = catalog.sql(TOTALS).materialize("shop.result")
    query.wait({"shop.orders": change()})
    query.stop()
    catalog.sql("SET 'table.exec.state.ttl' = '1 d'")
    query = catalog.sql(TOTALS).materialize("shop.result")
    query.wait({"shop.orders": change()})
    assert query.verify().equal


def test_another_plan_takes_over_from_several_workers(catalog, change) -> None:
    catalog.sql("SET 'query.parallelism' = '3'")
    query = catalog.sql(TOTALS).materialize("shop.result")
    query.wait({"shop.orders": change()})
    query.upgrade(TOTALS.replace("SUM(v)", "MAX(v)"))
    query.wait({"shop.orders": change()})
    assert query.verify().equal
    query.rollback()
    query.wait({"shop.orders": change()})
    assert query.verify().equal


def test_rows_that_cannot_be_computed_are_skipped_by_each_worker(catalog, change) -> None:
    catalog.sql("SET 'query.parallelism' = '3'")
    text = "SELECT k, 10 / (v % 2) AS half FROM shop.orders"
    query = catalog.sql(text).materialize("shop.result", on_error="skip")
    query.wait({"shop.orders": change(40)})
    query.rescale(2)
    query.wait({"shop.orders": change(40)})
    query.stop()
    skipped = catalog.load_table("shop.result$errors").to_arrow()
    assert skipped.num_rows >= 20
    assert query.status()["failure"] is None


def test_the_operator_is_named_at_which_any_worker_failed(catalog, change) -> None:
    catalog.sql("SET 'query.parallelism' = '3'")
    text = "SELECT side, 10 / (n - n) AS none FROM (SELECT v % 5 AS side, COUNT(*) AS n FROM"
    query = catalog.sql(f"{text} shop.orders GROUP BY v % 5)").materialize("shop.result")
    with pytest.raises(QueryFailedError, match=r"at [0-9]+ Calc"):
        query.wait({"shop.orders": change()})
    assert query.status()["workers"] == 3


def test_no_query_has_fewer_than_one_worker(catalog, change) -> None:
    query = catalog.sql(TOTALS).materialize("shop.result")
    with pytest.raises(OptionError, match=r"query\.parallelism"):
        query.rescale(0)
    with pytest.raises(OptionError, match=r"query\.cpus"):
        catalog.sql("SET 'query.cpus' = '-1'")
