"""Sorts, first rows and deduplication."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.relational.plan.expressions import SortKey
from pkray.relational.plan.nodes import Deduplicate, Limit, Sort, TopN
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, counted, result, rows_of

Row = tuple[Any, ...]
SMALL = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(st.tuples(SMALL, SMALL), max_size=15).map(
    lambda rows: [(*row, i) for i, row in enumerate(rows)]
)
COLUMNS = "k INT, v INT, n INT"


@pytest.fixture(autouse=True)
def few_rows_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkray.relational.local.sorting.REDUCE_ROWS", 4)


def ordered(rows: list[Row], key: SortKey) -> list[Row]:
    place = "kvn".index(key.column)
    nulls = [row for row in rows if row[place] is None]
    there = sorted(
        (row for row in rows if row[place] is not None),
        key=lambda row: row[place],
        reverse=key.descending,
    )
    return nulls + there if key.nulls_first else there + nulls


KEYS = st.builds(SortKey, st.just("v"), st.booleans(), st.booleans())


@settings(max_examples=examples(50))
@given(rows=ROWS, key=KEYS, count=st.one_of(st.none(), st.integers(0, 6)), offset=st.integers(0, 4))
def test_equal_rows_keep_their_order_under_limits(
    rows: list[Row], key: SortKey, count: int | None, offset: int
) -> None:
    plan = Limit(Sort(rows_of(COLUMNS, rows), (key,)), count, offset)
    end = None if count is None else offset + count
    assert result(plan) == ordered(rows, key)[offset:end]


@settings(max_examples=examples(50))
@given(rows=ROWS, key=KEYS, start=st.integers(1, 3), more=st.integers(0, 2), by=st.booleans())
def test_the_first_rows_of_each_partition_are_numbered(
    rows: list[Row], key: SortKey, start: int, more: int, by: bool
) -> None:
    plan = TopN(rows_of(COLUMNS, rows), ("k",) if by else (), (key,), start, start + more, "rank")
    expected = [
        (*row, place)
        for k in ({row[0] for row in rows} if by else {0})
        for place, row in enumerate(ordered([r for r in rows if not by or r[0] == k], key), 1)
        if start <= place <= start + more
    ]
    assert bag(plan) == counted(expected)


@settings(max_examples=examples(50))
@given(rows=ROWS, keep_first=st.booleans(), by_time=st.booleans())
def test_one_row_a_key_stays(rows: list[Row], keep_first: bool, by_time: bool) -> None:
    plan = Deduplicate(rows_of(COLUMNS, rows), ("k",), "v" if by_time else None, keep_first)
    expected = []
    for k in {row[0] for row in rows}:
        those = [row for row in rows if row[0] == k]
        those = ordered(those, SortKey("v")) if by_time else those
        expected.append(those[0] if keep_first else those[-1])
    assert bag(plan) == counted(expected)


def test_a_limit_stops_reading() -> None:
    source = rows_of(COLUMNS, [(i, i, i) for i in range(100)])
    assert [row[0] for row in result(Limit(source, 5, 2))] == [2, 3, 4, 5, 6]
