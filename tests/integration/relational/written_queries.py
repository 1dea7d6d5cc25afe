"""Write a small warehouse of continuous queries, in every state that they may be found in.

``python -m tests.integration.relational.written_queries NAME`` makes ``NAME.tar.xz`` and
``NAME.json`` in ``tests/integration/data``, by the pkray that is installed: the warehouse, and what
that version says of it. Each query is written by a process of its own into a database of its own;
most of these processes are killed. What is there stays; a later version that writes something else
adds a pair of its own.
"""

import datetime
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pkray
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.upgrades import switching, upgrading
from pkray.relational.continuous.upgrades.shadow import Shadow
from tests.integration.written_warehouse import DATA, Row, _nobody, commit, rows

WRITE = "--write"
SILENT_SECONDS = 11.0
"""After which a process that was killed is known not to run its query any more."""

TOTALS = (
    "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most"
    " FROM {db}.orders GROUP BY v % 2"
)
UPGRADED = TOTALS.replace("SUM(v)", "SUM(v * 3)")
SUMS = "SELECT v % 3 AS side, v AS total, 1L AS n FROM {db}.orders"
SMALL = "SELECT k, v FROM {db}.orders WHERE v < 5"
LARGE = "SELECT v, COUNT(*) AS n FROM {db}.orders WHERE v >= 2 GROUP BY v"
CHANGES_OF = "SELECT k, v * 2 AS twice FROM {db}.orders WHERE v > 1"
JOINED = "SELECT a.day, a.k, a.v, b.name FROM {db}.visits a LEFT JOIN {db}.names b ON a.v = b.k"
DIVIDED = "SELECT k, 12 / v AS w FROM {db}.orders"
SIDES = "SELECT k, v % 2 AS side FROM {db}.orders"
COUNTED = "SELECT side, COUNT(*) AS n FROM {db}.sides GROUP BY side"
WINDOWS = (
    "SELECT v % 2 AS side, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE "
    "{db}.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY v % 2, window_start, window_end"
)

CHANGES: list[tuple[dict[int, int], list[int]]] = [
    ({1: 1, 2: 2, 3: 3, 4: 4}, []),
    ({2: 5, 5: 9, 6: 2}, [1]),
    ({1: 7, 3: 2, 6: 6}, [4]),
    ({5: 5, 2: 2, 8: 8}, [1]),
    ({7: 7, 8: 1}, [2]),
    ({3: 8, 9: 3}, [7]),
    ({1: 4, 2: 3}, [9]),
    ({4: 9, 5: 2}, [3]),
]
"""Of each commit of ``orders``, the values by key and the keys that are deleted: each changes every
result."""
CLICKS = [(1, 5, 12), (9, 14, 25), (16, 31), (45, 28), (33, 52), (70, 41)]
"""Seconds of the clicks of each commit, which are their keys too. The watermark is two behind."""


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


def die_before_commit_of(table: str) -> None:
    """Die between a commit's manifests and its snapshot."""
    link = os.link

    def dying(source: Any, target: Any, **options: Any) -> None:
        if f"/{table}/snapshot/snapshot-" in str(target):
            die()
        link(source, target, **options)

    os.link = dying  # type: ignore[assignment]


