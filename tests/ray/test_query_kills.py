"""Processes killed or stopped while a query computes epochs: nothing is lost, nothing comes twice.

A stopped process is replaced by whoever waits for it, after ``call_timeout``.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pkray

pytestmark = pytest.mark.ray

QUERY = (
    "SELECT coalesce(v % 7, 0) AS side, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most "
    "FROM t GROUP BY coalesce(v % 7, 0)"
)
KILLS = 10
COMMITS_A_KILL = 3
LONGEST_SECONDS = 120
"""In which the query has gone on."""


class Source:
    """Changes the table default.t at random, and knows what it holds."""

    def __init__(self, catalog: pkray.Catalog, seed: int) -> None:
        options = {"changelog-producer": "lookup", "bucket": "2"}
        columns = [("k", "INT"), ("v", "BIGINT")]
        self.table = catalog.create_table("default.t", columns, ["k"], options=options)
        self._random = random.Random(seed)
        self.rows: dict[int, int] = {}

    def change(self) -> int:
        """Commit some changes; give the snapshot."""
        keys = self._random.sample(range(3000), 500)
        deleted = [key for key in keys[400:] if key in self.rows]
        changed = {key: self._random.randrange(10_000) for key in keys[:400]}
        with self.table.open_writer() as writer:
            writer.upsert([{"k": key, "v": value} for key, value in changed.items()])
            if deleted:
                writer.delete([{"k": key} for key in deleted])
            snapshot = writer.commit()
        assert snapshot is not None
        self.rows.update(changed)
        for key in deleted:
            del self.rows[key]
        return int(snapshot.id)

    def answer(self) -> Counter[tuple[int, ...]]:
        """Compute what the query has to give."""
        groups: dict[int, list[int]] = {}
        for value in self.rows.values():
            groups.setdefault(value % 7, []).append(value)
        return Counter(
            (side, len(values), sum(values), max(values)) for side, values in groups.items()
        )


@pytest.fixture
def impatient(ray_cluster, tmp_path) -> Iterator[pkray.Catalog]:
    """A catalog that does not wait long for who is stopped."""
    options = {"owners": 2, "call_timeout": 3, "lookup_timeout": 3}
    warehouse = str(tmp_path / "warehouse")
    with pkray.connect(warehouse, runtime="ray", runtime_options=options) as catalog:
        yield catalog
        for query in catalog.queries():
            query.drop()
        for name in catalog.list_tables():
            catalog.drop_table(name)


@pytest.fixture
def source(impatient) -> Source:
    return Source(impatient, 15)


def owner_of(catalog: pkray.Catalog, name: str, number: int) -> int:
    owners = catalog.load_table(name).service_stats()["owners"]
    return int(owners[number % len(owners)]["pid"])


VICTIMS: dict[str, Callable[[Any, pkray.Catalog, int], int]] = {
    "the query": lambda query, catalog, number: int(query.status()["processes"][0]),
    "a worker of operators": lambda query, catalog, number: int(query.status()["processes"][1]),
    "an owner of the source": lambda query, catalog, number: owner_of(catalog, "default.t", number),
    "an owner of the result": lambda query, catalog, number: owner_of(catalog, "default.r", number),
    "the coordinator of the result": lambda query, catalog, number: int(
        catalog.load_table("default.r").service_stats()["coordinator"][0]["pid"]
    ),
}


def content(catalog: pkray.Catalog) -> Counter[tuple[int, ...]]:
    rows = catalog.load_table("default.r").to_arrow().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def replayed(catalog: pkray.Catalog) -> Counter[tuple[int, ...]]:
    """Add up the changelog of the result: every row is retracted as often as it says."""
    found: Counter[tuple[int, ...]] = Counter()
    for row in catalog.load_table("default.r").changelog().to_pylist():
        kind = row.pop("_row_kind")
        row.pop("_snapshot_id")
        found[tuple(row.values())] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in found.items() if count})


def check_killed(
    catalog: pkray.Catalog,
    source: Source,
    victim: str,
    kills: int,
    seed: int,
    sent: signal.Signals = signal.SIGKILL,
) -> list[str]:
    """Kill or stop a process at random moments of epochs; list what is wrong afterwards."""
    chance = random.Random(seed)
    catalog.sql("SET 'query.parallelism' = '2'")
    query = catalog.sql(QUERY).materialize(
        "default.r", options={"changelog-producer": "lookup", "bucket": "1"}
    )
    query.wait({"default.t": source.change()})
    wrong: list[str] = []
    for number in range(kills):
        pid = VICTIMS[victim](query, catalog, number)
        killer = threading.Timer(chance.uniform(0, 0.4), os.kill, (pid, sent))
        killer.start()
        for _ in range(COMMITS_A_KILL):
            last = source.change()
            time.sleep(chance.uniform(0, 0.1))
        killer.join()
        query.wait({"default.t": last}, timeout=LONGEST_SECONDS)
        if content(catalog) != source.answer():
            wrong.append(f"kill {number}: the result")
        if replayed(catalog) != source.answer():
            wrong.append(f"kill {number}: the changelog")
    if query.status()["failure"] is not None:
        wrong.append("it failed")
    snapshots = catalog.load_table("default.r").system("snapshots")["snapshot_id"].to_pylist()
    unequal = [each for each in snapshots if not query.verify(each).equal]
    if unequal:
        wrong.append(f"the snapshots {unequal} of {len(snapshots)}")
    query.stop()
    (state,) = (node for node in query.status()["nodes"] if node["type"] == "Aggregate")
    groups = catalog.load_table(f"default.r$state_{state['id']}").to_arrow().num_rows
    if groups != len(source.answer()):
        wrong.append(f"the state, of {groups} groups")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_query_goes_on_whatever_is_lost(impatient, source, victim, sent, record_property):
    begun = time.monotonic()
    wrong = check_killed(impatient, source, victim, KILLS, len(victim), sent)
    survived = max(KILLS - len(wrong), 0)
    said = f"{victim}: {survived} of {KILLS} {sent.name} survived"
    record_property("survived", said)
    print(f"{said}, {(time.monotonic() - begun) / KILLS:.1f} s each")
    assert wrong == []
