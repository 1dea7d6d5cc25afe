"""Lives of a continuous query whose processes are killed, put to sleep and woken again.

A driver (`Life`) has processes write two sources and run a query over them. It knows what the
sources hold at each snapshot, and so what the result has to be at the positions of the query.
"""

import importlib
import inspect
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pkray
from pkray.api.relation import Relation
from tests.faults.processes import Process, Processes, Refused, StuckError

RESULT = "life.result"
SOURCES = ("life.orders", "life.names")
_SUMS = "COUNT(*) AS n, SUM({0}) AS total, MAX({0}) AS most"
PLANS = {
    "totals": f"SELECT v % 3 AS side, {_SUMS.format('v')} FROM life.orders GROUP BY v % 3",
    "some": f"SELECT v % 3 AS side, {_SUMS.format('k * 2')} FROM life.orders WHERE v > 3"
    " GROUP BY v % 3",
    "named": f"SELECT a.v % 3 AS side, {_SUMS.format('b.v')} FROM life.orders a JOIN life.names b"
    " ON a.v = b.k GROUP BY a.v % 3",
}
"""Plans whose results have the same columns and the same key."""
SHORTER = {
    "pkray.relational.continuous.queries.watched": {"SILENT_MILLIS": 400},
    "pkray.relational.continuous.queries.workers.worker": {
        "LOOK_SECONDS": 0.1,
        "FIRST_PAUSE_SECONDS": 0.05,
    },
}
"""How long queries wait for each other: less than usual, for lives are short."""
REPLACES = "replace" in inspect.signature(Relation.materialize).parameters
"""Whether a query can be told to replace whatever its table holds."""
SETTLE_SECONDS = 20.0
MOST_EPOCHS = 10
"""In which one who slept is overtaken: lives are to be short."""
ALLOWED = {
    ("savepoint", "SnapshotNotFoundError"),  # of a result that was never written
    ("savepoint", "QueryNotFoundError"),  # of a query that has ended no epoch
}
"""What is refused, and why, whoever is there."""
Rows = dict[int, int]
Result = Counter[tuple[int | None, ...]]


class Fault(Exception):
    """A life went wrong."""


