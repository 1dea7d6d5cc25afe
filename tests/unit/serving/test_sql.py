"""Which statements a browser may send."""

import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.serving.sql import check_reads


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
        "VALUES (1)",
        "(SELECT 1) UNION ALL SELECT 2;",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "DESCRIBE shop.orders",
    ],
)
def test_what_reads_is_run(text):
    check_reads(text, "spark")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "EXPLAIN INSERT INTO t SELECT 1",
        "DELETE FROM t",
        "UPDATE t SET v = 1",
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE t",
        "DROP TABLE t",
        "CREATE TABLE t (k INT)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "ALTER TABLE t RENAME TO u",
        "SET 'query.failure-url' = 'http://evil.example'",
        "RESET",
        "USE db",
        "COMPILE PLAN '/tmp/x' FOR INSERT INTO t SELECT 1",
        "EXECUTE PLAN '/etc/passwd'",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ],
)
def test_what_does_more_is_refused(text):
    with pytest.raises(UnsupportedError, match="pkray sql"):
        check_reads(text, "flink")


@pytest.mark.parametrize("text", ["", ";", "SELECT 1; DROP TABLE t", "SELEC 1"])
def test_what_is_no_statement_or_several_is_refused(text):
    with pytest.raises((QueryError, UnsupportedError)):
        check_reads(text, "spark")