class Writing:
    """Fills the sources of one query.

    Attributes:
        db: the database.
        said: a file in which is noted what functions and streams were given.
    """

    def __init__(self, catalog: pkray.Catalog, db: str, said: Path | None = None) -> None:
        self.catalog = catalog
        self.db = db
        self.said = said

    def sql(self, text: str, dialect: str = "spark") -> Any:
        return self.catalog.sql(text.format(db=self.db), dialect=dialect)

    def orders(self, **options: str) -> None:
        given = {"bucket": "1", "changelog-producer": "lookup"} | options
        columns = [("k", "BIGINT NOT NULL"), ("v", "BIGINT")]
        self.catalog.create_table(f"{self.db}.orders", columns, ["k"], options=given)

    def put(self, *numbers: int) -> dict[str, int]:
        """Make commits of ``orders``; give the snapshot to wait for."""
        orders = self.catalog.load_table(f"{self.db}.orders")
        for number in numbers:
            upserts, deletes = CHANGES[number]
            commit(
                orders,
                "orders",
                number,
                [{"k": key, "v": value} for key, value in upserts.items()],
                [{"k": key} for key in deletes],
            )
        return self.newest("orders")

    def newest(self, table: str) -> dict[str, int]:
        snapshot = self.catalog.load_table(f"{self.db}.{table}").latest_snapshot()
        assert snapshot is not None
        return {f"{self.db}.{table}": snapshot.id}

    def follow(self, query: Any, *numbers: int) -> None:
        """Make commits of ``orders``, an epoch each."""
        for number in numbers:
            query.wait(self.put(number))

    def table(self, name: str, columns: list[tuple[str, str]], **options: str) -> None:
        given = {key.replace("_", "-"): value for key, value in options.items()}
        self.catalog.create_table(
            f"{self.db}.{name}", columns, [columns[0][0]], options={"bucket": "1"} | given
        )

    def totals(self) -> Any:
        """Run totals for two epochs, of which a checkpoint is there."""
        self.orders()
        query = self.sql(TOTALS).materialize(f"{self.db}.result")
        self.follow(query, 0, 1)
        query.stop()
        return query.resume()

    def note(self, batch: Any, epoch: int) -> None:
        assert self.said is not None
        with self.said.open("a", encoding="utf-8") as file:
            file.write(json.dumps([epoch, rows(batch)]) + "\n")


def _killed(w: Writing) -> None:
    """Epochs 2 and 3 are in the result, and in no checkpoint."""
    w.follow(w.totals(), 2, 3)
    die()


def _begun(w: Writing) -> None:
    """Epoch 2 is in the result, and epoch 3 is written down."""
    query = w.totals()
    w.follow(query, 2)
    die_before_commit_of("result")
    w.follow(query, 3)


def _first(w: Writing) -> None:
    """Epochs 0 and 1 are in the result, and there is no checkpoint at all."""
    w.orders()
    query = w.sql(TOTALS).materialize(f"{w.db}.result")
    w.follow(query, 0, 1)
    die()


def _stopped(w: Writing) -> None:
    w.orders(**{"changelog-producer": "none"})
    query = w.sql(TOTALS).materialize(f"{w.db}.result")
    w.follow(query, 0, 1, 2)
    query.stop()


def _ended(w: Writing) -> None:
    w.orders()
    w.put(0, 1)
    w.sql(TOTALS).materialize(f"{w.db}.result", trigger="available_now").wait_ended()


def _saved(w: Writing) -> None:
    """There are two savepoints, and epochs after them."""
    query = w.totals()
    query.savepoint("one")
    w.follow(query, 2)
    query.savepoint("two")
    w.follow(query, 3, 4)
    die()


def _restoring(w: Writing) -> None:
    """The result is rolled back to a savepoint; what the query remembers is not."""
    query = w.totals()
    query.savepoint("one")
    w.follow(query, 2, 3)
    StoredLog.go_back = lambda self, name: die()  # type: ignore[method-assign]
    query.resume(savepoint="one").wait({f"{w.db}.orders": 2**40})


def _warming(w: Writing) -> None:
    """A newer plan follows the sources, and never takes over."""
    query = w.totals()
    w.follow(query, 2)
    Shadow.reached_by = lambda self, positions: None  # type: ignore[method-assign]
    query.upgrade(UPGRADED.format(db=w.db), wait=False)
    place = Path(w.catalog.warehouse.removeprefix("file://"), ".queries", query.name)
    while not list(place.glob("**/upgrade/*/epochs/epoch-0")):
        time.sleep(0.05)
    w.follow(query, 3)
    die()


