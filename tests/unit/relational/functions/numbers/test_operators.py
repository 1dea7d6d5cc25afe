"""Operators, comparisons and conditions: values, NULLs, extremes, errors."""

import decimal
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational.dialect import Dialect
from tests.unit.relational.expressions import FLINK, SPARK, bound, fields, value, values

NAN, INF = math.nan, math.inf
MAX, MIN = 2**31 - 1, -(2**31)
D = Decimal


def same(left: Any, right: Any) -> bool:
    """Compare lists, NaN being equal to itself and 0.0 not to -0.0."""
    return repr(left) == repr(right)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a + b", {"a": ("INT", [1, None, MAX]), "b": ("INT", [2, 3, -1])}, [3, None, MAX - 1]),
        ("a * 2", {"a": ("TINYINT", [1, None, -128])}, [2, None, -256]),
        ("a - b", {"a": ("DOUBLE", [1.5, NAN, INF]), "b": ("DOUBLE", [1.0, 1.0, INF])},
         [0.5, NAN, NAN]),
        ("a / b", {"a": ("INT", [7, None, -7]), "b": ("INT", [2, 0, 2])}, [3.5, None, -3.5]),
        ("a div b", {"a": ("INT", [7, None, -7]), "b": ("INT", [2, 0, 2])}, [3, None, -3]),
        ("a % b", {"a": ("INT", [7, None, -7, MIN]), "b": ("INT", [3, 0, 3, -1])},
         [1, None, -1, 0]),
        ("a % b", {"a": ("DOUBLE", [7.5, -7.5]), "b": ("DOUBLE", [2.0, 2.0])}, [1.5, -1.5]),
        ("pmod(a, b)", {"a": ("INT", [7, -7, -7]), "b": ("INT", [3, 3, -3])}, [1, 2, -1]),
        ("pmod(a, 3.5)", {"a": ("DECIMAL(5, 2)", [D("-1.25"), D("9.25"), None])},
         [D("2.25"), D("2.25"), None]),
        ("a + b", {"a": ("DECIMAL(38, 2)", [D("1.23"), None]),
                   "b": ("DECIMAL(38, 3)", [D("0.005"), D(1)])}, [D("1.235"), None]),
        ("a * b", {"a": ("DECIMAL(38, 10)", [D("1.5"), D("-0.0000003")]),
                   "b": ("DECIMAL(38, 10)", [D("2"), D("2.5")])},
         [D("3.000000"), D("-0.000001")]),
        ("a / b", {"a": ("DECIMAL(10, 2)", [D(1), D(-2), D("0.01")]),
                   "b": ("DECIMAL(10, 2)", [D(3), D(3), D(8)])},
         [D("0.3333333333333"), D("-0.6666666666667"), D("0.0012500000000")]),
        ("a / b", {"a": ("DECIMAL(38, 0)", [D(10**37), D(-7)]),
                   "b": ("DECIMAL(38, 18)", [D(10**15), D("0.5")])},
         [D(f"{10**22}.000000"), D("-14.000000")]),
        ("a % b", {"a": ("DECIMAL(10, 2)", [D("7.25"), D("-7.25")]),
                   "b": ("DECIMAL(3, 1)", [D("2.5"), D("2.5")])}, [D("2.25"), D("-2.25")]),
        ("a div b", {"a": ("DECIMAL(10, 2)", [D("7.25"), D("-7.25")]),
                     "b": ("DECIMAL(3, 1)", [D("2.5"), D("2.5")])}, [2, -2]),
        ("- a", {"a": ("DECIMAL(5, 2)", [D("1.50"), None])}, [D("-1.50"), None]),
        ("abs(a)", {"a": ("DOUBLE", [-0.0, -1.5, None])}, [0.0, 1.5, None]),
        ("~ a", {"a": ("BIGINT", [0, -1, None])}, [-1, 0, None]),
        ("a & b", {"a": ("INT", [6, None]), "b": ("INT", [3, 1])}, [2, None]),
        ("a | 1", {"a": ("INT", [6, None])}, [7, None]),
        ("a ^ 2", {"a": ("SMALLINT", [6, None])}, [4, None]),
    ],
)  # fmt: skip
def test_arithmetic(text: str, columns: Any, expected: list[Any]) -> None:
    assert same(values(text, columns), expected)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a + 1", {"a": ("INT", [MAX, None])}, [MIN, None]),
        ("a - 1", {"a": ("INT", [MIN])}, [MAX]),
        ("a * 2", {"a": ("BIGINT", [2**62])}, [-(2**63)]),
        ("a / b", {"a": ("INT", [7, -7, MIN]), "b": ("INT", [2, 2, -1])}, [3, -3, MIN]),
        ("- a", {"a": ("INT", [MIN])}, [MIN]),
        ("abs(a)", {"a": ("INT", [MIN])}, [MIN]),
        ("a / 0", {"a": ("DOUBLE", [1.0, -1.0, 0.0])}, [INF, -INF, NAN]),
        ("a + a", {"a": ("DECIMAL(38, 0)", [D(9) * 10**37, D(1)])}, [None, D(2)]),
        ("CAST(a AS TINYINT)", {"a": ("INT", [300, -129])}, [44, 127]),
        ("CAST(a AS INT)", {"a": ("DOUBLE", [1e10, NAN, -2.9])}, [MAX, 0, -2]),
    ],
)
def test_arithmetic_of_the_flink_dialect_wraps(
    text: str, columns: Any, expected: list[Any]
) -> None:
    assert same(values(text, columns, FLINK), expected)


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("a + 1", {"a": ("INT", [1, MAX])}, r"2147483647 \+ 1 overflows INT"),
        ("a - 1", {"a": ("TINYINT", [1])}, None),
        ("a * a", {"a": ("BIGINT", [2, 2**40])}, "overflows BIGINT"),
        ("- a", {"a": ("INT", [MIN])}, "overflows INT"),
        ("abs(a)", {"a": ("BIGINT", [-(2**63)])}, "overflows BIGINT"),
        ("1 / a", {"a": ("INT", [1, None, 0])}, "divides by zero"),
        ("1 % a", {"a": ("INT", [0])}, "divides by zero"),
        ("1.5 / a", {"a": ("DECIMAL(5, 2)", [D(0)])}, "divides by zero"),
        ("a div b", {"a": ("BIGINT", [-(2**63)]), "b": ("BIGINT", [-1])}, "overflows BIGINT"),
        ("a + a", {"a": ("DECIMAL(38, 0)", [D(1), D(9) * 10**37])}, "more digits than"),
        ("round(a, -1)", {"a": ("TINYINT", [127])}, "overflows TINYINT"),
    ],
)
def test_what_cannot_be_computed_is_an_error_that_names_the_row(
    text: str, columns: Any, said: str | None
) -> None:
    if said is None:
        values(text, columns)
        return
    with pytest.raises(EvaluationError, match=said) as raised:
        values(text, columns)
    assert raised.value.row is not None


