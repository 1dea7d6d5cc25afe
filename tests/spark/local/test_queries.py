"""SQL over a catalog's tables, and views of them: the rows of pkray's own reading."""

from datetime import date, time
from pathlib import Path

import pytest

import pkray
import pkray.spark
from pkray.errors import (
    InputError,
    OptionError,
    QueryError,
    SnapshotNotFoundError,
    UnsupportedError,
)
from pkray.scan.view import SnapshotView

COLUMNS = {"id": "BIGINT NOT NULL", "customer": "STRING", "amount": "DOUBLE", "day": "DATE"}


@pytest.fixture
def orders(catalog):
    table = catalog.create_table("shop.orders", COLUMNS, ["id"], options={"bucket": "2"})
    table.upsert([order(number) for number in range(10)])
    table.upsert([order(number, "again") for number in range(5)])
    return table


@pytest.fixture
def session(spark):
    """The package's session; the views that a test makes are dropped."""
    yield spark
    for each in spark.catalog.listTables():
        if each.isTemporary:
            spark.catalog.dropTempView(each.name)


@pytest.fixture
def planned(monkeypatch):
    """The columns and the predicate of each read that is planned, and its splits."""
    plans: list[tuple[list[str], str, int]] = []
    plain = SnapshotView.plan

    def noted(self, columns, predicate):
        splits = plain(self, columns, predicate)
        files = sum(len(split.files) for split in splits)
        plans.append((list(columns), str(predicate), files))
        return splits

    monkeypatch.setattr(SnapshotView, "plan", noted)
    return plans


def order(number: int, customer: str = "first") -> dict[str, object]:
    day = date(2026, 1, number % 28 + 1)
    return {"id": number, "customer": customer, "amount": float(number), "day": day}


def values(frame) -> list[tuple]:
    return [tuple(row) for row in frame.collect()]


def test_a_query_reads_tables_and_temporary_views(session, catalog, orders) -> None:
    session.range(3).createOrReplaceTempView("few")
    text = """
        WITH orders AS (SELECT * FROM shop.orders WHERE amount > 0)
        SELECT orders.customer, count(*) AS n, max(few.id) AS last FROM orders
        JOIN few ON few.id = orders.id WHERE few.id IN (SELECT id FROM shop.orders) GROUP BY 1
    """
    assert values(pkray.spark.sql(session, catalog, text)) == [("again", 2, 2)]


def test_columns_are_qualified_by_the_name_of_their_table(session, catalog, orders) -> None:
    text = "SELECT orders.id FROM shop.orders WHERE orders.id = (SELECT max(id) FROM shop.orders)"
    assert values(pkray.spark.sql(session, catalog, text)) == [(9,)]


