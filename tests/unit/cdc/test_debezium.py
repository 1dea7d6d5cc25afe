"""Debezium's events as its documentation shows them, and what is none."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import pkray.cdc
from pkray.cdc.decoder import ChangeFormat, Decoder, Records
from pkray.cdc.row_changes import Target
from pkray.errors import ChangeRecordError, OptionError
from pkray.schema.table_schema import TableSchema

CUSTOMERS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("first_name", pa.string(), nullable=False),
        pa.field("last_name", pa.string(), nullable=False),
        pa.field("email", pa.string(), nullable=False),
    ]
)
ANNE = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
FIELDS = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": False, "field": "first_name"},
    {"type": "string", "optional": False, "field": "last_name"},
    {"type": "string", "optional": False, "field": "email"},
]
VALUE = {"type": "struct", "fields": FIELDS, "optional": True, "name": "PostgreSQL_server.Value"}
SCHEMA = {
    "type": "struct",
    "fields": [
        {**VALUE, "field": "before"},
        {**VALUE, "field": "after"},
        {
            "type": "struct",
            "fields": [
                {"type": "string", "optional": False, "field": "version"},
                {"type": "int64", "optional": True, "field": "lsn"},
            ],
            "optional": False,
            "name": "io.debezium.connector.postgresql.Source",
            "field": "source",
        },
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
    "optional": False,
    "name": "PostgreSQL_server.inventory.customers.Envelope",
}
SOURCE = {
    "version": "3.6.3.Final",
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "ts_ms": 1559033904863,
    "snapshot": True,
    "db": "postgres",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}


def event(op: str | None, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": SOURCE,
        "op": op,
        "ts_ms": 1559033904863,
        **more,
    }


def decode(*records: Any, schema: Any = CUSTOMERS, **how: Any) -> list[dict[str, Any]]:
    texts = [each if isinstance(each, str | None) else json.dumps(each) for each in records]
    return pkray.cdc.decode(texts, format="debezium-json", schema=schema, **how).to_pylist()


def with_schema(payload: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "payload": payload}


@pytest.mark.parametrize("envelope", [dict, with_schema])
def test_the_events_of_the_postgres_connector_s_documentation(envelope):
    renamed = {**ANNE, "first_name": "Anne Marie"}
    records = (
        envelope(event("c", None, ANNE)),
        envelope(event("u", {"id": 1, "first_name": "", "last_name": "", "email": ""}, renamed)),
        envelope(event("d", renamed, None)),
        None,
    )
    assert decode(*records) == [
        {**ANNE, "_row_kind": "+I"},
        {"id": 1, "first_name": "", "last_name": "", "email": "", "_row_kind": "-U"},
        {**renamed, "_row_kind": "+U"},
        {**renamed, "_row_kind": "-D"},
    ]


def test_a_snapshot_s_rows_are_inserts():
    assert decode(event("r", None, ANNE)) == [{**ANNE, "_row_kind": "+I"}]


def test_an_update_without_an_image_before_is_the_row_after_alone():
    assert decode(event("u", None, ANNE)) == [{**ANNE, "_row_kind": "+U"}]


def test_an_update_that_changes_the_key_is_a_delete_and_an_insert():
    schema = TableSchema.create(CUSTOMERS, primary_keys=["id"])
    moved = {**ANNE, "id": 2}
    kinds = [
        (row["id"], row["_row_kind"]) for row in decode(event("u", ANNE, moved), schema=schema)
    ]
    assert kinds == [(1, "-D"), (2, "+I")]


def test_a_delete_brings_the_key_alone():
    schema = TableSchema.create(CUSTOMERS, primary_keys=["id"])
    nothing = {"first_name": "", "last_name": "", "email": ""}
    assert decode(event("d", {"id": 1}, None), schema=schema) == [
        {"id": 1, **nothing, "_row_kind": "-D"}
    ]


def test_a_delete_without_its_sequence_is_bad():
    options = {"sequence.field": "email"}
    columns = [("id", "INT"), ("email", "STRING")]
    schema = TableSchema.create(columns, primary_keys=["id"], options=options)
    with pytest.raises(ChangeRecordError, match=r"'email', the table's sequence\.field"):
        decode(event("d", {"id": 1, "email": None}, None), schema=schema)


@pytest.mark.parametrize(
    "passed_over",
    [
        None,
        "",
        "null",
        {"ts_ms": 1559033904863},
        with_schema(None),
        {"schema": None, "payload": None},
        {"schema": {"type": "struct", "fields": [{"type": "int64", "field": "ts_ms"}],
                    "name": "io.debezium.connector.common.Heartbeat"},
         "payload": {"ts_ms": 1}},
        {"status": "BEGIN", "id": "571", "event_count": None, "ts_ms": 1},
        event("m", message={"transactional": True, "prefix": "p", "content": "aGk="}),
    ],
)  # fmt: skip
def test_tombstones_heartbeats_and_messages_are_passed_over(passed_over):
    assert decode(passed_over, event("c", None, ANNE)) == [{**ANNE, "_row_kind": "+I"}]


def test_metadata_become_columns():
    schema = pa.schema(
        [
            *CUSTOMERS,
            pa.field("lsn", pa.int64()),
            pa.field("at", pa.timestamp("ms", "UTC")),
            pa.field("sequence", pa.string()),
        ]
    )
    metadata = {"lsn": "source.lsn", "at": "ts_ms", "sequence": "source.sequence"}
    [row] = decode(event("c", None, ANNE), schema=schema, metadata=metadata)
    assert row["lsn"] == 24023128
    assert row["at"] == datetime(2019, 5, 28, 8, 58, 24, 863000, UTC)
    assert row["sequence"] == '["24023119","24023128"]'


def test_records_of_two_schemas_follow_each_other():
    narrow = json.loads(json.dumps(SCHEMA).replace('"int32"', '"int16"'))
    records = [
        with_schema(event("c", None, ANNE)),
        {"schema": narrow, "payload": event("r", None, ANNE)},
    ]
    assert [row["id"] for row in decode(*records, *records)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"before":null,"after":{"id":1', "from { to }"),
        ('{"before":null,"after":{"id":1}', "Missing a comma"),
        ('{"op":"c"}{"op":"c"}', "several JSON objects"),
        ('{"op":"c","op":"d"}', "specified twice"),
        ("[]", "no JSON object"),
        (r'{"op":"c","after":{"first_name":"\ud800"}}', "surrogate"),
        (b'{"op":"c","after":{"id":"\xff"}}', "UTF8"),
        (event("x", None, ANNE), "op 'x'"),
        (event(None, None, ANNE), "no op"),
        (event("t"), "truncates"),
        (event("c", ANNE, None), "no image after"),
        (event("d", None, None), "no image before"),
        (event("c", None, {**ANNE, "id": None}), "'id' is null"),
        (event("c", None, {**ANNE, "age": 5}), "'age' is not in the table"),
        (event("c", None, {"id": 1}), "lacks column 'first_name'"),
        (event("c", None, [ANNE]), "changed from object to array"),
        (with_schema(event("c", None, {**ANNE, "id": "1"})), "changed from number to string"),
        ({"schema": {"type": "int64"}, "payload": event("c", None, ANNE)}, "describes no rows"),
    ],
)
def test_a_bad_record_is_named(bad, reason):
    good = json.dumps(event("c", None, ANNE))
    text = bad if isinstance(bad, bytes | str) else json.dumps(bad)
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    with pytest.raises(ChangeRecordError, match="data record 5: ") as refused:
        pkray.cdc.decode([good] * 5 + [text] + [good] * 3, format="debezium-json", schema=CUSTOMERS)
    assert reason in refused.value.reason
    assert refused.value.record == 5


def test_new_columns_are_taken_with_the_schema_s_types():
    schema = TableSchema.create(CUSTOMERS, primary_keys=["id"])
    price = {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
        "field": "price",
    }
    wide = json.loads(json.dumps(SCHEMA))
    for image in wide["fields"][:2]:
        image["fields"].append(price)
    old, new = event("c", None, ANNE), event("r", None, {**ANNE, "price": "AQ=="})
    records = [json.dumps(with_schema(old)), json.dumps({"schema": wide, "payload": new})]
    rows = pkray.cdc.decode(records, format="debezium-json", schema=schema, new_columns="add")
    assert rows.schema.field("price").type == pa.decimal128(9, 2)
    assert [str(each) for each in rows.column("price").to_pylist()] == ["None", "0.01"]


def test_new_columns_without_a_schema_are_of_the_values_types():
    more = {**ANNE, "n": 1, "x": 0.5, "s": "2020-01-01", "b": True}
    texts = [json.dumps(event("c", None, each)) for each in (ANNE, more)]
    rows = pkray.cdc.decode(texts, format="debezium-json", schema=CUSTOMERS, new_columns="add")
    kinds = [str(rows.schema.field(name).type) for name in ("n", "x", "s", "b")]
    assert kinds == ["int64", "double", "string", "bool"]
    assert rows.select(["n", "s"]).to_pylist() == [
        {"n": None, "s": None},
        {"n": 1, "s": "2020-01-01"},
    ]


def test_a_new_column_without_a_schema_is_added_with_its_first_value():
    """Nulls alone show no type: a number that follows them is one, in a later batch too."""
    target = Target.from_schema(CUSTOMERS, may_lack=True)
    decoder = Decoder(ChangeFormat.debezium_json, target, new_columns="add")
    for n, columns in ((None, []), (1, ["n"]), (None, ["n"])):
        texts = pa.array([json.dumps(event("c", None, {**ANNE, "n": n}))], pa.large_binary())
        rows = decoder.decode(Records(texts, "stream")).rows
        assert [*decoder.target.columns][len(CUSTOMERS) :] == columns
        assert [rows.column(name).to_pylist() for name in columns] == [[n] for _ in columns]


@pytest.mark.timeout(60)
def test_new_columns_of_events_with_and_without_a_schema_in_one_batch_are_all_taken():
    """One part's nulls say nothing of the same column, or of another, in a later part."""
    rows = [{**ANNE, "n": None}, ANNE, {**ANNE, "n": 5, "m": None}, ANNE, {**ANNE, "m": 7}]
    texts = [
        json.dumps({"schema": SCHEMA if row is ANNE else None, "payload": event("c", None, row)})
        for row in rows
    ]
    found = pkray.cdc.decode(texts, format="debezium-json", schema=CUSTOMERS, new_columns="add")
    assert found.column("n").to_pylist() == [row.get("n") for row in rows]
    assert found.column("m").to_pylist() == [row.get("m") for row in rows]


