"""Tables and queries of random histories, backed up at random moments; copies go on elsewhere."""

import random
import re
import uuid
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import pkray
from pkray.errors import QueryNotFoundError, SnapshotNotFoundError
from tests.effort import examples

COLUMNS = [("k", "INT"), ("part", "INT"), ("v", "INT")]
OPTIONS = {"bucket": "2", "changelog-producer": "lookup"}
TEXTS = {
    "db.sums": "SELECT part, SUM(v) AS total, COUNT(*) AS n FROM db.a GROUP BY part",
    "db.pairs": "SELECT a.k, a.v AS av, b.v AS bv FROM db.a a JOIN db.b b ON a.k = b.k",
    "db.firsts": "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY part "
    "ORDER BY v, k) AS place FROM db.b) WHERE place <= 2",
    "db.totals": "SELECT n, SUM(total) AS total FROM db.sums GROUP BY n",
}
"""By result; the last one reads what the first one writes."""
SOURCES = ("db.a", "db.b")
SECONDS = 120


def bag(rows: Any, columns: list[str] | None = None) -> Counter[tuple[Any, ...]]:
    """Count the rows of a table, or of an answer, by what they hold."""
    names = columns or rows.column_names
    return Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))


def looked_at(table: pkray.Table, number: int) -> tuple[Counter[Any], Counter[Any]]:
    """What a snapshot holds, and what had changed since the one before."""
    changes = table.changelog(from_snapshot=number, to_snapshot=number)
    return bag(table.to_arrow(snapshot_id=number)), bag(changes)


class History:
    """Two tables that are written at random, and queries over them that come and go.

    Attributes:
        seen: what each snapshot of each table held, and what had changed since the one before.
    """

    def __init__(self, catalog: pkray.Catalog, chance: random.Random) -> None:
        self.catalog = catalog
        self.chance = chance
        self.seen: dict[str, dict[int, tuple[Counter[Any], Counter[Any]]]]
        self.seen = {name: {} for name in SOURCES}

    def create(self) -> None:
        for name in SOURCES:
            self.catalog.create_table(name, COLUMNS, ["k"], options=OPTIONS)
            self.write(name)

    def write(self, name: str) -> None:
        """Commit changes of some rows, and note what the table holds then."""
        table = self.catalog.load_table(name)
        keys = self.chance.sample(range(30), self.chance.randint(1, 12))
        gone = {key for key in keys if self.chance.random() < 0.25}
        rows = [
            {"k": key, "part": key % 4, "v": self.chance.randrange(100)}
            for key in keys
            if key not in gone
        ]
        with table.open_writer("job") as writer:
            writer.upsert(rows)
            writer.delete([{"k": key} for key in gone])
            writer.commit()
        self.note(name)

    def note(self, name: str) -> None:
        table = self.catalog.load_table(name)
        for number in table.snapshots()["snapshot_id"].to_pylist():
            if number not in self.seen[name]:
                self.seen[name][number] = looked_at(table, number)

    def step(self) -> None:
        """Change something."""
        name = self.chance.choice(SOURCES)
        table = self.catalog.load_table(name)
        queries = self.catalog.queries()
        match self.chance.randrange(9):
            case 0:
                table.compact()
                self.note(name)
            case 1:
                table.expire_snapshots(retain_min=2, retain_max=3)
            case 2:
                table.tags.create(uuid.uuid4().hex)
            case 3 if queries:
                query = self.chance.choice(queries)
                query.resume() if query.status()["state"] == "stopped" else query.stop()
            case 4 if queries:
                with suppress(QueryNotFoundError, SnapshotNotFoundError):  # its first epoch runs
                    self.chance.choice(queries).savepoint(uuid.uuid4().hex)
            case 5 | 6:
                self.begin(self.chance.choice([*TEXTS]))
            case _:
                self.write(name)

    def begin(self, result: str) -> None:
        made = self.catalog.list_tables()
        if result not in made and (result != "db.totals" or "db.sums" in made):
            self.catalog.sql(TEXTS[result]).materialize(result, options={"bucket": "1"})

    def catch_up(self) -> None:
        """Have all queries go on, and check that each is at its sources' newest snapshots."""
        queries = {query.name: query for query in self.catalog.queries()}
        for result, text in TEXTS.items():
            query = queries.get(result)
            if query is None:
                continue
            if query.status()["state"] == "stopped":
                query.resume()
            sources = re.findall(r"(?:FROM|JOIN) (db\.\w+)", text)
            newest = {name: self.catalog.load_table(name).latest_snapshot() for name in sources}
            query.wait({name: at.id for name, at in newest.items() if at}, timeout=SECONDS)
            answer = self.catalog.sql(text).to_arrow()
            found = self.catalog.load_table(result).to_arrow()
            assert bag(found, answer.column_names) == bag(answer), result
            assert query.verify().equal, result

    def close(self) -> None:
        for query in reversed(self.catalog.queries()):
            query.drop()


