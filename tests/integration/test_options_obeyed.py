"""Options of a table that nothing else looks at, each by what it changes."""

import datetime
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.expiration.expiry import SnapshotExpirer
from tests.waiting import wait_until

PLAIN = [("k", "INT NOT NULL"), ("v", "STRING")]
BY_DAY = [("k", "INT NOT NULL"), ("day", "DATE NOT NULL")]
TOMORROW = datetime.date.today() + datetime.timedelta(1)
"""Does not expire while tests run, be it midnight."""
SOON = 120.0
NUMBERS = itertools.count()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path, runtime_options={"owners": 2}) as catalog:
        yield catalog


def create(catalog: pkray.Catalog, columns: Any = PLAIN, **options: str) -> pkray.Table:
    keys = [name for name, said in columns if "NOT NULL" in said]
    name = f"db.t{next(NUMBERS)}"
    return catalog.create_table(name, columns, keys, keys[1:], {"bucket": "1", **options})


def commit(table: pkray.Table, rows: object) -> None:
    table.upsert(rows)


@pytest.mark.parametrize(("dynamic", "left"), [("true", 2), ("false", 1)])
def test_an_overwrite_replaces_the_partitions_it_has_rows_of_or_all(catalog, dynamic, left):
    table = create(catalog, BY_DAY, **{"dynamic-partition-overwrite": dynamic})
    before = TOMORROW - datetime.timedelta(1)
    commit(table, [{"k": 1, "day": before}, {"k": 1, "day": TOMORROW}])
    table.overwrite([{"k": 2, "day": TOMORROW}])
    assert table.to_arrow().num_rows == left


def test_so_many_partitions_expire_at_once(catalog):
    options = {"partition.expiration-time": "1 d", "partition.expiration-max-num": "2"}
    table = create(catalog, BY_DAY, **options)
    days = [datetime.date(2020, 1, day) for day in (3, 1, 2)]
    commit(table, [{"k": 1, "day": day} for day in [*days, TOMORROW]])
    assert [table.expire_partitions().num_rows for _ in range(3)] == [2, 1, 0]


def test_a_full_compaction_comes_round_by_the_clock(catalog):
    table = create(catalog, **{"compaction.optimization-interval": "50 ms"})
    for key in range(2):
        commit(table, [{"k": key, "v": "a"}])
        time.sleep(0.1)
    commit(table, [{"k": 9, "v": "a"}])
    wait_until(lambda: "COMPACT" in table.snapshots()["commit_kind"].to_pylist())


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_snapshots_expire_after_a_commit_or_beside_it(catalog, mode, monkeypatch):
    options = {
        "snapshot.num-retained.max": "2",
        "snapshot.num-retained.min": "1",
        "snapshot.expire.execution-mode": mode,
    }
    table = create(catalog, **options)
    threads = set()
    plain = SnapshotExpirer.expire

    def noted(*args, **kwargs):
        threads.add(threading.current_thread().name.startswith("pkray-expiry"))
        return plain(*args, **kwargs)

    monkeypatch.setattr(SnapshotExpirer, "expire", noted)
    for key in range(4):
        commit(table, [{"k": key, "v": "a"}])
    wait_until(lambda: table.snapshots().num_rows == 2)
    assert threads == {mode == "async"}


def test_the_zstd_level_is_the_writers(catalog):
    texts = [f"{k * k % 30_011:x} and {k % 97} more" for k in range(30_000)]
    rows = pa.table({"k": pa.array(range(30_000), pa.int32()), "v": texts})
    sizes = []
    for level in ("1", "15"):
        options = {"file.compression": "zstd", "file.compression.zstd-level": level}
        table = create(catalog, **options)
        commit(table, rows)
        sizes += table.files()["file_size_in_bytes"].to_pylist()
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("key", ["initial-buckets", "assigner-parallelism"])
def test_few_rows_of_a_dynamic_table_begin_in_so_many_buckets(catalog, key):
    rows = pa.table({"k": pa.array(range(100), pa.int32()), "v": ["a"] * 100})
    used = []
    for options in ({}, {f"dynamic-bucket.{key}": "1"}):
        table = create(catalog, bucket="-1", **options)
        commit(table, rows)
        used.append(table.system("buckets").num_rows)
    assert used == [2, 1]


def test_a_stream_looks_for_snapshots_as_often_as_the_table_says(catalog, monkeypatch):
    table = create(catalog, **{"continuous.discovery-interval": "20 ms"})
    commit(table, [{"k": 1, "v": "a"}])
    with table.stream(mode="from-snapshot", from_snapshot=1, until_snapshot=2) as stream:
        assert next(stream).num_rows == 1
        waited = []

        def wait(seconds):
            waited.append(seconds)
            commit(table, [{"k": 2, "v": "b"}])
            return False

        monkeypatch.setattr(stream, "_wait", wait)
        assert next(stream)["k"].to_pylist() == [2]
    assert waited == [0.02]
