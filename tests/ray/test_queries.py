"""Continuous queries as actors: they outlive who began them, and are begun again when lost."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

import pkray

TOTALS = "SELECT coalesce(v % 2, 0) AS side, COUNT(*) AS n FROM t GROUP BY coalesce(v % 2, 0)"


@pytest.fixture
def put(ray_catalog):
    table = ray_catalog.create_table(
        "default.t", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )

    def change(rows: dict[int, int]) -> int:
        with table.open_writer() as writer:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            snapshot = writer.commit()
        assert snapshot is not None
        return int(snapshot.id)

    yield change
    for query in ray_catalog.queries():
        query.drop()


def content(catalog: pkray.Catalog) -> Counter[tuple[int, int]]:
    rows = catalog.load_table("default.r").to_arrow().to_pylist()
    return Counter((row["side"], row["n"]) for row in rows)


def test_a_query_goes_on_without_who_began_it(ray_catalog, put):
    query = ray_catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2})})
    runtime = {"owners": 2}
    with pkray.connect(ray_catalog.warehouse, runtime="ray", runtime_options=runtime) as other:
        found = other.query("default.r")
        assert found.status()["state"] == "running"
        found.wait({"default.t": put({3: 3})})
        assert content(other) == Counter([(0, 1), (1, 2)])
        found.stop()
        assert found.status()["state"] == "stopped"
    query.resume().wait({"default.t": put({4: 4})})
    assert query.verify().equal


def test_a_query_whose_process_is_killed_goes_on(ray_catalog, put):
    query = ray_catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2})})
    for number in range(2):
        os.kill(query.status()["process"], signal.SIGKILL)
        query.wait({"default.t": put({number + 3: 3})}, timeout=60)
        assert query.verify().equal
    assert content(ray_catalog) == Counter([(0, 1), (1, 3)])
