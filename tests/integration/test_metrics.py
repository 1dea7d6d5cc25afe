"""Metrics say what was done: read by Prometheus' own client, as they are served."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import pkray
from pkray.api import metrics as metrics_module
from pkray.cli import main
from pkray.metrics.names import METRICS

_WAIT_SECONDS = 120.0


@pytest.fixture(autouse=True)
def fresh_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the warehouse at each look."""
    monkeypatch.setattr(metrics_module, "_FACTS_SECONDS", 0.0)


@pytest.fixture
def table(catalog: pkray.Catalog, request: pytest.FixtureRequest) -> pkray.Table:
    """A table that no other test of this process has counted under its name."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:60]
    return catalog.create_table(f"m.{name}", [("k", "BIGINT"), ("v", "INT")], ["k"])


def values(catalog: pkray.Catalog, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The samples of one name by their labels, as Prometheus' client reads them."""
    text = catalog.metrics().to_text()
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def value(catalog: pkray.Catalog, name: str, **labels: str) -> float | None:
    """The one sample that has these labels, whatever others it has; None where there is none."""
    found = [
        each
        for those, each in values(catalog, name).items()
        if labels.items() <= dict(those).items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def put(table: pkray.Table, *keys: int) -> None:
    table.upsert([{"k": key, "v": key} for key in keys])


def until(reached: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (found := reached()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)
    return found


def test_rows_bytes_and_files_are_those_of_the_newest_snapshot(catalog, table):
    put(table, 1, 2)
    put(table, 3)
    of_table = {"table": table.name}
    assert value(catalog, "pkray_table_rows", **of_table) == 3
    files = table.files()
    assert value(catalog, "pkray_table_files", **of_table) == files.num_rows
    sizes = sum(files.column("file_size_in_bytes").to_pylist())
    assert value(catalog, "pkray_table_bytes", **of_table) == sizes


def test_files_of_level_0_are_those_of_the_fullest_bucket(catalog, table):
    options = {"bucket": "2", "write-only": "true"}
    two = catalog.create_table("m.two_buckets", table.arrow_schema, ["k"], options=options)
    put(two, *range(100))
    put(two, 1)
    put(two, 1)
    most = max(two.files().column("bucket").to_pylist().count(each) for each in (0, 1))
    assert value(catalog, "pkray_table_level0_files", table=two.name) == most == 3
    backlog = value(catalog, "pkray_table_compaction_backlog_bytes", table=two.name)
    assert backlog == sum(two.files().column("file_size_in_bytes").to_pylist())


def test_what_is_compacted_is_no_backlog(catalog, table):
    put(table, 1)
    table.compact(full=True)
    assert value(catalog, "pkray_table_level0_files", table=table.name) == 0
    assert value(catalog, "pkray_table_compaction_backlog_bytes", table=table.name) == 0


def test_a_table_without_snapshots_has_no_facts(catalog, table):
    assert value(catalog, "pkray_table_rows", table=table.name) is None


def test_the_age_is_that_of_the_newest_snapshot(catalog, table):
    begun = time.time()
    put(table, 1)
    age = value(catalog, "pkray_table_snapshot_age_seconds", table=table.name)
    assert 0 <= age <= time.time() - begun + 1


def test_commits_are_counted_with_their_time(catalog, table):
    begun = time.monotonic()
    put(table, 1)
    put(table, 2)
    took = time.monotonic() - begun
    assert value(catalog, "pkray_table_commit_seconds_count", table=table.name) == 2
    assert 0 < value(catalog, "pkray_table_commit_seconds_sum", table=table.name) <= took


def test_a_commit_that_fails_is_counted(catalog, table):
    with table.open_writer("job") as older:
        older.upsert([{"k": 1, "v": 1}])
        with table.open_writer("job") as newer:
            newer.upsert([{"k": 2, "v": 2}])
            with pytest.raises(pkray.CommitFencedError):
                older.commit(1)
            newer.commit(2)
    assert value(catalog, "pkray_table_commit_failures_total", table=table.name) == 1


def test_lookups_are_counted_with_their_keys_and_misses(catalog, table):
    put(table, 1, 2)
    table.lookup([{"k": 1}, {"k": 2}, {"k": 3}])
    table.lookup([{"k": 4}])
    of_table = {"table": table.name}
    assert value(catalog, "pkray_lookup_seconds_count", **of_table) == 2
    assert value(catalog, "pkray_lookup_keys_total", **of_table) == 4
    assert value(catalog, "pkray_lookup_misses_total", **of_table) == 2


def buckets(catalog: pkray.Catalog, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by the number of the bucket, and the level where it has one."""
    found = catalog.metrics(by_bucket=True).collected.get(name, {})
    return {labels[1 : 2 + ("level" in name)]: each for labels, each in found.items()}


@pytest.fixture
def parted(catalog):
    """A table of two buckets, each in two partitions, one of which is compacted."""
    columns, options = [("p", "INT"), ("k", "BIGINT")], {"bucket": "2", "write-only": "true"}
    made = catalog.create_table("m.parted", columns, ["p", "k"], ["p"], options=options)
    made.upsert([{"p": 1, "k": k} for k in range(50)])
    made.compact(full=True)
    made.upsert([{"p": p, "k": k} for p in (1, 2) for k in range(50)])
    return made


def test_levels_and_backlog_of_each_bucket_are_those_of_its_files(catalog, parted):
    files = parted.files().select(["bucket", "level", "file_size_in_bytes"]).to_pylist()
    levels, backlog = {}, {}
    for file in files:
        bucket, level = str(file["bucket"]), str(file["level"])
        levels[bucket, level] = levels.get((bucket, level), 0) + 1
        size = 0 if file["level"] else file["file_size_in_bytes"]
        backlog[bucket,] = backlog.get((bucket,), 0) + size
    assert {each[1] for each in levels} > {"0"}
    assert buckets(catalog, "pkray_bucket_level_files") == levels
    assert buckets(catalog, "pkray_bucket_compaction_backlog_bytes") == backlog


def test_lookups_are_counted_for_each_bucket(catalog, parted):
    parted.lookup([{"p": p, "k": k} for p in (1, 2) for k in range(40, 60)])
    keys = buckets(catalog, "pkray_bucket_lookup_keys_total")
    misses = buckets(catalog, "pkray_bucket_lookup_misses_total")
    assert (keys.keys(), sum(keys.values()), sum(misses.values())) == ({("0",), ("1",)}, 40, 20)
    assert all(0 < misses[each] < keys[each] for each in keys)


def test_series_of_buckets_are_left_out_unless_they_are_asked_for(catalog, parted):
    parted.lookup([{"p": 1, "k": 1}])
    assert "pkray_bucket_" not in catalog.metrics().to_text()
    names = {each for each in METRICS if each.startswith("pkray_bucket_")}
    assert names <= catalog.metrics(by_bucket=True).collected.keys()


def test_keys_of_no_bucket_are_misses(catalog):
    columns, options = [("k", "BIGINT"), ("v", "INT")], {"bucket": "-1"}
    table = catalog.create_table("m.dynamic", columns, ["k"], options=options)
    put(table, 1)
    table.lookup([{"k": 1}, {"k": 77}])
    assert value(catalog, "pkray_lookup_keys_total", table=table.name) == 2
    assert value(catalog, "pkray_lookup_misses_total", table=table.name) == 1


def test_compactions_are_counted_by_their_outcome(catalog, table):
    put(table, 1)
    put(table, 2)
    table.compact(full=True)
    done = {"table": table.name, "outcome": "committed"}
    assert value(catalog, "pkray_table_compactions_total", **done) == 1


def test_what_an_owner_counted_stays_when_it_ends(catalog, table):
    put(table, 1)
    put(table, 2)
    table.compact(full=True)
    table.runtime.stop(table.location)
    done = {"table": table.name, "outcome": "committed"}
    assert value(catalog, "pkray_table_compactions_total", **done) == 1
    assert value(catalog, "pkray_table_compactions_running", table=table.name) is None


def test_a_consumer_lags_by_what_it_has_not_read(catalog, table):
    put(table, 1)
    table.consumers.reset("reader", 1)
    put(table, 2)
    put(table, 3)
    lag = value(catalog, "pkray_table_consumer_lag_snapshots", table=table.name, consumer="reader")
    assert lag == table.latest_snapshot().id


def test_tables_of_one_name_in_two_warehouses_are_apart(catalog, table, tmp_path):
    with pkray.connect(tmp_path / "other") as other:
        twin = other.create_table(table.name, table.arrow_schema, ["k"])
        put(table, 1, 2)
        put(twin, 1)
        put(twin, 2)
        twin.lookup([{"k": 1}])
        commits = "pkray_table_commit_seconds_count"
        assert value(catalog, commits, table=table.name) == 1
        assert value(other, commits, table=table.name) == 2
        assert value(catalog, "pkray_lookup_seconds_count", table=table.name) is None
        assert value(other, "pkray_lookup_seconds_count", table=table.name) == 1


def test_series_of_a_dropped_table_end(catalog, table):
    put(table, 1)
    table.lookup([{"k": 1}])
    catalog.drop_table(table.name)
    assert table.name not in catalog.metrics().to_text()


def test_a_table_of_the_same_name_begins_anew(catalog, table):
    put(table, 1, 2, 3)
    assert value(catalog, "pkray_table_rows", table=table.name) == 3
    schema = table.arrow_schema
    catalog.drop_table(table.name)
    put(catalog.create_table(table.name, schema, ["k"]), 1)
    assert value(catalog, "pkray_table_rows", table=table.name) == 1


def test_a_damaged_table_leaves_the_others_there(catalog, table, tmp_path: Path):
    put(table, 1)
    broken = catalog.create_table("m.broken", table.arrow_schema, ["k"])
    put(broken, 1)
    for path in (tmp_path / "m.db" / "broken" / "snapshot").glob("snapshot-*"):
        path.write_text("{")
    assert value(catalog, "pkray_table_rows", table=table.name) == 1
    assert value(catalog, "pkray_table_rows", table="m.broken") is None


def test_requests_to_a_store_are_counted_by_what_they_do(catalog):
    def counted(**labels: str) -> float:
        return value(catalog, "pkray_store_requests_total", **labels) or 0.0

    with pkray.connect("memory://metrics") as remote:
        before = counted(operation="create", outcome="ok")
        timed = value(catalog, "pkray_store_request_seconds_count", operation="create") or 0.0
        remote.create_table("m.t", [("k", "BIGINT")], ["k"])
        assert counted(operation="create", outcome="ok") > before
        after = value(catalog, "pkray_store_request_seconds_count", operation="create")
        assert after > timed


def test_this_process_says_what_memory_it_takes_and_for_what(catalog, table):
    with table.open_writer() as writer:
        writer.upsert([{"k": key, "v": 1} for key in range(1000)])
        assert value(catalog, "pkray_worker_memory_bytes", use="rows") > 0
        assert value(catalog, "pkray_worker_memory_bytes", use="process") > 1 << 20


def test_kept_series_are_those_of_this_process(catalog, table):
    put(table, 1)
    text = catalog.metrics().to_text()
    workers = {
        sample.labels.get("worker")
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert workers == {None, "embedded"}


@pytest.fixture
def query(catalog: pkray.Catalog) -> Iterator[Any]:
    source = catalog.create_table(
        "m.s", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    put(source, 1, 2, 3)
    text = "SELECT v % 2 AS side, COUNT(*) AS n FROM m.s GROUP BY v % 2"
    running = catalog.sql(text).materialize("m.r")
    running.wait({"m.s": source.latest_snapshot().id}, _WAIT_SECONDS)
    yield running
    with contextlib.suppress(pkray.QueryNotFoundError):
        running.drop()


def test_a_query_that_runs_says_so(catalog, query):
    assert value(catalog, "pkray_query_running", query=query.name) == 1
    query.stop(_WAIT_SECONDS)
    assert value(catalog, "pkray_query_running", query=query.name) == 0
    assert value(catalog, "pkray_query_failed", query=query.name) == 0


def test_a_query_has_epochs_and_their_time(catalog, query):
    epochs = value(catalog, "pkray_query_epochs_total", query=query.name)
    assert epochs == query.status()["epoch"] + 1 > 0
    assert value(catalog, "pkray_query_epoch_seconds_count", query=query.name) >= 1


def test_a_query_that_has_read_everything_is_fresh(catalog, query):
    def behind() -> dict[str, float | None]:
        return {
            name: value(catalog, f"pkray_query_{name}", query=query.name)
            for name in ("freshness_seconds", "lag_snapshots")
        }

    until(lambda: behind() == {"freshness_seconds": 0, "lag_snapshots": 0})


def test_a_query_that_does_not_run_says_nothing_of_its_freshness(catalog, query):
    query.stop(_WAIT_SECONDS)
    assert value(catalog, "pkray_query_freshness_seconds", query=query.name) is None


def test_operators_with_state_say_how_large_it_is(catalog, query):
    rows = values(catalog, "pkray_query_state_rows")
    found = {dict(labels)["operator"]: each for labels, each in rows.items()}
    held = [node for node in query.status()["nodes"] if node["state_rows"]]
    assert found == {
        f"{node['id']} {node['type']}": sum(node["state_rows"].values()) for node in held
    }
    assert sum(found.values()) >= 2
    assert values(catalog, "pkray_query_state_bytes").keys() == rows.keys()


def test_operators_say_what_share_of_the_time_they_work(catalog, query):
    def shares() -> list[float]:
        found = values(catalog, "pkray_query_operator_busy_ratio")
        return [each for labels, each in found.items() if dict(labels)["query"] == query.name]

    found = until(shares)
    assert len(found) == len(query.status()["nodes"])
    assert all(0 <= each <= 1 for each in found)


def test_series_of_a_dropped_query_end(catalog, query):
    name = query.name
    query.drop()
    labels = [each for metric in METRICS for each in values(catalog, metric)]
    assert not [each for each in labels if dict(each).get("query") == name]


def test_a_query_that_failed_says_so(catalog):
    source = catalog.create_table(
        "m.f", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    source.upsert([{"k": 1, "v": 0}])
    failing = catalog.sql("SELECT k, 10 / v AS x FROM m.f", dialect="flink").materialize("m.failed")
    with pytest.raises(pkray.PkrayError):
        failing.wait({"m.f": source.latest_snapshot().id}, _WAIT_SECONDS)
    assert value(catalog, "pkray_query_failed", query=failing.name) == 1
    failing.drop()


def test_facts_are_read_once_for_all_who_ask_at_a_time(catalog, table, monkeypatch):
    monkeypatch.setattr(metrics_module, "_FACTS_SECONDS", 3600.0)
    put(table, 1)
    assert value(catalog, "pkray_table_rows", table=table.name) == 1
    put(table, 2)
    assert value(catalog, "pkray_table_rows", table=table.name) == 1
    assert value(catalog, "pkray_table_commit_seconds_count", table=table.name) == 2


def test_metrics_may_be_asked_for_side_by_side(catalog, table):
    put(table, 1)
    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(value, catalog, "pkray_table_rows", table=table.name) for _ in range(4)
        ]
        assert [each.result(_WAIT_SECONDS) for each in found] == [1, 1, 1, 1]


def test_a_table_of_arrow_has_a_row_a_series(catalog, table):
    put(table, 1)
    measured = catalog.metrics()
    rows = measured.to_arrow()
    assert rows.num_rows == len(measured.to_records())
    assert ("table", table.name) in [pair for each in rows["labels"].to_pylist() for pair in each]


def test_a_notebook_shows_names_as_text(catalog):
    catalog.create_table("m.<b>", [("k", "INT")], ["k"]).upsert([{"k": 1}])
    shown = catalog.metrics()._repr_html_()
    assert "m.&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_the_command_prints_what_prometheus_reads(catalog, table, tmp_path, capsys):
    put(table, 1)
    with pytest.raises(SystemExit) as ended:
        main(["metrics", str(tmp_path)])
    assert ended.value.code == 0
    families = text_string_to_metric_families(capsys.readouterr().out)
    rows = {
        s.labels["table"]: s.value
        for f in families
        for s in f.samples
        if s.name == "pkray_table_rows"
    }
    assert rows == {table.name: 1}


def test_the_command_prints_those_of_buckets_where_it_is_asked(catalog, table, tmp_path, capsys):
    put(table, 1)
    with pytest.raises(SystemExit):
        main(["metrics", str(tmp_path), "--by-bucket"])
    files = 'pkray_bucket_level_files{table="' + table.name + '",bucket="0",level='
    assert files in capsys.readouterr().out


def test_the_command_prints_a_line_each_series_as_json(catalog, table, tmp_path, capsys):
    put(table, 1)
    with pytest.raises(SystemExit):
        main(["metrics", "-w", str(tmp_path), "--json"])
    records = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    (rows,) = [each for each in records if each["name"] == "pkray_table_rows"]
    assert (rows["labels"], rows["value"], rows["unit"]) == ({"table": table.name}, 1, "rows")
