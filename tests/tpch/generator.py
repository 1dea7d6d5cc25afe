"""Brings TPC-H's tables, queries and answers."""

import math
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_tpch
import pyarrow as pa

import pkray
from tests.tpch import QUERIES

KEYS = {
    "customer": ["c_custkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
    "nation": ["n_nationkey"],
    "orders": ["o_orderkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "region": ["r_regionkey"],
    "supplier": ["s_suppkey"],
}
NUMBERS = range(1, 23)


@dataclass
class Tpch:
    """TPC-H's tables at one scale, in a DuckDB of its own."""

    scale: float
    connection: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = duckdb.connect()
        folder = Path(duckdb_extension_tpch.__file__).parent / "extensions"
        file = folder / f"v{duckdb.__version__}" / "tpch.duckdb_extension"
        self.connection.execute(f"LOAD '{file}'")
        self.connection.execute(f"CALL dbgen(sf={self.scale})")

    @cached_property
    def queries(self) -> dict[int, str]:
        """Give the queries, in Spark's words."""
        return {int(path.stem[1:]): path.read_text() for path in QUERIES}

    def table(self, name: str) -> pa.Table:
        """Give the rows of a table."""
        return self.connection.execute(f"SELECT * FROM {name}").to_arrow_table()

    def answer(self, number: int) -> pa.Table:
        """Give a query's answer, by DuckDB."""
        return self.connection.execute(f"PRAGMA tpch({number})").to_arrow_table()

    def fill(self, catalog: pkray.Catalog, buckets: int = 1) -> None:
        """Write all tables to keyed tables of their names."""
        for name, key in KEYS.items():
            rows = self.table(name)
            table = catalog.create_table(
                f"default.{name}", rows.schema, primary_keys=key, options={"bucket": str(buckets)}
            )
            with table.open_writer() as writer:
                for batch in rows.to_batches(max_chunksize=1 << 20):
                    writer.upsert(batch)
                writer.commit()


def differences(given: pa.Table, expected: pa.Table) -> list[str]:
    """List how rows differ; numbers may differ in what averages round away."""
    if given.num_columns != expected.num_columns:
        return [f"{given.num_columns} columns, not {expected.num_columns}"]
    rows, others = _rows(given), _rows(expected)
    if len(rows) != len(others):
        return [f"{len(rows)} rows, not {len(others)}"]
    pairs = zip(sorted(rows, key=_order), sorted(others, key=_order), strict=True)
    return [f"{one} is not {other}" for one, other in pairs if not _equal(one, other)][:3]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    exact = [str(value) for value in row if isinstance(value, str | int | date | None)]
    inexact = [f"{float(v):.2f}" for v in row if isinstance(v, float | Decimal)]
    return (*exact, *inexact)


def _equal(row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(_same(one, two) for one, two in zip(row, other, strict=True))


def _same(one: Any, other: Any) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return math.isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-5)
    return bool(one == other)