UNAVAILABLE = "__debezium_unavailable_value"


def test_a_value_that_is_not_available_makes_the_event_bad():
    with pytest.raises(ChangeRecordError, match="does not bring column 'email'"):
        decode(event("u", None, {**ANNE, "email": UNAVAILABLE}))


def test_a_value_that_is_not_available_is_null_if_asked_for():
    schema = pa.schema([pa.field("id", pa.int32()), ("text", pa.string()), ("raw", pa.binary()),
                        ("list", pa.list_(pa.string()))])  # fmt: skip
    marker = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    after = {"id": 1, "text": UNAVAILABLE, "raw": marker, "list": [UNAVAILABLE]}
    rows = decode(event("u", None, after), schema=schema, unavailable="null")
    assert rows == [{"id": 1, "text": None, "raw": None, "list": None, "_row_kind": "+U"}]


def test_values_that_are_not_available_are_not_marked_in_rows():
    with pytest.raises(OptionError, match="unavailable = 'mark'"):
        decode(event("c", None, ANNE), unavailable="mark")


def test_a_value_that_is_not_available_is_that_of_the_image_before():
    rows = decode(event("u", ANNE, {**ANNE, "first_name": "A.", "email": UNAVAILABLE}))
    assert rows[1] == {**ANNE, "first_name": "A.", "_row_kind": "+U"}
