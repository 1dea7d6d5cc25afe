"""Joins against a model that looks at every pair of rows."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import EvaluationError
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.nodes import Join, JoinKind, Node
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, call, col, counted, result, rows_of

SMALL = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=7)
LEFT, RIGHT = "k INT, j INT, v INT", "k INT, j INT, w INT"
NAMES = ("k0", "j0", "w")
LESS = call("less", col("v"), col("w"))
Row = tuple[Any, ...]


@pytest.fixture(autouse=True, params=["pieces", "whole"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pieces":
        for name, rows in (("PROBE", 3), ("BLOCK", 4), ("INDEXED", 2)):
            monkeypatch.setattr(f"pkray.relational.local.joins.{name}_ROWS", rows)
        for name, rows in (("JOINED", 3), ("LEAST", 2)):
            monkeypatch.setattr(f"pkray.relational.local.pairs.{name}_ROWS", rows)


def joined(
    kind: JoinKind,
    left: list[Row],
    right: list[Row],
    keys: int,
    condition: Expression = TRUE,
    null_safe: tuple[bool, ...] = (),
    null_aware: bool = False,
) -> Join:
    names = ("k", "j")[:keys]
    return Join(
        rows_of(LEFT, left),
        rows_of(RIGHT, right),
        kind,
        names,
        names,
        NAMES,
        condition,
        null_safe,
        null_aware,
        "m" if kind is JoinKind.MARK else None,
    )


def holds(left: Row, right: Row, keys: int, less: bool, null_safe: tuple[bool, ...]) -> bool:
    for i in range(keys):
        safe = bool(null_safe) and null_safe[i]
        if left[i] != right[i] or (left[i] is None and not safe):
            return False
    return not less or (left[2] is not None and right[2] is not None and left[2] < right[2])


def model(
    kind: JoinKind,
    left: list[Row],
    right: list[Row],
    keys: int,
    less: bool,
    null_safe: tuple[bool, ...] = (),
) -> list[Row]:
    """Say what a join gives, row by row."""
    pairs = [
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if holds(a, b, keys, less, null_safe)
    ]
    found, others = {i for i, _ in pairs}, {j for _, j in pairs}
    if kind is JoinKind.SEMI:
        return [row for i, row in enumerate(left) if i in found]
    if kind is JoinKind.ANTI:
        return [row for i, row in enumerate(left) if i not in found]
    if kind is JoinKind.MARK:
        return [(*row, i in found) for i, row in enumerate(left)]
    rows = [left[i] + right[j] for i, j in pairs]
    none = (None,) * 3
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        rows += [row + none for i, row in enumerate(left) if i not in found]
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        rows += [none + row for j, row in enumerate(right) if j not in others]
    return rows


KINDS = [kind for kind in JoinKind if kind is not JoinKind.SINGLE]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30))
@given(left=ROWS, right=ROWS, keys=st.integers(0, 2), less=st.booleans(), safe=st.booleans())
def test_each_kind_gives_what_a_look_at_every_pair_gives(
    kind: JoinKind, left: list[Row], right: list[Row], keys: int, less: bool, safe: bool
) -> None:
    null_safe = (safe, not safe)[:keys]
    plan = joined(kind, left, right, keys, LESS if less else TRUE, null_safe)
    assert bag(plan) == counted(model(kind, left, right, keys, less, null_safe))


def in_values(value: Any, values: list[Any]) -> bool | None:
    """Compare as IN does."""
    if value is not None and value in values:
        return True
    return None if values and (value is None or None in values) else False


@settings(max_examples=examples(30))
@given(left=ROWS, right=ROWS, keys=st.integers(1, 2), less=st.booleans())
def test_in_and_not_in_are_unknown_beside_nulls(
    left: list[Row], right: list[Row], keys: int, less: bool
) -> None:
    def of(row: Row) -> list[Any]:
        inner = [("x", *row[1:]), *(("x", *other[1:]) for other in right)]
        return [
            other[0]
            for other, plain in zip(right, inner[1:], strict=True)
            if holds(inner[0], plain, keys, less, ())
        ]

    condition = LESS if less else TRUE
    marked = [(*row, in_values(row[0], of(row))) for row in left]
    mark = joined(JoinKind.MARK, left, right, keys, condition, null_aware=True)
    assert bag(mark) == counted(marked)
    anti = joined(JoinKind.ANTI, left, right, keys, condition, null_aware=True)
    assert bag(anti) == counted(row[:3] for row in marked if row[3] is False)


def test_a_single_join_gives_the_value_or_null() -> None:
    plan = joined(JoinKind.SINGLE, [(1, 0, 0), (2, 0, 0)], [(1, 5, 6)], 1)
    assert bag(plan) == counted([(1, 0, 0, 1, 5, 6), (2, 0, 0, None, None, None)])


@pytest.mark.parametrize("keys", [0, 1])
def test_a_single_join_refuses_two_rows_for_one(keys: int) -> None:
    plan = joined(JoinKind.SINGLE, [(1, 0, 0)], [(1, 5, 6), (1, 7, 8)], keys)
    with pytest.raises(
        EvaluationError, match=r"more than one row.*; it does for the row with k = 1, j = 0, v = 0"
    ):
        result(plan)


def nested(kind: JoinKind, condition: Expression = TRUE) -> Node:
    left = rows_of(
        "k ARRAY<INT>, a ARRAY<INT>, v INT", [([1], [9], 1), ([None], None, 2), (None, [], 3)]
    )
    right = rows_of("k ARRAY<INT>, b ARRAY<INT>, w INT", [([1], [7], 5), ([None], [8], 1)])
    return Join(left, right, kind, ("k",), ("k",), ("k0", "b", "w"), condition)


def test_keys_and_columns_may_be_nested() -> None:
    assert bag(nested(JoinKind.LEFT)) == counted(
        [
            ([1], [9], 1, [1], [7], 5),
            ([None], None, 2, [None], [8], 1),
            (None, [], 3, None, None, None),
        ]
    )
    assert bag(nested(JoinKind.SEMI)) == counted([([1], [9], 1), ([None], None, 2)])
    assert bag(nested(JoinKind.INNER, LESS)) == counted([([1], [9], 1, [1], [7], 5)])


def test_sides_without_columns_are_paired() -> None:
    left, right = rows_of("a INT", [(1,), (2,)]), rows_of("b INT", [(3,), (4,), (5,)])
    empty = [type(each)(each.source, ()) for each in (left, right)]
    assert len(result(Join(*empty, JoinKind.INNER, (), (), ()))) == 6
