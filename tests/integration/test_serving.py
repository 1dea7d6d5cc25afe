"""What is served of a warehouse: metrics, the console's answers, its files, and the command."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import pkray
from pkray.lsm.compaction.compactor import _Compaction
from pkray.metrics import names
from pkray.service.administration import Placed
from pkray.serving.application import CONSOLE, application
from pkray.serving.guard import Access
from pkray.serving.server import _read_token
from pkray.serving.sql import Limits
from pkray.storage.secrets import hide

TOKEN = "t0ken-that-nobody-guesses"
MARKUP = "<img src=x onerror=alert(1)>"
_WAIT_SECONDS = 120.0


def client(catalog: pkray.Catalog, **how: Any) -> TestClient:
    served = application(catalog, Access(TOKEN), **how)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return TestClient(served, base_url="http://localhost:8470", headers=headers)


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    made = catalog.create_table(
        "shop.orders", [("id", "BIGINT"), ("name", "STRING")], ["id"], options={"bucket": "2"}
    )
    made.upsert([{"id": each, "name": f"n{each}"} for each in range(20)])
    return made


@pytest.fixture
def web(catalog: pkray.Catalog, table: pkray.Table) -> TestClient:
    return client(catalog)


def answer(web: TestClient, path: str, **parameters: Any) -> Any:
    found = web.get(path, params=parameters)
    assert found.status_code == 200, found.text
    return found.json()


def refused(web: TestClient, path: str, status: int, **parameters: Any) -> str:
    found = web.get(path, params=parameters)
    assert found.status_code == status, found.text
    return str(found.json()["error"])


def test_metrics_are_those_of_the_catalog(web):
    families = text_string_to_metric_families(web.get("/metrics").text)
    (rows,) = [each for each in families if each.name == "pkray_table_rows"]
    assert [(each.labels, each.value) for each in rows.samples] == [({"table": "shop.orders"}, 20)]


def test_metrics_of_buckets_are_served_to_who_asks_for_them(web):
    assert "pkray_bucket_level_files{" in web.get("/metrics?by=bucket").text
    assert "pkray_bucket_" not in web.get("/metrics").text
    refused = web.get("/metrics?by=key")
    assert refused.status_code == 400
    assert "?by=bucket" in refused.text


def test_metrics_say_in_which_format_they_are(web):
    assert web.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/api/home", "/api/tables/shop.orders", "/console/app.js"]
)
def test_nothing_is_there_without_a_token(catalog, table, path):
    web = client(catalog)
    del web.headers["Authorization"]
    assert web.get(path).status_code == 401


def test_health_is(catalog):
    web = client(catalog)
    del web.headers["Authorization"]
    assert web.get("/health").text == "ok\n"


def test_without_the_console_there_are_metrics_alone(catalog, table):
    web = client(catalog, with_console=False)
    statuses = {path: web.get(path).status_code for path in ("/metrics", "/", "/api/home")}
    assert statuses == {"/metrics": 200, "/": 404, "/api/home": 404}


def test_home_lists_tables_with_their_sizes(web, table):
    (found,) = answer(web, "/api/home")["tables"]
    assert (found["name"], found["rows"]) == ("shop.orders", 20)
    assert found["bytes"] == sum(table.files().column("file_size_in_bytes").to_pylist())


def notes_of(catalog: pkray.Catalog) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer(client(catalog), "/api/home")["attention"]
    return found


def attention(catalog: pkray.Catalog) -> list[dict[str, Any]]:
    """What needs attention, whatever else takes this machine's memory."""
    return [each for each in notes_of(catalog) if each["kind"] != "cluster"]


def test_home_says_what_needs_attention(catalog):
    made = catalog.create_table(
        "shop.many", [("id", "INT")], ["id"], options={"write-only": "true"}
    )
    for each in range(12):
        made.upsert([{"id": each}])
    (note,) = attention(catalog)
    assert (note["kind"], note["name"]) == ("table", "shop.many")
    assert "12 files of level 0" in note["text"]
    assert "pkray compact" in note["text"]


