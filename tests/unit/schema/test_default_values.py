"""Default values as options write them: what they are, and what is none."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.default_values import default_value
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType

VALUES: list[tuple[str, str, Any]] = [
    ("INT", "7.9", 7),
    ("INT", ".5", 0),
    ("FLOAT", "1e3", 1000.0),
    ("DECIMAL(5, 2)", "1.005", Decimal("1.01")),
    ("CHAR(3)", "a", "a  "),
    ("VARCHAR(3)", "abcd", "abc"),
    ("BINARY(3)", "a", b"a\0\0"),
    ("BOOLEAN", "Yes", True),
    ("DATE", "2024-1-5", dt.date(2024, 1, 5)),
    ("TIME(3)", "12:30:00.5", dt.time(12, 30, 0, 500_000)),
    ("TIMESTAMP(1)", "2024-01-05 10:00:00.99", dt.datetime(2024, 1, 5, 10, 0, 0, 900_000)),
    ("TIMESTAMP(3)", "2024-01-05", dt.datetime(2024, 1, 5)),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_text_becomes_a_value(kind: str, text: str, value: Any) -> None:
    data_type = DataType.parse(kind)
    found = default_value(text, data_type, "c")
    assert found.as_py() == value
    assert found.type == data_type.arrow


REFUSED = [
    ("INT", "x"),
    ("INT", ""),
    ("TINYINT", "300"),
    ("DECIMAL(3, 1)", "1000"),
    ("FLOAT", "inf"),
    ("BOOLEAN", "maybe"),
    ("DATE", "2024-02-30"),
    ("TIME", "25:00"),
    ("TIMESTAMP(3)", "2024-01-05T10:00:00"),
]


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_text_that_is_no_value_of_the_column(kind: str, text: str) -> None:
    options = {"fields.v.default-value": text}
    with pytest.raises(SchemaError, match=r"fields\.v\.default-value"):
        TableSchema.create([("k", "INT"), ("v", kind)], ["k"], [], options)


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "TIMESTAMP_LTZ(3)"])
def test_types_without_defaults(kind: str) -> None:
    with pytest.raises(UnsupportedError, match=r"fields\.c\.default-value"):
        default_value("1", DataType.parse(kind), "c")