class Serving:
    """What a process does: it writes sources, reads results, and runs the query.

    Args:
        folder: of the life.
        statement: whether the query is an INSERT.
        workers: of the query.
    """

    def __init__(self, folder: str, statement: bool, workers: int) -> None:
        for module, values in SHORTER.items():
            for name, value in values.items():
                if hasattr(importlib.import_module(module), name):
                    setattr(importlib.import_module(module), name, value)
        options = {"owners": 1, "local_directory": f"{folder}/local"}
        self._catalog = pkray.connect(f"{folder}/warehouse", runtime_options=options)
        self._catalog.sql(f"SET 'query.parallelism' = '{workers}'")
        self._name = "life.query" if statement else RESULT
        self._statement = statement
        self._failures: list[Any] = []

    @classmethod
    def warm_up(cls, folder: str) -> None:
        """Do each thing once."""
        serving = cls(folder, False, 1)
        serving.create("lookup", "1")
        at = {"life.orders": serving.put("life.orders", {1: 1}, [])}
        serving.begin("totals", False)
        serving.settle(at)
        serving.savepoint("warm")
        serving.resume("warm")
        serving.content()
        serving.drop()

    def create(self, producer: str, bucket: str) -> None:
        """Create the sources, and the table that an INSERT writes."""
        options = {"changelog-producer": producer, "bucket": bucket}
        for name in SOURCES:
            columns = [("k", "BIGINT NOT NULL"), ("v", "BIGINT NOT NULL")]
            self._catalog.create_table(name, columns, ["k"], options=options)
        if self._statement:
            counted = [(name, "BIGINT") for name in ("n", "total", "most")]
            columns = [("side", "BIGINT NOT NULL"), *counted]
            self._catalog.create_table(RESULT, columns, ["side"], options={"bucket": bucket})

    def put(self, table: str, rows: Rows, deleted: list[int]) -> int:
        """Make a commit of a source; give its snapshot."""
        with self._catalog.load_table(table).open_writer() as writer:
            if rows:
                writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            if deleted:
                writer.delete([{"k": key} for key in deleted])
            return int(writer.commit().id)

    def content(self) -> tuple[int | None, Result]:
        """Read the result's newest snapshot and its rows."""
        table = self._catalog.load_table(RESULT)
        newest = table.latest_snapshot()
        rows = table.to_arrow(columns=["side", "n", "total", "most"])
        return newest and newest.id, Counter(tuple(row.values()) for row in rows.to_pylist())

    def names(self) -> list[str]:
        """List the queries of the warehouse."""
        return [query.name for query in self._catalog.queries()]

    def begin(self, plan: str, replace: bool) -> None:
        """Begin the query, or let it go on."""
        given = {"on_failure": self._failures.append} | ({"replace": True} if replace else {})
        if self._statement:
            insert = self._catalog.sql(f"INSERT INTO {RESULT} {PLANS[plan]}")
            insert.start(self._name, **given)
        else:
            self._catalog.sql(PLANS[plan]).materialize(RESULT, **given)

    def resume(self, savepoint: str | None = None) -> None:
        """Let the query go on, from a savepoint where one is given."""
        self._catalog.query(self._name).resume(savepoint, on_failure=self._failures.append)

    def settle(self, at: Mapping[str, int]) -> dict[str, Any]:
        """Wait until the query has read its sources; give its status."""
        query = self._catalog.query(self._name)
        query.wait(at, timeout=SETTLE_SECONDS)
        return self.status()

    def verify(self) -> bool:
        """Whether the query says that its result is right."""
        return bool(self._catalog.query(self._name).verify().equal)

    def status(self) -> dict[str, Any]:
        """Say what the query does."""
        status = self._catalog.query(self._name).status()
        return {name: status.get(name) for name in ("state", "failure", "epoch", "sources")}

    def told(self) -> list[Any]:
        """Give the failures that this process was told of since it was asked last."""
        told, self._failures[:] = list(self._failures), []
        return told

    def stop(self) -> dict[str, Any]:
        """Stop the query; give its status."""
        self._catalog.query(self._name).stop()
        return self.status()

    def savepoint(self, name: str) -> None:
        """Keep the query as it is under a name."""
        self._catalog.query(self._name).savepoint(name)

    def drop(self) -> None:
        """End the query; its table stays."""
        self._catalog.query(self._name).drop()


