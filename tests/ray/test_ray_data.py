"""Tables as Ray Datasets, and Datasets written to tables, on a cluster."""

import os
import random
import runpy
import sys
from contextlib import nullcontext
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pkray
from pkray.errors import InputError
from tests.effort import examples
from tests.ray.conftest import served

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
ROWS = 5000


@pytest.fixture
def data():
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


@pytest.fixture(scope="module")
def catalog(ray_cluster, tmp_path_factory):
    """One warehouse for all tests: its processes start once."""
    with served(tmp_path_factory.mktemp("warehouse"), pool_workers=2) as catalog:
        yield catalog


@pytest.fixture
def table(catalog):
    options = {"bucket": "2", "changelog-producer": "input"}
    yield catalog.create_table("db.t", SCHEMA, ["id"], options=options)
    catalog.drop_table("db.t")


def content(table) -> dict[int, int]:
    rows = table.to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def numbered(data, rows: int):
    return data.range(rows, override_num_blocks=2).map_batches(
        lambda batch: batch.append_column("v", batch["id"]), batch_format="pyarrow"
    )


def rows_of(dataset) -> pa.Table:
    """Give all rows: one run of the Dataset, without a shuffle."""
    import ray

    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


def test_a_dataset_is_written_read_and_followed(data, table):
    from ray.data.expressions import col

    sink = pkray.ray_data.sink(table)
    numbered(data, ROWS).write_datasink(sink)
    assert content(table) == {key: key for key in range(ROWS)}
    narrow = pkray.ray_data.read(table, columns=["v", "id"]).filter(expr=col("id") >= 4990)
    found = rows_of(narrow.select_columns(["v"]))
    assert found.column_names == ["v"]
    assert sorted(found["v"].to_pylist()) == [*range(4990, ROWS)]
    assert pkray.ray_data.read(table).count() == ROWS
    changes = rows_of(pkray.ray_data.changes(table, sink.snapshot.id, sink.snapshot.id))
    assert set(changes["_row_kind"].to_pylist()) == {"+I"}
    assert sorted(changes["id"].to_pylist()) == [*range(ROWS)]


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


def dying_once(folder: Path, rng: random.Random, blocks: int):
    """Give a function of blocks which ends the processes of some tasks, each once."""
    dies = {number for number in range(blocks) if rng.random() < 0.4} or {0}
    folder.mkdir(parents=True)

    def pass_on(batch: pa.Table) -> pa.Table:
        for number in set(batch["block"].to_pylist()) & dies:
            marked = folder / str(number)
            if not marked.exists():
                marked.touch()
                os._exit(1)
        return batch.drop_columns("block")

    return pass_on


def becomes_the_model(data, catalog, folder: Path, number: int, steps: int) -> None:
    """Write and read random changes by tasks whose processes are killed."""
    rng = random.Random(number)
    options = {"bucket": str(rng.randint(1, 3)), "changelog-producer": "input"}
    table = catalog.create_table(f"db.h{number}", SCHEMA, ["id"], options=options)
    model: dict[int, int] = {}
    models = {0: model}
    for step in range(steps):
        keys = rng.sample(range(60), rng.randint(5, 40))
        rows = [
            {"id": key, "v": rng.randrange(1000), "kind": rng.choice(["+I", "+I", "-D"]),
             "block": place % 3}
            for place, key in enumerate(keys)
        ]  # fmt: skip
        changed = data.from_arrow([pa.Table.from_pylist(rows[start::3]) for start in range(3)])
        dying = dying_once(folder / f"w{number}-{step}", rng, 3)
        sink = pkray.ray_data.sink(table, row_kinds="kind")
        changed.map_batches(dying, batch_format="pyarrow").write_datasink(sink)
        model = dict(model)
        for row in rows:
            model.pop(row["id"], None)
            if row["kind"] == "+I":
                model[row["id"]] = row["v"]
        models[sink.snapshot.id] = model
        if rng.random() < 0.5:
            table.compact(full=rng.random() < 0.5)
    (first, old), (last, new) = sorted(rng.sample(sorted(models.items()), 2), key=itemgetter(0))
    dying = dying_once(folder / f"r{number}", rng, 3)
    numbered = pkray.ray_data.read(table, snapshot_id=last).map_batches(
        lambda batch: batch.append_column("block", pc.bit_wise_and(batch["id"], 1)),
        batch_format="pyarrow",
    )
    found = numbered.map_batches(dying, batch_format="pyarrow").take_all()
    assert {row["id"]: row["v"] for row in found} == new
    assert len(found) == len(new)
    replayed = dict(old)
    changes = pkray.ray_data.changes(table, first + 1, last).take_all()
    for row in sorted(changes, key=itemgetter("_snapshot_id")):
        replayed.pop(row["id"], None)
        if row["_row_kind"] != "-D":
            replayed[row["id"]] = row["v"]
    assert replayed == new


HISTORIES, TURNS = 4, 5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(TURNS))
def test_histories_through_killed_tasks_become_the_model(data, catalog, tmp_path, turn):
    for number in range(examples(HISTORIES)):
        becomes_the_model(data, catalog, tmp_path / "marks", turn + TURNS * number, steps=5)


@pytest.mark.slow
def test_the_example_runs(catalog, monkeypatch, capsys):
    monkeypatch.setattr(pkray, "connect", lambda *_, **__: nullcontext(catalog))
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
