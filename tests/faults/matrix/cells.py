"""The cells of the matrix: who is lost, at which moment."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pkray
from pkray.errors import PkrayError
from pkray.service.pool.parts import COORDINATOR
from tests.faults.faulty_store import Killed
from tests.faults.lives.machines import Machine
from tests.faults.matrix.pool import GLANCE, Member, Moment, Pool, Worker
from tests.faults.named import missing, unnamed
from tests.faults.script import FOREVER, check_history

TABLE, RESULT = "d.t", "d.r"
FOLDERS = {TABLE: "w/d.db/t/", RESULT: "w/d.db/r/"}
PAD = 200_000
"""Characters of a row: some rows fill a memtable, which is flushed."""
KEYS, GROUPS = 20, 7
QUERY = (
    f"SELECT k % {GROUPS} AS side, COUNT(*) AS n, SUM(v) AS total, "
    f"repeat(CAST(COUNT(*) % 10 AS STRING), {PAD}) AS pad FROM d.t GROUP BY k % {GROUPS}"
)
TRIES = 8
_SECONDS = 60

ROWS = (
    "owner killed",
    "owner stopped",
    "coordinator killed",
    "coordinator stopped",
    "query killed",
    "query stopped",
    "node killed",
    "head killed",
    "executor killed",
    "driver killed",
)
"""Who is lost: the worker that hosts an owner, or the coordinator, of the table at which something
comes to pass; the process of the query; the workers of a node, or the keeper; a Spark task, or what
commits. Who is stopped wakes when others have gone on."""
COLUMNS = (
    "push",
    "flush",
    "prepare",
    "commit",
    "reply lost",
    "compaction",
    "lookup",
    "epoch",
    "checkpoint",
    "move",
    "drain",
)
CANNOT = {
    **{
        ("executor killed", column): "a task has ended when its driver begins to commit"
        for column in ("prepare", "commit", "compaction", "lookup", "epoch", "checkpoint")
    },
    **{
        ("driver killed", column): "a driver that commits has no part in it"
        for column in ("compaction", "lookup", "epoch", "checkpoint")
    },
    ("executor killed", "flush"): "rows of tasks become files when their driver commits",
    ("query killed", "lookup"): "the process of this query looks nothing up",
    ("query stopped", "lookup"): "the process of this query looks nothing up",
    ("query killed", "compaction"): "workers of the pool compact, and queries do not wait for it",
    ("query stopped", "compaction"): "workers of the pool compact, and queries do not wait for it",
}
"""Why some rows and columns do not meet."""
CELLS = [(row, column) for row in ROWS for column in COLUMNS if (row, column) not in CANNOT]

MOST_ROUNDS = 3
"""Of work, until what is waited for comes to pass: an epoch pushes once."""
PATTERNS = {
    "push": r"(begin|end) push of",
    "flush": r"write .*/bucket-\d+/data-",
    "prepare": r"(begin|end) prepare of|write .*/bucket-\d+/(data|changelog)-",
    "commit": r"(begin|end) (commit|acknowledge) of|(write|create) .*/(manifest|snapshot)/",
    "reply lost": r"end (push|prepare|commit|acknowledge|begin) of",
    "compaction": r"(begin|end) compact of|(write|create) .*/(bucket-|manifest/|snapshot/)",
    "lookup": r"(begin|end) lookup of",
    "epoch": r"(begin|end) (push|prepare|commit|acknowledge) of"
    r"|(write|create) w/\.queries/(?!.*status\.json)",
    "checkpoint": r"(write|create) w/\.queries/.*checkpoints?[/-]",
    "move": r"(ask|hear) keeper/(move|dropped|claim)",
    "drain": r"(ask|hear) keeper/(move|dropped|claim)",
}
STAGES = {"prepare": "commit", "compaction": "compact", "lookup": "lookup"} | {
    name: name for name in ("move", "drain", "commit")
}
"""Of the work, in which a moment of this kind is looked for; others: in any."""


class Wrong(AssertionError):
    """Something is not as it has to be."""


@dataclass
class Client:
    """A process that uses the pool; a new one takes the place of one that was killed."""

    pool: Pool
    machine: Member

    def call(self, work: Callable[[pkray.Catalog], Any], what: str) -> Any:
        """Do something until it is done, however often that takes."""
        last: BaseException | None = None
        for _ in range(TRIES):
            if self.machine.state != "awake":
                self.machine = self.pool.member()
            outcome = self.machine.call(work)
            if outcome.is_done and outcome.error is None:
                return outcome.value
            last = outcome.error
            if last is not None and not isinstance(last, PkrayError | Killed):
                raise Wrong(f"{what} failed untyped: {last!r}") from last
        raise Wrong(f"{what} does not come about: {last!r}") from last


class Run:
    """One cell, by a seed.

    Attributes:
        stage: what is being done now.
    """

    def __init__(self, row: str, column: str, seed: int, folder: str) -> None:
        self.pool = Pool(folder)
        self.stage = ""
        self._row, self._column = row, column
        self._chance = random.Random(f"{row} {column} {seed}")
        self._driver = Client(self.pool, self.pool.member())
        self._executor = Client(self.pool, self.pool.member())
        self._query = Client(self.pool, self.pool.member())
        self._admin = self.pool.member()
        self._asleep: list[Machine] = []
        self._number = 0
        self._rows: dict[int, tuple[int, str]] = {}
        self._victims: set[str] = set()

    def play(self) -> str:
        """Live through the cell; say at what it came to pass.

        Raises:
            Wrong: something is not as it has to be.
        """
        try:
            self._begin()
            moment = self._armed()
            self.pool.moment = moment
            for _ in range(MOST_ROUNDS):
                self._work()
                if moment.met:
                    break
            self.pool.moment = None
            if not moment.met:
                raise Wrong(f"nothing of the kind {self._column!r} came to pass")
            self._wake()
            self._put()
            self._settle()
            self._check()
            return moment.met
        finally:
            self.pool.close()

    # -- what is done --

    def _begin(self) -> None:
        def make(catalog: pkray.Catalog) -> None:
            options = {"changelog-producer": "lookup", "bucket": "2", "write-buffer-size": "1 mb"}
            columns = [("k", "INT"), ("v", "BIGINT"), ("pad", "STRING")]
            catalog.create_table(TABLE, columns, ["k"], options=options)

        self._driver.call(make, "making the table")
        self._put()
        self._query.call(self._materialize, "beginning the query")
        self._settle()

    @staticmethod
    def _materialize(catalog: pkray.Catalog) -> None:
        options = {"changelog-producer": "lookup", "bucket": "1", "write-buffer-size": "1 mb"}
        catalog.sql(QUERY).materialize(RESULT, options=options)

    def _work(self) -> None:
        self._put()
        self.stage = "compact"
        self._driver.call(lambda catalog: catalog.load_table(TABLE).compact(full=True), "compact")
        self.stage = "lookup"
        self._look_up()
        self.stage = ""
        self._settle()

    def _put(self) -> None:
        """Commit changes, as a driver does that does all again until it knows that it is done."""
        self._number += 1
        keys = self._chance.sample(range(KEYS), 12)
        pad = chr(97 + self._number) * PAD
        rows = {key: (self._chance.randrange(1000), pad) for key in keys[:10]}
        deleted = [key for key in keys[10:] if key in self._rows]
        in_tasks = self._row in ("executor killed", "driver killed") or self._chance.random() < 0.3
        self._commit(in_tasks, rows, deleted)
        self.stage = ""
        self._rows |= rows
        for key in deleted:
            del self._rows[key]

    def _commit(self, in_tasks: bool, rows: dict[int, tuple[int, str]], deleted: list[int]) -> None:
        put = self._push_tasks if in_tasks else self._write
        self._driver.call(lambda catalog: put(catalog.load_table(TABLE), rows, deleted), "a commit")

    def _write(self, table: Any, rows: dict[int, tuple[int, str]], deleted: list[int]) -> None:
        self.stage = "push"
        with table.open_writer("job") as writer:
            for key, (v, pad) in rows.items():
                writer.upsert([{"k": key, "v": v, "pad": pad}])
            if deleted:
                writer.delete([{"k": key} for key in deleted])
            self._move()
            seen = table.lookup([{"k": key} for key in rows], columns=["k", "v"])
            told = {row["k"]: row["v"] for row in seen.to_pylist()}
            if told != {key: v for key, (v, _) in rows.items()}:
                raise Wrong(f"`latest` says {told} of rows {rows.keys()}")
            self.stage = "commit"
            writer.commit(self._number)

    def _push_tasks(self, table: Any, rows: dict[int, tuple[int, str]], deleted: list[int]) -> None:
        self.stage = "push"
        push = table.open_push("job", self._number)
        if push.is_committed:
            return
        changes = [{"k": k, "v": v, "pad": pad, "kind": "+I"} for k, (v, pad) in rows.items()]
        changes += [{"k": key, "v": 0, "pad": "", "kind": "-D"} for key in deleted]
        reports = [
            self._task(push.target(), source, [each for each in changes if each["k"] % 2 == source])
            for source in range(2)
        ]
        self.stage = "commit"
        push.commit(reports)

    def _task(self, target: Any, source: int, changes: list[dict[str, Any]]) -> Any:
        """Push a share of the rows from another process, and another one where that is lost."""
        attempts = iter(range(TRIES))

        def push(_: pkray.Catalog) -> Any:
            pusher = target.at(self._executor.machine).open(source, next(attempts))
            for each in changes:
                pusher.push([each], "kind")
            if source:
                self._move()
            return pusher.finish()

        return self._executor.call(push, "a task")

    def _move(self) -> None:
        """Move the table's parts in the middle of its writers, once they are armed."""
        moment = self.pool.moment
        if moment is None or moment.met:
            return
        if self._column == "move":
            self.stage = "move"
            self.pool.move(TABLE)
        elif self._column == "drain":
            self.stage = "drain"
            for worker in self.pool.workers_of(TABLE, 0):
                self.pool.drain(worker.process.node)
        self.stage = "push"

    def _look_up(self) -> None:
        expected = {key: v for key, (v, _) in self._rows.items()}

        def look(catalog: pkray.Catalog) -> None:
            for visibility in ("committed", "latest"):
                found = catalog.load_table(TABLE).lookup(
                    [{"k": key} for key in range(KEYS)], columns=["k", "v"], visibility=visibility
                )
                told = {row["k"]: row["v"] for row in found.to_pylist()}
                if told != expected:
                    raise Wrong(f"a lookup of what is {visibility} says {told}, not {expected}")

        self._driver.call(look, "a lookup")

    def _settle(self) -> None:
        """Have the query read all that there is, in another process where it was lost."""
        newest = self._admin.catalog.load_table(TABLE).latest_snapshot()
        assert newest is not None

        def settle(catalog: pkray.Catalog) -> None:
            if not catalog.table_exists(RESULT):
                self._materialize(catalog)
            query = catalog.query(RESULT)
            if query.status()["state"] != "running":
                query.resume()
            query.wait({TABLE: newest.id}, timeout=_SECONDS)

        self._query.call(settle, "the query")

    # -- what is lost --

    def _armed(self) -> Moment:
        count = self._chance.randrange(3)
        pattern, stage = re.compile(PATTERNS[self._column]), STAGES.get(self._column)
        of_result = self._row.startswith("query") or self._column in ("epoch", "checkpoint")
        passed: list[str] = []

        def is_it(machine: Machine, what: str) -> bool:
            if not pattern.match(what) or not self._is_of(machine, what, of_result):
                return False
            if not of_result and stage is not None and stage != self.stage:
                return False
            if not self._is_there(of_result):
                return False
            passed.append(what)
            return len(passed) > count or self._column in ("lookup", "checkpoint")

        return Moment(is_it, lambda: self._lose(of_result))

    def _is_of(self, machine: Machine, what: str, of_result: bool) -> bool:
        """Whether something comes to pass at the table that is meant, or the query of it."""
        name = RESULT if of_result else TABLE
        if " of " in what:
            return what.endswith(f" of {self._fingerprint(name)}")
        if what.startswith(("write", "create")) and "/.queries/" not in what:
            return FOLDERS[name] in what
        if what.startswith(("ask", "hear")):
            return any(worker.machine is machine for worker in self.pool.workers)
        return True

    def _fingerprint(self, name: str) -> str:
        keeper = self.pool.keeper
        tables = {} if keeper is None else keeper._tables
        return next((key for key, table in tables.items() if table.name == name), "none")

    def _is_there(self, of_result: bool) -> bool:
        """Whether who is to be lost is at work."""
        who = self._row.partition(" ")[0]
        if who == "executor":
            return self.stage in ("push", "move", "drain")
        if who in ("owner", "coordinator", "node"):
            return bool(self._workers(of_result))
        return True

    def _workers(self, of_result: bool) -> list[Worker]:
        who, name = self._row.partition(" ")[0], RESULT if of_result else TABLE
        at = self.pool.workers_of(name, COORDINATOR if who == "coordinator" else 0)
        if who != "node":
            return at
        nodes = {worker.process.node for worker in at}
        return [worker for worker in self.pool.workers if worker.process.node in nodes]

    def _lose(self, of_result: bool) -> None:
        who, _, how = self._row.partition(" ")
        if who == "head":
            self.pool.lose_keeper()
            return
        clients = {"query": self._query, "executor": self._executor, "driver": self._driver}
        victims: Iterator[Machine] = (
            iter([clients[who].machine])
            if who in clients
            else (worker.machine for worker in self._workers(of_result))
        )
        for machine in victims:
            if how == "killed":
                machine.kill()
            else:
                machine.sleep()
                self._asleep.append(machine)

    def _wake(self) -> None:
        """Wake who sleeps: nobody waits for it any more."""
        self.pool.pass_time()
        for machine in self._asleep:
            machine.wake()
            for worker in self.pool.workers:
                if worker.machine is machine:
                    machine.await_(lambda worker=worker: worker.is_idle)  # type: ignore[misc]
        self.pool.pass_time()
        self.pool.undrain()

    # -- what has to be --

    def _check(self) -> None:
        self._query.call(self._verified, "verify")
        catalog = self._admin.catalog
        found = catalog.load_table(TABLE).to_arrow(["k", "v", "pad"]).to_pylist()
        told = {row["k"]: (row["v"], row["pad"]) for row in found}
        if told != self._rows:
            raise Wrong(f"the table has {_short(told)}, not {_short(self._rows)}")
        sides: dict[int, list[int]] = {}
        for key, (v, _) in self._rows.items():
            sides.setdefault(key % GROUPS, []).append(v)
        expected = {side: (len(of), sum(of), str(len(of) % 10) * PAD) for side, of in sides.items()}
        rows = catalog.load_table(RESULT).to_arrow(["side", "n", "total", "pad"]).to_pylist()
        result = {row["side"]: (row["n"], row["total"], row["pad"]) for row in rows}
        if result != expected:
            raise Wrong(f"the result is {_short(result)}, not {_short(expected)}")
        for name, folder in FOLDERS.items():
            table = catalog.load_table(name)
            check_history(table, {})
            gone = missing(self._files(folder))
            if gone:
                raise Wrong(f"snapshots of {name} name files that are gone: {gone}")
            table.remove_orphan_files(FOREVER)
            left = unnamed(self._files(folder))
            if left:
                raise Wrong(f"orphans of {name} are left after cleaning: {left}")
            if missing(self._files(folder)):
                raise Wrong(f"cleaning {name} removed files that snapshots name")

    @staticmethod
    def _verified(catalog: pkray.Catalog) -> None:
        query = catalog.query(RESULT)
        report = query.verify()
        if not report.equal:
            raise Wrong(f"verify says {report}")
        query.stop()

    def _files(self, folder: str) -> dict[str, bytes]:
        below = self.pool.world.below(folder)
        return {path.removeprefix(folder): file.data for path, file in below.items()}


def _short(rows: dict[int, Any]) -> str:
    text = str({key: tuple(str(each)[:6] for each in value) for key, value in rows.items()})
    return text[:600]


__all__ = ["CANNOT", "CELLS", "COLUMNS", "GLANCE", "PATTERNS", "ROWS", "STAGES", "Run", "Wrong"]
