"""Subqueries in plans on Spark: the rows that the local engine gives."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pkray.relational import from_arrow, query

V = from_arrow(pa.table({"k": [1, 2, 3, None], "n": [10, 20, None, 40]}), name="v")
W = from_arrow(pa.table({"k": [1, 1, 3, None], "m": [5, 9, 7, None]}), name="w")
NONE = from_arrow(pa.table({"k": pa.array([], pa.int64())}), name="none")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT EXISTS (SELECT 1 FROM v) e FROM v",
        "SELECT EXISTS (SELECT 1 FROM none) e FROM v",
        "SELECT NOT EXISTS (SELECT 1 FROM none) e, k FROM v",
        "SELECT k, EXISTS (SELECT 1 FROM w WHERE w.k = v.k) e FROM v",
        "SELECT k, NOT EXISTS (SELECT 1 FROM w WHERE w.k = v.k) e FROM v",
        "SELECT k, k IN (SELECT k FROM w WHERE k IS NOT NULL) e FROM v",
        "SELECT k, k IN (SELECT k FROM none) e FROM v",
        "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM w WHERE w.k = v.k) THEN n ELSE 0 END e FROM v",
        "SELECT k, (SELECT max(m) FROM w) e FROM v",
        "SELECT k, (SELECT max(k) FROM none) e FROM v",
        "SELECT k, (SELECT sum(m) FROM w WHERE w.k = v.k) e FROM v",
        "SELECT k, (SELECT count(*) FROM w WHERE w.k = v.k) e FROM v",
        "SELECT k FROM v WHERE EXISTS (SELECT 1 FROM w)",
        "SELECT k FROM v WHERE NOT EXISTS (SELECT 1 FROM none)",
        "SELECT k FROM v WHERE EXISTS (SELECT 1 FROM w WHERE w.k = v.k)",
        "SELECT k FROM v WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.k = v.k AND w.m > v.n)",
        "SELECT k FROM v WHERE k IN (SELECT k FROM w)",
        "SELECT k FROM v WHERE k NOT IN (SELECT k FROM w)",
        "SELECT k FROM v WHERE k NOT IN (SELECT k FROM w WHERE k IS NOT NULL)",
        "SELECT k FROM v WHERE k NOT IN (SELECT k FROM none)",
        "SELECT k FROM v WHERE n > (SELECT avg(m) FROM w)",
        "SELECT k FROM v WHERE n > (SELECT max(m) FROM w WHERE w.k = v.k)",
        "SELECT k FROM v WHERE EXISTS (SELECT 1 FROM w WHERE w.k = v.k) OR n = 40",
        "SELECT count(*) c FROM v WHERE k IN (SELECT k FROM w) GROUP BY k HAVING count(*) > 0",
    ],
)
def test_a_subquery_gives_the_same_rows_on_spark(spark: SparkSession, text: str) -> None:
    relation = query(text, v=V, w=W, none=NONE)
    here, there = (relation.to_arrow(engine=engine) for engine in ("local", "spark"))
    assert here.num_rows > 0 or text.endswith("NOT IN (SELECT k FROM w)")
    assert sorted(map(repr, there.to_pylist())) == sorted(map(repr, here.to_pylist()))
