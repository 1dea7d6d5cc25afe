"""INTERVALs as columns of results and of rows in memory, and as keys; facts of Spark 4."""

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, InputError, PkrayError, SchemaError, UnsupportedError
from pkray.relational import Relation, from_arrow, query
from pkray.relational.functions.function import is_known
from pkray.relational.plan.text import from_text, to_text
from pkray.schema.types import DataType

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ROWS = from_arrow(
    pa.table(
        {
            "n": [1, 2, 3],
            "a": [date(2020, 1, 5), date(2020, 1, 3), None],
            "b": [date(2020, 1, 2)] * 2 + [None],
            "c": [datetime(2020, 1, 2, 3), datetime(2020, 1, 1, 3, 0, 0, 500_000), None],
            "d": [datetime(2020, 1, 1), datetime(2020, 1, 2), None],
            "s": ["1 02:03:04.5", "-0 00:00:01", None],
        }
    ),
    name="t",
)
SPANS = query("SELECT n, a - b AS i, c - d AS j, INTERVAL '1' MONTH * n AS m FROM t", t=ROWS)


def column(text: str, dialect: str = "spark") -> list[Any]:
    found: list[Any] = query(text, dialect=dialect, t=SPANS).to_arrow().column(0).to_pylist()
    return found


def months(count: int | None) -> pa.MonthDayNano | None:
    return None if count is None else pa.MonthDayNano([count, 0, 0])


