"""Tables as Ray Datasets, and Datasets written to tables, on a cluster."""

import itertools
import os
import random
import runpy
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pkray
from pkray.errors import InputError, TableNotFoundError, TableReplacedError
from tests.integration.cdc.histories import (
    EVOLUTIONS,
    KEYS,
    TYPES,
    Change,
    Row,
    alter,
    altered,
    by_chance,
    evolving_histories,
)
from tests.integration.readers import read_with_rust
from tests.ray.conftest import served
from tests.waiting import wait_until

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


@pytest.mark.slow
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


BLOCK, KIND = "_block", "_kind"
BLOCKS = 3
Content = dict[Any, Row]
"""Rows by the number of their history and their key."""


def dying_once(folder: Path, rng: random.Random):
    """Give a function of batches which ends the processes of some tasks, each once."""
    dies = {number for number in range(BLOCKS) if rng.random() < 0.4} or {0}
    folder.mkdir(parents=True)

    def pass_on(batch: pa.Table) -> pa.Table:
        for number in set(batch[BLOCK].to_pylist()) & dies:
            marked = folder / str(number)
            if not marked.exists():
                marked.touch()
                os._exit(1)
        return batch.drop_columns(BLOCK)

    return pass_on


def by_place(rows: Iterable[Row]) -> Content:
    return {(row["history"], *(row[name] for name in KEYS)): row for row in rows}


class Modelled:
    """A table that Datasets are written to and read from, and the rows it has at each snapshot.

    Args:
        folder: for marks of what was killed.
    """

    def __init__(self, data, table: pkray.Table, folder: Path, rng: random.Random) -> None:
        self.data, self.table, self.rng = data, table, rng
        self.content: Content = {}
        self.at: dict[int, Content] = {}
        self._folders = (folder / str(number) for number in itertools.count())
        self._older: set[int] = set()

    def write(self, changes: list[tuple[str, Row]], number: int) -> None:
        """Write kinds and rows by tasks that are killed, after others that failed, or twice."""
        last = by_place({**row, KIND: kind} for kind, row in changes)
        more = [pa.field(KIND, pa.string()), pa.field(BLOCK, pa.int64())]
        schema = pa.schema([*self.table.arrow_schema, *more])
        rows = [{**row, BLOCK: place % BLOCKS} for place, row in enumerate(last.values())]
        parts = [pa.Table.from_pylist(rows[start::BLOCKS], schema) for start in range(BLOCKS)]
        dataset = self.data.from_arrow(parts)
        if self.rng.random() < 0.3:
            with pytest.raises(Exception, match="as the test says"):
                self._write(dataset, _failing(), number)
        for _ in range(self.rng.randint(1, 2)):
            written = self._write(dataset, self._dying(), number)
        self.content = self.content | by_place(row for _, row in changes)
        for key, row in last.items():
            if row[KIND] == "-D":
                del self.content[key]
        self.at[written] = self.content

    def alter(self, evolution: str) -> None:
        alter(self.table, evolution)
        self.content = {key: altered(row, evolution) for key, row in self.content.items()}
        self._older = {*self.at}
        self._evolution = evolution

    def check(self) -> None:
        """Read each snapshot, one by tasks that are killed, and the changes between two."""
        for number, content in self.at.items():
            check_rows(self.table.to_arrow(snapshot_id=number), content)
        warehouse = str(Path(self.table.location.url).parents[1])
        check_rows(read_with_rust(warehouse, self.table.name), self.content)
        first, last = sorted(self.rng.sample(sorted(self.at), 2))
        marked = pkray.ray_data.read(self.table, snapshot_id=last).map_batches(
            lambda batch: batch.append_column(BLOCK, pc.bit_wise_and(batch["id"], 1)),
            batch_format="pyarrow",
        )
        found = rows_of(marked.map_batches(self._dying(), batch_format="pyarrow"))
        check_rows(found, self.at[last])
        replayed = self._as_now(first)
        changes = rows_of(pkray.ray_data.changes(self.table, first + 1, last)).to_pylist()
        for row in sorted(changes, key=itemgetter("_snapshot_id")):
            kind = row.pop("_row_kind")
            del row["_snapshot_id"]
            [key] = by_place([row])
            replayed.pop(key, None)
            if kind != "-D":
                replayed[key] = row
        assert replayed == self._as_now(last)

    def _as_now(self, number: int) -> Content:
        content = self.at[number]
        if number not in self._older:
            return dict(content)
        return {key: altered(row, self._evolution) for key, row in content.items()}

    def _write(self, dataset, change, number: int) -> int:
        sink = pkray.ray_data.sink(
            self.table, commit_user="w", commit_identifier=number, row_kinds=KIND
        )
        dataset.map_batches(change, batch_format="pyarrow").write_datasink(sink)
        return sink.snapshot.id

    def _dying(self):
        return dying_once(next(self._folders), self.rng)


