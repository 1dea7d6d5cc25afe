"""Tables as Ray Datasets, and Datasets written to tables, on a cluster."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray.errors import InputError

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
ROWS = 5000


@pytest.fixture
def data():
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


@pytest.fixture
def table(ray_catalog):
    options = {"bucket": "2", "changelog-producer": "input"}
    return ray_catalog.create_table("db.t", SCHEMA, ["id"], options=options)


def content(table) -> dict[int, int]:
    rows = table.to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def numbered(data, rows: int):
    return data.range(rows, override_num_blocks=4).map_batches(
        lambda batch: batch.append_column("v", batch["id"]), batch_format="pyarrow"
    )


def test_a_dataset_is_written_read_and_followed(data, table):
    sink = pkray.ray_data.sink(table)
    numbered(data, ROWS).write_datasink(sink)
    assert content(table) == {key: key for key in range(ROWS)}
    found = pkray.ray_data.read(table, columns=["v", "id"])
    assert found.sum("v") == sum(range(ROWS))
    assert found.count() == ROWS
    narrow = found.filter(expr="id >= 4990").select_columns(["v"])
    assert sorted(narrow.to_pandas()["v"]) == [*range(4990, ROWS)]
    changes = pkray.ray_data.changes(table, sink.snapshot.id, sink.snapshot.id)
    assert changes.count() == ROWS
    assert changes.unique("_row_kind") == ["+I"]


def test_a_task_that_is_killed_runs_again_and_its_rows_come_once(data, table, tmp_path):
    marked = tmp_path / "killed"

    def die_once(batch: pa.Table) -> pa.Table:
        if 0 in batch["id"].to_pylist() and not marked.exists():
            marked.touch()
            os._exit(1)
        return batch

    rows = numbered(data, 1000).map_batches(die_once, batch_format="pyarrow")
    rows.write_datasink(pkray.ray_data.sink(table))
    assert marked.exists()
    assert content(table) == {key: key for key in range(1000)}
    assert len(table.changelog()) == 1000


def test_the_example_runs(ray_cluster, monkeypatch, capsys):
    example = Path(__file__).parents[2] / "examples/ray_datasets.py"
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "Ada: 3 orders, 13.50",
        "Edsger: 3 orders, 22.50",
        "Grace: 3 orders, 18.00",
        "9 changes of orders",
    ]


def test_rows_that_do_not_fit_fail_the_write_and_leave_nothing(data, table):
    with pytest.raises(InputError, match="'v'"):
        data.range(10).write_datasink(pkray.ray_data.sink(table))
    assert content(table) == {}
