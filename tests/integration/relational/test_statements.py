"""Statements that define tables and change their rows."""

import pytest

from pkray import errors
from pkray.relational import Statement


@pytest.fixture
def t(catalog):
    catalog.sql(
        "CREATE TABLE t (id INT, v STRING, n DECIMAL(10, 2)) TBLPROPERTIES ('primary-key' = 'id')"
    )
    catalog.sql("INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, NULL, 3)").run()
    return catalog.load_table("default.t")


def rows(catalog, query="SELECT * FROM t"):
    return sorted(
        (tuple(row.values()) for row in catalog.sql(query).to_arrow().to_pylist()), key=str
    )


def test_tables_are_made_in_the_words_of_both_dialects(catalog):
    catalog.sql(
        "CREATE TABLE shop.a (id BIGINT COMMENT 'the id', ts TIMESTAMP) USING pkray COMMENT 'x' "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '3')"
    )
    catalog.sql(
        "CREATE TABLE shop.b (id BIGINT, day STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - "
        "INTERVAL '5' SECOND, PRIMARY KEY (id, day) NOT ENFORCED) PARTITIONED BY (day) WITH "
        "('connector' = 'pkray')",
        "flink",
    )
    a, b = catalog.load_table("shop.a"), catalog.load_table("shop.b")
    assert [str(field.type) for field in a.schema.fields] == ["BIGINT NOT NULL", "TIMESTAMP_LTZ(6)"]
    assert (a.comment, a.schema.field("id").description) == ("x", "the id")
    assert (b.partition_keys, b.primary_keys) == (("day",), ("id", "day"))
    assert str(b.schema.field("ts").type) == "TIMESTAMP(3)"
    described = catalog.sql("DESCRIBE shop.b").to_pylist()
    assert described[2]["type"] == "TIMESTAMP(3) *ROWTIME*"
    assert described[2]["watermark"] == "ts - INTERVAL '5' SECOND"
    assert described[0]["key"] == "PRI(id, day)"


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_what_show_create_table_says_makes_the_same_table(catalog, dialect):
    catalog.sql(
        "CREATE TABLE shop.a (id BIGINT, `b c` STRING COMMENT 'it''s', ts TIMESTAMP(3), d "
        "DECIMAL(9, 2) NOT NULL, l ARRAY<TIMESTAMP(3)>, WATERMARK FOR ts AS ts, PRIMARY KEY (d, "
        "id) "
        "NOT ENFORCED) PARTITIONED BY (id) WITH ('bucket' = '2')",
        "flink",
    )
    said = catalog.sql("SHOW CREATE TABLE shop.a", dialect)["statement"][0].as_py()
    before = catalog.load_table("shop.a").schema
    catalog.sql("DROP TABLE shop.a")
    catalog.sql(said, dialect)
    after = catalog.load_table("shop.a").schema
    assert (after.fields, after.options) == (before.fields, before.options)


def test_a_table_without_a_key_is_refused_with_a_word_on_what_to_do(catalog):
    with pytest.raises(errors.QueryError, match=r"PRIMARY KEY \(id\) NOT ENFORCED"):
        catalog.sql("CREATE TABLE t (id INT)")
    with pytest.raises(errors.UnsupportedError, match="'kafka'"):
        catalog.sql("CREATE TABLE t (id INT PRIMARY KEY) WITH ('connector' = 'kafka')")
    with pytest.raises(errors.QueryError, match="did you mean id"):
        catalog.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key' = 'idd')")
    with pytest.raises(errors.QueryError, match="TIMESTAMP"):
        catalog.sql("CREATE TABLE t (id INT PRIMARY KEY, WATERMARK FOR id AS id)")
    assert not catalog.table_exists("default.t")


def test_a_table_is_made_of_a_query(catalog, t):
    catalog.sql("CREATE TABLE u TBLPROPERTIES ('primary-key' = 'id') AS SELECT id, v FROM t")
    assert rows(catalog, "SELECT * FROM u") == [(1, "a"), (2, "b"), (3, None)]
    with pytest.raises(errors.TableExistsError):
        catalog.sql("CREATE TABLE u TBLPROPERTIES ('primary-key' = 'id') AS SELECT 1 AS id")


