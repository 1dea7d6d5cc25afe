"""Spark's filters as predicates; without Spark running."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual, Not

import pkray
from pkray.scan.predicate import Predicate
from pkray.spark.pushdown import narrowed
from pkray.spark.source import TableReader, request_for
from pkray.spark.types import spark_schema

SCHEMA = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("ns")),
        pa.field("ratio", pa.float32()),
    ]
)
ROWS = pa.table(
    {
        "dt": ["a", "a", "b"],
        "id": [1, 2, 3],
        "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None],
        "at": pa.array([0, 1, 2], pa.timestamp("ns")),
        "ratio": pa.array([0.1, 0.2, None], pa.float32()),
    },
    SCHEMA,
)


@pytest.fixture
def table(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"])
        with table.open_writer("w") as writer:
            writer.upsert(ROWS)
            writer.commit()
        yield table


def kept(table, *filters) -> list[int]:
    """The ids that the pushed filters leave."""
    predicate = narrowed(None, filters, table.schema)
    assert predicate is not None
    return sorted(table.to_arrow(["id"], predicate)["id"].to_pylist())


@pytest.mark.parametrize(
    ("pushed", "ids"),
    [
        (EqualTo(("id",), 2), [2]),
        (GreaterThan(("id",), 1), [2, 3]),
        (LessThanOrEqual(("id",), 1), [1]),
        (In(("id",), (1, 3, None)), [1, 3]),
        (EqualTo(("dt",), "a"), [1, 2]),
        (GreaterThan(("day",), dt.date(2024, 1, 1)), [2]),
    ],
    ids=str,
)
def test_a_comparison_keeps_its_rows(table, pushed, ids):
    assert kept(table, pushed) == ids


def test_filters_all_hold(table):
    assert kept(table, EqualTo(("dt",), "a"), GreaterThan(("id",), 1)) == [2]


def test_filters_join_the_predicate_that_was_there(table):
    before = Predicate.parse("id > 1", table.schema)
    predicate = narrowed(before, [EqualTo(("dt",), "a")], table.schema)
    assert table.to_arrow(["id"], predicate)["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    "left_out",
    [
        Not(EqualTo(("id",), 1)),
        EqualTo(("at",), dt.datetime(1970, 1, 1)),
        EqualTo(("ratio",), 0.1),
        EqualTo(("id",), None),
        EqualTo(("nested", "id"), 1),
        EqualTo(("other",), 1),
        In(("id",), (None,)),
        spark.IsNull(("day",)),
        EqualTo(("id",), "not a number"),
    ],
    ids=str,
)
def test_what_could_mean_something_else_is_left_to_spark(table, left_out):
    assert narrowed(None, [left_out], table.schema) is None


def test_the_reader_plans_fewer_splits_and_returns_every_filter(table):
    request = request_for(table.view(), table.location, None, None)
    reader = TableReader(request, spark_schema(SCHEMA))
    assert len(reader.partitions()) == 2
    filters = [EqualTo(("dt",), "b")]
    assert list(reader.pushFilters(filters)) == filters
    (partition,) = reader.partitions()
    assert [batch["id"].to_pylist() for batch in reader.read(partition)] == [[3]]
