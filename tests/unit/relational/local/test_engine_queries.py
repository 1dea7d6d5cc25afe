"""Queries over small tables with many NULLs give what DuckDB gives, optimized or not."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from pkray.relational.dialect import Dialect
from pkray.relational.local.catalogue import run
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources.arrow import ArrowSource
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query

QUERIES = (Path(__file__).parent / "data" / "queries.sql").read_text().strip().split(";\n")
SIZES = {"r": 40, "s": 25, "u": 8, "e": 0}


def table(rows: int) -> pa.Table:
    random = Random(rows)

    def column(kind: pa.DataType, value: Callable[[], Any]) -> pa.Array:
        return pa.array([None if random.random() < 0.2 else value() for _ in range(rows)], kind)

    return pa.table(
        {
            "k": column(pa.int32(), lambda: random.randrange(6)),
            "j": column(pa.string(), lambda: random.choice("abcd")),
            "v": column(pa.int64(), lambda: random.randrange(-50, 50)),
            "x": column(pa.float64(), lambda: random.choice([0.5, 1.25, -2.0, 8.0])),
            "d": column(
                pa.decimal128(10, 2), lambda: Decimal(random.randrange(-500, 500)).scaleb(-2)
            ),
            "b": column(pa.bool_(), lambda: random.random() < 0.5),
            "t": column(
                pa.date32(), lambda: date(1970, 1, 1) + timedelta(days=random.randrange(-40, 40))
            ),
            "id": pa.array(range(rows), pa.int32()),
        }
    )


TABLES = {name: table(rows) for name, rows in SIZES.items()}
SOURCES = {name: ArrowSource(name, rows) for name, rows in TABLES.items()}


class Names:
    dialect = Dialect.SPARK

    def relation(self, parts: tuple[str, ...], options: object, at: object) -> Node:
        return Scan(SOURCES[parts[-1]])

    def udf(self, name: str) -> None:
        return None


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, rows in TABLES.items():
            connection.register(name, rows)
        yield connection


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*([_told(v) for v in c.to_pylist()] for c in rows.columns), strict=True))


def _told(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return round(float(value), 6) + 0.0
    return value


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_what_duckdb_gives(query: str, database: duckdb.DuckDBPyConnection) -> None:
    said = sqlglot.transpile(query, read="spark", write="duckdb")[0]
    expected = counted(database.execute(said).to_arrow_table())
    bound = Binder(Names()).query(parse_query(query, Dialect.SPARK))
    for plan in (bound, optimize(bound)):
        found = pa.Table.from_batches(list(run(plan, batch_rows=7)), plan.fields.arrow)
        assert counted(found) == expected
