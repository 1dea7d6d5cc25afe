"""Plans as Spark SQL: text that Spark can read, also of nodes without columns."""

import pyarrow as pa
import pytest
import sqlglot

from pkray.relational import Relation, from_arrow, query
from pkray.relational.running import prepare
from pkray.relational.spark_sql.query import SparkSql

ROWS = from_arrow(pa.table({"a": [1, 2], "b": ["x", None]}), name="v")


def made(text: str) -> Relation:
    return query(text, v=ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT EXISTS (SELECT 1 FROM v) e FROM v",
        "SELECT NOT EXISTS (SELECT 1 FROM v WHERE a > 1) e FROM v",
        "SELECT 1 IN (SELECT a FROM v) e FROM v",
        "SELECT NULL IN (SELECT a FROM v) e FROM v",
        "SELECT (SELECT max(a) FROM v) m FROM v",
        "SELECT count(*) n FROM v CROSS JOIN v w",
        "SELECT count(*) n FROM v WHERE EXISTS (SELECT 1 FROM v)",
        "SELECT count(*) n FROM v LEFT JOIN v w ON true",
        "SELECT 1 x FROM (SELECT * FROM v WHERE false)",
    ],
)
def test_no_list_of_columns_begins_or_ends_with_a_comma(text: str) -> None:
    written = SparkSql(prefix="t").query(prepare(made(text).plan))
    sqlglot.parse_one(written, dialect="spark")
    assert "SELECT ," not in written
    assert "SELECT  " not in written
    assert ", FROM" not in written
