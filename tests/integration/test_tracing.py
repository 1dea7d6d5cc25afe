"""Spans of commits, lookups and queries, in one process."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pkray
from tests.recorded_spans import recorded, trees

_WAIT_SECONDS = 120.0


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    with recorded() as exporter:
        yield exporter


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    options = {"bucket": "2", "changelog-producer": "lookup"}
    columns = [("k", "INT"), ("v", "INT")]
    return catalog.create_table("m.t", columns, ["k"], options=options)


def put(table: pkray.Table, *keys: int) -> None:
    table.upsert([{"k": key, "v": key} for key in keys], commit_user="etl")


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [each for each in exporter.get_finished_spans() if each.name == name]


def test_a_commit_has_its_steps_below_it(exporter, table):
    put(table, *range(20))
    (tree,) = trees(exporter, "pkray.commit")
    assert tree >= {
        ("pkray.commit", "pkray.coordinate"),
        ("pkray.coordinate", "pkray.prepare"),
        ("pkray.prepare", "pkray.flush"),
        ("pkray.coordinate", "pkray.publish"),
        ("pkray.publish", "pkray.race"),
        ("pkray.coordinate", "pkray.acknowledge"),
    }


def test_spans_of_a_commit_name_table_session_and_bucket(exporter, table):
    put(table, *range(20))
    flushes = named(exporter, "pkray.flush")
    assert {each.attributes["pkray.bucket"] for each in flushes} == {0, 1}
    assert {each.attributes["pkray.table"] for each in flushes} == {table.name}
    sessions = {each.attributes["pkray.session"] for each in flushes}
    assert {each.split("/")[0] for each in sessions} == {"etl"}


def test_files_on_their_way_to_an_object_store_are_spans(exporter):
    with pkray.connect("memory://tracing") as remote:
        table = remote.create_table("m.t", [("k", "INT")], ["k"])
        table.upsert([{"k": 1}])
    (tree,) = trees(exporter, "pkray.commit")
    assert ("pkray.flush", "pkray.upload") in tree


def test_a_commit_that_fails_is_an_error_in_its_spans(exporter, table):
    with table.open_writer("job") as older:
        older.upsert([{"k": 1, "v": 4711}])
        with table.open_writer("job"), pytest.raises(pkray.CommitFencedError):
            older.commit(1)
    failed = [each for each in exporter.get_finished_spans() if not each.status.is_unset]
    assert {"pkray.commit", "pkray.coordinate"} <= {each.name for each in failed}
    (event,) = failed[-1].events
    assert event.attributes["exception.type"] == "pkray.errors.CommitFencedError"


def test_a_lookup_has_what_owners_do_below_it(exporter, table):
    put(table, 1)
    exporter.clear()
    table.lookup([{"k": 1}])
    assert trees(exporter, "pkray.lookup") == [{("pkray.lookup", "pkray.find")}]
    (find,) = named(exporter, "pkray.find")
    assert find.attributes == {"pkray.table": table.name}


def test_rows_on_their_way_to_owners_are_spans(exporter, table):
    put(table, *range(20))
    assert trees(exporter, "pkray.push") == [{("pkray.push", "pkray.take")}]
    sessions = {each.attributes["pkray.session"] for each in named(exporter, "pkray.take")}
    assert {each.split("/")[0] for each in sessions} == {"etl"}


SCAN = {("pkray.scan", "pkray.plan"), ("pkray.scan", "pkray.split")}


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.to_arrow(),
        lambda table: list(table.to_batches()),
        lambda table: table.at().count(),
    ],
    ids=["to_arrow", "to_batches", "count"],
)
def test_a_read_is_planned_and_has_its_buckets_below_it(exporter, table, read):
    put(table, *range(20))
    exporter.clear()
    read(table)
    assert trees(exporter, "pkray.scan") == [SCAN]
    splits = named(exporter, "pkray.split")
    assert {each.attributes["pkray.bucket"] for each in splits} == {0, 1}
    assert {each.attributes["pkray.table"] for each in splits} == {table.name}


def test_a_reader_who_has_enough_is_no_error(exporter, table):
    put(table, *range(20))
    exporter.clear()
    next(iter(table.to_batches()))
    assert trees(exporter, "pkray.scan") == [SCAN]
    assert all(each.status.is_unset for each in exporter.get_finished_spans())


def test_sql_that_runs_once_has_its_reads_below_it(exporter, catalog, table):
    put(table, *range(20))
    exporter.clear()
    catalog.sql("SELECT v % 2 AS side, COUNT(*) AS n FROM m.t GROUP BY v % 2").to_arrow()
    assert trees(exporter, "pkray.run") == [{("pkray.run", "pkray.scan"), *SCAN}]


def test_changes_of_a_bucket_are_spans(exporter, table):
    put(table, *range(20))
    exporter.clear()
    list(table.changelog())
    made = named(exporter, "pkray.changes")
    assert {each.attributes["pkray.bucket"] for each in made} == {0, 1}
    assert {each.attributes["pkray.table"] for each in made} == {table.name}


def test_no_value_of_a_row_is_in_a_span(exporter, table):
    table.upsert([{"k": 471147114, "v": 1}])
    table.lookup([{"k": 471147114}])
    table.to_arrow(filter="k = 471147114")
    assert not [s for s in exporter.get_finished_spans() if "471147114" in s.to_json()]


@pytest.fixture
def query(catalog: pkray.Catalog, table: pkray.Table) -> Iterator[Any]:
    put(table, 1, 2, 3)
    statement = "SELECT v % 2 AS side, COUNT(*) AS n FROM m.t GROUP BY v % 2"
    catalog.sql("SET 'query.parallelism' = '2'")
    running = catalog.sql(statement).materialize("m.r")
    running.wait({"m.t": table.latest_snapshot().id}, _WAIT_SECONDS)
    yield running
    running.drop()


def test_an_epoch_is_read_computed_and_committed(exporter, query):
    query.stop(_WAIT_SECONDS)
    tree = set().union(*trees(exporter, "pkray.epoch"))
    assert tree >= {
        ("pkray.epoch", "pkray.read"),
        ("pkray.epoch", "pkray.compute"),
        ("pkray.epoch", "pkray.give"),
        ("pkray.give", "pkray.commit"),
        ("pkray.epoch", "pkray.share"),
        ("pkray.share", "pkray.compute"),
    }


def test_spans_of_an_epoch_name_the_query(exporter, query):
    query.stop(_WAIT_SECONDS)
    epochs = named(exporter, "pkray.epoch")
    assert {each.attributes["pkray.query"] for each in epochs} == {query.name}
    assert [each.attributes["pkray.epoch"] for each in epochs] == [*range(len(epochs))]
    commits = named(exporter, "pkray.publish")
    assert query.name in {each.attributes.get("pkray.query") for each in commits}


def test_a_query_that_waits_has_no_spans(exporter, query):
    epochs = len(named(exporter, "pkray.epoch"))
    reached = query.status()["epoch"]
    query.stop(_WAIT_SECONDS)
    assert len(named(exporter, "pkray.epoch")) == epochs == reached + 1
