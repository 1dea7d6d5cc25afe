"""The changes of snapshots as Ray Data's read tasks, called without Ray."""

import pickle

import pyarrow as pa
import pytest

import pkray
from pkray import ray_data
from pkray.errors import (
    InputError,
    OptionError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TableReplacedError,
)
from pkray.ray_data import table_source
from tests.recorded_spans import recorded, trees

PRODUCERS = ("none", "input", "lookup")


@pytest.fixture(params=PRODUCERS)
def table(request, tmp_path):
    with pkray.connect(tmp_path) as catalog:
        options = {"bucket": "3", "changelog-producer": request.param}
        table = catalog.create_table("db.t", [("k", "INT"), ("v", "INT")], ["k"], options=options)
        with table.open_writer() as writer:
            for value in range(4):
                writer.upsert([{"k": key, "v": value} for key in range(value, value + 12)])
                writer.delete([{"k": value}])
                writer.commit()
        yield table


@pytest.fixture
def planned(monkeypatch):
    """Plan the read of changes; give its tasks."""
    made = []
    data = table_source.ray.data
    monkeypatch.setattr(data, "read_datasource", lambda each, **_: made.append(each))

    def of(table, *arguments, **named):
        ray_data.changes(table, *arguments, **named)
        return pickle.loads(pickle.dumps(made[-1].get_read_tasks(2)))

    return of


@pytest.fixture
def read(table, planned):
    """Read changes as tasks do; give the rows of each task."""
    return lambda *arguments, **named: [
        pa.concat_tables(task()) for task in planned(table, *arguments, **named)
    ]


def by_key(rows: pa.Table) -> dict[int, list]:
    found: dict[int, list] = {}
    for row in rows.to_pylist():
        found.setdefault(row["k"], []).append((row["_snapshot_id"], row["_row_kind"], row["v"]))
    return found


@pytest.mark.parametrize("normalize", [False, True])
def test_changes_are_those_of_the_table_each_key_in_its_order(table, read, normalize):
    newest = table.latest_snapshot().id
    for first, last in ((1, newest), (2, 3), (newest, newest)):
        tasks = read(first, last, normalize=normalize)
        expected = by_key(table.changelog(first, last, normalize=normalize))
        assert by_key(pa.concat_tables(tasks)) == expected
        keys = [set(task["k"].to_pylist()) for task in tasks]
        assert sum(map(len, keys)) == len(set().union(*keys))


def test_a_life(table, planned):
    """One that is stopped half way is gone on with beside another, until the table is dropped."""
    newest = table.latest_snapshot().id
    stopped, other = (planned(table, 1, newest) for _ in range(2))
    begun = pa.concat_tables(next(iter(task())) for task in stopped)
    first = min(begun["_snapshot_id"].to_pylist()) + 1
    rest = planned(table, first, newest)
    both = [pa.concat_tables(part for task in tasks for part in task()) for tasks in (rest, other)]
    for found, begin in zip(both, (first, 1), strict=True):
        assert by_key(found) == by_key(table.changelog(begin, newest))
    with pkray.connect(table.location.warehouse) as catalog:
        catalog.drop_table("db.t")
        for task in rest:
            with pytest.raises(TableNotFoundError, match="was dropped"):
                list(task())
        anew = catalog.create_table("db.t", [("k", "INT")], ["k"])
        anew.upsert([{"k": 7}])
        for task in rest:
            with pytest.raises(TableReplacedError, match="load it again"):
                list(task())
        with pytest.raises(TableReplacedError, match="load it again"):
            ray_data.changes(table, 1, 1)
        found = pa.concat_tables(part for task in planned(anew, 1, 1) for part in task())
        assert found.to_pylist() == [{"_row_kind": "+I", "_snapshot_id": 1, "k": 7}]


def test_ends_are_checked_before_anything_is_read(table, read):
    with pytest.raises(OptionError):
        read(4, 2)
    with pytest.raises(SnapshotNotFoundError):
        read(1, 99)
    with pytest.raises(InputError, match="takes a table, and got a str"):
        ray_data.changes("db.t", 1, 2)


def test_tasks_are_below_the_scan_that_made_them(read):
    with recorded() as exporter:
        read(1, 2)
    (tree,) = trees(exporter, "pkray.scan")
    assert {("pkray.scan", "pkray.task"), ("pkray.task", "pkray.changes")} <= tree
