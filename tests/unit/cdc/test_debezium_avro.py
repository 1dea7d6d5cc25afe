"""Debezium's events in Avro: messages with the id of a schema, and what is none."""

import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import pkray.cdc
from pkray.errors import ChangeRecordError, InputError
from pkray.schema.table_schema import TableSchema

COLUMNS = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
ID = {"name": "id", "type": "int"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
UNAVAILABLE = "__debezium_unavailable_value"


def envelope(*fields: Any) -> dict[str, Any]:
    value = {"type": "record", "name": "Value", "fields": list(fields)}
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.people",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }


PEOPLE = envelope(ID, NAME)


def message(
    op: str, before: Any = None, after: Any = None, number: int = 7, schema: Any = PEOPLE
) -> bytes:
    out = io.BytesIO()
    out.write(b"\0" + number.to_bytes(4, "big"))
    event = {"before": before, "after": after, "source": {"lsn": 5}, "op": op}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return out.getvalue()


def decode(*records: bytes | None, columns: Any = COLUMNS, given: Any = None, **how: Any) -> Any:
    given = json.dumps(PEOPLE) if given is None else given
    return pkray.cdc.decode(
        list(records), format="debezium-avro", schema=columns, avro_schema=given, **how
    )


def column(kind: Any, arrow: pa.DataType, value: Any, **how: Any) -> Any:
    """The value of one column, as a row gets it."""
    schema = envelope(ID, {"name": "v", "type": kind})
    columns = pa.schema([COLUMNS.field("id"), ("v", arrow)])
    record = message("c", None, {"id": 1, "v": value}, schema=schema)
    return decode(record, columns=columns, given=json.dumps(schema), **how).to_pylist()[0]["v"]


def test_inserts_updates_deletes_and_tombstones():
    ada, grace = {"id": 1, "name": "Ada"}, {"id": 1, "name": None}
    records = message("r", None, ada), message("u", ada, grace), message("d", grace), None
    assert decode(*records).to_pylist() == [
        {**ada, "_row_kind": "+I"},
        {**ada, "_row_kind": "-U"},
        {**grace, "_row_kind": "+U"},
        {**grace, "_row_kind": "-D"},
    ]


def test_a_member_of_the_envelope_is_a_column():
    columns = pa.schema([*COLUMNS, ("lsn", pa.int64())])
    record = message("c", None, {"id": 1, "name": "Ada"})
    rows = decode(record, columns=columns, metadata={"lsn": "source.lsn"})
    assert rows.column("lsn").to_pylist() == [5]


def connect(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, "connect.parameters": parameters}


DECIMAL = connect(
    "bytes",
    "org.apache.kafka.connect.data.Decimal",
    **{"scale": "2", "connect.decimal.precision": "9"},
)


@pytest.mark.parametrize(
    ("kind", "arrow", "stored", "value"),
    [
        (DECIMAL, pa.decimal128(9, 2), b"\xff\x38", Decimal("-2.00")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
         pa.decimal128(4, 1), Decimal("12.5"), Decimal("12.5")),
        (connect("int", "io.debezium.time.Date"), pa.date32(), 1, date(1970, 1, 2)),
        (connect("long", "io.debezium.time.MicroTimestamp"), pa.timestamp("us"), 1,
         datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("float", pa.float32(), float("inf"), float("inf")),
        ("bytes", pa.binary(), b"\0\xff", b"\0\xff"),
        ({"type": "int", "connect.type": "int16"}, pa.int16(), -3, -3),
        ({"type": "enum", "name": "mood", "symbols": ["sad", "ok"]}, pa.string(), "ok", "ok"),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32()), [1, None], [1, None]),
        (["null", "long"], pa.int64(), None, None),
    ],
)  # fmt: skip
def test_values_are_read_by_the_schema_s_types(kind, arrow, stored, value):
    assert column(kind, arrow, stored) == value


def test_a_decimal_of_more_digits_than_its_precision_is_refused():
    with pytest.raises(ChangeRecordError, match="column 'v'"):
        column(DECIMAL, pa.decimal128(9, 2), (10**12).to_bytes(6, "big"))


def test_types_that_have_no_column_are_refused_by_their_name():
    with pytest.raises(ChangeRecordError, match="column 'v' is a map"):
        column({"type": "map", "values": "int"}, pa.string(), {"a": 1})