def test_an_insert_runs_when_it_is_told_to(catalog, t):
    statement = catalog.sql("INSERT INTO t SELECT id + 10, v, n FROM t WHERE id < 3")
    assert isinstance(statement, Statement)
    assert len(rows(catalog)) == 3
    assert statement.run()["default.t"].id == 2
    assert [row[0] for row in rows(catalog)] == [1, 11, 12, 2, 3]
    with pytest.raises(errors.UnsupportedError, match=r"default\.t that it reads"):
        statement.start()


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("kind", "long", "fits", "stored"),
    [
        ("VARCHAR(2)", "'abc'", "'ab'", "ab"),
        ("CHAR(2)", "'abc'", "'a'", "a "),
        ("BINARY(2)", "X'616263'", "X'6162'", b"ab"),
        ("VARBINARY(2)", "X'616263'", "X'61'", b"a"),
    ],
)
def test_an_insert_cuts_no_values(catalog, kind, long, fits, stored, dialect):
    table = catalog.create_table("default.sized", [("k", "INT"), ("v", kind)], ["k"])
    with pytest.raises(errors.InputError, match="does not fit"):
        catalog.sql(f"INSERT INTO sized VALUES (1, {long})", dialect=dialect).run()
    catalog.sql(f"INSERT INTO sized VALUES (1, {fits})", dialect=dialect).run()
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": stored}]


def test_columns_that_an_insert_does_not_name_are_null(catalog, t):
    catalog.sql("INSERT INTO t (n, id) SELECT 7, 9").run()
    assert rows(catalog, "SELECT id, v, CAST(n AS STRING) FROM t WHERE id = 9") == [
        (9, None, "7.00")
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("INSERT INTO t VALUES (1)", errors.QueryError, "takes 3: id, v, n"),
        ("INSERT INTO t (id, idd) VALUES (1, 2)", errors.QueryError, "did you mean id"),
        ("INSERT INTO t VALUES ('x', 'y', 1)", errors.QueryError, "write a CAST"),
        ("INSERT INTO nope VALUES (1)", errors.TableNotFoundError, "default.nope"),
        ("UPDATE t SET id = 4", errors.QueryError, "part of the key"),
        ("UPDATE t SET z = 4", errors.QueryError, "no column 'z'"),
        (
            "UPDATE t SET n = INTERVAL '3' DAY",
            errors.QueryError,
            r"is an INTERVAL.*DECIMAL.*write CAST",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS id, DATE '2024-01-05' - DATE '2024-01-01' AS d) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.d",
            errors.QueryError,
            r"s\.d is an INTERVAL",
        ),
        ("DELETE FROM t WHERE z = 4", errors.QueryError, "no column z"),
        ("USE nowhere", errors.DatabaseNotFoundError, "nowhere"),
        ("SET table.exec.state.tl = 1", errors.OptionError, "table.exec.state.ttl"),
        ("SET table.exec.state.ttl = soon", errors.OptionError, "soon"),
        ("ALTER TABLE t ADD COLUMN x INT NOT NULL", errors.QueryError, "NOT NULL"),
    ],
)
def test_wrong_statements_change_nothing(catalog, t, text, error, words):
    with pytest.raises(error, match=words):
        made = catalog.sql(text)
        made.run()
    assert t.latest_snapshot().id == 1


def test_a_row_that_cannot_be_computed_leaves_the_table_as_it_was(catalog, t):
    with pytest.raises(errors.EvaluationError):
        catalog.sql("INSERT INTO t SELECT id + 100, v, 1 / (id - 3) FROM t").run()
    with pytest.raises(errors.EvaluationError):
        catalog.sql("INSERT INTO t SELECT id, v, n * 1000000000 FROM t").run()
    with pytest.raises(errors.InputError, match="id"):
        catalog.sql("INSERT INTO t SELECT CAST(NULL AS INT), v, n FROM t").run()
    assert t.latest_snapshot().id == 1


@pytest.mark.parametrize(
    ("conflict", "left"), [("NOTHING", "first"), ("DEDUPLICATE", "last"), ("ERROR", None)]
)
def test_rows_of_one_key_are_handled_as_on_conflict_says(catalog, t, conflict, left):
    insert = catalog.sql(
        "INSERT INTO t (id, v) SELECT * FROM VALUES (9, 'first'), (9, 'last') ON CONFLICT DO "
        + conflict
    )
    if left is None:
        with pytest.raises(errors.EvaluationError, match="ON CONFLICT"):
            insert.run()
    else:
        insert.run()
        assert rows(catalog, "SELECT v FROM t WHERE id = 9") == [(left,)]


