"""Single answers at the ends of types, as Spark gives them."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational import from_arrow, query

ROW = from_arrow(pa.table({"n": pa.array([1], pa.int64())}), name="t")
LEAST = "CAST('-9223372036854775808' AS BIGINT)"


LTZ = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("to_timestamp(1970)", LTZ, datetime(1970, 1, 1, 0, 32, 50)),
        (
            "try_to_timestamp(1.5)",
            pa.timestamp("us", "UTC"),
            datetime(1970, 1, 1, 0, 0, 1, 500_000),
        ),
        ("try_to_timestamp(1e30)", LTZ, None),
        (f"unix_micros(timestamp_micros({LEAST}))", pa.int64(), -(2**63)),
        ("elt(2, 'a', 'b')", pa.string(), "b"),
        ("find_in_set(1, 'a,1')", pa.int32(), 2),
        ("elt(NULL, 'a')", pa.string(), None),
        (
            "greatest(timestamp_seconds(n), timestamp_seconds(2), NULL)",
            LTZ,
            datetime(1970, 1, 1, 0, 0, 2),
        ),
        ("least(timestamp_seconds(n), timestamp_seconds(2))", LTZ, datetime(1970, 1, 1, 0, 0, 1)),
        ("elt(2, X'00', X'FF')", pa.binary(), b"\xff"),
        ("elt(1, X'61', 'b')", pa.string(), "a"),
        ("array(NULL, 'x')", pa.list_(pa.string()), [None, "x"]),
        ("next_day(NULL, 'a')", pa.date32(), None),
        ("make_date(2020, 13, NULL)", pa.date32(), None),
        ("element_at(array(1), CAST(NULL AS INT))", pa.int32(), None),
        ("1 DIV CAST(NULL AS INT)", pa.int64(), None),
        ("CAST(NULL AS INT) / 0", pa.float64(), None),
        ("'5' << 40", pa.int32(), 1280),
        ("conv('-0', 10, -16)", pa.string(), "-0"),
        ("ceil(CAST(1.25 AS FLOAT), 1)", pa.decimal128(9, 1), Decimal("1.3")),
        ("ceil('1.25', 0)", pa.decimal128(21, 0), 2),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY n)", pa.float64(), 1.0),
        ("hex(true)", pa.string(), "74727565"),
        ("hex(DATE '2020-01-01')", pa.string(), "323032302D30312D3031"),
        ("bit_count(true)", pa.int32(), 1),
        ("bit_count(n = 2)", pa.int32(), 0),
        ("nullifzero('-0')", pa.string(), None),
        ("nullifzero('7')", pa.string(), "7"),
        ("overlay(X'616263' PLACING X'64' FROM -2)", pa.binary(), b"dc"),
        ("overlay('abc' PLACING 'x' FROM -2)", pa.string(), "xc"),
        ("zeroifnull('7')", pa.int64(), 7),
        ("zeroifnull(CAST(NULL AS TINYINT))", pa.int32(), 0),
        ("isnan(power(n, double('NaN')))", pa.bool_(), True),
        ("isnan(power(-1, double('-Infinity')))", pa.bool_(), True),
        ("power(double('NaN'), 0)", pa.float64(), 1.0),
        ("parse_url('http://a_b/', 'HOST')", pa.string(), None),
        ("parse_url('http://[::1]:80/x', 'HOST')", pa.string(), "[::1]"),
        ("parse_url('http://h?x=1', 'PATH', 'x')", pa.string(), None),
        ("date_trunc('bad', timestamp_seconds(n))", LTZ, None),
        ("date_trunc(NULL, timestamp_seconds(n))", LTZ, None),
        ("trunc(DATE '2020-02-02', 'hour')", pa.date32(), None),
    ],
)
def test_an_answer_has_the_type_and_value_of_spark(
    expression: str, kind: pa.DataType, value: Any
) -> None:
    found = query(f"SELECT {expression} AS v FROM t", t=ROW).to_arrow()["v"]
    assert str(found.type).replace("element", "item") == str(kind).replace("element", "item")
    known = found[0].as_py()
    assert (known.replace(tzinfo=None) if isinstance(known, datetime) else known) == value


@pytest.mark.parametrize(
    "expression",
    [
        "elt(-1, 'a', 'b')",
        "elt(0, 'a', 'b')",
        "elt(3, 'a', 'b')",
        f"timestamp_seconds({LEAST})",
        f"timestamp_millis({LEAST})",
        "next_day(date'2020-01-01', 'a')",
        "nullifzero('')",
        "to_char(1e20D, '999')",
        "to_char(float('1e8'), '999')",
        "parse_url('a=b:c,d', 'HOST')",
        "parse_url('a:', 'HOST')",
        "parse_url('http://h/[', 'PATH')",
        "parse_url('//', 'HOST')",
    ],
)
def test_what_spark_refuses_is_refused(expression: str) -> None:
    with pytest.raises(EvaluationError):
        query(f"SELECT {expression} AS v FROM t", t=ROW).to_arrow()


@pytest.mark.parametrize(
    "expression",
    [
        "bit_count('1')",
        "bit_count(1.5)",
        "nullifzero(true)",
        "nullifzero(timestamp_seconds(n))",
        "zeroifnull(true)",
        "soundex(X'61')",
        "soundex(n)",
        "conv(array(1), 10, 16)",
    ],
)
def test_types_that_spark_does_not_take_are_refused(expression: str) -> None:
    with pytest.raises(QueryError, match="it takes"):
        query(f"SELECT {expression} AS v FROM t", t=ROW)


@pytest.mark.parametrize("months", ["178956970 * 12", "2147483647", "-2147483648"])
def test_months_beyond_the_range_of_times_are_refused(months: str) -> None:
    for time in ("DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00'"):
        with pytest.raises((EvaluationError, QueryError)):
            query(f"SELECT timestampadd(MONTH, {months}, {time}) AS v FROM t", t=ROW).to_arrow()


@pytest.mark.parametrize("seconds", ["array(1)", "map(1, 2)", "struct(1)", "true"])
@pytest.mark.parametrize("name", ["make_timestamp", "try_make_timestamp", "make_timestamp_ntz"])
def test_seconds_that_are_no_number_are_refused_when_they_are_bound(
    name: str, seconds: str
) -> None:
    with pytest.raises(QueryError, match="a number"):
        query(f"SELECT {name}(2020, 1, 1, 0, 0, {seconds}) AS v FROM t", t=ROW)
