"""Expiry, orphans, partitions and consumers from the command line."""

import os
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def warehouse(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path))
    columns = [("dt", "STRING"), ("k", "BIGINT"), ("v", "STRING")]
    options = {"bucket": "1", "partition.expiration-time": "1 d"}
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("d.t", columns, ["dt", "k"], ["dt"], options)
        for day in ("2020-01-01", "2999-01-01", "2999-01-02"):
            table.upsert([{"dt": day, "k": 1, "v": "x"}])
    return tmp_path


@pytest.fixture
def run(warehouse, command):
    def call(*words: str, code: int = 0) -> list[dict[str, Any]]:
        left, out, err = command(*words, "--json")
        assert (left, bool(err)) == (code, code != 0)
        return lines(out)

    return call


def test_expire(run):
    (foreseen,) = run("expire", "d.t", "--retain-max", "1", "--dry-run")
    (report,) = run("expire", "d.t", "--retain-max", "1")
    assert foreseen == report
    assert report["snapshots"] == 2
    assert [row["snapshot_id"] for row in run("snapshots", "d.t")] == [3]
    run("expire", "d.t", "--retain-max", "1", "--retain-min", "2", code=1)


def test_orphans(run, warehouse):
    lost = warehouse / "d.db/t/manifest/manifest-lost-0"
    lost.write_bytes(b"lost")
    assert run("orphans", "d.t") == []
    os.utime(lost, (1e9, 1e9))
    (found,) = run("orphans", "d.t", "--dry-run")
    assert (found["path"], found["size"]) == ("manifest/manifest-lost-0", 4)
    assert lost.exists()
    run("orphans", "d.t")
    assert not lost.exists()


def test_drop_partition(run):
    (dropped,) = run("drop-partition", "d.t", "dt=2999-01-01", "dt=2020-01-01")
    assert dropped["snapshot"] == 4
    assert [row["dt"] for row in run("scan", "d.t")] == ["2999-01-02"]
    run("drop-partition", "d.t", "v=x", code=1)


def test_expire_partitions(run):
    assert run("expire-partitions", "d.t") == [{"dt": "2020-01-01"}]
    assert len(run("scan", "d.t")) == 2


def test_consumers(run):
    assert run("consumers", "reset", "d.t", "job", "--next", "2") == [
        {"consumer": "job", "next_snapshot": 2}
    ]
    assert [row["next_snapshot_id"] for row in run("consumers", "list", "d.t")] == [2]
    assert run("expire", "d.t", "--retain-max", "1")[0]["snapshots"] == 1
    run("consumers", "reset", "d.t", "job", "--next", "1", code=1)
    run("consumers", "delete", "d.t", "jab", code=1)
    assert len(run("consumers", "list", "d.t")) == 1
    run("consumers", "delete", "d.t", "job")
    assert run("consumers", "list", "d.t") == []


def test_rescale(run):
    (done,) = run("rescale", "d.t", "3", "--partition", "dt=2999-01-01")
    assert done == {"buckets": 3, "partitions_rewritten": 1}
    (done,) = run("rescale", "d.t", "3")
    assert done == {"buckets": 3, "partitions_rewritten": 2}
    (described,) = run("describe", "d.t")
    assert described["options"]["bucket"] == "3"
    run("rescale", "d.t", "0", code=1)
