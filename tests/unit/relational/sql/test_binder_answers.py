"""Queries of data/answers.sql: what plans give locally, optimized or not, and what DuckDB answers.

A line is a query; where DuckDB writes it in another way, that stands after ``|||``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pkray.relational.dialect import Dialect
from pkray.relational.local.engine import run
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources.arrow import ArrowSource
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query
from pkray.scan.moment import Moment
from tests.unit.relational.sql.plans import check

TABLES = {
    "t": pa.table(
        {
            "id": pa.array(range(12), pa.int32()),
            "k": pa.array([2, 1, 3, None, None, 4, None, 2, 4, None, 4, 1], pa.int32()),
            "x": pa.array(
                [None, None, -1, -1, None, 1.5, None, 0, -1, None, 0, None], pa.float64()
            ),
            "s": pa.array(["a", None, "c", None, "a", None, "a", "b", "c", "a", None, "b"]),
        }
    ),
    "u": pa.table(
        {
            "k": pa.array([5, 1, None, 5, 5, 1, 2, None, 5, None], pa.int32()),
            "y": pa.array([7, None, 7, 1, 3, 7, 3, 2, 3, 7], pa.int32()),
            "w": pa.array(["d", "b", "b", "a", "a", "a", None, "b", "d", "b"]),
        }
    ),
    "v": pa.table({"k": pa.array([1, 2, 3], pa.int32()), "z": pa.array([10, None, 30])}),
    "e": pa.table({"k": pa.array([], pa.int32()), "q": pa.array([], pa.int32())}),
}
QUERIES = (Path(__file__).parent / "data" / "answers.sql").read_text().splitlines()


class Tables:
    """Finds the tables above."""

    dialect = Dialect.SPARK

    def relation(self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment) -> Node:
        return Scan(ArrowSource(parts[-1], TABLES[parts[-1]]))

    def udf(self, name: str) -> Any | None:
        return None


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in TABLES.items():
        connection.register(name, rows)
    return connection


def _counted(rows: Iterable[Iterable[Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_comparable(value) for value in row) for row in rows)


def _comparable(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return round(float(value), 6)
    return value


@pytest.mark.parametrize("line", QUERIES)
def test_a_plan_gives_the_answer(line: str, duck: duckdb.DuckDBPyConnection) -> None:
    query, _, other = line.partition(" ||| ")
    node = Binder(Tables()).query(parse_query(query, Dialect.SPARK))
    for each in node.walk():
        check(each)
    answer = _counted(duck.execute(other or query).fetchall())
    for each in (node, optimize(node)):
        given = (row.values() for batch in run(each) for row in batch.to_pylist())
        assert _counted(given) == answer
