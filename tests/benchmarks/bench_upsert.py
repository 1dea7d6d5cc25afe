"""Upserts into one embedded bucket, against the least work there could be and other engines.

    python tests/benchmarks/bench_upsert.py [--rows 10000000] [--runs 3] [--against floor,...]

Each engine runs in a process of its own, in turn; ratios are of rows per processor second.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import SCHEMA, batches, in_turn, measure, report, warm_up

from pkray.java import require_java

Engine = Callable[[list[pa.Table], str], object]


def pkray(tables: list[pa.Table], folder: str) -> object:
    import pkray

    with pkray.connect(folder) as catalog:
        settings = {"bucket": "1", **OPTIONS}
        table = catalog.create_table("bench.t", SCHEMA, primary_keys=["k"], options=settings)
        with table.open_writer("bench") as writer:
            for number, rows in enumerate(tables):
                writer.upsert(rows)
                writer.commit(commit_identifier=number)
        table.compact(full=False)  # what runs beside the commits is part of the work
    return None


def floor(tables: list[pa.Table], folder: str) -> object:
    """One sort, one deduplication, one Parquet write of the final rows with system columns.

    With the table's codec.
    """
    rows = pa.concat_tables(tables).combine_chunks()
    keys = rows.column("k").to_numpy()
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = order[np.append(ordered[1:] != ordered[:-1], True)]
    final = rows.take(pa.array(last))
    columns = {
        "_KEY_k": final.column("k"),
        "_SEQUENCE_NUMBER": pa.array(last),
        "_VALUE_KIND": pa.array(np.zeros(len(last), np.int8)),
    }
    columns |= {name: final.column(name) for name in SCHEMA.names}
    codec = OPTIONS.get("file.compression", "zstd")
    pq.write_table(
        pa.table(columns),
        f"{folder}/final.parquet",
        compression=codec,
        compression_level=1 if codec == "zstd" else None,
        use_dictionary=["_VALUE_KIND"],  # faster than dictionaries of columns without repeats
    )
    return len(last)


def paimon_rust(tables: list[pa.Table], folder: str) -> object:
    from pypaimon_rust.datafusion import SQLContext

    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": folder})
    context.sql("CREATE SCHEMA paimon.bench")
    context.sql(
        "CREATE TABLE paimon.bench.t (k BIGINT NOT NULL, a BIGINT, b DOUBLE, s STRING, "
        "ts TIMESTAMP(6), PRIMARY KEY (k)) WITH ('bucket' = '1')"
    )
    for number, rows in enumerate(tables):
        (batch,) = rows.combine_chunks().to_batches()
        context.register_batch(f"incoming{number}", batch)
        context.sql(f"INSERT INTO paimon.bench.t SELECT * FROM incoming{number}")
    return None


def paimon_java() -> Engine:
    """Compile what writes rows to Paimon's Java core; its process starts while it is measured."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.interop_java import java_core

    java, jars = require_java() / "bin" / "java", java_core.with_hadoop(java_core.find_jar())
    classes = tempfile.mkdtemp()
    java_core.compile_java(java, jars, Path(__file__).with_name("Upserts.java"), Path(classes))

    def write(tables: list[pa.Table], folder: str) -> object:
        import pkray

        with pkray.connect(folder) as catalog:
            table = catalog.create_table(
                "bench.t", SCHEMA, primary_keys=["k"], options=JAVA_OPTIONS
            )
        for number, rows in enumerate(tables):
            for name in SCHEMA.names:
                data = rows.column(name).combine_chunks().buffers()[-1]
                Path(folder, f"{name}{number}").write_bytes(data)
        path = os.pathsep.join(map(str, [classes, *jars]))
        command = [str(java), "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Xmx4g", "-cp", path]
        arguments = ["Upserts", table.location.url, folder, str(len(tables))]
        subprocess.run([*command, *arguments], check=True, capture_output=True)
        shutil.rmtree(classes)
        with pkray.connect(folder) as catalog:
            assert catalog.load_table("bench.t").latest_snapshot().commit_identifier
        return None

    return write


