"""Queries in the workers of a pool, which are killed and stopped, beside others that fail."""

import os
import signal
import time
from contextlib import suppress

import pytest

import pkray
from pkray.relational.continuous.queries.wanted import resume_wanted
from pkray.relational.udf import udf
from tests.ray.conftest import pool_processes, served

pytestmark = pytest.mark.ray

QUERIES = 4
TOTALS = "SELECT coalesce(v % 3, 0) AS side, COUNT(*) AS n FROM t GROUP BY coalesce(v % 3, 0)"
LONGEST = 120.0
"""Seconds, on a machine that has much else to do."""


@pytest.fixture(scope="module")
def catalog(ray_cluster, tmp_path_factory):
    with served(tmp_path_factory.mktemp("warehouse"), pool_workers=2) as catalog:
        catalog.service().start()
        yield catalog


@pytest.fixture(scope="module")
def change(catalog):
    """Change the rows of ``t``; give the snapshot."""
    options = {"changelog-producer": "lookup"}
    columns = [("k", "INT"), ("v", "INT")]
    table = catalog.create_table("default.t", columns, ["k"], options=options)

    def changed(rows: dict[int, int]) -> dict[str, int]:
        with table.open_writer() as writer:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            snapshot = writer.commit()
        return {"default.t": snapshot.id}

    return changed


@pytest.fixture(scope="module")
def queries(catalog, change):
    """Queries that have read the table, whose rows are there."""
    started = [catalog.sql(TOTALS).materialize(f"default.r{each}") for each in range(QUERIES)]
    all_read(started, change({key: key for key in range(30)}))
    return started


def all_read(queries, snapshots) -> None:
    for query in queries:
        query.wait(snapshots, timeout=LONGEST)
        assert query.verify().equal


def actors() -> set[str]:
    from ray.util import list_named_actors

    return {actor["name"] for actor in list_named_actors(all_namespaces=True)}


def test_queries_start_no_process_and_share_the_workers(catalog, queries):
    assert not any(name.startswith("pkray-query-") for name in actors())
    assert len({query.status()["process"] for query in queries}) == 2


def test_a_query_is_stopped_and_resumed_and_dropped(catalog, queries, change):
    query = catalog.sql(TOTALS).materialize("default.other")
    query.wait(change({1: 5}), timeout=LONGEST)
    query.stop()
    assert query.status()["state"] == "stopped"
    newest = change({2: 9})
    query.resume().wait(newest, timeout=LONGEST)
    assert query.verify().equal
    query.drop()
    with pytest.raises(pkray.errors.QueryNotFoundError):
        catalog.query("default.other")


def test_a_failing_query_ends_alone(catalog, queries, change):
    failing = catalog.sql("SELECT k, 1 / (v - 77) AS x FROM t").materialize("default.failing")
    failing.wait(change({1: 1}), timeout=LONGEST)
    newest = change({1: 77})
    with pytest.raises(pkray.errors.QueryFailedError, match="zero"):
        failing.wait(newest, timeout=LONGEST)
    all_read(queries, newest)
    assert {query.status()["state"] for query in queries} == {"running"}
    failing.drop()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGSTOP, id="stopped", marks=pytest.mark.slow),
    ],
)
def test_others_take_over_the_queries_of_a_worker_that_is_lost(queries, change, sent):
    lost = queries[0].status()["process"]
    os.kill(lost, sent)
    try:
        all_read(queries, change({key: key + int(sent) for key in range(20)}))
        assert lost not in {query.status()["process"] for query in queries}
    finally:
        with suppress(ProcessLookupError):
            os.kill(lost, signal.SIGCONT)
    all_read(queries, change({3: int(sent)}))


@pytest.mark.slow
def test_queries_go_on_by_themselves_when_keeper_and_worker_are_lost(catalog, queries, change):
    import ray

    lost = queries[0].status()["process"]
    (keeper,) = (name for name in actors() if name.endswith("keeper") and _is_of(name, catalog))
    ray.kill(ray.get_actor(keeper, "pkray"), no_restart=False)
    all_read(queries, change({4: 4}))
    os.kill(queries[0].status()["process"], signal.SIGKILL)
    newest = change({5: 5})
    result = catalog.load_table("default.r0")
    before = result.latest_snapshot().id
    deadline = time.monotonic() + LONGEST
    while result.latest_snapshot().id == before and time.monotonic() < deadline:
        time.sleep(0.1)  # nobody calls the query
    all_read(queries, newest)
    assert lost