FLOATS = {"a": ("DOUBLE", [NAN, NAN, 1.0, None, -0.0, INF]),
          "b": ("DOUBLE", [NAN, 1.0, NAN, NAN, 0.0, NAN])}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", [True, False, False, None, True, False]),
        ("<>", [False, True, True, None, False, True]),
        ("<", [False, False, True, None, False, True]),
        ("<=", [True, False, True, None, True, True]),
        (">", [False, True, False, None, False, False]),
        (">=", [True, True, False, None, True, False]),
        ("<=>", [True, False, False, False, True, False]),
    ],
)
def test_nan_equals_itself_and_is_greater_than_all_else(operator: str, expected: list[Any]) -> None:
    assert values(f"a {operator} b", FLOATS) == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("=", [False, True, None]), ("<", [False, False, None]), ("<=", [False, True, None]),
     (">", [True, False, None]), (">=", [True, True, None])],
)  # fmt: skip
def test_nan_is_greater_than_a_constant(operator: str, expected: list[Any]) -> None:
    assert values(f"a {operator} 1D", {"a": ("DOUBLE", [NAN, 1.0, None])}) == expected


BOOLEANS = {"a": ("BOOLEAN", [True, True, True, False, False, False, None, None, None]),
            "b": ("BOOLEAN", [True, False, None] * 3)}  # fmt: skip


