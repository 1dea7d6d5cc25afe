"""Ray Data on a table, against `read_parquet` of the same files and against a sink that drops rows.

python tests/benchmarks/bench_ray_data.py [--rows 10000000] [--runs 3]

Prints rows a second, ratios, what the driver's memory grew by while rows were written and read, and
the most that a process of Ray's had. Both sides read the same columns of the same files, in as many
tasks.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from harness import parsed, peak_bytes, reset_peak

import pkray

BLOCKS = 8
WARM = 2
"""Runs of each side before those that count: processes start, and import what they need."""


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def drained(dataset: Any) -> tuple[int, int]:
    """Run a Dataset; give how many blocks and rows it has."""
    bundles = list(dataset.iter_internal_ref_bundles())
    return sum(len(each.blocks) for each in bundles), sum(each.num_rows() or 0 for each in bundles)


def narrowed(read: Callable[[], Any]) -> tuple[int, int]:
    return drained(read().select_columns(["id", "a"]))


class Workers:
    """Watches Ray's processes.

    Attributes:
        peak: the most bytes that one of them had, without memory that is shared.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            self.peak = max([self.peak, *self._sizes()])

    @staticmethod
    def _sizes() -> Iterator[int]:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, StopIteration):
                if (folder / "cmdline").read_bytes().startswith(b"ray::"):
                    lines = (folder / "status").read_text().splitlines()
                    line = next(each for each in lines if each.startswith("RssAnon"))
                    yield int(line.split()[1]) << 10


def main() -> None:
    options = parsed(__doc__, rows=10_000_000, runs=3)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder, runtime="ray") as catalog:
        run(catalog, options.rows, options.runs)


def run(catalog: pkray.Catalog, rows: int, runs: int) -> None:
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    columns = [("id", "BIGINT"), ("a", "BIGINT"), ("b", "DOUBLE")]
    table = catalog.create_table("bench.t", columns, ["id"], options={"bucket": str(BLOCKS)})

    def rows_of(batch: Any) -> Any:
        numbers = batch["id"]
        return batch.append_column("a", numbers).append_column("b", numbers.cast("double"))

    dataset = ray.data.range(rows).map_batches(rows_of, batch_format="pyarrow").materialize()
    dropped = seconds(lambda: drained(dataset.map_batches(lambda each: {}, batch_format="pyarrow")))
    wrote = measured("write", rows, lambda: dataset.write_datasink(pkray.ray_data.sink(table)))
    print(f"sink: {rows / wrote:,.0f} rows/s, {dropped / wrote:.2f} of a task that drops them")

    table.compact(full=True)
    folder = Path(table.location.url.removeprefix("file://"))
    names = {Path(each).name for each in table.system("files")["file_path"].to_pylist()}
    files = sorted(str(each) for each in folder.rglob("*.parquet") if each.name in names)
    assert len(files) == len(names)
    how = {"override_num_blocks": len(files)}
    # The newer reader of Parquet gives few files to one task.
    ray.data.DataContext.get_current().use_datasource_v2 = False
    reads: dict[str, Callable[[], Any]] = {
        "parquet": lambda: ray.data.read_parquet(files, **how),
        "ours": lambda: pkray.ray_data.read(table, **how),
    }
    read = {name: partial(narrowed, each) for name, each in reads.items()}
    blocks = {}
    for name, work in read.items():
        blocks[name], found = work()
        assert found == rows, (name, found)
    times: dict[str, list[float]] = {name: [] for name in reads}
    for number in range(WARM + runs):  # by turns, each as often
        for name, work in read.items():
            taken = seconds(work)
            if number >= WARM:
                times[name].append(taken)
    parquet, ours = (statistics.median(times[name]) for name in ("parquet", "ours"))
    print(f"read: {rows / ours:,.0f} rows/s, {parquet / ours:.2f} of read_parquet, of")
    print(f"{len(files)} files by as many tasks: {ours:.2f} s and {parquet:.2f} s, blocks {blocks}")
    measured("read", rows, read["ours"])


def measured(name: str, rows: int, work: Callable[[], object]) -> float:
    """Print what memory grew by; give the seconds."""
    reset_peak()
    before = peak_bytes()
    with Workers() as workers:
        taken = seconds(work)
    grown = peak_bytes() - before
    print(f"{name} of {rows:,} rows: driver {grown >> 20} MB more, workers {workers.peak >> 20} MB")
    return taken


if __name__ == "__main__":
    main()
