"""Datasets written to tables by tasks that are called without Ray."""

import pickle
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.data.datasource import WriteResult

import pkray
from pkray import ray_data
from pkray.errors import (
    InputError,
    OptionError,
    ServiceUnavailableError,
    TableNotFoundError,
    TableReplacedError,
)
from pkray.ray_data import TableSink
from tests.effort import examples
from tests.recorded_spans import recorded, trees

COLUMNS = [("k", "INT"), ("v", "BIGINT")]
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int64())])


@pytest.fixture
def table(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        yield catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": "2"})


def block(rows: dict[int, int]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=SCHEMA)


def attempt(sink: TableSink, task: int, blocks) -> bytes | None:
    """Run a task as another process does, with the sink that was pickled."""
    return pickle.loads(pickle.dumps(sink)).write(blocks, SimpleNamespace(task_idx=task))


def complete(sink: TableSink, returns: list) -> None:
    sink.on_write_complete(WriteResult(0, 0, returns))


def content(table) -> dict[int, int]:
    rows = table.to_arrow()
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_tasks_are_committed_together(table):
    sink = ray_data.sink(table)
    sink.on_write_start(SCHEMA)
    returns = [attempt(sink, task, [block({task: task, 9: task})]) for task in range(3)]
    assert content(table) == {}
    complete(sink, returns)
    assert content(table) == {0: 0, 1: 1, 2: 2, 9: 2}
    assert sink.snapshot.id == table.latest_snapshot().id == 1


def test_blocks_of_pandas_are_taken_too(table):
    sink = ray_data.sink(table)
    frame = pd.DataFrame({"k": pd.array([1], "int32"), "v": pd.array([2], "int64")})
    complete(sink, [attempt(sink, 0, [frame])])
    assert content(table) == {1: 2}


def test_a_column_says_the_kind_of_each_row(table):
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    sink = ray_data.sink(table, row_kinds="op")
    rows = block({1: 1, 3: 3}).append_column("op", pa.array(["-D", "+I"]))
    complete(sink, [attempt(sink, 0, [rows])])
    assert content(table) == {2: 2, 3: 3}


def test_a_name_that_was_committed_changes_nothing(table):
    for value in (1, 2):
        sink = ray_data.sink(table, commit_user="job", commit_identifier=1)
        sink.on_write_start(SCHEMA)
        complete(sink, [attempt(sink, 0, [block({1: value})])])
        assert sink.snapshot.id == 1
    assert content(table) == {1: 1}


def test_a_dataset_without_rows_commits_nothing(table):
    sink = ray_data.sink(table)
    sink.on_write_start(None)
    complete(sink, [attempt(sink, 0, []), attempt(sink, 1, [SCHEMA.empty_table()])])
    assert content(table) == {}


def test_a_failed_write_leaves_nothing(table):
    sink = ray_data.sink(table)
    attempt(sink, 0, [block({1: 1})])
    sink.on_write_failed(RuntimeError("a task"))
    assert content(table) == {}
    assert table.latest_snapshot() is None


def test_a_task_refuses_rows_that_do_not_fit(table):
    sink = ray_data.sink(table)
    sink.on_write_start(SCHEMA)
    with pytest.raises(InputError, match="'v'"):
        attempt(sink, 0, [block({1: 1}).select(["k"])])


def test_what_goes_into_the_tasks_need_not_be_what_they_write(table):
    sink = ray_data.sink(table)
    sink.on_write_start(pa.schema([("k", pa.int32()), ("dropped", pa.string())]))
    complete(sink, [attempt(sink, 0, [block({1: 1})])])
    assert content(table) == {1: 1}


def test_arguments_that_do_not_fit_are_refused(table):
    with pytest.raises(InputError, match="takes a table, and got a str"):
        ray_data.sink("db.t")
    with pytest.raises(OptionError, match="give both, or neither"):
        ray_data.sink(table, commit_user="job")


def test_a_sink_is_of_one_write(table):
    sink = ray_data.sink(table)
    sink.on_write_start(SCHEMA)
    complete(sink, [attempt(sink, 0, [block({1: 1})])])
    with pytest.raises(InputError, match="a sink is of one write"):
        sink.on_write_start(SCHEMA)


def test_a_life(tmp_path):
    """Two writes at once and one that goes on; then the table is dropped and made anew."""
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["k"])
        first, second = ray_data.sink(table), ray_data.sink(table)
        returns = [attempt(first, 0, [block({1: 1, 2: 1})]), attempt(second, 0, [block({2: 2})])]
        complete(second, returns[1:])
        complete(first, returns[:1])
        assert content(table) == {1: 1, 2: 1}
        late = ray_data.sink(table)
        returns = [attempt(late, 0, [block({3: 3})])]
        catalog.drop_table("db.t")
        with pytest.raises(ServiceUnavailableError) as failed:
            complete(late, returns)
        with pytest.raises(TableNotFoundError, match="was dropped"):  # as Ray Data asks then
            late.on_write_failed(failed.value)
        again = catalog.create_table("db.t", COLUMNS, ["k"])
        with pytest.raises(TableReplacedError, match="load it again"):
            late.on_write_failed(failed.value)
        assert again.latest_snapshot() is None
        sink = ray_data.sink(again)
        complete(sink, [attempt(sink, 0, [block({4: 4})])])
        assert content(again) == {4: 4}


