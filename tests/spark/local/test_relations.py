"""Plans on Spark: the same rows as on the local engine."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pkray
import pkray.spark
from pkray.relational.sources.system import SystemSource
from pkray.relational.sources.table import TableSource
from pkray.spark import relations
from tests.golden.case import Case
from tests.golden.run import run_case
from tests.golden.test_bounded import CASES, EXCEPTED
from tests.tpch.generator import NUMBERS, Tpch, differences

SAMPLE = {
    "agg_double_nan_negzero",
    "agg_retract_all_functions",
    "agg_types_decimal_double_ts",
    "join_anti_not_exists",
    "join_left_retract",
    "set_except",
    "sort_limit",
    "topn_nulls_last_explicit",
    "tvf_hop_rows",
    "wagg_cumulate",
    "wagg_grouping_sets",
    "wagg_session_merge",
    "wagg_null_rowtime",
    "wjoin_left",
    "wtopn_tumble",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "case", [each for each in CASES if each.name in SAMPLE], ids=lambda case: case.name
)
def test_a_recorded_query_gives_its_final_table(spark, case: Case) -> None:
    assert run_case(case, "spark").status == "PASS"


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [each for each in CASES if each.name not in SAMPLE], ids=lambda case: case.name
)
def test_all_other_recorded_queries_give_their_final_tables(spark, case: Case) -> None:
    outcome = run_case(case, "spark")
    assert outcome.status == ("EXCEPTED" if case.name in EXCEPTED else "PASS"), outcome.detail


@pytest.fixture(scope="module")
def tpch() -> Tpch:
    return Tpch(0.01)


@pytest.fixture(scope="module")
def tpch_catalog(tpch: Tpch, tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("tpch")
    with pkray.connect(folder) as catalog:
        tpch.fill(catalog)
        yield catalog


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_of_tpch_gives_the_answer(spark, number: int, tpch: Tpch, tpch_catalog) -> None:
    result = tpch_catalog.sql(tpch.queries[number]).to_arrow(engine="spark")
    assert differences(result, tpch.answer(number)) == []


def test_no_rows_of_any_type_are_given_to_spark(spark) -> None:
    types = [pa.timestamp("us"), pa.list_(pa.string()), pa.struct([("a", pa.timestamp("us"))])]
    rows = pa.schema([(f"c{place}", kind) for place, kind in enumerate(types)]).empty_table()
    assert pkray.relational.from_arrow(rows).to_spark(spark).count() == 0


def test_a_dataframe_is_a_relation(spark) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, None)], "n INT, s STRING")
    relation = pkray.spark.relation(frame).filter("n > 1")
    expected = [{"n": 2, "s": None}]
    assert relation.to_arrow().to_pylist() == expected
    assert relation.to_arrow(engine="spark").to_pylist() == expected
    assert [row.asDict() for row in relation.to_spark(spark).collect()] == expected


def test_what_spark_has_no_function_for_runs_by_the_kernel(spark, catalog) -> None:
    rows = pkray.relational.from_arrow(pa.table({"a": [1, 2, None, 4] * 50}))
    parts = rows.split([1, 2], seed=7)
    for part in parts:
        assert part.to_arrow(engine="spark").sort_by("a") == part.to_arrow().sort_by("a")


def test_the_session_of_the_user_keeps_its_settings(spark, catalog) -> None:
    before = spark.conf.get("spark.sql.caseSensitive")
    frame = pkray.relational.from_arrow(pa.table({"a": [1]})).to_spark(spark)
    assert frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    assert spark.conf.get("spark.sql.caseSensitive") == before


def test_a_session_that_has_read_a_table_runs_queries_of_it_and_stays_active(
    spark, catalog
) -> None:
    table = catalog.create_table("db.t", [("a", "INT")], primary_keys=["a"])
    table.upsert([{"a": 1}, {"a": 2}])
    assert pkray.spark.read(spark, table).count() == 2
    literal = pkray.relational.from_arrow([{"b": 2}])
    both = table.relation().join(literal, on="a = b")
    assert both.to_spark(spark).toArrow().to_pylist() == [{"a": 2, "b": 2}]
    assert SparkSession.getActiveSession()._jsparkSession.equals(spark._jsparkSession)
    assert pkray.spark.read(spark, table).count() == 2


def test_rows_of_a_table_are_counted_by_executors(spark, catalog, monkeypatch) -> None:
    table = catalog.create_table("db.t", {"k": "BIGINT", "v": "INT"}, primary_keys=["k"])
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    table.upsert([{"k": 2, "v": 3}])

    def refused(*arguments):
        raise AssertionError("the driver reads the table's rows")

    monkeypatch.setattr(TableSource, "batches", refused)
    counted = catalog.sql("SELECT count(*) AS n FROM db.t").to_spark(spark)
    assert counted.collect()[0].n == 2


def test_files_that_need_no_merging_are_read_by_spark_alone(spark, catalog, monkeypatch) -> None:
    columns = {"k": "BIGINT NOT NULL", "v": "STRING", "n": "DECIMAL(9, 2)", "t": "TIMESTAMP(3)"}
    table = catalog.create_table("db.t", columns, ["k"], options={"bucket": "2"})
    moment = datetime(1500, 2, 3, 4, 5, 6, 7000)
    table.upsert([{"k": k, "v": f"v{k}", "n": k, "t": moment} for k in range(20)])
    planned: list[int] = []
    plain = relations.raw_rows

    def noted(*arguments):
        rows, others = plain(*arguments)
        planned.append(len(others))
        return rows, others

    monkeypatch.setattr(relations, "raw_rows", noted)
    query = "SELECT v, n, t FROM db.t WHERE k > 2 AND v <> 'v7' ORDER BY n"

    def others() -> int:
        """Compare the engines; return how many splits were not Spark's alone."""
        planned.clear()
        assert catalog.sql(query).to_arrow(engine="spark") == catalog.sql(query).to_arrow()
        return sum(planned)

    assert others() == 0
    table.upsert([{"k": k, "v": "new", "n": None, "t": None} for k in range(5, 15)])
    assert others() == 2
    table.compact(full=True)
    assert others() == 0
    table.delete([{"k": 3}])
    assert others() == 1
    assert catalog.sql("SELECT count(*) FROM db.t").to_arrow("spark")[0].to_pylist() == [19]


