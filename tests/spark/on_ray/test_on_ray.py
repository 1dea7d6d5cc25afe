"""The main job on Ray: RayDP executors push to the owners' actors."""

import resource

import psutil
import pytest

import pkray.spark
from pkray.errors import InputError
from tests.spark import tables


def test_batch_ingest_lookup_and_read_back(spark, catalog):
    table = tables.create(catalog, buckets=4)
    df = spark.range(50_000, numPartitions=4).selectExpr(
        "id % 20000 AS id", "concat('n', id % 20000) AS name", "double(id % 20000) AS amount"
    )
    pkray.spark.ingest(df, table)
    assert tables.content(table).equals(tables.spark_rows(df.distinct()).cast(tables.SCHEMA))
    found = table.lookup([{"id": 7}, {"id": -1}, {"id": 3}], visibility="committed")
    assert found.equals(tables.rows((7, "n7", 7.0), (3, "n3", 3.0)))
    back = pkray.spark.read(spark, table, filter="id < 3")
    assert (
        tables.spark_rows(back)
        .cast(tables.SCHEMA)
        .equals(tables.rows((0, "n0", 0.0), (1, "n1", 1.0), (2, "n2", 2.0)))
    )


def test_a_stream_is_committed_and_a_replay_is_skipped(spark, catalog, tmp_path):
    table = tables.create(catalog)
    folder = tables.write_files(
        tmp_path / "in", tables.rows((1, "a", 1.0)), tables.rows((1, "b", 2.0), (2, "c", 3.0))
    )
    query = tables.run_stream(spark, folder, table, tmp_path / "checkpoint")
    before = table.latest_snapshot()
    assert (before.commit_user, before.commit_identifier) == (query.id, 1)
    last = tmp_path / "checkpoint" / "commits" / "1"
    last.unlink()
    last.with_name(".1.crc").unlink(missing_ok=True)
    tables.run_stream(spark, folder, table, tmp_path / "checkpoint")
    assert table.latest_snapshot().id == before.id
    assert tables.content(table).equals(tables.rows((1, "b", 2.0), (2, "c", 3.0)))


def test_a_bad_row_on_an_executor_is_an_input_error(spark, catalog):
    table = tables.create(catalog)
    bad = spark.range(1000, numPartitions=4).selectExpr(
        "nullif(id, 777) AS id", "'b' AS name", "1.0D AS amount"
    )
    with pytest.raises(InputError, match="'id' is null"):
        pkray.spark.ingest(bad, table)
    assert table.latest_snapshot() is None


def test_a_task_that_is_run_again_counts_once(spark, catalog, tmp_path):
    """Spark runs the task again by itself; the owners hold both attempts until the commit."""
    table = tables.create(catalog)
    df = spark.range(200_000, numPartitions=2).selectExpr(
        "id", "'x' AS name", "double(id) AS amount"
    )
    pkray.spark.ingest(tables.dying_once(df, tmp_path), table)
    assert (tmp_path / "died").exists()
    assert tables.content(table).equals(tables.spark_rows(df).cast(tables.SCHEMA))
    assert table.latest_snapshot().total_record_count == 200_000


def test_keys_that_change_their_partition_are_ingested(spark, catalog, tmp_path):
    """Tasks ask one assigner where a key was; one of them is run again."""
    table = tables.create(catalog, partition_keys=["name"], options={"bucket": "-1"})
    first = spark.range(3000, numPartitions=3).selectExpr(
        "id", "concat('p', id % 3) AS name", "double(id) AS amount"
    )
    pkray.spark.ingest(first, table)
    second = spark.range(1000, 4000, numPartitions=3).selectExpr(
        "id", "concat('p', id % 4) AS name", "-double(id) AS amount"
    )
    pkray.spark.ingest(tables.dying_once(second, tmp_path), table)
    assert (tmp_path / "died").exists()
    expected = first.where("id < 1000").union(second)
    assert tables.content(table).equals(tables.spark_rows(expected).cast(tables.SCHEMA))
    found = table.lookup([{"id": 999}, {"id": 1000}, {"id": 3999}], visibility="committed")
    assert found["name"].to_pylist() == ["p0", "p0", "p3"]


def test_the_driver_holds_no_rows(spark, catalog):
    """50 MB pass by; the driver grows by less than a tenth of that."""
    table = tables.create(catalog)
    pkray.spark.ingest(spark.createDataFrame(tables.rows((-1, "first", 0.0))), table)
    df = spark.range(1_000_000, numPartitions=4).selectExpr(
        "id", "concat('abcdefghijklmnopqrstuvwx', id) AS name", "double(id) AS amount"
    )
    before = psutil.Process().memory_info().rss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pkray.spark.ingest(df, table)
    grown = max(
        psutil.Process().memory_info().rss - before,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - peak,
    )
    assert grown < 5e6
    assert table.latest_snapshot().total_record_count == 1_000_001
