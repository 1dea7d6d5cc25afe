"""A row that takes the place of its key's comes as an update: -U and +U, one after the other."""

import random
from typing import Any

import pytest

from pkray.relational import Changelog, changelog, query
from tests.unit.relational.continuous.event_times import at
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of
from tests.unit.relational.continuous.parallel.teams import Workers
from tests.unit.relational.continuous.test_run_random_plans import upserts

FIRST = (
    "SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, k) AS n"
    " FROM a) WHERE n {which}"
)
QUERIES: dict[str, tuple[str, str]] = {
    "first": (FIRST.format(columns="g, k, v", which="= 1"), "g"),
    "first, numbered": (FIRST.format(columns="g, k, v, n", which="= 1"), "g"),
    "third": (FIRST.format(columns="g, k, v", which="= 3"), "g"),
    "first three": (FIRST.format(columns="g, k, v", which="<= 3"), "k"),
    "first of all": ("SELECT * FROM a ORDER BY v DESC, k LIMIT 1", ""),
    "some of all": ("SELECT * FROM a ORDER BY v DESC, k LIMIT 4", "k"),
    "after the first": ("SELECT * FROM a ORDER BY v DESC, k OFFSET 2", "k"),
    "newest": (FIRST.format(columns="g, k, v", which="= 1").replace("v DESC, k", "at DESC"), "g"),
    "groups": ("SELECT g, sum(v) AS s, max(k) AS m FROM a GROUP BY g", "g"),
    "one group": ("SELECT count(*) AS n, sum(v) AS s FROM a", ""),
    "groups of groups": (
        "SELECT m, count(*) AS n FROM (SELECT g, max(v) AS m FROM a GROUP BY g) GROUP BY m",
        "m",
    ),
    "inner join": ("SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k", "k"),
    "left join": ("SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k", "k"),
    "right join": ("SELECT b.k, a.v, b.v AS w FROM a RIGHT JOIN b ON a.k = b.k", "k"),
    "join by another column": ("SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.g = b.k", "k"),
    "semi join": ("SELECT k, g, v FROM a WHERE g IN (SELECT g FROM b WHERE v > 4)", "k"),
    "anti join": ("SELECT k, g, v FROM a WHERE k NOT IN (SELECT k FROM b WHERE v > 4)", "k"),
    "looked up": ("SELECT k, (SELECT max(v) FROM b WHERE b.g = a.k) AS m FROM a", "k"),
    "distinct": ("SELECT DISTINCT k, g, v FROM a", "k"),
    "except": ("SELECT k, v FROM a EXCEPT SELECT k, v FROM b", "k"),
    "sums so far": ("SELECT k, v, sum(v) OVER (PARTITION BY g ORDER BY v, k) AS s FROM a", "k"),
    "ranks": ("SELECT k, rank() OVER (ORDER BY v DESC) AS place FROM a", "k"),
    "neighbours": ("SELECT k, lag(v) OVER (PARTITION BY g ORDER BY v, k) AS u FROM a", "k"),
    "sums above": (
        "SELECT k, s FROM (SELECT k, sum(v) OVER (ORDER BY v, k) AS s FROM a) WHERE s > 9",
        "k",
    ),
    "joined ranks": (
        "SELECT r.k, r.place, b.v FROM "
        "(SELECT k, rank() OVER (ORDER BY v DESC) AS place FROM a) r JOIN b ON r.k = b.k",
        "k",
    ),
    "joined numbers": (
        "SELECT r.k, r.n, b.v FROM (SELECT k, n FROM (SELECT k, row_number() OVER "
        "(ORDER BY v DESC, k) AS n FROM a) WHERE n <= 3) r JOIN b ON r.k = b.k",
        "k",
    ),
    "as it is": ("SELECT k, v + g AS w FROM a", "k"),
}
COLUMNS = {"k": "INT NOT NULL", "g": "INT", "v": "INT", "at": "TIMESTAMP(3) NOT NULL"}


def row(rng: random.Random) -> dict[str, Any]:
    return {"k": 0, "g": rng.randrange(4), "v": rng.randrange(10), "at": at(rng.randrange(20))}


class Tables:
    """Two tables with keys, changed at random."""

    def __init__(self, seed: str, mode: Any) -> None:
        self._rng = random.Random(seed)
        self._mode = mode
        self.sources: dict[str, Changelog] = {
            name: changelog(COLUMNS, primary_key=["k"], mode=mode, name=name) for name in "ab"
        }
        self._histories = {name: RandomHistory(self._rng, row, keyed=True) for name in "ab"}

    def push(self, text: str) -> None:
        for name in "ab":
            if f" {name}" in text and self._rng.random() < 0.8:
                told = self._histories[name].epoch(self._rng.randrange(1, 12))
                self.sources[name].push(upserts(told) if self._mode == "upsert" else told)


def check_kinds(told: list[tuple[str, tuple[Any, ...]]], key: tuple[int, ...]) -> int:
    """Check the changes of an epoch; give how many updates there are."""
    gone: dict[Any, int] = {}
    come: dict[Any, int] = {}
    for place, (kind, found) in enumerate(told):
        known = gone if kind in ("-U", "-D") else come
        of_key = tuple(found[column] for column in key)
        assert of_key not in known, f"{found} has changed twice"
        known[of_key] = place
    for of_key in gone.keys() & come.keys():
        first = gone[of_key]
        assert come[of_key] == first + 1, f"{told[first]} and what replaces it are apart"
        assert (told[first][0], told[first + 1][0]) == ("-U", "+U"), told[first : first + 2]
    return len(gone.keys() & come.keys())


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("workers", "mode"), [(1, "all"), (3, "upsert")])
@pytest.mark.parametrize("name", QUERIES)
def test_a_key_that_stays_is_updated(name: str, workers: int, mode: str) -> None:
    text, key = QUERIES[name]
    tables = Tables(name, mode)
    run = Workers(query(text, **tables.sources), workers)
    fields = run.plan.fields.names
    places = tuple(fields.index(column) for column in key.split())
    updates = 0
    for _ in range(14):
        tables.push(text)
        seen = len(run.told)
        run.step()
        for batch in run.told[seen:]:
            rows = [tuple(each.values()) for each in batch.drop_columns(["_epoch"]).to_pylist()]
            updates += check_kinds([(kind, found) for kind, *found in rows], places)
    run.check()
    assert updates
    run.close()


APPENDED = {"_row_kind": "+I", "at": at(0)}


@pytest.mark.parametrize("columns", ["g, k, v", "k, v"])
@pytest.mark.parametrize("mode", ["insert", "all"])
def test_the_first_row_takes_the_place_of_the_one_before(mode: Any, columns: str) -> None:
    a = changelog(COLUMNS, mode=mode, name="a")
    text = FIRST.format(columns=columns, which="= 1")
    run = Continuous(query(text, a=a), {"a": a})
    run.push("a", [{**APPENDED, "k": 1, "g": 1, "v": 5}, {**APPENDED, "k": 2, "g": 2, "v": 5}])
    made = run.push(
        "a", [{**APPENDED, "k": 3, "g": 1, "v": 7}, {**APPENDED, "k": 4, "g": 2, "v": 1}]
    )
    left = columns == "k, v"
    before, after = ((1, 5), (3, 7)) if left else ((1, 1, 5), (1, 3, 7))
    assert kinds_of(made) == [("-U", before), ("+U", after)]
