"""How soon what is written is seen: by a lookup, after a commit, in a continuous query's result.

python tests/benchmarks/bench_freshness.py [--seconds 30] [--buckets 16] [--embedded]

A thousand rows a second are pushed and committed, on Ray or in this process. Prints medians and
the slowest tenth: until a lookup sees pushed rows (``latest``), of the call that commits, and from
the upsert's return to the result of a GROUP BY.
"""

import statistics
import tempfile
import time
from typing import Any

import pyarrow as pa
from harness import parsed

import pkray

KEYS = 100_000
ROWS = 1_000
QUERY = "SELECT v % 10 AS side, COUNT(*) AS n FROM default.t GROUP BY v % 10"
WAIT_SECONDS = 60


def rows(number: int) -> pa.Table:
    first = number * ROWS % KEYS
    return pa.table({"k": range(first, first + ROWS), "v": [number] * ROWS})


def shown(name: str, seconds: list[float]) -> str:
    millis = sorted(1000 * each for each in seconds)
    return f"{name:36} {statistics.median(millis):8.1f} ms  {millis[len(millis) * 9 // 10]:8.1f} ms"


def measure(catalog: pkray.Catalog, buckets: int, count: int) -> list[str]:
    """Write so many times, one a second; say how long each took to be seen."""
    options = {"bucket": str(buckets), "changelog-producer": "lookup"}
    columns = [("k", "BIGINT"), ("v", "BIGINT")]
    table: Any = catalog.create_table("default.t", columns, ["k"], options=options)
    query = catalog.sql(QUERY).materialize("default.r", options={"bucket": "1"})
    table.upsert(rows(0))
    query.wait({"default.t": table.latest_snapshot().id}, timeout=WAIT_SECONDS)
    seen, commits, results = [], [], []
    with table.open_writer("bench") as writer:
        for number in range(1, count + 1):
            begun = time.perf_counter()
            batch = rows(number)
            writer.upsert(batch)
            found = table.lookup(batch.select(["k"]).slice(0, 10))
            seen.append(time.perf_counter() - begun)
            assert set(found["v"].to_pylist()) == {number}
            committing = time.perf_counter()
            newest = writer.commit().id
            returned = time.perf_counter()
            commits.append(returned - committing)
            query.wait({"default.t": newest}, timeout=WAIT_SECONDS)
            results.append(time.perf_counter() - returned)
            time.sleep(max(0.0, 1 - (time.perf_counter() - begun)))
    query.drop()
    return [
        f"{'':36} {'median':>8}     {'slowest tenth from':>8}",
        shown("pushed rows seen by a lookup", seen),
        shown("commit", commits),
        shown("committed rows in the query's result", results),
    ]


def main() -> None:
    """Measure, and print it."""
    said = parsed(__doc__, seconds=30, buckets=16, embedded=False)
    runtime = "local" if said.embedded else "ray"
    with tempfile.TemporaryDirectory() as folder:
        with pkray.connect(folder, runtime=runtime) as catalog:
            print("\n".join(measure(catalog, said.buckets, said.seconds)))


if __name__ == "__main__":
    main()
