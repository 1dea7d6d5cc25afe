"""Backups of a warehouse: made beside writers, proved, restored, deleted."""

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import pkray
from pkray import errors

COLUMNS = [("k", "INT"), ("v", "INT")]


def connect(folder: Path) -> pkray.Catalog:
    return pkray.connect(folder, runtime_options={"owners": 1})


@pytest.fixture
def catalog(tmp_path):
    with connect(tmp_path / "warehouse") as catalog:
        yield catalog


@pytest.fixture
def other(tmp_path):
    with connect(tmp_path / "other") as catalog:
        yield catalog


@pytest.fixture
def table(catalog):
    options = {"changelog-producer": "lookup", "bucket": "2"}
    return catalog.create_table("db.t", COLUMNS, ["k"], options=options)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "backups"


def put(table, rows: dict[int, int]) -> int:
    table.upsert([{"k": key, "v": value} for key, value in rows.items()], commit_user="job")
    return table.latest_snapshot().id


def rows(table) -> dict[int, int]:
    found = table.to_arrow().to_pydict()
    return dict(zip(found["k"], found["v"], strict=True))


def files_of(store: Path) -> list[Path]:
    return sorted(each for each in store.rglob("*") if each.is_file())


def test_a_copy_has_what_the_table_had_when_the_backup_was_made(catalog, other, table, store):
    put(table, {1: 1, 2: 2})
    catalog.backups(store).create("one")
    put(table, {1: 3})
    other.backups(store).restore("one")
    assert rows(other.load_table("db.t")) == {1: 1, 2: 2}


def test_the_next_backup_copies_only_what_is_new(catalog, table, store):
    put(table, {number: number for number in range(1000)})
    backups = catalog.backups(store)
    backups.create("one")
    before = {each: each.stat().st_mtime_ns for each in (store / "files").rglob("*.parquet")}
    put(table, {1: 7})
    backups.create("two")
    after = {each: each.stat().st_mtime_ns for each in (store / "files").rglob("*.parquet")}
    assert before.items() < after.items()
    assert backups.verify("two").is_whole


def test_a_table_made_in_the_place_of_another_shares_nothing(catalog, other, table, store):
    put(table, {1: 1})
    backups = catalog.backups(store)
    backups.create("one")
    catalog.drop_table("db.t")
    put(catalog.create_table("db.t", COLUMNS, ["k"]), {5: 5})
    backups.create("two")
    other.backups(store).restore("one")
    assert rows(other.load_table("db.t")) == {1: 1}


def test_views_and_empty_databases_are_copied(catalog, other, table, store):
    put(table, {1: 1, 2: -1})
    catalog.create_view("db.positive", catalog.sql("SELECT * FROM db.t WHERE v > 0"))
    catalog.create_database("empty")
    catalog.backups(store).create("one")
    other.backups(store).restore("one")
    assert other.sql("SELECT k FROM db.positive").to_arrow()["k"].to_pylist() == [1]
    assert other.list_databases() == ["db", "empty"]


def test_some_tables_are_restored_alone(catalog, other, table, store):
    put(table, {1: 1})
    catalog.create_table("db.u", COLUMNS, ["k"])
    catalog.backups(store).create("one")
    other.backups(store).restore("one", ["db.t"])
    assert other.list_tables() == ["db.t"]
    with pytest.raises(errors.TableNotFoundError, match=r"no table db\.x: it has db\.t, db\.u"):
        other.backups(store).restore("one", ["db.x"])


def test_nothing_is_written_over_unless_it_is_said(catalog, other, table, store):
    put(table, {1: 1})
    catalog.backups(store).create("one")
    there = other.create_table("db.t", COLUMNS, ["k"])
    put(there, {9: 9})
    with pytest.raises(errors.BackupError, match=r"there already: table db\.t;.*replace=True"):
        other.backups(store).restore("one")
    assert rows(there) == {9: 9}
    other.backups(store).restore("one", replace=True)
    assert rows(other.load_table("db.t")) == {1: 1}


