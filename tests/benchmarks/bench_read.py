"""Merge read over two runs against the read of one compacted run of the same content.

python tests/benchmarks/bench_read.py [--rows 5000000] [--runs 5]
"""

import statistics
import tempfile

from harness import SCHEMA, batches, measure, parsed

import pkray


def main() -> None:
    options = parsed(__doc__, rows=5_000_000, runs=5)
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
