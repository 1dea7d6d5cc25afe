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
from tests.unit.relational.sql.plans import check

DATA = Path(__file__).parent / "data"
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
FEW = {
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


class Names:
    """Finds tables by their names."""

    dialect = Dialect.SPARK

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.tables = tables

    def relation(self, parts: tuple[str, ...], options: object, at: object) -> Node:
        return Scan(ArrowSource(parts[-1], self.tables[parts[-1]]))

    def udf(self, name: str) -> None:
        return None


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*([_told(v) for v in c.to_pylist()] for c in rows.columns), strict=True))


def _told(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return round(float(value), 6) + 0.0
    return value


class Both:
    """Tables in DuckDB and here."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.names = Names(tables)
        self.duck = duckdb.connect()
        for name, rows in tables.items():
            self.duck.register(name, rows)


@pytest.fixture(scope="module")
def many() -> Iterator[Both]:
    both = Both(TABLES)
    yield both
    both.duck.close()


@pytest.fixture(scope="module")
def few() -> Iterator[Both]:
    both = Both(FEW)
    yield both
    both.duck.close()


def compare(text: str, duck: str, both: Both) -> None:
    """Compare what a plan of the text gives, optimized or not, with DuckDB's answer."""
    expected = counted(both.duck.execute(duck).to_arrow_table())
    bound = Binder(both.names).query(parse_query(text, Dialect.SPARK))
    for node in bound.walk():
        check(node)
    for plan in (bound, optimize(bound)):
        found = pa.Table.from_batches(list(run(plan, batch_rows=7)), plan.fields.arrow)
        assert counted(found) == expected


@pytest.mark.sampled(100)
@pytest.mark.parametrize("text", (DATA / "queries.sql").read_text().strip().split(";\n"))
def test_a_query_gives_what_duckdb_gives(text: str, many: Both) -> None:
    compare(text, sqlglot.transpile(text, read="spark", write="duckdb")[0], many)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("line", (DATA / "answers.sql").read_text().splitlines())
def test_a_query_over_few_rows_gives_what_duckdb_gives(line: str, few: Both) -> None:
    """What DuckDB writes in another way stands after ``|||``."""
    text, _, other = line.partition(" ||| ")
    compare(text, other or text, few)
