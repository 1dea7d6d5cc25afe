"""Tables whose columns change under the queries that read them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import pkray
from pkray.errors import PlanError, QueryFailedError
from tests.integration.relational.changed_rows import content, materialized

TOTALS = "SELECT side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY side"


@pytest.fixture
def put(catalog: pkray.Catalog) -> Callable[..., int]:
    """Change the table default.t; give the snapshot up to which it is told of."""
    columns = [("k", "INT"), ("side", "INT"), ("v", "INT"), ("unread", "INT")]
    catalog.create_table("default.t", columns, ["k"], options={"changelog-producer": "lookup"})

    def change(*rows: dict[str, Any]) -> int:
        table = catalog.load_table("default.t")
        snapshot = table.upsert(list(rows), missing="null")
        assert snapshot is not None
        return int(snapshot.id)

    return change


@pytest.mark.parametrize("change", ["add", "drop"])
def test_columns_that_a_query_does_not_read_come_and_go(catalog, put, tmp_path, change):
    query = materialized(catalog.sql(TOTALS), put, {"k": 1, "side": 1, "v": 1})
    alter = catalog.load_table("default.t").alter
    if change == "add":
        alter.add_column("more", "STRING")
    else:
        alter.drop_column("unread")
    query.wait({"default.t": put({"k": 2, "side": 1, "v": 2})})
    query.stop()
    assert catalog.sql(TOTALS).materialize("default.r").name == query.name
    query.wait({"default.t": put({"k": 3, "side": 2, "v": 3})})
    assert content(catalog) == Counter([(1, 2, 3), (2, 1, 3)])
    assert query.verify().equal
    assert query.diff(TOTALS).is_same


def test_a_plan_is_loaded_after_columns_came_that_it_does_not_read(catalog, put, tmp_path):
    put({"k": 1, "side": 1, "v": 1})
    path = str(tmp_path / "plan.json")
    everything = catalog.sql("SELECT * FROM t").compile_plan()
    catalog.sql(TOTALS).compile_plan().write(path)
    catalog.load_table("default.t").alter.add_column("more", "STRING")
    catalog.load_table("default.t").alter.drop_column("unread")
    found = catalog.load_plan(path).execute(continuous=False)
    assert found.to_pylist() == [{"side": 1, "n": 1, "total": 1}]
    everything.write(path, overwrite=True)
    with pytest.raises(PlanError, match="no column 'unread' any more"):
        catalog.load_plan(path)


def test_a_plan_of_all_columns_reads_no_column_that_came_later(catalog, put, tmp_path):
    put({"k": 1, "side": 1, "v": 1, "unread": 0})
    path = str(tmp_path / "plan.json")
    catalog.sql("SELECT * FROM t").compile_plan().write(path)
    catalog.load_table("default.t").alter.add_column("more", "STRING")
    found = catalog.load_plan(path).execute(continuous=False)
    assert found.to_pylist() == [{"k": 1, "side": 1, "v": 1, "unread": 0}]


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any] | str, str]] = {
    "dropped": (
        lambda alter: alter.drop_column("v"),
        TOTALS.replace("SUM(v)", "SUM(side)"),  # a column of its name would be another one
        "was dropped",
    ),
    "renamed": (
        lambda alter: alter.rename_column("v", "w"),
        lambda alter: alter.rename_column("w", "v"),
        "was renamed to w",
    ),
    "widened": (
        lambda alter: alter.change_type("v", "BIGINT"),
        TOTALS.replace("SUM(v)", "CAST(SUM(v) AS BIGINT)"),
        "was INT and is BIGINT now",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_column_that_is_read_stops_the_query_as_it_changes(catalog, put, name):
    change, mend, said = CHANGES[name]
    query = materialized(catalog.sql(TOTALS), put, {"k": 1, "side": 1, "v": 1})
    change(catalog.load_table("default.t").alter)
    number = put({"k": 2, "side": 1})
    with pytest.raises(QueryFailedError, match=rf"column 'v' of default\.t, .*node 1 .*{said}"):
        query.wait({"default.t": number})
    assert query.status()["state"] == "failed"
    assert content(catalog) == Counter([(1, 1, 1)])
    with pytest.raises(PlanError, match="/nodes/0/tableColumns/2"):
        query.resume()
    if isinstance(mend, str):
        query.upgrade(mend)
    else:
        mend(catalog.load_table("default.t").alter)
    query.resume()
    query.wait({"default.t": put({"k": 3, "side": 2, **({} if name == "dropped" else {"v": 3})})})
    assert content(catalog) == Counter(
        [(1, 2, 2), (2, 1, 2)] if name == "dropped" else [(1, 2, 1), (2, 1, 3)]
    )
    assert query.verify().equal


def test_an_upgrade_reads_a_column_that_was_just_added(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {"k": 1, "side": 1, "v": 1})
    catalog.load_table("default.t").alter.add_column("more", "INT")
    newer = TOTALS.replace("AS total", "AS total, SUM(more) AS more")
    query.upgrade(newer)
    assert content(catalog) == Counter([(1, 1, 1, None)])
    query.wait({"default.t": put({"k": 2, "side": 1, "v": 2, "more": 5})})
    assert content(catalog) == Counter([(1, 2, 3, 5)])
    assert query.verify().equal


def test_a_join_reads_a_column_that_was_just_added(catalog, put):
    query = catalog.sql("SELECT a.k, b.v FROM t a JOIN t b ON a.side = b.k").materialize(
        "default.r"
    )
    query.wait({"default.t": put({"k": 1, "side": 1, "v": 1})})
    catalog.load_table("default.t").alter.add_column("more", "INT")
    newer = "SELECT a.k, b.v, b.more FROM t a JOIN t b ON a.side = b.k"
    query.upgrade(newer)
    query.wait({"default.t": put({"k": 2, "side": 1, "v": 2, "more": 5})})
    query.wait({"default.t": put({"k": 1, "side": 2, "v": 1, "more": 6})})
    found = catalog.load_table("default.r").to_arrow().select(["k", "v", "more"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 2, 5), (2, 1, 6)]
    assert query.verify().equal


@pytest.mark.parametrize("change", ["replaced", "renamed"])
def test_rows_that_are_looked_up_in_a_source_have_their_columns_by_identity(catalog, put, change):
    before = put({"k": 1, "side": 7, "v": 1}, {"k": 2, "side": 8, "v": 2})
    catalog.create_table(
        "default.b", [("k", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    alter = catalog.load_table("default.t").alter
    if change == "renamed":
        alter.rename_column("v", "w")
    else:
        alter.drop_column("v")
        alter.add_column("w", "INT")
        alter.drop_column("side")
        alter.add_column("side", "INT")
    text = "SELECT b.k, t.w, t.side FROM b LEFT JOIN t ON b.k = t.k"
    query = catalog.sql(text).materialize("default.r")
    query.wait({"default.t": before})
    written = catalog.load_table("default.b").upsert([{"k": 1}, {"k": 3}])
    query.wait({"default.b": written.id})
    first = (1, 1, 7) if change == "renamed" else (1, None, None)
    found = catalog.load_table("default.r").to_arrow().select(["k", "w", "side"]).to_pylist()
    assert Counter(tuple(row.values()) for row in found) == Counter([first, (3, None, None)])
    assert query.verify().equal
