"""Functions of numbers: values, NULLs, extremes."""

import math
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import QueryError
from tests.unit.relational.expressions import FLINK, bound, over_rows, type_of, value, values

NAN, INF = math.nan, math.inf
D = Decimal
MAX, MIN = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("call", "said", "given", "expected"),
    [
        ("round(x, 2)", "DOUBLE", 2.675, 2.68),
        ("round(x, 2)", "DOUBLE", 1.005, 1.01),
        ("round(x, 2)", "DOUBLE", -1.005, -1.01),
        ("round(x, 2)", "DOUBLE", 0.285, 0.29),
        ("round(x, 2)", "DOUBLE", 1e300, 1e300),
        ("round(x)", "DOUBLE", 2.5, 3.0),
        ("round(x)", "DOUBLE", -2.5, -3.0),
        ("round(x)", "DOUBLE", -0.4, 0.0),
        ("round(x)", "DOUBLE", NAN, NAN),
        ("round(x)", "DOUBLE", -INF, -INF),
        ("round(x, -2)", "DOUBLE", 1250.0, 1300.0),
        ("round(x, 3)", "DOUBLE", 123456789012345.6789, 123456789012345.67),
        ("round(x, 1)", "FLOAT", 2.25, 2.299999952316284),
        ("bround(x)", "DOUBLE", 2.5, 2.0),
        ("bround(x, 1)", "DOUBLE", 0.35, 0.4),
        ("round(x, 1)", "DECIMAL(5, 2)", D("1.25"), D("1.3")),
        ("round(x, 1)", "DECIMAL(5, 2)", D("-1.25"), D("-1.3")),
        ("round(x, -1)", "DECIMAL(5, 2)", D("995.00"), D(1000)),
        ("round(x)", "DECIMAL(2, 2)", D("0.50"), D(1)),
        ("bround(x, 1)", "DECIMAL(5, 2)", D("1.25"), D("1.2")),
        ("truncate(x, 1)", "DECIMAL(5, 2)", D("-1.29"), D("-1.2")),
        ("truncate(x, 2)", "DOUBLE", 1.15, 1.15),
        ("truncate(x, 2)", "DOUBLE", -2.567, -2.56),
        ("round(x, -1)", "INT", 25, 30),
        ("round(x, -1)", "INT", -25, -30),
        ("round(x, -2)", "BIGINT", 149, 100),
        ("round(x, 5)", "INT", 7, 7),
        ("ceil(x)", "DOUBLE", 1.2, 2),
        ("ceil(x)", "DOUBLE", -0.5, 0),
        ("floor(x)", "DOUBLE", -1.2, -2),
        ("floor(x)", "DOUBLE", 1e30, MAX),
        ("floor(x)", "DOUBLE", NAN, 0),
        ("ceil(x)", "DECIMAL(4, 2)", D("99.01"), D(100)),
        ("floor(x)", "DECIMAL(4, 2)", D("-0.01"), D(-1)),
        ("ceil(x)", "INT", 5, 5),
        ("sign(x)", "DOUBLE", -3.5, -1.0),
        ("sign(x)", "DECIMAL(4, 2)", D("0.00"), 0.0),
        ("sqrt(x)", "DOUBLE", -1.0, NAN),
        ("sqrt(x)", "INT", 16, 4.0),
        ("cbrt(x)", "DOUBLE", -27.0, -3.0),
        ("power(x, 2)", "INT", 3, 9.0),
        ("exp(x)", "DOUBLE", 0.0, 1.0),
        ("ln(x)", "DOUBLE", 0.0, None),
        ("ln(x)", "DOUBLE", 1.0, 0.0),
        ("log(2, x)", "INT", 8, 3.0),
        ("log(0, x)", "INT", 8, None),
        ("log10(x)", "INT", 1000, 3.0),
        ("log2(x)", "INT", -1, None),
        ("log1p(x)", "DOUBLE", -1.0, None),
        ("expm1(x)", "DOUBLE", 0.0, 0.0),
        ("asin(x)", "DOUBLE", 2.0, NAN),
        ("atan2(x, 1)", "DOUBLE", 0.0, 0.0),
        ("degrees(x)", "DOUBLE", math.pi, 180.0),
        ("radians(x)", "DOUBLE", 180.0, math.pi),
        ("sinh(x)", "DOUBLE", 0.0, 0.0),
        ("shiftleft(x, 33)", "INT", 1, 2),
        ("shiftleft(x, 33)", "BIGINT", 1, 2**33),
        ("shiftright(x, 1)", "INT", -8, -4),
        ("shiftrightunsigned(x, 1)", "INT", -2, 2**31 - 1),
        ("bit_count(x)", "INT", -1, 64),
        ("factorial(x)", "INT", 20, math.factorial(20)),
        ("factorial(x)", "INT", 21, None),
        ("bin(x)", "BIGINT", 13, "1101"),
        ("bin(x)", "BIGINT", MIN, "1" + "0" * 63),
        ("bin(x)", "INT", 0, "0"),
        ("hex(x)", "INT", -7, "FFFFFFFFFFFFFFF9"),
        ("hex(x)", "INT", 0, "0"),
        ("conv(x, 16, 10)", "STRING", "ff", "255"),
        ("conv(x, 10, 16)", "STRING", "-15", "FFFFFFFFFFFFFFF1"),
        ("conv(x, 16, -10)", "STRING", "-10", "-16"),
        ("conv(x, 10, 10)", "STRING", "12z", "12"),
        ("conv(x, 10, 36)", "STRING", "18446744073709551615", "3W5E11264SGSF"),
        ("round(x, 1)", "FLOAT", 1.15, 1.100000023841858),
        ("width_bucket(x, 0, 10, 5)", "DOUBLE", 5.0, 3),
        ("width_bucket(x, 0, 10, 5)", "DOUBLE", -1.0, 0),
        ("width_bucket(x, 0, 10, 5)", "DOUBLE", 10.0, 6),
        ("width_bucket(x, 10, 0, 5)", "DOUBLE", 9.0, 1),
        ("width_bucket(x, 0, 0, 5)", "DOUBLE", 9.0, None),
    ],
)
def test_functions_of_a_number(call: str, said: str, given: Any, expected: Any) -> None:
    assert repr(over_rows(call, said, given)) == repr(expected)


def test_functions_of_constants_are_constants() -> None:
    assert value("pi()") == math.pi
    assert value("e()") == math.e
    assert value("round(2.5)") == D(3)
    assert value("bin(5)") == "101"


def test_flink_rounds_to_the_same_type() -> None:
    assert type_of("floor(1e0)", dialect=FLINK) == "DOUBLE NOT NULL"
    assert values("floor(x)", {"x": ("DOUBLE", [-1.5, None])}, FLINK) == [-2.0, None]


def test_digits_to_round_to_must_be_a_constant() -> None:
    with pytest.raises(QueryError, match="constant"):
        bound("round(1.5, length('a'))")
