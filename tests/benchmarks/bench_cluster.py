"""What owners and nodes add, and what the keeper and a coordinator can take.

    python tests/benchmarks/bench_cluster.py [--seconds 5] [--only owners,nodes,coordinator,keeper]

- ``owners``: rows and lookups a second of a table with 1, 2 and 4 owners, as ratios to one.
- ``nodes``: the same with 1 to 3 nodes of two workers each, on this machine.
- ``coordinator``: commits a second of one table, and calls a commit, by owners and writers.
- ``keeper``: renewals of leases a second, and milliseconds until a part has a place, by the workers
  and the parts that each has; no actor has part in it.

Nodes of one machine share its processors: more of them add nothing there, and cost little if the
ratio stays near one. .design/0015 says what follows for many nodes.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from harness import parsed

import pkray
from pkray.service.call_limits import DEFAULT_LIMITS
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.pool.assignments import Assignments
from pkray.service.pool.parts import Assignment, HostedTable, Part, WorkerProcess
from pkray.storage.location import TableLocation

ROWS, KEYS = 50_000, 1_000_000
"""Of a commit, and those that there are."""
ASKED = 1_000
"""Keys of a lookup."""
KINDS = ("owners", "nodes", "coordinator", "keeper")


def main() -> None:
    options = parsed(__doc__, seconds=5.0, only=",".join(KINDS))
    for kind in options.only.split(","):
        print(f"== {kind}", flush=True)
        globals()[f"bench_{kind}"](options.seconds)


def bench_owners(seconds: float) -> None:
    first = None
    with cluster([4]):
        for owners in (1, 2, 4):
            rates = throughput(owners, seconds)
            first = first or rates
            print(shown(f"{owners} owners", rates, first), flush=True)


def bench_nodes(seconds: float) -> None:
    first = None
    for nodes in (1, 2, 3):
        with cluster([2] * nodes):
            rates = throughput(2 * nodes, seconds)
        first = first or rates
        print(shown(f"{nodes} nodes", rates, first), flush=True)


def bench_coordinator(seconds: float) -> None:
    """In this process, where each call can be counted, and on Ray."""
    for owners in (1, 2, 4, 8, 16):
        print(f"{owners} owners: {calls_of_a_commit(owners)} calls a commit", flush=True)
    with cluster([4]):
        for owners in (1, 4, 16):
            for writers in (1, 4, 16):
                rate = commits(owners, writers, seconds)
                print(f"{owners} owners, {writers} writers: {rate:.1f} commits/s", flush=True)


def bench_keeper(seconds: float) -> None:
    for workers, parts in ((4, 10), (100, 10), (100, 100), (1000, 10), (1000, 100)):
        rate, millis = renewals(workers, parts, seconds)
        print(
            f"{workers} workers of {parts} parts: {rate:,.0f} renewals/s, {rate / workers:.2f} a "
            f"worker and second; a place in {millis:.1f} ms",
            flush=True,
        )


@contextmanager
def cluster(nodes: list[int]) -> Iterator[None]:
    """Run nodes of so many processors each on this machine."""
    import ray
    from ray.cluster_utils import Cluster

    head, *others = nodes
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": head, "include_dashboard": False}
    )
    try:
        for cpus in others:
            made.add_node(num_cpus=cpus)
        ray.init(address=made.address, namespace="pkray", log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def served(owners: int) -> Iterator[Any]:
    """Serve a table with so many owners, in as many workers as the cluster has processors."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"owners": owners}
        with pkray.connect(folder, runtime="ray", runtime_options=options) as catalog:
            columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
            yield catalog.create_table("bench.t", columns, ["k"], options={"bucket": str(owners)})
            catalog.service().stop()


