"""Statements are read as data, and nothing of them is passed over."""

import pytest
from sqlglot import exp

from pkray.errors import PkrayError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.statements import kinds as said
from pkray.relational.sql.statements.kinds import ColumnDefinition
from pkray.relational.sql.statements.reading import parse_statement, placed, split_statements
from pkray.schema.types import DataType


def read(text, dialect="spark"):
    return parse_statement(text, Dialect(dialect))


def column(name, kind, comment=None, place=None):
    return ColumnDefinition(name, DataType.parse(kind), comment, place)


def test_a_table_in_the_words_of_flink():
    found = read(
        "CREATE TABLE IF NOT EXISTS db.t (a INT NOT NULL COMMENT 'x', `b c` ROW<x INT>, ts "
        "TIMESTAMP(3),"
        " WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a, ts) NOT ENFORCED)"
        " COMMENT 'c' PARTITIONED BY (ts) WITH ('bucket' = '2', 'connector' = 'pkray');",
        "flink",
    )
    assert found == said.CreateTable(
        ("db", "t"),
        (
            column("a", "INT NOT NULL", "x"),
            column("b c", "ROW<x INT>"),
            column("ts", "TIMESTAMP(3)"),
        ),
        ("a", "ts"),
        ("ts",),
        (("bucket", "2"), ("connector", "pkray")),
        "c",
        ("ts", "ts - INTERVAL '5' SECOND"),
        None,
        True,
    )


@pytest.mark.parametrize("dialect", ["flink", "spark"])
def test_computed_columns_in_the_words_of_both(dialect):
    found = read(
        "CREATE TABLE t (a INT,\n b AS f(a, ')') COMMENT 'x', c DATE NOT NULL GENERATED ALWAYS "
        "AS ((a) + 1) COMMENT 'y')",
        dialect,
    ).columns
    said_ = [(each.name, each.type, each.comment, each.expression) for each in found]
    assert said_ == [
        ("a", DataType.parse("INT"), None, None),
        ("b", None, "x", "f(a, ')')"),
        ("c", DataType.parse("DATE NOT NULL"), "y", "(a) + 1"),
    ]
    assert isinstance(found[1].tree, exp.Anonymous)


def test_computed_columns_are_added_at_a_place():
    found = read("ALTER TABLE t ADD (b AS a + 1 AFTER a, c AS a FIRST)").values
    assert [(each.expression, each.place) for each in found] == [("a + 1", ("a",)), ("a", "FIRST")]


def test_a_table_in_the_words_of_spark():
    found = read(
        "CREATE TABLE t (a INT, b STRUCT<x: TIMESTAMP>, c BINARY, d VARCHAR(3)) USING pkray "
        "TBLPROPERTIES ('primary-key' = 'a', bucket = 4)"
    )
    assert found == said.CreateTable(
        ("t",),
        (
            column("a", "INT"),
            column("b", "ROW<x TIMESTAMP_LTZ(6)>"),
            column("c", "BYTES"),
            column("d", "VARCHAR(3)"),
        ),
        options=(("primary-key", "a"), ("bucket", "4")),
        using="pkray",
    )


