"""Spark and tables, each against what Spark does without them, side by side.

``ingest`` against the same job pushing to actors that drop the rows; ``read``: SQL over a table
against the same SQL over its compacted Parquet, with nothing to merge and with everything;
``write``: the format against Spark's Parquet; ``memory``: the most that the driver and a Python
worker hold of a write, a read and a stream of as many rows.

python tests/benchmarks/bench_spark.py [--rows 5000000] [--runs 3] [--only ingest|read|write|memory]
"""

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import (
    SCHEMA,
    batches,
    in_own_process,
    measure,
    parsed,
    peak_bytes,
    report,
    reset_peak,
    resident_bytes,
)

import pkray
from pkray.scan.raw_files import divided
from pkray.service.client.pusher import Pusher
from pkray.service.protocol import Push, PushReport, RoutedBatch, SessionId, first_push

COLUMNS = (
    "id AS k",
    "id * 7919 AS a",
    "id / 3 AS b",
    "lpad(hex(id), 16, '0') AS s",
    "timestamp_micros(1700000000000000 + id) AS ts",
)
NAMES = [
    ("k", "BIGINT"),
    ("a", "BIGINT"),
    ("b", "DOUBLE"),
    ("s", "STRING"),
    ("ts", "TIMESTAMP_LTZ(6)"),
]


class DropTarget:
    """Routes and pushes as to a table, to actors that let everything go."""

    def __init__(self, address: str, schema: pkray.TableSchema, owners: int) -> None:
        self._address = address
        self._schema = schema
        self._owners = owners

    def open(self, source: int, attempt: int) -> Pusher:
        import ray

        from pkray.service.call_limits import DEFAULT_LIMITS
        from pkray.service.calls import OwnerClient
        from pkray.service.ray.handle import RayHandle

        if not ray.is_initialized():
            ray.init(address=self._address, namespace="pkray", log_to_driver=False)
        actors = [ray.get_actor(f"drop-{index}", "pkray") for index in range(self._owners)]
        owners = [OwnerClient(RayHandle(actor, "drop", DEFAULT_LIMITS)) for actor in actors]

        def send(owner: int, push: Push, batch: RoutedBatch) -> Any:
            return owners[owner].push.submit(push, batch)

        first = first_push(self._schema, SessionId("drop", 0), source, attempt)
        return Pusher(self._schema, self._owners, send, first)


def main() -> None:
    options = parsed(__doc__, rows=5_000_000, runs=3, only="", folder="")
    if options.one:
        run_in_session(options.one, options.folder, options.rows)
        return
    if options.only in ("", "memory"):
        run_memory(options.rows)
    if options.only in ("", "read", "write"):
        with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
            spark = pkray.spark.session("bench", memory="2g")
            if options.only != "write":
                run_reads(catalog, spark, options.rows, options.runs)
            if options.only != "read":
                run_writes(catalog, spark, options.rows, options.runs)
            pkray.spark.stop()
    if options.only in ("", "ingest"):
        with (
            tempfile.TemporaryDirectory() as folder,
            pkray.connect(folder, runtime="ray") as catalog,
        ):
            run(catalog, options.rows, options.runs)
            pkray.spark.stop()


