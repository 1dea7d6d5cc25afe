"""The service of a warehouse as those who run it use it: started, watched, moved, stopped."""

import json
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import pkray
from pkray.cli.app import main
from pkray.errors import (
    NodeNotFoundError,
    OptionError,
    QueryNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from pkray.inspection import Diagnosis
from pkray.service.ray.actors import found_actor
from pkray.service.ray.processes import ask
from pkray.serving.application import application
from pkray.serving.guard import Access
from tests.ray.conftest import served

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
RUNTIME = {"owners": 2, "pool_workers": 2}
SECRET = "hush-hush-4711"
TOTAL = "SELECT v, COUNT(*) AS n FROM db.t GROUP BY v"


def rows(ids, value: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [value] * len(ids)}, schema=SCHEMA)


def connected(warehouse) -> pkray.Catalog:
    return pkray.connect(warehouse, runtime="ray", runtime_options=RUNTIME)


@pytest.fixture(scope="module")
def catalog(ray_cluster, tmp_path_factory):
    with served(tmp_path_factory.mktemp("warehouse"), **RUNTIME) as catalog:
        options = {"bucket": "2", "changelog-producer": "lookup"}
        catalog.create_table("db.t", SCHEMA, ["id"], options=options)
        own = {"service.dedicated": "true"}
        catalog.create_table("db.own", SCHEMA, ["id"], options=own)
        yield catalog


@pytest.fixture
def table(catalog):
    """A table that the service runs."""
    catalog.service().start()
    return catalog.load_table("db.t")


def upserted(table, ids, value: int) -> int:
    snapshot = table.upsert(rows(ids, value))
    assert snapshot is not None
    return int(snapshot.id)


def command(catalog, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["service", *words, "--warehouse", catalog.warehouse, "--ray", "auto"])
    return int(ended.value.code or 0)


def counts(catalog, name: str) -> dict[int, int]:
    found = catalog.load_table(name).to_arrow().to_pylist()
    return {row["v"]: row["n"] for row in found}


def test_the_status_names_processes_and_what_tables_have_in_them(catalog, table):
    upserted(table, range(100), 1)
    upserted(catalog.load_table("db.own"), [1], 1)
    found = catalog.service().status()
    placed = {(each.kind, each.name): each for each in found.placed}
    workers = {number: placed["worker", f"worker {number}"] for number in (0, 1)}
    for worker in workers.values():
        assert (worker.state, worker.memory > 0, worker.age >= 0) == ("running", True, True)
    stats = table.service_stats()
    assert placed["coordinator", "db.t"].pid == stats["coordinator"][0]["pid"]
    for owner in stats["owners"]:
        at = placed["owner", f"db.t {owner['owner']}"]
        assert at.pid == owner["pid"] == workers[at.worker].pid
    own = catalog.load_table("db.own").service_stats()
    assert placed["coordinator", "db.own"].pid == own["coordinator"][0]["pid"]
    assert placed["owner", "db.own 0"].pid == own["owners"][0]["pid"]
    assert found.to_arrow().num_rows == len(found.placed)
    assert "worker: 2" in repr(found)
    assert "db.own" in found._repr_html_()


def test_a_service_that_was_stopped_is_started_from_files_alone(catalog, table, capsys):
    query = catalog.sql(TOTAL).materialize("db.r")
    query.wait({"db.t": upserted(table, range(10), 1)})
    assert command(catalog, "stop", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": True}
    assert command(catalog, "status", "--json") == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["kind"], each["state"]) for each in lines] == [("query", "stopped")]

    with connected(catalog.warehouse) as other:
        status = other.service().start()
        assert [each.state for each in status.placed if each.kind == "worker"] == ["running"] * 2
        (running,) = (each for each in status.placed if each.kind == "query")
        assert running.state in ("starting", "running")
        assert set(other.service().logs(query="db.r")) == {f"worker {running.worker}"}
        changed = upserted(other.load_table("db.t"), range(4), 2)
        other.query("db.r").wait({"db.t": changed})
        assert counts(other, "db.r")[2] == 4
        assert other.query("db.r").verify().equal


@pytest.mark.slow
def test_what_is_lost_with_all_processes_comes_back_but_for_stopped_queries(catalog, table):
    import ray

    catalog.sql(TOTAL).materialize("db.wanted").wait({"db.t": upserted(table, range(10), 3)})
    catalog.sql(TOTAL).materialize("db.unwanted").stop()
    for actor in ray.util.list_named_actors(all_namespaces=True):
        ray.kill(ray.get_actor(actor["name"], actor["namespace"]), no_restart=True)
    with connected(catalog.warehouse) as other:
        other.service().start()
        states = {each.name: each.state for each in other.service().status().placed}
        assert states["db.unwanted"] == "stopped"
        changed = upserted(other.load_table("db.t"), range(10), 4)
        other.query("db.wanted").wait({"db.t": changed})
        assert counts(other, "db.wanted")[4] == 10