@pytest.mark.parametrize(
    ("text", "action", "values"),
    [
        ("ADD COLUMN x INT FIRST", "add", (column("x", "INT", None, "FIRST"),)),
        (
            "ADD COLUMNS (x INT COMMENT 'c' AFTER a, y STRING)",
            "add",
            (column("x", "INT", "c", ("a",)), column("y", "STRING")),
        ),
        ("DROP COLUMN a", "drop", ("a",)),
        ("DROP (a, b)", "drop", ("a", "b")),
        ("RENAME COLUMN a TO b", "rename", ("a", "b")),
        ("RENAME a TO b", "rename", ("a", "b")),
        ("RENAME TO db.u", "rename_table", ("db", "u")),
        ("ALTER COLUMN a TYPE BIGINT", "type", ("a", DataType.parse("BIGINT"))),
        ("MODIFY a BIGINT", "type", ("a", DataType.parse("BIGINT"))),
        ("ALTER COLUMN r.f COMMENT 'c'", "comment", ("r.f", "c")),
        ("ALTER COLUMN a FIRST", "move", ("a", None)),
        ("ALTER COLUMN a AFTER b", "move", ("a", "b")),
        ("ALTER COLUMN a DROP NOT NULL", "nullable", ("a",)),
        ("SET TBLPROPERTIES ('k' = 'v')", "set", (("k", "v"),)),
        ("SET ('k' = 'v')", "set", (("k", "v"),)),
        ("UNSET TBLPROPERTIES ('k')", "unset", ("k",)),
        ("RESET ('k')", "unset", ("k",)),
        (
            "ADD WATERMARK FOR ts AS ts - INTERVAL '1' SECOND",
            "watermark",
            ("ts", "ts - INTERVAL '1' SECOND"),
        ),
        ("DROP WATERMARK", "watermark", ()),
    ],
)
def test_changes_of_a_table(text, action, values):
    assert read(f"ALTER TABLE db.t {text}") == said.AlterTable(("db", "t"), action, values)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DROP TABLE IF EXISTS db.t", said.Drop("table", ("db", "t"), if_exists=True)),
        ("DROP TEMPORARY VIEW v", said.Drop("view", ("v",), temporary=True)),
        ("DROP SCHEMA x CASCADE", said.Drop("database", ("x",), cascade=True)),
        ("CREATE DATABASE IF NOT EXISTS x", said.CreateDatabase("x", True)),
        ("USE x", said.Use("x")),
        ("SET", said.SetOption()),
        ("SET a.b", said.SetOption("a.b")),
        ("SET table.exec.state.ttl = 1 d", said.SetOption("table.exec.state.ttl", "1 d")),
        ("SET 'a.b' = '3'", said.SetOption("a.b", "3")),
        ("RESET 'a.b'", said.Reset("a.b")),
        ("RESET", said.Reset()),
        ("SHOW TABLES IN db LIKE 'x*'", said.Show("tables", ("db",), "x*")),
        ("SHOW CREATE TABLE db.t", said.Show("create", ("db", "t"))),
        ("DESC EXTENDED t$snapshots", said.Describe(("t$snapshots",))),
        ("EXECUTE PLAN IF EXISTS 'p.json'", said.ExecutePlan("p.json", if_exists=True)),
        ("TRUNCATE TABLE t", said.Delete(("t",), None, None)),
    ],
)
def test_short_statements(text, found):
    assert read(text) == found


def test_an_insert_says_columns_partition_and_conflict():
    found = read(
        "INSERT OVERWRITE TABLE db.t PARTITION (day = 'd1', h) (a, b) SELECT x.a, y.b FROM x "
        "JOIN y ON "
        "x.a = y.a ON CONFLICT DO NOTHING"
    )
    assert isinstance(found, said.Insert)
    assert (found.name, found.columns, found.overwrite) == (("db", "t"), ("a", "b"), True)
    assert found.on_conflict == "nothing"
    assert [(name, value and value.name) for name, value in found.partition] == [
        ("day", "d1"),
        ("h", None),
    ]
    assert found.tree.args["joins"][0].args["on"].sql() == "x.a = y.a"


def test_a_statement_set_holds_its_inserts():
    found = read(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; INSERT INTO u VALUES (2); END;"
    )
    assert isinstance(found, said.StatementSet)
    assert [each.name for each in found.inserts] == [("t",), ("u",)]


def test_a_plan_is_compiled_for_an_insert():
    found = read("COMPILE PLAN IF NOT EXISTS 'p.json' FOR INSERT INTO t SELECT 1")
    assert isinstance(found, said.CompilePlan)
    assert (found.path, found.if_not_exists) == ("p.json", True)
    assert isinstance(found.statement, said.Insert)


