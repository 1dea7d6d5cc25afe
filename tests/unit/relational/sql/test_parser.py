"""What queries are read as, and where the refused ones say that they are wrong."""

import inspect
import re
import sys

import pytest
from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.dialects import DIALECTS
from pkray.relational.sql.hints import hint_options
from pkray.relational.sql.parser import parse_expression, parse_query, parse_trees


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, COUNT(*) FILTER(WHERE b) AS c FROM t GROUP BY a, GROUPING SETS ((b), ())",
        "SELECT a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM TABLE(TUMBLE((SELECT a FROM t), DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM TABLE(SESSION(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), "
        "SIZE => INTERVAL '1' HOUR) AS x",
        "SELECT * FROM t VERSION AS OF 3 AS x",
        "SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest') */",
        "SELECT /*+ STATE_TTL('a' = '1d') */ * FROM a JOIN b ON a.x = b.x",
        "SELECT * FROM t CROSS JOIN UNNEST(t.x) WITH ORDINALITY AS u(v, o)",
        "SELECT nvl(a, b), IF(a, b, c), SUBSTRING(a, 2, 3), POSITION('x', a) FROM t",
    ],
)
def test_a_query_is_printed_as_it_was_written(text: str) -> None:
    tree = parse_query(text, Dialect.SPARK)
    printed = tree.sql(DIALECTS[Dialect.SPARK])
    assert parse_query(printed, Dialect.SPARK) == tree
    assert printed.upper().split() == text.upper().split()


def test_functions_are_kept_as_they_are_written() -> None:
    call = parse_expression("Date_Add(a, 1)", Dialect.SPARK)
    assert isinstance(call, exp.Anonymous)
    assert call.name == "Date_Add"


@pytest.mark.parametrize("text", ["array(a, b)[1]", "t.array[1]", "`array`[1]", "list[1]"])
def test_a_place_in_brackets_is_taken_of_what_stands_before_them(text: str) -> None:
    tree = parse_expression(text, Dialect.SPARK)
    assert isinstance(tree, exp.Bracket)
    assert parse_expression(tree.sql(DIALECTS[Dialect.SPARK]), Dialect.SPARK) == tree


def test_backslashes_are_plain_in_the_flink_dialect() -> None:
    assert parse_expression(r"'a\n''b'", Dialect.FLINK).name == r"a\n'b"
    assert parse_expression(r"'a\nb'", Dialect.SPARK).name == "a\nb"


def test_a_hint_of_a_table_is_read() -> None:
    tree = parse_query("SELECT * FROM t /*+ OPTIONS('a' = '1', b = 2) */ AS x", Dialect.FLINK)
    table = tree.find(exp.Table)
    assert table is not None
    assert table.alias == "x"
    assert hint_options(table.args["hints"][0].expressions[0]) == {"a": "1", "b": "2"}


def test_statements_are_divided_at_semicolons() -> None:
    assert len(parse_trees("SELECT ';' ; /* ; */ SELECT 2;", Dialect.SPARK)) == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("SELECT a\nFROM t x y", 2, 10, "'y' is not expected"),
        ("SELECT a FROM", 1, 10, "table name"),
        ("SELECT 'x", 1, 8, "close it"),
        ("SELECT\n `x", 2, 2, "close it"),
        ("/*+ STATE_TTL('t' = '1 d') */ SELECT a FROM t", 1, 1, "a hint stands after SELECT"),
        ("SELECT /*+ STATE_TTL('t' =) */ 1", 1, 8, "hint STATE_TTL is not understood"),
        ("SELECT /*+ STATE_TTL(`t) */ 1", 1, 8, "of a hint is not closed"),
        ("SELECT a,, b", 1, 12, "an entry is missing beside a comma"),
        ("SELECT /*+ BROADCAST(a) */ 1", 1, 8, "no hint is called BROADCAST"),
        ("SELECT a /*+ OPTIONS('a'='b') */ + 1", 1, 10, "after the name of a table"),
        ("SELECT * FROM t /*+ OPTIONS('a') */", 1, 17, "write OPTIONS('key' = 'value'"),
    ],
)
def test_a_refused_text_says_where(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(QueryError, match=re.escape(words)) as refused:
        parse_query(text, Dialect.SPARK)
    assert (refused.value.line, refused.value.column) == (line, column)


@pytest.mark.parametrize("text", ["(" * 5000 + "1" + ")" * 5000, "- " * 5000 + "1"])
def test_deeply_nested_text_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="nested deeper"):
        parse_query("SELECT " + text, Dialect.SPARK)


