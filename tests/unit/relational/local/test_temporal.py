"""Joins by time against models."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import IntervalJoin, JoinKind, TemporalJoin
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, call, col, counted, rows_of

Row = tuple[Any, ...]
SECOND = 1_000_000
TIME = st.one_of(st.none(), st.integers(-4, 4))
ROWS = st.lists(st.tuples(st.sampled_from([None, 0, 1]), TIME, st.integers(0, 3)), max_size=8)
LESS = call("less", col("v"), col("w"))


def at(second: int | None) -> datetime | None:
    return None if second is None else datetime(1970, 1, 1) + timedelta(seconds=second)


def timed(rows: list[Row]) -> list[Row]:
    return [(k, at(t), v) for k, t, v in rows]


def sides(left: list[Row], right: list[Row], precision: int = 3) -> tuple[Any, Any]:
    return (
        rows_of("k INT, t TIMESTAMP(3), v INT", timed(left)),
        rows_of(f"k INT, u TIMESTAMP({precision}), w INT", timed(right)),
    )


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
@settings(max_examples=examples(60))
@given(left=ROWS, right=ROWS, less=st.booleans(), precision=st.sampled_from([3, 9]))
def test_each_row_meets_the_last_version_that_is_not_later(
    kind: JoinKind, left: list[Row], right: list[Row], less: bool, precision: int
) -> None:
    plan = TemporalJoin(
        *sides(left, right, precision), kind, ("k",), ("k",), ("k0", "u", "w"), "t", "u",
        LESS if less else TRUE,
    )  # fmt: skip
    expected = []
    for k, t, v in left:
        versions = [
            row for row in right if None not in (k, t, row[1]) and row[0] == k and row[1] <= t
        ]
        best = max((row[1] for row in versions), default=None)
        version = [row for row in versions if row[1] == best][-1:]
        if version and less and not v < version[0][2]:
            version = []
        if version:
            expected.append((k, at(t), v, *timed(version)[0]))
        elif kind is JoinKind.LEFT:
            expected.append((k, at(t), v, None, None, None))
    assert bag(plan) == counted(expected)


def test_a_lookup_join_meets_the_rows_as_they_are() -> None:
    plan = TemporalJoin(
        *sides([(1, 0, 5), (2, 0, 6)], [(1, 9, 7)]), JoinKind.LEFT, ("k",), ("k",),
        ("k0", "u", "w"), "t", None,
    )  # fmt: skip
    assert bag(plan) == counted([(1, at(0), 5, 1, at(9), 7), (2, at(0), 6, None, None, None)])


KINDS = [
    JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40))
@given(
    left=ROWS,
    right=ROWS,
    less=st.booleans(),
    lower=st.integers(-3, 1),
    width=st.integers(0, 3),
    keyed=st.booleans(),
)
def test_rows_meet_whose_times_are_near(
    kind: JoinKind,
    left: list[Row],
    right: list[Row],
    less: bool,
    lower: int,
    width: int,
    keyed: bool,
) -> None:
    upper = lower + width
    keys = ("k",) if keyed else ()
    plan = IntervalJoin(
        *sides(left, right), kind, keys, keys, ("k0", "u", "w"), "t", "u",
        lower * SECOND, upper * SECOND, LESS if less else TRUE,
    )  # fmt: skip
    pairs = [
        (i, j)
        for i, (k, t, v) in enumerate(left)
        for j, (k0, u, w) in enumerate(right)
        if None not in (t, u)
        and (not keyed or (k == k0 and k is not None))
        and lower <= t - u <= upper
        and (not less or v < w)
    ]
    found, others, none = {i for i, _ in pairs}, {j for _, j in pairs}, (None,) * 3
    ours, theirs = timed(left), timed(right)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        expected = [row for i, row in enumerate(ours) if (i in found) == (kind is JoinKind.SEMI)]
    else:
        expected = [ours[i] + theirs[j] for i, j in pairs]
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        expected += [row + none for i, row in enumerate(ours) if i not in found]
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        expected += [none + row for j, row in enumerate(theirs) if j not in others]
    assert bag(plan) == counted(expected)
