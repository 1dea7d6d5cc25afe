"""Values in JSON become those of the column, or are refused."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import pkray.cdc
from pkray.errors import ChangeRecordError, OptionError, UnsupportedError
from pkray.schema.types import DataType


def read(kind: str, json: str, **modes: str) -> Any:
    schema = pa.schema([pa.field("v", DataType.parse(kind).arrow)])
    column = DataType.parse(kind)
    schema = pa.schema([schema.field(0).with_metadata({"paimon.type": str(column)})])
    record = f'{{"before":null,"after":{{"v":{json}}},"op":"c"}}'
    rows = pkray.cdc.decode(record, format="debezium-json", schema=schema, **modes)
    return rows.column("v")[0].as_py()


@pytest.mark.parametrize(
    ("kind", "json", "value"),
    [
        ("BOOLEAN", "true", True),
        ("TINYINT", "-128", -128),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("FLOAT", "0.1", pa.scalar(0.1, pa.float32()).as_py()),
        ("DOUBLE", '"-Infinity"', float("-inf")),
        ("ARRAY<FLOAT>", '[1,"Infinity",null,-2e3]', [1.0, float("inf"), None, -2000.0]),
        ("ARRAY<ARRAY<DOUBLE>>", '[[1],["-Infinity",0.5]]', [[1.0], [float("-inf"), 0.5]]),
        ("DECIMAL(5, 2)", '"-1.50"', Decimal("-1.50")),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
        ("DECIMAL(38, 0)", "12345678901234567890123456789012345678", Decimal("1234567890123456"
         "7890123456789012345678")),
        ("STRING", r'"a\u0000b\ud83d\ude00"', "a\0b\U0001f600"),
        ("BYTES", '"AAH/"', b"\0\x01\xff"),
        ("DATE", "19000", date(2022, 1, 8)),
        ("DATE", '"2022-01-08"', date(2022, 1, 8)),
        ("TIME(3)", '"10:11:12.345Z"', time(10, 11, 12, 345000)),
        ("TIMESTAMP(6)", '"2022-01-08T10:11:12.000001"', datetime(2022, 1, 8, 10, 11, 12, 1)),
        ("ARRAY<INT>", "[1,null]", [1, None]),
        ("ARRAY<DATE>", '["2022-01-08"]', [date(2022, 1, 8)]),
        ("ROW<a INT, d DATE>", '{"a":1,"d":5}', {"a": 1, "d": date(1970, 1, 6)}),
    ],
)  # fmt: skip
def test_a_value_is_read(kind, json, value):
    assert read(kind, json) == value


@pytest.mark.parametrize(
    ("kind", "json", "reason"),
    [
        ("INT", "2147483648", "2147483648"),
        ("INT", "1.0", "1.0"),
        ("INT", '"1"', "changed from number to string"),
        ("BOOLEAN", "1", "changed from boolean to number"),
        ("STRING", "1", "changed from string to number"),
        ("DOUBLE", '"1.5"', "write a number"),
        ("FLOAT", "1e39", "FLOAT"),
        ("DECIMAL(5, 2)", "1.555", "scale 3"),
        ("DECIMAL(5, 2)", '"1000"', "decimal_handling_mode"),
        ("DECIMAL(5, 2)", '"AQ=="', "decimal_handling_mode"),
        ("DECIMAL(5, 2)", '"10000.5"', "does not fit"),
        ("CHAR(2)", '"abc"', "'abc' does not fit"),
        ("BYTES", '"A"', "base 64"),
        ("TIME(3)", "1000", "number"),
        ("TIME(0)", '"10:11:12.345"', "does not fit"),
        ("TIMESTAMP(3)", "1700000000000", "number"),
        ("TIMESTAMP(3)", '"2022-01-08T10:11:12Z"', "zone"),
        ("TIMESTAMP_LTZ(3)", '"2022-01-08T10:11:12"', "zone"),
        ("ROW<a INT>", '{"a":1,"b":2}', "its ROW has not"),
        ("ARRAY<INT>", '{"a":1}', "changed from array to object"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind, json, reason):
    with pytest.raises(ChangeRecordError) as refused:
        read(kind, json)
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("kind", "json", "modes", "value"),
    [
        ("DECIMAL(7, 2)", '"1000"', {"decimal_handling_mode": "precise"}, Decimal("-26672.12")),
        ("DECIMAL(7, 2)", '"AQ=="', {"decimal_handling_mode": "precise"}, Decimal("0.01")),
        ("DECIMAL(7, 2)", '"1000"', {"decimal_handling_mode": "string"}, Decimal("1000.00")),
        ("DECIMAL(7, 2)", "1000", {"decimal_handling_mode": "double"}, Decimal("1000.00")),
        ("TIMESTAMP(3)", "1500", {"time_precision_mode": "adaptive"},
         datetime(1970, 1, 1, 0, 0, 1, 500000)),
        ("TIMESTAMP(6)", "1500", {"time_precision_mode": "adaptive"},
         datetime(1970, 1, 1, 0, 0, 0, 1500)),
        ("TIMESTAMP(6)", "1500", {"time_precision_mode": "connect"},
         datetime(1970, 1, 1, 0, 0, 1, 500000)),
        ("TIME(3)", "1500000", {"time_precision_mode": "adaptive_time_microseconds"},
         time(0, 0, 1, 500000)),
        ("TIME(3)", '"10:00:00Z"', {"time_precision_mode": "isostring"}, time(10)),
        ("TIMESTAMP(6)", '"2022-01-08T10:11:12Z"', {"time_precision_mode": "isostring"},
         datetime(2022, 1, 8, 10, 11, 12)),
        ("BYTES", '"_-8="', {"binary_handling_mode": "base64-url-safe"}, b"\xff\xef"),
        ("BYTES", '"00ff"', {"binary_handling_mode": "hex"}, b"\0\xff"),
    ],
)  # fmt: skip
def test_a_value_is_read_as_the_connector_writes_it(kind, json, modes, value):
    assert read(kind, json, **modes) == value


def test_a_word_that_is_no_mode_is_refused():
    with pytest.raises(OptionError, match="time_precision_mode = 'nano'"):
        read("INT", "1", time_precision_mode="nano")


def test_maps_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="MAP<STRING"):
        schema = pa.schema([("m", pa.map_(pa.string(), pa.int32()))])
        pkray.cdc.decode([], format="debezium-json", schema=schema)


def test_images_of_one_event_hold_a_number_and_a_text_that_stands_for_one():
    schema = pa.schema([("v", pa.float64()), ("name", pa.string()), ("count", pa.int64())])
    record = (
        '{"before":{"v":0.5,"name":"NaN","count":1},'
        '"after":{"v":"Infinity","name":"1.5","count":2},"op":"u"}'
    )
    rows = pkray.cdc.decode([record, record], format="debezium-json", schema=schema)
    assert (
        rows.drop_columns("_row_kind").to_pylist()
        == [{"v": 0.5, "name": "NaN", "count": 1}, {"v": float("inf"), "name": "1.5", "count": 2}]
        * 2
    )


@pytest.mark.parametrize("text", ['"1.5"', '"x"', '""'])
def test_a_text_beside_numbers_that_stands_for_none_is_refused(text):
    with pytest.raises(ChangeRecordError, match="a number is the text"):
        read("ARRAY<DOUBLE>", f"[1.0,{text}]")
