"""Plans that take over running queries."""

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import pkray
from pkray import errors
from pkray.api.plan import Plan
from pkray.relational.continuous.run import Run
from pkray.relational.continuous.upgrades.shadow import Shadow
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade
from tests.integration.relational.changed_rows import content, materialized, rows_of, source


def fates(diff: Any) -> Counter[tuple[str, str]]:
    return Counter((each.fate, each.description.split("(")[0]) for each in diff.nodes)


TOTALS = "SELECT v % 3 AS side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY v % 3"


def test_a_filter_above_keeps_the_state_and_changes_the_result_in_one_snapshot(catalog, put):
    put({1: 1, 2: 2, 3: 3, 4: 4})
    query = materialized(catalog.sql(TOTALS), put, {5: 5})
    before = len(catalog.load_table("default.r").system("snapshots"))
    newer = catalog.sql(TOTALS + " HAVING COUNT(*) > 1")
    upgrade = query.upgrade(newer)
    assert fates(upgrade.diff) == Counter([("kept", "Aggregate")])
    assert len(catalog.load_table("default.r").system("snapshots")) == before + 1
    assert content(catalog) == rows_of(newer.to_arrow())
    query.wait({"default.t": put({6: 3, 7: 0}, 1)})
    assert content(catalog) == rows_of(newer.to_arrow())
    assert query.verify().equal


def test_the_text_of_a_query_is_that_of_the_plan_that_runs(catalog, put):
    put({1: 1})
    query = materialized(catalog.sql(TOTALS), put, {2: 2})
    text = TOTALS + " HAVING COUNT(*) > 0"
    query.upgrade(text)
    assert query.status()["sql"] == text
    query.rollback()
    assert query.status()["sql"] == TOTALS
    query.upgrade(catalog.sql(text).filter("n > 1"))
    assert "sql" not in query.status()


KEPT = [("kept", "Aggregate")]
REPLACED = [("warmed up", "Aggregate"), ("dropped", "Aggregate")]
"""What becomes of the state of an aggregate."""
EDITS = {
    "a filter above": (TOTALS + " HAVING COUNT(*) > 1", KEPT),
    "a filter below": (TOTALS.replace("FROM t", "FROM t WHERE v <> 4"), REPLACED),
    "a column that is computed": (
        TOTALS.replace("AS total", "AS total, SUM(v) * 2 AS twice"),
        KEPT,
    ),
    "another aggregate": (TOTALS.replace("AS total", "AS total, MAX(v) AS most"), REPLACED),
    "an aggregate less": (TOTALS.replace("COUNT(*) AS n, ", ""), REPLACED),
    "a renamed column": (TOTALS.replace("AS total", "AS amount"), KEPT),
    "other groups under the same name": (TOTALS.replace("v % 3", "v % 2"), REPLACED),
    "a join": (
        "SELECT a.side, a.n, a.total, b.v AS w FROM (" + TOTALS + ") a LEFT JOIN u b"
        " ON a.side = b.k",
        [("kept", "Aggregate"), ("warmed up", "Join")],
    ),
    "another source": (TOTALS.replace("FROM t", "FROM u"), REPLACED),
    "a wider type": (TOTALS.replace("SUM(v)", "CAST(SUM(v) AS DECIMAL(30, 0))"), KEPT),
    "state that expires": (TOTALS.replace("SELECT", "SELECT /*+ STATE_TTL('t' = '1 d') */"), KEPT),
}


@pytest.mark.sampled(4)
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
    read = {node.get("table") for node in query.plan().to_dict()["nodes"] if "tableColumns" in node}
    query.wait({name: number for name, number in snapshots.items() if name in read})


