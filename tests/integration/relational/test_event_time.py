"""Event time of tables: declared watermarks, and what results and queries say of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

import pkray
from pkray.errors import OptionError, QueryError

COLUMNS = [("k", "INT NOT NULL"), ("at", "TIMESTAMP(3)")]
WINDOWS = (
    "SELECT k, window_start, window_end FROM "
    "TABLE(TUMBLE(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND))"
)


def second(number: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=number)


def millis(number: int) -> int:
    return int(second(number).replace(tzinfo=datetime.UTC).timestamp() * 1000)


@pytest.fixture
def catalog(tmp_path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path / "warehouse") as catalog:
        yield catalog


def clicks(catalog: pkray.Catalog, name: str = "shop.clicks", **options: str) -> pkray.Table:
    given = {"changelog-producer": "lookup", **options}
    return catalog.create_table(name, COLUMNS, ["k"], options=given)


def put(table: pkray.Table, *rows: tuple[int, int]) -> int:
    return table.upsert([{"k": key, "at": second(number)} for key, number in rows]).id


def test_a_watermark_is_declared_and_dropped(catalog):
    table = clicks(catalog)
    table.alter.set_watermark("at", "5 s")
    (said,) = (w for w in table.relation().describe()["watermark"].to_pylist() if w)
    assert said == "`at` - INTERVAL '5.000' SECOND"
    table.alter.set_watermark("at", "at - INTERVAL '1' MINUTE")
    assert "WATERMARK FOR at AS at - INT" in str(catalog.sql("SHOW CREATE TABLE shop.clicks"))
    table.alter.drop_watermark()
    table.alter.drop_watermark()
    assert not any(table.relation().describe()["watermark"].to_pylist())


def test_a_watermark_of_what_is_no_time_is_refused(catalog):
    table = clicks(catalog)
    with pytest.raises(QueryError, match="k is INT"):
        table.alter.set_watermark("k")
    with pytest.raises(QueryError, match="no column is called"):
        table.alter.set_watermark("when", "5 s")


def test_snapshots_of_results_and_the_status_tell_the_watermark(catalog):
    table = clicks(catalog)
    table.alter.set_watermark("at", "5 s")
    query = catalog.sql(WINDOWS, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 20), (2, 7))})
    snapshot = catalog.load_table("shop.result").latest_snapshot()
    assert snapshot.watermark == millis(15)
    assert query.status()["watermarks"] == {"shop.clicks": millis(15)}
    query.wait({"shop.clicks": put(table, (3, 8))})
    assert catalog.load_table("shop.result").latest_snapshot().watermark == millis(15)


def test_a_query_goes_on_at_the_watermark_of_its_checkpoint(catalog):
    table = clicks(catalog)
    table.alter.set_watermark("at")
    query = catalog.sql(WINDOWS, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 20))})
    query.stop()
    query.resume().wait({"shop.clicks": put(table, (2, 5))})
    assert query.status()["watermarks"] == {"shop.clicks": millis(20)}


def test_a_relation_declares_its_own_watermark(catalog):
    table = clicks(catalog)
    view = table.relation().filter("k > 0").watermark("at", "5 s")
    query = (
        view.window(pkray.relational.Tumble.over("10 seconds").on("at"))
        .select("k", "window_end")
        .materialize("shop.result")
    )
    query.wait({"shop.clicks": put(table, (1, 20), (-1, 90))})
    assert catalog.load_table("shop.result").latest_snapshot().watermark == millis(15)
    query.stop()
    assert query.verify().equal


def test_sources_wait_for_the_slowest_of_their_group(catalog):
    options = {
        "scan.watermark.alignment.group": "g",
        "scan.watermark.alignment.max-drift": "10 s",
        "scan.watermark.alignment.update-interval": "1 ms",
    }
    fast, slow = clicks(catalog, "shop.fast", **options), clicks(catalog, "shop.slow", **options)
    for table in (fast, slow):
        table.alter.set_watermark("at")
        put(table, (1, 0))
    text = " UNION ALL ".join(WINDOWS.replace("clicks", name) for name in ("fast", "slow"))
    query = catalog.sql(text, dialect="flink").materialize("shop.result")
    query.wait({"shop.fast": put(fast, (2, 30))})
    ahead = put(fast, (3, 31))
    query.wait({"shop.slow": put(slow, (2, 5))})
    assert query.status()["sources"]["shop.fast"] < ahead
    put(slow, (3, 25))
    query.wait({"shop.fast": ahead})
    assert query.status()["watermarks"]["shop.fast"] == millis(31)


def test_a_query_that_ends_reads_all_that_there_is(catalog):
    options = {
        "scan.watermark.alignment.group": "g",
        "scan.watermark.alignment.max-drift": "1 s",
    }
    for name in ("shop.fast", "shop.slow"):
        table = clicks(catalog, name, **options)
        table.alter.set_watermark("at")
        put(table, (1, 0))
    text = " UNION ALL ".join(WINDOWS.replace("clicks", name) for name in ("fast", "slow"))

    def run() -> Any:
        query = catalog.sql(text, dialect="flink").materialize(
            "shop.result", trigger="available_now"
        )
        query.wait_ended()
        return query

    run()
    put(catalog.load_table("shop.fast"), (2, 50))
    newest = put(catalog.load_table("shop.fast"), (3, 51))
    assert run().status()["sources"]["shop.fast"] == newest


def test_a_group_needs_a_bound(catalog):
    table = clicks(catalog, **{"scan.watermark.alignment.group": "g"})
    table.alter.set_watermark("at")
    with pytest.raises(OptionError, match="max-drift"):
        catalog.sql(WINDOWS, dialect="flink").materialize("shop.result")
