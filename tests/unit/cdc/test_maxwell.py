"""Maxwell's events as its documentation shows them, and what is none."""

import json
from datetime import datetime

import pyarrow as pa
import pytest

import pkray.cdc
from pkray.errors import ChangeRecordError

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("m", pa.float64()),
        ("c", pa.timestamp("us")),
        ("comment", pa.string()),
    ]
)
INSERT = """{"database":"test","table":"e","type":"insert","ts":1477053217,"xid":23396,
"commit":true,"position":"master.000006:800911","server_id":23042,"thread_id":108,
"primary_key":[1,"2016-10-21 05:33:37.523000"],"primary_key_columns":["id","c"],
"data":{"id":1,"m":4.2341,"c":"2016-10-21 05:33:37.523000",
"comment":"I am a creature of light."}}"""
UPDATE = """{"database":"test","table":"e","type":"update","ts":1477053234,"xid":23590,
"commit":true,"data":{"id":1,"m":5.444,"c":"2016-10-21 05:33:54.631000",
"comment":"I am a creature of light."},"old":{"m":4.2341,"c":"2016-10-21 05:33:37.523000"}}"""
DELETE = """{"database":"test","table":"e","type":"delete","ts":1477053301,"xid":23700,
"data":{"id":1,"m":5.444,"c":"2016-10-21 05:33:54.631000",
"comment":"I am a creature of light."}}"""
OLD = {"id": 1, "m": 4.2341, "c": datetime(2016, 10, 21, 5, 33, 37, 523000),
       "comment": "I am a creature of light."}  # fmt: skip
NEW = {**OLD, "m": 5.444, "c": datetime(2016, 10, 21, 5, 33, 54, 631000)}


def decode(*records, schema=COLUMNS, **how):
    return pkray.cdc.decode(list(records), format="maxwell-json", schema=schema, **how).to_pylist()


def test_the_events_of_the_documentation():
    assert decode(INSERT, UPDATE, DELETE) == [
        {**OLD, "_row_kind": "+I"},
        {**OLD, "_row_kind": "-U"},
        {**NEW, "_row_kind": "+U"},
        {**NEW, "_row_kind": "-D"},
    ]


def test_an_old_value_that_is_null_is_none_that_is_not_there():
    event = json.loads(UPDATE)
    event["old"] = {"comment": None}
    assert [row["comment"] for row in decode(json.dumps(event))] == [None, OLD["comment"]]


def test_times_of_the_envelope_are_in_seconds():
    schema = pa.schema([*COLUMNS, ("at", pa.timestamp("ms")), ("position", pa.string())])
    [row] = decode(INSERT, schema=schema, metadata={"at": "ts", "position": "position"})
    assert row["at"] == datetime(2016, 10, 21, 12, 33, 37)
    assert row["position"] == "master.000006:800911"


@pytest.mark.parametrize("kind", ["bootstrap-start", "bootstrap-complete", "table-alter"])
def test_events_that_change_no_rows_are_passed_over(kind):
    assert decode(f'{{"type":"{kind}","database":"test","table":"e","ts":1}}') == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"type":"table-drop"}', "takes all rows"),
        ('{"type":"replace","data":{"id":1}}', "type 'replace'"),
        ('{"data":{"id":1}}', "type None"),
        ('{"type":"insert"}', "no data"),
        (INSERT.replace('"id":1', '"id":"1"'), "changed from number to string"),
        (INSERT.replace("4.2341", '"4.2341"'), "write a number"),
        (INSERT.replace("I am a", '", "x":"'), "'x' is not in the table"),
        (INSERT[:-1], "Missing a comma"),
    ],
)
def test_a_bad_record_is_named(bad, reason):
    with pytest.raises(ChangeRecordError) as refused:
        decode(INSERT, bad, DELETE)
    assert (refused.value.record, reason in refused.value.reason) == (1, True), refused.value.reason
