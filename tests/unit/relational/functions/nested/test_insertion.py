"""Functions that put values into arrays and cut parts out of them, by place."""

from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational.dialect import Dialect
from tests.unit.relational.expressions import type_of, value, values


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("array('a', 'b'), 3, 'e'", ["a", "b", "e"]),
        ("array(5, 4, 3, 2), -1, 1", [5, 4, 3, 2, 1]),
        ("array(5, 4, 3, 2), -4, 1", [5, 1, 4, 3, 2]),
        ("array(5, 4, 3, 2), -7, 1", [1, None, None, 5, 4, 3, 2]),
        ("array(5, 4, 3, 2), 7, 1", [5, 4, 3, 2, None, None, 1]),
        ("array(1, 2), 1, cast(null as int)", [None, 1, 2]),
        ("array(1, 2), 1, null", [None, 1, 2]),
        ("array(1, 2), cast(null as int), 3", None),
        ("cast(null as array<int>), 1, 3", None),
        ("array(1, 2), 1, 3L", [3, 1, 2]),
    ],
)
def test_a_value_is_put_into_an_array(arguments: str, expected: Any) -> None:
    assert value(f"array_insert({arguments})") == expected


def test_values_are_put_into_arrays_of_a_column() -> None:
    columns = {
        "x": ("ARRAY<INT>", [[1, 2], [], None, [7], [8, 9]]),
        "p": ("INT", [1, 2, 1, None, -2]),
    }
    wanted = [[0, 1, 2], [None, 0], None, None, [8, 0, 9]]
    assert values("array_insert(x, p, 0)", columns) == wanted
    assert type_of("array_insert(array(1), 1, 2)") == "ARRAY<INT> NOT NULL"


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("0", EvaluationError, "no place 0"),
        ("2000000000", EvaluationError, "2000000000, 1. makes a value"),
        ("1L", QueryError, "it takes an INT"),
        ("'1'", QueryError, "it takes an INT"),
    ],
)
def test_a_place_that_is_none_is_refused(place: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        value(f"array_insert(array(1), {place}, 1)")


def test_a_null_is_put_into_no_place_either() -> None:
    with pytest.raises(EvaluationError, match="no place 0"):
        value("array_insert(array(1), 0, CAST(NULL AS INT))")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("2, 3", [2, 3]),
        ("0", [1, 2, 3, 4]),
        ("-2", [3, 4]),
        ("-3, -2", [2, 3]),
        ("3, 2", []),
        ("5, 9", []),
        ("-9, 2", [1, 2]),
        ("CAST(NULL AS INT)", None),
    ],
)
def test_flink_cuts_a_part_out_by_its_ends(arguments: str, expected: Any) -> None:
    assert value(f"array_slice(ARRAY[1, 2, 3, 4], {arguments})", Dialect.FLINK) == expected
