"""The first epoch of a query on Spark: the same result as on the local engine."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.errors import QueryFailedError, UnsupportedError
from pkray.relational.udf import udf
from tests.spark.tables import create

ORDERS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("customer", pa.string()), ("paid", pa.int64())]
)


@pytest.fixture
def orders(catalog):
    table = create(
        catalog, "db.orders", ORDERS, buckets=3, options={"changelog-producer": "lookup"}
    )
    table.upsert(pa.table([range(2000), [f"c{n % 7}" for n in range(2000)], range(2000)], ORDERS))
    return table


def proven(query, **snapshots: int) -> None:
    query.wait({f"db.{name}": number for name, number in snapshots.items()}, timeout=120)
    report = query.verify()
    assert report, str(report)


def backfilled(catalog, text: str, name: str = "db.result", **arguments):
    return catalog.sql(text).materialize(name, backfill="spark", **arguments)


def test_the_first_epoch_comes_from_spark_and_the_next_from_the_table(spark, catalog, orders):
    query = backfilled(
        catalog,
        "SELECT customer, COUNT(*) AS n, SUM(paid * 2) AS total FROM db.orders "
        "WHERE paid > 10 GROUP BY customer",
    )
    proven(query, orders=orders.latest_snapshot().id)
    read = [node["rows_in"] for node in query.status()["nodes"] if node["type"] == "Calc"]
    assert read[0] == 0, "Spark has filtered the rows"
    later = orders.upsert([{"id": 1, "customer": "new", "paid": 100}])
    proven(query, orders=later.id)
    assert "backfill" not in query.status()


def test_tables_are_joined_after_they_were_read(spark, catalog, orders):
    names = create(
        catalog,
        "db.names",
        pa.schema([("customer", pa.string()), ("full", pa.string())]),
        ["customer"],
    )
    names.upsert([{"customer": f"c{n}", "full": f"Customer {n}"} for n in range(5)])
    query = backfilled(
        catalog,
        "SELECT id, full, paid FROM db.orders LEFT JOIN db.names USING (customer) "
        "WHERE paid % 3 = 0",
        trigger="available_now",
    )
    query.wait_ended(120)
    assert query.verify()
    assert query.status()["epoch"] == 0


@pytest.mark.slow
def test_functions_of_users_run_on_spark(spark, catalog, orders, tmp_path):
    marks = str(tmp_path)

    @udf("BIGINT")
    def halved(paid: pa.Array) -> pa.Array:
        (Path(marks) / str(os.getpid())).touch()
        return pc.divide(paid, 2)

    catalog.register_function("halved", halved)
    query = backfilled(catalog, "SELECT id, halved(paid) AS half FROM db.orders")
    proven(query, orders=orders.latest_snapshot().id)
    ran = {path.name for path in tmp_path.iterdir() if path.name.isdigit()}
    assert ran - {str(os.getpid())}, "a task of Spark has called it"


def test_times_finer_than_sparks_are_read_here(spark, catalog):
    schema = [("id", "BIGINT"), ("at", "TIMESTAMP(9)")]
    table = catalog.create_table("db.fine", schema, primary_keys=["id"])
    made = table.upsert(pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))}))
    query = backfilled(catalog, "SELECT * FROM db.fine")
    proven(query, fine=made.id)
    content = catalog.load_table("db.result").to_arrow()
    assert content["at"].cast(pa.int64()).to_pylist() == [1]


def test_rows_that_cannot_be_computed_are_skipped_here(spark, catalog, orders):
    query = backfilled(catalog, "SELECT id, 1 / (id - 5) AS x FROM db.orders", on_error="skip")
    query.wait({"db.orders": orders.latest_snapshot().id}, timeout=120)
    assert catalog.load_table("db.result").to_arrow().num_rows == 1999
    query.stop()
    assert catalog.load_table("db.result$errors").to_arrow().num_rows == 1


@pytest.mark.slow
def test_a_row_that_cannot_be_computed_fails_the_query(spark, catalog, orders):
    query = backfilled(catalog, "SELECT id, 1 / (id - 5) AS x FROM db.orders")
    with pytest.raises(QueryFailedError, match=r"the backfill failed: .*DIVIDE_BY_ZERO"):
        query.wait({"db.orders": 1}, timeout=120)
    orders.delete([{"id": 5}])
    query.resume()
    proven(query, orders=orders.latest_snapshot().id)


def test_a_backfill_that_was_stopped_is_begun_anew(spark, catalog, orders):
    query = backfilled(catalog, "SELECT customer, SUM(paid) AS s FROM db.orders GROUP BY customer")
    query.stop()
    more = orders.upsert([{"id": 9999, "customer": "c0", "paid": 1}])
    query.resume()
    proven(query, orders=more.id)


def test_files_of_a_backfill_go_with_the_first_checkpoint(spark, catalog, orders, tmp_path):
    query = backfilled(catalog, "SELECT id FROM db.orders")
    proven(query, orders=orders.latest_snapshot().id)
    rows = tmp_path / "warehouse" / ".queries" / "db.result" / "lives"
    assert list(rows.rglob("*.arrow"))
    query.stop()
    assert list(rows.rglob("*.arrow")) == []


def test_the_engine_is_a_setting_too(spark, catalog, orders):
    catalog.sql("SET 'query.backfill-engine' = 'spark'")
    catalog.sql("CREATE TABLE db.ids (id BIGINT) TBLPROPERTIES ('primary-key' = 'id')")
    query = catalog.sql("INSERT INTO db.ids SELECT id FROM db.orders WHERE id < 9").start()
    proven(query, orders=orders.latest_snapshot().id)
    assert [each["rows_in"] for each in query.status()["nodes"] if each["type"] == "Calc"] == [0]


def test_without_a_session_it_is_refused(catalog, orders, monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(UnsupportedError, match="no session is active"):
        backfilled(catalog, "SELECT id FROM db.orders")


def test_progress_is_shown_until_the_first_epoch(spark, catalog, orders, monkeypatch):
    from pkray.spark import backfill as module

    held = module._Running._write

    def slowly(self, *arguments) -> None:
        held(self, *arguments)
        time.sleep(1.5)

    monkeypatch.setattr(module._Running, "_write", slowly)
    query = backfilled(catalog, "SELECT id FROM db.orders")
    seen = set()
    deadline = time.monotonic() + 120
    while (status := query.status())["epoch"] < 0 and time.monotonic() < deadline:
        if "backfill" in status:
            seen.add((status["backfill"]["state"], status["backfill"].get("tasks")))
        time.sleep(0.05)
    done, total = next(each for each in sorted(seen, key=str) if each[0] == "running")[1].split(
        " of "
    )
    assert int(done) <= int(total)