def test_each_call_reads_the_newest_snapshot_and_its_frame_stays(session, catalog, orders) -> None:
    before = pkray.spark.sql(session, catalog, "SELECT count(*) FROM shop.orders")
    orders.delete([{"id": 1}])
    assert values(before) == [(10,)]
    assert values(pkray.spark.sql(session, catalog, "SELECT count(*) FROM shop.orders")) == [(9,)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("moment", [{"snapshot": 1}, {"tag": "old"}, {"timestamp": "2999-01-01"}])
def test_a_query_reads_the_moment_that_is_named(session, catalog, orders, moment) -> None:
    orders.tags.create("old", 1)
    text = "SELECT customer FROM shop.orders WHERE id = 1"
    expected = catalog.sql(text).to_arrow(**moment)[0].to_pylist()
    assert [row[0] for row in values(pkray.spark.sql(session, catalog, text, **moment))] == expected


def test_a_query_of_a_snapshot_that_was_never_made_is_refused(session, catalog, orders) -> None:
    with pytest.raises(SnapshotNotFoundError):
        pkray.spark.sql(session, catalog, "SELECT * FROM shop.orders", snapshot=9)


@pytest.fixture
def times(session, catalog):
    """A table with a TIME; the session's setting for that type is as Spark comes with it."""
    columns = {"id": "INT NOT NULL", "at": "TIME(3)"}
    table = catalog.create_table("shop.times", columns, ["id"])
    table.upsert([{"id": 1, "at": time(9, 30)}, {"id": 2, "at": None}])
    session.conf.unset("spark.sql.timeType.enabled")
    return table


def test_a_query_reads_columns_of_type_time(session, catalog, times) -> None:
    frame = pkray.spark.sql(session, catalog, "SELECT at FROM shop.times WHERE id = 1")
    assert values(frame) == [(time(9, 30),)]


@pytest.mark.slow
def test_a_view_a_relation_and_a_read_have_columns_of_type_time(session, catalog, times) -> None:
    assert times.relation().filter("at IS NOT NULL").to_spark(session).count() == 1
    pkray.spark.views(session, catalog, ["shop.times"])
    assert values(session.sql("SELECT max(at), count(*) FROM times")) == [(time(9, 30), 2)]
    session.conf.unset("spark.sql.timeType.enabled")
    assert pkray.spark.read(session, times).where("at IS NOT NULL").count() == 1


def test_a_query_takes_arguments(session, catalog, orders) -> None:
    named = "SELECT id FROM shop.orders WHERE customer = :name AND id > 3"
    assert values(pkray.spark.sql(session, catalog, named, {"name": "again"})) == [(4,)]
    placed = "SELECT count(*) FROM shop.orders WHERE customer = ?"
    assert values(pkray.spark.sql(session, catalog, placed, ["again"])) == [(5,)]


def test_a_query_reads_views_system_tables_and_branches(session, catalog, orders) -> None:
    catalog.create_view("shop.large", "SELECT id, amount * 2 AS twice FROM shop.orders WHERE id>7")
    orders.tags.create("old", 1)
    orders.branches.create("side", "old")
    text = """
        SELECT twice, (SELECT count(*) FROM shop.`orders$snapshots` WHERE snapshot_id > 1),
            (SELECT max(customer) FROM shop.`orders$branch_side`)
        FROM shop.large ORDER BY 1
    """
    expected = [(16.0, 1, "first"), (18.0, 1, "first")]
    assert values(pkray.spark.sql(session, catalog, text)) == expected


def test_all_rows_of_a_table_are_a_query(session, catalog, orders) -> None:
    assert len(values(pkray.spark.sql(session, catalog, "TABLE shop.orders ORDER BY id"))) == 10


def test_a_query_without_tables_is_sparks(session, catalog) -> None:
    assert values(pkray.spark.sql(session, catalog, "SELECT 1 + 1")) == [(2,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT customer FROM shop.orders", ["customer"]),
        ("SELECT * FROM shop.orders", ["id", "customer", "amount", "day"]),
        ("SELECT count(*) FROM shop.orders", ["id"]),
        ("SELECT count(amount) FROM shop.orders", ["amount"]),
        ("SELECT count(id) FROM shop.orders", ["id"]),
        ("SELECT count(*) FROM shop.orders WHERE id IS NOT NULL", ["id"]),
        (
            "SELECT id FROM (SELECT * EXCEPT (day) FROM shop.orders) ORDER BY amount",
            ["id", "amount"],
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT customer, day FROM shop.orders)",
            ["customer", "day"],
        ),
        ("SELECT id FROM shop.orders WHERE day > DATE '2026-01-03'", ["id", "day"]),
    ],
)
def test_the_columns_read_are_those_that_a_query_looks_at(
    session, catalog, orders, planned, text, columns
) -> None:
    expected = sorted(tuple(row.values()) for row in catalog.sql(text).to_arrow().to_pylist())
    planned.clear()
    assert sorted(values(pkray.spark.sql(session, catalog, text))) == expected
    assert [read for read, _, _ in planned] == [columns]


def test_the_same_table_is_read_by_what_each_mention_needs(
    session, catalog, orders, planned
) -> None:
    text = "SELECT id FROM shop.orders UNION ALL SELECT max(day(day)) FROM shop.orders"
    assert len(values(pkray.spark.sql(session, catalog, text))) == 11
    assert [read for read, _, _ in planned] == [["id"], ["day"]]