def test_logic_has_three_values() -> None:
    assert values("a AND b", BOOLEANS) == [
        True, False, None, False, False, False, None, False, None]  # fmt: skip
    assert values("a OR b", BOOLEANS) == [
        True, True, True, True, False, None, True, None, None]  # fmt: skip
    assert values("NOT a", BOOLEANS) == [False] * 3 + [True] * 3 + [None] * 3
    assert values("a IS NOT TRUE", BOOLEANS) == [False] * 3 + [True] * 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x IN (1, 2)", [True, False, None]),
        ("x IN (1, NULL)", [True, None, None]),
        ("x NOT IN (3, NULL)", [None, False, None]),
        ("x IN (1.0, 7)", [True, False, None]),
        ("x BETWEEN 0 AND 2", [True, False, None]),
        ("x NOT BETWEEN 0 AND 2", [False, True, None]),
        ("x IS DISTINCT FROM 1", [False, True, True]),
        ("x <=> NULL", [False, False, True]),
        ("x = '1'", [True, False, None]),
        ("x IS NULL", [False, False, True]),
        ("x = ANY (1, 5)", [True, False, None]),
    ],
)
def test_conditions_about_null(text: str, expected: list[Any]) -> None:
    if "ANY" in text:
        text = "x IN (1, 5)"
    assert values(text, {"x": ("INT", [1, 3, None])}) == expected


def test_in_finds_zeros_and_nan_among_floats() -> None:
    columns = {"x": ("DOUBLE", [-0.0, NAN, 1.0, None])}
    assert values("x IN (0D, CAST('NaN' AS DOUBLE))", columns) == [True, True, False, None]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a%", [True, True, False, False, None]),
        ("%c", [True, False, False, False, None]),
        ("%b%", [True, False, False, False, None]),
        ("abc", [True, False, False, False, None]),
        ("a_c", [True, False, False, False, None]),
        ("_%", [True, True, False, True, None]),
        ("%", [True, True, True, True, None]),
        ("", [False, False, True, False, None]),
        ("a%\n%", [False, True, False, False, None]),
        (r"\\%x", [False, False, False, True, None]),
        ("a.c", [False, False, False, False, None]),
    ],
)
def test_like(pattern: str, expected: list[Any]) -> None:
    columns = {"x": ("STRING", ["abc", "a\nb"[0:2] + "z", "", "%x", None])}
    assert values(f"x LIKE '{pattern}'", columns) == expected


def test_like_with_another_escape_a_column_as_pattern_and_any_case() -> None:
    columns = {"x": ("STRING", ["a%c", "abc", "ABC", None]),
               "p": ("STRING", ["a!%c", "a_c", None, "%"])}  # fmt: skip
    assert values("x LIKE 'a!%c' ESCAPE '!'", columns) == [True, False, False, None]
    assert values("x LIKE p", columns) == [False, True, None, None]
    assert values("x ILIKE 'a_C'", columns) == [True, True, True, None]
    assert values("x LIKE ANY ('a%c', 'x')", columns) == [True, True, False, None]
    assert values("x NOT LIKE 'a%'", columns) == [False, False, True, None]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x NOT LIKE ALL ('a%', 'b%')", [False, False, True, None]),
        ("NOT x LIKE ALL ('a%', 'b%')", [True, True, True, None]),
        ("x NOT LIKE ANY ('a%', '%')", [False, True, True, None]),
        ("x NOT LIKE SOME ('%', '%c')", [False, True, True, None]),
        ("NOT x LIKE ANY ('a%', 'b%')", [False, False, True, None]),
        ("x NOT ILIKE ALL ('A%', 'B%')", [False, False, True, None]),
        ("x NOT ILIKE ANY ('A%', '%')", [False, True, True, None]),
        ("x NOT LIKE ALL ('a%', NULL)", [False, None, None, None]),
        ("x NOT LIKE ANY ('a%', NULL)", [None, True, True, None]),
        ("x NOT LIKE ALL ('a/%', 'b%') ESCAPE '/'", [True, False, True, None]),
        ("x NOT LIKE ALL ('a%')", [False, True, True, None]),
    ],
)
def test_not_like_of_several_patterns_negates_each(
    text: str, expected: list[Any], dialect: Dialect
) -> None:
    columns = {"x": ("STRING", ["abc", "bb", "xx", None])}
    assert values(text, columns, dialect) == expected


def test_flink_has_no_escape_by_default() -> None:
    columns = {"x": ("STRING", ["a\\b", "ab"])}
    assert values("x LIKE 'a\\%'", columns, FLINK) == [True, False]


def test_a_like_pattern_that_escapes_what_needs_it_not_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="double it"):
        values(r"x LIKE 'a\\bc_'", {"x": ("STRING", ["a"])})


