"""Actors of one table killed with -9 while a writer works: nothing is lost or comes twice."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import pkray
from tests.integration.readers import rows_of
from tests.ray.commits import appended
from tests.ray.signals import kill

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture(scope="module")
def shared(ray_cluster, tmp_path_factory):
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    with pkray.connect(warehouse, runtime="ray", runtime_options={"owners": 2}) as catalog:
        options = {"bucket": "2", "service.dedicated": "true"}
        yield catalog.create_table("db.t", SCHEMA, ["id"], options=options)
        catalog.drop_table("db.t")


@pytest.fixture
def table(shared):
    """The table of all tests here, without rows; its actors may have been killed before."""
    there = shared.to_arrow(["id"])
    if there.num_rows:
        shared.delete(there, commit_user="between tests")
    return shared


def rows(start: int, value: int, count: int = 1000) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table({"id": ids, "v": np.full(count, value)}, schema=SCHEMA)


def expected(parts: list[pa.Table]) -> list[tuple]:
    model: dict = {}
    for part in parts:
        model.update(zip(part["id"].to_pylist(), part["v"].to_pylist(), strict=True))
    return sorted(model.items())


def test_an_owner_killed_before_the_commit(table, job):
    parts = [rows(0, 1), rows(500, 2), rows(900, 3)]
    with table.open_writer(job) as writer:
        writer.upsert(parts[0])
        writer.upsert(parts[1])
        kill(table.service_stats()["owners"][0]["pid"])
        writer.upsert(parts[2])
        writer.commit(commit_identifier=1)
    assert rows_of(table.to_arrow(), ["id"]) == expected(parts)
    assert appended(table, job) == [1]


@pytest.mark.slow
def test_an_owner_killed_again_and_again_while_committing(table, job):
    parts = [rows(i * 300, i) for i in range(12)]
    pids = [owner["pid"] for owner in table.service_stats()["owners"]]
    stop = threading.Event()

    def killer() -> None:
        for turn in range(3):
            if stop.wait(1.0):
                return
            try:
                owners = table.service_stats()["owners"]
                kill(owners[turn % len(pids)]["pid"])
            except Exception:
                time.sleep(0.5)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with table.open_writer(job) as writer:
            for number, part in enumerate(parts):
                writer.upsert(part)
                writer.commit(commit_identifier=number)
                time.sleep(0.2)
    finally:
        stop.set()
        thread.join()
    assert rows_of(table.to_arrow(), ["id"]) == expected(parts)
    assert appended(table, job) == list(range(12))


def test_the_coordinator_killed_before_the_commit(table, job):
    with table.open_writer(job) as writer:
        writer.upsert(rows(0, 1))
        kill(table.service_stats()["coordinator"][0]["pid"])
        writer.commit(commit_identifier=1)
        writer.upsert(rows(0, 2))
        writer.commit(commit_identifier=2)
    assert rows_of(table.to_arrow(), ["id"]) == expected([rows(0, 2)])


def test_the_coordinator_killed_in_the_middle_of_commits(table, job):
    parts = [rows(i * 300, i) for i in range(10)]
    timer = threading.Timer(0.5, lambda: kill(table.service_stats()["coordinator"][0]["pid"]))
    with table.open_writer(job) as writer:
        timer.start()
        for number, part in enumerate(parts):
            writer.upsert(part)
            writer.commit(commit_identifier=number)
            time.sleep(0.1)
    timer.join()
    assert rows_of(table.to_arrow(), ["id"]) == expected(parts)
    assert appended(table, job) == list(range(10))


def test_lookups_answer_again_after_an_owner_was_killed(table, job):
    table.upsert(rows(0, 1), commit_user=job, commit_identifier=1)
    kill(table.service_stats()["owners"][1]["pid"])
    found = table.lookup(pa.table({"id": [0, 1, 2, 999, 5000]}))
    assert found["id"].to_pylist() == [0, 1, 2, 999]


@pytest.mark.parametrize("name", ["coordinator", "owner-1"])
def test_what_ray_is_told_to_leave_dead_is_started_by_who_needs_it(table, job, name):
    import ray
    from ray.util import list_named_actors

    with table.open_writer(job) as writer:
        writer.upsert(rows(0, 1))
        prefix = f"pkray-{table.location.fingerprint}-"
        assert f"{prefix}{name}" in list_named_actors()
        ray.kill(ray.get_actor(f"{prefix}{name}"))
        writer.commit(commit_identifier=1)
    assert rows_of(table.to_arrow(), ["id"]) == expected([rows(0, 1)])
    assert table.lookup([{"id": 5}]).to_pylist() == [{"id": 5, "v": 1}]


def test_a_second_writer_of_the_same_user_fences_the_first(table, job):
    first = table.open_writer(job)
    first.upsert(rows(0, 1))
    table.upsert(rows(0, 2), commit_user=job, commit_identifier=1)
    with pytest.raises(pkray.CommitFencedError, match=job):
        first.upsert(rows(0, 3))
        first.commit(commit_identifier=2)
    assert rows_of(table.to_arrow(), ["id"]) == expected([rows(0, 2)])
