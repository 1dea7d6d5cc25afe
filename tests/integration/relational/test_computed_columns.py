"""Computed columns of tables: declared, read, bounded and continuous, in both dialects."""

import datetime
import json
from typing import Any

import pytest

import pkray
from pkray.errors import EvaluationError, QueryError, SchemaError, UnsupportedError
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Scan

FLINK = """CREATE TABLE shop.clicks (
  id INT NOT NULL, x STRING, pt AS PROCTIME(), price INT,
  ts AS TO_TIMESTAMP(x) COMMENT 'when', twice AS price * 2,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED
) WITH ('changelog-producer' = 'lookup')"""
SPARK = """CREATE TABLE shop.clicks (
  id INT NOT NULL, x STRING, pt TIMESTAMP GENERATED ALWAYS AS (current_timestamp()), price INT,
  ts TIMESTAMP_NTZ GENERATED ALWAYS AS (to_timestamp_ntz(x)) COMMENT 'when',
  twice BIGINT GENERATED ALWAYS AS (price * 2),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) TBLPROPERTIES ('primary-key' = 'id', 'changelog-producer' = 'lookup')"""
DIALECTS = {"flink": FLINK, "spark": SPARK}
WINDOWS = (
    "SELECT window_start, SUM(twice) AS total FROM TABLE(TUMBLE(TABLE shop.clicks, "
    "DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"
)


@pytest.fixture
def catalog(catalog) -> pkray.Catalog:
    catalog.create_database("shop")
    return catalog


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return str(request.param)


@pytest.fixture
def clicks(catalog, dialect) -> pkray.Table:
    catalog.sql(DIALECTS[dialect], dialect=dialect)
    return catalog.load_table("shop.clicks")


def second(number: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=number)


def put(table: pkray.Table, *rows: tuple[int, int, int]) -> dict[str, int]:
    told = [{"id": i, "x": str(second(at)), "price": price} for i, at, price in rows]
    return {table.name: table.upsert(told).id}


def rows(relation: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in relation.to_arrow().to_pylist())


def test_all_columns_come_in_declared_order(catalog, clicks, dialect):
    put(clicks, (1, 1, 5))
    names = ["id", "x", "pt", "price", "ts", "twice"]
    found = catalog.sql("SELECT * FROM shop.clicks", dialect=dialect).to_arrow()
    assert found.column_names == names
    row = found.to_pylist()[0]
    assert (row["ts"], row["twice"]) == (second(1), 10)
    assert abs(row["pt"].timestamp() - datetime.datetime.now().timestamp()) < 60
    assert clicks.relation().columns == names
    shown = catalog.sql("SHOW COLUMNS IN shop.clicks").column("column").to_pylist()
    assert shown == names


def test_storage_reads_give_stored_columns_alone(clicks):
    put(clicks, (1, 1, 5))
    assert clicks.to_arrow().column_names == ["id", "x", "price"]


def test_either_dialect_reads_what_the_other_declares(catalog, clicks):
    put(clicks, (1, 1, 5))
    for each in DIALECTS:
        found = catalog.sql("SELECT twice, ts FROM shop.clicks WHERE twice > 9", dialect=each)
        assert rows(found) == [(10, second(1))]


def test_a_description_tells_expressions_and_the_watermark(catalog, clicks):
    described = {row["name"]: row for row in catalog.sql("DESCRIBE shop.clicks").to_pylist()}
    assert described["twice"]["extras"] == "AS price * 2"
    assert described["ts"]["watermark"] == "ts - INTERVAL '5' SECOND"
    assert described["id"]["key"] == "PRI(id)"
    assert "*ROWTIME*" in described["ts"]["type"]


@pytest.mark.parametrize("shown", DIALECTS)
def test_a_table_is_made_again_by_its_statement(catalog, clicks, dialect, shown):
    statement = catalog.sql("SHOW CREATE TABLE shop.clicks", dialect=shown).to_pylist()
    text = statement[0]["statement"]
    assert ("price * 2)" in text or "AS price * 2" in text) is (dialect == shown)
    catalog.sql(text.replace("shop.clicks", "shop.again"), dialect=shown)
    assert catalog.load_table("shop.again").options == clicks.options


