"""Play cells of the matrix of faults on a cluster of three nodes, a head and a Redis.

    python -m tests.ray.matrix.nodes FOLDER [ROW [COLUMN [TIMES]]]

Prints a line of JSON a cell, and one at the end.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pkray
from pkray.errors import PkrayError
from pkray.service.pool.parts import COORDINATOR, Part, WorkerProcess
from pkray.service.ray.pool import pool_of
from tests.faults.matrix.cells import CELLS, PATTERNS, RESULT, STAGES, TABLE, TRIES, Run, Wrong
from tests.ray.heads import redis
from tests.ray.lost_nodes import HEALTH
from tests.ray.matrix.moments import FOLDER, Moments, install
from tests.ray.signals import send

NODES = 3
OPTIONS = {"owners": 2, "call_timeout": 5, "lookup_timeout": 5}
MOST_SECONDS = 150
"""In which all goes on, whoever was lost."""
_GLANCE = 0.02


class NodePool:
    """The pool of a warehouse on a cluster, as a cell sees it.

    Args:
        cluster: None in processes that are to be lost.

    Attributes:
        moment: what is waited for.
    """

    def __init__(self, catalog: pkray.Catalog, cluster: Any = None) -> None:
        name = pool_of(catalog.warehouse, catalog.storage_options)
        self._catalog = catalog
        self._pool = catalog.runtime._pool(name)
        self._cluster = cluster
        self._nodes = list(cluster.worker_nodes) if cluster else []
        self._head: subprocess.Popen[bytes] | None = None
        self.moment: Armed | None = None

    def workers_of(self, name: str, index: int) -> list[Any]:
        """Find the worker that has a part of a table, by its name, on a node that was not lost;
        none where nobody has it."""
        seen = self._pool.keeper.overview()
        at = {each.worker for each in seen.parts if (each.thing, each.index) == (name, index)}
        living = {node.node_id for node in self._nodes}
        workers = [each for each in seen.workers if each.number in at and each.lease > 0]
        return [each for each in workers if not living or each.process.node in living]

    def move(self, name: str) -> None:
        """Have every part of a table go to another worker."""
        import ray

        fingerprint = self._catalog.load_table(name).location.fingerprint
        for part in self._pool.keeper.overview().parts:
            if part.thing != name:
                continue
            known = {Part(fingerprint, part.index): -1}
            numbers = self._pool.keeper.confirm(known)
            with suppress(Exception):  # who is lost on the way does not answer
                asked = self._pool.worker(part.worker).hand_over.remote(numbers, True)
                ray.get(asked, timeout=20)

    def drain(self, node: str) -> None:
        """Have the workers of a node lose all that they have; wait until one begins to, which they
        do after a while where they are never idle."""
        self._pool.keeper.drain_node(node, True)
        deadline = time.monotonic() + 60
        while not (self.moment and self.moment.met) and time.monotonic() < deadline:
            time.sleep(_GLANCE)

    def undrain(self) -> None:
        for node in {each.process.node for each in self._pool.keeper.overview().workers}:
            self._pool.keeper.drain_node(node, False)

    def lose_node(self, name: str) -> None:
        """Kill a raylet; its processes find that out by themselves."""
        (node,) = [each for each in self._nodes if each.node_id == name]
        (info,) = node.all_processes["raylet"]
        os.kill(info.process.pid, signal.SIGKILL)
        self._nodes.remove(node)

    def fill(self) -> None:
        """Have as many nodes as before."""
        while self._cluster and len(self._nodes) < NODES:
            self._nodes.append(self._cluster.add_node(num_cpus=1))

    def lose_head(self) -> None:
        """Kill the process that has the cluster's state, and start it anew.

        Another process does that: calls of Ray that wait for it may let no other thread run.
        """
        (info,) = self._cluster.head_node.all_processes["gcs_server"]
        head = self._head or info.process
        port = self._cluster.address.rpartition(":")[2]
        given = [each for each in info.process.args if not each.startswith("--gcs_server_port=")]
        script = 'kill -9 "$0"; sleep 0.5; exec "$@"'
        self._head = subprocess.Popen(
            ["sh", "-c", script, str(head.pid), *given, f"--gcs_server_port={port}"]
        )

    def pass_time(self) -> None:
        """Nothing: it passes by itself."""

    def close(self) -> None:
        """Nothing: another cell follows."""

    def end(self) -> None:
        """End what this started itself."""
        if self._head is not None:
            self._head.kill()
            self._head.wait()


class Armed:
    """A moment that is waited for, and who is lost at it."""

    def __init__(self, moments: Moments, lose: Callable[[], None]) -> None:
        self._moments = moments
        self._lose = lose
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self._watch = threading.Thread(target=self._watched, daemon=True)
        self._watch.start()

    @property
    def met(self) -> str:
        return self._moments.met

    def _watched(self) -> None:
        while not self._ended.wait(_GLANCE):
            if self.met:
                try:
                    self._lose()
                except BaseException as error:
                    self.failure = error
                finally:
                    self._moments.let_go()
                return

    def end(self) -> None:
        self._ended.set()
        self._watch.join(60)
        if self.failure is not None:
            raise Wrong(f"nobody could be lost: {self.failure!r}") from self.failure


class NodeClient:
    """What a process that uses the pool does, until it is done."""

    def __init__(self, catalog: pkray.Catalog) -> None:
        self.catalog = catalog

    def call(self, work: Callable[[pkray.Catalog], Any], what: str) -> Any:
        deadline = time.monotonic() + MOST_SECONDS
        while True:
            try:
                return work(self.catalog)
            except PkrayError as error:
                if time.monotonic() > deadline:
                    raise Wrong(f"{what} does not come about: {error!r}") from error
                time.sleep(0.1)
            except Wrong:
                raise
            except Exception as error:
                raise Wrong(f"{what} failed untyped: {error!r}") from error


class NodeRun(Run):
    """One cell, by a seed, on nodes.

    Args:
        folder: of this run's files.
    """

    def __init__(
        self, row: str, column: str, seed: int, folder: str, pool: Any, catalog: pkray.Catalog
    ) -> None:
        self.pool = pool
        self._moments = Moments(f"{folder}/moments")
        self._folder = folder
        self._row, self._column = row, column
        self._chance = random.Random(f"{row} {column} {seed}")
        client: Any = NodeClient(catalog)
        self._driver = self._executor = self._query = self._admin = client
        self._number = 0
        self._rows: dict[int, tuple[int, str]] = {}
        self._asleep_pids: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._woken_at = 0.0
        self.stage = ""

    @property
    def stage(self) -> str:  # type: ignore[override]
        return self._moments.stage

    @stage.setter
    def stage(self, name: str) -> None:
        self._moments.stage = name

    @staticmethod
    def _materialize(catalog: pkray.Catalog) -> None:
        catalog.sql("SET 'execution.checkpointing.interval' = '1 ms'")  # at every epoch
        Run._materialize(catalog)

    def _commit(self, in_tasks: bool, rows: dict[int, tuple[int, str]], deleted: list[int]) -> None:
        if self._row == "driver killed":
            self._in_process(("commit", self._number, in_tasks, rows, deleted))
        else:
            super()._commit(in_tasks, rows, deleted)

    def _task(self, target: Any, source: int, changes: list[dict[str, Any]]) -> Any:
        if self._row == "executor killed":
            return self._in_process(("task", target, source, changes))
        return self._executor.call(lambda _: self.pushed(target, source, 0, changes), "a task")

    def pushed(self, target: Any, source: int, attempt: int, changes: list[Any]) -> Any:
        """Push the rows of an attempt of a task."""
        pusher = target.open(source, attempt)
        for each in changes:
            pusher.push([each], "kind")
        if source:
            self._move()
        return pusher.finish()

    def _in_process(self, job: tuple[Any, ...]) -> Any:
        """Do something in another process, and again in another one where that is lost."""
        from ray import cloudpickle

        place = Path(self._folder)
        done = place / "done"
        for attempt in range(TRIES):
            done.unlink(missing_ok=True)
            (place / "job").write_bytes(
                cloudpickle.dumps((self._column, attempt, os.environ["RAY_ADDRESS"], job))
            )
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.ray.matrix.nodes", "--job", self._folder]
            )
            try:
                self._process.wait(MOST_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()
            if done.exists():
                return cloudpickle.loads(done.read_bytes())
        raise Wrong(f"another process does not do it: {job[0]}")

    def _armed(self) -> Any:
        count = self._chance.randrange(3)
        who = self._row.partition(" ")[0]
        of_result = who == "query" or self._column in ("epoch", "checkpoint")
        stage = STAGES.get(self._column)
        stages = None if of_result or stage is None else [stage]
        if who == "executor":
            stages = ["push", "move", "drain"]
        name = RESULT if of_result else TABLE
        victims = self._victims_of(name)
        passed = 0 if self._column in ("lookup", "checkpoint") else count
        self._moments.arm(PATTERNS[self._column], name, stages, passed)
        self._last = Armed(self._moments, lambda: self._lose_all(victims))
        return self._last

    def _victims_of(self, name: str) -> list[WorkerProcess]:
        who = self._row.partition(" ")[0]
        if who == "query":
            return [WorkerProcess("", "", self._query.catalog.query(RESULT).status()["process"])]
        if who not in ("owner", "coordinator", "node"):
            return []
        index = COORDINATOR if who == "coordinator" else 0
        deadline = time.monotonic() + MOST_SECONDS
        while not (workers := self.pool.workers_of(name, index)):  # the node before was just lost
            if time.monotonic() > deadline:
                raise Wrong(f"nobody has {name}")
            time.sleep(_GLANCE)
        return [each.process for each in workers]

    def _lose_all(self, victims: list[WorkerProcess]) -> None:
        who, _, how = self._row.partition(" ")
        if who == "head":
            self.pool.lose_head()
        if who in ("executor", "driver") and self._process is not None:
            self._process.kill()
        for victim in victims:
            if who == "node":
                self.pool.lose_node(victim.node)
            else:
                send(victim.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                self._asleep_pids.append(victim.pid)

    def _wake(self) -> None:
        """Wake who sleeps, when others have gone on; have as many nodes as before."""
        self._last.end()
        for pid in self._asleep_pids:
            send(pid, signal.SIGCONT)
        self.pool.fill()
        self.pool.undrain()

    def play(self) -> str:
        """Live through the cell; say at what it came to pass.

        Raises:
            Wrong: something is not as it has to be.
        """
        try:
            return super().play()
        finally:
            for pid in self._asleep_pids:
                send(pid, signal.SIGCONT)
            self._moments.clear()
            self._end()

    def _end(self) -> None:
        """Leave nothing for the next cell."""
        catalog = self._admin.catalog
        for query in catalog.queries():
            self._admin.call(lambda _, query=query: query.drop(), "dropping the query")
        for name in catalog.list_tables():
            self._admin.call(lambda c, name=name: c.drop_table(name), "dropping a table")

    def _files(self, folder: str) -> dict[str, bytes]:
        root = Path(self._folder) / "warehouse" / folder.removeprefix("w/")
        files = (each for each in root.rglob("*") if each.is_file())
        return {str(each.relative_to(root)): each.read_bytes() for each in files}


def do(folder: str) -> None:
    """Do the job that a run has for a process that may be lost."""
    import ray
    from ray import cloudpickle

    place = Path(folder)
    column, attempt, address, job = cloudpickle.loads((place / "job").read_bytes())
    ray.init(address=address, namespace="pkray", log_to_driver=False)
    with connected(folder) as catalog:
        run = NodeRun("executor killed", column, 0, folder, NodePool(catalog), catalog)
        if run._moments.is_awaited:
            run.pool.moment = Standing(run._moments)
        if job[0] == "task":
            answer = run.pushed(*job[1:3], attempt, job[3])
        else:
            _, run._number, in_tasks, rows, deleted = job
            run._row = "driver"
            Run._commit(run, in_tasks, rows, deleted)
            answer = None
        (place / "done.tmp").write_bytes(cloudpickle.dumps(answer))
        (place / "done.tmp").rename(place / "done")


class Standing:
    """A moment as another process sees it."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    @property
    def met(self) -> str:
        return self._moments.met