def throughput(owners: int, seconds: float) -> dict[str, float]:
    random = np.random.default_rng(7)
    with served(owners) as table, table.open_writer("bench") as writer:

        def write() -> int:
            keys = random.integers(0, KEYS, ROWS)
            writer.upsert(pa.table({"k": keys, "v": keys}))
            writer.commit()
            return ROWS

        def look_up() -> int:
            table.lookup(pa.table({"k": random.integers(0, KEYS, ASKED)}))
            return ASKED

        return {"rows/s": often(write, seconds), "lookups/s": often(look_up, seconds)}


def commits(owners: int, writers: int, seconds: float) -> float:
    """Commit single rows from so many threads; give the commits a second."""
    with served(owners) as table:

        def write(number: int) -> float:
            with table.open_writer(f"bench-{number}") as writer:

                def once() -> int:
                    writer.upsert([{"k": number, "v": 1}])
                    writer.commit()
                    return 1

                return often(once, seconds)

        with ThreadPoolExecutor(writers) as pool:
            return sum(pool.map(write, range(writers)))


def calls_of_a_commit(owners: int) -> dict[str, int]:
    """Count the calls of one upsert of all owners' rows and its commit, by their methods."""
    counts: Counter[str] = Counter()
    begin = LocalHandle._pending

    def counted(self: LocalHandle, method: Any, *args: Any, **kwargs: Any) -> Any:
        counts[method.name] += 1
        return begin(self, method, *args, **kwargs)

    rows = pa.table({"k": range(100 * owners), "v": range(100 * owners)})
    with tempfile.TemporaryDirectory() as folder:
        with pkray.connect(folder, runtime_options={"owners": owners}) as catalog:
            columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
            table = catalog.create_table("bench.t", columns, ["k"], options={"bucket": str(owners)})
            with table.open_writer("bench") as writer:
                writer.upsert(rows)
                writer.commit()
                LocalHandle._pending = counted  # type: ignore[method-assign]
                try:
                    writer.upsert(rows)
                    writer.commit()
                finally:
                    LocalHandle._pending = begin  # type: ignore[method-assign]
    counts.pop("heartbeat", None)  # they come by the second
    return dict(counts)


def renewals(workers: int, parts: int, seconds: float) -> tuple[float, float]:
    """Renew the leases of workers that have so many parts each, as a keeper does.

    Returns:
        renewals a second, and the milliseconds of finding a place for one more part.
    """
    now = 0.0
    keeper = Assignments(workers, lambda: now, 0)
    processes = [WorkerProcess(str(number), f"node {number // 16}") for number in range(workers)]
    held: list[dict[Part, int]] = [{} for _ in processes]
    for number, process in enumerate(processes):
        keeper.renew(number, process, {})
    for name in range(workers * parts):
        table, number = hosted(f"t{name}"), name % workers
        held[number][table.part(0)] = name
        # As if they had been placed, which takes long.
        keeper._tables[table.key] = table
        keeper._given[table.part(0)] = Assignment(number, name)
    turn = iter(range(1 << 60))

    def renew() -> int:
        number = next(turn) % workers
        keeper.renew(number, processes[number], held[number])
        return 1

    def place() -> int:
        keeper.locate(hosted(f"more {next(turn)}"), 0)
        return 1

    most = min(seconds, 3.0)
    return often(renew, most), 1000 / often(place, most)


def hosted(name: str) -> HostedTable:
    return HostedTable(TableLocation(f"/w/d.db/{name}", f"d.{name}"), 1, 30_000, DEFAULT_LIMITS)


def often(work: Callable[[], int], seconds: float) -> float:
    """Do work for so long, after once; give what it counts, a second."""
    work()
    count, begun = 0, time.perf_counter()
    while (taken := time.perf_counter() - begun) < seconds:
        count += work()
    return count / taken


def shown(what: str, rates: dict[str, float], first: dict[str, float]) -> str:
    each = (f"{rate:,.0f} {name} ({rate / first[name]:.2f})" for name, rate in rates.items())
    return f"{what}: {', '.join(each)}"


if __name__ == "__main__":
    main()
