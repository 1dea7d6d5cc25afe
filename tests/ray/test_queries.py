"""Continuous queries as actors: they outlive who began them, and are begun again when lost."""

import time
from collections import Counter

import pytest
import ray

import pkray
from tests.ray.signals import kill

pytestmark = pytest.mark.ray

TOTALS = "SELECT coalesce(v % 2, 0) AS side, COUNT(*) AS n FROM t GROUP BY coalesce(v % 2, 0)"


@pytest.fixture
def put(ray_catalog):
    table = ray_catalog.create_table(
        "default.t", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )

    def change(rows: dict[int, int]) -> int:
        snapshot = table.upsert([{"k": key, "v": value} for key, value in rows.items()])
        assert snapshot is not None
        return int(snapshot.id)

    return change


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


@pytest.mark.slow
def test_a_query_whose_process_is_killed_goes_on(ray_catalog, put):
    query = ray_catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2})})
    for number in range(2):
        kill(query.status()["process"])
        query.wait({"default.t": put({number + 3: 3})}, timeout=60)
        assert query.verify().equal
    assert content(ray_catalog) == Counter([(0, 1), (1, 3)])


def workers_of(query) -> list[str]:
    """List the actors of a query, but the first one."""
    (host,) = (each for each in host_names() if each.endswith(query.name))
    return [each for each in host_names() if each.startswith(f"{host}/")]


def host_names() -> list[str]:
    named = ray.util.list_named_actors(all_namespaces=True)
    return [each["name"] for each in named if each["name"].startswith("pkray-query-")]


def reserved(resource: str) -> float:
    """Say how much of something the cluster keeps free for actors; it tells so a little later."""
    found, deadline = 0.0, time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        found = ray.cluster_resources()[resource] - ray.available_resources()[resource]
        time.sleep(0.2)
    return found


@pytest.mark.slow
def test_actors_share_a_query_and_go_on_after_each_was_killed(ray_catalog, put):
    for key, value in {"parallelism": "2", "cpus": "1", "memory": "100 mb"}.items():
        ray_catalog.sql(f"SET 'query.{key}' = '{value}'")
    query = ray_catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({number: number for number in range(40)})})
    status = query.status()
    assert status["workers"] == 2
    assert len(set(status["processes"])) == 2
    assert len(workers_of(query)) == 1
    assert reserved("CPU") == 1
    assert reserved("memory") == 100 << 20
    for place in (1, 0):
        kill(query.status()["processes"][place])
        query.wait({"default.t": put({100 + place: 3, 7: 8})}, timeout=60)
        assert query.verify().equal
    result = ray_catalog.load_table("default.r")
    for number in (0, 1):  # each worker pushes to both owners
        kill(result.service_stats()["owners"][number]["pid"])
        query.wait({"default.t": put({300 + number: 1, 9: number})}, timeout=60)
        assert query.verify().equal
    query.rescale(1)
    query.wait({"default.t": put({200: 1, 8: 9})})
    assert query.status()["workers"] == 1
    assert workers_of(query) == []
    assert query.verify().equal
    query.drop()
    assert host_names() == []


@pytest.mark.slow
def test_a_query_in_an_actor_is_upgraded_and_goes_back(ray_catalog, put):
    query = ray_catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2, 3: 3})})
    newer = TOTALS.replace("AS n", "AS n, MAX(k) AS most")
    upgrade = query.upgrade(newer)
    assert [each.fate for each in upgrade.diff.nodes] == ["warmed up", "dropped"]
    rows = ray_catalog.load_table("default.r").to_arrow().to_pylist()
    assert {row["side"]: row["most"] for row in rows} == {0: 2, 1: 3}
    kill(query.status()["process"])
    query.wait({"default.t": put({4: 4})}, timeout=60)
    assert query.verify().equal
    query.rollback()
    query.wait({"default.t": put({5: 5})}, timeout=60)
    assert query.verify().equal
    assert content(ray_catalog) == Counter([(0, 2), (1, 3)])
