"""A writer's arguments, and what becomes of one that was closed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import pkray
from pkray.errors import OptionError, WriterClosedError


@pytest.fixture
def table(tmp_path) -> Iterator[pkray.Table]:
    with pkray.connect(tmp_path) as catalog:
        yield catalog.create_table("db.t", [("id", "BIGINT"), ("v", "INT")], ["id"])


ROWS = [{"id": 1, "v": 1}]


@pytest.mark.parametrize(
    "said",
    [
        {"commit_identifier": "7"},
        {"commit_identifier": 1.0},
        {"commit_identifier": True},
        {"commit_identifier": -1},
        {"commit_identifier": 2**63},
        {"watermark": "2024-01-01"},
        {"watermark": datetime(2024, 1, 1)},
        {"watermark": 2**63},
    ],
)
def test_a_commit_that_no_snapshot_could_hold_is_refused(table, said: dict[str, Any]):
    """Published, it would make the table unreadable."""
    with table.open_writer("job") as writer:
        writer.upsert(ROWS)
        with pytest.raises(OptionError, match="cannot be"):
            writer.commit(**said)
        assert writer.commit(1, watermark=-5).watermark == -5
    assert table.to_arrow().to_pylist() == ROWS


def test_numbers_of_numpy_name_a_commit(table):
    with table.open_writer("job") as writer:
        writer.upsert(ROWS)
        assert writer.commit(np.int64(4), watermark=np.int32(9)).commit_identifier == 4
    assert table.latest_snapshot().watermark == 9


@pytest.mark.parametrize("use", ["upsert", "delete", "write", "commit"])
def test_a_closed_writer_takes_nothing(table, use):
    with table.open_writer("job") as writer:
        writer.upsert(ROWS)
    writer.close()
    with pytest.raises(WriterClosedError, match="'job' is closed: open another"):
        getattr(writer, use)(*([] if use == "commit" else [ROWS]))
    assert table.lookup([{"id": 1}]).num_rows == 0


def test_a_commit_of_no_rows_names_the_commit(table):
    with table.open_writer("job") as writer:
        writer.upsert([])
        writer.delete([])
        writer.commit(1)
        writer.upsert(ROWS)
        writer.commit(2)
    assert table.to_arrow().to_pylist() == ROWS


def test_a_repeated_commit_may_publish_compactions_but_no_rows(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table(
            "db.t",
            [("id", "BIGINT NOT NULL"), ("v", "STRING")],
            primary_keys=["id"],
            options={"bucket": "1", "num-sorted-run.compaction-trigger": "2"},
        )
        with table.open_writer("job") as writer:
            writer.upsert([{"id": 1, "v": "a"}])
            writer.commit(commit_identifier=1)
            for identifier in (2, 3):
                writer.delete([{"id": 2}])
                writer.commit(commit_identifier=identifier)
            before = row_commits(table)
            writer.upsert([{"id": 3, "v": "dropped"}])
            assert writer.commit(commit_identifier=3).commit_identifier == 3
        assert row_commits(table) == before
        assert table.to_arrow().to_pylist() == [{"id": 1, "v": "a"}]


def test_processes_that_commit_at_once_prepare_hardly_a_commit_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the queue is
    warehouse = tmp_path / "warehouse"
    with ExitStack() as open_catalogs, ThreadPoolExecutor(4) as threads:
        catalogs = [open_catalogs.enter_context(pkray.connect(warehouse)) for _ in range(4)]
        catalogs[0].create_table(
            "db.t", [("id", "BIGINT NOT NULL")], primary_keys=["id"], options={"bucket": "1"}
        )
        tables = [catalog.load_table("db.t") for catalog in catalogs]
        start = Barrier(4)

        def commit_often(user: int) -> int:
            with tables[user].open_writer(f"job-{user}") as writer:
                start.wait()
                for number in range(10):
                    writer.upsert([{"id": 10 * user + number}])
                    writer.commit()
            coordinator = tables[user]._service().coordinator
            return coordinator.stats().prepared_again

        # One that found the newest snapshot just before its turn came at once may be late.
        assert sum(threads.map(commit_often, range(4))) < 10
        assert tables[0].to_arrow().column("id").to_pylist() == list(range(40))


def row_commits(table: pkray.Table) -> list[dict[str, Any]]:
    """The snapshots that brought rows."""
    snapshots = table.snapshots().select(["snapshot_id", "commit_kind"]).to_pylist()
    return [each for each in snapshots if each["commit_kind"] != "COMPACT"]
