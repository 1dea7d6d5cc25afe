"""Many tables in one pool of workers, which are killed, stopped and woken."""

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import pkray
from tests.integration.readers import rows_of
from tests.ray.commits import appended
from tests.ray.conftest import actors, served
from tests.ray.signals import kill, stopped
from tests.waiting import wait_until

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
OPTIONS = {"bucket": "2"}
WORKERS = 2
TABLES = 10
PAST_LEASES = 8.0
"""Seconds, after which others have what a stopped worker had."""


@pytest.fixture(scope="module")
def catalog(ray_cluster, tmp_path_factory):
    with served(tmp_path_factory.mktemp("warehouse"), pool_workers=WORKERS) as catalog:
        catalog.service().start()
        yield catalog


@pytest.fixture(scope="module")
def tables(catalog):
    """Ten tables of two buckets."""
    names = [f"db.t{number}" for number in range(TABLES)]
    return [catalog.create_table(name, SCHEMA, ["id"], options=OPTIONS) for name in names]


def rows(value: int) -> pa.Table:
    return pa.table({"id": range(100), "v": [value] * 100}, schema=SCHEMA)


def content(table) -> set:
    return {v for _, v in rows_of(table.to_arrow(), ["id"])}


def found(table) -> set:
    return set(table.lookup(rows(0).select(["id"]))["v"].to_pylist())


def pids(table) -> dict:
    """The processes of a table's parts."""
    stats = table.service_stats()
    return {
        "coordinator": int(stats["coordinator"][0]["pid"]),
        **{index: int(owner["pid"]) for index, owner in enumerate(stats["owners"])},
    }


def committed(table, job: str, value: int, identifier: int = 1) -> None:
    table.upsert(rows(value), commit_user=job, commit_identifier=identifier)


def test_ten_tables_of_two_buckets_share_the_workers(tables, job):
    committed(tables[0], job, 1)
    before = actors()
    with ThreadPoolExecutor(TABLES) as threads:
        list(threads.map(lambda table: committed(table, job, 1), tables[1:]))
    assert actors() == before  # the first write to a table starts no process
    assert len({pid for table in tables for pid in pids(table).values()}) == WORKERS
    assert [content(table) for table in tables] == [{1}] * TABLES
    for table in tables:
        assert len(set(pids(table).values())) == WORKERS  # owners of one table are apart


def test_others_take_over_what_a_killed_worker_had(tables, job):
    writers = [table.open_writer(job) for table in tables]
    for number, writer in enumerate(writers):
        writer.upsert(rows(number))
    kill(pids(tables[0])[0])
    with ThreadPoolExecutor(TABLES) as threads:
        list(threads.map(lambda writer: writer.commit(commit_identifier=1), writers))
    for number, (table, writer) in enumerate(zip(tables, writers, strict=True)):
        writer.close()
        assert content(table) == found(table) == {number}
        assert appended(table, job) == [1]


def test_rows_of_killed_owners_are_seen_before_their_commit(tables, job):
    table = tables[0]
    with table.open_writer(job) as writer:
        writer.upsert(rows(7))
        for pid in set(pids(table).values()):
            kill(pid)
        assert found(table) == {7}
        writer.commit(commit_identifier=1)
    assert content(table) == {7}
    assert appended(table, job) == [1]


@pytest.mark.parametrize(
    "part", ["coordinator", *(pytest.param(bucket, marks=pytest.mark.slow) for bucket in (0, 1))]
)
def test_a_worker_that_was_stopped_and_wakes_publishes_and_answers_nothing(
    catalog, tables, job, part
):
    table = tables[1]
    committed(table, job, 1)
    before = pids(table)
    with table.open_writer(f"{job}-old") as old:
        old.upsert(rows(2))
        with stopped(before[part]):
            time.sleep(PAST_LEASES)
            others = {"owners": 2, "pool_workers": WORKERS}
            with pkray.connect(
                catalog.warehouse, runtime="ray", runtime_options=others
            ) as connected:
                theirs = connected.load_table(table.name)
                committed(theirs, job, 3, identifier=2)
                after = pids(theirs)
                assert before[part] not in after.values()
        assert found(table) <= {2, 3}  # of a handle that knows the old place
        committed(table, job, 4, identifier=3)
        assert content(table) == {4}
        old.upsert(rows(5))
        old.commit(commit_identifier=1)
    assert content(table) == found(table) == {5}
    assert appended(table, job) == [1, 2, 3]
    assert appended(table, f"{job}-old") == [1]


def test_a_worker_that_is_stopped_for_good_is_replaced(catalog, tables, job):
    hasty = {"owners": 2, "call_timeout": 2, "lookup_timeout": 1}
    with pkray.connect(catalog.warehouse, runtime="ray", runtime_options=hasty) as connected:
        table = connected.create_table("db.hasty", SCHEMA, ["id"], options=OPTIONS)
        committed(table, job, 1)
        with table.open_writer(job) as writer:
            writer.upsert(rows(2))
            pid = pids(table)[0]
            with stopped(pid):
                writer.commit(commit_identifier=2)
        assert content(table) == {2}
        assert pid not in pids(table).values()
        assert appended(table, job) == [1, 2]


def test_a_keeper_that_is_killed_is_begun_again_and_writers_go_on(tables, job):
    import ray

    (name,) = (each for each in actors() if each.endswith("keeper") and _is_of(each, tables[3]))
    with tables[3].open_writer(job) as writer:
        writer.upsert(rows(1))
        ray.kill(ray.get_actor(name, "pkray"), no_restart=False)
        writer.upsert(rows(2))
        writer.commit(commit_identifier=1)
    assert content(tables[3]) == found(tables[3]) == {2}
    assert appended(tables[3], job) == [1]


def test_a_pool_whose_processes_are_all_gone_is_begun_again(tables, job):
    import ray

    with tables[4].open_writer(job) as writer:
        writer.upsert(rows(1))
        for name in sorted(actors()):
            if _is_of(name, tables[4]):
                ray.kill(ray.get_actor(name, "pkray"), no_restart=True)
        writer.commit(commit_identifier=1)
    assert content(tables[4]) == found(tables[4]) == {1}


def _is_of(name: str, table: pkray.Table) -> bool:
    from pkray.service.ray.pool import pool_name

    return name.startswith(pool_name(table.location))


def test_a_dropped_table_can_be_created_anew_at_once(catalog, job):
    for value in (1, 2):
        table = catalog.create_table("db.again", SCHEMA, ["id"], options=OPTIONS)
        committed(table, job, value)
        assert content(table) == found(table) == {value}
        catalog.drop_table("db.again")


@pytest.mark.slow
def test_a_pool_whose_tables_were_all_dropped_ends(ray_catalog, job):
    table = ray_catalog.create_table("db.last", SCHEMA, ["id"], options=OPTIONS)
    committed(table, job, 1)
    assert any(_is_of(name, table) for name in actors())
    ray_catalog.drop_table("db.last")
    wait_until(lambda: not any(_is_of(name, table) for name in actors()), 240)


def test_other_keys_get_a_pool_of_their_own():
    from pkray.service.ray.pool import pool_name
    from pkray.storage.location import TableLocation

    def named(url: str, **keys: str) -> str:
        return pool_name(TableLocation(url, "db.t", keys))

    one = named("s3://b/wh/db.db/t", secret_access_key="one")
    assert one == named("s3://b/wh/other.db/u", secret_access_key="one")
    assert one != named("s3://b/wh/db.db/t", secret_access_key="two")
    assert one != named("s3://b/wi/db.db/t", secret_access_key="one")
    assert "one" not in one