ROWS = st.dictionaries(st.integers(0, 9), st.integers(-(2**40), 2**40), max_size=6)
TASK = st.tuples(
    ROWS, st.lists(st.sampled_from(["killed", "twice"]), max_size=2), st.integers(0, 2)
)
"""What a task writes, what becomes of its attempts before the one that is reported, and how many
blocks these push before they are killed."""
WRITES = st.lists(
    st.tuples(st.lists(TASK, max_size=4), st.sampled_from(["done", "failed", "repeated"])),
    max_size=5,
)


@settings(max_examples=examples(40), deadline=None)
@given(WRITES)
def test_only_reported_attempts_are_seen_whatever_becomes_of_others(tmp_path_factory, writes):
    expected: dict[int, int] = {}
    with pkray.connect(tmp_path_factory.mktemp("w")) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": "2"})
        for number, (tasks, fate) in enumerate(writes):
            sink = ray_data.sink(table, commit_user="job", commit_identifier=number + 1)
            sink.on_write_start(SCHEMA)
            if fate == "failed":
                for task, (rows, _, _) in enumerate(tasks):
                    attempt(sink, task, [block(rows)])
                sink.on_write_failed(RuntimeError("the job"))
                assert content(table) == expected
                continue
            run(sink, tasks)
            for rows, _, _ in tasks:
                expected |= rows
            assert content(table) == expected
            if fate == "repeated":
                again = ray_data.sink(table, commit_user="job", commit_identifier=number + 1)
                run(again, [({1: 7}, [], 0)])
                assert content(table) == expected


class Died(Exception):
    """A task's process ended."""


def run(sink: TableSink, tasks: list) -> None:
    """Run each task until it is done; earlier attempts push other rows, and are not reported."""
    returns = []
    for number, (rows, earlier, pushed) in enumerate(tasks):
        for each in earlier:
            wrong = [block({key: -1}) for key in range(pushed)]
            if each == "twice":
                attempt(sink, number, wrong)
            else:
                with pytest.raises(Died):
                    attempt(sink, number, dying(wrong))
        returns.append(attempt(sink, number, [block(rows)]))
    complete(sink, returns)


def dying(blocks):
    yield from blocks
    raise Died


def test_tasks_and_the_commit_are_below_the_write(table):
    with recorded() as exporter:
        sink = ray_data.sink(table)
        sink.on_write_start(SCHEMA)
        complete(sink, [attempt(sink, task, [block({task: task})]) for task in range(2)])
    (tree,) = trees(exporter, "pkray.write")
    assert {("pkray.write", "pkray.push"), ("pkray.write", "pkray.commit")} <= tree