def test_update_delete_and_merge_keep_their_syntax():
    update = read("UPDATE t AS x SET a = a + 1, b = 'y' WHERE x.c > 2")
    assert isinstance(update, said.Update)
    assert [(name, value.sql()) for name, value in update.values] == [("a", "a + 1"), ("b", "'y'")]
    assert update.alias == "x"
    merge = read("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE")
    assert isinstance(merge, said.Merge)
    assert isinstance(merge.tree, exp.Merge)


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("", "no statement", None),
        ("SELCT 1", "did you mean SELECT", (1, 1)),
        ("SELECT 1; SELECT 2", "one statement", (1, 11)),
        ("CREATE TABLE t (a NOTYPE)", "no type", (1, 19)),
        ("CREATE TABLE t\n(a INT b)", "no type", (2, 4)),
        ("CREATE TABLE t (a INT) STORED AS ORC", "'STORED' is not expected", (1, 24)),
        ("COMPILE PLAN 'p' FOR SELECT 1", "a SELECT has no table", None),
        ("ALTER TABLE t FROBNICATE", "is expected", (1, 15)),
        ("INSERT INTO t SELECT 1 FROM\n  x WHERE ORDER BY", "ORDER|order", (2, 11)),
        ("DROP TABLE t u", "one statement", (1, 14)),
        ("SHOW ME", "after SHOW", (1, 6)),
        ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", "INSERTs alone", None),
        ("SELECT 'a", "ends within a string", (1, 8)),
        ("UPDATE t SET a + 1", "SET", None),
        ("CREATE TABLE t (a INT) WITH ([ = '1')", "is expected", None),
        ("UPDATE t /*+ OPTIONS('a' = 'b') */ SET a = 1", "not in UPDATE", (1, 8)),
        ("INSERT INTO t /*+ OPTIONS('a' = 'b') */ SELECT 1", "a hint stands", (1, 15)),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;", "a statement is exp", (1, 51)),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(text, words, place):
    with pytest.raises(QueryError, match=words) as refused:
        read(text)
    if place is not None:
        assert (refused.value.line, refused.value.column) == place


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE TABLE t (a INT)",
        "CREATE TABLE t (a INT, b INT METADATA FROM 'b')",
        "CREATE TABLE t (a INT, b INT GENERATED BY DEFAULT AS (a + 1))",
        "CREATE TABLE t (a INT, b AS a + 1 COMMENT)",
        "CREATE TABLE t (a INT, b AS )",
        "DELETE FROM t USING u WHERE t.a = u.a",
    ],
)
def test_what_is_valid_elsewhere_is_refused_by_name(text):
    with pytest.raises((UnsupportedError, QueryError)):
        read(text)


def test_scripts_are_cut_at_semicolons_but_for_statement_sets():
    text = "SELECT ';'; -- x;\nEXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END; ;SELECT 2"
    found = [part.strip() for part in split_statements(text, Dialect.SPARK)]
    assert found[0] == "SELECT ';'"
    assert found[1].endswith("INSERT INTO t SELECT 1; END")
    assert found[2:] == ["SELECT 2"]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"column_name": "zz"}, (2, 2)),
        ({"column_name": "zz", "line": 7, "column": 1}, (7, 1)),
        ({"column_name": "other"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_an_error_about_a_column_says_where_it_is_named(values, place):
    error = placed(QueryError("wrong", **values), "UPDATE t SET\n ZZ = 1", Dialect.SPARK)
    assert (error.values.get("line"), error.values.get("column")) == place


def test_deep_nesting_is_refused_and_not_a_recursion():
    with pytest.raises(PkrayError):
        read("SELECT " + "(" * 5000 + "1" + ")" * 5000)


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize("opening", ["ARRAY<", "ROW<f ", "STRUCT<f: ", "MAP<INT, "])
@pytest.mark.parametrize("levels", [49, 130, 300, 1000])
def test_types_in_types_over_too_many_levels_are_refused(dialect, opening, levels):
    kind = opening * levels + "INT" + ">" * levels
    for text in (f"CREATE TABLE t (a INT, b {kind})", f"ALTER TABLE t ADD COLUMN b {kind}"):
        with pytest.raises(QueryError, match="more than 48 levels") as caught:
            read(text, dialect)
        assert len(str(caught.value)) < 500
        assert caught.value.line == 1


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("EXPLAIN " * 1000 + "SELECT 1", "EXPLAIN takes a query or an INSERT"),
        ("COMPILE PLAN 'p' FOR " * 1000 + "INSERT INTO t SELECT 1", "COMPILE PLAN is FOR"),
        ("EXECUTE STATEMENT SET BEGIN " * 3, "a statement set holds INSERTs alone"),
        ("EXECUTE STATEMENT SET BEGIN " * 1000, "nested deeper"),
        ("EXPLAIN COMPILE PLAN 'p' FOR " * 1000, "EXPLAIN takes a query or an INSERT"),
    ],
)
def test_statements_do_not_stand_in_each_other_without_end(text, remedy):
    with pytest.raises(QueryError, match=remedy):
        read(text)
