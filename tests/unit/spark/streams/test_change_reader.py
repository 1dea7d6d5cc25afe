"""Streams of tables by format, with a reader that is called as Spark calls it."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
from pkray import errors
from pkray.spark.source import TableSource
from pkray.spark.streams.change_reader import ChangeReader
from tests.effort import examples
from tests.recorded_spans import recorded, trees

COLUMNS = [("k", "INT"), ("v", "BIGINT")]
KINDS = {"row_kind_column": "op"}


def create(catalog, name="db.t", **options):
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(name, COLUMNS, ["k"], options={"bucket": "2", **named})


def put(table, rows: dict[int, int | None]) -> int:
    """Upsert rows, and delete those without a value; the snapshot's id."""
    with table.open_writer() as writer:
        writer.write(
            [{"k": k, "v": v, "op": "-D" if v is None else "+I"} for k, v in rows.items()], "op"
        )
        return writer.commit().id


def source(catalog, **options) -> TableSource:
    named = {key.replace("_", "-"): str(value) for key, value in options.items()}
    return TableSource({"path": catalog.warehouse, "table": "db.t", **named})


def reader(catalog, **options) -> ChangeReader:
    made = source(catalog, **options)
    return pickle.loads(pickle.dumps(made)).streamReader(made.schema())


class Query:
    """Calls a reader as Spark's micro-batches do, with a checkpoint."""

    def __init__(self) -> None:
        self.offsets: list[str] = []
        self.committed = 0

    def batches(self, source: ChangeReader) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of micro-batches until there is nothing new; each is committed when the
        next one is asked for."""
        if not self.offsets:
            self.offsets = [json.dumps(source.initialOffset())]
        while True:
            start = json.loads(self.offsets[self.committed])
            if self.committed + 1 == len(self.offsets):
                end = source.latestOffset(start, source.getDefaultReadLimit())
                if json.dumps(end) == json.dumps(start):
                    return
                self.offsets.append(json.dumps(end))
            end = json.loads(self.offsets[self.committed + 1])
            parts = source.partitions(start, end)
            yield [
                row
                for part in pickle.loads(pickle.dumps(parts))
                for batch in pickle.loads(pickle.dumps(source)).read(part)
                for row in batch.to_pylist()
            ]
            source.commit(end)
            self.committed += 1


def all_rows(found: Iterator[list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in found for row in batch]


def test_the_table_first_then_its_changes_with_their_kinds(catalog):
    table = create(catalog)
    put(table, {1: 1, 2: 2})
    query = Query()
    assert source(catalog, **KINDS).schema().names == ["op", "k", "v"]
    assert sorted(all_rows(query.batches(reader(catalog, **KINDS)))) == [("+I", 1, 1), ("+I", 2, 2)]
    put(table, {1: None, 3: 3})
    assert sorted(all_rows(query.batches(reader(catalog, **KINDS)))) == [
        ("+I", 3, 3),
        ("-D", 1, None),
    ]
    assert all_rows(query.batches(reader(catalog, **KINDS))) == []


def test_without_a_column_of_kinds_rows_are_upserts_and_a_deletion_ends_the_stream(catalog):
    table = create(catalog, changelog_producer="input")
    put(table, {1: 1})
    query = Query()
    assert all_rows(query.batches(reader(catalog))) == [(1, 1)]
    with table.open_writer() as writer:
        writer.write([{"k": 1, "v": 1, "op": "-U"}, {"k": 1, "v": 2, "op": "+U"}], "op")
        writer.commit()
    assert all_rows(query.batches(reader(catalog))) == [(1, 2)]
    put(table, {1: None})
    with pytest.raises(errors.UnsupportedError, match=r"snapshot 3 of db\.t deleted rows"):
        all_rows(query.batches(reader(catalog)))


@pytest.mark.parametrize("at", [{"snapshot_id": 2}, {"tag": "v2"}, {"timestamp": "of 2"}])
def test_a_stream_begins_with_the_changes_of_a_moment(catalog, at):
    table = create(catalog)
    put(table, {1: 1})
    put(table, {2: 2})
    table.tags.create("v2")
    put(table, {3: 3})
    if "timestamp" in at:
        at = {"timestamp": table.snapshots().to_pylist()[1]["commit_time"].isoformat()}
    found = all_rows(Query().batches(reader(catalog, **at, columns="v", filter="k > 0")))
    assert {(2,), (3,)} <= set(found)
    assert "timestamp" in at or (1,) not in found


def test_a_stream_whose_first_snapshot_has_expired_goes_on(catalog):
    table = create(catalog)
    put(table, {1: 1})
    query = Query()
    first = {"snapshot_id": 1}
    assert all_rows(query.batches(reader(catalog, **first))) == [(1, 1)]
    put(table, {2: 2})
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert all_rows(query.batches(reader(catalog, **first))) == [(2, 2)]
    with pytest.raises(errors.SnapshotNotFoundError):
        all_rows(Query().batches(reader(catalog, **first)))
    with pytest.raises(errors.SnapshotNotFoundError):
        made = source(catalog, **first)
        made.reader(made.schema())


def test_a_consumer_keeps_snapshots_and_moves_with_the_stream(catalog):
    table = create(catalog)
    put(table, {1: 1})
    named = {"consumer": "job"}
    assert all_rows(Query().batches(reader(catalog, **named))) == [(1, 1)]
    put(table, {2: 2})
    put(table, {3: 3})
    table.expire_snapshots(retain_max=1, retain_min=1)
    query = Query()  # one without a checkpoint goes on where the consumer was
    assert sorted(all_rows(query.batches(reader(catalog, **named)))) == [(2, 2), (3, 3)]
    assert table.consumers.list()["next_snapshot_id"].to_pylist() == [4]


def test_max_rows_limits_a_micro_batch(catalog):
    table = create(catalog)
    for number in range(6):
        put(table, {number: number})
    sizes = [
        len(rows) for rows in Query().batches(reader(catalog, max_rows=2, snapshot_id=1, **KINDS))
    ]
    assert sizes == [2, 2, 2]
    of_content = [len(rows) for rows in Query().batches(reader(catalog, max_rows=1))]
    assert len(of_content) == 2
    assert sum(of_content) == 6  # a bucket whose files are merged comes whole


def test_what_comes_after_it_began_is_left_by_a_stream_of_what_is_available_now(catalog):
    table = create(catalog)
    put(table, {1: 1})
    made = reader(catalog, max_rows=1, snapshot_id=1)
    made.prepareForTriggerAvailableNow()
    put(table, {2: 2})
    query = Query()
    assert all_rows(query.batches(made)) == [(1, 1)]
    assert all_rows(query.batches(reader(catalog))) == [(2, 2)]


@pytest.mark.parametrize("restarted", [True, False])
def test_a_table_made_anew_under_its_name_is_refused(catalog, restarted):
    table = create(catalog)
    put(table, {1: 1})
    query = Query()
    made = reader(catalog, consumer="job")
    assert all_rows(query.batches(made)) == [(1, 1)]
    catalog.drop_table("db.t")
    with pytest.raises(errors.TableNotFoundError):
        all_rows(query.batches(reader(catalog) if restarted else made))
    table = create(catalog)
    for number in range(4):
        put(table, {number: 7})
    with pytest.raises(errors.TableReplacedError, match="another one created in its place"):
        all_rows(query.batches(reader(catalog, consumer="job") if restarted else made))
    assert table.consumers.list().num_rows == 0


@pytest.mark.parametrize("restarted", [True, False])
def test_a_table_that_was_rolled_back_and_written_anew_is_refused(catalog, restarted):
    table = create(catalog)
    put(table, {1: 1})
    put(table, {2: 2})
    query = Query()
    made = reader(catalog)
    assert len(all_rows(query.batches(made))) == 2
    table.rollback_to(1)
    with pytest.raises(errors.SnapshotNotFoundError, match="rolled back to snapshot 1"):
        all_rows(query.batches(reader(catalog) if restarted else made))
    put(table, {2: 7})
    put(table, {3: 7})
    with pytest.raises(errors.SnapshotNotFoundError, match="rolled back and written anew"):
        all_rows(query.batches(reader(catalog) if restarted else made))


def test_a_checkpoint_of_before_goes_on(catalog):
    table = create(catalog)
    put(table, {1: 1})
    put(table, {2: 2})
    query = Query()
    query.offsets = [json.dumps({"next": 2, "content": 1})]
    assert sorted(all_rows(query.batches(reader(catalog)))) == [(1, 1), (2, 2)]


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a watermark": ({"watermark": 1, **KINDS}, errors.OptionError, "does not begin at a watermark"),
    "no rows": ({"max_rows": 0}, errors.OptionError, "max-rows is 0"),
    "no number": ({"max_rows": "many"}, errors.OptionError, "max-rows is 'many'"),
    "a column's name": ({"row_kind_column": "v"}, errors.OptionError, "a column of db.t"),
    "two moments": ({"snapshot_id": 1, "tag": "a"}, errors.OptionError, "give one of them"),
    "a tag that is not there": ({"tag": "a"}, errors.TagNotFoundError, "a"),
    "a column that is not there": ({"columns": "w"}, errors.InputError, "'w'"),
    "a system table": ({"table": "db.t$files", **KINDS}, errors.UnsupportedError, "system table"),
    "no table": ({"table": "db.u"}, errors.TableNotFoundError, "db.u"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_stream_is_refused(catalog, name):
    put(create(catalog), {1: 1})
    options, error, said = BAD[name]
    with pytest.raises(error, match=said):
        all_rows(Query().batches(reader(catalog, **options)))


def test_options_of_a_stream_are_refused_in_a_batch(catalog):
    create(catalog)
    made = source(catalog, consumer="job")
    with pytest.raises(errors.OptionError, match=r"'consumer' is of spark\.readStream"):
        made.reader(made.schema())


def test_a_stream_that_begins_before_a_column_was_added_has_the_columns_of_then(catalog):
    table = create(catalog)
    put(table, {1: 1})
    table.alter.add_column("w", "STRING")
    table.upsert([{"k": 2, "v": 2, "w": "a"}])
    assert all_rows(Query().batches(reader(catalog, snapshot_id=1))) == [(1, 1), (2, 2)]
    named = {"snapshot_id": 1, "columns": "k,w", "row_kind_column": "op"}
    assert all_rows(Query().batches(reader(catalog, **named))) == [("+I", 1, None), ("+I", 2, "a")]


STEP = st.one_of(
    st.dictionaries(st.integers(0, 5), st.none() | st.integers(0, 9), min_size=1, max_size=5),
    st.sampled_from(["read", "read and die", "compact", "restart"]),
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(STEP, max_size=12), st.sampled_from(["none", "input", "lookup"]), st.integers(1, 6))
def test_a_copy_by_batches_of_any_size_is_the_table(tmp_path_factory, steps, producer, max_rows):
    """Batches that are taken twice, and restarts between any two calls, lose and double nothing."""
    with pkray.connect(tmp_path_factory.mktemp("w")) as catalog:
        table = create(catalog, changelog_producer=producer)
        copy: dict[int, int] = {}
        query, expected = Query(), dict[int, int]()
        options = {"max_rows": max_rows, "consumer": "c", **KINDS}
        made = reader(catalog, **options)

        def apply(rows: list[dict[str, Any]]) -> dict[int, int]:
            new = dict(copy)
            for row in rows:
                if row["op"] in ("+I", "+U"):
                    new[row["k"]] = row["v"]
                elif row["op"] == "-D":
                    new.pop(row["k"], None)
            return new

        for step in [*steps, "compact", "read"]:
            if isinstance(step, dict):
                put(table, step)
                expected |= {k: v for k, v in step.items() if v is not None}
                expected = {k: v for k, v in expected.items() if step.get(k, v) is not None}
            elif step == "compact":
                table.compact(full=True)
            elif step == "restart":
                made = reader(catalog, **options)
            else:
                for rows in query.batches(made):
                    done = apply(rows)
                    if step == "read and die":
                        made = reader(catalog, **options)
                        break
                    copy = done
        assert copy == expected


def test_tasks_of_a_micro_batch_are_below_its_scan(catalog):
    put(create(catalog), {key: key for key in range(20)})
    stream = reader(catalog)
    begin, end = stream.initialOffset(), {"next": 2}
    with recorded() as exporter:
        for part in pickle.loads(pickle.dumps(list(stream.partitions(begin, end)))):
            list(stream.read(part))
    (tree,) = trees(exporter, "pkray.scan")
    assert {("pkray.scan", "pkray.task"), ("pkray.task", "pkray.changes")} <= tree
