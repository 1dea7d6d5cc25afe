"""Tables' changes as streaming DataFrames."""

import pytest
from pyspark.errors import StreamingQueryException

import pkray.spark
from pkray.errors import UnsupportedError
from tests.spark.tables import content, create, rows


def put(table, *values, deletes=()):
    with table.open_writer() as writer:
        writer.upsert(rows(*values))
        if deletes:
            writer.delete([{"id": key} for key in deletes])
        writer.commit()


def run(df, folder, follow):
    """All there is, batch after batch, until nothing more comes."""

    def applied(batch, _):
        found = batch.toArrow().to_pylist()
        if found:
            follow(found)

    query = (
        df.writeStream.foreachBatch(applied)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()


class Replica:
    """A dict that each micro-batch is applied to, in the order of its snapshots."""

    def __init__(self):
        self.rows = {}
        self.batches = []

    def follow(self, changes):
        self.batches.append(sorted({row["_snapshot_id"] for row in changes}))
        for row in sorted(changes, key=lambda each: each["_snapshot_id"]):
            kind = row.pop("_row_kind")
            row.pop("_snapshot_id")
            if kind in ("-U", "-D"):
                assert self.rows.pop(row["id"]) == row
            else:
                assert row["id"] not in self.rows
                self.rows[row["id"]] = row


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("producer", "normalize"), [("lookup", False), ("none", True)])
def test_the_table_first_then_its_changes_over_restarts(
    spark, catalog, tmp_path, producer, normalize
):
    table = create(catalog, options={"changelog-producer": producer})
    put(table, (1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))
    loaded = table.latest_snapshot().id
    replica = Replica()

    def read():
        return pkray.spark.read_stream(spark, table, consumer_id="job", normalize=normalize)

    assert read().columns == ["_row_kind", "_snapshot_id", "id", "name", "amount"]
    run(read(), tmp_path, replica.follow)
    assert replica.batches == [[loaded]]
    put(table, (2, "B", 2.5), (4, "d", 4.0), deletes=[1])
    put(table, (2, "BB", 2.5), deletes=[4])
    table.expire_snapshots(retain_max=1, retain_min=1)
    run(read(), tmp_path, replica.follow)
    assert sorted(replica.rows.values(), key=lambda row: row["id"]) == content(table).to_pylist()
    assert table.consumers.list()["consumer_id"].to_pylist() == ["job"]


def test_from_a_snapshot_with_columns_and_a_filter(spark, catalog, tmp_path):
    table = create(catalog)
    for number in range(1, 4):
        put(table, (number, f"at {number}", 1.0))
    found = []
    df = pkray.spark.read_stream(spark, table, from_snapshot=2, columns=["name"], filter="id < 3")
    run(df, tmp_path, found.extend)
    assert found == [{"_row_kind": "+I", "_snapshot_id": 2, "name": "at 2"}]


def test_a_micro_batch_has_no_more_snapshots_than_asked(spark, catalog, tmp_path):
    table = create(catalog)
    for number in range(1, 6):
        put(table, (number, f"at {number}", 1.0))
    replica = Replica()
    df = pkray.spark.read_stream(spark, table, from_snapshot=1, max_snapshots=2)
    run(df, tmp_path, replica.follow)
    assert replica.batches == [[1, 2], [3, 4], [5]]


def test_what_is_no_stream_is_refused_on_the_driver(spark, catalog):
    table = create(catalog, options={"merge-engine": "partial-update"})
    with pytest.raises(UnsupportedError, match="normalize"):
        pkray.spark.read_stream(spark, table)


def test_changes_keep_a_copy_up_to_date(spark, catalog, tmp_path):
    table, copy = create(catalog), create(catalog, "db.copy", buckets=3)

    def follow():
        changes = pkray.spark.read_stream(spark, table).drop("_snapshot_id")
        query = pkray.spark.start_ingest(
            changes,
            copy,
            checkpoint_location=str(tmp_path / "checkpoint"),
            row_kinds="_row_kind",
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        assert content(copy) == content(table)

    put(table, (1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))
    follow()
    put(table, (2, "B", 2.5), (4, "d", 4.0), deletes=[1])
    put(table, (4, "D", 4.5), deletes=[3])
    follow()
    assert content(copy)["id"].to_pylist() == [2, 4]


def by_format(spark, catalog, **options):
    named = {name.replace("_", "-"): value for name, value in options.items()}
    to = {"path": catalog.warehouse, "table": "db.t", **named}
    return spark.readStream.format("pkray").options(**to).load()


def test_a_stream_by_options_is_written_to_a_table_by_options(spark, catalog, tmp_path):
    pkray.spark.register(spark)
    table, copy = create(catalog), create(catalog, "db.copy", buckets=3)
    to = {"path": catalog.warehouse, "table": "db.copy", "row-kind-column": "op"}
    for step in range(2):
        put(table, (1, "a", step), (2, "b", 2.0), (3 + step, "c", 3.0))
        put(table, deletes=[1 + step])
        stream = by_format(spark, catalog, row_kind_column="op", consumer="job", max_rows=2)
        assert stream.columns == ["op", "id", "name", "amount"]
        sink = stream.writeStream.format("pkray").options(**to)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert content(copy) == content(table)
    kept = table.consumers.list()["next_snapshot_id"].to_pylist()
    assert kept in ([4], [5])  # Spark says that a batch was taken when it begins the next one


def test_a_table_made_anew_under_its_name_ends_the_stream(spark, catalog, tmp_path):
    pkray.spark.register(spark)
    put(create(catalog), (1, "a", 1.0))
    found = []
    run(by_format(spark, catalog), tmp_path, found.extend)
    catalog.drop_table("db.t")
    put(create(catalog), (1, "other", 1.0))
    with pytest.raises(StreamingQueryException, match="TableReplacedError"):
        run(by_format(spark, catalog), tmp_path, found.extend)
    assert found == [{"id": 1, "name": "a", "amount": 1.0}]
