"""The names of Spark's functions: each is known here, or has a reason why it is not.

``spark_functions.txt`` is what SHOW FUNCTIONS says in Spark 4.2; `tests/spark/local` compares it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational import query
from pkray.relational.dialect import Dialect
from pkray.relational.functions import absent, function
from pkray.relational.functions.aggregates import aggregate

SPARK_FUNCTIONS = (Path(__file__).parent / "spark_functions.txt").read_text().split()
SYNTAX = {
    "between": "SELECT 2 BETWEEN 1 AND 3 AS v",
    "case": "SELECT CASE 1 WHEN 1 THEN 2 END AS v",
    "cast": "SELECT CAST('1' AS INT) AS v",
    "when": "SELECT CASE WHEN true THEN 2 END AS v",
    "explode": "SELECT explode(array(1)) AS v",
    "explode_outer": "SELECT explode_outer(array(1)) AS v",
    "posexplode": "SELECT posexplode(array(1))",
    "posexplode_outer": "SELECT posexplode_outer(array(1))",
    "inline": "SELECT inline(array(struct(1 AS v)))",
    "inline_outer": "SELECT inline_outer(array(struct(1 AS v)))",
    "json_tuple": "SELECT json_tuple('{\"v\": 1}', 'v') AS v",
    "stack": "SELECT stack(1, 1) AS v",
    "range": "SELECT id AS v FROM range(1)",
    "grouping": "SELECT grouping(x) AS v FROM VALUES (1) t(x) GROUP BY ROLLUP(x)",
    "grouping_id": "SELECT grouping_id() AS v FROM VALUES (1) t(x) GROUP BY ROLLUP(x)",
}
"""What has a grammar of its own, and a query that has it."""


def is_known(name: str) -> bool:
    here = function.is_function(name, Dialect.SPARK) or aggregate.is_window(name)
    return here or aggregate.is_aggregate(name, Dialect.SPARK)


def test_every_function_of_sparks_is_here_or_is_refused_with_a_reason() -> None:
    unexplained = [
        name
        for name in SPARK_FUNCTIONS
        if not is_known(name) and name not in SYNTAX and absent.reason(name) is None
    ]
    assert unexplained == []


def test_what_is_here_has_no_reason_to_be_absent() -> None:
    assert [name for name in SPARK_FUNCTIONS if is_known(name) and absent.reason(name)] == []
    assert [name for name in SYNTAX if is_known(name) or name not in SPARK_FUNCTIONS] == []


@pytest.mark.parametrize("text", SYNTAX.values(), ids=SYNTAX)
def test_what_has_a_grammar_of_its_own_runs(text: str) -> None:
    assert query(text).to_arrow().num_rows >= 1


def test_a_function_that_there_is_not_says_what_to_write_instead() -> None:
    with pytest.raises(UnsupportedError, match=r"'parse_json'.*keep JSON as STRING, read"):
        query("SELECT parse_json('1') AS v").to_arrow()
    with pytest.raises(UnsupportedError, match="percentile and mode are exact"):
        query("SELECT hll_sketch_agg(1) AS v").to_arrow()
    with pytest.raises(QueryError, match="no function is called"):
        query("SELECT no_such_name(1) AS v").to_arrow()
