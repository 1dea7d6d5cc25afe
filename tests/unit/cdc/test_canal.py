"""Canal's events as documentation shows them, and what is none."""

import json
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

import pkray.cdc
from pkray.errors import ChangeRecordError, UnsupportedError

PRODUCTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("description", pa.string()),
        ("weight", pa.decimal128(10, 2)),
    ]
)
UPDATE = """{"data":[{"id":"111","name":"scooter","description":"Big 2-wheel scooter",
"weight":"5.18"}],"database":"inventory","es":1589373560000,"id":9,"isDdl":false,
"mysqlType":{"id":"INTEGER","name":"VARCHAR(255)","description":"VARCHAR(512)","weight":"FLOAT"},
"old":[{"weight":"5.15"}],"pkNames":["id"],"sql":"","sqlType":{"id":4,"name":12,"description":12,
"weight":7},"table":"products","ts":1589373560798,"type":"UPDATE"}"""
SCOOTER = {"id": 111, "name": "scooter", "description": "Big 2-wheel scooter"}


def decode(*records, schema=PRODUCTS, **how):
    return pkray.cdc.decode(list(records), format="canal-json", schema=schema, **how).to_pylist()


def test_the_event_of_the_documentation():
    assert decode(UPDATE) == [
        {**SCOOTER, "weight": Decimal("5.15"), "_row_kind": "-U"},
        {**SCOOTER, "weight": Decimal("5.18"), "_row_kind": "+U"},
    ]


def test_an_event_lists_several_rows():
    event = json.loads(UPDATE)
    event["data"].append({**event["data"][0], "id": "112", "name": None})
    event["old"].append({"name": "old"})
    rows = decode(UPDATE, json.dumps(event))
    assert [(row["id"], row["name"], str(row["weight"]), row["_row_kind"]) for row in rows[2:]] == [
        (111, "scooter", "5.15", "-U"),
        (111, "scooter", "5.18", "+U"),
        (112, "old", "5.18", "-U"),
        (112, None, "5.18", "+U"),
    ]


def test_new_columns_are_text_which_their_first_value_shows():
    events = [json.loads(UPDATE) for _ in range(3)]
    for event, size in zip(events, (None, None, "7"), strict=True):
        event["data"][0]["size"] = size
    texts = map(json.dumps, events[:2])
    assert "size" not in decode(*texts, new_columns="add", missing="null")[0]
    rows = decode(*map(json.dumps, events), new_columns="add")
    assert [row["size"] for row in rows] == [None] * 4 + ["7"] * 2


def test_events_of_definitions_are_passed_over_between_others():
    ddl = '{"data":[{"note":"x"}],"isDdl":true,"old":null,"sql":"ALTER TABLE","type":"ALTER"}'
    ddl = ddl.replace('[{"note":"x"}]', "null")
    assert decode(ddl, UPDATE, ddl) == decode(UPDATE)


def test_values_are_text():
    values = {
        "truth": ("1", pa.bool_(), True),
        "tiny": ("-128", pa.int8(), -128),
        "wide": ("1.5e3", pa.float64(), 1500.0),
        "raw": ("a\xff\x00", pa.binary(), b"a\xff\0"),
        "day": ("2020-05-13", pa.date32(), date(2020, 5, 13)),
        "clock": ("12:39:20.5", pa.time32("ms"), time(12, 39, 20, 500000)),
        "at": ("2020-05-13 12:39:20", pa.timestamp("us"), datetime(2020, 5, 13, 12, 39, 20)),
    }
    schema = pa.schema([(name, kind) for name, (_, kind, _) in values.items()])
    data = [{name: text for name, (text, _, _) in values.items()}, dict.fromkeys(values)]
    first, second = decode(json.dumps({"data": data, "type": "INSERT"}), schema=schema)
    assert first == {**{name: value for name, (*_, value) in values.items()}, "_row_kind": "+I"}
    assert second == {**dict.fromkeys(values), "_row_kind": "+I"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (UPDATE.replace('"111"', '"0x6f"'), "'0x6f' is no number"),
        (UPDATE.replace('"5.18"', '"5.181"'), "data loss"),
        (UPDATE.replace('"5.18"', "5.18"), "changed from string to number"),
        (UPDATE.replace('"UPDATE"', '"TRUNCATE"'), "takes all rows"),
        (UPDATE.replace('"UPDATE"', '"UPSERT"'), "type 'UPSERT'"),
        (UPDATE.replace('"data"', '"rows"'), "no data"),
        (UPDATE.replace('"name":"scooter"', '"title":"scooter"'), "'title' is not in the table"),
        (UPDATE.replace('}],"database"', '},{"id":"1"}],"database"'), "fewer rows in old"),
    ],
)
def test_a_bad_record_is_named(bad, reason):
    with pytest.raises(ChangeRecordError) as refused:
        decode(UPDATE, bad, UPDATE)
    assert (refused.value.record, reason in refused.value.reason) == (1, True), refused.value.reason


def test_nested_columns_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="ARRAY<INT> is not read from canal-json"):
        decode(schema=pa.schema([("list", pa.list_(pa.int32()))]))