def left_behind(catalog: pkray.Catalog) -> list[str]:
    """List tags and consumers that only upgrades need."""
    tags = catalog.load_table("default.r").tags.list()["tag_name"].to_pylist()
    readers = catalog.load_table("default.t").consumers.list()["consumer_id"].to_pylist()
    incarnation = catalog.query("default.r").status()["incarnation"]
    own = f"query-default.r@{incarnation}"
    return [*tags, *(name for name in readers if name != own)]


REFUSED = {
    "other groups": (TOTALS.replace("side", "part"), "primaryKey"),
    "rows without a key": ("SELECT v % 3 AS side, 1L AS n, 2L AS total FROM t", "primaryKey"),
    "a narrower type": (TOTALS.replace("COUNT(*)", "CAST(COUNT(*) AS INT)"), "columns/n/type"),
    "another type": (TOTALS.replace("COUNT(*)", "CAST(COUNT(*) AS STRING)"), "columns/n/type"),
}


@pytest.mark.parametrize("edit", REFUSED)
def test_what_a_result_cannot_become_is_refused_by_the_field_that_differs(catalog, put, edit):
    text, field = REFUSED[edit]
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2})
    assert [each.differs for each in query.diff(text).refused] == [(field,)]
    with pytest.raises(errors.UpgradeRefusedError, match="cannot be upgraded") as refused:
        query.upgrade(text)
    assert refused.value.field == field
    query.wait({"default.t": put({3: 3})})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


def test_a_ttl_is_given_to_state_that_goes_on_and_taken_away_again(catalog, put):
    put({1: 1, 2: 2, 3: 3, 4: 4})
    query = materialized(catalog.sql(TOTALS), put, {5: 5}, 4)
    catalog.sql("SET 'table.exec.state.ttl' = '1 d'")
    upgrade = query.upgrade(catalog.sql(TOTALS))
    assert fates(upgrade.diff) == Counter([("kept", "Aggregate")])
    nodes = query.plan().to_dict()["nodes"]
    assert [each["ttl"] for node in nodes for each in node.get("state", ())] == ["1 d"]
    query.wait({"default.t": put({6: 3, 7: 0}, 1)})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())
    query.accept()
    catalog.sql("SET 'table.exec.state.ttl' = '0 ms'")
    upgrade = query.upgrade(catalog.sql(TOTALS))
    assert fates(upgrade.diff) == Counter([("kept", "Aggregate")])
    query.wait({"default.t": put({6: 4, 7: 1}, 2)})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


def test_rows_that_come_during_an_upgrade_are_neither_lost_nor_doubled(catalog, put):
    put(dict.fromkeys(range(1000), 1))
    query = catalog.sql(TOTALS).materialize("default.r")
    newer = TOTALS.replace("AS total", "AS total, MIN(k) AS least, COUNT(DISTINCT v) AS values")
    stopped = threading.Event()

    def write() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            put({number % 700: number, number + 2000: number}, number % 1000)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        time.sleep(0.5)
        query.upgrade(newer)
        time.sleep(0.5)
        query.rollback()
        time.sleep(0.5)
        query.upgrade(newer)
    finally:
        stopped.set()
        writing.join()
    query.wait({"default.t": put({1: 1})})
    assert content(catalog) == rows_of(catalog.sql(newer).to_arrow())
    for snapshot in catalog.load_table("default.r").system("snapshots")["snapshot_id"].to_pylist():
        report = query.verify(snapshot)
        assert report.equal, str(report)


def test_a_query_that_failed_goes_on_under_a_plan_that_can_be_computed(catalog, put):
    query = materialized(catalog.sql("SELECT k, 12 / v AS w FROM t"), put, {1: 4})
    number = put({2: 0, 3: 2})
    with pytest.raises(errors.QueryFailedError, match="zero"):
        query.wait({"default.t": number})
    query.upgrade("SELECT k, try_divide(12, v) AS w FROM t")
    assert query.status()["state"] == "stopped"
    query.resume().wait({"default.t": put({4: 3})})
    assert content(catalog) == Counter([(1, 3.0), (2, None), (3, 6.0), (4, 4.0)])
    assert query.verify().equal