def test_a_new_column_is_of_the_schema_s_type():
    schema = envelope(ID, NAME, {"name": "price", "type": ["null", DECIMAL], "default": None})
    records = [
        message("c", None, {"id": 1, "name": None}),
        message("c", None, {"id": 2, "name": None, "price": b"\x64"}, 8, schema),
    ]
    given = {7: json.dumps(PEOPLE), 8: json.dumps(schema)}
    with pytest.raises(ChangeRecordError, match="'price' is not in the table") as refused:
        decode(*records, given=given)
    assert refused.value.record == 1
    rows = decode(*records, given=given, new_columns="add")
    assert rows.schema.field("price").type == pa.decimal128(9, 2)
    assert rows.column("price").to_pylist() == [None, Decimal("1.00")]


def test_values_that_did_not_change_are_marked_in_text_and_in_bytes():
    fields = [ID, NAME, {"name": "raw", "type": "bytes"}]
    schema = envelope(*fields)
    columns = pa.schema([*COLUMNS, ("raw", pa.binary())])
    after = {"id": 1, "name": UNAVAILABLE, "raw": UNAVAILABLE.encode()}
    record = message("u", None, after, schema=schema)
    with pytest.raises(ChangeRecordError, match="did not change"):
        decode(record, columns=columns, given=json.dumps(schema))
    rows = decode(record, columns=columns, given=json.dumps(schema), unavailable="null")
    assert rows.to_pylist() == [{"id": 1, "name": None, "raw": None, "_row_kind": "+U"}]


def test_the_key_that_changes_is_a_delete_and_an_insert():
    schema = TableSchema.create(COLUMNS, primary_keys=["id"])
    record = message("u", {"id": 1, "name": "a"}, {"id": 2, "name": "a"})
    rows = decode(record, columns=schema).to_pylist()
    assert [(row["id"], row["_row_kind"]) for row in rows] == [(1, "-D"), (2, "+I")]


GOOD = message("c", None, {"id": 1, "name": "Ada"})


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"", "does not begin with a zero byte"),
        (b"{}", "does not begin with a zero byte"),
        (b"\0\0\0", "does not begin with a zero byte"),
        (GOOD[:-1], "no record of the schema"),
        (GOOD[:5], "no record of the schema"),
        (GOOD + b"\0", "1 bytes follow"),
        (GOOD[:5] + b"\x08" + GOOD[6:], "no record of the schema"),
        (message("c", None, {"id": 1, "name": "Ada"}, 9), "the one schema given is that of 7"),
        (message("x", None, {"id": 1, "name": None}), "op 'x' is none of c, r, u, d"),
        (message("t"), "truncates the table"),
        (message("c"), "no image after"),
        (message("d"), "no image before"),
    ],
)
def test_a_bad_message_is_named(bad, said):
    with pytest.raises(ChangeRecordError, match=said) as refused:
        decode(GOOD, GOOD, bad, GOOD)
    assert (refused.value.source, refused.value.record) == ("data", 2)


def test_an_error_shows_bytes_as_numbers():
    with pytest.raises(ChangeRecordError, match="it is 00 00 00 00 07 00"):
        decode(GOOD[:-1])


def test_every_prefix_of_a_message_is_refused():
    record = message("u", {"id": 1, "name": "Ada"}, {"id": 1, "name": None})
    for size in range(len(record)):
        with pytest.raises(ChangeRecordError):
            decode(record[:size])


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({8: json.dumps(PEOPLE)}, ChangeRecordError, "the id 7, and the ids given are 8"),
        ({}, ChangeRecordError, "the ids given are none"),
        ("{", InputError, "no Avro schema"),
        ('{"type": "nothing"}', InputError, "no Avro schema"),
        ('{"type": "record", "name": "a", "fields": [{"name": "b", "type": "int"}]}', InputError,
         "describes no rows.*this one has b"),
        ("missing.avsc", InputError, "'missing.avsc' cannot be read"),
        ({"seven": json.dumps(PEOPLE)}, InputError, "'seven' is none"),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_named(given, error, said):
    with pytest.raises(error, match=said):
        decode(GOOD, given=given)


def test_heartbeats_and_bounds_of_transactions_are_passed_over():
    beat = {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}
    given = {7: json.dumps(PEOPLE), 8: json.dumps(beat)}
    rows = decode(GOOD, b"\0\0\0\0\x08\x02", GOOD, given=given)
    assert rows.num_rows == 2


def test_text_of_json_needs_no_schema_and_avro_takes_none_of_it():
    with pytest.raises(ChangeRecordError, match="does not begin with a zero byte"):
        pkray.cdc.decode("{}", format="debezium-avro", schema=COLUMNS)
