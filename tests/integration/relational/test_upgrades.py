"""Plans that take over running queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pkray
from pkray.errors import UpgradeRefusedError

Put = Callable[..., int]


@pytest.fixture
def catalog(tmp_path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path / "warehouse") as opened:
        yield opened


def source(catalog: pkray.Catalog, name: str) -> Put:
    table = catalog.create_table(
        name, [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )

    def change(rows: dict[int, int | None], *deleted: int) -> int:
        with table.open_writer() as writer:
            if rows:
                writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            if deleted:
                writer.delete([{"k": key} for key in deleted])
            snapshot = writer.commit()
        assert snapshot is not None
        return int(snapshot.id)

    return change


@pytest.fixture
def put(catalog: pkray.Catalog) -> Put:
    return source(catalog, "default.t")


def rows_of(table: Any) -> Counter[tuple[Any, ...]]:
    kept = table.drop_columns([each for each in table.column_names if each == "_row_key"])
    return Counter(tuple(row.values()) for row in kept.to_pylist())


def content(catalog: pkray.Catalog, name: str = "default.r") -> Counter[tuple[Any, ...]]:
    return rows_of(catalog.load_table(name).to_arrow())


def fates(diff: Any) -> Counter[tuple[str, str]]:
    return Counter((each.fate, each.description.split("(")[0]) for each in diff.nodes)


TOTALS = "SELECT v % 3 AS side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY v % 3"


def test_a_filter_above_keeps_the_state_and_changes_the_result_in_one_snapshot(catalog, put):
    put({1: 1, 2: 2, 3: 3, 4: 4})
    query = catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({5: 5})})
    before = len(catalog.load_table("default.r").system("snapshots"))
    newer = catalog.sql(TOTALS + " HAVING COUNT(*) > 1")
    upgrade = query.upgrade(newer)
    assert fates(upgrade.diff) == Counter([("kept", "Aggregate")])
    assert len(catalog.load_table("default.r").system("snapshots")) == before + 1
    assert content(catalog) == rows_of(newer.to_arrow())
    query.wait({"default.t": put({6: 3, 7: 0}, 1)})
    assert content(catalog) == rows_of(newer.to_arrow())
    assert query.verify().equal


EDITS = {
    "a filter above": (
        TOTALS + " HAVING COUNT(*) > 1",
        [("kept", "Aggregate")],
    ),
    "a filter below": (
        TOTALS.replace("FROM t", "FROM t WHERE v <> 4"),
        [("warmed up", "Aggregate"), ("dropped", "Aggregate")],
    ),
    "a column that is computed": (
        TOTALS.replace("AS total", "AS total, SUM(v) * 2 AS twice"),
        [("kept", "Aggregate")],
    ),
    "another aggregate": (
        TOTALS.replace("AS total", "AS total, MAX(v) AS most"),
        [("warmed up", "Aggregate"), ("dropped", "Aggregate")],
    ),
    "an aggregate less": (
        TOTALS.replace("COUNT(*) AS n, ", ""),
        [("warmed up", "Aggregate"), ("dropped", "Aggregate")],
    ),
    "a renamed column": (
        TOTALS.replace("AS total", "AS amount"),
        [("kept", "Aggregate")],
    ),
    "other groups under the same name": (
        TOTALS.replace("v % 3", "v % 2"),
        [("warmed up", "Aggregate"), ("dropped", "Aggregate")],
    ),
    "a join": (
        "SELECT a.side, a.n, a.total, b.v AS w FROM (" + TOTALS + ") a LEFT JOIN u b"
        " ON a.side = b.k",
        [("kept", "Aggregate"), ("warmed up", "Join")],
    ),
    "another source": (
        TOTALS.replace("FROM t", "FROM u"),
        [("warmed up", "Aggregate"), ("dropped", "Aggregate")],
    ),
    "a wider type": (
        TOTALS.replace("SUM(v)", "CAST(SUM(v) AS DECIMAL(30, 0))"),
        [("kept", "Aggregate")],
    ),
    "state that expires": (
        TOTALS.replace("SELECT", "SELECT /*+ STATE_TTL('t' = '1 d') */"),
        [("kept", "Aggregate")],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_an_edit_gives_the_result_of_the_newer_plan_and_the_older_one_is_gone_back_to(
    catalog, put, edit, runs
):
    text, expected = EDITS[edit]
    put({1: 1, 2: 2, 3: 3, 4: 4, 5: 5})
    other = source(catalog, "default.u")
    other({0: 7, 1: 8, 9: 9})
    older = catalog.sql(TOTALS)
    query = older.materialize("default.r")
    query.wait({"default.t": put({6: 6}, 2)})
    if not runs:
        query.stop()
    newer = catalog.sql(text)
    upgrade = query.upgrade(newer)
    assert fates(upgrade.diff) == Counter(expected)
    assert content(catalog) == rows_of(newer.to_arrow())
    assert query.verify().equal
    if not runs:
        assert query.status()["state"] == "stopped"
        query.resume()
    follow(query, {"default.t": put({7: 4, 3: 0}, 1), "default.u": other({0: 1, 3: 3}, 1)})
    assert content(catalog) == rows_of(newer.to_arrow())
    assert query.verify().equal
    query.rollback()
    assert content(catalog) == rows_of(older.to_arrow())
    follow(query, {"default.t": put({8: 8}, 5), "default.u": other({5: 5})})
    assert content(catalog) == rows_of(older.to_arrow())
    assert query.verify().equal
    names = [name for name in catalog.load_table("default.r").schema.names if name != "_row_key"]
    assert names == ["side", "n", "total"]
    assert not left_behind(catalog)
    assert older.materialize("default.r").name == query.name


def follow(query: Any, snapshots: dict[str, int]) -> None:
    """Wait for those of the snapshots that the query reads."""
    read = query.status()["sources"]
    query.wait({name: number for name, number in snapshots.items() if name in read})


def left_behind(catalog: pkray.Catalog) -> list[str]:
    """List tags and consumers that only upgrades need."""
    tags = catalog.load_table("default.r").tags.list()["tag_name"].to_pylist()
    readers = catalog.load_table("default.t").consumers.list()["consumer_id"].to_pylist()
    return [*tags, *(name for name in readers if name != "query-default.r")]


REFUSED = {
    "other groups": (TOTALS.replace("side", "part"), "primaryKey"),
    "rows without a key": ("SELECT v % 3 AS side, 1L AS n, 2L AS total FROM t", "primaryKey"),
    "a narrower type": (TOTALS.replace("COUNT(*)", "CAST(COUNT(*) AS INT)"), "columns/n/type"),
    "another type": (TOTALS.replace("COUNT(*)", "CAST(COUNT(*) AS STRING)"), "columns/n/type"),
}


@pytest.mark.parametrize("edit", REFUSED)
def test_what_a_result_cannot_become_is_refused_by_the_field_that_differs(catalog, put, edit):
    text, field = REFUSED[edit]
    query = catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2})})
    assert [each.differs for each in query.diff(text).refused] == [(field,)]
    with pytest.raises(UpgradeRefusedError, match="cannot be upgraded") as refused:
        query.upgrade(text)
    assert refused.value.field == field
    query.wait({"default.t": put({3: 3})})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())
