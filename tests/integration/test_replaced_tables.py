"""A table that another process drops and creates anew, under whatever has the old one open."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

import pkray
from pkray.errors import TableNotFoundError, TableReplacedError
from pkray.scan.file_set_cache import file_sets

OLD = [("id", "BIGINT"), ("v", "INT")]
NEW = [("id", "BIGINT"), ("w", "STRING"), ("x", "DOUBLE")]
REMEDY = r"table db\.t was dropped, and another one created .* load it again"


@pytest.fixture(params=["disk", "memory"])
def catalogs(request, tmp_path):
    warehouse = tmp_path if request.param == "disk" else f"memory://{uuid.uuid4().hex}"
    with pkray.connect(warehouse) as mine, pkray.connect(warehouse) as theirs:
        yield mine, theirs


def fill(table: pkray.Table, commits: int, row: dict[str, Any]) -> None:
    for number in range(commits):
        table.upsert([{"id": number, **row}], commit_user="job", commit_identifier=number)


def replace(catalog: pkray.Catalog, commits: int, columns: Any = NEW) -> pkray.Table:
    catalog.drop_table("db.t")
    created = catalog.create_table("db.t", columns, ["id"])
    fill(created, commits, {"w": "new", "x": 0.5} if columns is NEW else {"v": 9})
    return created


def state(table: pkray.Table) -> tuple[Any, ...]:
    return table.to_arrow().to_pylist(), table.snapshots()["snapshot_id"].to_pylist()


@pytest.mark.parametrize("columns", [OLD, NEW], ids=["same columns", "other columns"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0), (2, 1), (1, 4)])
def test_an_open_writer_is_told_and_nothing_of_the_new_table_changes(
    catalogs, before, after, columns
):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, before, {"v": 1})
    with table.open_writer("late") as writer:
        writer.upsert([{"id": 7, "v": 7}])
        created = replace(theirs, after, columns)
        expected = state(created)
        for _ in range(2):
            with pytest.raises(TableReplacedError, match=REMEDY):
                writer.commit()
    assert state(created) == expected
    fresh = mine.load_table("db.t")
    fill(fresh, 1, {"v": 3} if columns is OLD else {"w": "b", "x": 1.0})
    assert fresh.lookup([{"id": 7}]).num_rows == 0
    assert fresh.to_arrow()["id"].to_pylist() == list(range(max(after, 1)))


def test_an_expired_history_hides_nothing(catalogs):
    """The new table has gone on, and its snapshot of the id that was known has expired."""
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 1, {"v": 1})
    assert table.to_arrow().num_rows == 1
    with table.open_writer("late") as writer:
        writer.upsert([{"id": 7, "v": 7}])
        created = replace(theirs, 4, OLD)
        created.expire_snapshots(retain_max=1, retain_min=1)
        for use in (writer.commit, table.to_arrow, lambda: table.lookup([{"id": 1}])):
            with pytest.raises(TableReplacedError, match=REMEDY):
                use()
    assert state(created) == ([{"id": n, "v": 9} for n in range(4)], [4])


USES: dict[str, Callable[[pkray.Table], Any]] = {
    "read": lambda table: table.to_arrow(),
    "read of a snapshot": lambda table: table.to_arrow(snapshot_id=1),
    "lookup": lambda table: table.lookup([{"id": 1}]),
    "committed lookup": lambda table: table.lookup([{"id": 1}], visibility="committed"),
    "changelog": lambda table: table.changelog(),
    "stream": lambda table: next(table.stream(until_snapshot=2)),
    "system table": lambda table: table.files(),
    "alter": lambda table: table.alter.add_column("note", "STRING"),
    "compact": lambda table: table.compact(),
    "overwrite": lambda table: table.overwrite([{"id": 1, "v": 5}]),
    "rescale": lambda table: table.rescale(2),
    "rollback": lambda table: table.rollback_to(1),
    "tag": lambda table: table.tags.create("v1"),
    "expire": lambda table: table.expire_snapshots(retain_max=1),
    "dedicated": lambda table: table.compact_dedicated(full=True),
    "ingest": lambda table: table.open_push("query", 7).commit([]),
}


CASES = [("another process", use) for use in USES] + [
    (who, use)
    for who in ("this process", "nobody has used it")
    for use in ("read", "lookup", "alter", "ingest")
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("who", "use"), CASES)
def test_whatever_holds_the_old_table_is_told(catalogs, who, use):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(theirs.load_table("db.t"), 2, {"v": 1})
    if who != "nobody has used it":
        assert table.to_arrow().num_rows == table.lookup([{"id": 0}, {"id": 1}]).num_rows == 2
    created = replace(mine if who == "this process" else theirs, 3)
    expected = state(created)
    with pytest.raises(TableReplacedError, match=REMEDY):
        USES[use](table)
    assert state(created) == expected
    assert mine.load_table("db.t").lookup([{"id": 2}])["w"].to_pylist() == ["new"]


def test_a_stream_of_changes_that_waits_is_told(catalogs):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 1, {"v": 1})
    with table.stream("reader", poll_interval=0.01) as changes:
        assert next(changes)["v"].to_pylist() == [1]
        created = replace(theirs, 3)
        with pytest.raises(TableReplacedError, match=REMEDY):
            next(changes)
    assert created.system("consumers").num_rows == 0


@pytest.mark.parametrize("is_anew", [False, True])
def test_a_read_that_was_planned_is_told(catalogs, is_anew):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 2, {"v": 1})
    planned = [*table.splits(), *table._reads.changes().reader(False).splits(1, 2)]
    theirs.drop_table("db.t")
    if is_anew:
        fill(theirs.create_table("db.t", OLD, ["id"]), 3, {"v": 9})
    error, said = (TableReplacedError, REMEDY) if is_anew else (TableNotFoundError, "was dropped")
    for split in planned:
        with pytest.raises(error, match=said):
            list(split.read())


def test_a_push_under_way_is_told(catalogs):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 1, {"v": 1})
    session = table.open_push("query", 5)
    pusher = session.target().open(0, 0)
    pusher.push([{"id": 7, "v": 7}], None)
    created = replace(theirs, 1)
    expected = state(created)
    with pytest.raises(TableReplacedError, match=REMEDY):
        session.commit([pusher.finish()])
    session.abort()
    assert state(created) == expected


def test_a_dropped_table_takes_no_commit(catalogs):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 1, {"v": 1})
    with table.open_writer("late") as writer:
        writer.upsert([{"id": 7, "v": 7}])
        theirs.drop_table("db.t")
        with pytest.raises(TableNotFoundError, match=r"db\.t does not exist any more"):
            writer.commit()
    assert list(table.location.open().list("snapshot")) == []
    assert theirs.list_tables() == []


@pytest.mark.parametrize("is_anew", [True, False], ids=["replaced", "dropped"])
def test_whoever_reads_a_moment_found_before_is_told(catalogs, is_anew):
    mine, theirs = catalogs
    table = mine.create_table("db.t", OLD, ["id"])
    fill(table, 2, {"v": 1})
    view = table.at()
    theirs.drop_table("db.t")
    if is_anew:
        theirs.create_table("db.t", OLD, ["id"])
    file_sets.clear()  # as another process plans
    with pytest.raises(TableReplacedError if is_anew else TableNotFoundError, match=r"db\.t"):
        view.to_arrow()
