"""Spark's filters as predicates; without Spark running."""

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual, Not

from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema
from pkray.spark.source import narrowed

SCHEMA = TableSchema.create(
    [
        ("dt", "STRING"),
        ("id", "BIGINT"),
        ("day", "DATE"),
        ("at", "TIMESTAMP(9)"),
        ("ratio", "FLOAT"),
    ],
    ["dt", "id"],
    ["dt"],
)
ROWS = pa.record_batch(
    {
        "dt": ["a", "a", "b"],
        "id": [1, 2, 3],
        "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None],
        "at": pa.array([0, 1, 2], pa.timestamp("ns")),
        "ratio": pa.array([0.1, 0.2, None], pa.float32()),
    },
    SCHEMA.arrow_schema,
)


def kept(before, *filters) -> list[int]:
    """The ids that a predicate and the pushed filters leave."""
    predicate = narrowed(before, filters, SCHEMA)
    assert predicate is not None
    return ROWS.filter(predicate.to_expression())["id"].to_pylist()


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
def test_a_comparison_keeps_its_rows(pushed, ids):
    assert kept(None, pushed) == ids


def test_filters_all_hold():
    assert kept(None, EqualTo(("dt",), "a"), GreaterThan(("id",), 1)) == [2]


def test_filters_join_the_predicate_that_was_there():
    before = Predicate.parse("id > 1", SCHEMA)
    assert kept(before, EqualTo(("dt",), "a")) == [2]


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
def test_what_could_mean_something_else_is_left_to_spark(left_out):
    assert narrowed(None, [left_out], SCHEMA) is None
