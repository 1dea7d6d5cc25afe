"""Spark to a committed table, against the same job pushing to actors that drop the rows.

python tests/benchmarks/bench_spark.py [--rows 5000000] [--runs 3]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

from harness import measure, parsed, peak_bytes, reset_peak, resident_bytes

import pkray
from pkray.service.client.pusher import Pusher
from pkray.service.protocol import Push, PushReport, RoutedBatch, SessionId, first_push


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
    options = parsed(__doc__, rows=5_000_000, runs=3)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder, runtime="ray") as catalog:
        run(catalog, options.rows, options.runs)
        pkray.spark.stop()


def run(catalog: pkray.Catalog, rows: int, runs: int) -> None:
    import ray

    from pkray.spark.batch import push_task
    from pkray.spark.failure import ErrorChannel

    spark = pkray.spark.session("bench", ray=True, executors=1, cores=2, memory="2g")
    df = spark.range(rows).selectExpr(
        "id AS k",
        "id * 7919 AS a",
        "id / 3 AS b",
        "lpad(hex(id), 16, '0') AS s",
        "timestamp_micros(1700000000000000 + id) AS ts",
    )
    names = [("k", "BIGINT"), ("a", "BIGINT"), ("b", "DOUBLE"), ("s", "STRING")]
    columns = [*names, ("ts", "TIMESTAMP_LTZ(6)")]

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
        table = catalog.create_table(f"bench.t{number}", columns, ["k"], options={"bucket": "2"})
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
