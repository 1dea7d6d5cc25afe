"""Functions at the ends of their argument types, row by row, beside Spark.

The calls are in ``data/boundary_calls.txt``, the rows in `boundary_rows`, and the differences that
are known, each with its reason, in ``data/boundary_differences.txt``.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import is_known, written
from tests.spark.local.boundary_rows import boundary_rows
from tests.spark.local.sweep import Differences, Here, There, calls, differences, share_of

DATA = Path(__file__).parent / "data"
CALLS = calls(DATA / "boundary_calls.txt")
KNOWN = Differences.read(DATA / "boundary_differences.txt")
SYNTAX = {"between", "case", "intervals", "is", "shift"}
SHARES = 96
"""Of so many shares of the calls a quick run takes one, and a slow one sixteen."""


def test_each_line_names_a_function_and_each_difference_a_reason() -> None:
    names = {each.name for each in written(Dialect.SPARK)} | SYNTAX
    assert [name for name in CALLS if name not in names and not is_known(name)] == []
    assert [each for each in KNOWN.lines if len(each) != 3 or not each[2]] == []


@pytest.mark.parametrize(
    "shares", [1, pytest.param(16, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_calls_at_the_ends_of_types_give_what_spark_gives(spark: SparkSession, shares: int) -> None:
    every = [call for each in CALLS.values() for call in each]
    chosen = KNOWN.answered([call for call in every if share_of(call, SHARES) < shares])
    rows = boundary_rows()
    here, there = Here(rows), There(spark, rows)
    theirs = there.answers(chosen)
    wrong = [
        f"{call}: {kind}: {said}"
        for call in chosen
        for kind, said in differences(here.answer(call), theirs[call]).items()
        if not KNOWN.explain(kind, call)
    ]
    assert wrong == []