def delta(tables: list[pa.Table], folder: str) -> object:
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(f"{folder}/t", SCHEMA.empty_table())
    for rows in tables:
        keys = rows.column("k").to_numpy()
        order = np.argsort(keys, kind="stable")
        last = order[np.append(keys[order][1:] != keys[order][:-1], True)]
        merge = DeltaTable(f"{folder}/t").merge(
            rows.take(pa.array(last)), "target.k = source.k", "source", "target"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return None


def duck(tables: list[pa.Table], folder: str) -> object:
    import duckdb

    connection = duckdb.connect(f"{folder}/t.duckdb")
    connection.execute(
        "CREATE TABLE t (k BIGINT PRIMARY KEY, a BIGINT, b DOUBLE, s VARCHAR, ts TIMESTAMP)"
    )
    for rows in tables:
        connection.register("incoming", rows)
        connection.execute(
            "INSERT INTO t SELECT k, last(a), last(b), last(s), last(ts) FROM incoming GROUP BY k "
            "ON CONFLICT (k) DO UPDATE SET a=excluded.a, b=excluded.b, s=excluded.s, ts=excluded.ts"
        )
        connection.unregister("incoming")
    connection.close()
    return None


JAVA_OPTIONS = {
    "bucket": "1",
    "file.format": "parquet",
    "file.compression": "zstd",
    "file.compression.zstd-level": "1",
}
OPTIONS: dict[str, str] = {}
"""Table options of pkray's, from the command line."""

ENGINES: dict[str, Engine] = {
    "pkray": pkray,
    "floor": floor,
    "paimon-rust": paimon_rust,
    "delta": delta,
    "duckdb": duck,
}
MODULES = {"paimon-rust": "pypaimon_rust.datafusion", "delta": "deltalake", "duckdb": "duckdb"}
GOALS = {"floor": 0.40, "paimon-rust": 1.5, "paimon-java": 1.5, "delta": 10.0, "duckdb": 10.0}


def run_one(engine: str, rows: int, batch_rows: int) -> None:
    tables = list(batches(rows, rows // 2, batch_rows))
    pc.sum(tables[0].column("a"))
    warm_up(*(MODULES[name] for name in (engine,) if name in MODULES))
    work = paimon_java() if engine == "paimon-java" else ENGINES[engine]
    with tempfile.TemporaryDirectory() as folder:
        report(measure(lambda: work(tables, folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", default=",".join(GOALS))
    parser.add_argument("--option", action="append", default=[], help="KEY=VALUE, of pkray's table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    batch_rows = options.rows // 10
    OPTIONS.update(option.split("=", 1) for option in options.option)
    if options.one:
        run_one(options.one, options.rows, batch_rows)
        return
    names = ["pkray", *options.against.split(",")]
    found = in_turn(__file__, names, options.runs)
    print(f"{options.rows:,} upserts over {options.rows // 2:,} keys, {batch_rows:,} a commit")
    for name in names:
        cpu = statistics.median(m.cpu_seconds for m in found[name])
        wall = statistics.median(m.wall_seconds for m in found[name])
        peak = max(m.peak_bytes for m in found[name]) / 1e6
        speed = options.rows / cpu / 1e6
        line = (
            f"{name:12} {speed:6.2f}M rows/cpu-s  {cpu:7.2f} cpu-s  {wall:7.2f} s  +{peak:6.0f} MB"
        )
        if name != "pkray":
            pairs = zip(found["pkray"], found[name], strict=True)
            ratio = statistics.median(m.cpu_seconds / p.cpu_seconds for p, m in pairs)
            line += f"  pkray is {ratio:5.2f} times as fast (goal {GOALS[name]})"
        print(line)


if __name__ == "__main__":
    main()
