"""Coordinators and owners that were stopped in the middle of a commit, and wake when others have
taken their place."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import pkray
from pkray.commit.committer import Committer
from pkray.commit.manifest_files import ManifestFiles
from pkray.metadata.snapshots import SnapshotStore
from tests.integration.readers import rows_of

MOMENTS = {
    "before manifests": (Committer, "commit"),
    "between two manifest lists": (ManifestFiles, "write_list"),
    "before the snapshot": (SnapshotStore, "create"),
}


class Stopped:
    """The first thread that calls a method stops there, until it is woken."""

    def __init__(self, monkeypatch, kind, name):
        self.here, self.woken = threading.Event(), threading.Event()
        original = getattr(kind, name)

        def stopping(*args, **kwargs):
            if not self.here.is_set():
                self.here.set()
                assert self.woken.wait(120)
            return original(*args, **kwargs)

        monkeypatch.setattr(kind, name, stopping)


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Two processes of a warehouse, each with its own owners and coordinator."""
    # For who is stopped.
    monkeypatch.setattr("pkray.service.coordinator.commit_queue._PATIENCE_SECONDS", 0.05)
    with pkray.connect(tmp_path) as first, pkray.connect(tmp_path) as second:
        options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
        first.create_table("db.keeps", [("id", "BIGINT"), ("v", "STRING")], ["id"])
        first.create_table("db.expires", [("id", "BIGINT"), ("v", "STRING")], ["id"], (), options)
        yield first, second


def appended(table) -> list[int]:
    found = table.snapshots().filter(pa.compute.field("commit_kind") == "APPEND")
    return found.filter(pa.compute.field("commit_user") == "job")["commit_identifier"].to_pylist()


def commit(table, identifier, rows):
    return table.upsert(rows, commit_user="job", commit_identifier=identifier)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["keeps", "expires"])
def test_what_it_was_committing_is_refused(processes, monkeypatch, moment, name):
    old, new = (process.load_table(f"db.{name}") for process in processes)
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}]
    stopped = Stopped(monkeypatch, *MOMENTS[moment])
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(commit, old, 1, rows)
        assert stopped.here.wait(120)
        commit(new, 1, rows)
        commit(new, 2, [{"id": 1, "v": "b"}])
        commit(new, 3, [{"id": 3, "v": "c"}])
        before = new.snapshots().to_pylist()
        stopped.woken.set()
        found = sleeping.result(60)
    assert found is None or found.commit_identifier == 1
    assert rows_of(new.to_arrow(), ["id"]) == [(1, "b"), (2, "a"), (3, "c")]
    assert new.snapshots().to_pylist() == before
    assert new.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "v": "b"}]
    commit(new, 4, [{"id": 4, "v": "d"}])
    assert rows_of(new.to_arrow(), ["id"]) == [(1, "b"), (2, "a"), (3, "c"), (4, "d")]
    if name == "keeps":
        assert appended(new) == [1, 2, 3, 4]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_replacement_finds_the_commit_that_the_woken_one_has_made(processes, monkeypatch, moment):
    """It wakes before the replacement commits: one of the two makes the snapshot."""
    old, new = (process.load_table("db.keeps") for process in processes)
    rows = [{"id": 1, "v": "a"}]
    stopped = Stopped(monkeypatch, *MOMENTS[moment])
    with ThreadPoolExecutor(1) as pool, new.open_writer("job") as writer:
        sleeping = pool.submit(commit, old, 1, rows)
        assert stopped.here.wait(120)
        writer.upsert(rows)
        stopped.woken.set()
        sleeping.result(60)
        writer.commit(1)
    assert appended(new) == [1]
    assert rows_of(new.to_arrow(), ["id"]) == [(1, "a")]
