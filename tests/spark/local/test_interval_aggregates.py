"""Aggregates and hashes of INTERVALs: what Spark's own SQL gives, or refuses."""

import pytest
from pyspark.sql import SparkSession

from pkray.errors import PkrayError
from pkray.relational import query

DAYS = (
    "VALUES (1, INTERVAL '1' DAY), (2, INTERVAL '3' HOUR), (3, NULL), (4, INTERVAL '24' HOUR), "
    "(5, INTERVAL '2' DAY)"
)
MONTHS = (
    "VALUES (1, INTERVAL '1-2' YEAR TO MONTH), (2, INTERVAL '-3' MONTH), (3, NULL), "
    "(4, INTERVAL '-3' MONTH), (5, INTERVAL '-4' MONTH)"
)
FAR = "VALUES (1, INTERVAL '106751991' DAY), (2, INTERVAL '106751991' DAY)"
LONG = "VALUES (1, INTERVAL '178956970-7' YEAR TO MONTH), (2, INTERVAL '1' MONTH)"
ROWS = {"days": DAYS, "months": MONTHS}
CALLS = (
    *("sum(i)", "avg(i)", "min(i)", "max(i)", "first(i)", "last(i, true)", "sum(DISTINCT i)"),
    *("sum(i) FILTER (WHERE k > 1)", "min_by(i, k)", "max_by(i, k)", "max_by(i, i)", "mode(i)"),
)
NUMBERS = (
    *("count(i)", "count(DISTINCT i)", "approx_count_distinct(i)", "min_by(k, i)", "max_by(k, i)"),
    *("sum(CAST(hash(i) AS BIGINT))", "bit_xor(xxhash64(i))", "bit_xor(hash(k, i))"),
)


@pytest.mark.parametrize("rows", ROWS)
def test_aggregates_of_intervals_are_sparks(spark: SparkSession, rows: str) -> None:
    made = [*(f"CAST({call} AS STRING)" for call in CALLS), *NUMBERS]
    columns = ", ".join(f"{call} AS v{place}" for place, call in enumerate(made))
    text = f"SELECT {columns} FROM {ROWS[rows]} AS t(k, i)"
    ours = query(text).to_arrow().to_pylist()[0].values()
    theirs = spark.sql(text).collect()[0]
    wrong = [each for each in zip(made, ours, theirs, strict=True) if each[1] != each[2]]
    assert wrong == []


@pytest.mark.parametrize("rows", [FAR, LONG])
def test_a_sum_of_intervals_that_is_too_long_fails(spark: SparkSession, rows: str) -> None:
    text = f"SELECT sum(i) AS v FROM {rows} AS t(k, i)"
    with pytest.raises(Exception, match="SQLSTATE"):
        spark.sql(text).collect()
    with pytest.raises(PkrayError):
        query(text).to_arrow()