def test_a_plan_that_cannot_be_computed_leaves_the_query_as_it_was(catalog, put):
    query = materialized(catalog.sql("SELECT k, v AS w FROM t"), put, {1: 4, 2: 0})
    with pytest.raises(errors.QueryFailedError, match="goes on as it was"):
        query.upgrade("SELECT k, CAST(12 / v AS INT) AS w FROM t")
    query.wait({"default.t": put({3: 3})})
    assert content(catalog) == Counter([(1, 4), (2, 0), (3, 3)])
    query.rollback()
    assert not left_behind(catalog)
    query.upgrade("SELECT k, v + 1 AS w FROM t")
    query.wait({"default.t": put({4: 4})})
    assert content(catalog) == Counter([(1, 5), (2, 1), (3, 4), (4, 5)])


def test_an_upgrade_under_way_is_dropped(catalog, put, monkeypatch):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3})
    monkeypatch.setattr(Shadow, "reached_by", lambda self, positions: None)
    upgrade = query.upgrade(TOTALS.replace("SUM(v)", "SUM(v + 1)"), wait=False)
    with pytest.raises(errors.ServiceUnavailableError):
        upgrade.wait(0.3)
    assert query.status()["upgrade"]["state"] == "warming up"
    with pytest.raises(errors.UpgradeError, match="not taken over yet"):
        query.accept()
    with pytest.raises(errors.UpgradeError, match="under way"):
        query.upgrade(TOTALS.replace("SUM(v)", "SUM(v + 2)"))
    query.rollback()
    assert upgrade.state == "ended"
    assert not left_behind(catalog)
    query.wait({"default.t": put({4: 4})})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())
    with pytest.raises(errors.UpgradeError, match="no upgrade to roll back"):
        query.rollback()


def test_an_upgrade_has_to_be_accepted_before_the_next(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3})
    newer = TOTALS + " HAVING COUNT(*) > 1"
    upgrade = query.upgrade(newer)
    assert query.upgrade(newer).state == "unaccepted"
    with pytest.raises(errors.UpgradeError, match="not accepted yet"):
        query.upgrade(TOTALS)
    query.accept()
    assert upgrade.state == "ended"
    assert not left_behind(catalog)
    query.upgrade(TOTALS)
    query.wait({"default.t": put({4: 1})})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_an_upgrade_asked_for_while_another_was_carried_out_is_refused(
    catalog, put, monkeypatch, runs
):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3, 4: 4})
    if not runs:
        query.stop()
    other, late = TOTALS.replace("SUM(v)", "SUM(v + 1)"), TOTALS + " HAVING COUNT(*) > 1"
    create = Site.create

    def sleep_and_create(site: Site, upgrade: StoredUpgrade) -> bool:
        monkeypatch.setattr(Site, "create", create)
        query.upgrade(other)
        query.accept()
        return create(site, upgrade)

    monkeypatch.setattr(Site, "create", sleep_and_create)
    with pytest.raises(errors.PkrayError, match="got another plan while"):
        query.upgrade(late)
    query.resume()
    query.wait({"default.t": put({5: 5})})
    assert content(catalog) == rows_of(catalog.sql(other).to_arrow())
    query.rollback()
    assert not left_behind(catalog)
    query.upgrade(late)
    query.wait({"default.t": put({6: 6})})
    assert content(catalog) == rows_of(catalog.sql(late).to_arrow())


