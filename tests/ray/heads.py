"""Loses the head of a Ray cluster, or everything, under tables and a query.

    python -m tests.ray.heads redis TIMES FOLDER     the head's state is in a Redis: it comes back
    python -m tests.ray.heads live KIND WAREHOUSE    begin what is to be lost, on KIND: ray or local
    python -m tests.ray.heads after WAREHOUSE        see that what was lost goes on

Prints lines of JSON.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pkray

OPTIONS = {"owners": 1, "pool_workers": 2, "call_timeout": 5, "lookup_timeout": 5}
MOST_SECONDS = 120
"""In which all goes on."""
COLUMNS = [("k", "INT"), ("v", "BIGINT")]
QUERY = "SELECT v % 3 AS side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY v % 3"


def written(catalog: pkray.Catalog, first: int, count: int = 100) -> int:
    """Commit rows; give the snapshot."""
    with catalog.load_table("default.t").open_writer() as writer:
        writer.upsert([{"k": key, "v": key} for key in range(first, first + count)])
        snapshot = writer.commit()
    assert snapshot is not None
    return int(snapshot.id)


def begun(catalog: pkray.Catalog) -> None:
    """Make the table and the query of its rows."""
    options = {"changelog-producer": "lookup", "bucket": "2"}
    catalog.create_table("default.t", COLUMNS, ["k"], options=options)
    query = catalog.sql(QUERY).materialize("default.r", options={"bucket": "1"})
    query.wait({"default.t": written(catalog, 0)}, timeout=MOST_SECONDS)


def differences(catalog: pkray.Catalog, keys: int) -> list[str]:
    """List what is wrong where the table has keys from 0 on."""
    expected: Counter[tuple[int, int, int]] = Counter(
        (side, len(values), sum(values))
        for side, values in ((side, range(side, keys, 3)) for side in range(3))
    )
    found = catalog.load_table("default.r").to_arrow(["side", "n", "total"]).to_pylist()
    wrong = []
    if Counter(tuple(row.values()) for row in found) != expected:
        wrong.append(f"the result: {found}")
    asked = [{"k": 0}, {"k": keys - 1}, {"k": keys}]
    rows = catalog.load_table("default.t").lookup(asked).to_pylist()
    if rows != [{"k": 0, "v": 0}, {"k": keys - 1, "v": keys - 1}]:
        wrong.append(f"a lookup: {rows}")
    if not catalog.query("default.r").verify().equal:
        wrong.append("verify")
    return wrong


@contextmanager
def redis() -> Iterator[str]:
    """Run a Redis on this machine that keeps all in memory; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    process = subprocess.Popen([*command, "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def pids_of(catalog: pkray.Catalog) -> set[int]:
    """List the processes of the pool."""
    placed = catalog.service().status().placed
    return {each.pid for each in placed if each.kind in ("keeper", "worker") and each.pid}


def check_healed(times: int, warehouse: str) -> dict[str, Any]:
    """Lose the process that has the cluster's state, and start it anew, in the middle of commits;
    give what is wrong, and the seconds until all went on."""
    import ray
    from ray.cluster_utils import Cluster

    wrong: list[str] = []
    seconds: list[float] = []
    with redis() as address:
        os.environ["RAY_REDIS_ADDRESS"] = address
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False}
        )
        try:
            ray.init(address=cluster.address, namespace="pkray", log_to_driver=False)
            with pkray.connect(warehouse, runtime="ray", runtime_options=OPTIONS) as catalog:
                begun(catalog)
                before, keys = pids_of(catalog), 100
                for number in range(times):
                    committing = threading.Thread(target=written, args=(catalog, keys))
                    committing.start()
                    cluster.head_node.kill_gcs_server()
                    lost = time.monotonic()
                    cluster.head_node.start_gcs_server()
                    committing.join(MOST_SECONDS)
                    keys += 200
                    last = written(catalog, keys - 100)
                    catalog.query("default.r").wait({"default.t": last}, timeout=MOST_SECONDS)
                    seconds.append(round(time.monotonic() - lost, 1))
                    wrong += [f"{number}: {each}" for each in differences(catalog, keys)]
                if pids_of(catalog) != before:
                    wrong.append(f"other processes: {pids_of(catalog)}, not {before}")
        finally:
            ray.shutdown()
            cluster.shutdown()
    return {"wrong": wrong, "times": times, "seconds": seconds}


def live(kind: str, warehouse: str) -> None:
    """Begin a table and a query, and rows that nobody commits, until this process is killed."""
    options: dict[str, Any] = OPTIONS if kind == "ray" else {"owners": 1}
    with pkray.connect(warehouse, runtime=kind, runtime_options=options) as catalog:
        begun(catalog)
        with catalog.load_table("default.t").open_writer() as writer:
            writer.upsert([{"k": 50, "v": -1}])
            print(json.dumps({"ready": True}), flush=True)
            sys.stdin.read()


def check_after(warehouse: str) -> dict[str, Any]:
    """Say what is wrong once everything runs again."""
    with pkray.connect(warehouse, runtime="ray", runtime_options=OPTIONS) as catalog:
        wrong = differences(catalog, 100)
        last = written(catalog, 100)
        catalog.query("default.r").wait({"default.t": last}, timeout=MOST_SECONDS)
        wrong += differences(catalog, 200)
    return {"wrong": wrong}


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "redis":
        print(json.dumps(check_healed(int(given[0]), f"{given[1]}/warehouse")))
    elif what == "live":
        live(*given)
    else:
        print(json.dumps(check_after(*given)))
