"""Windows of time."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import EvaluationError
from pkray.relational.plan.nodes import Window, WindowKind
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, counted, result, rows_of

Row = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1)
SECOND = 1_000_000


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def windows(plan: Window) -> list[tuple[float, float]]:
    """Run a plan; the bounds in seconds since 1970."""
    return [
        ((row[-3] - EPOCH).total_seconds(), (row[-2] - EPOCH).total_seconds())
        for row in result(plan)
    ]


def one(kind: WindowKind, second: float, size: int, step: int = 0, offset: int = 0) -> list[Any]:
    source = rows_of("t TIMESTAMP(3)", [(at(second),)])
    return windows(Window(source, kind, "t", size * SECOND, step * SECOND, offset * SECOND))


@pytest.mark.parametrize(
    ("second", "offset", "start"),
    [(0, 0, 0), (9.999, 0, 0), (10, 0, 10), (-0.001, 0, -10), (-10, 0, -10), (3, 4, -6), (4, 4, 4)],
)
def test_tumbling_windows_begin_at_or_before_their_rows(
    second: float, offset: int, start: int
) -> None:
    assert one(WindowKind.TUMBLE, second, 10, offset=offset) == [(start, start + 10)]


def test_hopping_windows_overlap_the_last_first() -> None:
    assert one(WindowKind.HOP, 7, 10, 5) == [(5, 15), (0, 10)]
    assert one(WindowKind.HOP, -1, 10, 5) == [(-5, 5), (-10, 0)]
    assert one(WindowKind.HOP, 7, 10, 5, offset=1) == [(6, 16), (1, 11)]


def test_hops_wider_than_the_window_leave_rows_out() -> None:
    assert one(WindowKind.HOP, 7, 5, 10) == []
    assert one(WindowKind.HOP, 4, 5, 10) == [(0, 5)]


def test_cumulating_windows_grow_by_a_step() -> None:
    assert one(WindowKind.CUMULATE, 5, 10, 2) == [(0, 6), (0, 8), (0, 10)]
    assert one(WindowKind.CUMULATE, 6, 10, 2) == [(0, 8), (0, 10)]
    assert one(WindowKind.CUMULATE, -1, 10, 2) == [(-10, 0)]


def test_rows_in_many_windows_come_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkray.relational.local.windows.WINDOW_ROWS", 4)
    source = rows_of("t TIMESTAMP(3)", [(at(i),) for i in range(3)])
    found = windows(Window(source, WindowKind.CUMULATE, "t", 3 * SECOND, SECOND))
    assert found == [(0, 1), (0, 2), (0, 3), (0, 2), (0, 3), (0, 3)]


def test_the_window_time_is_a_millisecond_before_the_end() -> None:
    for precision in (0, 3, 6, 9):
        source = rows_of(f"t TIMESTAMP({precision}), v INT", [(at(3), 1)])
        ((_, value, _, end, last),) = result(Window(source, WindowKind.TUMBLE, "t", 10 * SECOND))
        assert (value, end, last) == (1, at(10), at(9.999))


def test_times_keep_their_zone() -> None:
    source = rows_of("t TIMESTAMP_LTZ(3)", [(at(3),)])
    ((_, start, _, _),) = result(Window(source, WindowKind.TUMBLE, "t", 10 * SECOND))
    assert str(start) == "1970-01-01 00:00:00+00:00"


@pytest.mark.parametrize("kind", [WindowKind.TUMBLE, WindowKind.SESSION])
def test_a_row_without_a_time_fails_by_its_number_and_values(kind: WindowKind) -> None:
    rows = [(at(i), i) for i in range(5)] + [(None, 7)]
    plan = Window(rows_of("t TIMESTAMP(3), v INT", rows), kind, "t", 10 * SECOND)
    with pytest.raises(EvaluationError, match=r"'t' of row 5 is NULL.*'v': 7"):
        result(plan)


TIMES = st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.integers(-20, 20)), max_size=10)


@settings(max_examples=examples(60))
@given(rows=TIMES, gap=st.integers(1, 4), by=st.booleans())
def test_sessions_merge_up_to_and_at_the_gap(rows: list[Row], gap: int, by: bool) -> None:
    source = rows_of("p STRING, t TIMESTAMP(3)", [(p, at(t)) for p, t in rows])
    plan = Window(source, WindowKind.SESSION, "t", gap * SECOND, partition_by=("p",) if by else ())
    expected = []
    for p, t in rows:
        times = sorted(other for q, other in rows if not by or p == q)
        low = high = t
        while any(low - gap <= other < low for other in times):
            low = max(other for other in times if low - gap <= other < low)
        while any(high < other <= high + gap for other in times):
            high = min(other for other in times if high < other <= high + gap)
        end = at(high + gap)
        expected.append((p, at(t), at(low), end, end - timedelta(milliseconds=1)))
    assert bag(plan) == counted(expected)
    assert [row[:2] for row in result(plan)] == [row[:2] for row in expected]