def test_flink_reads_the_keys_of_its_own_dialect_alone(catalog, clicks, dialect):
    keys = [key for key in clicks.options if "schema." in key]
    assert len(keys) == 13
    assert all(key.startswith("schema.") is (dialect == "flink") for key in keys)


def test_what_flink_wrote_is_read(catalog):
    options = {
        "schema.0.name": "pt",
        "schema.0.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        "schema.0.expr": "PROCTIME()",
        "schema.2.name": "ts",
        "schema.2.data-type": "TIMESTAMP(3)",
        "schema.2.expr": "TO_TIMESTAMP(`x`)",
        "schema.3.name": "off",
        "schema.3.data-type": "BIGINT",
        "schema.3.metadata": "offset",
        "schema.3.virtual": "true",
        "schema.5.name": "own",
        "schema.5.data-type": "INT NOT NULL",
        "schema.5.expr": "MY_FUNCTION(`x`)",
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    }
    columns = [("id", "INT"), ("x", "STRING")]
    table = catalog.create_table("shop.clicks", columns, ["id"], options=options)
    table.upsert([{"id": 1, "x": str(second(1))}])
    assert table.relation().columns == ["pt", "id", "ts", "off", "x", "own"]
    assert rows(catalog.sql("SELECT id, ts FROM shop.clicks")) == [(1, second(1))]
    for name, why in {"own": "MY_FUNCTION", "off": "metadata offset"}.items():
        with pytest.raises(EvaluationError, match=f"column {name} .*{why}"):
            catalog.sql(f"SELECT {name} FROM shop.clicks").to_arrow()


def test_conditions_on_computed_columns_reach_the_files(catalog):
    catalog.sql(
        "CREATE TABLE shop.t (id INT NOT NULL, same AS id, far AS id + 1, "
        "PRIMARY KEY (id) NOT ENFORCED)"
    )
    plan = optimize(catalog.sql("SELECT far FROM shop.t WHERE same > 3 AND far > 5").plan)
    (scan,) = (node for node in plan.walk() if isinstance(node, Scan))
    assert str(scan.condition).count("'id'") == 2


def test_computed_columns_are_not_written(catalog, clicks, dialect):
    sql = lambda text: catalog.sql(text, dialect=dialect)  # noqa: E731
    sql("INSERT INTO shop.clicks VALUES (1, 'a', 5), (2, 'b', 6)").run()
    sql("INSERT INTO shop.clicks (id, price) SELECT 3, 7").run()
    sql("UPDATE shop.clicks SET price = 8 WHERE twice = 10")
    sql("DELETE FROM shop.clicks WHERE twice = 12")
    assert clicks.to_arrow().sort_by("id").column("price").to_pylist() == [8, 7]
    for text in (
        "INSERT INTO shop.clicks (id, twice) VALUES (1, 2)",
        "UPDATE shop.clicks SET twice = 8",
    ):
        with pytest.raises(QueryError, match=r"column twice of shop.clicks is computed") as failed:
            sql(text)
        assert failed.value.line == 1
    with pytest.raises(QueryError, match="takes 3: id, x, price"):
        sql("INSERT INTO shop.clicks SELECT 1, 'a', 5, 10")


def test_rows_are_merged_by_computed_columns(catalog, clicks, dialect):
    put(clicks, (1, 1, 5), (2, 2, 6))
    catalog.sql(
        "MERGE INTO shop.clicks AS t USING (SELECT 10 AS w) AS s ON t.twice = s.w "
        "WHEN MATCHED THEN UPDATE SET price = 50",
        dialect=dialect,
    )
    assert rows(catalog.sql("SELECT id, twice FROM shop.clicks")) == [(1, 100), (2, 12)]


def test_computed_columns_are_added(catalog, clicks, dialect):
    catalog.sql(
        "ALTER TABLE shop.clicks ADD (y INT, less AS price - 1 AFTER id, more AS y + 1)",
        dialect=dialect,
    )
    table = catalog.load_table("shop.clicks")
    assert table.relation().columns == [
        *("id", "less", "x", "pt", "price", "ts", "twice", "y", "more")
    ]
    table.upsert([{"id": 1, "x": "", "price": 3, "y": 4}])
    found = catalog.sql("SELECT less, more FROM shop.clicks", dialect=dialect)
    assert rows(found) == [(2, 5)]
    with pytest.raises(QueryError, match="no column nowhere"):
        catalog.sql("ALTER TABLE shop.clicks ADD COLUMN b AS nowhere", dialect=dialect)


