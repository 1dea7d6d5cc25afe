"""Ray Data on a table, against `read_parquet` of the same files and against a sink that drops rows.

python tests/benchmarks/bench_ray_data.py [--rows 10000000] [--runs 3]

Prints rows a second, ratios, and what the driver's memory grew by while rows were written.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import parsed, peak_bytes, reset_peak

import pkray

WARM = 2
"""Runs of each side before those that count: processes start, and import what they need."""


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def drained(dataset: Any) -> None:
    for _ in dataset.iter_internal_ref_bundles():
        pass


def main() -> None:
    options = parsed(__doc__, rows=10_000_000, runs=3)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder, runtime="ray") as catalog:
        run(catalog, options.rows, options.runs)


def run(catalog: pkray.Catalog, rows: int, runs: int) -> None:
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    columns = [("id", "BIGINT"), ("a", "BIGINT"), ("b", "DOUBLE")]
    table = catalog.create_table("bench.t", columns, ["id"], options={"bucket": "8"})

    def rows_of(batch: Any) -> Any:
        numbers = batch["id"]
        return batch.append_column("a", numbers).append_column("b", numbers.cast("double"))

    dataset = ray.data.range(rows).map_batches(rows_of, batch_format="pyarrow").materialize()

    reset_peak()
    before = peak_bytes()
    dropped = seconds(lambda: drained(dataset.map_batches(lambda each: {}, batch_format="pyarrow")))
    wrote = seconds(lambda: dataset.write_datasink(pkray.ray_data.sink(table)))
    grown = peak_bytes() - before
    print(f"sink: {rows / wrote:,.0f} rows/s, {dropped / wrote:.2f} of a task that drops them")
    print(f"driver: {grown >> 20} MB more while {rows:,} keys were written")

    table.compact()
    files = [str(p) for p in Path(table.location.url).rglob("*.parquet") if "level" not in p.name]
    named = set(table.system("files")["file_path"].to_pylist())
    live = [each for each in files if any(each.endswith(Path(name).name) for name in named)]
    reads: dict[str, Callable[[], object]] = {
        "parquet": lambda: drained(ray.data.read_parquet(live).select_columns(["id", "a"])),
        "ours": lambda: drained(pkray.ray_data.read(table).select_columns(["id", "a"])),
    }
    times: dict[str, list[float]] = {name: [] for name in reads}
    for number in range(WARM + runs):  # by turns, each as often
        for name, read in reads.items():
            taken = seconds(read)
            if number >= WARM:
                times[name].append(taken)
    parquet, ours = (statistics.median(times[name]) for name in ("parquet", "ours"))
    print(f"read: {rows / ours:,.0f} rows/s, {parquet / ours:.2f} of read_parquet")


if __name__ == "__main__":
    main()
