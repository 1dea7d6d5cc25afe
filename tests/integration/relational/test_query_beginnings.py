"""Continuous queries that begin with the changes of a table from somewhere on."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

import pkray
from pkray.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from pkray.relational.continuous.queries.stored import IN_PROCESS
from tests.integration.relational.changed_rows import Put, change, content

PRODUCERS = ("lookup", "none")


@pytest.fixture
def put(catalog: pkray.Catalog) -> Put:
    """Change the tables default.lookup and default.none; give the id of the latter's snapshot."""
    tables = [
        catalog.create_table(
            f"default.{producer}",
            [("k", "INT"), ("v", "INT")],
            ["k"],
            options={"changelog-producer": producer, "write-only": "true"}
            if producer == "none"
            else {"changelog-producer": producer},
        )
        for producer in PRODUCERS
    ]

    def put_into_both(rows: dict[int, int | None], *deleted: int) -> int:
        for table in tables:
            change(table, rows, *deleted)
        return newest(catalog, "none")

    return put_into_both


def newest(catalog: pkray.Catalog, name: str) -> int:
    snapshot = catalog.load_table(f"default.{name}").at().snapshot
    assert snapshot is not None
    return int(snapshot.id)


def reading(table: str, options: dict[str, Any], query: str = "SELECT k, v FROM {}") -> str:
    said = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return query.format(f"{table} /*+ OPTIONS({said}) */")


def caught_up(query: Any, catalog: pkray.Catalog, table: str) -> None:
    query.wait({f"default.{table}": newest(catalog, table)})


@pytest.mark.parametrize("table", PRODUCERS)
def test_a_query_that_begins_with_the_latest_sees_what_changes_from_then_on(catalog, put, table):
    put({1: 1, 2: 2, 3: 3})
    query = catalog.sql(reading(table, {"scan.mode": "latest"})).materialize("default.r")
    put({2: 5, 4: 4}, 3)
    caught_up(query, catalog, table)
    assert content(catalog) == Counter([(2, 5), (4, 4)])
    put({4: 9}, 2)
    caught_up(query, catalog, table)
    assert content(catalog) == Counter([(4, 9)])
    report = query.verify()
    assert report.equal
    assert "did not change since scan.mode latest" in report.excluded[0]


@pytest.mark.parametrize("table", PRODUCERS)
def test_totals_are_of_the_rows_that_changed_since(catalog, put, table):
    put({1: 1, 2: 2, 3: 3})
    text = reading(
        table,
        {"scan.startup.mode": "latest-offset"},
        "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM {} GROUP BY v % 2",
    )
    query = catalog.sql(text).materialize("default.r")
    put({1: 11, 2: 12}, 3)
    put({1: 13, 5: 14})
    caught_up(query, catalog, table)
    assert content(catalog) == Counter([(1, 1, 13), (0, 2, 26)])
    assert query.verify().equal


@pytest.mark.parametrize("table", PRODUCERS)
def test_a_query_begins_with_the_changes_of_a_snapshot(catalog, put, table):
    put({1: 1, 2: 2})
    at = newest(catalog, table)
    put({2: 3})
    put({3: 3})
    query = catalog.sql(reading(table, {"scan.snapshot-id": at + 1})).materialize("default.r")
    caught_up(query, catalog, table)
    assert content(catalog) == Counter([(2, 3), (3, 3)])
    assert query.verify().equal


def test_a_query_begins_with_the_changes_of_a_tag(catalog, put):
    put({1: 1})
    put({2: 2})
    catalog.load_table("default.none").tags.create("here")
    put({3: 3})
    query = catalog.sql(reading("none", {"scan.tag-name": "here"})).materialize("default.r")
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(2, 2), (3, 3)])


@pytest.mark.parametrize(
    "options",
    [
        {"scan.timestamp-millis": "{}"},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": "{}"},
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "{}"},
    ],
)
def test_a_query_begins_with_the_changes_of_a_time(catalog, put, options):
    put({1: 1})
    number = put({2: 2})
    millis = catalog.load_table("default.none").at(snapshot_id=number).snapshot.time_millis
    said = {key: value.format(millis) for key, value in options.items()}
    query = catalog.sql(reading("none", said)).materialize("default.r")
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(2, 2)])


@pytest.mark.parametrize(
    "options",
    [
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"},
        {"scan.mode": "latest-full"},
        {"scan.mode": "compacted-full"},
        {"scan.startup.mode": "earliest-offset"},
    ],
)
def test_other_beginnings_have_all_rows_and_are_exact(catalog, put, options):
    put({1: 1, 2: 2})
    put({2: 5})
    query = catalog.sql(reading("none", options)).materialize("default.r", strict=True)
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(1, 1), (2, 5)])
    assert query.verify().excluded == ()


def test_where_a_query_begins_is_settled_when_it_is_started(catalog, put, tmp_path):
    put({1: 1})
    text = reading("none", {"scan.mode": "latest"})
    query = catalog.sql(text).materialize("default.r")
    query.stop()
    put({2: 2})
    IN_PROCESS.clear()  # as in another process
    with pkray.connect(tmp_path / "warehouse") as other:
        found = other.query("default.r").resume()
        caught_up(found, other, "none")
        assert content(other) == Counter([(2, 2)])
        assert found.verify().equal


