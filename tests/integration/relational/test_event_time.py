"""Event time of tables: declared watermarks, and what results and queries say of them."""

import datetime
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

import pkray
from pkray.errors import OptionError, QueryError, QueryExistsError
from pkray.relational.continuous.queries.stored import IN_PROCESS
from pkray.relational.plan.nodes import Over

COLUMNS = [("k", "INT NOT NULL"), ("at", "TIMESTAMP(3)")]
WINDOWS = (
    "SELECT k, window_start, window_end FROM "
    "TABLE(TUMBLE(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND))"
)


def second(number: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=number)


def millis(number: int) -> int:
    return int(second(number).replace(tzinfo=datetime.UTC).timestamp() * 1000)


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
    assert {each["watermark"] for each in query.status()["nodes"]} == {millis(15)}
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


def test_a_stored_plan_declares_the_watermark_of_its_relation(catalog):
    table = clicks(catalog)
    view = table.relation().watermark("at", "5 s")
    windows = view.window(pkray.relational.Tumble.over("10 seconds").on("at"))
    query = (
        windows.group_by("window_start", "window_end").agg(n="count(*)").materialize("shop.result")
    )
    query.wait({"shop.clicks": put(table, (1, 1), (2, 12))})
    query.stop()
    IN_PROCESS.clear()  # as in another process
    query = catalog.query("shop.result").resume()
    query.wait({"shop.clicks": put(table, (3, 17))})
    assert counts(catalog) == [(10, 1)]
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


@pytest.mark.parametrize("how", ["setting", "table", "hint"])
def test_a_source_without_changes_holds_windows_back_until_it_is_idle(catalog, how):
    options = {"scan.watermark.idle-timeout": "1 min"} if how == "table" else {}
    hint = "/*+ OPTIONS('scan.watermark.idle-timeout' = '1 min') */" if how == "hint" else ""
    if how == "setting":
        catalog.sql("SET 'table.exec.source.idle-timeout' = '1 min'")
    busy, quiet = clicks(catalog, "shop.busy"), clicks(catalog, "shop.quiet", **options)
    for table in (busy, quiet):
        table.alter.set_watermark("at")
        put(table, (1, 1))
    both = f"SELECT * FROM shop.busy UNION ALL SELECT * FROM shop.quiet {hint}"
    catalog.create_view("clicks", catalog.sql(both, dialect="flink"), temporary=True)
    now = [0]
    text = COUNTED.replace("shop.clicks", "clicks")
    query = catalog.sql(text, dialect="flink").materialize("shop.result", clock=lambda: now[0])
    query.wait({"shop.busy": put(busy, (2, 15))})
    assert counts(catalog) == []
    now[0] = 50_000
    query.wait({"shop.busy": put(busy, (3, 16))})
    assert query.status()["idle"] == []
    now[0] = 60_000
    assert query._watched.worker.wait(lambda status: status["idle"] == ["shop.quiet"], 120)
    assert counts(catalog) == [(10, 2)]
    query.wait({"shop.quiet": put(quiet, (4, 4), (5, 17))})
    assert query.status()["late"] == 1
    assert query.verify().equal


def test_a_query_that_ends_reads_all_that_there_is(catalog):
    options = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "1 s"}
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


COUNTED = (
    "SELECT window_start, window_end, COUNT(*) AS n FROM "
    "TABLE(TUMBLE(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)


def counts(catalog: pkray.Catalog) -> list[tuple[int, int]]:
    rows = catalog.load_table("shop.result").to_arrow().to_pylist()
    seconds = [int((row["window_end"] - second(0)).total_seconds()) for row in rows]
    return sorted(zip(seconds, (row["n"] for row in rows), strict=True))


@pytest.fixture
def late(catalog) -> Any:
    """A query of windows of ten seconds with one row that came late, and one that still waits."""
    table = clicks(catalog)
    table.alter.set_watermark("at", "2 s")
    query = catalog.sql(COUNTED, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 1), (2, 5), (3, 12))})
    query.wait({"shop.clicks": put(table, (4, 9), (5, 25))})
    return query


def test_windows_come_when_the_watermark_has_passed_them(catalog, late):
    assert counts(catalog) == [(10, 2), (20, 1)]


def test_late_rows_can_be_read(catalog, late):
    late.stop()
    (row,) = catalog.load_table("shop.result$late").to_arrow().to_pylist()
    assert (row["window_start"], row["window_end"]) == (second(0), second(10))
    assert (row["epoch"], row["watermark"]) == (late.status()["epoch"], second(10))
    assert '"at": "2024-01-01 00:00:09"' in row["row"]
    assert catalog.sql("SELECT COUNT(*) AS n FROM `shop`.`result$late`").to_arrow()["n"][0].as_py()