def test_watermarks_follow_computed_columns_as_they_change(catalog, clicks, dialect):
    clicks.alter.drop_watermark()
    assert not any("watermark" in key for key in clicks.options)
    clicks.alter.set_watermark("ts", "7 s")
    found = [key for key in clicks.options if "watermark" in key]
    assert all(key.startswith("pkray.") is (dialect == "spark") for key in found)
    assert len(found) == 3
    clicks.alter.add_column("at", "TIMESTAMP(3)")
    clicks.alter.set_watermark("at")
    assert sorted(key.split(".")[0] for key in clicks.options if "watermark" in key) == 3 * [
        "schema"
    ]


def test_tables_are_made_like_and_of_such_tables(catalog, clicks, dialect):
    put(clicks, (1, 1, 5))
    catalog.sql("CREATE TABLE shop.alike LIKE shop.clicks")
    assert catalog.load_table("shop.alike").relation().columns == clicks.relation().columns
    catalog.sql(
        "CREATE TABLE shop.copy WITH ('primary-key' = 'id') AS SELECT * FROM shop.clicks"
        if dialect == "flink"
        else "CREATE TABLE shop.copy TBLPROPERTIES ('primary-key' = 'id') AS "
        "SELECT * FROM shop.clicks",
        dialect=dialect,
    )
    assert catalog.load_table("shop.copy").schema.names == clicks.relation().fields.names


REFUSED = {
    "a computed key": ("PRIMARY KEY (b) NOT ENFORCED, b AS a + 1", "b of .* is computed"),
    "another computed one": ("b AS a + 1, c AS b + 1", "c reads b, which is computed"),
    "a query": ("b AS (SELECT 1)", "cannot stand"),
    "an aggregate": ("b AS SUM(a)", "several rows"),
    "a window": ("b AS ROW_NUMBER() OVER (ORDER BY a)", "cannot stand here"),
    "an unknown column": ("b AS nope + 1", "no column nope"),
    "types that do not fit": ("b AS a + ARRAY[1]", "ARRAY"),
    "another type": ("b DATE GENERATED ALWAYS AS (a + 1)", "'b' is DATE: it does not take INT"),
    "what may be NULL": ("c INT, b INT NOT NULL GENERATED ALWAYS AS (c + 1)", "b is NOT NULL"),
    "an alias": ("b AS a + 1 AS c", "AS c is not supported"),
    "identity": ("b INT GENERATED ALWAYS AS IDENTITY", "expected"),
}
"""Columns beside the key ``a``, and what is said of them."""


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_computed_column_can_be_is_refused_with_its_place(catalog, what):
    columns, said = REFUSED[what]
    key = "" if "PRIMARY KEY" in columns else ", PRIMARY KEY (a) NOT ENFORCED"
    with pytest.raises((QueryError, UnsupportedError), match=said) as failed:
        catalog.sql(f"CREATE TABLE shop.t (\na INT NOT NULL, {columns}{key})", dialect="flink")
    assert failed.value.line == 2
    assert not catalog.table_exists("shop.t")


def test_partitions_are_of_stored_columns(catalog):
    with pytest.raises(QueryError, match=r"day of shop.t is computed"):
        catalog.sql(
            "CREATE TABLE shop.t (a INT NOT NULL, day AS a + 1) PARTITIONED BY (day) "
            "TBLPROPERTIES ('primary-key' = 'a')"
        )


def test_a_type_of_its_own_is_that_of_a_column_in_the_flink_dialect(catalog):
    catalog.sql(
        "CREATE TABLE shop.t (a INT NOT NULL, b BIGINT GENERATED ALWAYS AS (a + 1), "
        "PRIMARY KEY (a) NOT ENFORCED)",
        dialect="flink",
    )
    table = catalog.load_table("shop.t")
    assert table.options["schema.1.expr"] == "CAST(a + 1 AS BIGINT)"
    assert str(table.relation().fields["b"].type) == "BIGINT NOT NULL"