def test_a_writer_goes_on_when_the_service_was_stopped(catalog, table):
    with table.open_writer() as writer:
        writer.upsert(rows([500], 5))
        with connected(catalog.warehouse) as other:
            other.service().stop()
        writer.upsert(rows([501], 5))
        writer.commit()
    found = table.lookup(pa.table({"id": [500, 501]}))
    assert found["v"].to_pylist() == [5, 5]


def _write_secret(actor: object) -> None:
    logging.getLogger("test").warning("opened with %s", SECRET)
    print(f"opened with {SECRET} by {os.getpid()}", file=sys.stderr, flush=True)


def test_logs_are_the_ends_of_what_processes_wrote_without_secrets(catalog, table, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    upserted(table, [1], 1)
    service = catalog.service()
    ask([*map(found_actor, service._runs.workers_of("db.t"))], _write_secret, seconds=60)
    texts = service.logs(table="db.t", lines=5)
    assert set(texts) == {"worker 0", "worker 1"}
    for text in texts.values():
        assert "opened with *** by" in text
        assert SECRET not in text
        assert len(text.splitlines()) <= 5


def test_a_diagnosis_has_what_the_service_runs_and_its_logs(catalog, table, tmp_path):
    snapshot = upserted(table, range(100), 1)
    query = catalog.sql(TOTAL).materialize("db.told")
    try:
        query.wait({"db.t": snapshot}, 120)
        found = Diagnosis(pkray.diagnose(catalog, tmp_path / "d.zip", lines=20))
    finally:
        query.drop()
    cluster, logs = found.cluster(), found.logs()
    assert not any("core_worker.cc" in text for text in logs.values())
    kinds = {each["kind"] for each in cluster["placed"]}
    assert {"keeper", "worker", "coordinator", "owner", "query"} <= kinds
    assert {"worker 0", "worker 1"} <= set(logs) & set(cluster["memory"])
    assert found.table("db.t")["buckets"]
    assert (found.query("db.told")["state"], found.query("db.told")["epoch"] >= 0) == (
        "running",
        True,
    )
    assert 'pkray_table_commit_seconds_count{table="db.t",worker="worker' in found.metrics()


def test_the_console_shows_what_the_service_runs_and_its_logs(catalog, table):
    upserted(table, range(100), 1)
    ask([*map(found_actor, catalog.service()._runs.workers_of("db.t"))], _write_secret, seconds=60)
    headers = {"Authorization": f"Bearer {SECRET}"}
    served = application(catalog, Access(SECRET))
    with TestClient(served, base_url="http://localhost", headers=headers) as web:
        cluster, logs, load = (
            web.get(f"/api/{path}").json() for path in ("cluster", "logs", "tables/db.t/load")
        )
    assert cluster["kind"] == "ray"
    assert cluster["dashboard"] is None  # that of the tests has none
    assert all("opened with" in logs["logs"][worker] for worker in ("worker 0", "worker 1"))
    assert load["commits"] > 0


def test_commands_print_for_people_and_fail_with_1(catalog, table, capsys):
    assert command(catalog, "start") == 0
    assert "worker 0" in capsys.readouterr().out
    assert command(catalog, "logs", "--table", "db.t") == 0
    assert "== worker" in capsys.readouterr().out
    assert command(catalog, "logs", "--table", "db.nobody") == 1
    assert "db.nobody" in capsys.readouterr().err


def processes(catalog) -> dict:
    placed = catalog.service().status().placed
    return {each.name: each.pid for each in placed if each.kind in ("keeper", "worker")}


@pytest.mark.slow
def test_workers_begin_anew_one_after_the_other_while_writers_go_on(catalog, table):
    committed: list[int] = []
    ended = threading.Event()

    def write() -> None:
        with table.open_writer() as writer:
            while not ended.is_set():
                writer.upsert(rows([1000 + len(committed)], 6))
                writer.upsert(rows([2000 + len(committed)], 6))
                writer.commit()
                committed.append(len(committed))

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        before = processes(catalog)
        try:
            assert catalog.service().restart() == 2
        finally:
            ended.set()
        writing.result()
    after = processes(catalog)
    assert set(before) == set(after) == {"keeper", "worker 0", "worker 1"}
    assert not set(before.values()) & set(after.values())
    keys = [first + number for number in committed for first in (1000, 2000)]
    assert len(table.lookup(pa.table({"id": keys}))) == len(keys) > 0


def test_names_are_checked(catalog, table):
    service = catalog.service()
    with pytest.raises(NodeNotFoundError, match="'nowhere'"):
        service.drain("nowhere")
    with pytest.raises(TableNotFoundError):
        service.logs(table="db.nobody")
    with pytest.raises(QueryNotFoundError):
        service.logs(query="db.nobody")
    with pytest.raises(OptionError, match="not both"):
        service.logs(table="db.t", query="db.r")
    with pytest.raises(OptionError, match="lines"):
        service.logs(lines=0)


def test_a_catalog_that_serves_itself_has_no_service(tmp_path):
    with pkray.connect(tmp_path) as local, pytest.raises(UnsupportedError, match="runtime='ray'"):
        local.service()