def test_the_status_counts_late_rows(catalog, late):
    assert late.status()["late"] == 1
    late.stop()
    late.resume()
    newest = put(catalog.load_table("shop.clicks"), (6, 1))
    late.wait({"shop.clicks": newest})
    assert late.status()["late"] == 2


def test_late_rows_and_open_windows_are_left_out_of_the_proof(catalog, late):
    report = late.verify()
    assert report.equal, str(report)
    assert report.excluded[-1] == "1 rows that came late were left out"


def test_every_snapshot_of_a_windowed_result_is_proved(catalog, late):
    table = catalog.load_table("shop.clicks")
    late.wait({"shop.clicks": put(table, (7, 3), (8, 14), (9, 47))})
    for snapshot in catalog.load_table("shop.result").system("snapshots")["snapshot_id"]:
        report = late.verify(snapshot.as_py())
        assert report.equal, str(report)


@pytest.mark.parametrize("kind", ["HOP", "CUMULATE"])
def test_overlapping_windows_go_on_from_a_checkpoint_and_are_proved(catalog, kind):
    table = clicks(catalog)
    table.alter.set_watermark("at", "2 s")
    overlapping = f"{kind}(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20'"
    text = COUNTED.replace("TUMBLE(TABLE shop.clicks, DESCRIPTOR(at), INTERVAL '10'", overlapping)
    query = catalog.sql(text, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 1), (2, 7), (3, 18))})
    query.stop()
    query.resume()
    query.wait({"shop.clicks": put(table, (4, 8), (5, 3), (6, 31))})
    query.stop()
    query.resume()
    query.wait({"shop.clicks": put(table, (7, 2), (8, 40))})
    assert query.status()["late"] > 1
    report = query.verify()
    assert report.equal, str(report)


@pytest.mark.parametrize("emission", ["EARLY => INTERVAL '0' SECOND", "LATENESS => INTERVAL '9'"])
def test_windows_that_change_are_proved(catalog, emission):
    table = clicks(catalog)
    table.alter.set_watermark("at", "2 s")
    text = COUNTED.replace(
        "'10' SECOND", f"'10' SECOND, {emission} SECOND".replace("D SECOND", "D")
    )
    query = catalog.sql(text, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 1), (2, 13))})
    query.stop()
    query.resume()
    query.wait({"shop.clicks": put(table, (3, 2), (4, 16))})
    query.wait({"shop.clicks": put(table, (5, 42), (6, 3))})
    report = query.verify()
    assert report.equal, str(report)


def test_a_result_without_a_snapshot_is_proved(catalog):
    table = clicks(catalog)
    table.alter.set_watermark("at", "2 s")
    query = catalog.sql(COUNTED, dialect="flink").materialize("shop.result")
    query.wait({"shop.clicks": put(table, (1, 1))})
    assert query.verify().equal


def test_a_query_of_a_result_waits_for_its_watermark(catalog):
    table = clicks(catalog)
    table.alter.set_watermark("at", "2 s")
    tens = COUNTED.replace("window_start, window_end,", "window_end AS ended,", 1)
    below = catalog.sql(tens, dialect="flink").materialize("shop.result")
    result = catalog.load_table("shop.result")
    result.alter.set_watermark("ended", "`ended` - INTERVAL '0.001' SECOND")
    text = (
        "SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE(TABLE shop.result, "
        "DESCRIPTOR(ended), INTERVAL '20' SECOND)) GROUP BY window_start, window_end"
    )
    above = catalog.sql(text, dialect="flink").materialize("shop.twenties")
    below.wait({"shop.clicks": put(table, (1, 1), (2, 5), (3, 12))})
    below.wait({"shop.clicks": put(table, (4, 25), (10, 41), (11, 62))})
    above.wait({"shop.result": result.latest_snapshot().id})
    rows = catalog.load_table("shop.twenties").to_arrow().to_pylist()
    assert [(row["window_end"], row["n"]) for row in rows] == [(second(20), 2), (second(40), 2)]
    assert above.verify().equal


