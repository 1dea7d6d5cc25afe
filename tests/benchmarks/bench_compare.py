"""Continuous GROUP BY, against Flink, in processor time.

    python tests/benchmarks/bench_compare.py [--rows 3000000] [--runs 1] [--flink-python PYTHON]

`upserts`: COUNT and SUM by group of the newest row of each key, where each key changes five times
and most changes move it to another group. `appended`: the same of rows that are only added. pkray
is given the rows in memory in ten epochs, keeps the result in a table and writes its state to files
at the end. Flink makes the rows itself, which is taken off its time, and gives the result to
nobody; it has mini-batches, its state in memory and a checkpoint every 30 seconds. Each has one
worker and has run a third of the rows before. Flink comes from ``pip install apache-flink`` in an
environment of its own, whose Python `--flink-python` names; without it there is pkray alone.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import parsed

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("g", pa.int64()), ("v", pa.int64())]
)
SUMS = "SELECT g, COUNT(*) AS n, SUM(v) AS total FROM {rows} GROUP BY g"
NEWEST = (
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY proc DESC) AS place FROM made) "
    "WHERE place = 1"
)
EPOCHS = 10
CHANGES = 5
"""Of a key."""
GROUP = 10
"""Keys in a group."""
ENGINES = {"upserts": ("pkray", "flink"), "appended": ("pkray", "flink")}
_TICKS = os.sysconf("SC_CLK_TCK")

Run = Callable[[int], None]
"""Computes so many rows."""


def tables(rows: int) -> Iterator[pa.Table]:
    """Make the rows, an epoch at a time."""
    random, keys = np.random.default_rng(7), rows // CHANGES
    for _ in range(EPOCHS):
        highest = (keys, keys // GROUP, 1000)
        columns = [pa.array(random.integers(0, most, rows // EPOCHS)) for most in highest]
        yield pa.table(columns, schema=SCHEMA)


def used() -> float:
    """Seconds of processor of this process and of all that it has begun and that live."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        stats[int(path.parent.name)] = int(found[1]), sum(map(int, found[11:15])) / _TICKS
    family, grown = {os.getpid()}, True
    while grown:
        children = {pid for pid, (parent, _) in stats.items() if parent in family} - family
        family, grown = family | children, bool(children)
    return sum(stats[pid][1] for pid in family if pid in stats)


def timed(run: Run, rows: int) -> float:
    before = used()
    run(rows)
    return used() - before


def measured(run: Run, source: Run, rows: int) -> float:
    """Run a third of the rows, then all; take off what the source alone takes."""
    for each in (source, run):
        each(rows // 3)
    return timed(run, rows) - timed(source, rows)


def by_pkray(workload: str, rows: int, folder: str) -> float:
    import pkray
    from pkray.relational import changelog

    def run(epochs: list[pa.Table], name: str) -> None:
        key = {"primary_key": ["id"], "mode": "upsert"} if workload == "upserts" else {}
        pushed = changelog(SCHEMA, name=name, **key)
        catalog.create_view(name, pushed, temporary=True)
        query = catalog.sql(SUMS.format(rows=name)).materialize(f"default.of_{name}")
        for each in epochs:
            pushed.push(each)
        query.wait({name: len(epochs)}, timeout=1800)
        query.stop(600)

    with pkray.connect(folder) as catalog:
        run(list(tables(rows // 3)), "few")
        epochs = list(tables(rows))
        return timed(lambda _: run(epochs, "all_rows"), rows)


def by_flink(workload: str, rows: int, folder: str) -> float:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "parallelism.default": "1",
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": "30 s",
        "execution.checkpointing.dir": f"file://{folder}",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "50000",
    }.items():
        flink.get_config().set(name, value)

    def into_nothing(select: str, columns: str, rows: int) -> None:
        keys = rows // CHANGES
        source = {"connector": "datagen", "number-of-rows": rows, "rows-per-second": 10**9}
        for name, most in (("id", keys), ("g", keys // GROUP), ("v", 1000)):
            source |= {f"fields.{name}.min": 0, f"fields.{name}.max": most - 1}
        said = ", ".join(f"'{name}' = '{value}'" for name, value in source.items())
        for name in ("made", "nothing"):
            flink.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        flink.execute_sql(
            "CREATE TEMPORARY TABLE made (id BIGINT, g BIGINT, v BIGINT, proc AS PROCTIME()) "
            f"WITH ({said})"
        )
        flink.execute_sql(
            f"CREATE TEMPORARY TABLE nothing ({columns}) WITH ('connector' = 'blackhole')"
        )
        flink.execute_sql(f"INSERT INTO nothing {select}").wait()

    select = SUMS.format(rows=NEWEST if workload == "upserts" else "made")
    return measured(
        lambda count: into_nothing(select, "g BIGINT, n BIGINT, total BIGINT", count),
        lambda count: into_nothing(
            "SELECT id, g, v FROM made", "i BIGINT, g BIGINT, v BIGINT", count
        ),
        rows,
    )


BY = {"pkray": by_pkray, "flink": by_flink}


def in_own_process(python: str, workload: str, engine: str, rows: int) -> float:
    words = [python, __file__, "--one", engine, "--only", workload, "--rows", str(rows)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    options = parsed(__doc__, rows=3_000_000, runs=1, only=",".join(ENGINES), flink_python="")
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(BY[options.one](options.only, options.rows, folder)), flush=True)
        return
    for workload in options.only.split(","):
        begun = time.perf_counter()
        found = {}
        for engine in ENGINES[workload]:
            python = options.flink_python if engine == "flink" else sys.executable
            if python:
                times = (
                    in_own_process(python, workload, engine, options.rows)
                    for _ in range(options.runs)
                )
                found[engine] = statistics.median(times)
        print(f"{workload}: {options.rows:,} rows, {time.perf_counter() - begun:.0f} s in all")
        for engine, seconds in found.items():
            speed, ratio = options.rows / seconds / 1e6, seconds / found["pkray"]
            print(f"  {engine:6} {speed:6.2f}M rows a processor second, {ratio:5.2f} times pkray's")


if __name__ == "__main__":
    main()