def test_home_says_first_why_a_query_has_failed_and_then_which_one_is_stopped(catalog, table):
    halves = catalog.sql("SELECT id, CAST(id AS TINYINT) AS small FROM shop.orders")
    failed = halves.materialize("shop.failed")
    stopped = catalog.sql("SELECT id FROM shop.orders").materialize("shop.stopped")
    try:
        for each in (failed, stopped):
            each.wait({"shop.orders": table.latest_snapshot().id}, _WAIT_SECONDS)
        stopped.stop(_WAIT_SECONDS)
        table.upsert([{"id": 4711, "name": "n"}])
        with pytest.raises(pkray.QueryFailedError):
            failed.wait({"shop.orders": table.latest_snapshot().id}, _WAIT_SECONDS)
        notes = attention(catalog)
    finally:
        failed.drop()
        stopped.drop()
    assert [(each["kind"], each["name"]) for each in notes] == [
        ("query", "shop.failed"),
        ("query", "shop.stopped"),
    ]
    assert "4711" in notes[0]["failure"]
    assert "resume it" in notes[1]["text"]


@pytest.mark.parametrize("damaged", ["snapshot/snapshot-1", "manifest/manifest-list-*"])
def test_home_names_a_table_that_cannot_be_read_beside_the_others(catalog, table, damaged):
    broken = catalog.create_table("shop.broken", [("id", "INT")], ["id"])
    broken.upsert([{"id": 1}])
    for path in Path(broken.location.url).glob(damaged):
        path.write_bytes(b"damaged")
    found = answer(client(catalog), "/api/home")
    assert [(each["name"], each["rows"]) for each in found["tables"]] == [
        ("shop.broken", None),
        ("shop.orders", 20),
    ]
    (note,) = attention(catalog)
    assert (note["kind"], note["name"], note["text"]) == ("table", "shop.broken", "cannot be read")
    assert damaged.partition("*")[0].rpartition("/")[2] in note["failure"]


@pytest.mark.parametrize("damaged", [b"", b"damaged by somebody"])
def test_home_and_metrics_go_on_beside_a_query_that_cannot_be_read(catalog, table, damaged):
    query = catalog.sql("SELECT id FROM shop.orders").materialize("shop.broken")
    query.stop(_WAIT_SECONDS)
    warehouse = Path(table.location.url).parents[1]
    (definition,) = warehouse.glob(".queries/shop.broken/definitions/*")
    whole = definition.read_bytes()
    definition.write_bytes(damaged)
    try:
        (note,) = attention(catalog)
        assert "pkray_table_rows" in catalog.metrics().to_text()
    finally:
        definition.write_bytes(whole)
        query.drop()
    assert (note["kind"], note["name"], note["text"]) == ("query", "shop.broken", "cannot be read")
    assert "definition-" in note["failure"]


def test_an_empty_table_needs_no_attention(catalog):
    catalog.create_table("shop.empty", [("id", "INT")], ["id"])
    assert attention(catalog) == []


def test_home_names_a_worker_that_is_silent_and_an_owner_whose_worker_is_dead(catalog, monkeypatch):
    placed = [
        Placed("worker", "worker 1", "silent", 1),
        Placed("owner", "shop.orders 0", "lost", 2),
        Placed("worker", "worker 3", "running", 3),
    ]
    service = SimpleNamespace(_processes=lambda: placed)
    monkeypatch.setattr(pkray.Catalog, "service", lambda _: service)
    notes = {each["name"]: each["text"] for each in notes_of(catalog)}
    assert "does not answer" in notes["worker 1"]
    assert "lost with its worker" in notes["owner shop.orders 0"]
    assert "worker 3" not in notes


def test_home_names_the_machine_whose_memory_is_full(catalog, monkeypatch):
    full = {names.WORKER_MACHINE_MEMORY_RATIO.name: {("worker-1",): 0.93}}
    monkeypatch.setattr(pkray.Catalog, "metrics", lambda _: SimpleNamespace(collected=full))
    (note,) = answer(client(catalog), "/api/home")["attention"]
    assert (note["kind"], note["name"]) == ("cluster", "worker-1")
    assert "93%" in note["text"]


def test_a_table_has_its_levels_to_scale(web, table):
    buckets = answer(web, "/api/tables/shop.orders")["buckets"]
    drawn = sum(level["bytes"] for each in buckets for level in each["levels"])
    assert drawn == sum(table.files().column("file_size_in_bytes").to_pylist())
    assert [each["bucket"] for each in buckets] == [0, 1]


def test_a_table_has_its_snapshots_and_tags(web, table):
    table.tags.create("v1")
    found = answer(web, "/api/tables/shop.orders")
    assert [each["id"] for each in found["snapshots"]] == [1]
    assert [(each["tag_name"], each["snapshot_id"]) for each in found["tags"]] == [("v1", 1)]