@contextmanager
def connected(folder: str) -> Iterator[pkray.Catalog]:
    with pkray.connect(f"{folder}/warehouse", runtime="ray", runtime_options=OPTIONS) as catalog:
        yield catalog


@contextmanager
def cluster_of_nodes(folder: str) -> Iterator[Any]:
    """Run a head that computes nothing, its state in a Redis, and three nodes."""
    import ray
    from ray.cluster_utils import Cluster

    site = str(Path(__file__).with_name("site"))
    (Path(folder) / "moments").mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([site, *filter(None, sys.path)])
    os.environ[FOLDER] = f"{folder}/moments"
    with redis() as address:
        os.environ["RAY_REDIS_ADDRESS"] = address
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "_system_config": HEALTH, "include_dashboard": False},
        )
        os.environ["RAY_ADDRESS"] = cluster.address
        try:
            for _ in range(NODES):
                cluster.add_node(num_cpus=1)
            ray.init(address=cluster.address, namespace="pkray", log_to_driver=False)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


def play(folder: str, cells: list[tuple[str, str]], times: int) -> Iterator[dict[str, Any]]:
    """Play cells; say of each what came of it."""
    with cluster_of_nodes(folder) as cluster, connected(folder) as catalog:
        catalog.service().start()
        pool = NodePool(catalog, cluster)
        try:
            for (row, column), seed in itertools.product(cells, range(times)):
                begun = time.monotonic()
                try:
                    told = {"met": NodeRun(row, column, seed, folder, pool, catalog).play()}
                except (Wrong, AssertionError) as error:
                    told = {"wrong": f"{error}"[:600]}
                seconds = round(time.monotonic() - begun, 1)
                yield {"cell": f"{row}, {column}", "seed": seed, **told, "seconds": seconds}
        finally:
            pool.end()


def main(folder: str, row: str = "", column: str = "", times: str = "1") -> None:
    cells = [each for each in CELLS if row in ("", each[0]) and column in ("", each[1])]
    wrong, count = [], 0
    for told in play(folder, cells, int(times)):
        print(json.dumps(told), flush=True)
        count += 1
        wrong += [told] if "wrong" in told else []
    print(json.dumps({"played": count, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        install()
        do(sys.argv[2])
    else:
        main(*sys.argv[1:])
