"""Every function over 10,000 random rows: here, in plans on Spark, and in Spark's own SQL."""

from pathlib import Path

import pytest

from pkray.errors import PkrayError
from pkray.relational import query
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import written
from tests.spark.local.random_rows import random_rows
from tests.spark.local.side_by_side import SideBySide, snippets

DATA = Path(__file__).parent / "data"
EXPRESSIONS = snippets(DATA / "expressions.txt")
AGGREGATES = snippets(DATA / "aggregates.txt")
SPARK_FUNCTIONS = (
    (Path(__file__).parents[2] / "unit" / "relational" / "functions" / "spark_functions.txt")
    .read_text()
    .split()
)
REFUSED = (DATA / "refused.txt").read_text().splitlines()
ELSEWHERE = {
    "current_catalog": "it is pkray's",
    "current_date": "another time at each run",
    "current_time": "another time at each run",
    "current_timestamp": "another time at each run",
    "localtimestamp": "another time at each run",
    "date_ceil": "Spark has none",
    "is_json": "Spark has none",
    "json_exists": "Spark has none",
    "json_query": "Spark has none",
    "json_value": "Spark has none",
    **dict.fromkeys(
        (
            *("monotonically_increasing_id", "rand", "randn", "randstr", "shuffle", "uniform"),
            "uuid",
        ),
        "chance gives others",
    ),
    "row": "Spark writes it struct",
    "row_hash": "Spark has none",
    "sha224": "Spark writes it sha2",
    "sha256": "Spark writes it sha2",
    "sha384": "Spark writes it sha2",
    "sha512": "Spark writes it sha2",
    "similar_to": "Spark has none",
    "time": "Spark has it where a setting says so",
    "truncate": "Spark has none",
    "try_make_interval": "it is with make_interval",
    "version": "it is pkray's",
    **dict.fromkeys(
        (
            *("make_time", "time_diff", "time_from_micros", "time_from_millis", "to_time"),
            *("time_from_seconds", "time_to_micros", "time_to_millis", "time_to_seconds"),
            *("time_trunc", "try_to_time"),
        ),
        "Spark has the type TIME where a setting says so",
    ),
}
"""Functions that Spark's own SQL cannot be asked for, with the reason."""

BATCH = 60
ALL = [each for some in EXPRESSIONS.values() for each in some]
BATCHES = [ALL[start : start + BATCH] for start in range(0, len(ALL), BATCH)]


@pytest.fixture(scope="module")
def beside(spark):
    return SideBySide(spark, random_rows(seed=15))


def test_the_list_of_sparks_functions_is_sparks_own(spark) -> None:
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    assert sorted(names) == sorted(SPARK_FUNCTIONS)


def test_every_function_that_people_write_is_among_them() -> None:
    names = {
        each.name
        for each in written(Dialect.SPARK)
        if "Is refused" not in each.about and "Refuse" not in each.about
    }
    assert names - set(EXPRESSIONS) == set(ELSEWHERE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expressions", BATCHES, ids=lambda each: each[0])
def test_an_expression_gives_what_spark_gives(beside: SideBySide, expressions: list[str]) -> None:
    assert beside.differences(expressions) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", AGGREGATES)
def test_aggregates_at_the_extremes_give_what_spark_gives(beside: SideBySide, keys: str) -> None:
    tail = f"GROUP BY {keys} ORDER BY {keys}"
    assert beside.differences([*keys.split(", "), *AGGREGATES[keys]], tail) == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("expression", REFUSED)
def test_what_spark_fails_at_fails(beside: SideBySide, expression: str) -> None:
    text = f"SELECT {expression} AS v FROM r"
    with pytest.raises(PkrayError):
        query(text, r=beside.relation).to_arrow()
    with pytest.raises(Exception, match="SQLSTATE"):
        beside.session.sql(text).toArrow()
