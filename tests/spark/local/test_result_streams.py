"""The changes of continuous queries as streaming DataFrames."""

import time

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import pkray
from pkray.errors import QueryError
from pkray.relational import changelog
from tests.spark.tables import create

CONTENT = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64())])
TOTALS = "SELECT k, SUM(v) AS total FROM rows GROUP BY k"


@pytest.fixture
def rows(catalog):
    made = changelog([("k", "STRING"), ("v", "BIGINT")], name="rows")
    catalog.create_view("rows", made, temporary=True)
    return made


def taken(frame, folder=None) -> list[tuple]:
    """What a query of Spark takes of a stream: as far as it is now, in the order of epochs."""
    found: list[tuple] = []

    def take(batch, _) -> None:
        found.extend(tuple(row) for row in batch.collect())

    writer = frame.writeStream.foreachBatch(take)
    query = (writer.option("checkpointLocation", str(folder)) if folder else writer).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted(found, key=lambda row: (row[1], *map(str, row[2:])))


def test_epochs_come_as_rows_with_their_kinds(spark, catalog, rows):
    rows.push([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    rows.push([{"k": "a", "v": 10}])
    with catalog.sql(TOTALS).stream(trigger="available_now") as stream:
        frame = stream.to_spark(spark)
        assert frame.isStreaming
        assert frame.columns == ["_row_kind", "_epoch", "k", "total"]
        found = taken(frame)
        with pytest.raises(QueryError, match="go to Spark"):
            next(stream)
    assert found == [("+I", 1, "a", 1), ("+I", 1, "b", 2), ("-U", 2, "a", 1), ("+U", 2, "a", 11)]


def test_what_comes_later_is_followed(spark, catalog, rows):
    with catalog.sql(TOTALS).stream("upsert") as stream:
        found: list[tuple] = []
        frame = stream.to_spark(spark)
        query = frame.writeStream.foreachBatch(
            lambda batch, _: found.extend(tuple(row) for row in batch.collect())
        ).start()
        for number in range(3):
            rows.push([{"k": "a", "v": 1}])
            deadline = time.monotonic() + 60
            while len(found) <= number and time.monotonic() < deadline:
                time.sleep(0.05)
        query.stop()
    assert [row[3] for row in found] == [1, 2, 3]


def test_a_stream_with_a_name_and_a_checkpoint_give_each_epoch_once(spark, catalog, tmp_path):
    table = create(catalog, "db.t", CONTENT, ["k"], options={"changelog-producer": "lookup"})
    relation = catalog.sql("SELECT k, v FROM db.t")
    found = []
    for number in range(3):
        table.upsert([{"k": f"k{number}", "v": number}])
        with relation.stream(name="out", trigger="available_now") as stream:
            found += taken(stream.to_spark(spark), tmp_path / "checkpoint")
    assert [(row[0], row[2]) for row in found] == [("+I", "k0"), ("+I", "k1"), ("+I", "k2")]
    catalog.query("out").drop()
    assert list((tmp_path / "warehouse" / ".queries" / "out" / "lives").iterdir()) == []


def test_a_failed_query_fails_the_stream_of_spark(spark, catalog, rows):
    with catalog.sql("SELECT 1 / v AS x FROM rows").stream() as stream:
        frame = stream.to_spark(spark)
        query = frame.writeStream.foreachBatch(lambda *_: None).start()
        rows.push([{"k": "a", "v": 0}])
        with pytest.raises(StreamingQueryException, match="whose changes these are failed"):
            query.awaitTermination(60)


def test_a_stream_leaves_no_files_behind(spark, catalog, rows, tmp_path):
    rows.push([{"k": "a", "v": 1}])
    with catalog.sql(TOTALS).stream(trigger="available_now") as stream:
        taken(stream.to_spark(spark))
        assert list((tmp_path / "warehouse" / ".queries").rglob("batch-*"))
    assert list((tmp_path / "warehouse" / ".queries").iterdir()) == []


def test_streams_of_spark_go_through_a_query_back_to_spark(spark, catalog, tmp_path):
    from tests.spark.tables import file_stream, write_files
    from tests.spark.tables import rows as values

    folder = write_files(tmp_path / "in", values((1, "a", 1.0)), values((2, "a", 2.0)))
    relation = pkray.spark.relation(file_stream(spark, folder), name="files")
    totals = relation.group_by("name").agg(total="sum(amount)")
    with totals.stream("upsert", trigger="available_now") as stream:
        found = taken(stream.to_spark(spark))
    assert [row[2:] for row in found] == [("a", 1.0), ("a", 3.0)]
