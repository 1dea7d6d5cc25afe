"""Queries of keyed tables: by methods, by SQL, at moments, through views."""

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest

import pkray
from pkray import errors
from pkray.relational import col, from_arrow
from pkray.relational.api import func as f

COLUMNS = [("id", "INT"), ("region", "STRING"), ("amount", "DECIMAL(10, 2)")]
ROWS = [
    {"id": 1, "region": "n", "amount": "1.50"},
    {"id": 2, "region": "s", "amount": "2.50"},
    {"id": 3, "region": None, "amount": None},
]


@pytest.fixture
def orders(catalog):
    table = catalog.create_table("shop.orders", COLUMNS, ["id"], options={"bucket": "2"})
    table.upsert(rows(ROWS))
    return table


def rows(given):
    text = pa.schema([("id", pa.int32()), ("region", pa.string()), ("amount", pa.string())])
    return pa.Table.from_pylist(given, text).set_column(
        2, "amount", pa.array([row["amount"] for row in given]).cast(pa.decimal128(10, 2))
    )


def found(relation, **at):
    return [tuple(row.values()) for row in relation.to_arrow(**at).to_pylist()]


def test_methods_and_sql_read_a_table(catalog, orders):
    by_methods = orders.relation().filter(col("amount") > 1).select("id", r=f.upper("region"))
    by_sql = catalog.sql("SELECT id, upper(region) AS r FROM shop.orders WHERE amount > 1")
    assert by_methods.plan == by_sql.plan
    assert sorted(found(by_sql)) == [(1, "N"), (2, "S")]
    assert by_sql.schema == pa.schema([pa.field("id", pa.int32(), False), ("r", pa.string())])


def test_a_relation_reads_what_is_committed_when_it_runs(orders):
    relation = orders.relation()
    orders.delete([{"id": 1}])
    assert relation.count() == 2
    orders.upsert(rows([{"id": 9, "region": "w", "amount": "0.10"}]))
    assert relation.count() == 3


def test_a_join_reads_its_tables_at_one_instant(catalog, orders):
    names = catalog.create_table(
        "shop.names", [("region", "STRING"), ("name", "STRING")], ["region"]
    )
    names.upsert([{"region": "n", "name": "north"}])
    joined = orders.relation().join(names.relation(), "region", "left")
    assert joined.columns == ["region", "id", "amount", "name"] or joined.columns == [
        "id",
        "region",
        "amount",
        "name",
    ]
    assert Counter(row["name"] for row in joined.to_arrow().to_pylist()) == {"north": 1, None: 2}
    assert joined.to_arrow(snapshot={"shop.orders": 1}).num_rows == 3
    with pytest.raises(errors.QueryError, match=r"may be of shop\.names or shop\.orders"):
        joined.to_arrow(snapshot=1)
    with pytest.raises(errors.OptionError, match=r"'shop\.other'"):
        joined.to_arrow(snapshot={"shop.other": 1})


def test_moments_are_named_by_snapshot_tag_and_time(catalog, orders):
    orders.tags.create("v1")
    orders.delete([{"id": 1}])
    relation = catalog.sql("SELECT id FROM shop.orders")
    assert sorted(found(relation, snapshot=1)) == [(1,), (2,), (3,)]
    assert sorted(found(relation, tag="v1")) == [(1,), (2,), (3,)]
    assert sorted(found(relation, timestamp=dt.datetime.now())) == [(2,), (3,)]
    with pytest.raises(errors.OptionError, match="name a moment each"):
        relation.to_arrow(snapshot=1, tag="v1")
    with pytest.raises(errors.SnapshotNotFoundError):
        relation.to_arrow(snapshot=99)
    with pytest.raises(errors.OptionError, match="reads none"):
        catalog.sql("SELECT 1").to_arrow(tag="v1")


@pytest.mark.parametrize(
    "table",
    [
        "shop.orders VERSION AS OF 1",
        "shop.orders VERSION AS OF 'v1'",
        "shop.orders /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */",
        "shop.orders /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */",
    ],
)
def test_queries_name_moments_of_a_table(catalog, orders, table):
    orders.tags.create("v1")
    orders.delete([{"id": 1}])
    assert found(catalog.sql(f"SELECT count(*) FROM {table}")) == [(3,)]
    assert found(catalog.sql("SELECT count(*) FROM shop.orders")) == [(2,)]


def test_options_that_reads_have_not_are_refused(catalog, orders):
    with pytest.raises(errors.OptionError, match=r"did you mean 'scan.snapshot-id'"):
        catalog.sql("SELECT * FROM shop.orders /*+ OPTIONS('scan.snapshotid' = '1') */")
    with pytest.raises(errors.OptionError, match="'bucket'"):
        orders.relation().hint("OPTIONS", {"bucket": "4"})


def test_changes_between_snapshots_are_read_by_options(catalog, orders):
    orders.upsert(rows([{"id": 9, "region": "w", "amount": "0.10"}]))
    changed = orders.relation().hint("OPTIONS", {"incremental-between": "1,2"})
    assert found(changed.select("id")) == [(9,)]
    assert changed.count() == 1


