"""Set operations against bags."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.relational.plan.nodes import Node, SetKind, SetOperation
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, counted, rows_of

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([None, 0.0, -0.0, math.nan])
    ),
    max_size=8,
)
Row = tuple[Any, ...]


def model(kind: SetKind, left: Counter[Row], right: Counter[Row], all_rows: bool) -> Counter[Row]:
    if kind is SetKind.UNION:
        found = left + right
    elif kind is SetKind.INTERSECT:
        found = left & right
    else:
        found = left - right if all_rows else Counter(set(left) - set(right))
    return found if all_rows else Counter(set(found))


@pytest.mark.parametrize("kind", list(SetKind))
@pytest.mark.parametrize("all_rows", [False, True])
@settings(max_examples=examples(40))
@given(left=ROWS, right=ROWS)
def test_rows_come_out_as_often_as_from_bags(
    kind: SetKind, all_rows: bool, left: list[Row], right: list[Row]
) -> None:
    sides = rows_of("a INT, b DOUBLE", left), rows_of("c INT, d DOUBLE", right)
    plan = SetOperation(*sides, kind, all_rows)
    assert bag(plan) == model(kind, counted(left), counted(right), all_rows)


@pytest.mark.parametrize("all_rows", [False, True])
def test_long_chains_of_unions_are_not_nested_calls(all_rows: bool) -> None:
    plan: Node = rows_of("a INT", [(0,)])
    for i in range(300):
        plan = SetOperation(plan, rows_of("a INT", [(i % 3,)]), SetKind.UNION, all_rows)
    assert sum(bag(plan).values()) == (301 if all_rows else 3)


def test_unions_of_distinct_rows_inside_unions_of_all_stay_distinct() -> None:
    twice = rows_of("a INT", [(1,), (1,)])
    inner = SetOperation(twice, twice, SetKind.UNION, False)
    assert bag(SetOperation(inner, twice, SetKind.UNION, True)) == counted([(1,), (1,), (1,)])
