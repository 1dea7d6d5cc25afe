"""Spark answers random queries as pkray does."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pkray.errors import EvaluationError
from pkray.relational import from_arrow
from pkray.relational.sources.rows import conformed
from pkray.spark.types import spark_schema
from tests.integration.relational.random_queries.oracles import RandomQuery, rows_of, same

SEEDS, GROUPS = 1000, 20
FIRST = 100_000
"""Seeds that no other test asks."""

LEAST_SHARE = 0.5
"""Of the queries of a test, so many are compared: others read many rows, or are errors."""

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",  # rows are few: compiling takes longer than they do
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}

NOTHING = pa.table({"n": pa.array([], pa.int32())})


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return quick(spark)


def quick(spark: SparkSession) -> SparkSession:
    """Make a session with the settings that plans have on Spark, which computes few rows soon."""
    session: SparkSession = from_arrow(NOTHING).to_spark(spark).sparkSession
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", range(GROUPS))
def test_spark_answers_random_queries_alike(session: SparkSession, group: int) -> None:
    size = SEEDS // GROUPS
    seeds = range(FIRST + group * size, FIRST + (group + 1) * size)
    faults, told = compared(session, seeds)
    assert not faults, "\n\n".join(faults)
    assert told["alike"] >= LEAST_SHARE * size, told


def compared(session: SparkSession, seeds: Iterable[int]) -> tuple[list[str], Counter[str]]:
    """Ask queries on both; say where they differ, and how many were alike or refused."""
    faults: list[str] = []
    told: Counter[str] = Counter()
    for seed in seeds:
        made = RandomQuery(seed)
        if made.is_large:
            told["many rows"] += 1
            continue
        try:
            outcome = answer(session, made)
        except Exception as error:  # what is no error of theirs is what is looked for
            faults.append(f"{type(error).__name__}: {str(error)[:1500]}\n{made}")
            outcome = "differ"
        told[outcome] += 1
    return faults, told


def answer(session: SparkSession, made: RandomQuery) -> str:
    """Compare one query: ``alike``, or who refused it.

    Raises:
        AssertionError: the answers differ.
    """
    try:
        ours = made.whole.to_arrow()
    except EvaluationError:
        return "pkray refused"
    for name, rows in made.tables.items():
        frame = session.createDataFrame(rows, spark_schema(rows.schema))
        frame.createOrReplaceTempView(name)
    frame = session.sql(made.frame.text)
    try:
        theirs = frame.toArrow()
    except pa.ArrowInvalid:  # pyspark casts no NULL of a row type whose fields cannot be NULL
        return "Spark refused: NULL"
    except PySparkException as error:
        if "ANALYSIS" in str(error).upper():
            raise
        return f"Spark refused: {error.getCondition()}"
    same(rows_of(ours), rows_of(conformed(theirs, made.whole.fields)))
    return "alike"
