"""Conditions that tables leave files out by."""

import pytest

from pkray.relational import changelog
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import Filter
from pkray.relational.sources.pushdown import pushed
from pkray.relational.sources.rows import described

COLUMNS = [
    ("a", "INT"),
    ("big", "BIGINT"),
    ("n", "DECIMAL(10, 2)"),
    ("x", "DOUBLE"),
    ("s", "STRING"),
    ("ts", "TIMESTAMP(3)"),
    ("c", "CHAR(2)"),
    ("r", "ARRAY<INT>"),
]


def condition(text):
    relation = changelog(COLUMNS)
    plan = relation.filter(text).plan
    assert isinstance(plan, Filter)
    return pushed(plan.condition, described(relation.fields))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a > 3", ("a",)),
        ("3 >= a AND s = 'x'", ("a", "s")),
        ("big = 3", ("big",)),
        ("a > 5000000000", ("a",)),
        ("n < 1.5", ("n",)),
        ("s LIKE 'a%'", ("s",)),
        ("a IN (1, 2) OR a IS NULL", ("a",)),
        ("NOT (a = 1 OR s = 'x')", ("a", "s")),
        ("ts >= TIMESTAMP_NTZ '2020-01-01 00:00:00'", ("ts",)),
    ],
)
def test_comparisons_with_constants_are_pushed_whole(text, columns):
    found = condition(text)
    assert found.predicate is not None
    assert found.predicate.columns == columns
    assert found.remaining == TRUE


@pytest.mark.parametrize(
    "text", ["a + 1 > 3", "a = big", "upper(s) = 'X'", "c = 'x'", "size(r) = 1"]
)
def test_what_files_know_nothing_of_stays(text):
    found = condition(text)
    assert found.predicate is None
    assert found.remaining != TRUE


def test_a_conjunction_is_divided():
    found = condition("a > 1 AND a + big = 3")
    assert found.predicate is not None
    assert found.predicate.columns == ("a",)
    assert found.remaining.columns() == {"a", "big"}


def test_floats_leave_files_out_and_are_checked_again():
    found = condition("x > 1.5e0")
    assert found.predicate is not None
    assert found.remaining.columns() == {"x"}
