"""Rows of one schema as another schema of the table has them."""

import dataclasses
import datetime
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from pkray.errors import SchemaChangedError, UnsupportedError
from pkray.schema.changes import AddColumn, ChangeType, DropColumn, MoveColumn, RenameColumn
from pkray.schema.row_schema_adapter import RowSchemaAdapter
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType


def schema_of(*columns) -> TableSchema:
    return TableSchema.create([("id", "INT"), *columns], ["id"])


def evolved(old: TableSchema, rows: list[dict], *changes) -> list[dict]:
    new = apply_changes(old, changes, has_snapshots=True, now_millis=0)
    batch = pa.RecordBatch.from_pylist(rows, old.arrow_schema)
    found = RowSchemaAdapter(old, new).apply(batch, new.names)
    found.validate(full=True)
    assert found.schema.equals(new.arrow_schema)
    return found.to_pylist()


def test_columns_are_matched_by_id():
    old = schema_of(("a", "INT"), ("b", "STRING"), ("c", "INT"))
    assert evolved(
        old,
        [{"id": 1, "a": 2, "b": "x", "c": 3}],
        RenameColumn("a", "t"),
        RenameColumn("c", "a"),
        DropColumn("b"),
        AddColumn("b", "STRING"),
        MoveColumn("t", first=True),
    ) == [{"t": 2, "id": 1, "a": 3, "b": None}]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("TINYINT", "BIGINT", -5, -5),
        ("INT", "DOUBLE", 7, 7.0),
        ("FLOAT", "DOUBLE", 0.5, 0.5),
        ("INT", "DECIMAL(12, 2)", -3, Decimal("-3.00")),
        ("BIGINT", "DECIMAL(38, 10)", 2**63 - 1, Decimal("9223372036854775807.0000000000")),
        ("DECIMAL(4, 1)", "DECIMAL(30, 3)", Decimal("1.5"), Decimal("1.500")),
        ("CHAR(2)", "STRING", "ab", "ab"),
        ("BINARY(2)", "BYTES", b"ab", b"ab"),
        ("DATE", "TIMESTAMP(6)", datetime.date(1969, 5, 1), datetime.datetime(1969, 5, 1)),
        (
            "TIMESTAMP(3)",
            "TIMESTAMP(6)",
            datetime.datetime(1969, 5, 1, 1, 2, 3, 4000),
            datetime.datetime(1969, 5, 1, 1, 2, 3, 4000),
        ),
        ("ARRAY<INT>", "ARRAY<BIGINT>", [1, None], [1, None]),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", [("k", 1)], [("k", 1)]),
    ],
)
def test_values_of_a_wider_type_are_the_same(old, new, value, expected):
    rows = [{"id": 1, "v": value}, {"id": 2, "v": None}]
    found = evolved(schema_of(("v", old)), rows, ChangeType("v", new))
    assert [row["v"] for row in found] == [expected, None]


def test_fields_of_rows_are_matched_by_id():
    old = schema_of(
        ("r", "ROW<x INT, y STRING>"),
        ("l", "ARRAY<ROW<p INT, q INT>>"),
        ("m", "MAP<STRING, ROW<s INT>>"),
    )
    rows = [
        {"id": 1, "r": None, "l": None, "m": None},
        {"id": 2, "r": {"x": 1, "y": "a"}, "l": [{"p": 1, "q": 2}, None], "m": [("k", {"s": 1})]},
        {"id": 3, "r": {"x": None, "y": "b"}, "l": [], "m": [("k", None), ("j", {"s": 2})]},
    ]
    changes = (
        RenameColumn("r.x", "xx"),
        ChangeType("r.xx", "BIGINT"),
        AddColumn("r.z", "INT", first=True),
        DropColumn("l.q"),
        AddColumn("l.q", "STRING"),
        RenameColumn("m.s", "t"),
    )
    expected = [
        {"id": 1, "r": None, "l": None, "m": None},
        {
            "id": 2,
            "r": {"z": None, "xx": 1, "y": "a"},
            "l": [{"p": 1, "q": None}, None],
            "m": [("k", {"t": 1})],
        },
        {
            "id": 3,
            "r": {"z": None, "xx": None, "y": "b"},
            "l": [],
            "m": [("k", None), ("j", {"t": 2})],
        },
    ]
    assert evolved(old, rows, *changes) == expected
    new = apply_changes(old, changes, has_snapshots=True, now_millis=0)
    for start in range(3):
        piece = pa.RecordBatch.from_pylist(rows, old.arrow_schema).slice(start)
        assert RowSchemaAdapter(old, new).apply(piece, new.names).to_pylist() == expected[start:]