def test_system_tables_are_queried(catalog, orders):
    assert found(catalog.sql("SELECT count(*) FROM shop.orders$snapshots")) == [(1,)]
    newest = catalog.sql("SELECT max(snapshot_id) AS n FROM shop.`orders$snapshots`")
    assert found(newest) == [(1,)]
    files = catalog.load_table("shop.orders$files").relation()
    assert files.count() == len(orders.files())
    with pytest.raises(errors.QueryError, match="nope"):
        catalog.sql("SELECT * FROM shop.orders$nope")
    with pytest.raises(errors.QueryError, match="read alone"):
        catalog.sql("DELETE FROM shop.orders$snapshots")


def test_files_are_left_out_by_conditions(catalog):
    table = catalog.create_table("d.t", [("day", "STRING"), ("id", "INT")], ["day", "id"], ["day"])
    table.upsert([{"day": "a", "id": 1}, {"day": "b", "id": 2}])
    from pkray.relational.running import pinned, prepare

    plan = prepare(pinned(table.relation().filter("day = 'a'").select("id").plan))
    scan = next(node for node in plan.walk() if not node.inputs)
    assert scan.columns == ("id",) or set(scan.columns) == {"day", "id"}
    assert found(table.relation().filter("day = 'a'").select("id")) == [(1,)]


def test_sources_tell_counts_and_bounds_from_statistics(orders):
    source = orders.relation().plan.source
    assert source.row_count() == 3
    bounds = source.statistics("id")
    assert (bounds.least, bounds.greatest, bounds.nulls) == (1, 3, 0)
    assert source.statistics("region").nulls == 1


def test_views_are_stored_and_read_with_the_names_of_their_database(catalog, orders, tmp_path):
    catalog.sql("USE shop")
    catalog.create_view("dear", "SELECT id, amount FROM orders WHERE amount > 2")
    catalog.create_view("default.dear2", catalog.sql("SELECT id FROM dear"))
    catalog.sql("USE default")
    assert found(catalog.sql("SELECT * FROM shop.dear JOIN dear2 USING (id)"))[0][0] == 2
    assert catalog.views() == ["default.dear2", "shop.dear"]
    assert catalog.list_tables("shop") == ["shop.orders"]
    with pkray.connect(tmp_path / "warehouse") as other:
        assert other.sql("SELECT id FROM shop.dear").to_arrow()["id"].to_pylist() == [2]


def test_views_and_tables_share_their_names(catalog, orders):
    catalog.create_view("shop.v", "SELECT 1 AS one")
    with pytest.raises(errors.TableExistsError, match="is a view"):
        catalog.create_table("shop.v", COLUMNS, ["id"])
    with pytest.raises(errors.TableExistsError, match="is a table"):
        catalog.create_view("shop.orders", "SELECT 1 AS one")
    with pytest.raises(errors.TableExistsError, match="exists already"):
        catalog.create_view("shop.v", "SELECT 2 AS two")
    with pytest.raises(errors.TableError, match=r"shop\.orders, shop\.v|shop\.v"):
        catalog.drop_database("shop")
    catalog.drop_view("shop.v")
    with pytest.raises(errors.TableNotFoundError):
        catalog.drop_view("shop.v")
    catalog.drop_view("shop.v", if_exists=True)


def test_temporary_views_are_of_one_catalog_and_come_first(catalog, orders, tmp_path):
    catalog.create_view("orders", from_arrow({"x": [1]}), temporary=True)
    assert found(catalog.sql("SELECT * FROM orders")) == [(1,)]
    assert found(catalog.sql("SELECT count(*) FROM shop.orders")) == [(3,)]
    with pytest.raises(errors.QueryError, match="in memory"):
        catalog.create_view("shop.kept", catalog.sql("SELECT * FROM orders"))
    with (
        pkray.connect(tmp_path / "warehouse") as other,
        pytest.raises(errors.QueryError, match="no table or view"),
    ):
        other.sql("SELECT * FROM orders")


def test_a_view_of_itself_is_refused(catalog):
    catalog.create_view("a", "SELECT 1 AS x")
    catalog.sql("CREATE OR REPLACE VIEW a AS SELECT * FROM a")
    with pytest.raises(errors.QueryError, match="by itself"):
        catalog.sql("SELECT * FROM a")


def test_unknown_tables_say_the_nearest(catalog, orders):
    with pytest.raises(errors.QueryError, match=r"did you mean shop\.orders") as refused:
        catalog.sql("SELECT *\nFROM shop.order")
    assert refused.value.line == 2


def test_tables_of_two_catalogs_are_joined(catalog, orders, tmp_path):
    with pkray.connect(tmp_path / "other") as second:
        second.create_table("shop.orders", [("id", "INT"), ("z", "INT")], ["id"]).upsert(
            [{"id": 1, "z": 7}]
        )
        left = catalog.sql("SELECT * FROM shop.orders")
        right = second.sql("SELECT * FROM shop.orders")
        assert found(left.join(right, "id").select("id", "z")) == [(1, 7)]


def test_hints_go_with_tables_alone(catalog, orders):
    catalog.create_view("shop.v", "SELECT id FROM shop.orders GROUP BY id")
    with pytest.raises(errors.UnsupportedError, match="go with the name of a table"):
        catalog.sql("SELECT * FROM shop.v VERSION AS OF 1")


def test_what_is_no_users_function_gets_no_name(catalog):
    with pytest.raises(errors.OptionError, match="make one by pkray"):
        catalog.register_function("doubled", lambda x: x)
