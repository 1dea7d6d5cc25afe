"""What it costs to be watched: one scrape of many tables and queries, and one count.

A scrape each 15 seconds is to take less than a hundredth of a core.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from harness import parsed

import pkray
from pkray.api import metrics
from pkray.metrics.names import LOOKUP_KEYS_TOTAL, LOOKUP_SECONDS
from pkray.metrics.registry import Registry

SCRAPES = 5
INTERVAL_SECONDS = 15.0


def main() -> None:
    given = parsed(__doc__, tables=200, queries=50)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        for number in range(given.tables):
            options = {"changelog-producer": "lookup"} if number < given.queries else {}
            table = catalog.create_table(
                f"b.t{number}", [("k", "INT"), ("v", "INT")], ["k"], options=options
            )
            table.upsert([{"k": 1, "v": number}])
            table.lookup([{"k": 1}])
        queries = [
            catalog.sql(f"SELECT v, COUNT(*) AS n FROM b.t{number} GROUP BY v").materialize(
                f"r.q{number}"
            )
            for number in range(given.queries)
        ]
        for number, query in enumerate(queries):
            query.wait({f"b.t{number}": 1}, 300)
            query.stop()  # what remains of the processor's time is the scrape's
        metrics._FACTS_SECONDS = 0.0
        catalog.metrics()
        begun = time.process_time()
        for _ in range(SCRAPES):
            text = catalog.metrics().to_text()
        took = (time.process_time() - begun) / SCRAPES
    print(f"{given.tables} tables, {given.queries} queries: {len(text.splitlines()):,} lines")
    print(f"a scrape: {took * 1000:.0f} ms of a core, {took / INTERVAL_SECONDS:.2%} of it all")
    print(f"a count: {_count():.2f} µs, a value of a histogram: {_observe():.2f} µs")


def _count(times: int = 200_000) -> float:
    registry, begun = Registry(), time.perf_counter()
    for _ in range(times):
        registry.count(LOOKUP_KEYS_TOTAL, 1, "b.t")
    return (time.perf_counter() - begun) / times * 1e6


def _observe(times: int = 200_000) -> float:
    registry, begun = Registry(), time.perf_counter()
    for _ in range(times):
        registry.observe(LOOKUP_SECONDS, 0.01, "b.t")
    return (time.perf_counter() - begun) / times * 1e6


if __name__ == "__main__":
    main()