def test_windows_of_a_computed_time_come_at_its_watermark(catalog, clicks, dialect):
    put(clicks, (1, 1, 5))
    query = catalog.sql(WINDOWS, dialect=dialect).materialize("shop.result")
    query.wait(put(clicks, (2, 3, 6), (3, 14, 1)))
    result = catalog.load_table("shop.result")
    assert rows(result.relation().select("total")) == []
    query.wait(put(clicks, (4, 15, 2)))
    assert rows(result.relation().select("total")) == [(22,)]
    assert query.verify().equal
    query.stop()
    query = catalog.query(query.name)
    query.resume()
    query.wait(put(clicks, (5, 2, 100), (6, 30, 0)))  # the first comes late
    assert rows(result.relation().select("total")) == [(6,), (22,)]
    assert query.verify().equal
    query.stop()
    (late,) = catalog.load_table("shop.result$late").to_arrow().to_pylist()
    assert json.loads(late["row"])["twice"] == 200


def test_over_waits_for_a_computed_time(catalog, dialect):
    clicks = first_rows(catalog, dialect)
    text = (
        "SELECT id, SUM(twice) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
        "AS total FROM shop.firsts"
    )
    query = catalog.sql(text, dialect=dialect).materialize("shop.sums", primary_key=["id"])
    query.wait(put(clicks, (1, 4, 5), (2, 2, 1)))
    result = catalog.load_table("shop.sums").relation()
    assert rows(result) == []
    query.wait(put(clicks, (3, 8, 2)))  # the watermark passes 00:00:03
    assert rows(result) == [(2, 2)]
    query.wait(put(clicks, (4, 20, 1)))
    assert rows(result) == [(1, 12), (2, 2), (3, 16)]
    assert query.verify().equal


def first_rows(catalog: pkray.Catalog, dialect: str) -> pkray.Table:
    """Make a table of the same columns whose rows are only added."""
    text = DIALECTS[dialect].replace("shop.clicks", "shop.firsts")
    catalog.sql(text.replace("= 'lookup'", "= 'lookup', 'merge-engine' = 'first-row'"), dialect)
    return catalog.load_table("shop.firsts")


def test_a_lookup_join_by_processing_time_follows_rows_that_change(catalog, clicks, dialect):
    rates = catalog.create_table("shop.rates", [("price", "INT"), ("rate", "INT")], ["price"])
    rates.upsert([{"price": 5, "rate": 50}, {"price": 6, "rate": 60}])
    text = (
        "SELECT c.id, c.twice, r.rate FROM shop.clicks AS c JOIN shop.rates FOR SYSTEM_TIME AS OF "
        "c.pt AS r ON c.price = r.price"
    )
    explained = str(catalog.sql(text, dialect=dialect).explain())
    assert "asOf=processing time" in explained.replace("[", "").replace("]", "")
    assert "a lookup join sees the right side when a row is handled" in explained
    query = catalog.sql(text, dialect=dialect).materialize("shop.rated")
    query.wait(put(clicks, (1, 1, 5), (2, 1, 7)))
    rates.upsert([{"price": 5, "rate": 51}])
    query.wait(put(clicks, (3, 1, 5)))
    result = catalog.load_table("shop.rated").relation()
    assert rows(result) == [(1, 10, 50), (3, 10, 51)]
    query.wait(put(clicks, (1, 1, 6)))
    assert rows(result) == [(1, 12, 60), (3, 10, 51)]


def test_the_time_of_arrival_is_none_of_rows_that_change(catalog, clicks, dialect):
    with pytest.raises(UnsupportedError, match="the time of day"):
        catalog.sql("SELECT id, pt FROM shop.clicks", dialect=dialect).materialize("shop.r")
    with pytest.raises(UnsupportedError, match=r"windows over pt|the time of day"):
        catalog.sql(WINDOWS.replace("(ts)", "(pt)"), dialect=dialect).materialize("shop.w")


