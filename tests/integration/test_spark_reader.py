"""What Spark asks of a table's reader; without Spark running."""

import pyarrow as pa
from pyspark.sql.datasource import EqualTo

import pkray
from pkray.spark.source import TableReader, request_for
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