def test_an_evolution_between_equal_columns_is_none():
    old = schema_of(("a", "INT"), ("b", "INT"))
    for changes in ([MoveColumn("b", first=True)], [DropColumn("a")]):
        new = apply_changes(old, changes, has_snapshots=True, now_millis=0)
        assert RowSchemaAdapter(old, new).is_identity()
    new = apply_changes(
        old, [DropColumn("a"), AddColumn("a", "INT")], has_snapshots=True, now_millis=0
    )
    assert not RowSchemaAdapter(old, new).is_identity()
    assert RowSchemaAdapter(old, new).is_identity(["id", "b"])


def test_system_columns_stay():
    old = schema_of(("a", "INT"))
    new = apply_changes(old, [RenameColumn("a", "b")], has_snapshots=True, now_millis=0)
    evolution = RowSchemaAdapter(old, new)
    assert evolution.sources(["_SEQUENCE_NUMBER", "b"]) == ["_SEQUENCE_NUMBER", "a"]
    batch = pa.RecordBatch.from_pydict({"_SEQUENCE_NUMBER": [4], "a": pa.array([1], pa.int32())})
    found = evolution.apply(batch, ["b", "_SEQUENCE_NUMBER"])
    assert found.to_pylist() == [{"b": 1, "_SEQUENCE_NUMBER": 4}]


def retyped(schema: TableSchema, column: str, data_type: str) -> TableSchema:
    """As other engines may do it; pkray refuses."""
    new = DataType.parse(data_type)
    fields = tuple(
        dataclasses.replace(field, type=new) if field.name == column else field
        for field in schema.fields
    )
    return dataclasses.replace(schema, id=schema.id + 1, fields=fields)


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("BIGINT", "INT", 2**32 + 5, 5),
        ("INT", "TINYINT", 200, -56),
        ("DOUBLE", "FLOAT", 0.1, pa.scalar(0.1, pa.float32()).as_py()),
        ("BIGINT", "DOUBLE", 2**53 + 1, float(2**53)),
        ("INT", "STRING", -12, "-12"),
        ("BOOLEAN", "STRING", True, "true"),
        ("DATE", "STRING", datetime.date(2024, 2, 3), "2024-02-03"),
        ("STRING", "VARCHAR(2)", "äbc", "äb"),
    ],
)
def test_narrowing_by_another_engine_is_read_as_it_reads_it(old, new, value, expected):
    before = schema_of(("v", old))
    after = retyped(before, "v", new)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "v": value}], before.arrow_schema)
    assert RowSchemaAdapter(before, after).apply(batch, ["v"]).to_pylist() == [{"v": expected}]


@pytest.mark.parametrize(
    ("old", "new"), [("STRING", "INT"), ("TIMESTAMP(6)", "DATE"), ("DOUBLE", "BIGINT")]
)
def test_what_does_not_convert_is_named_when_it_is_asked_for(old, new):
    before = schema_of(("v", old))
    evolution = RowSchemaAdapter(before, retyped(before, "v", new))
    assert evolution.sources(["id"]) == ["id"]
    with pytest.raises(UnsupportedError, match=re.escape(f"'v' was {old}")):
        evolution.sources(["v"])


def test_a_reader_that_is_out_of_date_is_told_so():
    old = schema_of(("v", "INT"))
    new = apply_changes(old, [ChangeType("v", "BIGINT")], has_snapshots=True, now_millis=0)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "v": 2**40}], new.arrow_schema)
    with pytest.raises(SchemaChangedError, match=r"'v' is BIGINT now.*load the table again"):
        RowSchemaAdapter(new, old).apply(batch, ["id", "v"])
    small = pa.RecordBatch.from_pylist([{"id": 1, "v": 5}], new.arrow_schema)
    assert RowSchemaAdapter(new, old).apply(small, ["v"]).to_pylist() == [{"v": 5}]