def test_partitions_are_overwritten(catalog):
    catalog.sql("CREATE TABLE p (d STRING, id INT, PRIMARY KEY (d, id)) PARTITIONED BY (d)")
    catalog.sql("INSERT INTO p VALUES ('a', 1), ('a', 2), ('b', 3)").run()
    catalog.sql("INSERT OVERWRITE p PARTITION (d = 'a') SELECT 9").run()
    assert rows(catalog, "SELECT * FROM p") == [("a", 9), ("b", 3)]
    catalog.sql("ALTER TABLE p DROP PARTITION (d = 'a')")
    assert rows(catalog, "SELECT * FROM p") == [("b", 3)]


def test_a_statement_set_writes_each_of_its_tables(catalog, t):
    catalog.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    both = catalog.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t (id) VALUES (7); INSERT INTO u SELECT id FROM "
        "t; END"
    )
    assert both.tables == ["default.t", "default.u"]
    both.run()
    assert rows(catalog, "SELECT id FROM u") == [(1,), (2,), (3,)]  # as of before the first INSERT


def test_rows_are_updated_and_deleted_in_one_commit(catalog, t):
    done = catalog.sql("UPDATE t AS x SET v = concat(x.v, '!'), n = n + 1 WHERE x.id < 3")
    assert done.to_pylist() == [{"rows": 2, "snapshot_id": 2}]
    assert rows(catalog, "SELECT id, v, CAST(n AS STRING) FROM t") == [
        (1, "a!", "2.50"),
        (2, "b!", None),
        (3, None, "3.00"),
    ]
    assert catalog.sql("DELETE FROM t WHERE v IS NULL").to_pylist()[0]["rows"] == 1
    assert catalog.sql("DELETE FROM t WHERE id > 100").to_pylist() == [
        {"rows": 0, "snapshot_id": None}
    ]
    assert t.latest_snapshot().id == 3
    catalog.sql("TRUNCATE TABLE t")
    assert rows(catalog) == []


def test_rows_are_merged_in_one_commit(catalog, t):
    catalog.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 'x'), (2, NULL), (8, 'new') AS s(id, v)) "
        "AS s "
        "ON t.id = s.id "
        "WHEN MATCHED AND s.v IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v) "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = 'alone'"
    )
    assert rows(catalog, "SELECT id, v FROM t") == [(1, "ax"), (3, "alone"), (8, "new")]
    assert t.latest_snapshot().id == 2


def test_a_merge_of_all_columns(catalog, t):
    catalog.sql(
        "CREATE TABLE s TBLPROPERTIES ('primary-key' = 'id') AS SELECT id + 1 AS id, 'm' AS v, n "
        "FROM t"
    )
    catalog.sql(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED "
        "THEN INSERT *"
    )
    assert rows(catalog, "SELECT id, v FROM t") == [(1, "a"), (2, "m"), (3, "m"), (4, "m")]


def test_a_merge_that_matches_a_row_twice_is_refused(catalog, t):
    with pytest.raises(errors.EvaluationError, match="several rows"):
        catalog.sql(
            "MERGE INTO t USING (SELECT * FROM VALUES (1), (1) AS s(id)) AS s ON t.id = s.id WHEN "
            "MATCHED THEN UPDATE SET v = 'x'"
        )
    assert t.latest_snapshot().id == 1


def test_updates_need_a_table_in_which_rows_replace_each_other(catalog):
    catalog.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT) WITH ('merge-engine' = 'aggregation')")
    with pytest.raises(errors.UnsupportedError, match="merge-engine is aggregation"):
        catalog.sql("UPDATE a SET n = 1")


def test_tables_are_altered(catalog, t):
    for text in (
        "ADD COLUMN x INT COMMENT 'c' AFTER id",
        "RENAME COLUMN v TO w",
        "ALTER COLUMN x TYPE BIGINT",
        "ALTER COLUMN x FIRST",
        "SET TBLPROPERTIES ('snapshot.num-retained.min' = '5')",
        "UNSET TBLPROPERTIES ('snapshot.num-retained.min')",
        "DROP COLUMN n",
        "RENAME TO u",
    ):
        catalog.sql(f"ALTER TABLE {catalog.list_tables()[0]} {text}")
    assert catalog.sql("DESCRIBE u")["name"].to_pylist() == ["x", "id", "w"]
    assert catalog.sql("DESCRIBE u")["type"].to_pylist() == ["BIGINT", "INT", "STRING"]


