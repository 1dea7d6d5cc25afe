"""Columns of a table as Spark sees them."""

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from pkray.errors import SchemaError
from pkray.spark.types import exchange_schema, incoming_schema, spark_schema, to_exchange

PAIRS = [
    (pa.bool_(), s.BooleanType()),
    (pa.int8(), s.ByteType()),
    (pa.int16(), s.ShortType()),
    (pa.int32(), s.IntegerType()),
    (pa.int64(), s.LongType()),
    (pa.float32(), s.FloatType()),
    (pa.float64(), s.DoubleType()),
    (pa.decimal128(38, 10), s.DecimalType(38, 10)),
    (pa.string(), s.StringType()),
    (pa.binary(), s.BinaryType()),
    (pa.date32(), s.DateType()),
    (pa.time32("ms"), s.TimeType()),
    (pa.timestamp("ms"), s.TimestampNTZType()),
    (pa.timestamp("us"), s.TimestampNTZType()),
    (pa.timestamp("ns"), s.TimestampNTZType()),
    (pa.timestamp("ns", "UTC"), s.TimestampType()),
    (pa.list_(pa.time32("ms")), s.ArrayType(s.TimeType())),
    (pa.map_(pa.string(), pa.timestamp("ms")), s.MapType(s.StringType(), s.TimestampNTZType())),
    (
        pa.struct([pa.field("a", pa.timestamp("ns", "UTC"))]),
        s.StructType([s.StructField("a", s.TimestampType())]),
    ),
]


@pytest.mark.parametrize(("arrow", "spark"), PAIRS, ids=lambda kind: str(kind))
def test_a_column_type_maps_to_spark(arrow, spark):
    assert spark_schema(pa.schema([("c", arrow)]))["c"].dataType == spark


def test_not_null_columns_stay_not_null():
    schema = spark_schema(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    assert not schema["id"].nullable


def convert(array: pa.Array) -> pa.Array:
    batch = pa.record_batch({"c": array})
    return to_exchange(batch, exchange_schema(batch.schema)).column(0)


def test_nanoseconds_are_rounded_down_also_before_1970():
    nanos = pa.array([1_999, -1, -1_001, None], pa.timestamp("ns"))
    assert convert(nanos).cast(pa.int64()).to_pylist() == [1, -1, -2, None]


def test_time_of_day_keeps_its_value():
    noon = dt.time(12, 34, 56, 789_000)
    converted = convert(pa.array([noon, None], pa.time32("ms")))
    assert converted.type == pa.time64("ns")
    assert converted.cast(pa.time64("us")).to_pylist() == [noon, None]


def test_milliseconds_of_a_zone_keep_their_instant():
    converted = convert(pa.array([1_500, None], pa.timestamp("ms", "UTC")))
    assert converted.type == pa.timestamp("us", "UTC")
    assert converted.cast(pa.int64()).to_pylist() == [1_500_000, None]


def test_nested_times_are_converted():
    nested = pa.array([[1_500], None, []], pa.list_(pa.timestamp("ms")))
    assert convert(nested).type.value_type == pa.timestamp("us")


def test_a_type_without_arrow_form_is_named():
    schema = s.StructType([s.StructField("years", s.YearMonthIntervalType())])
    with pytest.raises(SchemaError, match="'years'") as caught:
        incoming_schema(schema)
    assert caught.value.column == "years"


def test_a_column_that_appears_twice_is_named():
    twice = s.StructType([s.StructField("a", s.LongType()), s.StructField("a", s.LongType())])
    with pytest.raises(SchemaError, match="'a' more than once"):
        incoming_schema(twice)
