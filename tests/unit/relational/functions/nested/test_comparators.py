"""Arrays in the order of a comparison."""

import functools
from random import Random

import pytest

from pkray.errors import EvaluationError, QueryError
from tests.unit.relational.expressions import type_of, value, values

BY_LENGTH = "array_sort(x, (l, r) -> length(l) - length(r))"
DOWNWARDS = "CASE WHEN l < r THEN 1 WHEN l > r THEN -1 ELSE 0 END"
NULLS_FIRST = (
    "CASE WHEN l IS NULL AND r IS NULL THEN 0 WHEN l IS NULL THEN -1 WHEN r IS NULL THEN 1 "
    f"ELSE {DOWNWARDS} END"
)


def test_arrays_are_sorted_by_a_comparison() -> None:
    rows = [["aaa", "b", "cc"], [], None, ["b", "a"], ["x"]]
    wanted = [["b", "cc", "aaa"], [], None, ["b", "a"], ["x"]]
    assert values(BY_LENGTH, {"x": ("ARRAY<STRING>", rows)}) == wanted
    assert type_of("array_sort(array(1), (l, r) -> l - r)") == "ARRAY<INT NOT NULL> NOT NULL"


def test_a_comparison_says_where_nulls_are() -> None:
    text = f"array_sort(array('b', 'd', null, 'c', 'a'), (l, r) -> {NULLS_FIRST})"
    assert value(text) == [None, "d", "c", "b", "a"]


def test_equal_elements_keep_their_order_in_arrays_of_any_length() -> None:
    chance = Random(3)
    rows = [[chance.randrange(100) for _ in range(chance.randrange(70))] for _ in range(50)]
    found = values(
        "array_sort(x, (l, r) -> l - l % 10 - (r - r % 10))", {"x": ("ARRAY<INT>", rows)}
    )
    order = functools.cmp_to_key(lambda left, right: left // 10 - right // 10)
    assert found == [sorted(each, key=order) for each in rows]


def test_a_comparison_reads_columns_of_its_row() -> None:
    columns = {"x": ("ARRAY<INT>", [[1, 2, 3], [1, 2, 3]]), "s": ("INT", [1, -1])}
    assert values("array_sort(x, (l, r) -> s * (l - r))", columns) == [[1, 2, 3], [3, 2, 1]]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("cast(null as int)", EvaluationError, "gives NULL"),
        ("CASE WHEN (7 * l + 5 * r) % 3 = 1 THEN 1 ELSE -1 END", EvaluationError, "contradicts"),
        ("bigint(l - r)", QueryError, "gives BIGINT"),
        ("'x'", QueryError, "gives STRING"),
    ],
)
def test_a_comparison_that_is_none_is_refused(
    body: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        value(f"array_sort(array(0, 1, 2, 3, 4, 5, 6, 7), (l, r) -> {body})")
