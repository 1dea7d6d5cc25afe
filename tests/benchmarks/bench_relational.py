"""The local engine of relations against polars and DuckDB.

Goals: GROUP BY of 5M rows into 1M groups and a join of 1M with 1M rows take at most 3 times polars'
time; TPC-H at scale 1, over Parquet files, at most 8 times DuckDB's in the geometric mean, and no
query over 30 times. DuckDB and the engine read the same files and give the same answers.

python tests/benchmarks/bench_relational.py [--scale 1] [--runs 3] [--queries 1,6,13] [--skip-tpch]
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from harness import parsed

from pkray.relational.dialect import Dialect
from pkray.relational.local import catalogue as local
from pkray.relational.optimizer import optimize
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources import ColumnStatistics, Source
from pkray.relational.sources.arrow import ArrowSource
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query
from pkray.schema.types import DataType
from tests.tpch.generator import KEYS, NUMBERS, Tpch, differences

GOAL_POLARS, GOAL_MEAN, GOAL_WORST = 3, 8, 30
GROUPED_ROWS, GROUPS, JOINED_ROWS = 5_000_000, 1_000_000, 1_000_000


def main() -> None:
    options = parsed(__doc__, scale=1.0, runs=3, queries="", skip_tpch=False)
    against_polars(options.runs)
    if not options.skip_tpch:
        chosen = [int(number) for number in options.queries.split(",") if number]
        against_duckdb(options.scale, options.runs, chosen or list(NUMBERS))


class ParquetFile(Source):
    """A Parquet file as a source."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.stem
        self.primary_key = tuple(KEYS[self.name])
        self.mode, self.watermark = "insert", None
        self.metadata = pq.read_metadata(path)
        schema = self.metadata.schema.to_arrow_schema()
        self._fields = Fields(tuple(Field(f.name, DataType.from_arrow(f.type)) for f in schema))

    @property
    def fields(self) -> Fields:
        return self._fields

    def row_count(self) -> int:
        return self.metadata.num_rows

    def statistics(self, column: str) -> ColumnStatistics:
        place = self._fields.names.index(column)
        groups = range(self.metadata.num_row_groups)
        found = [self.metadata.row_group(group).column(place).statistics for group in groups]
        if not all(each is not None and each.has_min_max for each in found):
            return ColumnStatistics()
        return ColumnStatistics(min(each.min for each in found), max(each.max for each in found), 0)

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(self.path).iter_batches(1 << 17, columns=list(columns))


class Sources:
    """Names of sources, in the spark dialect."""

    dialect = Dialect.SPARK

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources

    def relation(self, parts: tuple[str, ...], options: object, at: object) -> Node:
        return Scan(self.sources[parts[-1]])

    def udf(self, name: str) -> None:
        return None

    def run(self, query: str) -> pa.Table:
        plan = optimize(Binder(self).query(parse_query(query, self.dialect)), bounded=True)
        return pa.Table.from_batches(list(local.run(plan)), plan.fields.arrow)


def timed(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Least milliseconds of some runs, and what the last one gave."""
    taken, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        taken.append(1000 * (time.perf_counter() - start))
    return min(taken), result


def against_polars(runs: int) -> None:
    random = np.random.default_rng(7)
    rows = pa.table(
        {"k": random.integers(0, GROUPS, GROUPED_ROWS), "v": random.integers(0, 1000, GROUPED_ROWS)}
    )
    left = pa.table({"k": random.permutation(JOINED_ROWS), "x": random.random(JOINED_ROWS)})
    right = pa.table({"j": random.permutation(JOINED_ROWS), "y": random.random(JOINED_ROWS)})
    tables = {"rows": rows, "l": left, "r": right}
    sources = Sources({name: ArrowSource(name, table) for name, table in tables.items()})
    frame, ours, theirs = pl.from_arrow(rows), pl.from_arrow(left), pl.from_arrow(right)
    assert isinstance(frame, pl.DataFrame)
    assert isinstance(ours, pl.DataFrame)
    assert isinstance(theirs, pl.DataFrame)
    grouped = frame.lazy().group_by("k").agg(pl.col("v").sum().alias("total"), pl.len())
    joined = ours.lazy().join(theirs.lazy(), left_on="k", right_on="j")
    compare(
        f"GROUP BY of {GROUPED_ROWS:,} rows into {GROUPS:,} groups",
        lambda: sources.run("SELECT k, SUM(v) AS total, COUNT(*) AS n FROM rows GROUP BY k"),
        lambda: grouped.collect().to_arrow(),
        runs,
    )
    compare(
        f"join of {JOINED_ROWS:,} with {JOINED_ROWS:,} rows",
        lambda: sources.run("SELECT * FROM l JOIN r ON k = j"),
        lambda: joined.collect().to_arrow(),
        runs,
    )


def compare(
    what: str, ours: Callable[[], pa.Table], polars: Callable[[], pa.Table], runs: int
) -> None:
    mine, given = timed(ours, runs)
    other, expected = timed(polars, runs)
    assert given.num_rows == expected.num_rows
    print(
        f"{what}: {mine:.0f} ms, polars {other:.0f} ms, "
        f"{mine / other:.2f} times (goal {GOAL_POLARS})"
    )


def against_duckdb(scale: float, runs: int, numbers: Sequence[int]) -> None:
    tpch = Tpch(scale)
    with tempfile.TemporaryDirectory() as folder:
        for name in KEYS:
            file = Path(folder) / f"{name}.parquet"
            tpch.connection.execute(f"COPY {name} TO '{file}' (FORMAT parquet)")
            tpch.connection.execute(f"DROP TABLE {name}")
            tpch.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{file}'")
        sources = Sources({name: ParquetFile(Path(folder) / f"{name}.parquet") for name in KEYS})
        ratios = [one_query(tpch, sources, number, runs) for number in numbers]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(
        f"TPC-H at scale {scale:g}: {mean:.2f} times DuckDB in the mean (goal {GOAL_MEAN}), "
        f"{max(ratios):.1f} at most (goal {GOAL_WORST})"
    )


def one_query(tpch: Tpch, sources: Sources, number: int, runs: int) -> float:
    """Time of the engine divided by DuckDB's."""
    other, expected = timed(lambda: tpch.answer(number), runs)
    mine, given = timed(lambda: sources.run(tpch.queries[number]), runs)
    wrong = differences(given, expected)
    assert not wrong, wrong
    print(f"  q{number}: {mine:.0f} ms, DuckDB {other:.0f} ms, {mine / other:.1f} times")
    return mine / other


if __name__ == "__main__":
    main()