def _decided(w: Writing) -> None:
    """The epoch is written down in which a newer plan takes over."""
    query = w.totals()
    w.follow(query, 2)
    _die_once_decided()
    query.upgrade(UPGRADED.format(db=w.db))


def _die_once_decided() -> None:
    decide = upgrading._decide

    def dying(*arguments: Any) -> None:
        decide(*arguments)
        die()

    upgrading._decide = dying


def _switched(w: Writing) -> None:
    """The result is that of a newer plan; what the query remembers is not."""
    query = w.totals()
    w.follow(query, 2)
    switching._taken_over = lambda *_: die()  # type: ignore[assignment]
    query.upgrade(UPGRADED.format(db=w.db))


def _upgraded(w: Writing) -> None:
    """A newer plan has taken over and gone on; it is not accepted."""
    query = w.totals()
    w.follow(query, 2)
    query.upgrade(UPGRADED.format(db=w.db))
    w.follow(query, 3)
    die()


def _undone(w: Writing) -> None:
    """The epoch is written down in which the older plan takes over again."""
    query = w.totals()
    query.upgrade(UPGRADED.format(db=w.db))
    w.follow(query, 2)
    _die_once_decided()
    query.rollback()


def _sums(w: Writing) -> Any:
    w.orders()
    w.table(
        "result",
        [("side", "BIGINT NOT NULL"), ("total", "BIGINT"), ("n", "BIGINT")],
        merge_engine="aggregation",
        **{"fields.total.aggregate-function": "sum", "fields.n.aggregate-function": "sum"},
    )
    query = w.sql(f"INSERT INTO {{db}}.result {SUMS}").start(f"{w.db}.sums")
    w.follow(query, 0, 1)
    query.stop()
    return query.resume()


def _summed(w: Writing) -> None:
    """As `_killed`, into a table that would count a repeated epoch twice."""
    w.follow(_sums(w), 2, 3)
    die()


def _sums_begun(w: Writing) -> None:
    """As `_begun`, into a table that would count a repeated epoch twice."""
    query = _sums(w)
    w.follow(query, 2)
    die_before_commit_of("result")
    w.follow(query, 3)


def _pair(w: Writing) -> None:
    """Two results, of which one has the last epoch, and the other not yet."""
    w.orders()
    w.table("small", [("k", "BIGINT NOT NULL"), ("v", "BIGINT")])
    w.table("large", [("v", "BIGINT NOT NULL"), ("n", "BIGINT")])
    query = w.sql(
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO {{db}}.small {SMALL};"
        f" INSERT INTO {{db}}.large {LARGE}; END"
    ).start(f"{w.db}.pair")
    w.follow(query, 0)
    query.stop()
    query.resume()
    w.follow(query, 1, 2)
    die_before_commit_of("large")
    w.follow(query, 3)


def _taken(w: Writing, stream: Any) -> None:
    while (batch := stream.poll()) is not None:
        w.note(batch.drop_columns(["_epoch"]), batch["_epoch"][0].as_py())


def _streamed(w: Writing) -> None:
    """A named stream, closed after two epochs."""
    w.orders()
    with w.sql(CHANGES_OF).stream(name=f"{w.db}.stream") as stream:
        for number in (0, 1):
            w.put(number)
            _taken(w, stream)


def _followed(w: Writing) -> None:
    """A named stream, two epochs after its checkpoint."""
    _streamed(w)
    stream = w.sql(CHANGES_OF).stream(name=f"{w.db}.stream")
    for number in (2, 3):
        w.put(number)
        _taken(w, stream)
    die()


def _called(w: Writing) -> None:
    """A function was called for two epochs after the checkpoint."""
    w.orders()

    def called(batch: Any, epoch: int) -> None:
        w.note(batch.drop_columns(["_epoch"]), epoch)

    query = w.sql(CHANGES_OF).foreach_batch(called, name=f"{w.db}.calls")
    w.follow(query, 0, 1)
    query.stop()
    query = w.sql(CHANGES_OF).foreach_batch(called, name=f"{w.db}.calls")
    w.follow(query, 2, 3)
    die()


