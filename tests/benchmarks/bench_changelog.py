"""Uniform updates with the lookup changelog, against none and against RocksDB row by row.

    python tests/benchmarks/bench_changelog.py [--keys 5000000] [--batch 1000000] [--runs 3]

The table holds every key before the clock starts; then each commit has a batch of updates. Each
way runs in a process of its own, in turn; ratios are of rows per processor second. The row-by-row
way keeps one RocksDB entry a row: for each batch it asks for the old rows by key, puts the new
ones and writes both to a Parquet changelog.
"""

import statistics
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import SCHEMA, Measured, batches, in_turn, measure, parsed, report, warm_up

WAYS = ("lookup", "none", "row by row")
GOALS = {"none": 0.5, "row by row": 3.0}


def every_key(keys: int) -> pa.Table:
    rows = next(batches(keys, keys, keys, seed=1))
    return rows.set_column(0, SCHEMA.field(0), pa.array(np.arange(keys)))


def through_pkray(producer: str, first: pa.Table, tables: list[pa.Table], folder: str) -> Measured:
    import pkray

    with pkray.connect(folder) as catalog:
        settings = {"bucket": "1", "changelog-producer": producer}
        table = catalog.create_table("bench.t", SCHEMA, primary_keys=["k"], options=settings)
        with table.open_writer("bench") as writer:
            writer.upsert(first)
            writer.commit(commit_identifier=0)

            def work() -> None:
                for number, rows in enumerate(tables, 1):
                    writer.upsert(rows)
                    writer.commit(commit_identifier=number)
                table.compact(full=False)  # what was left to the background counts as well

            measured = measure(work)
            if producer == "lookup":
                newest = table.latest_snapshot()
                assert newest.changelog_record_count > len(tables[-1]) or newest.id
            return measured


def row_by_row(first: pa.Table, tables: list[pa.Table], folder: str) -> Measured:
    import pickle

    from rocksdict import Options, Rdict, WriteBatch

    database = Rdict(f"{folder}/rows", Options(raw_mode=True))

    def put(table: pa.Table) -> None:
        batch = WriteBatch(raw_mode=True)
        columns = [column.to_pylist() for column in table.columns]
        for row in zip(*columns, strict=True):
            batch[row[0].to_bytes(8, "big")] = pickle.dumps(row, protocol=5)
        database.write(batch)

    for start in range(0, len(first), 100_000):
        put(first.slice(start, 100_000))
    database.flush()

    def work() -> None:
        with pq.ParquetWriter(f"{folder}/changelog.parquet", SCHEMA) as changelog:
            for rows in tables:
                keys = sorted(set(rows.column("k").to_pylist()))
                found = database.get([key.to_bytes(8, "big") for key in keys])
                old = [pickle.loads(value) for value in found if value is not None]
                columns = [
                    pa.array(values, field.type)
                    for values, field in zip(zip(*old, strict=True), SCHEMA, strict=True)
                ]
                put(rows)
                changelog.write_table(pa.table(columns, schema=SCHEMA))
                changelog.write_table(rows)

    measured = measure(work)
    database.close()
    return measured


def run_one(way: str, keys: int, rows: int, commits: int) -> None:
    first = every_key(keys)
    tables = list(batches(rows * commits, keys, rows))
    if way == "row by row":  # it takes a minute for what the others do in a second
        tables = [table.slice(0, rows // 10) for table in tables]
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        if way == "row by row":
            report(row_by_row(first, tables, folder))
        else:
            report(through_pkray(way, first, tables, folder))


def main() -> None:
    options = parsed(__doc__, keys=5_000_000, commits=5, batch=1_000_000, runs=3)
    if options.one:
        run_one(options.one, options.keys, options.batch, options.commits)
        return
    found = in_turn(__file__, WAYS, options.runs)
    rows = options.batch * options.commits
    print(f"{rows:,} updates of {options.keys:,} keys in {options.commits} commits")
    for way in WAYS:
        done = rows // 10 if way == "row by row" else rows
        cpu = statistics.median(m.cpu_seconds for m in found[way])
        line = f"{way:12} {done / cpu / 1e6:6.3f}M rows/cpu-s  {cpu:6.2f} cpu-s"
        if way in GOALS:
            pairs = zip(found["lookup"], found[way], strict=True)
            ratio = statistics.median(
                m.cpu_seconds / done / (own.cpu_seconds / rows) for own, m in pairs
            )
            line += f"  lookup is {ratio:5.2f} times as fast (goal {GOALS[way]})"
        print(line)


if __name__ == "__main__":
    main()