def test_rows_that_are_only_added_tell_their_arrival(catalog):
    catalog.sql(
        "CREATE TABLE shop.t (a INT NOT NULL, pt AS PROCTIME(), PRIMARY KEY (a) NOT ENFORCED) "
        "WITH ('merge-engine' = 'first-row', 'changelog-producer' = 'lookup')",
        dialect="flink",
    )
    relation = catalog.sql("SELECT a, pt FROM shop.t", dialect="flink")
    assert "depends on when a row comes" in str(relation.explain())
    with pytest.raises(UnsupportedError, match="when a row comes"):
        relation.materialize("shop.r", strict=True)
    windows = WINDOWS.replace("clicks", "t").replace("(ts)", "(pt)").replace("twice", "a")
    with pytest.raises(UnsupportedError, match="windows over pt, the time at which a row"):
        catalog.sql(windows, dialect="flink").materialize("shop.w")
    query = relation.materialize("shop.r")
    table = catalog.load_table("shop.t")
    query.wait({"shop.t": table.upsert([{"a": 1}]).id})
    (row,) = catalog.load_table("shop.r").to_arrow().to_pylist()
    assert abs(row["pt"].timestamp() - datetime.datetime.now().timestamp()) < 60


def test_compiled_plans_hold_computed_columns_as_projections(catalog, clicks, dialect, tmp_path):
    catalog.sql(
        "CREATE TABLE shop.totals (window_start TIMESTAMP(3) NOT NULL, total BIGINT, "
        "PRIMARY KEY (window_start) NOT ENFORCED)",
        dialect="flink",
    )
    insert = f"INSERT INTO shop.totals {WINDOWS}"
    catalog.sql(f"COMPILE PLAN '{tmp_path}/plan.json' FOR {insert}", dialect=dialect)
    written = json.loads((tmp_path / "plan.json").read_text())
    assert [node["type"].split("_")[0] for node in written["nodes"]][:3] == [
        *("scan", "calc", "watermark")
    ]
    catalog.sql(f"EXECUTE PLAN '{tmp_path}/plan.json'", dialect=dialect)
    catalog.query("shop.totals").wait(put(clicks, (1, 1, 5), (2, 20, 1)))
    assert rows(catalog.load_table("shop.totals").relation().select("total")) == [(10,)]
    made = catalog.sql(insert, dialect=dialect).compile()
    assert made.diff(catalog.sql(insert, dialect=dialect).compile()).is_same
    catalog.sql("ALTER TABLE shop.clicks DROP COLUMN twice")
    catalog.sql("ALTER TABLE shop.clicks ADD COLUMN twice AS price * 3", dialect=dialect)
    assert catalog.sql(insert, dialect=dialect).compile().diff(made).warmed_up


def test_reads_of_the_past_have_the_columns_of_then(catalog, clicks):
    (snapshot,) = put(clicks, (1, 1, 5)).values()
    catalog.sql("ALTER TABLE shop.clicks ADD COLUMN y INT")
    catalog.sql("ALTER TABLE shop.clicks ADD COLUMN z AS y + 1")
    table = catalog.load_table("shop.clicks")
    then = catalog.sql(f"SELECT * FROM shop.clicks VERSION AS OF {snapshot}")
    assert then.columns == ["id", "x", "pt", "price", "ts", "twice"]
    assert table.relation().columns == [*then.columns, "y", "z"]


def test_options_of_reads_go_to_the_table_below(catalog, clicks, dialect):
    put(clicks, (1, 1, 5))
    put(clicks, (2, 2, 6))
    hinted = catalog.sql(
        "SELECT id, twice FROM shop.clicks /*+ OPTIONS('scan.snapshot-id' = '1') */",
        dialect=dialect,
    )
    assert rows(hinted) == [(1, 10)]
    by_method = clicks.relation().hint("OPTIONS", {"scan.snapshot-id": "1"})
    assert rows(by_method.select("id", "twice")) == [(1, 10)]


def test_views_read_computed_columns(catalog, clicks, dialect):
    catalog.sql("CREATE VIEW shop.seen AS SELECT *, id + 1 AS next FROM shop.clicks")
    put(clicks, (1, 1, 5))
    assert rows(catalog.sql("SELECT twice, next FROM shop.seen", dialect=dialect)) == [(10, 2)]


def test_rows_that_name_a_computed_column_do_not_add_a_stored_one(clicks):
    with pytest.raises(SchemaError, match="twice' is there already, and computed"):
        clicks.alter.merge_schema([{"id": 1, "twice": 3}])