def test_a_branch_has_its_own_snapshots_and_the_one_it_began_at(web, table):
    table.tags.create("v1")
    table.upsert([{"id": 1, "name": "on the table"}])
    table.branches.create("trial", tag="v1")
    for each in range(2):
        table.branch("trial").upsert([{"id": each, "name": "on the branch"}])
    (found,) = answer(web, "/api/tables/shop.orders")["branches"]
    assert (found["branch_name"], found["began"]["id"]) == ("trial", 1)
    assert [each["id"] for each in found["snapshots"]] == [2, 3]


def test_a_branch_without_snapshots_began_nowhere(web, table):
    table.branches.create("empty")
    (found,) = answer(web, "/api/tables/shop.orders")["branches"]
    assert (found["began"], found["snapshots"]) == (None, [])


def test_a_branch_that_cannot_be_read_leaves_the_page_of_its_table(web, table):
    table.branches.create("broken", tag=table.tags.create("v1").name)
    (snapshot,) = Path(table.location.url).glob("branch/branch-broken/snapshot/snapshot-1")
    snapshot.write_text("{")
    found = answer(web, "/api/tables/shop.orders")
    assert "damaged" in found["branches"][0]["error"]
    assert [each["id"] for each in found["snapshots"]] == [1]


def test_a_table_has_its_schemas(web, table):
    table.alter.add_column("note", "STRING")
    found = answer(web, "/api/tables/shop.orders")
    assert [each["schema_id"] for each in found["schemas"]] == [0, 1]
    assert [each["name"] for each in found["columns"]] == ["id", "name", "note"]


def test_a_table_without_snapshots_is_shown_too(catalog):
    catalog.create_table("shop.empty", [("id", "INT")], ["id"])
    found = answer(client(catalog), "/api/tables/shop.empty")
    assert (found["buckets"], found["snapshots"]) == ([], [])


def test_rows_are_read_at_a_snapshot(web, table):
    table.delete([{"id": each} for each in range(20)])
    assert len(answer(web, "/api/tables/shop.orders/rows", snapshot=1)["rows"]) == 20
    assert answer(web, "/api/tables/shop.orders/rows")["rows"] == []


def test_no_more_rows_are_read_than_asked_for(web):
    assert len(answer(web, "/api/tables/shop.orders/rows", count=3)["rows"]) == 3


@pytest.mark.parametrize("given", [{"snapshot": "x"}, {"count": "many"}])
def test_what_is_no_number_is_refused(web, given):
    assert "whole numbers" in refused(web, "/api/tables/shop.orders/rows", 400, **given)


def test_a_snapshot_that_is_not_there_is_not_found(web):
    assert "7" in refused(web, "/api/tables/shop.orders/rows", 404, snapshot=7)


def test_the_newest_changes_come_first(web, table):
    table.upsert([{"id": 1, "name": "again"}])
    found = answer(web, "/api/tables/shop.orders/changes", count=3)
    assert [each["name"] for each in found["columns"]] == [
        "_row_kind",
        "_snapshot_id",
        "id",
        "name",
    ]
    assert found["rows"][0][1:] == [table.latest_snapshot().id, 1, "again"]
    assert len(found["rows"]) == 3


def test_a_table_without_snapshots_has_no_changes(catalog):
    catalog.create_table("shop.empty", [("id", "INT")], ["id"])
    assert answer(client(catalog), "/api/tables/shop.empty/changes")["rows"] == []


def test_what_was_counted_of_a_table_grows_with_its_commits(web, table):
    before = answer(web, "/api/tables/shop.orders/load")
    table.upsert([{"id": 1, "name": "again"}])
    after = answer(web, "/api/tables/shop.orders/load")
    assert after["commits"] == before["commits"] + 1
    assert after["commit_seconds"] > before["commit_seconds"]
    assert (after["stall_seconds"], after["writers_waiting"]) == (0, 0)


def test_two_snapshots_are_told_apart(web, table):
    table.upsert([{"id": 1, "name": "again"}, {"id": 99, "name": "new"}])
    table.delete([{"id": 2}])
    found = answer(web, "/api/tables/shop.orders/changes", start=1, end=3)
    assert sorted(found["rows"]) == [["+I", 99, "new"], ["+U", 1, "again"], ["-D", 2, "n2"]]


