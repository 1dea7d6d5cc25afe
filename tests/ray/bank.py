"""A bank: money moves between accounts, and its total is the same at every snapshot.

    python -m tests.ray.bank nodes SECONDS FOLDER    nodes come and go
    python -m tests.ray.bank soak MINUTES FOLDER     a process is killed each minute

Four writers have accounts of their own each, and move money between them, a commit at a time. A
continuous query adds all up. Prints a line of JSON.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc

import pkray
from pkray.errors import PkrayError
from tests.ray.lost_nodes import HEALTH

WRITERS, ACCOUNTS, AMOUNT = 4, 25, 1000
"""Accounts a writer, and what is in each at first."""
TOTAL = WRITERS * ACCOUNTS * AMOUNT
MOST_SECONDS = 120
"""In which a writer has gone on, whatever was lost."""
OPTIONS = {"owners": 2, "pool_workers": 3, "call_timeout": 5, "lookup_timeout": 5}
QUERY = "SELECT k % 1 AS side, SUM(balance) AS total, COUNT(*) AS n FROM accounts GROUP BY k % 1"


class Writer(threading.Thread):
    """Moves money between accounts of its own, until it is told to stop.

    Attributes:
        commits: those that it made.
        failures: what it met that is no reason to try again.
        waited: the longest that a commit took, in seconds.
    """

    def __init__(self, table: Any, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"bank-{number}", daemon=True)
        self._table = table
        self._number = number
        self._stop_told = stop
        self._random = random.Random(number)
        first = number * ACCOUNTS
        self._balances = dict.fromkeys(range(first, first + ACCOUNTS), AMOUNT)
        self.commits = 0
        self.waited = 0.0
        self.failures: list[str] = []

    def run(self) -> None:
        try:
            while not self._stop_told.is_set():
                begun = time.monotonic()
                self._commit(self._transfers())
                self.waited = max(self.waited, time.monotonic() - begun)
                self.commits += 1
        except Exception as error:
            self.failures.append(f"writer {self._number}: {error!r}")

    def _transfers(self) -> Mapping[int, int]:
        """Move money between some accounts; give those that changed."""
        changed = {}
        for _ in range(3):
            payer, payee = self._random.sample([*self._balances], 2)
            amount = self._random.randrange(100)
            self._balances[payer] -= amount
            self._balances[payee] += amount
            changed |= {each: self._balances[each] for each in (payer, payee)}
        return changed

    def _commit(self, changed: Mapping[int, int]) -> None:
        rows = [{"k": account, "balance": balance} for account, balance in changed.items()]
        commit_once(self._table, f"bank-{self._number}", rows, self.commits)


def commit_once(table: Any, user: str, rows: list[dict[str, int]], number: int) -> None:
    """Commit under a number, however often it takes to know that."""
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        try:
            with table.open_writer(user) as writer:
                writer.upsert(rows)
                writer.commit(number)
            return
        except PkrayError:
            if time.monotonic() > deadline:
                raise


class Bank:
    """Accounts, their writers, and the query of their total."""

    def __init__(self, catalog: pkray.Catalog, retained: int = 100_000) -> None:
        options = {
            "changelog-producer": "lookup",
            "bucket": "2",
            "snapshot.num-retained.min": str(min(retained, 50)),
            "snapshot.num-retained.max": str(retained),
        }
        columns = [("k", "INT"), ("balance", "BIGINT")]
        self.catalog = catalog
        self.accounts = catalog.create_table("default.accounts", columns, ["k"], options=options)
        rows = [{"k": k, "balance": AMOUNT} for k in range(WRITERS * ACCOUNTS)]
        commit_once(self.accounts, "bank", rows, 0)
        first = self.accounts.latest_snapshot()
        assert first is not None
        self.query = catalog.sql(QUERY).materialize("default.total", options={"bucket": "1"})
        self.query.wait({"default.accounts": first.id}, timeout=MOST_SECONDS)
        self._checked: dict[str, int] = {"default.accounts": 0, "default.total": 0}
        self.checked = 0

    def run(self, seconds: float, disturb: Callable[[], None], every: float) -> list[Writer]:
        """Have all write for so long, and disturb them every so many seconds."""
        told = threading.Event()
        writers = [Writer(self.accounts, number, told) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(every, left))
            disturb()
        told.set()
        for writer in writers:
            writer.join(2 * MOST_SECONDS)
        return writers

    def wrong(self, writers: list[Writer]) -> list[str]:
        """List what is not as it has to be, at every snapshot since the last look."""
        wrong = [each for writer in writers for each in writer.failures]
        wrong += [f"{each.name} hangs" for each in writers if each.is_alive()]
        wrong += [f"{each.name} never committed" for each in writers if not each.commits]
        newest = self.accounts.latest_snapshot()
        assert newest is not None
        self.query.wait({"default.accounts": newest.id}, timeout=MOST_SECONDS)
        wrong += self._totals("default.accounts", "balance")
        wrong += self._totals("default.total", "total")
        if not self.query.verify().equal:
            wrong.append("verify")
        return wrong

    def _totals(self, name: str, column: str) -> list[str]:
        """Add up each snapshot of a table that was not added up yet."""
        table, wrong = self.catalog.load_table(name), []
        snapshots = table.system("snapshots")["snapshot_id"].to_pylist()
        for number in snapshots:
            if number <= self._checked[name]:
                continue
            total = pc.sum(table.to_arrow([column], snapshot_id=number)[column]).as_py()
            if total not in (TOTAL, None):  # None: the result before its first epoch
                wrong.append(f"snapshot {number} of {name} has {total}, not {TOTAL}")
            self._checked[name] = number
            self.checked += 1
        return wrong


def kill_worker(catalog: pkray.Catalog, chance: random.Random) -> None:
    """Kill one process of the pool, the keeper perhaps."""
    with suppress(PkrayError, ProcessLookupError):
        placed = catalog.service().status().placed
        pids = [each.pid for each in placed if each.kind in ("keeper", "worker") and each.pid]
        if pids:
            os.kill(chance.choice(pids), signal.SIGKILL)


def told(bank: Bank, writers: list[Writer], wrong: list[str]) -> dict[str, Any]:
    return {
        "wrong": wrong,
        "snapshots": bank.checked,
        "commits": sum(writer.commits for writer in writers),
        "waited": round(max(writer.waited for writer in writers), 1),
    }


def check_nodes(seconds: float, folder: str) -> dict[str, Any]:
    """Have nodes come and go under the bank: of three, one is lost and another one joins."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "_system_config": HEALTH, "include_dashboard": False},
    )
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        ray.init(address=cluster.address, namespace="pkray", log_to_driver=False)
        lost = 0

        def change() -> None:
            nonlocal lost
            node = nodes.pop(0)
            for info in node.all_processes["raylet"]:
                os.kill(info.process.pid, signal.SIGKILL)
            lost += 1
            nodes.append(cluster.add_node(num_cpus=1))
            with suppress(Exception):
                cluster.remove_node(node, allow_graceful=False)

        options = {name: value for name, value in OPTIONS.items() if name != "pool_workers"}
        with pkray.connect(f"{folder}/w", runtime="ray", runtime_options=options) as catalog:
            bank = Bank(catalog)
            writers = bank.run(seconds, change, 15)
            return told(bank, writers, bank.wrong(writers)) | {"nodes": lost}
    finally:
        ray.shutdown()
        cluster.shutdown()