def test_a_way_back_asked_for_while_another_upgrade_was_carried_out_is_dropped(
    catalog, put, monkeypatch
):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3, 4: 4})
    query.upgrade(TOTALS + " HAVING COUNT(*) > 1")
    other = TOTALS.replace("SUM(v)", "SUM(v + 1)")
    write = Site.write

    def sleep_and_write(site: Site, upgrade: StoredUpgrade) -> None:
        monkeypatch.setattr(Site, "write", write)
        query.accept()
        query.upgrade(other)
        query.accept()
        write(site, upgrade)

    monkeypatch.setattr(Site, "write", sleep_and_write)
    with pytest.raises(errors.QueryFailedError, match="got another plan while"):
        query.rollback()
    query.rollback()
    assert not left_behind(catalog)
    query.wait({"default.t": put({5: 5})})
    assert content(catalog) == rows_of(catalog.sql(other).to_arrow())
    assert query.verify().equal


def test_the_same_name_with_another_plan_says_how_it_is_upgraded(catalog, put):
    put({1: 1})
    catalog.sql(TOTALS).materialize("default.r")
    for text in (TOTALS + " HAVING COUNT(*) > 1", TOTALS.replace("AS total", "AS sum")):
        with pytest.raises(errors.QueryExistsError, match=r"query\.upgrade"):
            catalog.sql(text).materialize("default.r")


def test_a_plan_of_an_older_pkray_keeps_its_state(catalog, put):
    put({1: 1, 2: 2})
    query = materialized(catalog.sql(TOTALS), put, {3: 3})
    document = query.plan().to_dict()
    plan = Plan({**document, "pkrayVersion": "0.9"}, query.plan().roots, catalog.session)
    assert query.diff(plan).is_same
    query.upgrade(plan)
    assert query.plan().to_dict()["pkrayVersion"] == "0.9"
    query.wait({"default.t": put({4: 4}, 1)})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


def test_results_that_do_not_change_are_left_alone(catalog, put):
    for name in ("small", "large"):
        catalog.create_table(f"default.{name}", [("v", "INT"), ("n", "BIGINT")], ["v"])
    text = (
        "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO small SELECT v, COUNT(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v; "
        "INSERT INTO large SELECT v, MAX(k) AS n FROM t WHERE v > 2 GROUP BY v; END"
    )
    query = catalog.sql(text).start("both")
    query.wait({"default.t": put({1: 1, 2: 2, 3: 3})})
    before = catalog.load_table("default.small").at().snapshot.id
    upgrade = query.upgrade(text.replace("v > 2", "v > 1"))
    assert sorted(each.fate for each in upgrade.diff.nodes) == ["dropped", "kept", "warmed up"]
    assert catalog.load_table("default.small").at().snapshot.id == before
    assert content(catalog, "default.large") == Counter([(2, 2), (3, 3)])
    query.wait({"default.t": put({4: 2}, 1)})
    assert content(catalog, "default.small") == Counter([(2, 2), (3, 1)])
    assert content(catalog, "default.large") == Counter([(2, 4), (3, 3)])


def test_state_that_follows_the_order_of_arrival_is_warmed_up_where_its_rows_are_needed(
    catalog, put
):
    text = (
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v % 2 ORDER BY v DESC) AS n"
        " FROM t) WHERE n <= 2"
    )
    query = catalog.sql(text).materialize("default.r", primary_key=["k"])
    query.wait({"default.t": put({1: 1, 2: 2, 3: 3, 5: 5})})
    upgrade = query.upgrade(text + " AND v < 4")
    assert [(each.fate, each.differs) for each in upgrade.diff.warmed_up] == [
        ("warmed up", ("order of arrival",))
    ]
    query.wait({"default.t": put({7: 0, 9: 9}, 2)})
    assert content(catalog) == rows_of(catalog.sql(text + " AND v < 4").to_arrow())


def test_the_results_before_are_proved_by_the_plan_that_made_them(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3})
    query.upgrade(TOTALS.replace("SUM(v)", "SUM(v + 1)"))
    query.accept()
    query.wait({"default.t": put({4: 4})})
    snapshots = catalog.load_table("default.r").system("snapshots")["snapshot_id"].to_pylist()
    assert all(query.verify(each).equal for each in snapshots)