class Source:
    """What a source holds at each of its snapshots.

    Attributes:
        newest: the id of the newest snapshot that was made here; 0: none.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._at: dict[int, Rows] = {0: {}}

    def at(self, snapshot: int) -> Rows:
        """Give the rows as of a position: compactions make snapshots too."""
        return self._at[max(number for number in self._at if number <= max(snapshot, 0))]

    def note(self, snapshot: int, rows: Rows, deleted: list[int]) -> None:
        now = self._at[self.newest] | rows
        self._at[snapshot] = {key: value for key, value in now.items() if key not in deleted}
        self.newest = snapshot


def result_of(plan: str, orders: Rows, names: Rows) -> Result:
    """Compute the result of a plan."""
    groups: dict[int, list[int]] = {}
    for key, value in orders.items():
        if plan == "totals":
            groups.setdefault(value % 3, []).append(value)
        elif plan == "some" and value > 3:
            groups.setdefault(value % 3, []).append(key * 2)
        elif plan == "named" and value in names:
            groups.setdefault(value % 3, []).append(names[value])
    return Counter((side, len(of), sum(of), max(of)) for side, of in groups.items())


class Life:
    """One query from its first beginning on, by a seed.

    Attributes:
        history: what was done.
    """

    def __init__(self, seed: int, folder: Path, processes: Processes, counts: Counter[str]) -> None:
        self.history: list[str] = []
        self._rng = random.Random(seed)
        self._folder = folder
        self._processes = processes
        self._counts = counts
        self._settings = (self._rng.random() < 0.3, self._rng.choice((1, 1, 1, 2)))
        self._sources = {name: Source() for name in SOURCES}
        self._alive: list[Process] = []
        self._asleep: list[Process] = []
        self._plan: str | None = None
        self._savepoints: list[str] = []
        self._passed: list[str] = []
        self._runs = False
        self._epoch = -1
        self._is_disturbed = False

    def live(self, steps: int) -> None:
        """Do so many things at random.

        Raises:
            Fault: the result is not what it has to be.
        """
        try:
            self._begin()
            for _ in range(steps):
                self._step()
            self._end()
        except StuckError as error:
            raise Fault(str(error)) from error
        finally:
            for process in self._alive:
                process.kill()

    def _process(self) -> Process:
        process = self._processes.begin(
            self._folder / f"process-{len(self._alive)}-of-{len(self.history)}.log",
            str(self._folder),
            *self._settings,
        )
        self._alive.append(process)
        return process

    def _kill(self, process: Process) -> None:
        self._alive.remove(process)
        process.kill()

    def _begin(self) -> None:
        self._writer, self._host = self._process(), self._process()
        producer = self._rng.choice(("lookup", "lookup", "none", "input"))
        self._note(f"{producer}, insert={self._settings[0]}, workers={self._settings[1]}")
        self._writer.call("create", producer, self._rng.choice(("1", "2")))
        for _ in range(self._rng.randrange(3)):
            self._put()
        self._begin_query("begin", self._rng.choice(list(PLANS)))
        self._settle()

    def _end(self) -> None:
        self._wake()
        if self._plan is None:
            self._begin_query("begin anew at last", self._rng.choice(list(PLANS)))
        elif not self._runs:
            self._go_on("resume at last", "resume")
        self._settle()
        self._put()
        self._settle()
        if not self._host.call("verify"):
            raise Fault("verify() says that a result is wrong that is right")

    def _note(self, what: str) -> None:
        self.history.append(what)

    def _step(self) -> None:
        steps: dict[Callable[[], None], int] = {self._put: 1}
        if self._runs:
            steps[self._run_epochs] = 3
        if self._asleep:
            steps[self._wake] = 4
        if self._plan is None:
            steps[self._begin_anew] = 6
        elif self._runs:
            steps |= {self._be_killed: 5, self._fall_asleep: 4, self._stop: 1, self._move: 1}
            steps |= {self._keep: 2, self._drop: 2, self._begin_another: 1}
        else:
            steps |= {self._resume: 6, self._drop: 2}
        if self._plan is not None and self._savepoints:
            steps[self._go_back] = 2
        if self._plan is not None and self._passed:
            steps[self._go_forward] = 2
        (step,) = self._rng.choices(list(steps), list(steps.values()))
        step()
        if self._runs and self._rng.random() < 0.8:
            self._settle()

    # -- what happens ---------------------------------------------------------------------------

    def _put(self) -> None:
        for _ in range(self._rng.randint(1, 2)):
            self._send_put()()

    def _run_epochs(self) -> None:
        """Make commits, an epoch each."""
        for _ in range(self._rng.randint(2, 4)):
            self._send_put()()
            self._settle()

    def _overtake(self, epoch: int) -> None:
        """Make commits until a query that went back is beyond the epochs of one who slept."""
        for _ in range(MOST_EPOCHS):
            if not self._runs or self._epoch > epoch:
                return
            self._send_put()()
            self._settle()

    def _send_put(self) -> Callable[[], None]:
        """Have a commit made; what is given waits for it."""
        table, rows, deleted = self._change()
        self._writer.send("put", table, rows, deleted)
        return lambda: self._sources[table].note(self._writer.answer(), rows, deleted)

    def _change(self) -> tuple[str, Rows, list[int]]:
        rng = self._rng
        rows = {rng.randrange(12): rng.randrange(10) for _ in range(rng.randint(1, 5))}
        deleted = [key for key in range(12) if key not in rows and rng.random() < 0.1]
        return rng.choices(SOURCES, (2, 1))[0], rows, deleted

    def _in_the_middle(self, work: Callable[[], None]) -> None:
        """Do something while commits come and epochs run."""
        for _ in range(self._rng.randint(0, 2)):
            self._send_put()()
        done = self._send_put()
        time.sleep(self._rng.random() * 0.15)
        work()
        done()

    def _be_killed(self) -> None:
        self._count("kills")
        self._in_the_middle(lambda: self._kill(self._host))
        self._host = self._process()
        self._runs = False
        if self._rng.random() < 0.7:
            self._go_on("resume after a kill", "resume")
        else:
            self._note("killed")

    def _fall_asleep(self) -> None:
        """Put the process of the query to sleep; another goes on with it, or begins it anew."""
        if not self._savepoints and self._rng.random() < 0.7:
            self._keep()
            self._run_epochs()
        self._count("sleeps")
        ahead = self._epoch + 2
        self._in_the_middle(self._host.sleep)
        self._asleep.append(self._host)
        self._host = self._process()
        self._is_disturbed = True
        self._note("asleep")
        ways: list[Callable[[], None]] = [self._resume, self._drop_and_begin]
        self._rng.choice([*ways, *([self._go_back] * 3 if self._savepoints else [])])()
        if self._rng.random() < 0.7:
            self._in_the_middle(self._wake)
            self._overtake(ahead)

    def _move(self) -> None:
        """Have another process go on with a query that runs."""
        self._count("moves")
        self._host = self._process()
        self._is_disturbed = True
        self._go_on("resume elsewhere", "resume")

    def _wake(self) -> None:
        if self._asleep:
            self._note("wake")
        while self._asleep:
            self._count("wakings")
            self._asleep.pop().wake()

    def _stop(self) -> None:
        self._count("stops")
        self._settle()
        status = self._ask("stop", "stop")
        if status is not False:
            self._runs = False
            self._check(status["sources"], "stopped")

    def _resume(self) -> None:
        self._go_on("resume", "resume")

    def _keep(self) -> None:
        self._settle()
        taken = {*self._savepoints, *self._passed}
        name = self._rng.choice([each for each in "abcdefgh" if each not in taken])
        if self._ask(f"savepoint {name}", "savepoint", name) is not False:
            self._count("savepoints")
            self._savepoints.append(name)

    def _go_back(self) -> None:
        self._count("goings back")
        place = self._rng.randrange(len(self._savepoints))
        self._go_on(f"go back to {self._savepoints[place]}", "resume", self._savepoints[place])
        self._passed += self._savepoints[place + 1 :]
        del self._savepoints[place + 1 :]

    def _go_forward(self) -> None:
        """A savepoint that was made after one that was gone back to is there still, or is refused:
        then the query goes on.
        """
        name = self._rng.choice(self._passed)
        self._note(f"go forward to {name}")
        try:
            self._host.call("resume", name)
            self._host.call("settle", self._newest())
        except Refused as refused:
            self._counts[f"refused: go forward, {refused.kind}"] += 1
            self._note(f"(refused: {refused})")
            self._host.call("told")
            self._go_on("resume", "resume")
        self._runs = True
        self._settle()

    def _drop(self) -> None:
        self._count("drops")
        if self._ask("drop", "drop") is not False:
            self._plan, self._runs = None, False
            self._savepoints.clear()
            self._passed.clear()

    def _drop_and_begin(self) -> None:
        self._drop()
        if self._plan is None:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._count("beginnings anew")
        self._begin_query("begin anew", self._rng.choice(list(PLANS)))

    def _begin_another(self) -> None:
        """Another plan does not begin under the name of a query that is there."""
        plan = self._rng.choice([each for each in PLANS if each != self._plan])
        self._note(f"{plan} under its name")
        try:
            self._host.call("begin", plan, False)
        except Refused as refused:
            if refused.kind != "QueryExistsError":
                raise Fault(f"another plan is refused otherwise: {refused}") from None
            return
        raise Fault("another plan began under the name of a query that is there")

    def _begin_query(self, what: str, plan: str) -> None:
        replace = REPLACES and self._rng.random() < 0.3
        self._note(f"{what}: {plan}{', replacing' if replace else ''}")
        try:
            self._host.call("begin", plan, replace)
        except Refused as refused:
            # An INSERT may leave alone what is in its table, unless it is told to replace it.
            if replace or not (REPLACES and self._settings[0]):
                raise Fault(f"{what} was refused: {refused}") from None
            self._counts[f"refused: {what}, {refused.kind}"] += 1
            self._note(f"(refused: {refused}), replacing")
            self._host.call("begin", plan, True)
        self._plan, self._runs, self._is_disturbed = plan, True, bool(self._asleep)

    # -- what is checked ------------------------------------------------------------------------

    def _count(self, what: str) -> None:
        self._counts[what] += 1

    def _go_on(self, what: str, method: str, *arguments: Any) -> None:
        if self._ask(what, method, *arguments) is not False:
            self._runs = True

    def _ask(self, what: str, method: str, *arguments: Any) -> Any:
        """Ask the process of the query for something; false where that is refused."""
        self._note(what)
        try:
            return self._host.call(method, *arguments)
        except Refused as refused:
            self._refused(what, refused)
            return False

    def _refused(self, what: str, refused: Refused) -> None:
        """See that a call that was refused has changed nothing."""
        self._counts[f"refused: {what.split()[0]}, {refused.kind}"] += 1
        self._note(f"(refused: {refused})")
        self._host.call("told")
        if what == "settle" and refused.kind == "ServiceUnavailableError":
            raise Fault(f"the query neither goes on nor says why: {refused}")
        if not self._is_disturbed and (what.split()[0], refused.kind) not in ALLOWED:
            raise Fault(f"{what} was refused: {refused}")

    def _settle(self) -> None:
        """Wait until the sources are in the result, and compare it; where that is refused, and
        somebody else may have had a hand in it, begin anew.
        """
        self._note("settle")
        try:
            status = self._host.call("settle", self._newest())
        except Refused as refused:
            self._refused("settle", refused)
            self._drop_and_begin()
            self._is_disturbed = False
            self._settle()
            return
        self._count("settled")
        self._epoch = status["epoch"]
        self._check(status["sources"], "settled")
        self._check_failures()

    def _newest(self) -> dict[str, int]:
        read = SOURCES if self._plan == "named" else SOURCES[:1]
        return {name: self._sources[name].newest for name in read}

    def _check(self, positions: Mapping[str, int], when: str) -> None:
        """Compare the result with what it is at positions of the sources."""
        assert self._plan is not None
        contents = [self._sources[name].at(positions.get(name, 0)) for name in SOURCES]
        expected = result_of(self._plan, *contents)
        snapshot, found = self._writer.call("content")
        if found != expected:
            says = "right" if self._host.call("verify") else "wrong"
            raise Fault(
                f"{when} at {dict(positions)}: snapshot {snapshot} of the result has "
                f"{sorted(found.elements())} and not {sorted(expected.elements())}; "
                f"verify() says that it is {says}"
            )

    def _check_failures(self) -> None:
        """Nobody says that the query failed: who slept is fenced at most."""
        for process in self._alive:
            if process is self._writer or process in self._asleep:
                continue
            if told := process.call("told"):
                who = "its own process" if process is self._host else "one who slept"
                raise Fault(f"{who} says that the query failed: {told}")
        name = "life.query" if self._settings[0] else RESULT
        lives = self._folder / "warehouse" / ".queries" / name / "lives"
        for failure in lives.glob("*/failure.json"):
            raise Fault(f"a query that runs has failed: {failure.read_text(encoding='utf-8')}")