def test_what_there_is_is_listed(catalog, t):
    catalog.sql("CREATE DATABASE IF NOT EXISTS shop")
    catalog.sql("CREATE TEMPORARY VIEW tv AS SELECT 1 AS one")
    catalog.sql("CREATE VIEW shop.v AS SELECT 1 AS one")
    assert catalog.sql("SHOW DATABASES")["database"].to_pylist() == ["default", "shop"]
    assert catalog.sql("SHOW TABLES")["table"].to_pylist() == ["t", "tv"]
    assert catalog.sql("SHOW VIEWS IN shop")["view"].to_pylist() == ["tv", "v"]
    assert catalog.sql("SHOW TABLES LIKE 't*'")["table"].to_pylist() == ["t", "tv"]
    assert catalog.sql("SHOW COLUMNS IN t")["column"].to_pylist() == ["id", "v", "n"]
    catalog.sql("USE shop")
    assert catalog.sql("SHOW CURRENT DATABASE")["database"].to_pylist() == ["shop"]
    assert "sum" in catalog.sql("SHOW FUNCTIONS")["name"].to_pylist()
    catalog.sql("DROP VIEW v")
    catalog.sql("DROP DATABASE shop")
    with pytest.raises(errors.DatabaseNotFoundError):
        catalog.sql("SHOW TABLES IN shop")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("CREATE TABLE n (a INT PRIMARY KEY) WITH ('bucket' = '4', 'bucket' = '5')", "set twice"),
        ("CREATE TABLE n (a INT) WITH ('primary-key' = 'a', 'primary-key' = 'b')", "set twice"),
        ("CREATE TABLE n (a INT PRIMARY KEY) WITH ('bucket' = '4') WITH ('bucket' = '4')", "twice"),
        ("CREATE TABLE n (a INT PRIMARY KEY) WITH ('consumer-id' = '')", "cannot be ''"),
        ("CREATE TABLE n (a INT PRIMARY KEY) WITH ('sequence.field' = ' ')", "cannot be ' '"),
        ("ALTER TABLE t SET ('consumer-id' = '')", "cannot be ''"),
        ("ALTER TABLE t SET TBLPROPERTIES ('consumer-id' = 'a', 'consumer-id' = 'b')", "twice"),
        ("SET 'query.memory' = ''", "cannot be ''"),
        ("SELECT * FROM t /*+ OPTIONS('consumer-id' = '') */", "cannot be ''"),
        ("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'a', 'scan.mode' = 'b') */", "twice"),
        (
            "SELECT * FROM t /*+ OPTIONS('scan.startup.mode' = 'latest-offset', "
            "'scan.mode' = 'latest') */",
            "'scan.mode' is set twice",
        ),
        ("SELECT /*+ STATE_TTL('t' = '1 d', 't' = '2 d') */ * FROM t", "names 't' twice"),
    ],
)
def test_options_are_given_once_and_are_not_empty(catalog, t, text, match):
    with pytest.raises((errors.OptionError, errors.QueryError), match=match):
        catalog.sql(text)
    assert not catalog.table_exists("default.n")


def test_options_are_set_and_reset_in_one_catalog(catalog):
    catalog.sql("SET table.exec.state.ttl = 1 d")
    assert catalog.sql("SET").to_pylist() == [{"key": "table.exec.state.ttl", "value": "1 d"}]
    catalog.sql("RESET")
    assert catalog.sql("SET table.exec.state.ttl").to_pylist() == [
        {"key": "table.exec.state.ttl", "value": "0 ms"}
    ]


def test_explain_says_the_plan_of_queries_and_inserts(catalog, t):
    assert "Scan(table=[default.t]" in catalog.sql("EXPLAIN SELECT v FROM t")["plan"][0].as_py()
    inserted = catalog.sql("EXPLAIN INSERT INTO t SELECT * FROM t")["plan"][0].as_py()
    assert "Sink" in inserted


