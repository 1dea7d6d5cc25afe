"""Functions of dates and times: types in both dialects, values at the calendar's edges."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import function, written
from pkray.relational.functions.time.now import at_instant
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import DataType
from tests.unit.relational.functions.evaluate import (
    column,
    computed,
    number,
    resolved,
    text,
    values,
)

SPARK, FLINK = Dialect.SPARK, Dialect.FLINK
X, Y = column("DATE"), column("DATE", "y")
TS, LTZ = column("TIMESTAMP(6)"), column("TIMESTAMP_LTZ(6)")
EDGE = datetime(1969, 12, 31, 23, 59, 59, 999_999)
LEAP = datetime(2024, 2, 29, 12, 34, 56, 789_012)
DAYS = [date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("year", [2024, 1969, 1, 9999, None]),
        ("quarter", [1, 4, 1, 4, None]),
        ("month", [2, 12, 1, 12, None]),
        ("dayofmonth", [29, 31, 1, 31, None]),
        ("dayofweek", [5, 4, 2, 6, None]),
        ("weekday", [3, 2, 0, 4, None]),
        ("dayofyear", [60, 365, 1, 365, None]),
        ("weekofyear", [9, 1, 1, 52, None]),
        ("hour", [0, 0, 0, 0, None]),
        ("last_day", [*DAYS[:2], date(1, 1, 31), *DAYS[3:]]),
        ("unix_date", [19782, -1, -719162, 2932896, None]),
    ],
)
def test_fields_of_a_date(name: str, expected: list[Any]) -> None:
    assert values(resolved(name, X), x=DAYS) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("year", [1969, 2024, None]),
        ("hour", [23, 12, None]),
        ("minute", [59, 34, None]),
        ("second", [59, 56, None]),
        ("unix_seconds", [-1, 1709210096, None]),
        ("unix_millis", [-1, 1709210096789, None]),
        ("unix_micros", [-1, 1709210096789012, None]),
    ],
)
@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(9)"])
def test_fields_of_a_timestamp(name: str, expected: list[Any], kind: str) -> None:
    argument = column(kind)
    assert values(resolved(name, argument), x=[EDGE, LEAP, None]) == expected


def test_the_second_with_its_fraction_is_a_decimal() -> None:
    call = resolved("extract", text("SECOND"), TS)
    assert call.type == DataType("DECIMAL", precision=8, scale=6)
    assert values(call, x=[EDGE, LEAP, None]) == [Decimal("59.999999"), Decimal("56.789012"), None]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("dow", 5), ("dow_iso", 4), ("week", 9), ("yearofweek", 2024), ("doy", 60), ("YEAR", 2024)],
)
def test_extract_knows_the_fields_names(unit: str, expected: int) -> None:
    assert values(resolved("date_part", text(unit), TS), x=[LEAP]) == [expected]
    assert resolved("extract", text(unit), TS, dialect=FLINK).type == DataType("BIGINT")


@pytest.mark.parametrize(
    ("name", "result", "expected"),
    [
        ("date_add", "DATE", [date(2024, 3, 1), date(1970, 1, 1), None]),
        ("date_sub", "DATE", [date(2024, 2, 28), date(1969, 12, 30), None]),
        ("add_months", "DATE", [date(2024, 3, 29), date(1970, 1, 31), None]),
    ],
)
def test_dates_are_moved(name: str, result: str, expected: list[Any]) -> None:
    call = resolved(name, X, number(1))
    assert str(call.type) == result
    assert values(call, x=[DAYS[0], DAYS[1], None]) == expected


def test_a_day_that_the_month_has_not_becomes_its_last() -> None:
    call = resolved("add_months", X, column("INT", "n"))
    days = [date(2024, 1, 31), date(2024, 2, 29), date(2023, 3, 31), date(2000, 1, 31)]
    assert values(call, x=days, n=[1, 12, -1, -1199]) == [
        date(2024, 2, 29), date(2025, 2, 28), date(2023, 2, 28), date(1900, 2, 28),
    ]  # fmt: skip


def test_a_date_out_of_range_fails_with_the_row() -> None:
    call = resolved("date_add", X, column("INT", "n"))
    with pytest.raises(EvaluationError, match=r"date_add.*overflows DATE") as caught:
        computed(call, {"x": [None, date(2024, 1, 1)], "n": [2**31 - 1, 2**31 - 1]})
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("unit", "amount", "expected"),
    [
        ("month", 1, datetime(2024, 3, 29, 12, 34, 56, 789_012)),
        ("YEARS", 1, datetime(2025, 2, 28, 12, 34, 56, 789_012)),
        ("day", 1, datetime(2024, 3, 1, 12, 34, 56, 789_012)),
        ("hour", -13, datetime(2024, 2, 28, 23, 34, 56, 789_012)),
        ("microsecond", -12, datetime(2024, 2, 29, 12, 34, 56, 789_000)),
    ],
)
def test_units_are_added_to_a_timestamp(unit: str, amount: int, expected: datetime) -> None:
    for name in ("timestampadd", "dateadd"):
        assert values(resolved(name, text(unit), number(amount), TS), x=[LEAP, None]) == [
            expected,
            None,
        ]


def test_a_date_plus_days_stays_a_date_in_flink_and_becomes_a_timestamp_in_spark() -> None:
    for dialect, result in ((FLINK, "DATE"), (SPARK, "TIMESTAMP_LTZ(6)")):
        call = resolved("timestampadd", text("day"), number(1), X, dialect=dialect)
        assert str(call.type) == result


@pytest.mark.parametrize(
    ("kind", "low"), [("TIMESTAMP(0)", 0), ("TIMESTAMP(3)", 789_000), ("TIMESTAMP(9)", 789_012)]
)
def test_intervals_are_added_at_each_precision(kind: str, low: int) -> None:
    call = resolved("timestampadd", text("minute"), number(30), column(kind))
    day = LEAP.replace(microsecond=low)
    assert values(call, x=[day]) == [day.replace(hour=13, minute=4)]


@pytest.mark.parametrize(
    ("unit", "start", "end", "expected"),
    [
        ("month", datetime(2024, 1, 31), datetime(2024, 2, 29), 0),
        ("month", datetime(2024, 1, 29), datetime(2024, 2, 29), 1),
        ("month", datetime(2024, 2, 29, 1), datetime(2024, 1, 29, 2), 0),
        ("month", datetime(2024, 2, 29, 1), datetime(2024, 1, 29, 1), -1),
        ("year", datetime(2020, 2, 29), datetime(2024, 2, 28), 3),
        ("quarter", datetime(2024, 1, 1), datetime(2023, 3, 1), -3),
        ("day", datetime(2024, 1, 2), datetime(2024, 1, 1, 1), 0),
        ("second", EDGE, datetime(1970, 1, 1), 0),
        ("microsecond", EDGE, datetime(1970, 1, 1), 1),
        ("week", datetime(2024, 1, 1), datetime(2024, 1, 15), 2),
    ],
)
def test_whole_units_between_two_times(
    unit: str, start: datetime, end: datetime, expected: int
) -> None:
    call = resolved("timestampdiff", text(unit), TS, column("TIMESTAMP(6)", "y"))
    assert str(call.type) == "BIGINT"
    assert values(call, x=[start, None], y=[end, end]) == [expected, None]


def test_the_difference_is_int_in_flink_and_datediff_counts_days() -> None:
    call = resolved("timestampdiff", text("day"), TS, TS, dialect=FLINK)
    assert call.type == DataType("INT")
    days = values(resolved("datediff", X, Y), x=[date(2024, 3, 1)], y=[date(2024, 2, 28)])
    assert days == [2]


def test_months_between_counts_31_days_where_days_of_the_month_differ() -> None:
    call = resolved("months_between", TS, column("TIMESTAMP(6)", "y"))
    ends = [datetime(1997, 2, 28, 10, 30), datetime(2024, 2, 29), datetime(2024, 3, 15, 1)]
    starts = [datetime(1996, 10, 30), datetime(2024, 1, 31), datetime(2024, 1, 15)]
    assert values(call, x=ends, y=starts) == [3.94959677, 1.0, 2.0]


def test_next_day_is_later() -> None:
    call = resolved("next_day", X, column("STRING", "y"))
    days = [date(2024, 2, 29)] * 3
    assert values(call, x=days, y=["THU", "fr", "Monday"]) == [
        date(2024, 3, 7), date(2024, 3, 1), date(2024, 3, 4),
    ]  # fmt: skip
    with pytest.raises(EvaluationError, match="'Nayday'\\) is of no day of the week"):
        values(call, x=days[:1], y=["Nayday"])


@pytest.mark.parametrize(
    ("unit", "expected", "ceiling"),
    [
        ("year", datetime(1969, 1, 1), datetime(1970, 1, 1)),
        ("quarter", datetime(1969, 10, 1), datetime(1970, 1, 1)),
        ("MM", datetime(1969, 12, 1), datetime(1970, 1, 1)),
        ("week", datetime(1969, 12, 29), datetime(1970, 1, 5)),
        ("day", datetime(1969, 12, 31), datetime(1970, 1, 1)),
        ("hour", datetime(1969, 12, 31, 23), datetime(1970, 1, 1)),
        ("millisecond", datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(1970, 1, 1)),
        ("microsecond", EDGE, EDGE),
    ],
)
def test_times_before_1970_are_cut_downwards(
    unit: str, expected: datetime, ceiling: datetime
) -> None:
    cut = resolved("date_trunc", text(unit), TS, dialect=Dialect.FLINK)
    assert values(cut, x=[EDGE, None]) == [expected, None]
    assert values(resolved("date_ceil", text(unit), TS), x=[EDGE, None]) == [ceiling, None]
    assert values(resolved("date_ceil", text(unit), TS), x=[expected]) == [expected]


def test_trunc_gives_a_date() -> None:
    assert values(resolved("trunc", X, text("MON")), x=[date(2024, 2, 29)]) == [date(2024, 2, 1)]
    with pytest.raises(QueryError, match="not to hour"):
        resolved("trunc", X, text("hour"), dialect=Dialect.FLINK)
    with pytest.raises(QueryError, match="no unit 'fortnight'"):
        resolved("date_trunc", text("fortnight"), TS, dialect=Dialect.FLINK)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 12:34:56"),
        ("dd/M/yy h:mm a", "29/2/24 12:34 PM"),
        ("EEEE, d MMM yyyy", "Thursday, 29 Feb 2024"),
        ("MMMM 'of' u ''q", "February of 2024 '1"),
        ("HH:mm:ss.SSS", "12:34:56.789"),
        ("SSSSSS", "789012"),
        ("DDD k K", "060 12 0"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-02-29T12:34:56Z"),
        ("'only text'", "only text"),
    ],
)
def test_times_are_written_by_patterns(pattern: str, expected: str) -> None:
    call = resolved("date_format", TS, text(pattern))
    assert values(call, x=[LEAP, None]) == [expected, None]


@pytest.mark.parametrize(
    ("written", "pattern", "expected"),
    [
        ("2024-02-29 12:34:56", "yyyy-MM-dd HH:mm:ss", utc(2024, 2, 29, 12, 34, 56)),
        ("31/12/69", "dd/MM/yy", utc(2069, 12, 31)),
        ("1969-12-31T23:59:59.999+0100", "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
         utc(1969, 12, 31, 22, 59, 59, 999_000)),
        ("3 feb 2024 1:05 pm", "d MMM yyyy h:mm a", utc(2024, 2, 3, 13, 5)),
        ("12:05 AM", "hh:mm a", utc(1970, 1, 1, 0, 5)),
        ("2024-060", "yyyy-DDD", utc(2024, 2, 29)),
        ("2024-02", "yyyy-MM[-dd]", utc(2024, 2, 1)),
    ],
)  # fmt: skip
def test_times_are_read_by_patterns(written: str, pattern: str, expected: datetime) -> None:
    call = resolved("to_timestamp", column("STRING"), text(pattern))
    assert str(call.type) == "TIMESTAMP_LTZ(6)"
    assert values(call, x=[written, None]) == [expected, None]


@pytest.mark.parametrize(
    "written", ["2023-02-29", "2024-13-01", "2024-1-1", "x", "", " 2024-01-01", "2024-01-01x"]
)
def test_what_is_no_time_fails_or_is_null(written: str) -> None:
    argument, pattern = column("STRING"), text("yyyy-MM-dd")
    with pytest.raises(EvaluationError, match="is no time as 'yyyy-MM-dd' says"):
        values(resolved("to_date", argument, pattern), x=[written])
    tried = resolved("try_to_timestamp", argument, pattern)
    assert values(tried, x=[written, "2024-01-01"]) == [None, utc(2024, 1, 1)]
    for name, result in (("to_date", "DATE"), ("to_timestamp", "TIMESTAMP(3)")):
        flink = resolved(name, argument, pattern, dialect=FLINK)
        assert str(flink.type) == result
        assert values(flink, x=[written]) == [None]


def test_a_pattern_that_means_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match="has the letter 'j'"):
        resolved("date_format", TS, text("yyyy-jj"))
    with pytest.raises(QueryError, match="a quote that is not closed"):
        resolved("date_format", TS, text("yyyy 'of"))
    with pytest.raises(QueryError, match="must be constant text"):
        resolved("date_format", TS, column("STRING"))


def test_unix_times() -> None:
    assert values(resolved("unix_timestamp", column("STRING")), x=["1969-12-31 23:59:59"]) == [-1]
    flink = resolved("unix_timestamp", column("STRING"), dialect=FLINK)
    assert values(flink, x=["?", "1970-01-01 00:00:01"]) == [None, 1]
    assert values(resolved("unix_timestamp", LTZ), x=[EDGE, LEAP]) == [0, 1709210096]
    written = resolved("from_unixtime", column("BIGINT"))
    assert values(written, x=[-1, 0, None]) == ["1969-12-31 23:59:59", "1970-01-01 00:00:00", None]
    for name, count in (
        ("timestamp_seconds", 1), ("timestamp_millis", 1000), ("timestamp_micros", 10**6),
    ):  # fmt: skip
        assert values(resolved(name, column("BIGINT")), x=[-count]) == [
            utc(1969, 12, 31, 23, 59, 59)
        ]
    with pytest.raises(EvaluationError, match="overflows TIMESTAMP_LTZ"):
        values(resolved("timestamp_seconds", column("BIGINT")), x=[2**62])


def test_flinks_to_timestamp_ltz_takes_seconds_or_milliseconds() -> None:
    for precision, value in ((0, -1), (3, -1000)):
        call = resolved("to_timestamp_ltz", column("BIGINT"), number(precision), dialect=FLINK)
        assert str(call.type) == "TIMESTAMP_LTZ(3)"
        assert values(call, x=[value]) == [utc(1969, 12, 31, 23, 59, 59)]


def test_dates_and_timestamps_are_made_of_parts() -> None:
    parts = [column("INT", name) for name in "ymd"]
    call = resolved("make_date", *parts)
    assert values(call, y=[2024, None], m=[2, 1], d=[29, 1]) == [date(2024, 2, 29), None]
    with pytest.raises(EvaluationError, match=r"make_date\(2023, 2, 29\) is no date"):
        values(call, y=[2023], m=[2], d=[29])
    seconds = column("DECIMAL(16, 6)", "s")
    made = resolved("make_timestamp", *parts, number(23), number(59), seconds)
    assert values(made, y=[1969], m=[12], d=[31], s=[Decimal("59.999999")]) == [
        EDGE.replace(tzinfo=UTC)
    ]


def test_wall_clocks_of_zones_also_where_the_clock_changes() -> None:
    zone = text("America/New_York")
    wall = [datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30), datetime(1950, 7, 1)]
    back = [utc(2024, 3, 10, 7, 30), utc(2024, 11, 3, 5, 30), utc(1950, 7, 1, 4)]
    assert values(resolved("to_utc_timestamp", LTZ, zone), x=[*wall, None]) == [*back, None]
    seen = [utc(2024, 3, 10, 3, 30), utc(2024, 11, 3, 1, 30), utc(1950, 7, 1)]
    assert values(resolved("from_utc_timestamp", LTZ, zone), x=back) == seen
    later = [utc(2399, 7, 1, 12), None, utc(2096, 1, 1, 12)]
    shown = [utc(2399, 7, 1, 8), None, utc(2096, 1, 1, 7)]
    assert values(resolved("from_utc_timestamp", LTZ, zone), x=later) == shown
    assert values(resolved("to_utc_timestamp", LTZ, zone), x=shown) == later
    zones = resolved("from_utc_timestamp", LTZ, column("STRING", "z"))
    assert values(zones, x=[utc(2024, 1, 1)] * 3, z=["+02:00", "UTC", None]) == [
        utc(2024, 1, 1, 2), utc(2024, 1, 1), None,
    ]  # fmt: skip
    with pytest.raises(EvaluationError, match="no time zone 'Mars/Base'"):
        values(resolved("from_utc_timestamp", LTZ, text("Mars/Base")), x=[utc(2024, 1, 1)])


def test_convert_timezone_and_flinks_convert_tz() -> None:
    call = resolved("convert_timezone", text("Europe/Berlin"), text("Asia/Tokyo"), TS)
    assert values(call, x=[datetime(2024, 7, 1)]) == [datetime(2024, 7, 1, 7)]
    flink = resolved(
        "convert_tz", column("STRING"), text("UTC"), text("America/Los_Angeles"), dialect=FLINK
    )
    assert values(flink, x=["1970-01-01 00:00:00", "?"]) == ["1969-12-31 16:00:00", None]


def test_the_time_of_a_run_is_one_constant() -> None:
    for name, expected in (
        ("now", utc(2024, 2, 29)),
        ("localtimestamp", datetime(2024, 2, 29)),
        ("current_date", date(2024, 2, 29)),
    ):
        call = resolved(name)
        assert not call.type.nullable
        fixed = at_instant(call, 1709164800 * 10**6)
        assert isinstance(fixed, Literal)
        assert fixed.value == expected
        assert values(call, x=[1, 2])[0] > expected


@pytest.mark.parametrize("name", ["tumble", "hop_start", "session_window", "tumble_rowtime"])
def test_old_group_windows_are_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"write FROM TABLE\(TUMBLE"):
        resolved(name, TS, number(1), dialect=FLINK)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("year", (column("INT"),), "argument 1 of year is INT; it takes a date or a timestamp"),
        ("date_add", (X,), "date_add takes 2 arguments, not 1"),
        ("monthname", (X, X), "monthname takes 1 argument, not 2"),
        ("extract", (text("moon"), X), "there is no field 'moon' of a time"),
    ],
)
def test_wrong_calls_are_refused(
    name: str, arguments: tuple[Expression, ...], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        resolved(name, *arguments)


def test_canonical_calls_are_typed_from_their_arguments() -> None:
    for each in written(SPARK):
        if each.family == "time":
            assert function(each.name).typing is not None, each.name
            assert each.about.endswith(".")


@pytest.mark.parametrize(
    "call",
    [
        resolved("date_add", X, number(1)),
        resolved("date_trunc", text("month"), TS),
        resolved("from_utc_timestamp", LTZ, text("Europe/Berlin")),
        resolved("to_timestamp", column("STRING"), text("yyyy")),
        resolved("timestampdiff", text("month"), TS, TS),
        resolved("date_format", TS, text("yyyy")),
        resolved("weekofyear", X),
    ],
)
def test_no_rows_give_no_values(call: Expression) -> None:
    assert values(call, x=[]) == []


def test_months_between_are_counted_in_days_of_the_month_as_they_are() -> None:
    months = resolved("timestampdiff", text("month"), TS, column("TIMESTAMP(6)", "y"))
    start, end = datetime(2001, 1, 31, 12), datetime(2001, 3, 1, 6)
    assert values(months, x=[start, end], y=[end, start]) == [0, -1]