def test_a_savepoint_of_another_plan_is_refused(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3})
    query.savepoint("one")
    query.upgrade(TOTALS.replace("SUM(v)", "SUM(v + 1)"))
    with pytest.raises(errors.UnsupportedError, match="under another plan"):
        query.resume(savepoint="one")
    query.rollback()
    query.resume(savepoint="one").wait({"default.t": put({5: 5})})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


def test_several_workers_hand_their_states_over(catalog, put):
    catalog.sql("SET 'query.parallelism' = '3'")
    query = materialized(catalog.sql(TOTALS), put, {number: number for number in range(50)})
    assert query.status()["workers"] == 3
    join = "SELECT a.side, a.n, a.total, b.v AS w FROM (" + TOTALS + ") a JOIN t b ON a.n = b.k"
    query.upgrade(join)
    query.rollback()
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())
    query.upgrade(join)
    query.wait({"default.t": put({60: 1, 61: 2}, 5)})
    assert query.status()["workers"] == 3
    assert content(catalog) == rows_of(catalog.sql(join).to_arrow())
    query.rollback()
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())
    query.wait({"default.t": put({62: 1}, 6, 7)})
    assert content(catalog) == rows_of(catalog.sql(TOTALS).to_arrow())


WINDOWS = (
    "SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS total FROM"
    " TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '{} MINUTES'))"
    " GROUP BY window_start, window_end"
)


def test_a_window_of_another_size_is_warmed_up_and_the_same_one_is_kept(catalog):
    catalog.sql(
        "CREATE TABLE events (k INT NOT NULL, at TIMESTAMP(3), v INT,"
        " WATERMARK FOR at AS at - INTERVAL '1' MINUTE, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('changelog-producer' = 'lookup')",
        dialect="flink",
    )
    table = catalog.load_table("default.events")

    def add(*minutes: int) -> int:
        begun = dt.datetime(2024, 5, 1)
        snapshot = table.upsert(
            [{"k": n, "at": begun + dt.timedelta(minutes=n), "v": n} for n in minutes]
        )
        assert snapshot is not None
        return int(snapshot.id)

    def window(size: int, more: str = "") -> str:
        return WINDOWS.format(size) + more

    query = catalog.sql(window(5), dialect="flink").materialize("default.r")
    query.wait({"default.events": add(1, 2, 4, 7, 8)})
    upgrade = query.upgrade(window(10))
    assert sorted(each.fate for each in upgrade.diff.nodes) == ["dropped", "warmed up"]
    query.wait({"default.events": add(9, 11, 13)})
    query.accept()
    assert sorted((row[2], row[3]) for row in content(catalog)) == [(6, 31)]
    plan = query.plan()
    older = Plan({**plan.to_dict(), "pkrayVersion": "0.9"}, plan.roots, catalog.session)
    assert [each.fate for each in query.upgrade(older).diff.nodes] == ["kept"]
    query.wait({"default.events": add(15, 25)})
    assert sorted((row[2], row[3]) for row in content(catalog)) == [(3, 39), (6, 31)]
    query.accept()
    upgrade = query.upgrade(window(10, " HAVING SUM(v) > 35"))
    assert [each.differs for each in upgrade.diff.warmed_up] == [("watermark",)]
    query.wait({"default.events": add(26, 37)})
    assert sorted((row[2], row[3]) for row in content(catalog)) == [(2, 51), (3, 39)]


def test_rows_that_only_the_newer_plan_cannot_compute_fail_the_upgrade_alone(
    catalog, put, monkeypatch
):
    query = materialized(catalog.sql("SELECT k, v AS w FROM t"), put, {1: 4})
    reached = Shadow.reached_by

    def later(self: Shadow, positions: Mapping[str, int]) -> Run | None:
        run = reached(self, positions)
        return run if run is None or positions["default.t"] > run.positions["default.t"] else None

    monkeypatch.setattr(Shadow, "reached_by", later)
    upgrade = query.upgrade("SELECT k, CAST(12 / v AS INT) AS w FROM t", wait=False)
    with pytest.raises(errors.ServiceUnavailableError):
        upgrade.wait(0.5)
    query.wait({"default.t": put({2: 0})})
    with pytest.raises(errors.QueryFailedError, match="divides by zero"):
        upgrade.wait(120)
    query.wait({"default.t": put({3: 3})})
    assert content(catalog) == Counter([(1, 4), (2, 0), (3, 3)])


