"""What Spark writes to tables by format, with tasks that are called without Spark."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import pkray
from pkray.errors import InputError, OptionError, TableNotFoundError
from pkray.spark.sink import BatchWriter, Staged, StreamWriter
from pkray.spark.source_options import SinkOptions
from tests.effort import examples
from tests.recorded_spans import recorded, trees

COLUMNS = [("k", "INT"), ("v", "BIGINT")]
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int64())])
FRAME = StructType().add("k", IntegerType(), False).add("v", LongType())


@pytest.fixture
def table(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        yield catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": "2"})


def options(table, streaming=False, **given) -> SinkOptions:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    path = table.location.url.rsplit("/", 2)[0]
    return SinkOptions.parse({"path": path, "table": "db.t", **named}, streaming=streaming)


def batch(rows: dict[int, int]) -> pa.RecordBatch:
    return pa.record_batch([list(rows), list(rows.values())], schema=SCHEMA)


def batch_writer(table, overwrite=False, **given) -> BatchWriter:
    return BatchWriter(options(table, **given), FRAME, overwrite)


def stream_writer(table, overwrite=False, **given) -> StreamWriter:
    return StreamWriter(options(table, streaming=True, **given), FRAME, overwrite)


def attempt(writer, rows: dict[int, int]) -> Staged:
    """Run a task as another process does, with the writer that was pickled."""
    found = pickle.loads(pickle.dumps(writer)).write(iter([batch(rows)] if rows else []))
    return pickle.loads(pickle.dumps(found))


def content(table) -> dict[int, int]:
    rows = table.to_arrow()
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def staged(table) -> list[str]:
    folder = pkray.connect(table.location.url.rsplit("/", 2)[0]).store
    return [each.path for each in folder.list(".staged/", hidden=True)]


def test_a_dataframe_is_committed_at_once_and_nothing_stays_staged(table):
    writer = batch_writer(table)
    messages = [attempt(writer, {1: 1}), attempt(writer, {2: 2}), attempt(writer, {})]
    assert content(table) == {}
    writer.commit(messages)
    assert content(table) == {1: 1, 2: 2}
    assert table.latest_snapshot().id == 1
    assert staged(table) == []


def test_an_overwrite_replaces_all_rows(table):
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    writer = batch_writer(table, overwrite=True)
    writer.commit([attempt(writer, {2: 3}), attempt(writer, {2: 4, 3: 3})])
    assert content(table) == {2: 4, 3: 3}
    empty = batch_writer(table, overwrite=True)
    empty.commit([attempt(empty, {})])
    assert content(table) == {}


def test_a_job_that_is_aborted_leaves_nothing(table):
    writer = batch_writer(table)
    writer.abort([attempt(writer, {1: 1}), None])
    assert content(table) == {}
    assert staged(table) == []


def test_a_name_that_was_committed_changes_nothing(table):
    for value in (1, 2):
        writer = batch_writer(table, commit_user="job", commit_identifier="7")
        writer.commit([attempt(writer, {1: value})])
    assert content(table) == {1: 1}
    for value in (3, 4):
        writer = batch_writer(table, overwrite=True, commit_user="job", commit_identifier="8")
        writer.commit([attempt(writer, {1: value})])
    assert content(table) == {1: 3}


def test_rows_have_the_kind_that_a_column_says(table):
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    frame = StructType().add("k", IntegerType(), False).add("v", LongType())
    frame = frame.add("op", StringType())
    writer = BatchWriter(options(table, row_kind_column="op"), frame, False)
    rows = pa.record_batch([[1, 3], [1, 3], ["-D", "+I"]], names=["k", "v", "op"])
    writer.commit([writer.write(iter([rows.cast(SCHEMA.append(pa.field("op", pa.string())))]))])
    assert content(table) == {2: 2, 3: 3}


def test_columns_are_added_where_that_is_asked_for(table):
    frame = StructType().add("k", IntegerType(), False).add("w", StringType())
    rows = pa.record_batch([pa.array([1], pa.int32()), ["a"]], names=["k", "w"])
    with pytest.raises(InputError, match="'w'"):
        BatchWriter(options(table), frame, False)
    writer = BatchWriter(options(table, merge_schema="true", missing="null"), frame, False)
    writer.commit([writer.write(iter([rows]))])
    newer = pkray.connect(table.location.url.rsplit("/", 2)[0]).load_table("db.t")
    assert newer.to_arrow().to_pylist() == [{"k": 1, "v": None, "w": "a"}]


def test_what_does_not_fit_is_refused_before_tasks_run(table):
    with pytest.raises(InputError, match="'v'"):
        BatchWriter(options(table), StructType().add("k", IntegerType(), False), False)
    path = table.location.url.rsplit("/", 2)[0]
    with pytest.raises(TableNotFoundError):
        BatchWriter(
            SinkOptions.parse({"path": path, "table": "db.u"}, streaming=False), FRAME, False
        )


BAD = {
    "half of a name": ({"commit-user": "job"}, False, "give both, or neither"),
    "a number of one's own": ({"commit-identifier": "1"}, True, "leave the option out"),
    "an unknown option": ({"snapshot-id": "1"}, False, "option 'snapshot-id' is unknown"),
    "what is missing": ({"missing": "skip"}, False, "give error or null"),
    "no truth": ({"merge-schema": "yes"}, False, "give true or false"),
    "no number": ({"commit-user": "job", "commit-identifier": "x"}, False, "give a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_options_that_say_nothing_are_refused(name):
    given, streaming, said = BAD[name]
    with pytest.raises(OptionError, match=said):
        SinkOptions.parse({"path": "w", "table": "db.t", **given}, streaming=streaming)
    with pytest.raises(OptionError, match="needs the options path"):
        SinkOptions.parse({"table": "db.t"}, streaming=streaming)


def test_secrets_of_the_store_are_not_shown():
    given = {"path": "w", "table": "db.t", "storage.secret": "hidden"}
    assert "hidden" not in repr(SinkOptions.parse(given, streaming=False))


def test_a_stream_without_an_id_has_to_be_named(table):
    writer = stream_writer(table)
    with pytest.raises(OptionError, match="commit-user"):
        writer.commit([attempt(writer, {1: 1})], 0)
    assert content(table) == {}


def test_a_stream_is_known_by_the_id_that_spark_gave_it(table):
    for value in (1, 2):
        writer = stream_writer(table)
        message = attempt(writer, {1: value})
        writer.commit([Staged(message.folder, message.file, "the-id")], 0)
    assert content(table) == {1: 1}


ROWS = st.dictionaries(st.integers(0, 9), st.integers(-(2**40), 2**40), max_size=6)
BATCH = st.tuples(
    st.lists(ROWS, max_size=3), st.sampled_from(["committed", "aborted", "replayed", "answer lost"])
)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(BATCH, max_size=6), st.booleans())
def test_each_batch_of_a_stream_is_seen_once(tmp_path_factory, batches, overwrite):
    expected: dict[int, int] = {}
    with pkray.connect(tmp_path_factory.mktemp("w")) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": "2"})
        writer = stream_writer(table, overwrite, commit_user="s")
        for number, (tasks, fate) in enumerate(batches):
            for rows in tasks:  # attempts that Spark does not name
                attempt(writer, dict.fromkeys(rows, -1))
            if fate == "aborted":
                writer.abort([attempt(writer, rows) for rows in tasks], number)
            messages = [attempt(writer, rows) for rows in tasks]
            stream_writer(table, overwrite, commit_user="s").commit(messages, number)
            merged = {key: value for rows in tasks for key, value in rows.items()}
            if overwrite:
                expected = merged
            else:
                expected |= merged
            assert content(table) == expected
            if fate in ("replayed", "answer lost"):
                again = stream_writer(table, overwrite, commit_user="s")
                other = {1: 7} if merged or overwrite else {}
                again.commit([attempt(again, other) for _ in tasks], number)
                assert content(table) == expected


@pytest.mark.parametrize("make", [batch_writer, stream_writer])
def test_tasks_and_the_commit_are_below_the_write(table, make):
    with recorded() as exporter:
        stages = make(table)
        messages = [attempt(stages, {1: 10}), attempt(stages, {2: 20})]
        if make is batch_writer:
            pickle.loads(pickle.dumps(stages)).commit(messages)
        else:
            make(table, commit_user="etl").commit(messages, 0)
    tree = next(tree for tree in trees(exporter, "pkray.write") if tree)
    assert {("pkray.write", "pkray.stage"), ("pkray.write", "pkray.commit")} <= tree
    stages = [each for each in exporter.get_finished_spans() if each.name == "pkray.stage"]
    assert [dict(each.attributes) for each in stages] == [{"pkray.table": "db.t"}] * 2