def test_the_report_says_that_a_keyed_table_forgets_its_versions(catalog):
    for name in ("shop.clicks", "shop.rates"):
        clicks(catalog, name).alter.set_watermark("at")
    text = (
        "SELECT c.k, r.at AS since FROM shop.clicks AS c "
        "LEFT JOIN shop.rates FOR SYSTEM_TIME AS OF c.at AS r ON c.k = r.k"
    )
    query = catalog.sql(text, dialect="flink").materialize("shop.result")
    query.wait({"shop.rates": put(catalog.load_table("shop.rates"), (1, 3))})
    query.wait({"shop.clicks": put(catalog.load_table("shop.clicks"), (1, 5), (2, 60))})
    query.wait({"shop.rates": put(catalog.load_table("shop.rates"), (1, 30))})
    (row, *_) = catalog.load_table("shop.result").to_arrow().to_pylist()
    assert (row["k"], row["since"]) == (1, second(3))
    assert "a temporal join met versions that shop.rates no longer has" in query.verify().excluded


SO_FAR = (
    "SELECT {hint} k, u, SUM(k) OVER (PARTITION BY u ORDER BY at) AS s, COUNT(*) OVER (PARTITION BY"
    " u ORDER BY at RANGE INTERVAL '10' SECOND PRECEDING) AS n FROM shop.visits"
)


@pytest.fixture
def visit(catalog) -> Callable[..., int]:
    """Add rows of some seconds to a table that only takes new ones; gives its snapshot."""
    table = catalog.create_table(
        "shop.visits",
        [("k", "INT NOT NULL"), ("u", "INT"), ("at", "TIMESTAMP(3)")],
        ["k"],
        options={"merge-engine": "first-row", "changelog-producer": "lookup", "bucket": "3"},
    )
    table.alter.set_watermark("at", "5 s")
    keys = itertools.count(1)

    def visited(*seconds: int) -> int:
        rows = [{"k": k, "u": k % 3, "at": second(s)} for s, k in zip(seconds, keys, strict=False)]
        return table.upsert(rows).id

    return visited


def sums(catalog: pkray.Catalog) -> dict[int, tuple[int, int]]:
    rows = catalog.load_table("shop.result").to_arrow().to_pylist()
    return {row["k"]: (row["s"], row["n"]) for row in rows}


@pytest.mark.parametrize("workers", [1, 3])
def test_sums_over_event_time_come_at_the_watermark_and_stay(catalog, visit, workers):
    catalog.sql(f"SET 'query.parallelism' = '{workers}'")
    query = catalog.sql(SO_FAR.format(hint="")).materialize("shop.result")
    query.wait({"shop.visits": visit(4, 1, 2, 9, 8, 3)})
    assert sums(catalog) == {1: (1, 1), 2: (2, 1), 3: (3, 1), 6: (9, 2)}
    query.stop()
    query.resume().wait({"shop.visits": visit(20, 17, 18)})
    expected = {**sums(catalog), 4: (5, 2), 5: (7, 2)}
    assert sums(catalog) == expected
    query.wait({"shop.visits": visit(3, 16, 30)})
    assert query.status()["late"] == 1
    assert sums(catalog) == {**expected, 7: (12, 1), 11: (18, 2), 8: (26, 3), 9: (18, 1)}
    assert query.verify().excluded == ("1 rows that came late were left out",)
    for number in catalog.load_table("shop.result").system("snapshots")["snapshot_id"].to_pylist():
        assert query.verify(number).equal
    query.stop()
    (late,) = catalog.load_table("shop.result$late").to_arrow().to_pylist()
    assert json.loads(late["row"])["k"] == 10


def test_another_form_of_sums_over_event_time_takes_over(catalog, visit):
    at_once = catalog.sql(SO_FAR.format(hint="/*+ UPDATES('visits' = 'true') */"))
    query = at_once.materialize("shop.result")
    query.wait({"shop.visits": visit(4, 1, 2, 9)})
    assert sums(catalog)[4] == (5, 2)
    query.upgrade(catalog.sql(SO_FAR.format(hint="")))
    query.wait({"shop.visits": visit(7, 20)})
    assert query.verify().equal
    assert set(sums(catalog)) == {1, 2, 3, 4, 5}
    query.rollback()
    query.wait({"shop.visits": visit(5)})
    assert set(sums(catalog)) == {1, 2, 3, 4, 5, 6, 7}
    assert query.verify().equal


def test_a_query_that_was_compiled_before_keeps_its_form(catalog, visit, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(Over, "can_wait", lambda node: False)
        query = catalog.sql(SO_FAR.format(hint="")).materialize("shop.result")
    query.wait({"shop.visits": visit(4, 1, 2)})
    query.stop()
    IN_PROCESS.clear()  # as in another process
    query = catalog.query("shop.result").resume()
    query.wait({"shop.visits": visit(3)})
    assert set(sums(catalog)) == {1, 2, 3, 4}
    assert query.verify().equal
    with pytest.raises(QueryExistsError):
        catalog.sql(SO_FAR.format(hint="")).materialize("shop.result")
