"""What Spark asks of a table's reader and writer; without Spark running."""

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo

import pkray
from pkray.errors import SnapshotNotFoundError, TableNotFoundError, TableReplacedError
from pkray.scan.file_set_cache import file_sets
from pkray.spark.sink import BatchWriter
from pkray.spark.source import TableReader, request_for
from pkray.spark.source_options import SinkOptions
from pkray.spark.types import spark_schema

SCHEMA = pa.schema(
    [pa.field("dt", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)]
)
ROWS = pa.table({"dt": ["a", "a", "b"], "id": [1, 2, 3]}, SCHEMA)


def test_the_reader_plans_fewer_splits_and_returns_every_filter(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"])
        table.upsert(ROWS, commit_user="w")
        request = request_for(table.view(), table.location, None, None)
        reader = TableReader(request, spark_schema(SCHEMA))
        assert len(reader.partitions()) == 2
        filters = [EqualTo(("dt",), "b")]
        assert list(reader.pushFilters(filters)) == filters
        (partition,) = reader.partitions()
        assert [batch["id"].to_pylist() for batch in reader.read(partition)] == [[3]]


@pytest.mark.parametrize("is_anew", [True, False], ids=["replaced", "dropped"])
def test_a_reader_of_a_table_that_is_gone_says_so(tmp_path, is_anew):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["dt", "id"])
        table.upsert(ROWS)
        reader = TableReader(
            request_for(table.at(), table.location, None, None), spark_schema(SCHEMA)
        )
        (partition,) = reader.partitions()
        catalog.drop_table("db.t")
        if is_anew:
            catalog.create_table("db.t", SCHEMA, ["dt", "id"]).upsert(ROWS)
        file_sets.clear()  # as another process plans
        told = TableReplacedError if is_anew else TableNotFoundError
        with pytest.raises(told, match=r"db\.t"):
            reader.partitions()
        with pytest.raises(told, match=r"db\.t"):
            list(reader.read(partition))


def test_a_reader_of_a_snapshot_that_has_expired_says_so(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["dt", "id"])
        table.upsert(ROWS)
        request = request_for(table.at(), table.location, None, None)
        table.overwrite(ROWS)
        table.expire_snapshots(retain_max=1, retain_min=1)
        file_sets.clear()  # as another process plans
        with pytest.raises(SnapshotNotFoundError, match="has expired"):
            TableReader(request, spark_schema(SCHEMA)).partitions()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_puts_nothing_into_a_table_that_took_the_place_of_its_own(tmp_path, overwrite):
    with pkray.connect(str(tmp_path)) as catalog:
        catalog.create_table("db.t", SCHEMA, ["dt", "id"])
        given = {"path": str(tmp_path), "table": "db.t"}
        options = SinkOptions.parse(given, streaming=False)
        writer = BatchWriter(options, spark_schema(SCHEMA), overwrite)
        staged = writer.write(iter(ROWS.to_batches()))
        catalog.drop_table("db.t")
        anew = catalog.create_table("db.t", SCHEMA, ["dt", "id"])
        with pytest.raises(TableReplacedError, match=r"db\.t was dropped.*nothing was committed"):
            writer.commit([staged])
        assert anew.latest_snapshot() is None
        writer.abort([staged])
