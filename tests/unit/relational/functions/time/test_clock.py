"""Functions of a TIME of day, timestamps of a date and one, and units that a column names."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError
from tests.unit.relational.expressions import type_of, value, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("make_time(12, 30, 15.5)", time(12, 30, 15, 500_000)),
        ("make_time(12, 30, '15.5')", time(12, 30, 15, 500_000)),
        ("make_time(12, 30, NULL)", None),
        ("to_time('12:30')", time(12, 30)),
        ("to_time('12.10.05', 'HH.mm.ss')", time(12, 10, 5)),
        ("to_time('5 PM', 'h a')", time(17)),
        ("to_time(NULL)", None),
        ("try_to_time('bad')", None),
        ("try_to_time('bad', 'HH:mm')", None),
        ("time_trunc('MINUTE', to_time('12:34:56.789'))", time(12, 34)),
        ("time_trunc('microsecond', to_time('12:34:56.789'))", time(12, 34, 56, 789_000)),
        ("time_diff('hour', time'20:30:29', time'21:30:28')", 0),
        ("time_diff('minute', time'21:30:28', time'20:30:29')", -59),
        ("time_from_seconds(3661.5)", time(1, 1, 1, 500_000)),
        ("time_from_millis(3661500)", time(1, 1, 1, 500_000)),
        ("time_from_micros(3661500000)", time(1, 1, 1, 500_000)),
        ("time_to_seconds(to_time('01:01:01.5'))", Decimal("3661.500000")),
        ("time_to_millis(to_time('01:01:01.5'))", 3_661_500),
        ("time_to_micros(to_time('01:01:01.5'))", 3_661_500_000),
        ("hour(time'12:34:56') * 100 + minute(time'12:34:56')", 1234),
        ("extract(SECOND FROM make_time(1, 2, 3.25))", Decimal("3.250000")),
        ("make_timestamp(date'2020-01-02', time'01:02:03')",
         datetime(2020, 1, 2, 1, 2, 3, tzinfo=UTC)),
        ("make_timestamp(date'2020-01-02', time'01:02:03', 'Europe/Berlin')",
         datetime(2020, 1, 2, 0, 2, 3, tzinfo=UTC)),
        ("make_timestamp_ntz(date'2020-01-02', to_time('01:02:03.004'))",
         datetime(2020, 1, 2, 1, 2, 3, 4000)),
        ("try_make_timestamp(2020, 13, 1, 0, 0, 0)", None),
        ("try_make_timestamp(2020, 1, 1, 0, 0, 60)", datetime(2020, 1, 1, 0, 1, tzinfo=UTC)),
        ("try_make_timestamp(2020, 1, 1, 0, 0, 60.5)", None),
        ("try_make_timestamp_ntz(2020, 2, 30, 0, 0, 0)", None),
        ("try_make_timestamp_ltz(2020, 1, 1, 0, 0, 1, 'Europe/Berlin')",
         datetime(2019, 12, 31, 23, 0, 1, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_a_time_is_what_spark_gives(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    ["make_time(24, 0, 0)", "make_time(23, 59, 60)", "make_time(12, -1, 0)", "to_time('24:00:00')",
     "time_from_seconds(86400)", "time_from_millis(-1)", "time_from_micros(9223372036854775807)"],
)  # fmt: skip
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError):
        value(text)


def test_times_of_day_are_of_columns() -> None:
    columns = {"x": ("TIME(3)", [time(1, 2, 3), None]), "n": ("INT", [5, 6])}
    assert values("make_time(n, minute(x), second(x))", columns) == [time(5, 2, 3), None]
    assert values("time_trunc('hour', x)", columns) == [time(1), None]
    assert type_of("make_time(1, 2, 3)") == "TIME(3) NOT NULL"


def test_a_unit_of_days_is_none_of_a_time_of_day() -> None:
    with pytest.raises(QueryError, match="no unit 'day' of a time of day: write hour"):
        value("time_trunc('day', time'12:34:56')")


def test_units_that_a_column_names_cut_each_time_by_its_own() -> None:
    words = ["year", "MONTH", "yy", "mm", "week", "dd", "hour", "bad", "days", " day", None]
    columns = {
        "u": ("STRING", words),
        "x": ("TIMESTAMP(6)", [datetime(2024, 5, 17, 12, 34, 56)] * len(words)),
        "d": ("DATE", [date(2024, 5, 17)] * len(words)),
    }
    days = [(1, 1), (5, 1), (1, 1), (5, 1), (5, 13), (5, 17)]
    cut = [datetime(2024, *each) for each in days] + [datetime(2024, 5, 17, 12)] + [None] * 4
    assert values("CAST(date_trunc(u, x) AS TIMESTAMP_NTZ)", columns) == cut
    cut_days = [date(2024, *each) for each in days[:5]] + [None] * 6
    assert values("trunc(d, u)", columns) == cut_days
