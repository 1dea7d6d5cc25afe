"""Metrics on Ray: gathered from the pool's processes, under the names and labels of a process that
serves tables itself."""

import os
import signal
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pkray.api import metrics as metrics_module
from pkray.inspection import tables
from pkray.lsm.compaction import under_way
from pkray.service.ray.actors import found_actor
from pkray.service.ray.processes import ask

pytestmark = pytest.mark.ray

_WAIT_SECONDS = 120.0


@pytest.fixture(autouse=True)
def fresh_facts(monkeypatch):
    monkeypatch.setattr(metrics_module, "_FACTS_SECONDS", 0.0)


def samples(catalog, name):
    """Values by labels, of one name."""
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(catalog.metrics().to_text())
        for sample in family.samples
        if sample.name == name
    ]


def until(reached):
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (found := reached()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.2)
    return found


@pytest.fixture
def table(shared_catalog):
    made = shared_catalog.create_table(
        "m.t", [("k", "BIGINT"), ("v", "INT")], ["k"], options={"bucket": "2"}
    )
    made.upsert([{"k": key, "v": key} for key in range(20)])
    yield made
    if shared_catalog.list_tables():
        shared_catalog.drop_table("m.t")


def test_what_owners_and_the_coordinator_count_is_gathered(shared_catalog, table):
    table.lookup([{"k": key} for key in range(30)])
    found = {}
    for name in ("pkray_table_commit_seconds_count", "pkray_lookup_keys_total"):
        found[name] = sum(value for labels, value in samples(shared_catalog, name))
    assert found == {"pkray_table_commit_seconds_count": 1, "pkray_lookup_keys_total": 30}
    misses = sum(value for _, value in samples(shared_catalog, "pkray_lookup_misses_total"))
    assert misses == 10
    assert samples(shared_catalog, "pkray_table_rows") == [({"table": "m.t"}, 20)]


def test_each_process_says_what_memory_it_takes(shared_catalog, table):
    def processes():
        return {
            labels["worker"]: value
            for labels, value in samples(shared_catalog, "pkray_worker_memory_bytes")
            if labels["use"] == "process"
        }

    found = until(lambda: len(processes()) == 4 and processes())
    assert set(found) == {"client", "keeper", "worker 0", "worker 1"}
    assert min(found.values()) > 1 << 20


def test_series_of_a_dropped_table_end_in_every_process(shared_catalog, table):
    table.lookup([{"k": 1}])
    assert "m.t" in shared_catalog.metrics().to_text()
    shared_catalog.drop_table("m.t")
    assert "m.t" not in shared_catalog.metrics().to_text()


def test_series_of_a_worker_that_died_end(shared_catalog, table):
    table.lookup([{"k": key} for key in range(30)])
    for each in shared_catalog.service().status().placed:
        if each.kind == "worker":
            os.kill(each.pid, signal.SIGKILL)

    def counted():
        return [
            labels
            for labels, _ in samples(shared_catalog, "pkray_lookup_keys_total")
            if labels["worker"] != "client"
        ]

    until(lambda: not counted())


def test_epochs_of_a_query_are_gathered(shared_catalog, table):
    query = shared_catalog.sql("SELECT k, v + 1 AS w FROM m.t").materialize("m.r")
    query.wait({"m.t": table.latest_snapshot().id}, _WAIT_SECONDS)
    counted = until(lambda: samples(shared_catalog, "pkray_query_epoch_seconds_count"))
    assert [labels["query"] for labels, _ in counted] == [query.name]
    assert samples(shared_catalog, "pkray_query_running") == [({"query": query.name}, 1)]
    query.drop()


def _begin(actor: object, url: str) -> None:
    under_way._running[-1] = under_way.UnderWay(url, b"", 1, (0,), 5, 3, 100, 0)


def _end(actor: object) -> None:
    under_way._running.clear()


def test_compactions_that_run_in_workers_are_listed(shared_catalog, table):
    worker, *_ = shared_catalog.service()._runs.workers_of("m.t")
    try:
        ask([found_actor(worker)], _begin, table._store.url, seconds=_WAIT_SECONDS)
        (found,) = tables.load(shared_catalog, "m.t")["compactions"]
    finally:
        ask([found_actor(worker)], _end, seconds=_WAIT_SECONDS)
    assert (found["bucket"], found["levels"], found["output_level"]) == (1, [0], 5)
