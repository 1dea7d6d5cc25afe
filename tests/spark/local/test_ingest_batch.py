"""Batch DataFrames into tables, from Spark to the committed rows."""

import pyarrow as pa
import pytest

import pkray.spark
from pkray.errors import InputError
from tests.recorded_spans import recorded
from tests.spark.tables import SCHEMA, content, create, dying_once, rows, spark_rows


def test_a_dataframe_becomes_the_tables_rows(spark, catalog):
    table = create(catalog)
    df = spark.range(20_000, numPartitions=4).selectExpr(
        "id % 5000 AS id", "'x' AS name", "double(id % 5000) AS amount"
    )
    snapshot = pkray.spark.ingest(df, table)
    assert snapshot.id == table.latest_snapshot().id
    assert content(table).equals(spark_rows(df.distinct()).cast(SCHEMA))


def test_row_kinds_delete_and_update(spark, catalog):
    table = create(catalog)
    pkray.spark.ingest(spark.createDataFrame(rows((1, "a", 1.0), (2, "b", 2.0))), table)
    changes = rows((1, "a", 1.0), (2, "b", 2.0), (2, "c", 2.5), (3, "d", 3.0))
    changes = changes.append_column("op", pa.array(["-D", "-U", "+U", "+I"]))
    df = spark.createDataFrame(changes).coalesce(1)
    pkray.spark.ingest(df, table, row_kinds="op")
    assert content(table).equals(rows((2, "c", 2.5), (3, "d", 3.0)))


def test_a_batch_is_a_span_with_its_commit_below_it(spark, catalog):
    with recorded() as exporter:
        pkray.spark.ingest(spark.createDataFrame(rows((1, "a", 1.0))), create(catalog))
    made = {each.name: each for each in exporter.get_finished_spans()}
    batch, commit = made["pkray.spark_batch"], made["pkray.commit"]
    assert commit.parent.span_id == batch.context.span_id


def test_rows_of_a_job_that_died_are_not_there_after_the_next(spark, catalog, tmp_path):
    table = create(catalog)
    df = spark.range(200_000, numPartitions=2).selectExpr(
        "id", "'x' AS name", "double(id) AS amount"
    )
    failing = dying_once(df, tmp_path)
    with pytest.raises(Exception, match="dies after its rows"):
        pkray.spark.ingest(failing, table)
    assert table.latest_snapshot() is None
    pkray.spark.ingest(failing, table)
    assert content(table).equals(spark_rows(df).cast(SCHEMA))


def test_an_empty_dataframe_changes_no_row(spark, catalog):
    table = create(catalog)
    pkray.spark.ingest(spark.createDataFrame(rows((1, "a", 1.0))), table)
    pkray.spark.ingest(spark.createDataFrame([], "id BIGINT, name STRING, amount DOUBLE"), table)
    assert content(table).equals(rows((1, "a", 1.0)))


def test_partitions_and_many_buckets(spark, catalog):
    schema = pa.schema([pa.field("dt", pa.string(), nullable=False), *SCHEMA])
    keys = ("dt", "id")
    table = create(catalog, schema=schema, primary_keys=keys, partition_keys=["dt"], buckets=3)
    df = spark.range(3000, numPartitions=4).selectExpr(
        "concat('2024-0', id % 4 + 1) AS dt", "id", "string(id) AS name", "id / 7 AS amount"
    )
    pkray.spark.ingest(df, table)
    assert content(table, keys).equals(spark_rows(df, keys).cast(schema))


def test_a_dataframe_may_lack_columns_and_have_new_ones_if_asked(spark, catalog):
    table = create(catalog)
    pkray.spark.ingest(spark.createDataFrame(rows((1, "a", 1.0))), table)
    other = spark.range(2, 3).selectExpr("id", "'b' AS name", "id > 1 AS late")
    with pytest.raises(InputError, match="'late' is not in the table"):
        pkray.spark.ingest(other, table, missing="null")
    pkray.spark.ingest(other, table, missing="null", merge_schema=True)
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "a", "amount": 1.0, "late": None},
        {"id": 2, "name": "b", "amount": None, "late": True},
    ]
