"""Data and options that try to run code, workers that are killed, tables of Spark's catalog."""

import base64
import os
import pickle
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, NumberFormatException, StreamingQueryException

import pkray.spark
from pkray.errors import ServiceError
from tests.spark.tables import content, create, file_stream, rows, write_files
from tests.touching import Touch


@pytest.fixture
def table(catalog):
    table = create(catalog)
    table.upsert(rows((1, "a", 1.0)))
    return table


@pytest.fixture
def ran(tmp_path):
    """A file that is there once code of the data ran."""
    return tmp_path / "ran"


@pytest.fixture
def exploit(ran):
    return base64.b64encode(pickle.dumps(Touch(ran))).decode()


def test_a_value_that_imitates_an_error_runs_nothing(spark, table, exploit, ran):
    df = spark.createDataFrame([(f"[pkray:{exploit}]",)], ["s"])
    with pytest.raises(NumberFormatException, match="CAST_INVALID_INPUT"):
        pkray.spark.ingest(df.selectExpr("cast(s as bigint) id", "s name", "1D amount"), table)
    assert not ran.exists()


def test_a_streamed_value_that_imitates_an_error_runs_nothing(spark, table, exploit, ran, tmp_path):
    folder = write_files(tmp_path / "in", pa.table({"s": [f"[pkray:{exploit}]"]}))
    query = pkray.spark.start_ingest(
        file_stream(spark, folder, "s STRING").selectExpr(
            "cast(s as bigint) id", "s name", "1D amount"
        ),
        table,
        checkpoint_location=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
    )
    with pytest.raises(StreamingQueryException, match="CAST_INVALID_INPUT"):
        query.awaitTermination()
    assert query.error is None
    assert not ran.exists()


@pytest.mark.parametrize("source", ["pkray", "pkray-read", "pkray-changes"])
def test_an_option_runs_nothing(spark, table, exploit, ran, source):
    pkray.spark.read(spark, table)
    pkray.spark.read_stream(spark, table)
    with pytest.raises(AnalysisException, match=r"OptionError|UNSUPPORTED|support"):
        spark.sql(f"CREATE TEMPORARY VIEW x USING `{source}` OPTIONS (`request` '{exploit}')")
    assert not ran.exists()


def test_what_one_call_reads_nobody_else_does(spark, table):
    pkray.spark.read(spark, table).collect()
    with pytest.raises(AnalysisException, match=r"opened by pkray\.spark\.read"):
        spark.read.format("pkray-read").load()


def test_dataframes_of_several_calls_keep_what_they_read(spark, catalog, table):
    other = create(catalog, "db.other")
    first = pkray.spark.read(spark, table, filter=pc.field("id") == 1)
    second = pkray.spark.read(spark, other)
    assert [tuple(row) for row in first.collect()] == [(1, "a", 1.0)]
    assert second.collect() == []
    assert first.join(first.alias("again"), "id").count() == 1


def test_a_view_by_options(spark, catalog, table):
    pkray.spark.register(spark)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING pkray "
        f"OPTIONS (path '{catalog.warehouse}', `table` 'db.t', columns 'id,name')"
    )
    assert [tuple(row) for row in spark.sql("SELECT * FROM orders").collect()] == [(1, "a")]
    with pytest.raises(AnalysisException, match="option 'columns' is unknown"):
        spark.sql("INSERT INTO orders VALUES (2, 'b')")


def test_a_view_of_other_columns_is_refused(spark, catalog, table):
    pkray.spark.register(spark)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW wrong (id INT) USING pkray "
        f"OPTIONS (path '{catalog.warehouse}', `table` 'db.t')"
    )
    with pytest.raises(AnalysisException, match="are not the table's"):
        spark.sql("SELECT * FROM wrong").collect()


def test_a_table_of_sparks_catalog_is_refused(spark, catalog, table):
    pkray.spark.register(spark)
    options = f"OPTIONS (path '{catalog.warehouse}', `table` 'db.t')"
    with pytest.raises(AnalysisException, match="CREATE TABLE does not take the format 'pkray'"):
        spark.sql(f"CREATE TABLE spark_t USING pkray {options}")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql("CREATE TABLE spark_t USING pkray AS SELECT 2L AS id")
    spark.sql(f"CREATE TABLE spark_t (id BIGINT) USING pkray {options}")
    try:
        for statement in ("SELECT * FROM spark_t", "INSERT INTO spark_t VALUES (2)"):
            with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE spark_t")
    assert content(table).equals(rows((1, "a", 1.0)))


def test_secrets_are_in_no_plan(spark, catalog, table, capsys):
    df = pkray.spark.read(spark, table)
    df.explain("extended")
    assert catalog.warehouse not in capsys.readouterr().out


def killing(df, mark: Path, once: bool):
    """The rows of ``df``, whose worker is killed after them."""

    def kill(batches):
        yield from batches
        if not (once and mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return df.mapInArrow(kill, df.schema)


def test_a_job_whose_worker_is_killed_runs_again(spark, table, no_wait, tmp_path):
    df = spark.createDataFrame([(2, "b", 2.0)], ["id", "name", "amount"]).coalesce(1)
    snapshot = pkray.spark.ingest(killing(df, tmp_path / "killed", once=True), table)
    assert snapshot.id == 2
    assert content(table).equals(rows((1, "a", 1.0), (2, "b", 2.0)))


def test_workers_killed_without_end_are_an_error_of_the_service(spark, table, no_wait, tmp_path):
    df = spark.createDataFrame([(2, "b", 2.0)], ["id", "name", "amount"]).coalesce(1)
    with pytest.raises(ServiceError, match="Python worker exited unexpectedly"):
        pkray.spark.ingest(killing(df, tmp_path / "killed", once=False), table, max_attempts=2)
    assert content(table).equals(rows((1, "a", 1.0)))


@pytest.mark.slow
def test_a_stream_whose_worker_is_killed_runs_again(spark, table, no_wait, tmp_path):
    folder = write_files(tmp_path / "in", rows((2, "b", 2.0)))
    query = pkray.spark.start_ingest(
        killing(file_stream(spark, folder), tmp_path / "killed", once=True),
        table,
        checkpoint_location=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    assert content(table).equals(rows((1, "a", 1.0), (2, "b", 2.0)))
