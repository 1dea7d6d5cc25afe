"""Tags, branches and rollback as other engines and other processes meet them."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime

import pytest

import pkray
from tests.integration.readers import RustCatalog, rows_of

OPTIONS = {"bucket": "2"}


@pytest.fixture
def warehouse(tmp_path) -> str:
    with pkray.connect(str(tmp_path)) as catalog:
        catalog.create_table("db.t", [("k", "BIGINT"), ("v", "STRING")], ["k"], options=OPTIONS)
    return str(tmp_path)


def put(table: pkray.Table, rows: dict[int, str]) -> int:
    return table.upsert([{"k": key, "v": value} for key, value in rows.items()]).id


def same(warehouse: str, statement: str, table: pkray.Table, **moment: object) -> None:
    ours = rows_of(table.to_arrow(**moment), ["k"])
    assert ours
    assert rows_of(RustCatalog(warehouse).sql(statement), ["k"]) == ours


def test_tags_and_times_read_the_same_in_rust(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a", 2: "b"})
        table.tags.create("first")
        put(table, {2: "c", 3: "d"})
        between = table.latest_snapshot().time_millis
        time.sleep(1.1)  # SQL says whole seconds
        put(table, {4: "e"})
        table.tags.create("kept", 2, time_retained="7 d")
        table.compact()
        for tag in ("first", "kept"):
            same(warehouse, f"SELECT * FROM paimon.db.t VERSION AS OF '{tag}'", table, tag=tag)
        for number in (1, 2, 3, 4):
            same(
                warehouse,
                f"SELECT * FROM paimon.db.t VERSION AS OF {number}",
                table,
                snapshot_id=number,
            )
        text = datetime.fromtimestamp(between / 1000 + 1).strftime("%Y-%m-%d %H:%M:%S")
        statement = f"SELECT * FROM paimon.db.t TIMESTAMP AS OF '{text}'"
        same(warehouse, statement, table, timestamp=text)
        assert table.to_arrow(timestamp=text).num_rows == 3
        said = RustCatalog(warehouse).sql('SELECT * FROM paimon.db."t$tags"')
        assert sorted(said["tag_name"].to_pylist()) == ["first", "kept"]
        retained = dict(zip(*said.select(["tag_name", "time_retained"]).columns, strict=True))
        assert {str(k): v.as_py() for k, v in retained.items()} == {"first": None, "kept": "PT168H"}


def test_branches_read_the_same_in_rust(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a", 2: "b"})
        table.tags.create("first")
        put(table, {3: "main"})
        table.branches.create("b", tag="first")
        branch = catalog.load_table("db.t$branch_b")
        put(branch, {2: "branch", 9: "new"})
        branch.compact()
        put(branch, {10: "newer"})
        same(warehouse, 'SELECT * FROM paimon.db."t$branch_b"', branch)
        same(warehouse, "SELECT * FROM paimon.db.t", table)
        names = RustCatalog(warehouse).sql('SELECT * FROM paimon.db."t$branches"')
        assert names["branch_name"].to_pylist() == ["b"]
        table.branches.fast_forward("b")
        same(warehouse, "SELECT * FROM paimon.db.t", branch)


def test_a_table_that_was_rolled_back_reads_the_same_in_rust(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        for turn in range(4):
            put(table, {turn: "a", 100: f"turn {turn}"})
        table.compact()
        table.rollback_to(snapshot_id=2)
        same(warehouse, "SELECT * FROM paimon.db.t", table)
        put(table, {50: "anew"})
        same(warehouse, "SELECT * FROM paimon.db.t", table)
        assert {row[0] for row in rows_of(table.to_arrow(), ["k"])} == {0, 1, 50, 100}


def roll_back(warehouse: str, snapshot_id: int, then: int) -> None:
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        table.rollback_to(snapshot_id=snapshot_id)
        for turn in range(then):
            put(table, {200 + turn: "other process"})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("then", [0, 1, 3, 8])
def test_a_writer_goes_on_after_another_process_rolled_back(warehouse, then):
    """However far the other process committed on: short of, at or past what was known here."""
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        writer = table.open_writer("long running")
        for turn in range(5):
            writer.upsert([{"k": turn, "v": "own"}, {"k": 100, "v": f"turn {turn}"}])
            writer.commit()
        writer.upsert([{"k": 300, "v": "not committed yet"}])
        newest = table.latest_snapshot().id
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(roll_back, warehouse, 2, then).result(timeout=120)
        snapshot = writer.commit()
        expected = {0: "own", 1: "own", 100: "turn 1", 300: "not committed yet"}
        expected |= {200 + turn: "other process" for turn in range(then)}
        assert snapshot.id >= 2 + then + 1
        writer.upsert([{"k": 301, "v": "and on"}])
        writer.commit()
        expected[301] = "and on"
        assert dict(rows_of(table.to_arrow(), ["k"])) == expected
        keys = [{"k": key} for key in sorted([*expected, 4])]
        for visibility in ("latest", "committed"):
            found = table.lookup(keys, visibility=visibility)
            assert dict(rows_of(found, ["k"])) == expected
        table.compact()
        same(warehouse, "SELECT * FROM paimon.db.t", table)
        ids = table.snapshots()["snapshot_id"].to_pylist()
        assert ids == list(range(1, ids[-1] + 1))
        assert newest >= 5
        writer.close()
