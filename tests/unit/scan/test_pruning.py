"""Which files a filter leaves out by their statistics."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.scan.conditions import Statistics
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema

SCHEMA = TableSchema.create(
    [("id", "INT"), ("name", "STRING"), ("price", "DOUBLE"), ("ok", "BOOLEAN"), ("day", "DATE")],
    ["id"],
)


def kept(text: str, column: str, *files: tuple[Any, Any, int]) -> list[bool]:
    """``files``: least, greatest and count of nulls of ten rows each."""
    arrow = SCHEMA.field(column).type.arrow
    least, greatest, nulls = zip(*files, strict=True)
    statistics = Statistics(
        {column: pa.array(least, arrow)},
        {column: pa.array(greatest, arrow)},
        {column: np.array(nulls)},
        np.full(len(files), 10),
    )
    return Predicate.parse(text, SCHEMA).condition.may_match(statistics).tolist()


LOW, HIGH, ALL_NULL, UNKNOWN = (1, 5, 0), (6, 9, 2), (None, None, 10), (None, None, -1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", [True, False, False, True]),
        ("id = 20", [False, False, False, True]),
        ("id < 6", [True, False, False, True]),
        ("id <= 6", [True, True, False, True]),
        ("id > 5", [False, True, False, True]),
        ("id >= 5", [True, True, False, True]),
        ("id IN (0, 7, 20)", [False, True, False, True]),
        ("id IN (3, 8)", [True, True, False, True]),
        ("id NOT IN (3)", [True, True, False, True]),
        ("id BETWEEN 10 AND 20", [False, False, False, True]),
        ("id IS NULL", [False, True, True, True]),
        ("id IS NOT NULL", [True, True, False, True]),
        ("id = 1 AND id = 9", [False, False, False, True]),
        ("id = 1 OR id = 9", [True, True, False, True]),
        ("FALSE", [False, False, False, False]),
        ("name = 'x'", [True, True, True, True]),
    ],
)
def test_ranges_and_nulls(text: str, expected: list[bool]) -> None:
    assert kept(text, "id", LOW, HIGH, ALL_NULL, UNKNOWN) == expected


def test_a_file_of_one_value_is_left_out_by_not_equal() -> None:
    assert kept("id <> 4", "id", (4, 4, 0), (4, 5, 0)) == [False, True]


def test_text_by_prefix() -> None:
    files = (("apple", "banana", 0), ("cat", "dog", 0), ("a", "b", 0), (None, "zz", 0))
    assert kept("name LIKE 'c%'", "name", *files) == [False, True, False, True]
    assert kept("name LIKE 'ban_na%'", "name", *files) == [True, False, False, True]
    assert kept("name LIKE '%c'", "name", *files) == [True, True, True, True]
    assert kept("name ILIKE 'c%'", "name", *files) == [True, True, True, True]
    assert kept("name IN ('b', 'e')", "name", *files) == [True, False, True, True]


def test_bounds_of_floats_say_nothing_of_nan() -> None:
    nan = float("nan")
    files = ((1.0, 2.0, 0), (nan, nan, 0))
    assert kept("price > 5", "price", *files) == [True, True]
    assert kept("price < 1", "price", *files) == [False, True]
    assert kept("price = 5", "price", *files) == [False, True]
    assert kept("price <> 1", "price", (1.0, 1.0, 0)) == [True]
    assert kept("price = DOUBLE('NaN')", "price", *files) == [True, True]


def test_booleans_and_dates() -> None:
    assert kept("ok", "ok", (False, False, 0), (False, True, 0)) == [False, True]
    assert kept("ok IN (TRUE)", "ok", (False, False, 0), (True, True, 0)) == [False, True]
    assert kept("day IN ('1970-01-05', '1970-01-20')", "day", (0, 3, 0), (2, 9, 0)) == [False, True]


def test_an_expression_prunes_nothing() -> None:
    import pyarrow.compute as pc

    predicate = Predicate.parse(pc.field("id") > 100, SCHEMA)
    least = {"id": pa.array([1], pa.int32())}
    statistics = Statistics(least, least, {"id": np.array([0])}, np.array([1]))
    assert predicate.condition.may_match(statistics).tolist() == [True]