def test_columns_that_spark_reads_otherwise_are_left_to_the_table(spark, catalog) -> None:
    columns = {"k": "BIGINT NOT NULL", "t": "TIMESTAMP(9)", "a": "ARRAY<INT>"}
    table = catalog.create_table("db.t", columns, ["k"], options={"bucket": "1"})
    table.upsert([{"k": 1, "t": datetime(2026, 1, 2, 3), "a": [1, None]}])
    rows = table.relation().to_arrow(engine="spark").to_pylist()
    assert rows == [{"k": 1, "t": datetime(2026, 1, 2, 3), "a": [1, None]}]


def test_changes_and_system_tables_are_read_by_executors(spark, catalog, monkeypatch) -> None:
    table = catalog.create_table("db.t", {"k": "BIGINT", "v": "STRING"}, primary_keys=["k"])
    table.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.upsert([{"k": 2, "v": "c"}, {"k": 3, "v": "d"}])
    queries = (
        "SELECT * FROM db.t /*+ OPTIONS('incremental-between'='1,2') */ WHERE k > 2",
        "SELECT count(*) AS n FROM db.t /*+ OPTIONS('incremental-between'='1,2') */",
        "SELECT snapshot_id, commit_kind, commit_time FROM db.`t$snapshots` WHERE snapshot_id > 1",
        "SELECT count(*) AS n FROM db.`t$files`",
    )
    expected = [catalog.sql(query).to_arrow() for query in queries]
    assert expected[0].to_pylist() == [{"k": 3, "v": "d"}]

    def refused(*arguments):
        raise AssertionError("the driver reads the rows")

    monkeypatch.setattr(TableSource, "batches", refused)
    monkeypatch.setattr(SystemSource, "batches", refused)
    assert [catalog.sql(query).to_arrow(engine="spark") for query in queries] == expected


def test_computed_columns_of_tables_come_from_spark_too(spark, catalog) -> None:
    catalog.sql(
        "CREATE TABLE shop.timed (id INT NOT NULL, x STRING, ts AS TO_TIMESTAMP(x), twice AS id * "
        "2, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)",
        dialect="flink",
    )
    rows = [{"id": i, "x": f"2024-01-01 00:00:{i:02}"} for i in range(20)]
    catalog.load_table("shop.timed").upsert(rows)
    windows = catalog.sql(
        "SELECT window_start, SUM(twice) AS n FROM TABLE(TUMBLE(TABLE shop.timed, DESCRIPTOR(ts), "
        "INTERVAL '10' SECOND)) WHERE twice > 4 GROUP BY window_start, window_end"
    )
    whole = catalog.load_table("shop.timed").relation()
    for relation in (windows, whole):
        ours = relation.to_arrow().sort_by(relation.columns[0])
        assert relation.to_arrow(engine="spark").sort_by(relation.columns[0]).equals(ours)