def test_files_without_rows_of_a_query_are_not_read(session, catalog, planned) -> None:
    columns = {"id": "INT NOT NULL", "dt": "STRING NOT NULL", "v": "INT"}
    table = catalog.create_table(
        "shop.parts", columns, ["dt", "id"], partition_keys=["dt"], options={"bucket": "1"}
    )
    table.upsert([{"id": n, "dt": f"d{n % 4}", "v": n} for n in range(40)])
    texts = {
        "SELECT v FROM shop.parts WHERE dt = 'd1' AND v > 20": 1,
        "SELECT v FROM shop.parts WHERE dt IN ('d1', 'd2')": 2,
        "SELECT v FROM shop.parts WHERE dt > 'd2' OR id = 1": 4,
        "SELECT v FROM shop.parts WHERE id > 38": 1,
    }
    for text, files in texts.items():
        expected = sorted(catalog.sql(text).to_arrow()[0].to_pylist())
        planned.clear()
        assert sorted(row[0] for row in values(pkray.spark.sql(session, catalog, text))) == expected
        assert [count for _, _, count in planned] == [files], text


def test_a_query_of_the_present_day_leaves_no_files_out(session, catalog, orders, planned) -> None:
    text = "SELECT count(*) FROM shop.orders WHERE day <= current_date()"
    assert pkray.spark.sql(session, catalog, text).count() == 1
    assert [predicate for _, predicate, _ in planned] == ["None"]


def test_files_that_need_no_merging_are_read_by_spark(session, catalog, orders) -> None:
    text = "SELECT customer FROM shop.orders WHERE amount > 3"
    merged = pkray.spark.sql(session, catalog, text)
    assert "pkray-read" in plan(merged)
    orders.compact(full=True)
    raw = pkray.spark.sql(session, catalog, text)
    assert "pkray-read" not in plan(raw)
    assert "ReadSchema: struct<customer:string,amount:double>" in plan(raw)
    assert "GreaterThan(amount,3.0)" in plan(raw)
    assert sorted(values(raw)) == sorted(values(merged))


def plan(frame) -> str:
    return frame._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO shop.orders SELECT * FROM shop.orders",
        "WITH x AS (SELECT 1) INSERT INTO shop.orders SELECT * FROM x",
        "DROP TABLE shop.orders",
        "DELETE FROM shop.orders",
        "CREATE TABLE x AS SELECT * FROM shop.orders",
        "SET x = 1",
        "EXPLAIN SELECT * FROM shop.orders",
        "SELECT * FROM shop.orders VERSION AS OF 1",
    ],
)
def test_what_is_no_query_is_refused(session, catalog, orders, text) -> None:
    with pytest.raises(UnsupportedError, match=r"pkray\.spark\.sql"):
        pkray.spark.sql(session, catalog, text)


def test_unknown_names_are_refused(session, catalog, orders) -> None:
    with pytest.raises(QueryError, match=r"shop\.order.*shop\.orders"):
        pkray.spark.sql(session, catalog, "SELECT * FROM shop.order")
    with pytest.raises(QueryError, match="options"):
        pkray.spark.sql(session, catalog, "SELECT * FROM shop.orders WITH (a = 1)")
    with pytest.raises(InputError, match="catalog"):
        pkray.spark.sql(session, "warehouse", "SELECT 1")


def test_a_name_that_a_temporary_view_has_too_is_refused(session, catalog) -> None:
    catalog.create_table("default.few", COLUMNS, ["id"])
    session.range(3).createOrReplaceTempView("few")
    with pytest.raises(QueryError, match=r"default\.few.*dropTempView"):
        pkray.spark.sql(session, catalog, "SELECT * FROM few")
    assert values(pkray.spark.sql(session, catalog, "SELECT count(*) FROM default.few")) == [(0,)]


def test_a_table_made_anew_under_its_name_is_the_one_that_is_read(session, catalog, orders) -> None:
    pkray.spark.views(session, catalog, ["shop.orders"])
    catalog.drop_table("shop.orders")
    anew = catalog.create_table("shop.orders", {"id": "INT NOT NULL", "x": "INT"}, ["id"])
    anew.upsert([{"id": 1, "x": 7}])
    assert values(pkray.spark.sql(session, catalog, "SELECT * FROM shop.orders")) == [(1, 7)]
    assert values(pkray.spark.sql(session, catalog, "SELECT * FROM orders")) == [(1, 7)]
    pkray.spark.views(session, catalog, ["shop.orders"])
    assert values(session.sql("SELECT x FROM orders")) == [(7,)]


