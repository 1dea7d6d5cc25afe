"""What waits for event time comes from several workers as from one, also when they change."""

import random
from collections import Counter
from typing import Any

import pytest

from pkray.relational import Changelog, changelog, query
from tests.unit.relational.continuous.event_times import at
from tests.unit.relational.continuous.histories import Row
from tests.unit.relational.continuous.parallel.teams import Workers

COLUMNS = {"k": "INT", "v": "INT", "at": "TIMESTAMP(3)"}
WINDOWS = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(at), INTERVAL '10' SECOND)))"
ON = "l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
RANKED = (
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k{} ORDER BY at, v) AS n "
    "FROM {}) WHERE n = 1"
)
QUERIES = {
    "window join": (
        f"SELECT l.k, l.v, r.v AS w FROM {WINDOWS.format('l')} l "
        f"FULL JOIN {WINDOWS.format('r')} r ON {ON}"
    ),
    "window top-n": RANKED.format(", window_start, window_end", WINDOWS.format("l")),
    "first rows": RANKED.format("", "l").replace(", v)", ")"),
    "interval join": (
        "SELECT l.k, l.v, r.v AS w FROM l FULL JOIN r ON l.k = r.k "
        "AND l.at BETWEEN r.at - INTERVAL '6' SECOND AND r.at + INTERVAL '2' SECOND"
    ),
    "temporal join": (
        "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r FOR SYSTEM_TIME AS OF l.at ON l.k = r.k"
    ),
}


def sources() -> dict[str, Changelog]:
    mark = ("at", "at - INTERVAL '5' SECOND")
    return {
        "l": changelog(COLUMNS, watermark=mark, name="l"),
        "r": changelog(COLUMNS, mode="upsert", primary_key=["k"], watermark=mark, name="r"),
    }


def rows(rng: random.Random, epoch: int) -> list[dict[str, Any]]:
    """Make rows, no two of one time, of which none is late."""
    times = rng.sample(range(epoch * 300, epoch * 300 + 300), 40)
    return [{"k": rng.randrange(9), "v": time, "at": at(time / 10)} for time in times]


def given(sql: str, counts: list[int]) -> Counter[Row]:
    rng, tables = random.Random(len(sql)), sources()
    read = {name: each for name, each in tables.items() if f"{name}." in sql or name == "l"}
    workers = Workers(query(sql, **read), counts[0])
    for epoch, count in enumerate(counts):
        workers.rescale(count)
        for each in read.values():
            each.push(rows(rng, epoch))
        workers.step()
    for each in read.values():
        each.finish()
    workers.step()
    workers.close()
    return workers.content


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", QUERIES)
def test_what_waits_comes_also_when_the_number_of_workers_changes(name: str) -> None:
    found = given(QUERIES[name], [1, 3, 2, 5])
    assert found
    assert found == given(QUERIES[name], [1, 1, 1, 1])
