"""Nexmark: events a second through each query, whose changes are taken and forgotten.

    python tests/benchmarks/bench_nexmark.py [--events 1000000] [--runs 1] [--only q0,q5,...]

An epoch has 50,000 events, 10,000 of which are in a second of event time; windows come when the
watermark, four seconds behind, has passed them, and at the end. Making the events and pushing them
is not counted, reading them is. Each query runs in a process of its own; figures are medians of
runs, and of processor seconds where said.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import Measured, in_turn, measure, parsed, report, warm_up

EPOCH = 50_000


def run_query(name: str, events: int) -> Measured:
    """Measure one query."""
    from pkray.relational import changelog, query
    from tests.nexmark.generator import SCHEMAS, Nexmark
    from tests.nexmark.queries import QUERIES

    late = ("dateTime", "dateTime - INTERVAL '4' SECOND")
    streams = {
        each: changelog(schema, watermark=late, name=each, dialect="flink")
        for each, schema in SCHEMAS.items()
    }
    relation = query(QUERIES[name], dialect="flink", **streams)
    made = [Nexmark(seed=7).events(first, EPOCH) for first in range(0, events, EPOCH)]
    with relation.stream() as stream:

        def work() -> int:
            rows = 0
            for epoch in made:
                for each, pushed in epoch.items():
                    streams[each].push(pushed)
                while (batch := stream.poll()) is not None:
                    rows += batch.num_rows
            for each in streams.values():
                each.finish()
            while (batch := stream.poll()) is not None:
                rows += batch.num_rows
            return rows

        return measure(work)


def main() -> None:
    from tests.nexmark.queries import QUERIES

    options = parsed(__doc__, events=1_000_000, runs=1, only=",".join(QUERIES))
    if options.one:
        warm_up("pkray.relational.continuous.queries.stream")
        report(run_query(options.one, options.events))
        return
    print("query    events/s    events/cpu-s    changes out    peak MB")
    for name in options.only.split(","):
        runs = in_turn(__file__, [name], options.runs)[name]
        wall = statistics.median(each.wall_seconds for each in runs)
        processor = statistics.median(each.cpu_seconds for each in runs)
        peak = max(each.peak_bytes for each in runs) / 1e6
        print(
            f"{name:5} {options.events / wall:11,.0f} {options.events / processor:15,.0f} "
            f"{runs[0].result:14,} {peak:10,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