def test_differences_are_durations_of_arrow_and_months_its_intervals() -> None:
    rows = SPANS.to_arrow()
    assert rows.schema.types[1:] == [
        pa.duration("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
    ]
    assert SPANS.schema.equals(rows.schema)
    assert rows["i"].to_pylist() == [3 * DAY, DAY, None]
    assert rows["j"].to_pylist() == [DAY + 3 * HOUR, -21 * HOUR + timedelta(seconds=0.5), None]
    assert rows["m"].to_pylist() == [months(1), months(2), months(3)]
    types = [str(each.type.with_nullable(True)) for each in SPANS.fields]
    assert types[1:] == ["INTERVAL DAY", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("sum(i)", "INTERVAL DAY", 4 * DAY),
        ("avg(i)", "INTERVAL DAY TO SECOND", 2 * DAY),
        ("sum(j)", "INTERVAL DAY TO SECOND", 6 * HOUR + timedelta(seconds=0.5)),
        ("avg(j)", "INTERVAL DAY TO SECOND", 3 * HOUR + timedelta(seconds=0.25)),
        ("min(j)", "INTERVAL DAY TO SECOND", -21 * HOUR + timedelta(seconds=0.5)),
        ("max(j)", "INTERVAL DAY TO SECOND", DAY + 3 * HOUR),
        ("sum(m)", "INTERVAL YEAR TO MONTH", months(6)),
        ("avg(m)", "INTERVAL YEAR TO MONTH", months(2)),
        ("avg(i) FILTER (WHERE n = 1)", "INTERVAL DAY TO SECOND", 3 * DAY),
        ("max(i) - min(i)", "INTERVAL DAY", 2 * DAY),
        ("count(i)", "BIGINT", 2),
        ("count(DISTINCT i)", "BIGINT", 2),
        ("any_value(i) IS NULL", "BOOLEAN", False),
    ],
)
def test_aggregates_of_intervals(text: str, kind: str, expected: Any) -> None:
    found = query(f"SELECT {text} AS x FROM t", t=SPANS)
    assert str(found.fields["x"].type.with_nullable(True)) == kind
    assert found.to_arrow()["x"].to_pylist() == [expected]


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COALESCE(i, INTERVAL '1' HOUR) FROM t", [3 * DAY, DAY, HOUR]),
        ("SELECT CASE WHEN n = 1 THEN i ELSE NULL END FROM t", [3 * DAY, None, None]),
        ("SELECT IF(n = 1, i, j) FROM t", [3 * DAY, -21 * HOUR + timedelta(seconds=0.5), None]),
        ("SELECT NULLIF(i, INTERVAL '3' DAY) FROM t", [None, DAY, None]),
        ("SELECT GREATEST(i, j) FROM t", [3 * DAY, DAY, None]),
        ("SELECT i IN (INTERVAL '3' DAY) FROM t", [True, False, None]),
        ("SELECT i * 2 FROM t", [6 * DAY, 2 * DAY, None]),
        ("SELECT j / 2 FROM t", [13.5 * HOUR, -10.5 * HOUR + timedelta(seconds=0.25), None]),
        ("SELECT -m FROM t", [months(-1), months(-2), months(-3)]),
        ("SELECT DATE '2020-01-31' + m FROM t",
         [date(2020, 2, 29), date(2020, 3, 31), date(2020, 4, 30)]),
        ("SELECT EXTRACT(HOUR FROM j) FROM t", [3, -20, None]),
        ("SELECT CAST(j AS STRING) FROM t",
         ["INTERVAL '1 03:00:00' DAY TO SECOND", "INTERVAL '-0 20:59:59.5' DAY TO SECOND", None]),
        ("SELECT i FROM t ORDER BY i DESC", [3 * DAY, DAY, None]),
        ("SELECT DISTINCT i FROM t ORDER BY i", [None, DAY, 3 * DAY]),
        ("SELECT i FROM t GROUP BY i HAVING i > INTERVAL '2' DAY", [3 * DAY]),
        ("SELECT x.i FROM t x JOIN t y ON x.i = y.i ORDER BY 1", [DAY, 3 * DAY]),
        ("SELECT i FROM t WHERE i IN (SELECT i FROM t WHERE n = 1)", [3 * DAY]),
        ("SELECT i FROM t INTERSECT SELECT INTERVAL '24' HOUR", [DAY]),
        ("SELECT n FROM t WHERE j < INTERVAL '0' SECOND", [2]),
        ("SELECT LAG(i) OVER (ORDER BY n) FROM t", [None, 3 * DAY, DAY]),
        ("SELECT SUM(i) OVER (ORDER BY n) FROM t", [3 * DAY, 4 * DAY, 4 * DAY]),
    ],
)  # fmt: skip
def test_columns_of_intervals_are_values_and_keys(
    text: str, expected: list[Any], dialect: str
) -> None:
    assert column(text, dialect) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MIN_BY(n, i)", 2),
        ("MAX_BY(i, j)", 3 * DAY),
        ("MIN_BY(m, n)", months(1)),
        ("MODE(i) FILTER (WHERE n > 1)", DAY),
        ("APPROX_COUNT_DISTINCT(i)", 2),
        ("MIN(HASH(i)) FILTER (WHERE n = 2)", 892267096),
        ("MIN(XXHASH64(i)) FILTER (WHERE n = 2)", 5650310968337874586),
        ("MIN(HASH(m)) FILTER (WHERE n = 1)", -559580957),
        ("MIN(XXHASH64(-m)) FILTER (WHERE n = 1)", 2017008487422258757),
    ],
)
def test_intervals_are_counted_ordered_and_hashed_as_in_spark(text: str, expected: Any) -> None:
    assert column(f"SELECT {text} FROM t", "spark") == [expected]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("CAST('1 02:03:04' AS INTERVAL DAY TO SECOND)", "INTERVAL DAY TO SECOND",
         DAY + timedelta(seconds=7384)),
        ("CAST('INTERVAL ''1 02:03:04'' DAY TO SECOND' AS INTERVAL DAY TO SECOND)",
         "INTERVAL DAY TO SECOND", DAY + timedelta(seconds=7384)),
        ("CAST('-1-2' AS INTERVAL YEAR TO MONTH)", "INTERVAL YEAR TO MONTH", months(-14)),
        ("TRY_CAST('x' AS INTERVAL DAY)", "INTERVAL DAY", None),
        ("TRY_CAST('1 25' AS INTERVAL DAY TO HOUR)", "INTERVAL DAY TO HOUR", None),
        ("CAST(2 AS INTERVAL HOUR)", "INTERVAL HOUR", 2 * HOUR),
        ("CAST(1.5 AS INTERVAL SECOND)", "INTERVAL SECOND", timedelta(seconds=1.5)),
        ("CAST(INTERVAL '-1 3' DAY TO HOUR AS INTERVAL DAY)", "INTERVAL DAY", -DAY),
        ("CAST(NULL AS INTERVAL MONTH)", "INTERVAL MONTH", None),
    ],
)  # fmt: skip
def test_casts_to_intervals(text: str, kind: str, expected: Any) -> None:
    found = query(f"SELECT {text} AS x")
    assert str(found.fields["x"].type.with_nullable(True)) == kind
    assert found.to_arrow()["x"].to_pylist() == [expected]
    assert query(found.sql()).to_arrow().equals(found.to_arrow())