def test_a_writer_of_what_was_there_writes_nothing_to_the_copy(catalog, table, store):
    put(table, {1: 1})
    catalog.backups(store).create("one")
    with connect(Path(catalog.warehouse)) as elsewhere:
        with elsewhere.load_table("db.t").open_writer("job") as writer:
            writer.upsert([{"k": 2, "v": 2}])
            catalog.backups(store).restore("one", replace=True)
            with pytest.raises(errors.TableReplacedError):
                writer.commit()
    assert rows(catalog.load_table("db.t")) == {1: 1}


def test_a_job_goes_on_with_the_copy_where_it_was(catalog, other, table, store):
    with table.open_writer("job") as writer:
        for number in (1, 2):
            writer.upsert([{"k": number, "v": number}])
            writer.commit(number)
    catalog.backups(store).create("one")
    other.backups(store).restore("one")
    with other.load_table("db.t").open_writer("job") as writer:
        writer.upsert([{"k": 2, "v": 99}])
        writer.commit(2)  # again
        writer.upsert([{"k": 3, "v": 3}])
        writer.commit(3)
    assert rows(other.load_table("db.t")) == {1: 1, 2: 2, 3: 3}


def test_backups_beside_writers_and_expiry_are_of_one_moment(catalog, table, store, tmp_path):
    """Each snapshot holds one value in all of its rows."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        value = 0
        try:
            while not stop.is_set():
                value += 1
                put(table, dict.fromkeys(range(20), value))
                if value % 3 == 0:
                    table.compact(full=True)
                if value % 4 == 0:
                    table.expire_snapshots(retain_max=2, retain_min=1)
        except BaseException as error:
            failed.append(error)

    put(table, dict.fromkeys(range(20), 0))
    thread = threading.Thread(target=write)
    thread.start()
    backups = catalog.backups(store)
    try:
        for number in range(4):
            backups.create(f"b{number}")
    finally:
        stop.set()
        thread.join(120)
    assert not failed
    for number in range(4):
        assert backups.verify(f"b{number}").is_whole
        with connect(tmp_path / f"copy{number}") as copy:
            copy.backups(store).restore(f"b{number}")
            restored = copy.load_table("db.t")
            ids = restored.system("snapshots")["snapshot_id"].to_pylist()
            for each in ids:
                assert len(set(restored.to_arrow(snapshot_id=each)["v"].to_pylist())) == 1
    assert not [name for name in table.consumers.list()["consumer_id"].to_pylist() if name]


@pytest.mark.parametrize("kind", ["gone", "shorter", "other"])
def test_each_damage_is_found_and_never_restored(catalog, other, table, store, kind):
    put(table, {1: 1, 2: 2})
    table.tags.create("kept")
    put(table, {1: 3})
    catalog.create_view("db.view", catalog.sql("SELECT * FROM db.t"))
    catalog.backups(store).create("one")
    backups = other.backups(store)
    files = [each for each in files_of(store) if each.parent.name not in ("turns", store.name)]
    assert len(files) > 10
    for file in files:
        data = file.read_bytes()
        if kind == "gone":
            file.unlink()
        else:
            file.write_bytes(data[:-1] if kind == "shorter" else data[:-1] + bytes([data[-1] ^ 1]))
        with suppress(
            errors.BackupNotFoundError, errors.CorruptFileError
        ):  # of what says what it holds
            assert not backups.verify("one").is_whole, file
        with pytest.raises((errors.BackupError, errors.CorruptFileError)):
            backups.restore("one", replace=True)
        file.write_bytes(data)
    assert backups.verify("one").is_whole


def test_deleting_a_backup_leaves_what_others_need(catalog, table, store):
    put(table, {1: 1})
    backups = catalog.backups(store)
    backups.create("one")
    put(table, {2: 2})
    backups.create("two")
    backups.delete("one")
    assert [each.name for each in backups.list()] == ["two"]
    assert backups.verify("two").is_whole
    assert backups.delete("two") > 0
    assert {each.parent.name for each in files_of(store)} == {"turns", store.name}


def test_names_are_taken_once_and_lead_nowhere(catalog, table, store):
    backups = catalog.backups(store)
    backups.create("one")
    with pytest.raises(errors.BackupExistsError, match="'one' already"):
        backups.create("one")
    with pytest.raises(errors.OptionError):
        backups.create("../one")
    with pytest.raises(errors.BackupNotFoundError, match="no backup 'two': there is one"):
        backups.restore("two")


def test_a_copied_query_stands_still_and_goes_on_where_it_was(catalog, other, table, store):
    query = catalog.sql("SELECT v, COUNT(*) AS n FROM db.t GROUP BY v").materialize("db.r")
    query.wait({"db.t": put(table, {1: 1, 2: 1, 3: 2})})
    catalog.backups(store).create("one")
    assert query.status()["state"] == "running"
    assert query.savepoints() == []
    query.wait({"db.t": put(table, {1: 2})})
    other.backups(store).restore("one")
    copy, copied = other.query("db.r"), other.load_table("db.t")
    assert copy.status()["state"] == "stopped"
    assert copy.status()["copy_of"].startswith(catalog.warehouse)
    copy.resume()
    copy.wait({"db.t": put(copied, {4: 2})})
    assert copy.verify().equal
    found = other.load_table("db.r").to_arrow().to_pydict()
    assert Counter(dict(zip(found["v"], found["n"], strict=True))) == {1: 2, 2: 2}
    query.wait({"db.t": put(table, {5: 5})})
    assert query.verify().equal
    for each in (query, copy):
        each.drop()


def test_a_query_over_an_empty_source_is_copied(catalog, other, store, monkeypatch):
    with monkeypatch.context() as patch:  # tables that are alike, and have one identity
        patch.setattr("pkray.table.catalog.now_millis", lambda: 1_700_000_000_000)
        catalog.create_table("db.t", COLUMNS, ["k"])
        left = catalog.create_table("db.u", COLUMNS, ["k"])
    text = "SELECT u.k, t.v FROM db.u u LEFT JOIN db.t t ON u.k = t.k"
    query = catalog.sql(text).materialize("db.r")
    query.wait({"db.u": put(left, {1: 1})})
    catalog.backups(store).create("one")
    query.drop()
    other.backups(store).restore("one")
    copy = other.query("db.r").resume()
    copy.wait({"db.t": put(other.load_table("db.t"), {1: 7})})
    assert copy.verify().equal
    assert other.load_table("db.r").to_arrow()["v"].to_pylist() == [7]
    copy.drop()


def test_a_chain_of_queries_is_copied(catalog, other, table, store):
    first = catalog.sql("SELECT v, COUNT(*) AS n FROM db.t GROUP BY v").materialize("db.a")
    second = catalog.sql("SELECT n, COUNT(*) AS m FROM db.a GROUP BY n").materialize("db.b")
    first.wait({"db.t": put(table, {1: 1, 2: 1, 3: 2})})
    second.wait({"db.a": catalog.load_table("db.a").latest_snapshot().id})
    catalog.backups(store).create("one")
    other.backups(store).restore("one")
    copies = [other.query(name).resume() for name in ("db.a", "db.b")]
    copies[0].wait({"db.t": put(other.load_table("db.t"), {4: 2})})
    copies[1].wait({"db.a": other.load_table("db.a").latest_snapshot().id})
    assert all(each.verify().equal for each in copies)
    assert other.load_table("db.b").to_arrow().select(["n", "m"]).to_pylist() == [{"n": 2, "m": 2}]
    for each in (*copies, second, first):
        each.drop()


def test_a_query_that_is_not_copied_is_named(catalog, table, store):
    query = catalog.sql("SELECT v, COUNT(*) AS n FROM db.t GROUP BY v").materialize("db.r")
    query.stop()
    made = catalog.backups(store).create("one")
    assert ("db.r" in made.left_out) != ("db.r" in made.queries)
    query.drop()