def check_tables(copy: pkray.Catalog, history: History, newest: dict[str, int]) -> None:
    """Check that copies hold what the tables held at each snapshot until their newest ones."""
    for name in SOURCES:
        table = copy.load_table(name)
        snapshots = table.snapshots()["snapshot_id"].to_pylist()
        assert max(snapshots) == newest[name]
        for number in snapshots:
            assert looked_at(table, number) == history.seen[name][number]
        tags = history.catalog.load_table(name).tags.list()["tag_name"].to_pylist()
        assert set(table.tags.list()["tag_name"].to_pylist()) <= set(tags)


STORES = {
    "folders": ("folder", "folder", "folder"),
    "memory": ("memory", "memory", "memory"),
    "through a folder": ("s3", "folder", "s3"),
    "through S3": ("folder", "s3", "folder"),
}
"""Where the warehouse, its backups and the copies are."""
REST = ("folders", "memory", "through a folder")


@pytest.fixture
def places(tmp_path, request):
    """Gives the URL of a name in a store of a kind, and what opens it."""
    unique = uuid.uuid4().hex

    def place(kind: str, name: str) -> tuple[str, dict[str, Any]]:
        if kind == "folder":
            return str(tmp_path / name), {}
        if kind == "memory":
            return f"memory://{unique}/{name}", {}
        bucket = f"backups-{unique}"
        request.getfixturevalue("s3").create_bucket(Bucket=bucket)
        options = {**request.getfixturevalue("s3_options"), "allow_http": True}
        return f"s3://{bucket}/{name}", options

    return place


def opened(place: tuple[str, dict[str, Any]]) -> pkray.Catalog:
    url, options = place
    return pkray.connect(url, runtime_options={"owners": 1}, **options)


@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize(
    "stores", ["through S3", *(pytest.param(each, marks=pytest.mark.slow) for each in REST)]
)
def test_copies_of_queries_go_on_where_they_were(places, stores, seed):
    chance = random.Random(f"{stores} {seed}")
    first, between, last = STORES[stores]
    store, options = places(between, "backups")
    with opened(places(first, "first")) as catalog:
        history = History(catalog, chance)
        history.create()
        backups = catalog.backups(store, **options)
        for number in range(2):
            for _ in range(12):
                history.step()
            made = backups.create(f"b{number}")
            newest = {name: max(history.seen[name]) for name in SOURCES}
            for _ in range(3):
                history.step()
            assert backups.verify(made.name).is_whole
            with opened(places(last, f"copy{number}")) as copy:
                copy.backups(store, **options).restore(made.name)
                check_tables(copy, history, newest)
                assert {query.name for query in copy.queries()} == set(made.queries)
                assert {query.status()["state"] for query in copy.queries()} <= {"stopped"}
                gone_on = History(copy, chance)
                for _ in range(3):
                    gone_on.write(chance.choice(SOURCES))
                gone_on.catch_up()
                gone_on.close()
        history.catch_up()
        history.close()
