"""Instants on the wall clock of the session's zone."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from pkray.relational.dialect import Dialect
from pkray.relational.local.catalogue import run
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources.arrow import ArrowSource
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.binder.session_zone import in_session_zone
from pkray.relational.sql.parser import parse_query

SUMMER = datetime(2020, 7, 1, 22, 30, tzinfo=UTC)
ROWS = pa.table(
    {
        "z": pa.array([SUMMER], pa.timestamp("us", "UTC")),
        "t": pa.array([SUMMER.replace(tzinfo=None)], pa.timestamp("us")),
        "s": ["2020-07-01 22:30:00"],
        "d": [date(2020, 7, 1)],
    }
)


class InBerlin:
    """Names of a session whose zone is two hours, in winter one, before UTC."""

    time_zone = "Europe/Berlin"

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def relation(self, parts: Any, options: Any, at: Any) -> Node:
        return Scan(ArrowSource(parts[-1], ROWS))

    def udf(self, name: str) -> None:
        return None


def plan(text: str, dialect: Dialect = Dialect.SPARK) -> Node:
    return Binder(InBerlin(dialect)).query(parse_query(text, dialect))


def value(expression: str, dialect: Dialect = Dialect.SPARK) -> Any:
    (batch,) = run(plan(f"SELECT {expression} AS v FROM r", dialect))
    return batch.column(0)[0].as_py()


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hour(z)", 0),
        ("day(z)", 2),
        ("hour(t)", 22),
        ("CAST(z AS STRING)", "2020-07-02 00:30:00"),
        ("CAST(z AS DATE)", date(2020, 7, 2)),
        ("CAST(z AS TIMESTAMP_NTZ)", datetime(2020, 7, 2, 0, 30)),
        ("CAST(t AS TIMESTAMP)", utc(2020, 7, 1, 20, 30)),
        ("CAST(s AS TIMESTAMP)", utc(2020, 7, 1, 20, 30)),
        ("CAST(concat(s, '+05:00') AS TIMESTAMP)", utc(2020, 7, 1, 17, 30)),
        ("CAST(d AS TIMESTAMP)", utc(2020, 6, 30, 22)),
        ("TIMESTAMP '2020-01-01 12:00:00'", utc(2020, 1, 1, 11)),
        ("TIMESTAMP '2020-01-01 12:00:00Z'", utc(2020, 1, 1, 12)),
        ("date_trunc('day', z)", utc(2020, 7, 1, 22)),
        ("date_format(z, 'dd HH')", "02 00"),
        ("to_timestamp('1.7.2020', 'd.M.yyyy')", utc(2020, 6, 30, 22)),
        ("TIMESTAMP '2020-03-28 12:00:00' + INTERVAL 1 DAY", utc(2020, 3, 29, 10)),
        ("TIMESTAMP '2020-03-28 12:00:00' + INTERVAL 23 HOURS", utc(2020, 3, 29, 10)),
        (
            "TIMESTAMP '2020-03-28 01:30:00' + INTERVAL '1 01:00:00' DAY TO SECOND",
            utc(2020, 3, 29, 1, 30),
        ),
        ("from_utc_timestamp(z, 'Asia/Tokyo')", utc(2020, 7, 2, 7, 30)),
        ("unix_seconds(z)", int(SUMMER.timestamp())),
        ("make_timestamp(2020, 7, 1, 0, 0, 0)", utc(2020, 6, 30, 22)),
        ("make_timestamp(2020, 7, 1, 0, 0, 0, 'UTC')", utc(2020, 7, 1)),
        ("current_timezone()", "Europe/Berlin"),
        ("z = t", False),
        ("z > CAST('2020-07-02' AS DATE)", True),
    ],
)
def test_what_looks_at_days_and_hours_does_so_in_the_zone(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("HOUR(z)", 0),
        ("CAST(z AS STRING)", "2020-07-02 00:30:00.000000"),
        ("CAST(TO_TIMESTAMP_LTZ(0, 3) AS TIMESTAMP(3))", datetime(1970, 1, 1, 1)),
        ("FROM_UNIXTIME(0)", "1970-01-01 01:00:00"),
        ("UNIX_TIMESTAMP('1970-01-01 01:00:00')", 0),
    ],
)
def test_it_does_so_in_the_flink_dialect(expression: str, expected: Any) -> None:
    assert value(expression, Dialect.FLINK) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT year(z), CAST(s AS TIMESTAMP), date_trunc('day', z), hour(z) FROM r",
        "SELECT count(*) FROM r WHERE z > s GROUP BY date_trunc('hour', z + INTERVAL 1 DAY)",
    ],
)
def test_a_plan_that_was_shifted_stays_as_it_is(text: str) -> None:
    shifted = plan(text)
    assert in_session_zone(shifted, "Europe/Berlin", Dialect.SPARK) == shifted