def test_what_stands_above_rows_by_order_of_arrival_is_warmed_up_with_them(catalog, put):
    text = (
        "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM (SELECT * FROM (SELECT *,"
        " ROW_NUMBER() OVER (PARTITION BY v % 3 ORDER BY v) AS place FROM t) WHERE place = 1)"
        " GROUP BY v % 2"
    )
    query = materialized(catalog.sql(text), put, {1: 1, 2: 2, 3: 3})
    changes = query.diff(text + " HAVING COUNT(*) > 1").nodes
    assert {each.differs for each in changes} == {("order of arrival",)}
    assert query.diff(query.plan()).is_same


def test_tables_of_the_older_plan_stay_until_the_upgrade_is_accepted(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1})
    source(catalog, "default.u")({1: 4})
    query.upgrade(TOTALS.replace("FROM t", "FROM u"))
    with pytest.raises(errors.TableInUseError, match=r"query default\.r reads it"):
        catalog.drop_table("default.t")
    query.accept()
    catalog.drop_table("default.t")
    assert content(catalog) == Counter([(1, 1, 4)])


def test_a_query_is_dropped_with_its_upgrade(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1})
    query.upgrade(TOTALS + " HAVING COUNT(*) > 1")
    query.drop()
    readers = catalog.load_table("default.t").consumers.list()
    assert readers.num_rows == 0
    assert catalog.load_table("default.r").tags.list().num_rows == 0
    assert catalog.queries() == []


def test_an_upgrade_of_an_earlier_query_of_the_name_is_not_carried_out(catalog, put, tmp_path):
    put({1: 1, 2: 2, 3: 3, 4: 4})
    older = catalog.sql(TOTALS).materialize("default.r")
    older.upgrade(catalog.sql(TOTALS + " HAVING COUNT(*) > 1"))
    (written,) = (tmp_path / "warehouse" / ".queries" / "default.r").rglob("upgrade.json")
    asked = written.read_bytes()
    older.stop()
    newer = catalog.sql(TOTALS).materialize("default.r", replace=True)
    written.parent.mkdir()
    written.write_bytes(asked)  # as a process does that slept meanwhile
    newer.wait({"default.t": put({5: 5})})
    assert newer.verify().equal
    assert "upgrade" not in newer.status()
    newer.upgrade(catalog.sql(TOTALS + " HAVING COUNT(*) > 1"))
    assert newer.verify().equal


@pytest.mark.parametrize("text", [TOTALS, "SELECT k, v FROM t WHERE v > 0"])
def test_a_column_that_a_query_does_not_read_makes_no_other_plan_of_it(catalog, put, text):
    query = materialized(catalog.sql(text), put, {1: 1, 2: 2})
    catalog.load_table("default.t").alter.add_column("w", "INT")
    assert query.upgrade(catalog.sql(text)).state == "ended"
    assert "upgrade" not in query.status()
    query.wait({"default.t": put({3: 3})})
    assert query.verify().equal


def test_a_query_of_all_columns_takes_a_new_one_by_an_upgrade(catalog, put):
    query = materialized(catalog.sql("SELECT * FROM t"), put, {1: 1, 2: 2})
    catalog.load_table("default.t").alter.add_column("w", "INT")
    assert query.upgrade(catalog.sql("SELECT * FROM t")).state == "unaccepted"
    assert catalog.load_table("default.r").schema.names == ("k", "v", "w")