@pytest.mark.parametrize("given", [{"start": 1}, {"end": 1}, {"start": "x", "end": 1}])
def test_a_difference_needs_two_snapshots(web, given):
    assert "both ends" in refused(web, "/api/tables/shop.orders/changes", 400, **given)


def test_a_compaction_that_runs_is_shown_until_it_ends(web, table, monkeypatch):
    begun, may_end, write = threading.Event(), threading.Event(), _Compaction.run
    before = table.files().to_pylist()

    def slow(compaction: _Compaction) -> Any:
        begun.set()
        assert may_end.wait(_WAIT_SECONDS)
        return write(compaction)

    monkeypatch.setattr(_Compaction, "run", slow)
    with ThreadPoolExecutor(1) as pool:
        compacted = pool.submit(table.compact, full=True, buckets=[1])
        try:
            assert begun.wait(_WAIT_SECONDS)
            (found,) = answer(web, "/api/tables/shop.orders/load")["compactions"]
        finally:
            may_end.set()
        compacted.result(_WAIT_SECONDS)
    (file,) = [each for each in before if each["bucket"] == 1]
    assert (found["bucket"], found["partition"]) == (1, "{}")
    assert (found["levels"], found["files"]) == ([0], 1)
    assert (found["output_level"], found["bytes"]) == (5, file["file_size_in_bytes"])
    assert answer(web, "/api/tables/shop.orders/load")["compactions"] == []


def test_what_compaction_did_stays_known(catalog, table):
    table.upsert([{"id": each, "name": "again"} for each in range(20)])
    table.compact(full=True)
    done = answer(client(catalog), "/api/tables/shop.orders/compactions")["compactions"]
    newest = table.latest_snapshot().id
    last = [each for each in done if each["snapshot_id"] == newest]
    assert sorted(each["bucket"] for each in last) == [0, 1]
    assert sum(each["rows_after"] for each in last) == 20
    assert all(each["files_after"] == 1 for each in last)


def test_a_lookup_finds_the_row_of_a_key(web):
    found = answer(web, "/api/tables/shop.orders/lookup", id="7")
    assert found["rows"] == [[7, "n7"]]


def test_a_lookup_of_a_key_that_is_not_there_finds_nothing(web):
    assert answer(web, "/api/tables/shop.orders/lookup", id="77")["rows"] == []


@pytest.mark.parametrize(("given", "said"), [({}, "id is missing"), ({"id": "x"}, "'x' is no")])
def test_a_key_that_is_none_is_refused(web, given, said):
    assert said in refused(web, "/api/tables/shop.orders/lookup", 400, **given)


@pytest.mark.parametrize("path", ["/api/tables/shop.nothing", "/api/queries/nothing"])
def test_a_name_that_is_not_there_is_not_found(web, path):
    refused(web, path, 404)


@pytest.mark.parametrize("name", ["..", "%2e%2e", "shop.orders%2f..%2fx", "a%00b.c"])
def test_a_name_leads_nowhere_else(web, name):
    assert web.get(f"/api/tables/{name}").status_code == 404


def test_names_and_values_that_are_markup_stay_what_they_are(catalog):
    name = "shop.<b>x"
    made = catalog.create_table(name, [("id", "INT"), (MARKUP, "STRING")], ["id"], comment=MARKUP)
    made.upsert([{"id": 1, MARKUP: MARKUP}])
    web = client(catalog)
    rows = answer(web, f"/api/tables/{name}/rows")
    assert rows["rows"] == [[1, MARKUP]]
    assert web.get(f"/api/tables/{name}").headers["content-type"] == "application/json"