def taken(catalog: pkray.Catalog, folder: str) -> dict[str, float]:
    """Say what the service's processes take, and what they leave on this machine."""
    found = {"memory": 0.0, "threads": 0, "descriptors": 0}
    placed = catalog.service().status().placed
    for pid in {each.pid for each in placed if each.kind in ("keeper", "worker") and each.pid}:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            found["memory"] += process.memory_full_info().pss / 1e6
            found["threads"] += process.num_threads()
            found["descriptors"] += process.num_fds()
    local = Path(folder) / "local"
    found["temporary files"] = sum(each.is_file() for each in local.rglob("*"))
    found["shared memory"] = psutil.disk_usage("/dev/shm").used / 1e6
    return {name: round(value, 1) for name, value in found.items()}


def check_soak(minutes: int, folder: str) -> dict[str, Any]:
    """Run the bank for long, with a kill a minute; list what grows, too."""
    import ray

    ray.init(num_cpus=3, namespace="pkray", include_dashboard=False, log_to_driver=False)
    options = OPTIONS | {"local_directory": f"{folder}/local"}
    chance, series = random.Random(25), []
    try:
        with pkray.connect(f"{folder}/w", runtime="ray", runtime_options=options) as catalog:
            bank = Bank(catalog, retained=200)
            wrong: list[str] = []
            commits = 0
            for minute in range(minutes):
                writers = bank.run(50, lambda: None, 50)
                wrong += [f"minute {minute}: {each}" for each in bank.wrong(writers)]
                commits += sum(writer.commits for writer in writers)
                series.append(taken(catalog, folder))
                print(json.dumps({"minute": minute, **series[-1]}), flush=True)
                kill_worker(catalog, chance)
            return {"wrong": wrong, "commits": commits, "grown": grown(series)}
    finally:
        ray.shutdown()


def grown(series: list[dict[str, float]]) -> list[str]:
    """List what grows: the least of the last quarter is above the most of the first half."""
    half, quarter = series[: len(series) // 2], series[-max(1, len(series) // 4) :]
    leeway = {"memory": 100, "threads": 40, "descriptors": 60, "temporary files": 100}
    leeway["shared memory"] = 300  # it is the whole machine's
    return [
        f"{name}: {[each[name] for each in series]}"
        for name, more in leeway.items()
        if min(each[name] for each in quarter) > max(each[name] for each in half) + more
    ]


if __name__ == "__main__":
    what, amount, place = sys.argv[1:]
    if what == "nodes":
        print(json.dumps(check_nodes(float(amount), place)))
    else:
        print(json.dumps(check_soak(int(amount), place)))