def run_reads(catalog: pkray.Catalog, spark: Any, rows: int, runs: int) -> None:
    """Aggregate every column of a table: compacted, then with a tenth of its keys written anew."""
    table = filled(catalog, rows)
    table.compact(full=True)
    sums = "count(*), sum(a), sum(b), max(s), max(ts), max(k)"
    raw, _ = divided(table.at().plan(None, None), table.location.open())
    names = [table.location.open().local_path(path) for path in raw]
    spark.read.parquet(*names).createOrReplaceTempView("plain")

    def plain() -> Any:
        return spark.sql(f"SELECT {sums} FROM plain").collect()

    def ours() -> Any:
        return pkray.spark.sql(spark, catalog, f"SELECT {sums} FROM bench.read").collect()

    assert plain() == ours()
    reported("nothing to merge", rows, runs, plain, ours, 0.9)
    table.upsert(next(batches(rows // 10, rows, rows // 10, seed=11)))
    assert ours()
    reported("a tenth of the keys written anew", rows, runs, plain, ours, 0.6)


def reported(
    what: str, rows: int, runs: int, plain: Callable[[], Any], ours: Callable[[], Any], goal: float
) -> None:
    pairs = [(seconds(plain), seconds(ours)) for _ in range(runs)]
    speed = statistics.median(one / other for one, other in pairs)
    walls = [statistics.median(each) for each in zip(*pairs, strict=True)]
    print(
        f"{rows:,} rows, {what}: {speed:.2f} of Spark on the compacted Parquet (goal {goal}); "
        f"medians {walls[0]:.2f} and {walls[1]:.2f} s; the largest Python worker "
        f"{largest_worker() / 1e6:.0f} MB"
    )


def run_writes(catalog: pkray.Catalog, spark: Any, rows: int, runs: int) -> None:
    """Write by the format, and as Parquet."""
    df = spark.range(rows).selectExpr(*COLUMNS)
    pairs, growth = [], []
    for number in range(runs + 1):
        name = f"bench.w{number}"
        table = catalog.create_table(name, NAMES, ["k"], options={"bucket": "2"})
        folder = f"{catalog.warehouse}/plain{number}"
        parquet = seconds(lambda folder=folder: df.write.parquet(folder))
        reset_peak()
        before = resident_bytes()
        to = {"path": str(catalog.warehouse), "table": name}
        pkray.spark.register(spark)
        writer = df.write.format("pkray").options(**to).mode("append")
        wall = seconds(lambda writer=writer: writer.save())
        assert table.at().snapshot.total_record_count == rows
        catalog.drop_table(name)
        shutil.rmtree(folder)
        if number:  # the first pair warms up
            pairs.append((parquet, wall))
            growth.append(peak_bytes() - before)
    walls = [statistics.median(each) for each in zip(*pairs, strict=True)]
    times = statistics.median(wall / parquet for parquet, wall in pairs)
    print(
        f"{rows:,} rows by the format: median {walls[1]:.1f} s, {times:.2f} times Spark's Parquet; "
        f"the driver grew by {max(growth) / 1e6:.0f} MB, the largest Python worker "
        f"{largest_worker() / 1e6:.0f} MB"
    )


def run_memory(rows: int) -> None:
    """Write, read and stream rows, each in a process of its own with a Spark of its own."""
    with tempfile.TemporaryDirectory() as folder:
        with pkray.connect(folder) as catalog:
            filled(catalog, rows)
        for name in ACTIONS:
            given = ["--rows", str(rows), "--folder", folder, "--one", name]
            found = in_own_process(__file__, *given)
            print(
                f"{rows:,} rows, {name}: the driver grew by {found.peak_bytes / 1e6:.0f} MB, the "
                f"largest Python worker held {found.result / 1e6:.0f} MB"
            )


def filled(catalog: pkray.Catalog, rows: int) -> pkray.Table:
    """Make a table that was never compacted, a commit a million rows."""
    uncompacted = {"bucket": "2", "num-sorted-run.compaction-trigger": "100"}
    table = catalog.create_table("bench.read", SCHEMA, ["k"], options=uncompacted)
    for batch in batches(rows, rows, 1_000_000):
        table.upsert(batch)
    return table


def write(catalog: pkray.Catalog, spark: Any, rows: int) -> None:
    catalog.create_table("bench.write", NAMES, ["k"], options={"bucket": "2"})
    pkray.spark.register(spark)
    writer = spark.range(rows).selectExpr(*COLUMNS).write.format("pkray").mode("append")
    writer.options(path=str(catalog.warehouse), table="bench.write").save()


def read(catalog: pkray.Catalog, spark: Any, rows: int) -> None:
    frame = pkray.spark.read(spark, catalog.load_table("bench.read"))
    frame.write.format("noop").mode("overwrite").save()


def stream(catalog: pkray.Catalog, spark: Any, rows: int) -> None:
    frame = pkray.spark.read_stream(spark, catalog.load_table("bench.read"))
    frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


ACTIONS = {"a write by the format": write, "a read": read, "a stream of the content": stream}


def run_in_session(name: str, folder: str, rows: int) -> None:
    """Run an action in a session that has run a job before; report what it took of memory."""
    with pkray.connect(folder) as catalog:
        spark = pkray.spark.session("bench", memory="2g")
        spark.range(1).collect()
        largest, done = [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.2):  # a worker may end before the action does
                largest[0] = max(largest[0], largest_worker())

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            measured = measure(lambda: ACTIONS[name](catalog, spark, rows))
        finally:
            done.set()
            watching.join()
        report(replace(measured, result=largest[0]))
        pkray.spark.stop()


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def largest_worker() -> int:
    """The most bytes that a Python worker of this process's Spark has held."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            if b"pyspark.daemon" not in status.with_name("cmdline").read_bytes():
                continue
            held = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
            most = max(most, int(held.split()[1]) * 1024)
    return most


def run(catalog: pkray.Catalog, rows: int, runs: int) -> None:
    import ray

    from pkray.spark.batch import push_task
    from pkray.spark.failure import ErrorChannel

    spark = pkray.spark.session("bench", ray=True, executors=1, cores=2, memory="2g")
    df = spark.range(rows).selectExpr(*COLUMNS)

    class Drop:
        def push(self, push: Push, batch: RoutedBatch) -> None:
            pass

    remote = ray.remote(num_cpus=0)(Drop)
    actors = [remote.options(name=f"drop-{index}").remote() for index in range(2)]

    def drop(schema: pkray.TableSchema) -> int:
        address = ray.get_runtime_context().gcs_address
        task = push_task(DropTarget(address, schema, 2), None, "error", ErrorChannel())
        job = df.mapInArrow(task, "report binary")
        return sum(PushReport.from_bytes(bytes(row[0])).rows for row in job.collect())

    ratios, walls, growth = [], [], []
    for number in range(runs + 1):
        table = catalog.create_table(f"bench.t{number}", NAMES, ["k"], options={"bucket": "2"})
        table.service_stats()
        dropped = measure(lambda table=table: drop(table.schema))
        assert dropped.result == rows
        reset_peak()
        before = resident_bytes()
        start = time.perf_counter()
        snapshot = pkray.spark.ingest(df, table)
        wall = time.perf_counter() - start
        assert snapshot.total_record_count == rows
        catalog.drop_table(table.name)
        if number:  # the first pair warms up
            ratios.append(wall / dropped.wall_seconds)
            walls.append(wall)
            growth.append(peak_bytes() - before)
    print(
        f"{rows:,} rows from Spark to a committed table: median {statistics.median(walls):.1f} s, "
        f"{statistics.median(ratios):.2f} times as long as dropping them (goal 1.6); "
        f"the driver grew by {max(growth) / 1e6:.0f} MB (goal 200)"
    )
    del actors


if __name__ == "__main__":
    main()
