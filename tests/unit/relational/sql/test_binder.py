"""Queries as plans: over schemas alone, compared with plans written in data/plans."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.udf import udaf, udtf
from pkray.scan.moment import epoch_millis
from tests.tpch import QUERIES
from tests.unit.relational.sql.plans import Schemas, bound, columns, plan, schemas, shown, table
from tests.unit.relational.sql.tpch import TPCH

TABLES = (
    table(
        "a",
        "id INT NOT NULL, k INT, x DOUBLE, s STRING, ts TIMESTAMP(3), arr ARRAY<INT>, "
        "m MAP<STRING, INT>, r ROW<p INT, q STRING>, rs ARRAY<ROW<p INT, q STRING>>",
        rowtime="ts",
    ),
    table("b", "k INT, y INT, w STRING, ts TIMESTAMP(3)", rowtime="ts"),
    table("c", "k INT NOT NULL, z DECIMAL(10,2)", key="k"),
    table("v", "k INT NOT NULL, z INT, ts TIMESTAMP(3)", key="k", rowtime="ts"),
)
SPARK = schemas(*TABLES)
FLINK = schemas(*TABLES, dialect=Dialect.FLINK)
CASES = [
    pytest.param(*re.split(r"\n(?:---|=>) ?", case)[:3], id=case.split("\n")[0].strip("# "))
    for file in sorted((Path(__file__).parent / "data" / "plans").glob("*.txt"))
    for case in re.split(r"\n\n(?=#)", file.read_text().strip())
]


@pytest.mark.parametrize(("query", "wanted", "types"), CASES)
def test_a_query_becomes_the_plan(query: str, wanted: str, types: str) -> None:
    name, text = query.split("\n", 1)
    node = bound(text, FLINK if "(flink)" in name else SPARK)
    assert plan(text, FLINK if "(flink)" in name else SPARK) == wanted.strip("\n")
    assert ", ".join(columns(node)) == types


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_query_of_tpch_becomes_a_plan(path: Path) -> None:
    assert bound(path.read_text(), TPCH).fields


REFUSED = [
    ("SELECT kk FROM a", 1, 8, "there is no column kk; did you mean k"),
    ("SELECT\n  a.zz FROM a", 2, 5, "a has no column zz; there are id, k"),
    ("SELECT z.k FROM a", 1, 10, "no table of this query is called z; there are a"),
    ("SELECT k FROM a JOIN b ON a.k = b.k", 1, 8, "k is ambiguous: write one of a.k and b.k"),
    ("SELECT * FROM aa", 1, 15, "no table is called aa"),
    ("SELECT foo(k) FROM a", 1, 8, "no function is called 'foo'"),
    ("SELECT x FROM a GROUP BY k", 1, 8, "column x is neither in GROUP BY nor in an aggregate"),
    ("SELECT k FROM a WHERE SUM(x) > 1", 1, 23, "filter groups by HAVING"),
    ("SELECT SUM(MAX(x)) FROM a", 1, 12, "MAX stands in another aggregate"),
    ("SELECT k FROM a GROUP BY 2", 1, 26, "there is no column 2 in SELECT"),
    ("SELECT ROW_NUMBER() FROM a", 1, 8, "ROW_NUMBER needs a window"),
    ("SELECT RANK() OVER (PARTITION BY k) FROM a", 1, 8, "RANK needs an order"),
    ("SELECT k FROM a WHERE RANK() OVER (ORDER BY k) = 1", 1, 23, "filter by QUALIFY"),
    ("SELECT k FROM a UNION SELECT k, y FROM b", 1, 30, "give 1 and 2 columns"),
    ("SELECT k FROM a LIMIT -1", 1, None, "LIMIT takes a whole number"),
    ("SELECT k IN (SELECT k, y FROM b) FROM a", 1, 8, "1 values are compared with a subquery of 2"),
    ("SELECT (SELECT k, y FROM b) FROM a", 1, 16, "gives one column, not 2"),
    ("SELECT k FROM a UNION\nSELECT arr FROM a", 2, 8, "UNION have no type in common"),
    ("SELECT k FROM a\nJOIN b USING (kk)", 2, 15, "there is no column kk"),
    ("SELECT * FROM a JOIN (SELECT arr AS k FROM a) q USING (k)", 1, 56, "no type in common"),
    ("SELECT k FROM a WHERE arr IN (SELECT k FROM b)", 1, 23, "no type in common"),
    ("SELECT * FROM (VALUES (1), (DATE '2020-01-01')) q", 1, None, "no type in common"),
    ("SELECT k FROM a WHERE ts >\n  DATE '2020-13-01'", 2, 8, "'2020-13-01' is no DATE: write"),
    ("SELECT TIMESTAMP '2020-01-01 25:00:00'", 1, 18, "is no TIMESTAMP_LTZ(6): write TIMESTAMP '2"),
    ("SELECT x AS y FROM a HAVING x > 1", 1, 29, "HAVING makes one group of all rows"),
    ("SELECT k FROM a HAVING k > 1", 1, 8, "HAVING makes one group of all rows"),
    (
        "SELECT a.k FROM a FULL JOIN b ON a.k = b.k AND (SELECT max(k) FROM c WHERE c.k = q.k) > 1",
        1, None, "no table of this query is called q",
    ),
    ("SELECT * FROM a PIVOT (sum(zz) FOR s IN ('x'))", 1, 28, "there is no column zz"),
    ("SELECT * FROM a PIVOT (sum(x) FOR (k, s) IN (1))", 1, None, "compared with 2 columns"),
    ("SELECT window(k, '5 minutes') FROM a", 1, 8, "window is over a TIMESTAMP, not INT"),
    ("SELECT window(ts, 'soon') FROM a", 1, 19, "'soon' is no INTERVAL"),
    ("SELECT window(ts, '1 minute', '2 minutes') FROM a", 1, 8, "its slide no longer"),
    ("SELECT window(ts, '5 minutes'), COUNT(*) FROM a", 1, 8, "neither in GROUP BY"),
    ("SELECT stack(k, 1) FROM a", 1, 8, "stack takes the number of rows"),
    ("SELECT json_tuple(s) FROM a", 1, 8, "json_tuple takes JSON and names"),
    ("SELECT * FROM a, a", 1, None, "two tables of this query are called a"),
    ("SELECT * FROM a AS t(p, q)", 1, 20, "t names 2 columns"),
    ("SELECT GROUPING(k) FROM a GROUP BY k", 1, 8, "for GROUPING SETS"),
    ("SELECT k FROM a HAVING x > 1", 1, 24, "column x is neither in GROUP BY"),
    ("SELECT DISTINCT k FROM a ORDER BY x", 1, None, "select what it is ordered by"),
    (
        "SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(k), INTERVAL '1' HOUR))",
        1, None, "TUMBLE is over a TIMESTAMP column, not INT; there are ts",
    ),
    (
        "SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MONTH))",
        1, None, "months differ in length",
    ),
    ("SELECT /*+ STATE_TTL('q' = '1d') */ * FROM a", 1, None, "STATE_TTL names q"),
    ("SELECT /*+ STATE_TTL('a' = 'soon') */ * FROM a", 1, None, "cannot be 'soon'"),
    ("SELECT /*+ STATEFUL('q' = 'true') */ * FROM a", 1, None, "STATEFUL names q"),
    ("SELECT /*+ STATEFUL('a' = '1 d') */ * FROM a", 1, None, "cannot be '1 d'"),
    ("SELECT -DATE '2020-01-01' FROM a", 1, None, "argument 1 of negative is DATE"),
    ("SELECT SUM(k) OVER FROM a", 1, 8, "OVER lacks its window"),
    ("SELECT SUM(k) OVER (ROWS) FROM a", 1, None, "a frame cannot start there"),
    ("SELECT k FROM a GROUP BY", 1, 8, "GROUP BY names no columns"),
    (
        "SELECT * FROM a JOIN v FOR SYSTEM_TIME AS OF a.k AS v ON a.k = v.k",
        1, None, "takes a TIMESTAMP column, not INT",
    ),
    ("SELECT SUM(k) OVER w FROM a", 1, None, "no window is called w"),
    (
        "SELECT COUNT(*) FROM a GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        1, 33, "TUMBLE stands in FROM",
    ),
    ("SELECT a.k FROM a LEFT JOIN b ON k IN (SELECT k FROM c)", 1, 34, "k is ambiguous"),
    ("SELECT * FROM range('a')", 1, None, "range takes whole numbers"),
    ("SELECT 1 + explode(array(1)) FROM b", 1, None, "explode makes rows: write it by itself"),
    ("SELECT sum(posexplode_outer(array(1))) FROM b", 1, None, "posexplode_outer makes rows"),
    ("SELECT * FROM b VERSION AS OF", 1, None, "AS OF lacks a version"),
    ("SELECT * FROM b VERSION AS OF array(1)", 1, 15, "a snapshot's number or a tag's name"),
    ("SELECT * FROM b TIMESTAMP AS OF array(1)", 1, 15, "takes a time, not ARRAY"),
    ("SELECT k FROM b WHERE", 1, None, "something is missing near"),
    ("SELECT k, COUNT(*) FROM a", 1, 8, "column k is neither in GROUP BY"),
    ("WITH t AS (SELECT 1), t AS (SELECT 2) SELECT * FROM t", 1, None, "defines t twice"),
    ("SELECT sum(x) WITHIN GROUP (ORDER BY k) FROM a", 1, 8, "sum takes no WITHIN GROUP (ORDER BY"),
    ("SELECT count(*) WITHIN GROUP (ORDER BY k) FROM a", 1, 8, "count takes no WITHIN GROUP"),
    ("SELECT max_by(x, k) WITHIN GROUP (ORDER BY k) FROM a", 1, 8, "max_by takes no WITHIN GROUP"),
    ("SELECT median(x) WITHIN GROUP (ORDER BY k) FROM a", 1, 8, "median takes no WITHIN GROUP"),
    ("SELECT mode(x) WITHIN GROUP (ORDER BY k) FROM a", 1, 8, "mode takes no WITHIN GROUP"),
    ("SELECT sum(x ORDER BY k) FROM a", 1, 8, "sum takes no ORDER BY: leave it out"),
    (
        "SELECT percentile_cont(DISTINCT 0.5) WITHIN GROUP (ORDER BY k) FROM a",
        1, 8, "percentile_cont takes no DISTINCT",
    ),
    ("SELECT sum(x) IGNORE NULLS FROM a", 1, 8, "sum takes no IGNORE NULLS"),
    ("SELECT max(x) RESPECT NULLS FROM a", 1, 8, "max takes no RESPECT NULLS"),
    ("SELECT collect_list(x) RESPECT NULLS FROM a", 1, 8, "collect_list takes no RESPECT NULLS"),
    ("SELECT sum(x) IGNORE NULLS OVER (ORDER BY k) FROM a", 1, 8, "sum takes no IGNORE NULLS"),
    ("SELECT rank() RESPECT NULLS OVER (ORDER BY k) FROM a", 1, 8, "rank takes no RESPECT NULLS"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "line", "column", "words"), REFUSED)
def test_what_is_wrong_is_refused_with_its_place(
    query: str, line: int, column: int | None, words: str
) -> None:
    with pytest.raises(QueryError, match=re.escape(words)) as refused:
        bound(query, SPARK)
    assert refused.value.values.get("line", 1) == line
    if column is not None:
        assert refused.value.values["column"] == column


NOT_OFFERED = [
    ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", "WITH RECURSIVE"),
    ("SELECT DISTINCT ON (k) k FROM a", "DISTINCT ON"),
    ("SELECT * FROM a TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT COUNT(DISTINCT k) OVER () FROM a", "DISTINCT"),
    ("SELECT * FROM a ASOF JOIN b ON a.k = b.k", "ASOF JOIN"),
    ("SELECT window(ts, '1 hour'), window(ts, '2 hours') FROM a", "two different windows of time"),
    ("SELECT COUNT(*) FROM a GROUP BY session_window(ts, '1 hour')", "FROM TABLE(SESSION("),
    ("SELECT * FROM a UNPIVOT (u FOR (n, m) IN ((k, id)))", "UNPIVOT gives one column of names"),
    ("SELECT k FROM a UNION BY NAME SELECT k FROM b", "BY NAME"),
    (
        "SELECT * FROM a RIGHT JOIN b ON EXISTS (SELECT 1 FROM c WHERE c.k = a.k + b.y)",
        "uses columns of both sides",
    ),
    (
        "SELECT * FROM a JOIN v FOR SYSTEM_TIME AS OF a.ts AS v ON v.k = (SELECT 1)",
        "put it in WHERE",
    ),
]


@pytest.mark.parametrize(("query", "words"), NOT_OFFERED)
def test_what_is_not_offered_is_refused_by_name(query: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(words)):
        bound(query, SPARK)


@pytest.mark.parametrize("data", ["(SELECT * FROM a)", "TABLE (SELECT * FROM a)"])
def test_a_window_function_is_over_a_query_as_over_its_table(data: str) -> None:
    text = "SELECT * FROM TABLE(TUMBLE({}, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    assert bound(text.format(data), SPARK) == bound(text.format("TABLE a"), SPARK)


def test_hopping_windows_of_unequal_parts_are_refused_in_the_flink_dialect() -> None:
    text = "SELECT * FROM TABLE(HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '2' HOUR, INTERVAL '5' HOUR))"
    assert "window_start" in bound(text, SPARK).fields
    with pytest.raises(QueryError, match="SIZE of HOP must be a multiple of its SLIDE"):
        bound(text, FLINK)


@pytest.mark.parametrize("text", ["CAST(NULL AS MULTISET<INT>)", "MULTISET[k]", "COLLECT(k)"])
def test_multisets_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedError, match="MULTISET") as refused:
        bound(f"SELECT {text} FROM a", FLINK)
    assert refused.value.values["line"] == 1


def test_names_are_found_as_they_are_written_in_the_flink_dialect() -> None:
    assert columns(bound("SELECT K FROM A", SPARK)) == ["K INT"]
    with pytest.raises(QueryError, match="did you mean k"):
        bound("SELECT K FROM a", FLINK)


@udtf("word STRING, length INT")
def words(texts: pa.Array) -> pa.RecordBatch:
    raise NotImplementedError


@udaf("DOUBLE")
def spread(values: pa.Array) -> float:
    raise NotImplementedError


OWN = Schemas(SPARK.tables, udfs={"words": words, "spread": spread})


def test_limits_and_times_are_constant_expressions() -> None:
    assert plan("SELECT * FROM c LIMIT 2 * 3 OFFSET 1 + 1", SPARK) == "limit 6 offset 2\n  c"
    text = "SELECT * FROM c TIMESTAMP AS OF TIMESTAMP '2020-01-02 00:00:00' - INTERVAL '1' DAY"
    assert plan(text, FLINK) == f"c timestamp={epoch_millis('2020-01-01 00:00:00')}"
    assert plan("SELECT * FROM c TIMESTAMP AS OF DATE '2020-01-02'", SPARK) == (
        f"c timestamp={epoch_millis('2020-01-02')}"
    )


def test_a_users_table_function_makes_rows() -> None:
    for query in (
        "SELECT id, w, l FROM a LEFT JOIN LATERAL TABLE(words(s)) AS t(w, l) ON TRUE",
        "SELECT id, w, l FROM a LATERAL VIEW OUTER words(s) t AS w, l",
    ):
        assert plan(query, OWN) == "project id, w, l\n  udtf outer s as w, l\n    a"


def test_a_users_aggregate_is_one_of_groups_and_of_windows() -> None:
    assert "$s0=udf(distinct x)" in plan("SELECT k, spread(DISTINCT x) FROM a GROUP BY k", OWN)
    assert "$w0=udf(x)" in plan("SELECT spread(x) OVER (PARTITION BY k) FROM a", OWN)


def test_queries_in_queries_are_bound() -> None:
    assert columns(bound("SELECT * FROM (" * 12 + "SELECT 1 AS x" + ")" * 12, SPARK)) == [
        "x INT NOT NULL"
    ]


def test_too_many_queries_in_queries_are_refused() -> None:
    with pytest.raises(QueryError, match="nested"):
        bound("SELECT * FROM (" * 3000 + "SELECT 1" + ")" * 3000, SPARK)


def test_a_plan_that_reads_named_queries_too_often_is_refused() -> None:
    names = ["c0 AS (SELECT k FROM a)"]
    names += [
        f"c{n} AS (SELECT x.k FROM c{n - 1} x JOIN c{n - 1} y ON x.k = y.k)" for n in range(1, 30)
    ]
    with pytest.raises(QueryError, match="read too often"):
        bound(f"WITH {', '.join(names)} SELECT * FROM c29", SPARK)


def test_a_thousand_conditions_are_one() -> None:
    node = bound("SELECT * FROM c WHERE " + " AND ".join(f"k <> {n}" for n in range(1000)), SPARK)
    assert shown(node).count("not_equal") == 1000


def test_columns_are_computed_by_one_node() -> None:
    sums = ", ".join(f"SUM(y + {n})" for n in range(50))
    assert len(shown(bound(f"SELECT {sums} FROM b", SPARK)).splitlines()) == 4


def test_correlated_subqueries_in_each_other_are_bound_or_refused_soon() -> None:
    query = "SELECT MAX(b.y) FROM b WHERE b.y > a0.k AND b.k < a5.k"
    for level in range(6):
        query = f"SELECT MAX(k) FROM a AS a{level} WHERE k > ({query})"
    assert len(bound(query, SPARK).fields) == 1
