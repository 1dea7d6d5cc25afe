"""TPC-H on Spark: plans of pkray against the same SQL given to Spark.

    python tests/benchmarks/bench_relational_spark.py [--scale 0.1] [--runs 3]

For each query three times in turn, the fastest counts: the plan's DataFrame over keyed tables; the
query's own text over the same tables, read through the same data source; and over Parquet files.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import parsed

import pkray
import pkray.spark
from tests.tpch.generator import KEYS, NUMBERS, Tpch


def main() -> None:
    arguments = parsed(__doc__, scale=0.1, runs=3)
    tpch = Tpch(arguments.scale)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(f"{folder}/warehouse") as catalog:
        tpch.fill(catalog, buckets=2)
        spark = pkray.spark.session("bench")
        try:
            compare(tpch, catalog, spark, Path(folder), arguments.runs)
        finally:
            pkray.spark.stop()


def compare(tpch: Tpch, catalog: pkray.Catalog, spark, folder: Path, runs: int) -> None:
    direct, files = spark.newSession(), spark.newSession()
    for name in KEYS:
        table = catalog.load_table(f"default.{name}")
        pkray.spark.read(direct, table).createOrReplaceTempView(name)
        pq.write_table(tpch.table(name), folder / f"{name}.parquet")
        files.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    against_source, against_files = [], []
    print(f"{'query':>5} {'plan s':>8} {'/ same source':>14} {'/ Parquet':>10}")
    for number in NUMBERS:
        text = tpch.queries[number]
        relation = catalog.sql(text)
        ways = (
            lambda r=relation: r.to_spark(spark),
            lambda t=text: direct.sql(t),
            lambda t=text: files.sql(t),
        )
        plan, source, parquet = fastest(ways, runs)
        against_source.append(plan / source)
        against_files.append(plan / parquet)
        print(
            f"{number:>5} {plan:>8.2f} {plan / source:>14.2f} {plan / parquet:>10.2f}", flush=True
        )
    print(f" mean {'':>8} {mean(against_source):>14.2f} {mean(against_files):>10.2f}")


def fastest(ways: tuple[Callable[[], DataFrame], ...], runs: int) -> list[float]:
    """Time each way in turn, and take the fastest run of each."""
    best = [math.inf] * len(ways)
    for _ in range(runs):
        for index, way in enumerate(ways):
            started = time.perf_counter()
            way().toArrow()
            best[index] = min(best[index], time.perf_counter() - started)
    return best


def mean(ratios: list[float]) -> float:
    """Give the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


if __name__ == "__main__":
    main()
