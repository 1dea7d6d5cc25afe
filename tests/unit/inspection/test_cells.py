"""Values as a browser gets them."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from pkray.inspection import cells


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (2**53, "9007199254740992"),
        (-(2**60), "-1152921504606846976"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Decimal("1.50"), "1.50"),
        (b"\x01\xff", "01ff"),
        ("<b>", "<b>"),
        ([1, None], "[1, NULL]"),
        ({"a": 1, "b": "x"}, "{a: 1, b: x}"),
        ([("k", 1)], "[k: 1]"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_a_value_is_what_json_has_or_text(value, shown):
    assert cells.cell(value) == shown


def test_a_long_text_is_cut_and_says_so():
    assert cells.cell("x" * 5000).endswith("… (5,000 characters)")


def test_rows_are_lists_in_the_order_of_columns():
    data = pa.table({"a": [1, 2], "b": ["x", None]})
    assert cells.rows_of(data) == [[1, "x"], [2, None]]
    assert cells.columns_of(data.schema) == [
        {"name": "a", "type": "int64"},
        {"name": "b", "type": "string"},
    ]


def test_columns_of_the_same_name_are_both_there():
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert cells.rows_of(data) == [[1, 2]]


def test_times_beyond_pythons_are_text():
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    ((shown,),) = cells.rows_of(pa.table({"t": far}))
    assert isinstance(shown, str)


def test_nanoseconds_are_kept():
    data = pa.table({"t": pa.array([1_000_000_001], pa.timestamp("ns"))})
    assert cells.rows_of(data) == [["1970-01-01 00:00:01.000000001"]]
