"""DataFrames and streams written to tables by their format."""

import pytest
from pyspark.errors import AnalysisException

import pkray
from pkray.spark.sink import STREAMS
from tests.spark.tables import content, create, rows, spark_rows

ROWS = "id BIGINT NOT NULL, name STRING, amount DOUBLE"


@pytest.fixture
def table(spark, catalog):
    pkray.spark.register(spark)
    return create(catalog)


def written(df, catalog, mode="append", **options):
    named = {name.replace("_", "-"): value for name, value in options.items()}
    to = {"path": catalog.warehouse, "table": "db.t", **named}
    df.write.format("pkray").options(**to).mode(mode).save()


def test_a_dataframe_is_appended_and_replaces_all(spark, catalog, table):
    df = spark.createDataFrame([(1, "a", 1.0), (2, "b", 2.0), (3, "c", None)], ROWS)
    written(df.repartition(3), catalog)
    assert content(table).equals(rows((1, "a", 1.0), (2, "b", 2.0), (3, "c", None)))
    assert spark_rows(pkray.spark.read(spark, table)).equals(content(table))
    written(spark.createDataFrame([(3, "d", 4.0)], ROWS), catalog, "overwrite")
    assert content(table).equals(rows((3, "d", 4.0)))


def test_a_named_commit_is_made_once_and_kinds_are_followed(spark, catalog, table):
    first = spark.createDataFrame([(1, "a", 1.0), (2, "b", 2.0)], ROWS)
    kinds = spark.createDataFrame(
        [(1, None, None, "-D"), (3, "c", 3.0, "+I")], f"{ROWS}, op STRING"
    )
    for _ in range(2):
        written(first, catalog, commit_user="job", commit_identifier=1)
        written(kinds, catalog, commit_user="job", commit_identifier=2, row_kind_column="op")
    assert content(table).equals(rows((2, "b", 2.0), (3, "c", 3.0)))
    assert table.latest_snapshot().id == 2


def test_a_view_takes_inserts(spark, catalog, table):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW sink USING pkray "
        f"OPTIONS (path '{catalog.warehouse}', `table` 'db.t')"
    )
    spark.sql("INSERT INTO sink VALUES (1L, 'a', 1.5D), (2L, 'b', 2.5D)")
    assert content(table).equals(rows((1, "a", 1.5), (2, "b", 2.5)))


def test_what_does_not_fit_is_said_before_a_job_runs(spark, catalog, table):
    with pytest.raises(AnalysisException, match="column 'name'"):
        written(spark.createDataFrame([(1, 1.0)], "id BIGINT NOT NULL, amount DOUBLE"), catalog)
    with pytest.raises(AnalysisException, match="option 'snapshot-id' is unknown"):
        written(spark.createDataFrame([(1, "a", 1.0)], ROWS), catalog, snapshot_id=1)
    assert table.latest_snapshot() is None


@pytest.mark.skipif(not STREAMS, reason="sinks of streams that take Arrow came with Spark 4.1")
def test_a_stream_goes_on_at_its_checkpoint_and_each_batch_is_seen_once(
    spark, catalog, table, tmp_path
):
    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")

    def run() -> None:
        stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).json(str(source))
        to = {"path": catalog.warehouse, "table": "db.t", "checkpointLocation": checkpoint}
        sink = stream.writeStream.format("pkray").options(**to)
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    source.mkdir()
    (source / "1.json").write_text('{"id": 1, "name": "a", "amount": 1}\n')
    run()
    (source / "2.json").write_text(
        '{"id": 1, "name": "b", "amount": 2}\n{"id": 2, "name": "c", "amount": 3}\n'
    )
    run()
    assert content(table).equals(rows((1, "b", 2.0), (2, "c", 3.0)))
    assert table.latest_snapshot().id == 2
    for noted in ("1", ".1.crc"):  # as where a driver is killed before it has noted the commit
        (tmp_path / "checkpoint/commits" / noted).unlink()
    table.upsert([{"id": 1, "name": "later", "amount": 9.0}])
    run()
    assert content(table).equals(rows((1, "later", 9.0), (2, "c", 3.0)))
