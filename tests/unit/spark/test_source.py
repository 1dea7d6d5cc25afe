"""Tables as Spark's format reads them, with a reader that is called without Spark."""

import pickle

import pytest

import pkray
from pkray import spans
from pkray.scan.moment import LATEST
from pkray.spark.source import RequestSource, TableSource, request_of
from tests.recorded_spans import recorded, trees


@pytest.fixture
def table(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("k", "INT")], ["k"], options={"bucket": "2"})
        table.upsert([{"k": key} for key in range(20)])
        yield table


def read(source: TableSource) -> int:
    """Read as Spark does: each call in a process of its own. Return how many rows there are."""
    schema = source.schema()
    planned = pickle.loads(pickle.dumps(source.reader(schema).partitions()))
    batches = [batch for part in planned for batch in source.reader(schema).read(part)]
    return sum(batch.num_rows for batch in batches)


BELOW = {("plan", "scan"), ("task", "scan"), ("split", "task")}


def test_tasks_are_below_the_scan_that_made_them(table):
    options = {"path": table.location.url.rsplit("/", 2)[0], "table": "db.t"}
    with recorded() as exporter:
        assert read(TableSource(options)) == 20
    (tree,) = trees(exporter, "pkray.scan")
    assert tree == {(f"pkray.{above}", f"pkray.{name}") for name, above in BELOW}


def test_a_scan_is_below_what_asked_for_the_dataframe(table, monkeypatch):
    with recorded() as exporter:
        with spans.span("run"):
            monkeypatch.setattr(RequestSource, "envelope", spans.envelope())
        monkeypatch.setattr(RequestSource, "request", request_of(table, None, None, LATEST))
        assert read(RequestSource({})) == 20
    (tree,) = trees(exporter, "pkray.run")
    assert {("pkray.run", "pkray.scan"), ("pkray.scan", "pkray.task")} <= tree
