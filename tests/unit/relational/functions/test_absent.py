"""The names of Spark's and Flink's functions: each is known here, or has a reason why it is not.

``spark_functions.txt`` is what SHOW FUNCTIONS says in Spark 4.2; `tests/spark/local` compares it.
``flink_functions.txt`` are the system functions of Flink 2's manual.
"""

from datetime import datetime
from pathlib import Path

import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational import from_arrow, query
from pkray.relational.dialect import Dialect
from pkray.relational.functions import absent, function
from pkray.relational.functions.aggregates import catalogue

SPARK_FUNCTIONS = (Path(__file__).parent / "spark_functions.txt").read_text().split()
FLINK_FUNCTIONS = (Path(__file__).parent / "flink_functions.txt").read_text().split()
FLINK_SYNTAX = {
    "between": "SELECT 2 BETWEEN 1 AND 3 AS v",
    "case": "SELECT CASE 1 WHEN 1 THEN 2 END AS v",
    "cast": "SELECT CAST('1' AS INT) AS v",
    "try_cast": "SELECT TRY_CAST('x' AS INT) AS v",
    "in": "SELECT 1 IN (1, 2) AS v",
    "like": "SELECT 'a' LIKE 'a%' AS v",
    "exists": "SELECT EXISTS (SELECT 1) AS v",
    "extract": "SELECT EXTRACT(YEAR FROM DATE '2020-01-01') AS v",
    "interval": "SELECT DATE '2020-01-01' + INTERVAL '1' DAY AS v",
    "grouping": "SELECT GROUPING(x) AS v FROM (VALUES (1)) AS t(x) GROUP BY ROLLUP(x)",
    "grouping_id": "SELECT GROUPING_ID(x) AS v FROM (VALUES (1)) AS t(x) GROUP BY ROLLUP(x)",
    **{
        name: f"SELECT * FROM TABLE({name}(TABLE times, DESCRIPTOR(ts), {sizes}))"
        for name, sizes in {
            "tumble": "INTERVAL '1' HOUR",
            "hop": "INTERVAL '1' HOUR, INTERVAL '2' HOUR",
            "cumulate": "INTERVAL '1' HOUR, INTERVAL '2' HOUR",
            "session": "INTERVAL '1' HOUR",
        }.items()
    },
}
"""What has a grammar of its own in Flink, and a query that has it."""
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
    here = function.is_function(name, Dialect.SPARK) or catalogue.is_window(name)
    return here or catalogue.is_aggregate(name, Dialect.SPARK)


def test_every_function_of_sparks_is_here_or_is_refused_with_a_reason() -> None:
    unexplained = [
        name
        for name in SPARK_FUNCTIONS
        if not is_known(name) and name not in SYNTAX and absent.reason(name) is None
    ]
    assert unexplained == []


def is_known_in_flink(name: str) -> bool:
    here = function.is_function(name, Dialect.FLINK) or catalogue.is_window(name)
    return here or catalogue.is_aggregate(name, Dialect.FLINK)


def test_every_function_of_flinks_is_here_or_is_refused_with_a_reason() -> None:
    unexplained = [
        name
        for name in FLINK_FUNCTIONS
        if not is_known_in_flink(name) and name not in FLINK_SYNTAX and absent.reason(name) is None
    ]
    assert unexplained == []
    assert [
        name for name in FLINK_FUNCTIONS if is_known_in_flink(name) and absent.reason(name)
    ] == []


@pytest.mark.parametrize("text", FLINK_SYNTAX.values(), ids=FLINK_SYNTAX)
def test_what_has_a_grammar_of_its_own_in_flink_runs(text: str) -> None:
    times = from_arrow({"ts": [datetime(2020, 1, 1)]}, name="times", dialect=Dialect.FLINK)
    assert query(text, dialect=Dialect.FLINK, times=times).to_arrow().num_rows >= 1


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