@pytest.fixture
def sales(catalog):
    catalog.sql(
        "CREATE TABLE shop.sales (id INT COMMENT 'the id', day STRING, hour INT, v INT) COMMENT "
        "'all' PARTITIONED BY (day, hour) TBLPROPERTIES ('primary-key' = 'id,day,hour', 'bucket' = "
        "'2')"
    )
    values = "(1, 'a', 1, 1), (2, 'a', 2, 1), (3, 'b', 1, 1)"
    catalog.sql(f"INSERT INTO shop.sales VALUES {values}").run()
    return catalog.load_table("shop.sales")


def test_partitions_are_listed(catalog, sales, t):
    def listed(what):
        return catalog.sql(f"SHOW PARTITIONS {what}").column("partition").to_pylist()

    assert listed("shop.sales") == ["day=a/hour=1", "day=a/hour=2", "day=b/hour=1"]
    assert listed("shop.sales PARTITION (day = 'a')") == ["day=a/hour=1", "day=a/hour=2"]
    assert listed("shop.sales PARTITION (hour = 1, day = 'b')") == ["day=b/hour=1"]
    with pytest.raises(errors.QueryError, match="is not partitioned by v"):
        listed("shop.sales PARTITION (v = 1)")
    with pytest.raises(errors.QueryError, match=r"default.t has no partitions"):
        listed("t")


def test_a_table_is_made_like_another(catalog, sales):
    catalog.sql("CREATE TABLE shop.copy LIKE shop.sales TBLPROPERTIES ('bucket' = '3')")
    copy = catalog.load_table("shop.copy")
    assert [str(each) for each in copy.schema.fields] == [str(f) for f in sales.schema.fields]
    assert (copy.primary_keys, copy.partition_keys, copy.comment) == (
        sales.primary_keys,
        sales.partition_keys,
        "all",
    )
    assert (copy.options["bucket"], sales.options["bucket"]) == ("3", "2")
    assert rows(catalog, "SELECT * FROM shop.copy") == []
    catalog.sql(
        "CREATE TABLE IF NOT EXISTS shop.copy WITH ('bucket' = '1') LIKE shop.sales", "flink"
    )
    assert catalog.load_table("shop.copy").options["bucket"] == "3"
    with pytest.raises(errors.UnsupportedError, match="takes all of its columns"):
        catalog.sql("CREATE TABLE shop.more (x INT) LIKE shop.sales")
    with pytest.raises(errors.TableNotFoundError):
        catalog.sql("CREATE TABLE shop.more LIKE shop.none")


def test_the_query_of_a_view_is_shown(catalog, t):
    catalog.sql("CREATE VIEW w AS SELECT id FROM t")
    catalog.sql("CREATE TEMPORARY VIEW q AS SELECT v FROM t")

    def shown(what):
        return catalog.sql(f"SHOW CREATE {what}")["statement"][0].as_py()

    assert shown("VIEW w") == "CREATE VIEW default.w AS\nSELECT id FROM t"
    assert shown("TABLE w") == shown("VIEW w")
    assert shown("VIEW q").endswith("SELECT v FROM t")
    for other in ("t", "x"):
        with pytest.raises(errors.TableNotFoundError, match=f"no view is called default.{other}"):
            shown(f"VIEW {other}")


@pytest.mark.parametrize(
    "statement",
    [
        "SET 'table.local-time-zone' = 'Asia/Tokyo'",
        "SET 'spark.sql.session.timeZone' = 'Asia/Tokyo'",
        "SET TIME ZONE '+09:00'",
    ],
)
def test_the_zone_of_the_session_is_set(catalog, statement):
    query = "SELECT CAST(TIMESTAMP '2020-01-01 00:00:00Z' AS STRING) AS s"
    assert rows(catalog, query) == [("2020-01-01 00:00:00",)]
    catalog.sql(statement)
    assert rows(catalog, query) == [("2020-01-01 09:00:00",)]
    catalog.sql("RESET 'spark.sql.session.timeZone'")
    assert rows(catalog, query) == [("2020-01-01 00:00:00",)]


def test_a_zone_that_there_is_not_is_refused(catalog):
    with pytest.raises(errors.OptionError, match="a zone such as 'Europe/Berlin'"):
        catalog.sql("SET TIME ZONE 'Mars/Base'")
