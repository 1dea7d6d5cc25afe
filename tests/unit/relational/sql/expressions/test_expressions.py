"""How expressions are bound: types and trees in both dialects, and what is refused."""

import pytest

from pkray.errors import PkrayError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Call, Case, Cast, Literal
from pkray.relational.plan.text import to_text
from pkray.schema.types import DataType
from tests.unit.relational.expressions import FLINK, SPARK, bound, fields, type_of

COLUMNS = fields(
    t="TINYINT",
    s="SMALLINT",
    i="INT",
    n="INT NOT NULL",
    b="BIGINT",
    f="FLOAT",
    d="DOUBLE",
    m="DECIMAL(15, 2)",
    w="DECIMAL(38, 10)",
    x="STRING",
    v="VARCHAR(5)",
    o="BOOLEAN",
    day="DATE",
    ts="TIMESTAMP(3)",
    tz="TIMESTAMP_LTZ(6)",
    xs="ARRAY<INT>",
    row="ROW<a INT, b STRING>",
)


@pytest.mark.parametrize(
    ("text", "spark", "flink"),
    [
        ("5", "INT NOT NULL", "INT NOT NULL"),
        ("3000000000", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("-9223372036854775808", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("9223372036854775808", "DECIMAL(19, 0) NOT NULL", "DECIMAL(19, 0) NOT NULL"),
        ("1.50", "DECIMAL(3, 2) NOT NULL", "DECIMAL(3, 2) NOT NULL"),
        ("0.05", "DECIMAL(2, 2) NOT NULL", "DECIMAL(2, 2) NOT NULL"),
        ("1e3", "DOUBLE NOT NULL", "DOUBLE NOT NULL"),
        ("'a'", "STRING NOT NULL", "STRING NOT NULL"),
        ("NULL", "STRING", "STRING"),
        ("X'0aff'", "BYTES NOT NULL", "BYTES NOT NULL"),
        ("DATE '2020-01-31'", "DATE NOT NULL", "DATE NOT NULL"),
        ("TIMESTAMP '2020-01-31 10:00:00'", "TIMESTAMP_LTZ(6) NOT NULL", "TIMESTAMP(6) NOT NULL"),
        ("t + s", "SMALLINT", "SMALLINT"),
        ("i + 1", "INT", "INT"),
        ("n + 1", "INT NOT NULL", "INT NOT NULL"),
        ("s + 1", "INT", "INT"),
        ("i + b", "BIGINT", "BIGINT"),
        ("i / 2", "DOUBLE", "INT"),
        ("b / i", "DOUBLE", "BIGINT"),
        ("f / f", "DOUBLE", "FLOAT"),
        ("f + i", "DOUBLE", "FLOAT"),
        ("f + d", "DOUBLE", "DOUBLE"),
        ("m + d", "DOUBLE", "DOUBLE"),
        ("m + 1", "DECIMAL(16, 2)", "DECIMAL(16, 2)"),
        ("m + i", "DECIMAL(16, 2)", "DECIMAL(16, 2)"),
        ("m + b", "DECIMAL(23, 2)", "DECIMAL(22, 2)"),
        ("m * m", "DECIMAL(31, 4)", "DECIMAL(31, 4)"),
        ("m * (1 - m)", "DECIMAL(32, 4)", "DECIMAL(32, 4)"),
        ("w * w", "DECIMAL(38, 6)", "DECIMAL(38, 6)"),
        ("w + w", "DECIMAL(38, 9)", "DECIMAL(38, 9)"),
        ("m / m", "DECIMAL(33, 18)", "DECIMAL(33, 18)"),
        ("m / 3", "DECIMAL(19, 6)", "DECIMAL(26, 13)"),
        ("w / m", "DECIMAL(38, 8)", "DECIMAL(38, 8)"),
        ("m % 7", "DECIMAL(3, 2)", "DECIMAL(12, 2)"),
        ("i % 3", "INT", "INT"),
        ("i div 2", "BIGINT", "BIGINT"),
        ("x || v", "STRING", "STRING"),
        ("- m", "DECIMAL(15, 2)", "DECIMAL(15, 2)"),
        ("i = 5", "BOOLEAN", "BOOLEAN"),
        ("n = 5", "BOOLEAN NOT NULL", "BOOLEAN NOT NULL"),
        ("i IS NULL", "BOOLEAN NOT NULL", "BOOLEAN NOT NULL"),
        ("i IS DISTINCT FROM n", "BOOLEAN NOT NULL", "BOOLEAN NOT NULL"),
        ("i IN (1, NULL)", "BOOLEAN", "BOOLEAN"),
        ("i BETWEEN 1 AND n", "BOOLEAN", "BOOLEAN"),
        ("o IS TRUE", "BOOLEAN NOT NULL", "BOOLEAN NOT NULL"),
        ("coalesce(i, n)", "INT NOT NULL", "INT NOT NULL"),
        ("coalesce(i, NULL)", "INT", "INT"),
        ("nullif(n, 1)", "INT", "INT"),
        ("CASE WHEN o THEN 1 ELSE 2.5 END", "DECIMAL(11, 1) NOT NULL", "DECIMAL(11, 1) NOT NULL"),
        ("CASE i WHEN 1 THEN x END", "STRING", "STRING"),
        ("CASE WHEN o THEN v ELSE v END", "VARCHAR(5)", "VARCHAR(5)"),
        ("if(o, day, ts)", "TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("CAST(n AS BIGINT)", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("TRY_CAST(n AS TINYINT)", "TINYINT", "TINYINT"),
        ("x :: INT", "INT", "INT"),
        ("CAST(x AS TIMESTAMP)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(6)"),
        ("ts + INTERVAL '5' SECOND", "TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("day + INTERVAL '1' DAY", "DATE", "DATE"),
        ("day - INTERVAL '1' HOUR", "TIMESTAMP_LTZ(6)", "TIMESTAMP(6)"),
        ("round(m, 1)", "DECIMAL(15, 1)", "DECIMAL(15, 1)"),
        ("round(m, 5)", "DECIMAL(16, 2)", "DECIMAL(15, 2)"),
        ("round(m, -1)", "DECIMAL(14, 0)", "DECIMAL(14, 0)"),
        ("round(i, -1)", "INT", "INT"),
        ("ceil(m)", "DECIMAL(14, 0)", "DECIMAL(15, 0)"),
        ("floor(d)", "BIGINT", "DOUBLE"),
        ("greatest(i, n)", "INT NOT NULL", "INT"),
        ("length(x)", "INT", "INT"),
        ("transform(xs, x -> x + 1)", "ARRAY<INT>", "ARRAY<INT>"),
    ],
)
def test_types_of_expressions(text: str, spark: str, flink: str) -> None:
    assert (type_of(text, COLUMNS, SPARK), type_of(text, COLUMNS, FLINK)) == (spark, flink)


@pytest.mark.parametrize(
    ("text", "spark", "flink"),
    [
        ("i + 1", "i + 1", "add_wrapping(i, 1)"),
        ("i / n", "CAST(i AS DOUBLE) / CAST(n AS DOUBLE)", "divide_truncating(i, n)"),
        ("d / 2", "d / '2.0'", "divide_wrapping(d, '2.0')"),
        ("abs(i)", "abs(i)", "abs_wrapping(i)"),
        ("CAST(b AS INT)", "CAST(b AS INT)", "WRAP_CAST(b AS INT)"),
        ("CAST(o AS STRING)", "CAST(o AS STRING)", "flink_text(o)"),
        ("x LIKE 'a\\\\%'", "like(x, 'a\\%')", "like(x, 'a\\\\%', '')"),
        ("s = 5", "s = 5", "s = 5"),
        ("m > 1.5", "m > '1.50'", "m > '1.50'"),
        ("i = '5'", "CAST(i AS BIGINT) = CAST('5' AS BIGINT)",
         "CAST(i AS BIGINT) = CAST('5' AS BIGINT)"),
        ("i BETWEEN 1 AND 2", "(i >= 1) AND (i <= 2)", "(i >= 1) AND (i <= 2)"),
        ("o AND o AND o", "and(o, o, o)", "and(o, o, o)"),
        ("NOT (i IS NULL)", "i IS NOT NULL", "i IS NOT NULL"),
        ("(i, n) = (1, 2)", "(i = 1) AND (n = 2)", "(i = 1) AND (n = 2)"),
    ],
)  # fmt: skip
def test_differences_of_dialects_stand_in_the_tree(text: str, spark: str, flink: str) -> None:
    shown = [to_text(bound(text, COLUMNS, each), types=False) for each in (SPARK, FLINK)]
    assert shown == [spark, flink]


def test_an_interval_of_months_and_one_of_time_become_constants() -> None:
    call = bound("ts - INTERVAL '1-2' YEAR TO MONTH", COLUMNS)
    assert isinstance(call, Call)
    assert [part.value for part in call.arguments[1:] if isinstance(part, Literal)] == [-14, 0]
    call = bound("ts + INTERVAL '1 02:03:04.5' DAY TO SECOND", COLUMNS)
    assert isinstance(call, Call)
    micros = ((26 * 60 + 3) * 60 + 4) * 1_000_000 + 500_000
    assert [part.value for part in call.arguments[1:] if isinstance(part, Literal)] == [0, micros]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("INTERVAL 5 DAYS", 5 * 86_400_000_000),
        ("INTERVAL '10' MINUTES", 600_000_000),
        ("INTERVAL '-1.5' SECOND", -1_500_000),
        ("INTERVAL '2 hours 3 minutes'", 7_380_000_000),
        ("2 * INTERVAL '1' HOUR", 7_200_000_000),
        ("INTERVAL '1' HOUR + INTERVAL '1' MINUTE", 3_660_000_000),
    ],
)
def test_intervals_are_read_as_microseconds(text: str, micros: int) -> None:
    call = bound(f"ts + ({text})", COLUMNS)
    assert isinstance(call, Call)
    found = call.arguments[2]
    if isinstance(found, Call):
        assert found.function == "add"
        assert sum(part.value for part in found.arguments if isinstance(part, Literal)) == micros
    else:
        assert isinstance(found, Literal)
        assert found.value == micros


def test_constants_take_the_type_that_they_are_compared_with() -> None:
    call = bound("s = 5", COLUMNS)
    assert isinstance(call, Call)
    assert call.arguments[1] == Literal(DataType("SMALLINT", nullable=False), 5)


def test_a_column_of_few_digits_is_not_cast_to_compare_it_with_a_time() -> None:
    for dialect in (SPARK, FLINK):
        call = bound("ts >= TIMESTAMP_NTZ '2020-01-01 00:00:00.5'", COLUMNS, dialect)
        assert isinstance(call, Call)
        assert [argument.type.precision for argument in call.arguments] == [3, 3]


def test_an_untyped_null_takes_the_type_that_its_context_wants() -> None:
    case = bound("CASE WHEN o THEN NULL ELSE i END", COLUMNS)
    assert isinstance(case, Case)
    assert case.branches[0][1] == Literal(DataType("INT"), None)
    assert bound("CAST(NULL AS DATE)") == Literal(DataType("DATE"), None)


def test_a_cast_to_the_same_type_is_none() -> None:
    assert not isinstance(bound("CAST(i AS INT)", COLUMNS), Cast)


def test_a_lambda_hides_a_column_and_reads_others() -> None:
    call = bound("transform(xs, x -> x + n)", COLUMNS)
    assert call.columns() == {"xs", "n"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zz + 1", "no column zz"),
        ("foo(1)", "no function is called 'foo'"),
        ("uper(x)", "did you mean upper"),
        ("sum(i)", "computed from several rows"),
        ("map(1, xs) < map(1, xs)", "MAP<INT NOT NULL, ARRAY<INT>> NOT NULL values cannot"),
        ("upper()", "upper takes 1 argument, not 0"),
        ("upper(x, x)", "upper takes 1 argument, not 2"),
        ("sqrt(day)", "argument 1 of sqrt is DATE"),
        ("i AND o", "a condition must be BOOLEAN"),
        ("xs + 1", "argument 1 of add is ARRAY<INT>"),
        ("i = day", "no type in common: INT and DATE"),
        ("CASE WHEN o THEN xs ELSE 1 END", "no type in common"),
        ("CAST(xs AS INT)", "cannot be cast"),
        ("CAST(o AS DATE)", "BOOLEAN cannot be cast to DATE"),
        ("CAST(i AS DECIMAL(50, 2))", "precision 50"),
        ("ts + INTERVAL 'x' DAY", "'x' is no length of an INTERVAL DAY"),
        ("x LIKE 'a' ESCAPE 'ab'", "one character"),
        ("i IN (SELECT 1)", "cannot stand here"),
        ("1" * 40, "more than 38 digits"),
        ("round(d, i)", "must be a constant"),
    ],
)
def test_wrong_expressions_are_refused(text: str, said: str) -> None:
    with pytest.raises(PkrayError, match=r"(?s)" + said.replace("(", r"\(")) as raised:
        bound(text, COLUMNS)
    assert isinstance(raised.value, QueryError | UnsupportedError)


def test_an_error_says_where_in_the_text_it_is() -> None:
    with pytest.raises(QueryError) as raised:
        bound("i + 1 >\n  zz", COLUMNS)
    assert (raised.value.line, raised.value.column) == (2, 3)


def test_deeply_nested_expressions_are_refused() -> None:
    with pytest.raises(QueryError, match="levels"):
        bound("-(" * 130 + "i" + ")" * 130, COLUMNS)


def test_long_chains_of_and_and_or_are_no_nesting() -> None:
    condition = bound(" OR ".join(f"i = {number}" for number in range(120)), COLUMNS)
    assert condition.type.root == "BOOLEAN"


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_function_is_described(dialect: Dialect) -> None:
    from pkray.relational.functions.function import written

    for each in written(dialect):
        assert each.about.endswith("."), each.name
        assert each.about[0].isupper(), each.name