def test_views_stay_until_they_are_moved_and_queries_move_by_themselves(
    session, catalog, orders
) -> None:
    catalog.create_table("shop.empty", COLUMNS, ["id"])
    both = {"empty": "shop.empty", "orders": "shop.orders"}
    assert pkray.spark.views(session, catalog, database="shop") == both
    orders.delete([{"id": 1}])
    count = "SELECT count(*) FROM orders LEFT JOIN empty USING (id)"
    assert values(session.sql(count)) == [(10,)]
    assert values(pkray.spark.sql(session, catalog, count)) == [(9,)]
    pkray.spark.views(session, catalog, database="shop")
    assert values(session.sql(count)) == [(9,)]


def test_views_are_named_and_pinned(session, catalog, orders) -> None:
    names = {"before": "shop.orders"}
    assert pkray.spark.views(session, catalog, names, snapshot=1) == names
    assert values(session.sql("SELECT DISTINCT customer FROM before")) == [("first",)]


def test_a_view_of_compacted_files_reads_the_columns_of_the_query(session, catalog, orders) -> None:
    orders.compact(full=True)
    pkray.spark.views(session, catalog, ["shop.orders"])
    frame = session.sql("SELECT customer FROM orders WHERE amount > 8")
    assert "ReadSchema: struct<customer:string,amount:double>" in plan(frame)
    assert "GreaterThan(amount,8.0)" in plan(frame)
    assert values(frame) == [("first",)]


def test_a_view_of_files_to_be_merged_takes_filters(session, catalog, orders, tmp_path) -> None:
    pkray.spark.views(session, catalog, ["shop.orders"])
    frame = session.sql("SELECT customer FROM orders WHERE amount > 8")
    assert "pkray-read" in plan(frame)
    assert values(frame) == [("first",)]


def test_views_refuse_names_that_are_others(session, catalog, orders) -> None:
    session.range(3).createOrReplaceTempView("orders")
    with pytest.raises(QueryError, match=r"'orders'.*dropTempView"):
        pkray.spark.views(session, catalog, ["shop.orders"])
    catalog.create_table("old.orders", COLUMNS, ["id"])
    with pytest.raises(QueryError, match=r"shop\.orders and old\.orders"):
        pkray.spark.views(session, catalog, ["shop.orders", "old.orders"])
    with pytest.raises(QueryError, match=r"shop\.nothing"):
        pkray.spark.views(session, catalog, ["shop.nothing"])
    for given in ({}, {"tables": ["shop.orders"], "database": "shop"}):
        with pytest.raises(OptionError, match="one of them"):
            pkray.spark.views(session, catalog, **given)
    assert values(session.sql("SELECT count(*) FROM orders")) == [(3,)]


def test_a_query_of_another_warehouse_does_not_take_a_view_for_its_table(
    session, catalog, orders, tmp_path: Path
) -> None:
    pkray.spark.views(session, catalog, ["shop.orders"])
    with pkray.connect(tmp_path / "other") as other:
        assert values(pkray.spark.sql(session, other, "SELECT count(*) FROM orders")) == [(10,)]
        other.create_table("shop.orders", COLUMNS, ["id"])
        with pytest.raises(QueryError, match="something else"):
            pkray.spark.views(session, other, ["shop.orders"])


def test_the_frame_of_a_query_belongs_to_the_session(session, catalog, orders) -> None:
    frame = pkray.spark.sql(session, catalog, "SELECT id FROM shop.orders WHERE id > 7")
    frame.createOrReplaceTempView("large")
    assert values(session.sql("SELECT count(*) FROM large")) == [(2,)]
    assert frame.join(session.range(9), "id").count() == 1
    assert not [each for each in session.catalog.listTables("global_temp") if not each.isTemporary]
    named = [each.name for each in session.catalog.listTables("global_temp")]
    assert [name for name in named if name.startswith("pkray_")] == []