@pytest.fixture
def query(catalog: pkray.Catalog) -> Iterator[Any]:
    source = catalog.create_table(
        "q.s", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    source.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    text = "SELECT v % 2 AS side, COUNT(*) AS n FROM q.s GROUP BY v % 2"
    running = catalog.sql(text).materialize("q.r")
    running.wait({"q.s": source.latest_snapshot().id}, _WAIT_SECONDS)
    yield running
    running.drop()


def test_a_query_is_a_graph_of_operators(catalog, query):
    graph = answer(client(catalog), f"/api/queries/{query.name}")["graph"]
    numbers = {each["id"] for each in graph["nodes"]}
    assert {end for edge in graph["edges"] for end in edge} == numbers
    kinds = {each["type"] for each in graph["nodes"]}
    assert {"scan", "aggregate", "sink"} <= kinds
    (held,) = [each for each in graph["nodes"] if each["type"] == "aggregate"]
    assert held["state_rows"] == 2
    assert held["state_bytes"] > 0


def test_a_query_says_of_which_sql_it_was_made_without_secrets(catalog, table, monkeypatch):
    options = property(lambda _: hide({"secret_access_key": "s3cr3t-value"}))
    monkeypatch.setattr(pkray.Catalog, "storage_options", options)
    text = "SELECT id, 's3cr3t-value' AS name FROM shop.orders -- as it was written"
    made = catalog.sql(text).materialize("shop.names")
    found = client(catalog).get("/api/queries/shop.names").json()["sql"]
    made.drop()
    assert found == text.replace("s3cr3t-value", "***")


def test_a_query_that_was_made_by_methods_has_no_sql(catalog, table):
    made = table.relation().filter("id > 3").materialize("shop.later")
    found = client(catalog).get("/api/queries/shop.later").json()
    made.drop()
    assert found["sql"] is None
    assert found["graph"]["nodes"]


def test_a_query_says_how_far_it_is(catalog, query):
    found = answer(client(catalog), f"/api/queries/{query.name}")
    assert (found["state"], found["tables"]) == ("running", ["q.r"])
    assert set(found["sources"]) == {"q.s"}
    assert set(found["delay"]) == {"waiting", "computing", "committing"}


def test_a_query_tells_of_its_epochs_after_it_was_stopped(catalog, query):
    query.stop()
    found = answer(client(catalog), f"/api/queries/{query.name}/epochs")["epochs"]
    first = found[-1]
    assert (first["snapshot"], first["rows"]) == (1, 2)
    assert "q.s" in first["sources"]


def test_what_an_operator_remembers_is_shown(catalog, query):
    query.stop()
    web = client(catalog)
    nodes = answer(web, f"/api/queries/{query.name}")["graph"]["nodes"]
    (node,) = [each["id"] for each in nodes if each["type"] == "aggregate"]
    assert len(answer(web, f"/api/queries/{query.name}/state/{node}")["rows"]) == 2
    refused(web, f"/api/queries/{query.name}/state/99", 404)


def test_rows_that_a_query_left_out_are_shown(catalog, query):
    text = "SELECT k, 6 / (v - 1) AS w FROM q.s"
    skipping = catalog.sql(text).materialize("q.w", on_error="skip")
    skipping.wait({"q.s": catalog.load_table("q.s").latest_snapshot().id}, _WAIT_SECONDS)
    skipping.stop()
    found = answer(client(catalog), f"/api/queries/{skipping.name}/left-out")
    skipping.drop()
    assert found["late"]["rows"] == []
    columns = [each["name"] for each in found["errors"]["columns"]]
    (kept,) = [dict(zip(columns, row, strict=True)) for row in found["errors"]["rows"]]
    assert kept["row"] == '{"k": 1, "v": 1}'
    assert "zero" in kept["error"]


def test_a_result_is_verified(catalog, query):
    found = client(catalog).post(f"/api/queries/{query.name}/verify").json()
    assert (found["equal"], found["missing"]["rows"]) == (True, [])
    assert "equal at snapshot" in found["said"]


def test_a_newer_statement_is_compared_before_it_takes_over(catalog, query):
    text = "SELECT v % 2 AS side, COUNT(*) AS n FROM q.s WHERE v > 0 GROUP BY v % 2"
    found = client(catalog).post(f"/api/queries/{query.name}/diff", json={"text": text}).json()
    assert {each["fate"] for each in found["nodes"]} == {"warmed up", "dropped"}


@pytest.mark.parametrize(
    "text", ["DROP TABLE q.s", "INSERT INTO q.s VALUES (1, 1)", "SET 'a' = 'b'"]
)
def test_what_is_no_select_is_not_compared(catalog, query, text):
    found = client(catalog).post(f"/api/queries/{query.name}/diff", json={"text": text})
    assert found.status_code == 400
    assert "one SELECT" in found.json()["error"]


def test_an_upgrade_is_asked_for_where_that_is_allowed(catalog, query):
    text = {"text": "SELECT v % 2 AS side, COUNT(*) AS n FROM q.s WHERE v > 1 GROUP BY v % 2"}
    path = f"/api/change/query/{query.name}/upgrade"
    assert client(catalog).post(path, json=text).status_code == 404
    web = client(catalog, allow_changes=True)
    assert web.post(path, json=text).status_code == 200
    assert answer(web, f"/api/queries/{query.name}")["upgrade"] is not None
    assert web.post(f"/api/change/query/{query.name}/rollback").status_code == 200


def sql(web: TestClient, text: str, **given: Any) -> Any:
    return web.post("/api/sql", json={"text": text, **given})


def test_the_path_of_an_address_for_failures_is_not_shown(catalog, table):
    catalog.sql("SET 'query.failure-url' = 'https://hooks.example:8443/services/s3cret'")
    made = catalog.sql("SELECT name FROM shop.orders").materialize("shop.names")
    found = client(catalog).get("/api/queries/shop.names")
    made.drop()
    assert "s3cret" not in found.text
    assert found.json()["options"]["failure_url"] == "https://hooks.example/…"


def test_a_statement_is_answered_with_its_columns(web):
    found = sql(web, "SELECT id, name FROM shop.orders WHERE id < 2 ORDER BY id").json()
    assert [each["name"] for each in found["columns"]] == ["id", "name"]
    assert (found["rows"], found["cut"]) == ([[0, "n0"], [1, "n1"]], False)


@pytest.mark.parametrize(
    "text", ["SHOW TABLES IN shop", "DESCRIBE shop.orders", "EXPLAIN SELECT 1"]
)
def test_a_statement_that_lists_is_answered(web, text):
    assert sql(web, text).json()["rows"]


def test_a_plan_is_a_graph(web):
    text = "SELECT name, COUNT(*) AS n FROM shop.orders GROUP BY name"
    found = web.post("/api/explain", json={"text": text}).json()
    numbers = {each["id"] for each in found["nodes"]}
    assert {end for edge in found["edges"] for end in edge} == numbers
    assert "Aggregate" in {each["type"] for each in found["nodes"]}


@pytest.mark.parametrize("text", ["DELETE FROM shop.orders", "SHOW TABLES"])
def test_what_is_no_select_has_no_plan(web, text):
    found = web.post("/api/explain", json={"text": text})
    assert found.status_code == 400
    assert "one SELECT" in found.json()["error"]


def test_a_statement_that_changes_is_refused_and_changes_nothing(web, table):
    found = sql(web, "DELETE FROM shop.orders")
    assert found.status_code == 400
    assert "pkray sql" in found.json()["error"]
    assert table.to_arrow().num_rows == 20


def test_a_statement_that_is_not_understood_says_where(web):
    found = sql(web, "SELECT nothing FROM shop.orders")
    assert found.status_code == 400
    assert "line 1" in found.json()["error"]


def test_more_rows_than_may_be_are_left_out(catalog, table):
    found = sql(client(catalog, limits=Limits(rows=5)), "SELECT * FROM shop.orders").json()
    assert (len(found["rows"]), found["cut"]) == (5, True)


def test_more_bytes_than_may_be_are_left_out(catalog, table):
    web = client(catalog, limits=Limits(bytes=10))
    assert sql(web, "SELECT * FROM shop.orders").json()["cut"]


def test_a_statement_that_takes_too_long_is_ended(catalog, table):
    web = client(catalog, limits=Limits(seconds=0.2))
    text = "SELECT COUNT(*) FROM " + ", ".join(f"shop.orders AS t{each}" for each in range(8))
    found = sql(web, text)
    assert found.status_code == 400
    assert "takes more than 0.2 s" in found.json()["error"]


@pytest.mark.parametrize("body", ["", "[]", '{"text": 1}', '{"text": "SELECT 1", "x": 1}', "\xff"])
def test_a_body_that_is_no_statement_is_refused(web, body):
    assert web.post("/api/sql", content=body.encode("latin-1")).status_code == 400


def test_the_cluster_says_what_memory_the_process_takes(web):
    found = answer(web, "/api/cluster")
    assert (found["kind"], found["dashboard"]) == ("embedded", None)
    assert found["memory"]["embedded"]["process"] > 1 << 20


def test_nothing_is_changed_where_that_is_not_allowed(web):
    assert answer(web, "/api/access") == {"changes": []}
    assert web.post("/api/change/table/shop.orders/compact").status_code == 404


def test_where_it_is_a_table_is_compacted(catalog, table):
    table.upsert([{"id": 1, "name": "again"}])
    web = client(catalog, allow_changes=True)
    assert web.post("/api/change/table/shop.orders/compact").status_code == 200
    assert ["table", "compact"] in answer(web, "/api/access")["changes"]


def test_where_it_is_a_query_is_stopped_and_resumed(catalog, query):
    web = client(catalog, allow_changes=True)
    assert web.post(f"/api/change/query/{query.name}/stop").json() == {"done": "stopped"}
    assert query.status()["state"] == "stopped"
    assert web.post(f"/api/change/query/{query.name}/resume").json() == {"done": "resumed"}


def changed(catalog: pkray.Catalog, path: str, **asked: Any) -> Any:
    return client(catalog, allow_changes=True).post(f"/api/change/{path}", json=asked)


def test_a_tag_is_made_and_deleted(catalog, table):
    table.upsert([{"id": 1, "name": "again"}])
    done = changed(catalog, "table/shop.orders/create-tag", tag="v1", snapshot=1).json()
    assert done == {"done": "tag v1 names snapshot 1"}
    assert table.tags.get("v1").snapshot.id == 1
    assert changed(catalog, "table/shop.orders/delete-tag", tag="v1").status_code == 200
    assert table.tags.list().num_rows == 0


def test_a_table_is_rolled_back_to_a_snapshot_or_a_tag(catalog, table):
    table.tags.create("v1")
    for each in ({"snapshot": 1}, {"tag": "v1"}):
        table.upsert([{"id": 100, "name": "later"}])
        done = changed(catalog, "table/shop.orders/rollback", **each).json()
        assert done == {"done": "snapshot 1 is the newest again"}
        assert table.to_arrow().num_rows == 20


def test_a_table_that_a_query_reads_is_not_rolled_back(catalog, query):
    catalog.load_table("q.s").upsert([{"k": 3, "v": 3}])
    found = changed(catalog, "table/q.s/rollback", snapshot=1)
    assert found.status_code == 400
    assert query.name in found.json()["error"]


def test_a_savepoint_is_made_gone_back_to_and_deleted(catalog, query):
    path = f"query/{query.name}"
    assert changed(catalog, f"{path}/make-savepoint", savepoint="s1").status_code == 200
    source = catalog.load_table("q.s")
    source.upsert([{"k": 3, "v": 3}])
    query.wait({"q.s": source.latest_snapshot().id}, _WAIT_SECONDS)
    done = changed(catalog, f"{path}/resume", savepoint="s1").json()
    assert done == {"done": "resumed from savepoint s1"}
    assert changed(catalog, f"{path}/delete-savepoint", savepoint="s1").status_code == 200
    assert catalog.query(query.name).savepoints() == []


def test_a_select_is_kept_running_under_a_name(catalog, table):
    text = "SELECT name, COUNT(*) AS n FROM shop.orders GROUP BY name"
    assert changed(catalog, "query/shop.names/begin", text=text).json() == {"done": "it runs"}
    begun = catalog.query("shop.names")
    begun.wait({"shop.orders": table.latest_snapshot().id}, _WAIT_SECONDS)
    assert catalog.load_table("shop.names").to_arrow().num_rows == 20
    begun.drop()


def test_no_other_statement_is_kept_running(catalog, table):
    found = changed(catalog, "query/shop.x/begin", text="INSERT INTO shop.orders VALUES (1, 'x')")
    assert found.status_code == 400
    assert "one SELECT" in found.json()["error"]
    assert catalog.queries() == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("table/shop.orders/delete-tag", 404),
        ("table/shop.orders/rollback", 404),
        ("table/shop.nothing/create-tag", 404),
        ("query/nothing/resume", 400),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(catalog, table, path, status):
    assert changed(catalog, path, tag="nothing").status_code == status


@pytest.mark.parametrize("asked", [{}, {"tag": 1}, {"tag": "v1", "force": True}])
def test_a_change_takes_what_it_says_and_nothing_else(catalog, table, asked):
    found = changed(catalog, "table/shop.orders/create-tag", **asked)
    assert found.status_code == 400
    assert "not what the change takes" in found.json()["error"]
    assert table.tags.list().num_rows == 0


def test_a_change_that_there_is_none_of_is_not_found(catalog, table):
    web = client(catalog, allow_changes=True)
    assert web.post("/api/change/table/shop.orders/drop").status_code == 404


def test_what_changes_is_not_done_by_a_link(catalog, table):
    web = client(catalog, allow_changes=True)
    assert web.get("/api/change/table/shop.orders/compact").status_code == 405


def test_an_error_shows_no_secret(web, monkeypatch):
    options = property(lambda _: hide({"secret_access_key": "s3cr3t-value"}))
    monkeypatch.setattr(pkray.Catalog, "storage_options", options)
    said = refused(web, "/api/tables/shop.orders/lookup", 400, id="s3cr3t-value")
    assert "is no int64" in said
    assert "s3cr3t-value" not in said


FILES = sorted(path for path in CONSOLE.rglob("*") if path.is_file())
OWN = [path for path in FILES if path.parent == CONSOLE]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_of_the_console_is_served(web, path):
    found = web.get(f"/console/{path.relative_to(CONSOLE)}")
    assert found.content == path.read_bytes()


def test_no_other_file_is_served(web):
    for path in ("/console/../guard.py", "/console/%2e%2e/guard.py", "/console//etc/passwd"):
        assert web.get(path).status_code == 404


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_files_make_no_markup_of_values_and_load_nothing_from_elsewhere(path):
    text = path.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "dangerously", "document.write"):
        assert word not in text
    assert not re.search(r"\beval\(|new Function|javascript:", text)
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_the_page_has_no_script_or_style_within():
    page = (CONSOLE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", page)


@pytest.mark.parametrize(
    "path", [each for each in OWN if each.suffix == ".js"], ids=lambda p: p.name
)
def test_modules_import_what_is_there(path):
    for name in re.findall(r'from "(\./[^"]+)"', path.read_text()):
        assert (CONSOLE / name).is_file()


def test_vendored_files_are_those_that_their_list_says():
    rows = re.findall(
        r"^\| ([\w.-]+) \|.*\| (\w{64}) \|$", (CONSOLE / "vendor/README.md").read_text(), re.M
    )
    sums = {
        name: hashlib.sha256((CONSOLE / "vendor" / name).read_bytes()).hexdigest()
        for name, _ in rows
    }
    assert dict(rows) == sums
    others = {path.name for path in (CONSOLE / "vendor").iterdir()} - set(sums)
    assert others == {
        "README.md",
        "dagre.LICENSE",
        "htm.LICENSE",
        "preact.LICENSE",
        "uplot.LICENSE",
    }


def test_a_token_is_read_from_a_file(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert _read_token(tmp_path / "token") == TOKEN


@pytest.mark.parametrize("content", ["", "short", "\u00fc" * 40])
def test_a_token_that_can_be_guessed_is_refused(tmp_path, content):
    (tmp_path / "token").write_text(content)
    with pytest.raises(pkray.OptionError, match="too short"):
        _read_token(tmp_path / "token")


def test_a_file_of_a_token_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(pkray.OptionError, match="cannot be read"):
        _read_token(tmp_path / "nothing")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """What `pkray serve` prints, and its process."""
    words = [sys.executable, "-m", "pkray", "serve", str(tmp_path / "w"), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip(), process
    process.kill()
    process.wait(_WAIT_SECONDS)


def test_the_command_prints_an_address_that_a_browser_opens(served):
    address, _ = served
    cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with cookies.open(address, timeout=_WAIT_SECONDS) as page:
        assert b"<title>pkray</title>" in page.read()
        assert "token" not in page.url
    root = address.partition("/?")[0]
    with cookies.open(f"{root}/metrics", timeout=_WAIT_SECONDS) as metrics:
        assert b"pkray_worker_memory_bytes" in metrics.read()


def test_the_command_logs_no_token(served):
    address, process = served
    urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(
        address, timeout=_WAIT_SECONDS
    ).close()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{address}x", timeout=_WAIT_SECONDS)
    os.kill(process.pid, signal.SIGTERM)
    said = "".join(process.communicate(timeout=_WAIT_SECONDS))
    assert address.partition("token=")[2] not in said


def test_the_command_ends_when_it_is_told(served):
    _, process = served
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    process.wait(_WAIT_SECONDS)
    assert time.monotonic() - begun < _WAIT_SECONDS


def test_an_address_that_is_taken_is_named(served, tmp_path):
    address, _ = served
    port = re.search(r":(\d+)/", address).group(1)
    words = [sys.executable, "-m", "pkray", "serve", str(tmp_path / "w"), "--port", port]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_WAIT_SECONDS)
    assert done.returncode == 1
    assert f"cannot listen at 127.0.0.1:{port}" in done.stderr
