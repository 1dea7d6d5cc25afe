"""Processes that commit to one table of an object store at a time: seconds that each commit takes.

The store is moto's server; every request is delayed. ``--apart``: as from machines of their own,
which do not wait for each other's turn. ``--compact``: they compact, too.

python tests/benchmarks/bench_writers.py [--writers 2] [--commits 50] [--delay 30] [--apart]
    [--compact]
"""

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa

import pkray
from tests.benchmarks.harness import parsed
from tests.counted_requests import RequestCounter

WAREHOUSE = "s3://writers/w"
ROWS = 1000
TIMEOUT = 1200
"""Seconds in which all writers have ended."""


@dataclass(frozen=True)
class Taken:
    """Seconds that commits took, in order."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        return self.seconds[max(0, -(-len(self.seconds) * 99 // 100) - 1)]

    @property
    def longest(self) -> float:
        return self.seconds[-1]


def measure(
    warehouse: str,
    options: dict[str, str],
    writers: int,
    commits: int,
    delay: float,
    *,
    apart: bool = False,
    compact: bool = False,
) -> Taken:
    """Have so many processes commit at a time.

    Args:
        warehouse: has no table yet.
        options: what opens the store.
        delay: seconds of each request.
        apart: let none wait for another's turn, as on machines of their own.
        compact: let each of them compact, too: they wait where too many files pile up.
    """
    with pkray.connect(warehouse, **options) as catalog:
        how = {"write-only": str(not compact).lower()}
        catalog.create_table("db.t", [("k", "BIGINT"), ("v", "BIGINT")], ["k"], options=how)
    start = time.time() + 3
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(writers, context) as pool:
        runs = [
            pool.submit(_commit, warehouse, options, number, commits, delay, start, apart)
            for number in range(writers)
        ]
        seconds = [each for run in runs for each in run.result(timeout=TIMEOUT)]
    with pkray.connect(warehouse, **options) as catalog:
        table = catalog.load_table("db.t")
        assert table.to_arrow().num_rows == writers * commits * ROWS
    return Taken(tuple(sorted(seconds)))


def _commit(
    warehouse: str,
    options: dict[str, str],
    number: int,
    commits: int,
    delay: float,
    start: float,
    apart: bool,
) -> list[float]:
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        if apart:
            os.environ["TMPDIR"] = tempfile.tempdir = folder
        with (
            RequestCounter(delay).installed(),
            pkray.connect(warehouse, runtime_options={"owners": 1}, **options) as catalog,
            catalog.load_table("db.t").open_writer(f"writer-{number}") as writer,
        ):
            time.sleep(max(0.0, start - time.time()))
            for turn in range(commits):
                first = (number * commits + turn) * ROWS
                keys = list(range(first, first + ROWS))
                began = time.perf_counter()
                writer.upsert(pa.table({"k": keys, "v": keys}))
                writer.commit(turn)
                taken.append(time.perf_counter() - began)
    return taken


def main() -> None:
    given = parsed(__doc__, writers=2, commits=50, delay=30.0, apart=False, compact=False)
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        keys = {"access_key_id": "test", "secret_access_key": "test"}
        options = {"endpoint": url, "region": "us-east-1", **keys, "allow_http": "true"}
        named = {f"aws_{key}": value for key, value in keys.items()}
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **named)
        s3.create_bucket(Bucket="writers")
        counts = given.writers, given.commits, given.delay / 1000
        taken = measure(WAREHOUSE, options, *counts, apart=given.apart, compact=given.compact)
    finally:
        server.stop()
    print(f"{len(taken.seconds)} commits of {given.writers} writers, {given.delay:g} ms a request")
    print(f"median {taken.median:.2f} s, p99 {taken.p99:.2f} s, longest {taken.longest:.2f} s")


if __name__ == "__main__":
    main()
