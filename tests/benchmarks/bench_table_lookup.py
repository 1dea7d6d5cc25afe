"""Lookups by key in a table of many keys, embedded and through actors.

python tests/benchmarks/bench_table_lookup.py [--keys 10000000] [--runtime local|ray]
python tests/benchmarks/bench_table_lookup.py --cold [--keys 50000000] [--folder F] [--no-pages]

Every batch asks for other keys at random. At first most of them lie where nobody has looked since
the cache was built, so that memory answers; the figure falls from batch to batch until all of the
cache has been looked at.

With ``--cold`` fresh processes ask for their first keys, on disk and at 30 ms a request, alone and
beside ingest and compaction. The table lies in ``--folder``, where it is made once.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cold_lookups
import numpy as np
import pyarrow as pa
from harness import SCHEMA, batches, parsed

import pkray

BATCH = 10_000
FILES = 100
STEP = 8
"""Keys that lie nearer share a block of the cache."""


def milliseconds(work: Callable[[], object], runs: int) -> list[float]:
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1e3)
    return found


def main() -> None:
    kinds = {"runtime": "local", "cold": False, "folder": "", "no_pages": False}
    options = parsed(__doc__, keys=10_000_000, **kinds)
    if options.cold:
        with tempfile.TemporaryDirectory() as folder:
            cold(options.folder or folder, options.keys, not options.no_pages)
        return
    random = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        with pkray.connect(folder, runtime=options.runtime) as catalog:
            run(catalog, options.keys, random)


def cold(folder: str, keys: int, pages: bool) -> None:
    if not any(Path(folder).glob("bench.db/*")):
        cold_lookups.make(folder, keys, FILES, pages)
    for delay in (0, 30):
        cold_lookups.measure(folder, keys, delay, beside=False)
    cold_lookups.measure(folder, keys, 0, beside=True)


def run(catalog: pkray.Catalog, keys: int, random: np.random.Generator) -> None:
    table = catalog.create_table("bench.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    with table.open_writer("load") as writer:
        for number, rows in enumerate(batches(keys, keys, keys // 10)):
            dense = pa.array(np.arange(number * keys // 10, (number + 1) * keys // 10))
            writer.upsert(rows.set_column(0, SCHEMA.field("k"), dense))
        writer.commit(commit_identifier=1, full_compact=True)

    def ask(count: int) -> Callable[[], object]:
        wanted = pa.table({"k": random.integers(0, keys, count)})
        return lambda: table.lookup(wanted, visibility="committed")

    def many() -> float:
        return statistics.median(milliseconds(ask(BATCH), 1)[0] for _ in range(20))

    cold = milliseconds(ask(1), 1)[0]
    building = milliseconds(ask(BATCH), 1)[0]
    milliseconds(ask(BATCH), 4)
    begun = many()
    for start in range(0, keys, BATCH * STEP):
        some = np.arange(start, min(start + BATCH * STEP, keys), STEP)
        table.lookup(pa.table({"k": some}), visibility="committed")
    warm = many()
    one = [milliseconds(ask(1), 1)[0] for _ in range(300)]
    print(f"first lookup of one key, behind which the cache is built: {cold:.0f} ms")
    print(f"first lookup of {BATCH:,}, which waits for the cache: {building:.0f} ms")
    print(f"{BATCH:,} keys of {keys:,}, after five such batches: median {begun:.1f} ms")
    print(f"the same, once every {STEP}th key was asked for: median {warm:.1f} ms (goal 50)")
    print(f"one key: median {statistics.median(one):.3f} ms")
    service = table.runtime.service(table.location, table.schema)
    empty = milliseconds(lambda: service.owners[0].ping(), 300)
    ratio = statistics.median(one) / statistics.median(empty)
    if type(table.runtime).__name__ == "RayRuntime":
        print(f"one key against an empty actor call: {ratio:.2f} times as long (goal 3)")


if __name__ == "__main__":
    main()