def _shared(w: Writing) -> None:
    """As `_begun`, with three workers."""
    w.catalog.sql("SET 'query.parallelism' = '3'")
    _begun(w)


def put_clicks(w: Writing, number: int) -> dict[str, int]:
    clicks = w.catalog.load_table(f"{w.db}.clicks")
    commit(clicks, "clicks", number, [click(second) for second in CLICKS[number]])
    return w.newest("clicks")


def click(second: int) -> Row:
    """A row of ``clicks``."""
    at = datetime.datetime(1969, 12, 31) + datetime.timedelta(seconds=second)
    return {"k": second, "v": second % 3, "at": at}


def _windowed(w: Writing) -> None:
    """Windows; some rows came late, before the checkpoint and after it."""
    w.table(
        "clicks",
        [("k", "BIGINT NOT NULL"), ("v", "BIGINT"), ("at", "TIMESTAMP(3)")],
        changelog_producer="lookup",
        **{
            "schema.watermark.0.rowtime": "at",
            "schema.watermark.0.strategy.expr": "`at` - INTERVAL '2' SECOND",
        },
    )
    query = w.sql(WINDOWS, "flink").materialize(f"{w.db}.result")
    for number in range(4):
        if number == 2:
            query.stop()
            query.resume()
        query.wait(put_clicks(w, number))
    die()


def put_visits(w: Writing, number: int) -> dict[str, int]:
    """Make a commit of ``visits``, whose keys stay in their partitions, and one of ``names``."""
    upserts, deletes = CHANGES[number]
    visits = w.catalog.load_table(f"{w.db}.visits")
    days = [{"day": f"day {key % 2}", "k": key, "v": value} for key, value in upserts.items()]
    gone = [{"day": f"day {key % 2}", "k": key} for key in deletes]
    commit(visits, "visits", number, days, gone)
    names = w.catalog.load_table(f"{w.db}.names")
    named = [{"k": value, "name": f"{key} of {number}"} for key, value in upserts.items()]
    commit(names, "names", number, named, [{"k": key} for key in deletes])
    return w.newest("visits") | w.newest("names")


def _parted(w: Writing) -> None:
    """A source in partitions, and one in buckets that come as rows do."""
    columns = [("day", "STRING NOT NULL"), ("k", "BIGINT NOT NULL"), ("v", "BIGINT")]
    w.catalog.create_table(
        f"{w.db}.visits",
        columns,
        ["day", "k"],
        ["day"],
        options={"bucket": "1", "changelog-producer": "none"},
    )
    w.table(
        "names",
        [("k", "BIGINT NOT NULL"), ("name", "STRING")],
        bucket="-1",
        changelog_producer="lookup",
        **{"dynamic-bucket.target-row-num": "3"},
    )
    query = w.sql(JOINED).materialize(f"{w.db}.result", options={"bucket": "-1"})
    query.wait(put_visits(w, 0))
    query.stop()
    query.resume()
    for number in (1, 2):
        query.wait(put_visits(w, number))
    die()


def _failed(w: Writing) -> None:
    """A row cannot be computed."""
    w.orders()
    query = w.sql(DIVIDED).materialize(f"{w.db}.result")
    w.follow(query, 0)
    orders = w.catalog.load_table(f"{w.db}.orders")
    commit(orders, "orders", 1, [{"k": 2, "v": 0}, {"k": 9, "v": 3}])
    query.wait_ended()


