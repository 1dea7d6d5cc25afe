"""Merge read over two runs against the read of one compacted run of the same content.

python tests/benchmarks/bench_read.py [--rows 5000000] [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import SCHEMA, batches, measure

import pkray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        settings = {"bucket": "1", "num-sorted-run.compaction-trigger": "50"}
        table = catalog.create_table("bench.t", SCHEMA, primary_keys=["k"], options=settings)
        first, second = batches(options.rows, options.rows, options.rows // 2)
        with table.open_writer("bench") as writer:
            writer.upsert(first)
            writer.commit(commit_identifier=1, full_compact=True)
            writer.upsert(second)
            two = writer.commit(commit_identifier=2)
        one = table.compact(full=True)
        assert two is not None and one is not None

        def read(snapshot_id: int) -> int:
            return sum(b.num_rows for b in table.to_batches(snapshot_id=snapshot_id))

        ratios, speeds = [], []
        for _ in range(options.runs):
            merged = measure(lambda: read(two.id))
            compacted = measure(lambda: read(one.id))
            assert merged.result == compacted.result
            ratios.append(compacted.cpu_seconds / merged.cpu_seconds)
            speeds.append(compacted.result / merged.cpu_seconds / 1e6)
        print(
            f"merge read of two runs: {statistics.median(speeds):.1f}M rows/cpu-s, "
            f"{statistics.median(ratios):.2f} of the read of one compacted run (goal 0.4)"
        )


if __name__ == "__main__":
    main()