def _failing():
    def fail(batch: pa.Table) -> pa.Table:
        raise ValueError("as the test says")

    return fail


def check_rows(found: pa.Table, content: Content) -> None:
    assert by_place(found.to_pylist()) == content
    assert found.num_rows == len(content)


def changes_of(number: int, changes: list[Change]) -> Iterator[tuple[str, Row]]:
    for change in changes:
        for kind, row in (("-D", change.before), ("+I", change.after)):
            if row is not None:
                yield kind, {"history": number, **row}


@pytest.fixture
def tells_what_waits(request) -> Iterator[None]:
    """Say what Ray's processes are at shortly before the limit, which says where this one waits."""
    limit = request.node.get_closest_marker("timeout").args[0]
    timer = threading.Timer(limit - 10, tell_what_runs)
    timer.start()
    yield
    timer.cancel()


def tell_what_runs() -> None:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            title = "".join(process.cmdline()[:1])
            if title.startswith("ray::") and "IDLE" not in title:
                said = f"{process.pid} {process.status()}, {process.cpu_times().user} s: {title}"
                print(said, file=sys.stderr)


HISTORIES, STEPS = 50, 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("evolution", EVOLUTIONS)
@pytest.mark.usefixtures("tells_what_waits")
def test_histories_through_killed_tasks_become_the_model(data, catalog, tmp_path, evolution):
    """Many histories go side by side, each under a number of its own, as a Dataset takes long."""
    seed = EVOLUTIONS.index(evolution)
    rng = random.Random(seed)
    chosen = by_chance(evolving_histories(evolution=evolution), HISTORIES, seed)
    table = catalog.create_table(
        f"db.{evolution}",
        [("history", "INT NOT NULL"), *TYPES.items()],
        ["history", *KEYS],
        options={"bucket": str(rng.randint(1, 3)), "changelog-producer": "input"},
    )
    modelled = Modelled(data, table, tmp_path / "marks", rng)
    for part, name in enumerate(("before", "after")):
        if name == "after":
            modelled.alter(evolution)
        for step in range(STEPS):
            changes: list[tuple[str, Row]] = []
            for number, history in enumerate(chosen):
                all_changes = getattr(history, name).changes
                size = -(-len(all_changes) // STEPS)
                changes += changes_of(number, all_changes[step * size : (step + 1) * size])
            modelled.write(changes, STEPS * part + step)
            if rng.random() < 0.5:
                table.compact(full=rng.random() < 0.5)
    modelled.check()


@pytest.mark.slow
def test_changes_that_are_stopped_are_gone_on_with_until_the_table_is_dropped(data, catalog):
    table = catalog.create_table("db.life", SCHEMA, ["id"], options={"bucket": "2"})
    for value in range(3):
        table.upsert([{"id": key, "v": value} for key in range(100)])
    stopped, other = (pkray.ray_data.changes(table, 1, 3) for _ in range(2))
    assert len(next(iter(stopped.iter_batches(batch_size=10)))["id"]) == 10
    rest = pkray.ray_data.changes(table, 2, 3)
    side_by_side = zip_longest(rest.iter_rows(), other.iter_rows())
    found, of_other = (list(filter(None, rows)) for rows in zip(*side_by_side, strict=True))
    assert (len(found), len(of_other)) == (200, 300)
    catalog.drop_table("db.life")
    with pytest.raises(TableNotFoundError):
        rest.take_all()
    anew = catalog.create_table("db.life", SCHEMA, ["id"])
    anew.upsert([{"id": 1, "v": 1}])
    with pytest.raises(TableReplacedError):
        rest.take_all()
    assert len(pkray.ray_data.changes(anew, 1, 1).take_all()) == 1
    catalog.drop_table("db.life")


def test_a_write_in_which_the_table_is_dropped_says_so(data, catalog, tmp_path):
    table = catalog.create_table("db.life", SCHEMA, ["id"])
    begun, dropped = tmp_path / "begun", tmp_path / "dropped"

    def wait(batch: pa.Table) -> pa.Table:
        begun.touch()
        for _ in range(600):
            if dropped.exists():
                break
            time.sleep(0.1)
        return batch

    def drop() -> None:
        wait_until(begun.exists)
        catalog.drop_table("db.life")
        dropped.touch()

    rows = numbered(data, 100).map_batches(wait, batch_format="pyarrow")
    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    with pytest.raises(TableNotFoundError, match=r"db\.life"):
        rows.write_datasink(pkray.ray_data.sink(table))
    thread.join(60)


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