def test_columns_of_text_are_read_as_intervals() -> None:
    text = "SELECT CAST(s AS INTERVAL DAY TO SECOND) AS x FROM t"
    expected = [DAY + timedelta(seconds=7384.5), -timedelta(seconds=1), None]
    assert query(text, t=ROWS).to_arrow()["x"].to_pylist() == expected
    with pytest.raises(EvaluationError, match="is no INTERVAL HOUR TO SECOND"):
        query(text.replace("DAY TO", "HOUR TO"), t=ROWS).to_arrow()


def test_durations_and_months_in_memory_are_columns() -> None:
    rows = pa.table(
        {
            "d": pa.array([DAY, None, -HOUR], pa.duration("s")),
            "m": pa.array([(3, 0, 0), None, (-1, 0, 0)], pa.month_day_nano_interval()),
        }
    )
    relation = from_arrow(rows, name="r")
    assert relation.to_arrow()["d"].to_pylist() == [DAY, None, -HOUR]
    assert relation.to_arrow()["m"].to_pylist() == [months(3), None, months(-1)]
    found = query("SELECT d + INTERVAL '1' HOUR AS x, m * 2 AS y FROM r", r=relation).to_arrow()
    assert found["x"].to_pylist() == [DAY + HOUR, None, timedelta(0)]
    assert found["y"].to_pylist() == [months(6), None, months(-2)]
    assert from_arrow(rows.slice(1)).to_arrow()["m"].to_pylist() == [None, months(-1)]


@pytest.mark.parametrize(
    "rows",
    [
        {"m": pa.array([(1, 2, 0)], pa.month_day_nano_interval())},
        {"d": pa.array([1], pa.duration("ns"))},
    ],
)
def test_durations_that_no_interval_is_are_refused(rows: dict[str, pa.Array]) -> None:
    with pytest.raises(InputError, match="column"):
        from_arrow(pa.table(rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CASE WHEN n = 1 THEN i ELSE m END", "no type in common: INTERVAL DAY and INTERVAL"),
        ("COALESCE(i, n)", "no type in common"),
        ("COALESCE(i, 'x')", "no type in common"),
        ("i + 1", "added to a date"),
        ("i = 1", "equal of an INTERVAL"),
        ("round(i)", "round takes no INTERVAL DAY: write extract"),
        ("array(i)", "array takes no INTERVAL DAY"),
        ("struct(i)", "struct takes no INTERVAL DAY"),
        ("collect_list(i)", "collect_list takes no INTERVAL DAY"),
        ("stddev(i)", "stddev takes no INTERVAL DAY"),
        ("avg(i) OVER (ORDER BY n)", "divide sum"),
        ("make_interval(1)", "months and days is the value of no column"),
        ("CAST(m AS INTERVAL DAY)", "not cast to each other"),
        ("CAST('1' AS INTERVAL)", "INTERVAL"),
    ],
)
def test_what_takes_no_interval_refuses_it_at_binding(text: str, message: str) -> None:
    with pytest.raises(PkrayError, match=message):
        query(f"SELECT {text} AS x FROM t", t=SPANS)


def test_intervals_are_in_no_state_and_not_read_from_spark() -> None:
    with pytest.raises(UnsupportedError, match="i is INTERVAL DAY, which no state"):
        SPANS.compile_plan()
    with pytest.raises(UnsupportedError, match="no state"):
        SPANS.stream()
    inside = query("SELECT n FROM t WHERE a - b > INTERVAL '1' DAY", t=ROWS)
    assert isinstance(inside, Relation)
    inside.compile_plan()


def test_the_type_is_written_and_read_with_plans() -> None:
    node = query("SELECT i, CAST(NULL AS INTERVAL DAY TO SECOND) AS x FROM t", t=SPANS).plan
    for _, value in node.columns:  # type: ignore[attr-defined]
        assert from_text(to_text(value), node.inputs[0].fields, is_known) == value


@pytest.mark.parametrize(("root", "span"), [("INT", "DAY"), ("BIGINT", "SECOND TO DAY")])
def test_a_type_has_the_fields_of_an_interval_or_none(root: str, span: str) -> None:
    with pytest.raises(SchemaError, match="is no INTERVAL"):
        DataType(root, span=span)