def test_queries_go_on_by_themselves_when_keeper_and_all_workers_are_lost_at_once(
    catalog, queries, change
):
    import ray

    queries[1].stop()
    results = [catalog.load_table(query.name) for query in queries]
    before = [result.latest_snapshot().id for result in results]
    for name in sorted(actors()):
        if _is_of(name, catalog):
            ray.kill(ray.get_actor(name, "pkray"), no_restart=False)
    newest = change({70: 1})  # a new row: each result changes
    going = [number for number in range(len(queries)) if number != 1]
    deadline = time.monotonic() + LONGEST
    while any(results[number].latest_snapshot().id == before[number] for number in going):
        assert time.monotonic() < deadline, "nobody brings the queries back"
        time.sleep(0.1)  # nobody calls the queries
    assert results[1].latest_snapshot().id == before[1]
    queries[1].resume()
    all_read(queries, newest)


def test_queries_that_were_to_run_are_resumed_when_all_processes_are_gone(catalog, queries, change):
    import ray

    queries[1].stop()
    for name in sorted(actors()):
        if _is_of(name, catalog):
            ray.kill(ray.get_actor(name, "pkray"), no_restart=True)
    assert "default.r1" not in resume_wanted(catalog)  # a new keeper brings others back itself
    assert queries[1].status()["state"] == "stopped"
    queries[1].resume()
    all_read(queries, change({6: 6}))


def _is_of(name: str, catalog) -> bool:
    from pkray.service.ray.pool import pool_of

    return name.startswith(pool_of(catalog.warehouse, catalog.storage_options))


@pytest.fixture
def functions(catalog):
    """Functions that end their process, or never, or want all memory where they see 77."""

    @udf("INT")
    def crash(values):
        if 77 in values.to_pylist():
            os._exit(3)
        return values

    @udf("INT")
    def hang(values):
        while 77 in values.to_pylist():
            time.sleep(0.1)
        return values

    @udf("INT")
    def eat(values):
        eaten = []
        while 77 in values.to_pylist():
            eaten.append(b"x" * (1 << 24))
        return values

    catalog.register_function("eat", eat)
    catalog.register_function("crash", crash)
    catalog.register_function("hang", hang)


@pytest.mark.slow
def test_a_function_that_ends_its_process_ends_its_query_alone(catalog, queries, change, functions):
    crashing = catalog.sql("SELECT k, crash(v) AS v FROM t").materialize("default.crashing")
    crashing.wait(change({1: 1}), timeout=LONGEST)
    alone = crashing.status()["process"]
    others = pool_processes(catalog)
    assert alone not in others
    newest = change({1: 77})
    with pytest.raises(pkray.errors.QueryFailedError, match="died 3 times"):
        crashing.wait(newest, timeout=3 * LONGEST)
    all_read(queries, newest)
    assert pool_processes(catalog) == others
    crashing.drop()


@pytest.mark.slow
def test_a_function_that_never_returns_holds_up_its_query_alone(
    catalog, queries, change, functions
):
    hanging = catalog.sql("SELECT k, hang(v) AS v FROM t").materialize("default.hanging")
    hanging.wait(change({1: 1}), timeout=LONGEST)
    newest = change({1: 77})
    all_read(queries, newest)
    with pytest.raises(pkray.errors.ServiceUnavailableError, match="not reached"):
        hanging.wait(newest, timeout=1)
    hanging.stop(timeout=1)
    assert hanging.status()["state"] == "stopped"
    hanging.drop()


@pytest.mark.slow
def test_a_function_that_eats_its_memory_ends_its_query_alone(catalog, queries, change, functions):
    catalog.sql("SET 'query.memory' = '512 mb'")
    try:
        eating = catalog.sql("SELECT k, eat(v) AS v FROM t").materialize("default.eating")
    finally:
        catalog.sql("RESET 'query.memory'")
    eating.wait(change({1: 1}), timeout=LONGEST)
    others = pool_processes(catalog)
    newest = change({1: 77})
    with pytest.raises(pkray.errors.QueryFailedError, match=r"MB|MemoryError"):
        eating.wait(newest, timeout=3 * LONGEST)
    all_read(queries, newest)
    assert pool_processes(catalog) == others
    eating.drop()
