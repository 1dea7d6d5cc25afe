"""Backups and restorations that are killed after a change of a file: they are done again."""

import pytest

import pkray
from tests.faults.faulty_store import FaultyStore, Storage, faulty, put_files

QUERY = "SELECT v, COUNT(*) AS n FROM db.t GROUP BY v"
STRIDE = 3


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    """Whoever says nothing is lost at once."""
    monkeypatch.setattr("pkray.backup.turns.LOST_MILLIS", -1)


@pytest.fixture
def seen(monkeypatch):
    """Have stores of backups go through a `Storage` too."""

    def see(storage: Storage) -> None:
        from pkray.storage.opening import open_store

        def opened(url, **options):
            store = open_store(url, **options)
            return FaultyStore(store, storage) if storage.has(store.url) else store

        monkeypatch.setattr("pkray.api.backups.open_store", opened)

    return see


def put(table, rows: dict[int, int]) -> None:
    table.upsert([{"k": key, "v": value} for key, value in rows.items()], commit_user="job")


def content(catalog: pkray.Catalog, name: str = "db.t") -> list[dict]:
    found = catalog.load_table(name).to_arrow()
    return found.select([each for each in found.column_names if each != "_row_key"]).to_pylist()


def fill(catalog: pkray.Catalog) -> None:
    columns = [("k", "INT"), ("v", "INT")]
    table = catalog.create_table("db.t", columns, ["k"], options={"changelog-producer": "input"})
    put(table, {1: 1, 2: 2})
    query = catalog.sql(QUERY).materialize("db.r")
    query.wait({"db.t": table.latest_snapshot().id})
    query.stop()
    put(table, {3: 2})


def held(catalog: pkray.Catalog) -> list[str]:
    consumers = catalog.load_table("db.t").consumers.list()["consumer_id"].to_pylist()
    return [each for each in consumers if each.startswith("backup-")]


def test_a_backup_that_was_killed_is_made_again(new_root, process, survived, seen):
    storage = Storage(new_root("memory"))
    with faulty(storage), process(f"{storage.root}/warehouse") as catalog:
        fill(catalog)
        before = len(storage.changes)
        seen(storage)
        catalog.backups(f"{storage.root}/backups").create("one")
        expected = content(catalog)
    states = range(before, len(storage.changes) + 1, STRIDE)
    for changes in states:
        root = new_root("memory")
        put_files(root, storage.state(changes))
        with process(f"{root}/warehouse") as catalog:
            backups = catalog.backups(f"{root}/backups")
            made = [each.name for each in backups.list()]
            if not made:
                backups.create("one")
                assert held(catalog) == [], changes
            assert backups.verify("one").is_whole, changes
            assert content(catalog) == expected
        with process(f"{root}/other") as other:
            other.backups(f"{root}/backups").restore("one")
            assert content(other) == expected, changes
    survived(f"backups: {len(states)} of {len(states)} crash points survived")


def test_a_restoration_that_was_killed_is_done_again(new_root, process, survived, seen):
    storage = Storage(new_root("memory"))
    with process(f"{storage.root}/warehouse") as catalog:
        fill(catalog)
        catalog.backups(f"{storage.root}/backups").create("one")
        expected = content(catalog)
    files = {
        each.path: pkray.storage.opening.open_store(storage.root).read(each.path)
        for each in pkray.storage.opening.open_store(storage.root).list("", hidden=True)
    }
    with faulty(storage), process(f"{storage.root}/other") as other:
        other.backups(f"{storage.root}/backups").restore("one")
    states = range(0, len(storage.changes) + 1, STRIDE)
    for changes in states:
        root = new_root("memory")
        put_files(root, files | storage.state(changes))
        with process(f"{root}/other") as other:
            if other.table_exists("db.t"):
                assert content(other) == expected, changes
            other.backups(f"{root}/backups").restore("one", replace=True)
            assert content(other) == expected, changes
            query = other.query("db.r").resume()
            query.wait({"db.t": other.load_table("db.t").latest_snapshot().id}, timeout=120)
            assert query.verify().equal, changes
            query.drop()
    survived(f"restorations: {len(states)} of {len(states)} crash points survived")
