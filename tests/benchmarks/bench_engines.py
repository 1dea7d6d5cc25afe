"""Upserts through each merge engine, against deduplicate, in one embedded bucket.

    python tests/benchmarks/bench_engines.py [--rows 4000000] [--runs 3]

Each engine runs in a process of its own, in turn; ratios are of rows per processor second. The
rows go over half as many keys; the aggregated table has sum, max, last_value and listagg.
"""

import statistics
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import SCHEMA, batches, in_turn, measure, parsed, report

FUNCTIONS = {"a": "sum", "b": "max", "s": "listagg", "ts": "last_value"}
AGGREGATED = {f"fields.{name}.aggregate-function": name_of for name, name_of in FUNCTIONS.items()}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "sequence-groups": {
        "merge-engine": "partial-update",
        "fields.ts.sequence-group": "a,b,s",
        "fields.a.aggregate-function": "sum",
    },
    "aggregation": {"merge-engine": "aggregation", **AGGREGATED},
    "first-row": {"merge-engine": "first-row"},
}
GOALS = {"partial-update": 0.6, "aggregation": 0.6}


def with_nulls(tables: list[pa.Table], share: float = 0.5) -> list[pa.Table]:
    """Nulls in every column but the key."""
    random = np.random.default_rng(3)
    changed = []
    for table in tables:
        for position in range(1, table.num_columns):
            absent = pa.array(random.random(table.num_rows) < share)
            column = pc.if_else(absent, None, table.column(position))
            table = table.set_column(position, table.schema.field(position), column)
        changed.append(table)
    return changed


def upsert(tables: list[pa.Table], folder: str, options: dict[str, str]) -> None:
    import pkray

    with pkray.connect(folder) as catalog:
        table = catalog.create_table(
            "bench.t", SCHEMA, primary_keys=["k"], options={"bucket": "1", **options}
        )
        with table.open_writer("bench") as writer:
            for number, rows in enumerate(tables):
                writer.upsert(rows)
                writer.commit(commit_identifier=number)


def run_one(engine: str, rows: int) -> None:
    tables = list(batches(rows, rows // 2, rows // 10))
    if engine == "partial-update":
        tables = with_nulls(tables)
    with tempfile.TemporaryDirectory() as folder:
        report(measure(lambda: upsert(tables, folder, ENGINES[engine])))


def main() -> None:
    options = parsed(__doc__, rows=4_000_000, runs=3, engines=",".join(ENGINES))
    if options.one:
        run_one(options.one, options.rows)
        return
    names = list(dict.fromkeys(["deduplicate", *options.engines.split(",")]))
    found = in_turn(__file__, names, options.runs)
    print(f"{options.rows:,} upserts over {options.rows // 2:,} keys in ten commits")
    for name in names:
        cpu = statistics.median(m.cpu_seconds for m in found[name])
        peak = max(m.peak_bytes for m in found[name]) / 1e6
        pairs = zip(found["deduplicate"], found[name], strict=True)
        ratio = statistics.median(base.cpu_seconds / m.cpu_seconds for base, m in pairs)
        goal = f" (goal {GOALS[name]})" if name in GOALS else ""
        print(
            f"{name:16} {options.rows / cpu / 1e6:6.2f}M rows/cpu-s  +{peak:6.0f} MB  "
            f"{ratio:5.2f} of deduplicate{goal}"
        )


if __name__ == "__main__":
    main()
