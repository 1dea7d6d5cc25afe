"""When constants are the same."""

import math
from typing import Any

import pytest

from pkray.relational.plan.expressions import Literal
from pkray.schema.types import DataType

DOUBLE, DOUBLES = DataType("DOUBLE"), DataType.parse("ARRAY<DOUBLE>")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DOUBLES, [1.0, None]),
        (DataType.parse("ROW<a INT>"), {"a": 1}),
        (DataType.parse("MAP<STRING, INT>"), [("a", 1)]),
        (DOUBLE, math.nan),
    ],
)
def test_equal_constants_of_every_kind_are_one(kind: DataType, value: Any) -> None:
    assert len({Literal(kind, value), Literal(kind, value)}) == 1


@pytest.mark.parametrize(
    ("kind", "one", "other"), [(DOUBLE, 0.0, -0.0), (DOUBLES, [0.0], [-0.0]), (DOUBLE, 1.0, None)]
)
def test_constants_that_something_tells_apart_are_two(kind: DataType, one: Any, other: Any) -> None:
    assert len({Literal(kind, one), Literal(kind, other)}) == 2