def _chained(w: Writing) -> None:
    """A query reads the result of another one; both have epochs that are in no checkpoint."""
    w.orders()
    first = w.sql(SIDES).materialize(f"{w.db}.sides")
    w.follow(first, 0)
    second = w.sql(COUNTED).materialize(f"{w.db}.result")
    second.wait(w.newest("sides"))
    for query in (first, second):
        query.stop()
        query.resume()
    w.follow(first, 1)
    second.wait(w.newest("sides"))
    w.follow(first, 2)
    second.wait(w.newest("sides"))
    die()


WRITTEN: dict[str, Callable[[Writing], None]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        *(_killed, _begun, _first, _stopped, _ended, _saved, _restoring),
        *(_warming, _decided, _switched, _upgraded, _undone),
        *(_summed, _sums_begun, _pair, _streamed, _followed, _called, _shared),
        *(_windowed, _parted, _failed, _chained),
    )
}
"""What writes a query, by its database."""
ALIVE = ("stopped", "ended", "streamed", "failed")
"""Databases whose processes end by themselves."""


def write(warehouse: Path, said: Path) -> None:
    for db in WRITTEN:
        command = [sys.executable, "-m", __spec__.name, WRITE, db, str(warehouse), str(said)]
        ended = subprocess.run(command, check=False).returncode
        if ended != (0 if db in ALIVE else -signal.SIGKILL):
            raise RuntimeError(f"the process that writes {db} ended with {ended}")


def _write_one(db: str, warehouse: str, said: str) -> None:
    options = {"owners": 1, "local_directory": f"{said}/local-{db}"}
    with pkray.connect(warehouse, runtime_options=options) as catalog:
        try:
            WRITTEN[db](Writing(catalog, db, Path(said, f"{db}.jsonl")))
        except pkray.QueryFailedError:
            assert db == "failed"


def content(warehouse: Path, said: Path) -> dict[str, Any]:
    """Give what is said of each query, of its results, and what programs were given."""
    with pkray.connect(warehouse) as catalog:
        return {db: content_of(catalog, db) | _given(said / f"{db}.jsonl") for db in WRITTEN}


def content_of(catalog: pkray.Catalog, db: str) -> dict[str, Any]:
    """Give what is said of the queries of a database, and of their results."""
    queries = [each for each in catalog.queries() if each.name.startswith(f"{db}.")]
    results = {
        name: results_of(catalog.load_table(name)) for each in queries for name in each.tables
    }
    return {"queries": {each.name: _status(each) for each in queries}, "results": results}


def _given(said: Path) -> dict[str, Any]:
    lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    return {"given": [json.loads(line) for line in lines]} if lines else {}


def _status(query: Any) -> dict[str, Any]:
    status = query.status()
    kept = ("state", "failure", "failed_node", "epoch", "sources", "upgrade")
    return {name: status[name] for name in kept if status.get(name) is not None}


def results_of(table: Any) -> dict[str, Any]:
    """Give the rows of each snapshot of a result, and the epoch with which it was committed."""
    return {
        str(number): {"epoch": epoch, "rows": rows(table.to_arrow(snapshot_id=number))}
        for number, epoch in epochs_of(table)
    }


def epochs_of(table: Any) -> Iterator[tuple[int, int | None]]:
    """List the snapshots of a result, and the epochs with which they were committed."""
    for number in table.snapshots()["snapshot_id"].to_pylist():
        properties = table.at(snapshot_id=number).snapshot.properties or {}
        epoch = properties.get("pkray.query.epoch")
        yield number, None if epoch is None else int(epoch)


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warehouse, said = Path(folder, "warehouse"), Path(folder, "said")
        said.mkdir()
        write(warehouse, said)
        time.sleep(SILENT_SECONDS)
        text = json.dumps(content(warehouse, said)).replace("]], [", "]],\n[")
        text = text.replace('}, "', '},\n"')
        (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        with tarfile.open(DATA / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(warehouse, "warehouse", filter=_nobody)


if __name__ == "__main__":
    if sys.argv[1] == WRITE:
        _write_one(*sys.argv[2:])
    else:
        main(sys.argv[1])
