"""Each function with NULL in the place of each argument, beside valid and invalid others.

The calls are those of ``data/boundary_calls.txt`` and ``data/null_calls.txt``; in each, every
column becomes one of NULLs in turn, while the others have the values at the ends of their types.
The differences that are known, each with its reason, are in ``data/null_differences.txt``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import written
from tests.spark.local.boundary_rows import boundary_rows
from tests.spark.local.side_by_side import snippets
from tests.spark.local.sweep import Differences, Here, There, calls, differences, share_of

DATA = Path(__file__).parent / "data"
ROWS = boundary_rows()
NAMED = {**calls(DATA / "boundary_calls.txt", swept=False), **calls(DATA / "null_calls.txt")}
KNOWN = Differences.read(DATA / "null_differences.txt")
SHARES = 32
"""Of so many shares of the calls a quick run takes one."""
_WORD = re.compile(r"'[^']*'|\b[a-z]\w*\b(?!\s*\()")
_VARIABLES = re.compile(r"(\w+|\([\w, ]+\)) ->")
CASTS = {
    *("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint"),
    *("string", "timestamp", "tinyint"),
}


def rows_with_nulls() -> pa.Table:
    """Give the rows, with a column of NULLs for each of a type."""
    table = ROWS
    for name in ROWS.column_names:
        if not re.search(r"_\d$", name):
            nulls = pa.nulls(len(ROWS), ROWS.schema.field(name).type)
            table = table.append_column(f"{name}_null", nulls)
    return table


def beside_null(call: str) -> Iterator[str]:
    """Put NULLs in the place of each column of a call."""
    variables = set(re.findall(r"\w+", " ".join(_VARIABLES.findall(call))))
    for found in _WORD.finditer(call):
        name = found[0]
        if name in ROWS.column_names and name not in variables:
            plain = re.sub(r"_\d$", "", name)
            yield f"{call[: found.start()]}{plain}_null{call[found.end() :]}"


CALLS = list(
    dict.fromkeys(each for some in NAMED.values() for call in some for each in beside_null(call))
)


def test_every_function_with_arguments_is_among_them() -> None:
    asked = {*snippets(DATA / "expressions.txt")} & {each.name for each in written(Dialect.SPARK)}
    assert asked - set(NAMED) - CASTS == {
        "current_database",
        "current_timezone",
        "current_user",
        "schema_of_csv",
        "schema_of_json",
    }


@pytest.mark.parametrize(
    "shares", [1, pytest.param(SHARES, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_null_beside_valid_and_invalid_arguments_is_as_in_spark(
    spark: SparkSession, shares: int
) -> None:
    chosen = KNOWN.answered([call for call in CALLS if share_of(call, SHARES) < shares])
    rows = rows_with_nulls()
    here, there = Here(rows), There(spark, rows)
    theirs = there.answers(chosen)
    wrong = [
        f"{call}: {kind}: {said}"
        for call in chosen
        for kind, said in differences(here.answer(call), theirs[call]).items()
        if not KNOWN.explain(kind, call)
    ]
    assert wrong == []