@pytest.mark.parametrize("operator", ["AND", "OR", "||"])
def test_a_chain_of_two_thousand_is_no_deep_nesting(operator: str) -> None:
    tree = parse_query(
        f"SELECT {f' {operator} '.join(f'c{i}' for i in range(2000))}", Dialect.SPARK
    )
    assert [each.name for each in tree.find_all(exp.Column, bfs=False)] == [
        f"c{i}" for i in range(2000)
    ]


def test_a_long_chain_of_ors_is_no_deep_nesting() -> None:
    tree = parse_query(
        "SELECT * FROM t WHERE " + " OR ".join(f"a = {n}" for n in range(3000)), Dialect.SPARK
    )
    assert len(list(tree.find_all(exp.EQ))) == 3000


@pytest.mark.parametrize(
    ("text", "column"), [("a = ?", 5), ("a > 1 AND b IN (?, 2)", 17), ("a = :b", 5)]
)
def test_a_parameter_is_refused_with_its_place_in_what_was_written(text: str, column: int) -> None:
    with pytest.raises(UnsupportedError, match="parameters such as") as refused:
        parse_expression(text, Dialect.SPARK)
    assert (refused.value.values["line"], refused.value.values["column"]) == (1, column)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("date(", ")"), ("INT(", ")"), ("DECIMAL(1, ", ")"), ("ARRAY[", "]"), ("map['a', ", "]")],
)
def test_names_of_types_that_are_called_in_each_other_are_read_once(
    dialect: Dialect, opening: str, closing: str
) -> None:
    tree = parse_expression(opening * 30 + "x" + closing * 30, dialect)
    assert tree.find(exp.Column, bfs=False) is not None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("DECIMAL(3, 1) '1.5'", exp.DType.DECIMAL),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE '2020-01-01 00:00:00'", exp.DType.TIMESTAMPLTZ),
        ("TIMESTAMP(3) WITHOUT TIME ZONE '2020-01-01 00:00:00'", exp.DType.TIMESTAMP),
        ("DATE '2020-01-01'", exp.DType.DATE),
    ],
)
def test_a_type_before_text_is_a_literal(text: str, kind: exp.DType) -> None:
    tree = parse_expression(text, Dialect.FLINK)
    assert isinstance(tree, exp.Cast)
    assert tree.to.this == kind


def test_a_text_that_can_be_read_in_too_many_ways_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pkray.scan.bounded_parser.MAX_AGAIN", 0)
    with pytest.raises(QueryError, match="in too many ways"):
        parse_query("SELECT f(x -> x + 1) FROM t", Dialect.SPARK)


@pytest.mark.parametrize(
    "text", ["TRY_CAST(s AS " + "MAP<INT, " * 300 + "INT" + ">" * 300 + ")", "NOT " * 1000 + "TRUE"]
)
def test_what_is_too_deep_is_refused_wherever_the_parser_stops(text: str) -> None:
    before, depth = sys.getrecursionlimit(), len(inspect.stack(0))
    # It stops in each function: no circle of calls is seven, or a multiple of it.
    for frames in range(100, 300, 7):
        sys.setrecursionlimit(depth + frames)
        try:
            with pytest.raises(QueryError, match="nested deeper"):
                parse_expression(text, Dialect.SPARK)
        finally:
            sys.setrecursionlimit(before)
