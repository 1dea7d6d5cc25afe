"""Streams into tables: a micro-batch is a commit, and counts once."""

import pyarrow as pa
import pytest

import pkray.spark
from pkray.errors import InputError
from tests.spark.tables import content, create, file_stream, rows, run_stream, write_files


def test_micro_batches_become_commits_of_the_query(spark, catalog, tmp_path):
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)), rows((1, "b", 2.0), (2, "c", 3.0)))
    query = run_stream(spark, folder, table, tmp_path / "checkpoint")
    assert content(table).equals(rows((1, "b", 2.0), (2, "c", 3.0)))
    commits = table.snapshots().select(["commit_user", "commit_identifier"]).to_pylist()
    appended = [tuple(row.values()) for row in commits]
    assert set(appended) == {(query.id, 0), (query.id, 1)}


def test_a_restart_goes_on_where_the_checkpoint_is(spark, catalog, tmp_path):
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)))
    first = run_stream(spark, folder, table, tmp_path / "checkpoint")
    write_files(tmp_path / "in", rows((2, "b", 2.0)))
    second = run_stream(spark, folder, table, tmp_path / "checkpoint")
    assert first.id == second.id
    assert content(table).equals(rows((1, "a", 1.0), (2, "b", 2.0)))
    assert table.latest_snapshot().commit_identifier == 1


def test_a_replayed_micro_batch_is_skipped(spark, catalog, tmp_path):
    """The driver died after the table's commit and before the checkpoint's."""
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)), rows((1, "b", 2.0)))
    run_stream(spark, folder, table, tmp_path / "checkpoint")
    before = table.latest_snapshot()
    commits = tmp_path / "checkpoint" / "commits"
    for number in (0, 1):
        (commits / str(number)).unlink()
        (commits / f".{number}.crc").unlink(missing_ok=True)
    run_stream(spark, folder, table, tmp_path / "checkpoint")
    assert table.latest_snapshot().id == before.id
    assert content(table).equals(rows((1, "b", 2.0)))


def test_a_new_checkpoint_is_a_new_commit_user(spark, catalog, tmp_path):
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)))
    first = run_stream(spark, folder, table, tmp_path / "one")
    second = run_stream(spark, folder, table, tmp_path / "two")
    assert first.id != second.id
    assert content(table).equals(rows((1, "a", 1.0)))
    assert table.latest_snapshot().commit_user == second.id


def test_row_kinds_of_a_stream(spark, catalog, tmp_path):
    table = create(catalog)
    kinds = [pa.array(["+I", "+I"]), pa.array(["-D", "+U"])]
    batches = [rows((1, "a", 1.0), (2, "b", 2.0)), rows((1, "a", 1.0), (2, "c", 3.0))]
    folder = write_files(
        tmp_path / "in", *(b.append_column("op", k) for b, k in zip(batches, kinds, strict=True))
    )
    schema = {"schema": "id BIGINT, name STRING, amount DOUBLE, op STRING"}
    run_stream(spark, folder, table, tmp_path / "c", row_kinds="op", stream=schema)
    assert content(table).equals(rows((2, "c", 3.0)))


def test_a_bad_row_ends_the_query_with_pkrays_error(spark, catalog, tmp_path):
    table = create(catalog)
    bad = rows((2, "b", 2.0), (None, "c", 3.0)).cast(
        pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
    )
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)), bad)
    query = pkray.spark.start_ingest(
        file_stream(spark, folder),
        table,
        checkpoint_location=str(tmp_path / "c"),
        trigger={"availableNow": True},
    )
    with pytest.raises(InputError, match="'id' is null"):
        query.awaitTermination()
    assert query.error.column == "id"
    assert content(table).equals(rows((1, "a", 1.0)))


def test_wrong_columns_start_no_query(spark, catalog, tmp_path):
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)))
    stream = file_stream(spark, folder).drop("amount")
    with pytest.raises(InputError, match="'amount'"):
        pkray.spark.start_ingest(stream, table, checkpoint_location=str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()
    assert spark.streams.active == []


def test_a_query_can_be_named_and_stopped(spark, catalog, tmp_path):
    table = create(catalog)
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)))
    query = pkray.spark.start_ingest(
        file_stream(spark, folder),
        table,
        checkpoint_location=str(tmp_path / "c"),
        trigger={"processingTime": "100 milliseconds"},
        query_name="orders",
    )
    query.processAllAvailable()
    assert query.name == "orders"
    query.stop()
    assert not query.isActive
    assert query.error is None
    assert content(table).equals(rows((1, "a", 1.0)))
