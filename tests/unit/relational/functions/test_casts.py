"""Casts: each pair of types, text forms, what does not fit."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError
from tests.unit.relational.expressions import over_rows, values

UTC = datetime.UTC
D = Decimal
INF, NAN = math.inf, math.nan


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


@pytest.mark.parametrize(
    ("said", "target", "given", "expected"),
    [
        ("INT", "BIGINT", -5, -5),
        ("BIGINT", "TINYINT", 127, 127),
        ("INT", "DOUBLE", 3, 3.0),
        ("INT", "DECIMAL(5, 2)", 3, D("3.00")),
        ("BIGINT", "DECIMAL(38, 10)", -(2**63), D("-9223372036854775808.0000000000")),
        ("INT", "BOOLEAN", 2, True),
        ("INT", "STRING", -7, "-7"),
        ("INT", "TIMESTAMP", -1, at("1969-12-31T23:59:59+00:00")),
        ("DOUBLE", "INT", -1.9, -1),
        ("DOUBLE", "BIGINT", 1e18, 10**18),
        ("DOUBLE", "FLOAT", 0.1, 0.10000000149011612),
        ("DOUBLE", "DECIMAL(10, 2)", 2.675, D("2.68")),
        ("DOUBLE", "DECIMAL(10, 2)", -1e-30, D("0.00")),
        ("DOUBLE", "DECIMAL(38, 0)", 1e37, D(10**37)),
        ("DOUBLE", "DECIMAL(10, 2)", NAN, None),
        ("FLOAT", "DECIMAL(3, 1)", 1.15, D("1.1")),
        ("DOUBLE", "BOOLEAN", 0.0, False),
        ("DOUBLE", "STRING", 1.0, "1.0"),
        ("DOUBLE", "STRING", -0.0, "-0.0"),
        ("DOUBLE", "STRING", 1e7, "1.0E7"),
        ("DOUBLE", "STRING", 9999999.5, "9999999.5"),
        ("DOUBLE", "STRING", 12345678.9, "1.23456789E7"),
        ("DOUBLE", "STRING", 0.001, "0.001"),
        ("DOUBLE", "STRING", 0.00015, "1.5E-4"),
        ("DOUBLE", "STRING", -1.5e300, "-1.5E300"),
        ("DOUBLE", "STRING", 5e-324, "4.9E-324"),
        ("DOUBLE", "STRING", NAN, "NaN"),
        ("DOUBLE", "STRING", -INF, "-Infinity"),
        ("FLOAT", "STRING", 0.1, "0.1"),
        ("FLOAT", "STRING", 1.5e10, "1.5E10"),
        ("DECIMAL(10, 2)", "INT", D("-1.99"), -1),
        ("DECIMAL(38, 0)", "BIGINT", D(2**63 - 1), 2**63 - 1),
        ("DECIMAL(10, 2)", "DOUBLE", D("0.10"), 0.1),
        ("DECIMAL(38, 20)", "DOUBLE", D("1.23456789012345678901"), 1.2345678901234568),
        ("DECIMAL(10, 2)", "DECIMAL(5, 1)", D("1.25"), D("1.3")),
        ("DECIMAL(10, 2)", "DECIMAL(5, 1)", D("-1.25"), D("-1.3")),
        ("DECIMAL(10, 2)", "STRING", D("1.50"), "1.50"),
        ("DECIMAL(10, 9)", "STRING", D("-0.000000015"), "-0.000000015"),
        ("DECIMAL(38, 10)", "STRING", D("0E-10"), "0.0000000000"),
        ("DECIMAL(10, 2)", "TIMESTAMP", D("1.50"), at("1970-01-01T00:00:01.500000+00:00")),
        ("BOOLEAN", "INT", True, 1),
        ("BOOLEAN", "DECIMAL(3, 1)", True, D("1.0")),
        ("BOOLEAN", "STRING", False, "false"),
        ("DATE", "TIMESTAMP_NTZ", day("1969-12-31"), at("1969-12-31T00:00:00")),
        ("DATE", "STRING", day("2020-02-29"), "2020-02-29"),
        ("TIMESTAMP(6)", "DATE", at("1969-12-31T23:59:59.999999"), day("1969-12-31")),
        ("TIMESTAMP(6)", "STRING", at("2020-01-01T10:00:00.120000"), "2020-01-01 10:00:00.12"),
        ("TIMESTAMP(6)", "STRING", at("2020-01-01T10:00:00"), "2020-01-01 10:00:00"),
        ("TIMESTAMP(6)", "TIMESTAMP_NTZ(3)", at("1969-12-31T23:59:59.999999"),
         at("1969-12-31T23:59:59.999000")),
        ("TIMESTAMP_LTZ(6)", "BIGINT", at("1969-12-31T23:59:59.5+00:00"), -1),
        ("TIMESTAMP_LTZ(6)", "DOUBLE", at("1970-01-01T00:00:01.5+00:00"), 1.5),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP_NTZ", at("2020-01-01T10:00:00+00:00"),
         at("2020-01-01T10:00:00")),
        ("BYTES", "STRING", "é".encode(), "é"),
        ("STRING", "BINARY", "é", "é".encode()),
        ("STRING", "INT", " +007\t", 7),
        ("STRING", "INT", "-0", 0),
        ("STRING", "TINYINT", "-128", -128),
        ("STRING", "BIGINT", "9223372036854775807", 2**63 - 1),
        ("STRING", "DOUBLE", " 1.5e3 ", 1500.0),
        ("STRING", "DOUBLE", ".5", 0.5),
        ("STRING", "DOUBLE", "5.", 5.0),
        ("STRING", "DOUBLE", "1.5d", 1.5),
        ("STRING", "DOUBLE", "-Infinity", -INF),
        ("STRING", "DOUBLE", "inf", INF),
        ("STRING", "DOUBLE", "NaN", NAN),
        ("STRING", "DECIMAL(5, 2)", "1.005", D("1.01")),
        ("STRING", "DECIMAL(5, 2)", "1.5e2", D("150.00")),
        ("STRING", "DECIMAL(38, 38)", "0." + "1" * 45, D("0." + "1" * 38)),
        ("STRING", "BOOLEAN", " TRUE ", True),
        ("STRING", "BOOLEAN", "n", False),
        ("STRING", "DATE", "2020-02-29", day("2020-02-29")),
        ("STRING", "DATE", " 2020-2-9 ", day("2020-02-09")),
        ("STRING", "DATE", "2020", day("2020-01-01")),
        ("STRING", "DATE", "2020-03", day("2020-03-01")),
        ("STRING", "DATE", "2020-01-01T12:30:00", day("2020-01-01")),
        ("STRING", "TIMESTAMP_NTZ", "2020-01-01", at("2020-01-01T00:00:00")),
        ("STRING", "TIMESTAMP_NTZ", "2020-1-1 1:2:3.5", at("2020-01-01T01:02:03.500000")),
        ("STRING", "TIMESTAMP_NTZ(3)", "2020-01-01 00:00:00.1239", at("2020-01-01T00:00:00.123")),
        ("STRING", "TIMESTAMP_NTZ", "2020-01-01 4", at("2020-01-01T04:00:00")),
        ("STRING", "TIMESTAMP_NTZ", "1960-01-01T10:00", at("1960-01-01T10:00:00")),
        ("STRING", "TIMESTAMP", "2020-01-01 10:00:00+01:30", at("2020-01-01T08:30:00+00:00")),
        ("STRING", "TIMESTAMP", "2020-01-01T10:00:00Z", at("2020-01-01T10:00:00+00:00")),
        ("STRING", "TIMESTAMP", "2020-07-01 10:00:00 Europe/Berlin",
         at("2020-07-01T08:00:00+00:00")),
        ("STRING", "TIME", "10:20:30", datetime.time(10, 20, 30)),
        ("ARRAY<INT>", "ARRAY<STRING>", [1, None], ["1", None]),
        ("ARRAY<STRING>", "ARRAY<INT>", ["1", None], [1, None]),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", [("a", 1)], [("a", 1)]),
        ("ROW<a INT, b STRING>", "STRUCT<x: STRING, y: STRING>", {"a": 1, "b": "z"},
         {"x": "1", "y": "z"}),
    ],
)  # fmt: skip
def test_casts(said: str, target: str, given: Any, expected: Any) -> None:
    for word in ("CAST", "TRY_CAST"):
        found = over_rows(f"{word}(x AS {target})", said, given)
        if isinstance(found, datetime.datetime) and found.tzinfo:
            found = found.astimezone(UTC)
        assert repr(found) == repr(expected), word


@pytest.mark.parametrize(
    ("said", "target", "given"),
    [
        ("INT", "TINYINT", 128),
        ("BIGINT", "INT", -(2**31) - 1),
        ("INT", "DECIMAL(3, 2)", 10),
        ("DOUBLE", "INT", 2147483648.0),
        ("DOUBLE", "BIGINT", 2.0**63),
        ("DOUBLE", "INT", NAN),
        ("DOUBLE", "DECIMAL(3, 2)", 9.999),
        ("DOUBLE", "DECIMAL(38, 0)", 1e300),
        ("DECIMAL(10, 2)", "TINYINT", D("128.00")),
        ("DECIMAL(10, 3)", "DECIMAL(3, 2)", D("9.995")),
        ("STRING", "INT", "1.5"),
        ("STRING", "INT", ""),
        ("STRING", "INT", "0x1F"),
        ("STRING", "INT", "2147483648"),
        ("STRING", "BIGINT", "9" * 50),
        ("STRING", "DOUBLE", "1,5"),
        ("STRING", "DOUBLE", "1e"),
        ("STRING", "DECIMAL(3, 2)", "10"),
        ("STRING", "DECIMAL(3, 2)", "x"),
        ("STRING", "DECIMAL(38, 0)", "1e50"),
        ("STRING", "BOOLEAN", "ja"),
        ("STRING", "DATE", "2021-02-29"),
        ("STRING", "DATE", "2020-13-01"),
        ("STRING", "DATE", "01.02.2020"),
        ("STRING", "TIMESTAMP_NTZ", "2020-01-01 25:00:00"),
        ("STRING", "TIMESTAMP", "2020-01-01 10:00:00 Nowhere/There"),
        ("ARRAY<STRING>", "ARRAY<INT>", ["1", "x"]),
    ],
)
def test_what_does_not_fit_is_an_error_or_null(said: str, target: str, given: Any) -> None:
    with pytest.raises(EvaluationError, match="cannot be cast to") as raised:
        over_rows(f"CAST(x AS {target})", said, given)
    assert raised.value.row == 1
    nothing = [1, None] if target == "ARRAY<INT>" else None  # of an array, the element alone
    assert over_rows(f"TRY_CAST(x AS {target})", said, given) == nothing


def test_an_error_names_the_value() -> None:
    with pytest.raises(EvaluationError, match=r"'abc' \(STRING\) cannot be cast to INT"):
        values("CAST(x AS INT)", {"x": ("STRING", ["1", None, "abc"])})


def test_good_and_bad_values_of_one_batch_are_told_apart() -> None:
    columns = {"x": ("STRING", ["1", "x", None, "2020-01-01", " 7 "])}
    assert values("TRY_CAST(x AS INT)", columns) == [1, None, None, None, 7]
    assert values("TRY_CAST(x AS DATE)", columns) == [None, None, None, day("2020-01-01"), None]
    assert values("TRY_CAST(x AS DECIMAL(2, 1))", columns) == [D("1.0"), None, None, None, D("7.0")]
    assert values("TRY_CAST(x AS BOOLEAN)", columns) == [True, None, None, None, None]
