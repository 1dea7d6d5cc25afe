"""Loses the machines on which a query runs, one after another, and says what became of it.

    python tests/ray/lost_nodes.py killed|stopped TIMES FOLDER

The cluster of this process has a head that computes nothing, and at any time one node on which the
query's actors fit, and from which the raylet is taken. A stopped raylet wakes when the query has
gone on elsewhere. Its processes run on meanwhile, for Ray does not reach them: they have to end as
fenced, and leave no failure. Prints a line of JSON.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

import pkray
from tests.ray.test_query_kills import QUERY, Source, content, replayed

HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
    "kill_worker_timeout_milliseconds": 500,
}
"""A node is given up after some 5 seconds; by default after some 30."""
MOST_SECONDS = 180
"""In which the query has gone on elsewhere: it is found out that the node is lost, and actors load
their modules."""
OPTIONS = {"owners": 1, "call_timeout": 5, "lookup_timeout": 5}


def lose(cluster: Cluster, node: Any, sent: signal.Signals) -> int:
    """Kill or stop the raylet of a node; give its process."""
    (info,) = node.all_processes["raylet"]
    os.kill(info.process.pid, sent)
    return int(info.process.pid)


def failures(warehouse: str) -> list[str]:
    """List the files that say that a query has failed."""
    return [str(each) for each in Path(warehouse).rglob("failure.json")]


def check_lost(kind: str, times: int, folder: str) -> dict[str, Any]:
    """Lose the query's node so many times; give what is wrong, and the seconds that it took."""
    sent = signal.SIGKILL if kind == "killed" else signal.SIGSTOP
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "_system_config": HEALTH, "include_dashboard": False},
    )
    wrong: list[str] = []
    seconds: list[float] = []
    try:
        node = cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, namespace="pkray", log_to_driver=False)
        warehouse = f"{folder}/warehouse"
        with pkray.connect(warehouse, runtime="ray", runtime_options=OPTIONS) as catalog:
            source = Source(catalog, 15)
            for name, value in {"parallelism": "2", "cpus": "2"}.items():
                catalog.sql(f"SET 'query.{name}' = '{value}'")
            query = catalog.sql(QUERY).materialize(
                "default.r", options={"changelog-producer": "lookup", "bucket": "1"}
            )
            query.wait({"default.t": source.change()}, timeout=MOST_SECONDS)
            for number in range(times):
                before = query.status()["processes"]
                other = cluster.add_node(num_cpus=2)
                lost = lose(cluster, node, sent)
                begun = time.monotonic()
                query.wait({"default.t": source.change()}, timeout=MOST_SECONDS)
                seconds.append(round(time.monotonic() - begun, 1))
                if set(before) & set(query.status()["processes"]):
                    wrong.append(f"{number}: it was not on the node that was lost")
                if sent == signal.SIGSTOP:
                    os.kill(lost, signal.SIGCONT)
                    query.wait({"default.t": source.change()}, timeout=MOST_SECONDS)
                with contextlib.suppress(Exception):
                    cluster.remove_node(node, allow_graceful=False)
                node = other
                if content(catalog) != source.answer():
                    wrong.append(f"{number}: the result")
                if replayed(catalog) != source.answer():
                    wrong.append(f"{number}: the changelog")
                wrong += [f"{number}: {each}" for each in failures(warehouse)]
                if not query.verify().equal:
                    wrong.append(f"{number}: verify")
            query.drop()
    finally:
        ray.shutdown()
        cluster.shutdown()
    return {"wrong": wrong, "times": times, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(check_lost(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