def test_one_table_is_read_from_two_beginnings(catalog, put):
    put({1: 1, 2: 2})
    text = (
        "SELECT a.k, a.v, b.v AS since FROM none a "
        "LEFT JOIN none /*+ OPTIONS('scan.mode' = 'latest') */ b ON a.k = b.k"
    )
    query = catalog.sql(text).materialize("default.r")
    put({2: 7})
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(1, 1, None), (2, 7, 7)])
    assert query.verify().equal


def test_a_stream_begins_where_its_options_say(catalog, put):
    put({1: 1})
    with catalog.sql(reading("lookup", {"scan.mode": "latest"})).stream() as stream:
        put({1: 2, 3: 3})
        found = []
        while (batch := stream.poll()) is not None:
            found += [tuple(row.values())[::2] for row in batch.to_pylist()]
    assert found == [("+I", 1), ("+I", 3)]


def test_the_options_of_a_relation_say_where_it_begins(catalog, put):
    put({1: 1})
    relation = (
        catalog.load_table("default.none").relation().hint("OPTIONS", {"scan.mode": "latest"})
    )
    query = relation.materialize("default.r")
    put({2: 2})
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(2, 2)])


def test_the_options_of_a_table_say_where_it_begins(catalog, put):
    put({1: 1})
    catalog.load_table("default.none").alter.set_options({"scan.mode": "latest"})
    query = catalog.sql("SELECT k, v FROM none").materialize("default.r")
    put({2: 2})
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(2, 2)])


def test_a_table_as_of_a_moment_does_not_change(catalog, put):
    first = put({1: 1, 2: 2})
    text = f"SELECT a.k, b.v FROM none a JOIN none VERSION AS OF {first} b ON a.k = b.k"
    query = catalog.sql(text).materialize("default.r")
    put({1: 7}, 2)
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(1, 1)])
    assert query.verify().equal


def test_a_table_as_of_a_tag_is_read_when_its_snapshot_has_expired(catalog, put):
    first = put({1: 1, 2: 2})
    table = catalog.load_table("default.none")
    table.tags.create("v1", first)
    put({1: 7}, 2)
    table.expire_snapshots(retain_max=1)
    text = "SELECT a.k, b.v FROM none a JOIN none VERSION AS OF 'v1' b ON a.k = b.k"
    query = catalog.sql(text).materialize("default.r")
    caught_up(query, catalog, "none")
    assert content(catalog) == Counter([(1, 1)])
    assert query.verify().equal


@pytest.mark.parametrize("moment", ["VERSION AS OF {id}", "TIMESTAMP AS OF '{time}'"])
def test_a_compiled_plan_keeps_the_moment_of_a_table(catalog, put, tmp_path, moment):
    first = put({1: 1, 2: 2})
    millis = catalog.load_table("default.none").at(snapshot_id=first).snapshot.time_millis
    time = datetime.fromtimestamp(millis / 1000, UTC).isoformat(" ").removesuffix("+00:00")
    put({1: 7}, 2)
    text = f"SELECT k, v FROM none {moment.format(id=first, time=time)}"
    catalog.sql(text).compile_plan().write(tmp_path / "plan.json")
    plan = catalog.load_plan(tmp_path / "plan.json")
    assert plan.execute(continuous=False).num_rows == 2
    assert "asOf" in str(plan)


def test_the_plan_says_which_rows_are_not_read_and_strict_refuses_it(catalog, put):
    relation = catalog.sql(reading("none", {"scan.mode": "latest"}))
    assert "rows of default.none that did not change since scan.mode latest are not read" in str(
        relation.explain()
    )
    with pytest.raises(UnsupportedError, match=r"strict: rows of default\.none"):
        relation.materialize("default.r", strict=True)
    catalog.create_table("default.r", [("k", "INT"), ("v", "INT")], ["k"])
    insert = catalog.sql("INSERT INTO r " + reading("none", {"scan.mode": "latest"}))
    with pytest.raises(UnsupportedError, match=r"strict: rows of default\.none"):
        insert.start(strict=True)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"scan.startup.mode": "group-offsets"}, OptionError, "group-offsets"),
        ({"scan.startup.specific-offsets": "1"}, OptionError, "specific-offsets"),
        ({"scan.watermark": "1"}, OptionError, "scan.watermark"),
        ({"scan.mode": "from-file-creation-time"}, UnsupportedError, "from-file-creation-time"),
        ({"consumer-id": "me"}, UnsupportedError, "consumer-id"),
        ({"scan.bounded.watermark": "1"}, UnsupportedError, "scan.bounded.watermark"),
        ({"scan.mode": "from-snapshot"}, OptionError, "snapshot id"),
        ({"scan.snapshot-id": "99"}, SnapshotNotFoundError, "99"),
    ],
)
def test_beginnings_that_are_none_are_refused_by_name(catalog, put, options, error, said):
    put({1: 1})
    with pytest.raises(error, match=said):
        catalog.sql(reading("none", options)).materialize("default.r")
