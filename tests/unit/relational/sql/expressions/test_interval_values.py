"""Values of type INTERVAL inside expressions, as Spark 4.2 gives them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, PkrayError
from tests.unit.relational.expressions import type_of, value, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date'2020-03-01' - date'2020-02-01'", "'29' DAY"),
        ("date'2020-03-01' - '2020-02-01'", "'29' DAY"),
        ("timestamp'2020-03-01 01:00:00' - timestamp'2020-02-01'", "'29 01:00:00' DAY TO SECOND"),
        (
            "timestamp_ntz'2020-03-01 01:00:00.5' - timestamp_ntz'2020-02-01'",
            "'29 01:00:00.5' DAY TO SECOND",
        ),
        ("date'2020-03-01' - timestamp'2020-03-01 01:00:00'", "'-0 01:00:00' DAY TO SECOND"),
        ("make_dt_interval(1, 12, 30, 1.001001)", "'1 12:30:01.001001' DAY TO SECOND"),
        ("make_dt_interval()", "'0 00:00:00' DAY TO SECOND"),
        ("make_ym_interval(-1, 1)", "'-0-11' YEAR TO MONTH"),
        ("interval '14' month", "'14' MONTH"),
        ("interval '-1 02' day to hour", "'-1 02' DAY TO HOUR"),
        ("interval '02:03' hour to minute", "'02:03' HOUR TO MINUTE"),
        ("interval '3.5' second", "'03.5' SECOND"),
        ("interval 1 week", "'7' DAY"),
        ("interval '1' day - interval '2' hour", "'0 22' DAY TO HOUR"),
        ("interval '1' year + interval '2' month", "'1-2' YEAR TO MONTH"),
        ("interval '1' day * 1.5", "'1 12:00:00' DAY TO SECOND"),
        ("interval '1' month * 1.5", "'0-2' YEAR TO MONTH"),
        ("interval '1' day / 7", "'0 03:25:42.857143' DAY TO SECOND"),
        ("interval '3' month / 2", "'0-2' YEAR TO MONTH"),
        ("-interval '1-2' year to month", "'-1-2' YEAR TO MONTH"),
        ("abs(interval '-1' day)", "'1' DAY"),
        ("date'0001-01-01' - date'9999-12-31'", "'-3652058' DAY"),
    ],
)
def test_an_interval_is_written_as_spark_writes_it(text: str, expected: str) -> None:
    assert value(f"CAST({text} AS STRING)") == f"INTERVAL {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval '1' day = interval '24' hour", True),
        ("interval '1' month < interval '1' year", True),
        ("interval '1' day BETWEEN interval '1' hour AND interval '2' day", True),
        ("interval '1' day IN (interval '23' hour, interval '24' hour)", True),
        ("interval '1' day <=> NULL", False),
        ("interval '1' day IS NULL", False),
        ("make_dt_interval(1, NULL) IS NULL", True),
        ("date'2020-03-01' - CAST(NULL AS DATE) > interval '1' day", None),
        ("CAST(interval '1 02' day to hour AS INT)", 26),
        ("CAST(interval '3.7' second AS DECIMAL(10, 3))", Decimal("3.700")),
        ("CAST(interval '1-2' year to month AS INT)", 14),
        ("sign(interval '-1' day)", -1.0),
        ("typeof(date'2020-03-01' - date'2020-02-01')", "interval day"),
        ("typeof(interval '1' hour * 2)", "interval day to second"),
        ("typeof(make_interval(1))", "interval"),
        ("date_part('days', interval '5' day)", 5),
    ],
)
def test_an_interval_is_compared_and_cast(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("field", "interval", "expected", "kind"),
    [
        ("DAY", "'1 02:03:04.5' day to second", 1, "INT"),
        ("HOUR", "'-1 02:03:04.5' day to second", -2, "TINYINT"),
        ("MINUTE", "'1 02:03:04.5' day to second", 3, "TINYINT"),
        ("SECOND", "'-1 02:03:04.5' day to second", Decimal("-4.500000"), "DECIMAL(8, 6)"),
        ("YEAR", "'1-2' year to month", 1, "INT"),
        ("MONTH", "'-1-2' year to month", -2, "TINYINT"),
    ],
)
def test_fields_are_taken_of_an_interval(
    field: str, interval: str, expected: Any, kind: str
) -> None:
    text = f"extract({field} FROM interval {interval})"
    assert (value(text), type_of(text).removesuffix(" NOT NULL")) == (expected, kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date'2020-01-01' + interval '1' day", date(2020, 1, 2)),
        ("date'2020-01-01' + interval '24' hour", datetime(2020, 1, 2, tzinfo=UTC)),
        ("date'2020-01-31' + make_ym_interval(1)", date(2021, 1, 31)),
        ("date'2020-01-31' + make_dt_interval(1)", datetime(2020, 2, 1, tzinfo=UTC)),
        ("date'2020-01-31' + make_interval(0, 1, 0, 1)", date(2020, 3, 1)),
        ("timestamp'2020-01-31' + make_interval(0, 1, 0, 1, 1)",
         datetime(2020, 3, 1, 1, tzinfo=UTC)),
        ("timestamp'2020-01-31' + (date'2020-03-01' - date'2020-02-01')",
         datetime(2020, 2, 29, tzinfo=UTC)),
        ("date'2020-01-01' + try_make_interval(2147483647)", None),
        ("sequence(date'2020-01-01', date'2020-01-02', date'2020-01-02' - date'2020-01-01')",
         [date(2020, 1, 1), date(2020, 1, 2)]),
    ],
)  # fmt: skip
def test_intervals_are_added_to_times(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_differences_of_columns_are_compared_and_added() -> None:
    columns = {
        "a": ("TIMESTAMP(6)", [datetime(2020, 1, 2, 3), datetime(2020, 1, 1), None]),
        "b": ("TIMESTAMP(3)", [datetime(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1)]),
        "n": ("INT", [2, None, 1]),
    }
    assert values("a - b > interval '1' day", columns) == [True, False, None]
    assert values("b + (a - b) = a", columns) == [True, True, None]
    assert values("extract(HOUR FROM (a - b) * n)", columns) == [6, None, None]
    assert values("b + make_dt_interval(n)", columns)[0] == datetime(2020, 1, 3)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CAST(interval '1' day / 0 AS STRING)", EvaluationError, "0"),
        ("make_ym_interval(178956970, 7) * 2 > interval '1' year", EvaluationError,
         "cannot be cast to INT"),
        ("interval '1' month < interval '1' day", PkrayError, "both of years and months"),
        ("make_interval(1) = make_interval(1)", PkrayError, "both of years and months"),
        ("make_interval(1) / 2 IS NULL", PkrayError, "cannot be divided"),
        ("extract(MONTH FROM interval '1' day)", PkrayError, "its fields are DAY "),
        ("extract(DAY FROM interval '90' minute)", PkrayError, "its fields are MINUTE"),
        ("extract(DAY FROM interval '25:00' hour to minute)", PkrayError, "are HOUR, MINUTE"),
        ("extract(YEAR FROM interval '14' month)", PkrayError, "its fields are MONTH"),
        ("date'2020-01-31' + make_interval(0, 1, 0, 1, 1)", EvaluationError, "hours to a date"),
        ("interval '1' day % 2", PkrayError, "mod of an INTERVAL"),
        ("make_dt_interval(2147483647)", EvaluationError, "overflow"),
        ("CAST(make_dt_interval(2147483647) AS STRING)", EvaluationError, "overflow"),
        ("round(interval '1' day)", PkrayError, "round takes no INTERVAL DAY: write extract"),
    ],
)  # fmt: skip
def test_what_intervals_do_not_do_is_refused(
    text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        value(text)