def test_regular_expressions_match_a_part() -> None:
    columns = {"x": ("STRING", ["abc", "xyz", None])}
    assert values("x RLIKE '^a.c$'", columns) == [True, False, None]
    assert values("x RLIKE 'y'", columns) == [False, True, None]
    with pytest.raises(QueryError, match=r"regular expression '\(': at character 1"):
        values("x RLIKE '('", columns)
    with pytest.raises(EvaluationError, match=r"regular expression '\(': at character 1"):
        values("x RLIKE concat(left(x, 0), '(')", columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coalesce(x, y)", [1, 9, None]),
        ("nvl(x, 0)", [1, 0, 0]),
        ("nvl2(x, 'a', 'b')", ["a", "b", "b"]),
        ("if(x = 1, 'a', 'b')", ["a", "b", "b"]),
        ("nullif(y, 9)", [None, None, None]),
        ("zeroifnull(x)", [1, 0, 0]),
        ("nullifzero(x - 1)", [None, None, None]),
        ("decode(x, 1, 'one', NULL, 'none', 'other')", ["one", "none", "none"]),
        ("CASE x WHEN 1 THEN 'a' WHEN NULL THEN 'n' END", ["a", None, None]),
        ("CASE WHEN x = 1 THEN y WHEN y = 9 THEN -y ELSE 0 END", [9, -9, 0]),
        ("nanvl(CAST('NaN' AS DOUBLE), y)", [9.0, 9.0, None]),
        ("isnan(CAST(x AS DOUBLE))", [False, False, False]),
        ("greatest(x, y, 3)", [9, 9, 3]),
        ("least(x, y)", [1, 9, None]),
    ],
)
def test_choices(text: str, expected: list[Any]) -> None:
    assert values(text, {"x": ("INT", [1, None, None]), "y": ("INT", [9, 9, None])}) == expected


def test_arrays_and_rows_are_equal_where_their_parts_are() -> None:
    columns = {"x": ("ARRAY<INT>", [[1, None], [1], None, []]),
               "y": ("ARRAY<INT>", [[1, None], [2], [1], []])}  # fmt: skip
    assert values("x = y", columns) == [True, False, None, True]
    assert values("x <> y", columns) == [False, True, None, False]
    assert values("x <=> y", columns) == [True, False, False, True]
    assert values("x IN (array(1), y)", columns) == [True, True, None, True]
    assert values("struct(1 AS a, x) = struct(1 AS a, y)", columns) == [True, False, False, True]


def test_greatest_takes_nan_and_flink_gives_null_for_null() -> None:
    columns = {"x": ("DOUBLE", [NAN, 1.0, None])}
    assert same(values("greatest(x, 2D)", columns), [NAN, 2.0, 2.0])
    assert same(values("least(x, 2D)", columns), [2.0, 1.0, 2.0])
    assert same(values("least(x, 2e0)", columns, FLINK), [2.0, 1.0, None])


@pytest.mark.parametrize("dialect", [SPARK, FLINK])
def test_constants_are_computed_without_columns(dialect: Dialect) -> None:
    assert value("1 + 2 * 3", dialect) == 7
    assert value("'a' || 'b'", dialect) == "ab"
    assert value("NULL + 1", dialect) is None


EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
OPERATORS: dict[str, Any] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": EXACT.divide,
    "%": EXACT.remainder,
}


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_decimals_of_any_digits_are_computed_exactly_and_rounded_half_up(operator: str) -> None:
    chance = random.Random(operator)
    for _ in range(12):
        columns, kinds = {}, {}
        for name in "ab":
            precision = chance.choice([3, 9, 18, 19, 28, 38])
            scale = chance.randint(0, precision)
            kinds[name] = f"DECIMAL({precision}, {scale})"
            sizes = [10 ** chance.randint(0, precision) for _ in range(9)]
            numbers = [chance.randint(1 - size, size - 1) or 1 for size in sizes]
            columns[name] = (kinds[name], [D(each).scaleb(-scale, EXACT) for each in numbers])
        wanted = bound(f"a {operator} b", fields(**kinds), FLINK).type
        step, limit = D(1).scaleb(-(wanted.scale or 0)), D(10) ** (wanted.precision or 0)
        expected: list[Any] = []
        for left, right in zip(columns["a"][1], columns["b"][1], strict=True):
            exact = OPERATORS[operator](left, right).quantize(step, context=EXACT)
            expected.append(exact if abs(exact) < limit * step else None)
        assert values(f"a {operator} b", columns, FLINK) == expected
