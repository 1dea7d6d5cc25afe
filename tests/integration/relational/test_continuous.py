"""Continuous queries over keyed tables, with an embedded service."""

import time
from collections import Counter
from typing import Any

import pytest

from pkray.errors import (
    OptionError,
    QueryExistsError,
    QueryFailedError,
    QueryNotFoundError,
    SchemaError,
    TableInUseError,
    UnsupportedError,
)
from tests.integration.relational.changed_rows import content, materialized

TOTALS = "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY v % 2"


def test_a_materialized_query_keeps_its_table_up_to_date(catalog, put):
    put({1: 1, 2: 2, 3: 3})
    query = materialized(catalog.sql(TOTALS), put, {2: 5}, 1)
    assert content(catalog) == Counter([(1, 2, 8)])
    assert query.verify().equal
    assert catalog.load_table("default.r").primary_keys == ("_row_key",)


def test_a_key_without_nulls_is_the_key_of_the_table(catalog, put):
    put({1: 1, 2: 2})
    materialized(catalog.sql("SELECT k, v * 2 AS w FROM t WHERE v > 1"), put, {1: 7}, 2)
    assert content(catalog) == Counter([(1, 14)])
    assert catalog.load_table("default.r").primary_keys == ("k",)


def test_a_commit_of_no_rows_is_waited_for(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {})
    put({1: 1})
    query.wait({"default.t": put({})})
    assert content(catalog) == Counter([(1, 1, 1)])


def test_waiting_for_a_table_that_is_not_read_fails_at_once(catalog, put):
    put({1: 1})
    query = catalog.sql(TOTALS).materialize("default.r")
    begun = time.monotonic()
    with pytest.raises(OptionError, match=r"does not read default\.other: it reads default\.t"):
        query.wait({"default.other": 1}, timeout=250)
    assert time.monotonic() - begun < 120


def test_equal_rows_are_kept_as_often_as_they_occur(catalog, put):
    put({1: 1, 2: 1, 3: None, 4: None})
    materialized(catalog.sql("SELECT v FROM t"), put, {5: 1}, 3)
    assert content(catalog) == Counter({(1,): 3, (None,): 1})


NO_ROWS = "SELECT COUNT(*) AS n, COUNT(v) FILTER (WHERE v > 7) AS large, SUM(v) AS total FROM t"


def test_a_total_of_no_rows_is_there_from_the_first_epoch_on(catalog, put):
    query = catalog.sql(f"{NO_ROWS} WHERE v > 5").materialize("default.r", strict=True)
    query.wait({"default.t": 0})
    assert content(catalog) == Counter([(0, 0, None)])
    query.wait({"default.t": put({1: 1, 2: 6, 3: 9})})
    assert content(catalog) == Counter([(2, 1, 15)])
    query.wait({"default.t": put({2: 1}, 3)})
    assert content(catalog) == Counter([(0, 0, None)])
    reports = [query.verify(number) for number in (1, 2, 3)]
    assert all(report.equal and not report.excluded for report in reports)


def test_a_total_of_no_rows_does_not_come_in_flinks_dialect(catalog, put):
    relation = catalog.sql("SELECT SUM(v) AS total FROM t WHERE v > 5", dialect="flink")
    query = relation.materialize("default.r")
    query.wait({"default.t": put({1: 1})})
    report = query.verify()
    assert report.missing.to_pylist() == [{"total": None}]
    assert report.excluded == ("an aggregate without GROUP BY has no row over no rows",)
    with pytest.raises(UnsupportedError, match="has no row over no rows"):
        relation.materialize("default.s", strict=True)


def test_a_result_that_was_changed_by_hand_is_found_out(catalog, put):
    query = materialized(catalog.sql("SELECT k, v FROM t"), put, {1: 1, 2: 2})
    query.stop()
    catalog.load_table("default.r").upsert([{"k": 1, "v": 9}])
    report = query.verify()
    assert not report.equal
    assert report.missing.to_pylist() == [{"k": 1, "v": 1}]
    assert report.extra.to_pylist() == [{"k": 1, "v": 9}]


def test_a_query_over_an_empty_table_lags_behind_nothing(catalog, put, caplog):
    query = catalog.sql("SELECT k, v FROM t").materialize("default.r")
    query.stop()
    assert query.status()["state"] == "stopped"
    assert "its status is not written down" not in caplog.text


def test_relations_of_tables_have_their_queries_in_the_same_catalog(catalog, put):
    relation = catalog.load_table("default.t").relation()
    seen: list[int] = []
    function = relation.foreach_batch(lambda batch, epoch: seen.append(batch.num_rows), "seen")
    query = relation.filter("v > 1").materialize("default.r")
    snapshot = put({1: 1, 2: 2})
    query.wait({"default.t": snapshot})
    function.wait({"default.t": snapshot})
    assert content(catalog) == Counter([(2, 2)])
    assert sum(seen) == 2
    catalog.query("default.r").stop()
    assert query.status()["state"] == "stopped"


def test_the_same_plan_goes_on_and_another_is_refused(catalog, put):
    put({1: 1})
    first = catalog.sql(TOTALS).materialize("default.r")
    assert catalog.sql(TOTALS).materialize("default.r").name == first.name
    with pytest.raises(QueryExistsError, match="another plan"):
        catalog.sql(TOTALS + " HAVING COUNT(*) > 1").materialize("default.r")


def test_a_table_of_other_columns_is_refused(catalog, put):
    catalog.create_table("default.r", [("k", "INT"), ("w", "STRING")], ["k"])
    with pytest.raises(SchemaError, match="default\\.r has the columns"):
        catalog.sql("SELECT k, v FROM t").materialize("default.r")


def test_an_insert_runs_on_and_a_set_of_them_shares_its_source(catalog, put):
    put({1: 1, 2: 2})
    for name in ("small", "large"):
        catalog.create_table(f"default.{name}", [("k", "INT"), ("v", "INT")], ["k"])
    statement = catalog.sql(
        "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO small SELECT k, v FROM t WHERE v < 2; "
        "INSERT INTO large SELECT k, v FROM t WHERE v >= 2; END"
    )
    query = statement.start("both")
    query.wait({"default.t": put({3: 0, 1: 5})})
    assert content(catalog, "default.small") == Counter([(3, 0)])
    assert content(catalog, "default.large") == Counter([(2, 2), (1, 5)])
    assert query.tables == ("default.small", "default.large")


def test_a_result_is_the_source_of_another_query(catalog, put):
    put({1: 1, 2: 2, 3: 3})
    catalog.sql("SELECT k, v % 2 AS side FROM t").materialize("default.sides")
    last = catalog.sql("SELECT side, COUNT(*) AS n FROM sides GROUP BY side").materialize(
        "default.r"
    )
    number = catalog.query("default.sides").wait({"default.t": put({4: 5}, 2)})
    last.wait({"default.sides": number})
    assert content(catalog) == Counter([(1, 3)])


def test_a_row_that_cannot_be_computed_stops_the_query_until_it_is_mended(catalog, put):
    query = materialized(catalog.sql("SELECT k, 12 / v AS w FROM t"), put, {1: 4})
    number = put({2: 0, 3: 2})
    with pytest.raises(QueryFailedError, match="zero"):
        query.wait({"default.t": number})
    assert query.status()["state"] == "failed"
    assert content(catalog) == Counter([(1, 3.0)])
    number = put({2: 6})
    query.resume()
    with pytest.raises(QueryFailedError):  # the row is still in the changes that come first
        query.wait({"default.t": number})


def test_rows_that_were_skipped_are_left_out_of_the_proof(catalog, put):
    query = catalog.sql(
        "SELECT v % 2 AS side, SUM(12 / (v - 2)) AS w FROM t GROUP BY v % 2"
    ).materialize("default.r", on_error="skip")
    query.wait({"default.t": put({1: 2, 2: 4, 3: 3})})
    query.wait({"default.t": put({2: 2, 4: 2, 5: 5})})
    report = query.verify()
    assert report.equal, report.missing.to_pylist()
    assert report.excluded[0].startswith("3 rows that cannot be computed were left out, such as: ")
    with pytest.raises(UnsupportedError, match="engine='local'"):
        query.verify(engine="spark")


def test_a_savepoint_is_gone_back_to(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1})
    query.savepoint("before")
    number = put({2: 3})
    query.wait({"default.t": number})
    query.resume(savepoint="before").wait({"default.t": number})
    assert content(catalog) == Counter([(1, 2, 4)])
    assert query.verify().equal
    with pytest.raises(QueryNotFoundError, match="before"):
        query.resume(savepoint="after")


def test_what_operators_remember_can_be_read(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 2, 3: 3})
    number = next(node["id"] for node in query.status()["nodes"] if node["type"] == "Aggregate")
    query.stop()
    rows = catalog.load_table(f"default.r$state_{number}").to_arrow()
    assert rows.num_rows == 2


def test_a_dropped_query_leaves_its_table_alone(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1})
    query.drop()
    assert content(catalog) == Counter([(1, 1, 1)])
    assert catalog.queries() == []
    with pytest.raises(QueryNotFoundError):
        catalog.query("default.r")


def test_a_stream_gives_what_is_there_and_then_what_changes(catalog, put):
    put({1: 1, 2: 2})
    with catalog.sql("SELECT k, v FROM t WHERE v > 0").stream() as stream:
        assert changes(stream) == [("+I", 0, 1, 1), ("+I", 0, 2, 2)]
        put({1: 5, 2: 0})
        assert changes(stream) == [("-U", 1, 1, 1), ("+U", 1, 1, 5), ("-U", 1, 2, 2)]


def changes(stream: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while (batch := stream.poll()) is not None:
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def test_append_refuses_what_updates_and_names_it(catalog, put):
    catalog.create_table("default.f", [("k", "INT")], ["k"], options={"merge-engine": "first-row"})
    with pytest.raises(UnsupportedError, match="Aggregate"):
        catalog.sql("SELECT COUNT(*) FROM f GROUP BY k % 2").stream(encoding="append")
    with catalog.sql("SELECT k + 1 AS x FROM f").stream(encoding="append") as stream:
        assert stream.poll() is None


def test_upserts_have_one_message_a_change(catalog, put):
    put({1: 1, 2: 2})
    with catalog.sql("SELECT k, v FROM t").stream(encoding="upsert") as stream:
        changes(stream)
        put({1: 5}, 2)
        assert [row[:3] for row in changes(stream)] == [("+U", 1, 1), ("-D", 1, 2)]


def test_a_named_stream_goes_on_where_it_was(catalog, put):
    relation = catalog.sql("SELECT k, v FROM t")
    put({1: 1})
    with relation.stream(name="s", trigger="available_now") as stream:
        assert len(list(stream)) == 1
    put({2: 2})
    with relation.stream(name="s", trigger="available_now") as stream:
        assert [row["k"] for batch in stream for row in batch.to_pylist()] == [2]


def test_a_function_is_called_for_each_epoch(catalog, put):
    called: list[tuple[int, int]] = []
    query = catalog.sql("SELECT k, v FROM t").foreach_batch(
        lambda batch, epoch: called.append((epoch, batch.num_rows)), "calls"
    )
    query.wait({"default.t": put({1: 1, 2: 2})})
    query.wait({"default.t": put({1: 3})})
    assert called == [(0, 2), (1, 2)] or called[-1] == (called[-1][0], 2)


def test_a_query_cannot_read_what_it_writes(catalog, put):
    put({1: 1})
    with pytest.raises(UnsupportedError, match=r"default\.t that it reads"):
        catalog.sql("INSERT INTO t SELECT k + 1, v FROM t").start()


def test_a_plan_file_starts_and_goes_on(catalog, put, tmp_path):
    put({1: 1, 2: 2})
    catalog.create_table("default.r", [("side", "INT"), ("n", "BIGINT")], ["side"])
    path = str(tmp_path / "plan.json")
    catalog.sql(
        f"COMPILE PLAN '{path}' FOR INSERT INTO r SELECT coalesce(v % 2, 0) AS side, COUNT(*) AS n "
        "FROM t GROUP BY coalesce(v % 2, 0)"
    )
    query = catalog.load_plan(path).execute()
    query.wait({"default.t": put({3: 3})})
    assert content(catalog) == Counter([(0, 1), (1, 2)])
    query.stop()
    number = put({4: 4})
    started = catalog.sql(f"EXECUTE PLAN '{path}'")
    assert started.to_pylist() == [{"query": "default.r"}]
    catalog.query("default.r").wait({"default.t": number})
    assert content(catalog) == Counter([(0, 2), (1, 2)])


def test_status_says_how_many_rows_of_state_there_are(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1, 2: 5, 3: 4})
    groups = next(node for node in query.status()["nodes"] if node["state_rows"])
    assert list(groups["state_rows"].values()) == [2]
    assert groups["state_rows"].keys() == groups["state_bytes"].keys()


def test_tables_of_queries_are_not_dropped_renamed_or_rolled_back(catalog, put):
    first = put({1: 1})
    query = catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": first})
    for name in ("default.t", "default.r"):
        with pytest.raises(TableInUseError, match="query default\\.r"):
            catalog.drop_table(name)
        with pytest.raises(TableInUseError, match="renamed"):
            catalog.rename_table(name, "default.other")
    with pytest.raises(TableInUseError, match="rolled back"):
        catalog.load_table("default.t").rollback_to(first)
    query.drop()
    catalog.drop_table("default.r")
    assert catalog.load_table("default.t").consumers.list().num_rows == 0


def test_what_a_query_has_still_to_read_does_not_expire(catalog, put):
    query = materialized(catalog.sql(TOTALS), put, {1: 1})
    query.stop()
    for number in range(5):
        last = put({number: number + 7})
    catalog.load_table("default.t").expire_snapshots(retain_max=1, retain_min=1, older_than=None)
    query.resume().wait({"default.t": last})
    assert query.verify().equal


@pytest.mark.parametrize(
    ("conflict", "expected"),
    [
        ("DO NOTHING", {(1, 10), (0, 20)}),
        ("DO DEDUPLICATE", {(1, 30), (0, 20)}),
        ("", {(1, 30), (0, 20)}),
    ],
)
def test_rows_that_agree_in_the_key_of_the_table(catalog, put, conflict, expected):
    catalog.create_table("default.r", [("side", "INT"), ("v", "INT")], ["side"])
    said = f" ON CONFLICT {conflict}" if conflict else ""
    put({1: 10})
    query = catalog.sql(
        f"INSERT INTO r SELECT coalesce(k % 2, 0) AS side, v FROM t{said}", dialect="flink"
    ).start()
    query.wait({"default.t": put({2: 20})})
    query.wait({"default.t": put({3: 30})})
    assert set(content(catalog)) == expected
    number = put({}, 3) if "NOTHING" not in conflict else put({}, 1)
    query.wait({"default.t": number})
    left = {(1, 10), (0, 20)} if "NOTHING" not in conflict else {(1, 30), (0, 20)}
    assert set(content(catalog)) == left


def test_rows_that_agree_in_the_key_of_the_table_stop_the_query(catalog, put):
    catalog.create_table("default.r", [("side", "INT"), ("v", "INT")], ["side"])
    first = put({1: 10})
    query = catalog.sql(
        "INSERT INTO r SELECT coalesce(k % 2, 0) AS side, v FROM t ON CONFLICT DO ERROR",
        dialect="flink",
    ).start()
    query.wait({"default.t": first})
    number = put({3: 30})
    with pytest.raises(QueryFailedError, match="side = 1"):
        query.wait({"default.t": number})
    assert set(content(catalog)) == {(1, 10)}


def test_an_aggregation_table_takes_changes_back_by_itself(catalog, put):
    catalog.create_table(
        "default.r",
        [("side", "INT"), ("v", "BIGINT")],
        ["side"],
        options={"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    )
    put({1: 10, 2: 20, 3: 30})
    query = catalog.sql(
        "INSERT INTO r SELECT coalesce(k % 2, 0) AS side, CAST(v AS BIGINT) FROM t"
    ).start()
    query.wait({"default.t": put({1: 5}, 2)})
    assert content(catalog)[(1, 35)] == 1


def test_rows_that_cannot_be_computed_are_skipped_and_kept(catalog, put):
    put({1: 4, 2: 0})
    query = catalog.sql("SELECT k, 12 / v AS w FROM t").materialize("default.r", on_error="skip")
    query.wait({"default.t": put({3: 0, 4: 6})})
    assert content(catalog) == Counter([(1, 3.0), (4, 2.0)])
    query.wait({"default.t": put({2: 1}, 3)})
    assert content(catalog) == Counter([(1, 3.0), (4, 2.0), (2, 12.0)])
    query.stop()
    errors = catalog.load_table("default.r$errors").to_arrow().to_pylist()
    assert {each["row"] for each in errors} == {'{"k": 2, "v": 0}', '{"k": 3, "v": 0}'}
    assert all("zero" in each["error"] for each in errors)


def test_an_epoch_takes_no_more_rows_than_it_may(catalog, put):
    query = catalog.sql("SELECT k, v FROM t").materialize("default.r", max_rows=2)
    query.wait({"default.t": put({1: 1})})
    query.stop()
    for number in range(6):
        last = put({number: number})
    query.resume().wait({"default.t": last})
    assert query.status()["epoch"] >= 3
    assert query.verify().equal


def test_a_query_that_is_refused_leaves_no_table_that_was_made_for_it(catalog, put):
    refused = catalog.sql("SELECT k, current_timestamp() AS at FROM t")
    with pytest.raises(UnsupportedError, match="time of day"):
        refused.materialize("default.r")
    assert not catalog.table_exists("default.r")
    catalog.create_table("default.r", [("k", "INT NOT NULL"), ("at", "TIMESTAMP_LTZ(6)")], ["k"])
    with pytest.raises(UnsupportedError, match="time of day"):
        refused.materialize("default.r")
    assert catalog.table_exists("default.r")


def test_another_ttl_takes_effect_when_a_query_is_started_again(catalog, put):
    times = [1000]
    relation = catalog.sql(TOTALS)
    query = relation.materialize("default.r", clock=lambda: times[0])
    query.wait({"default.t": put({1: 1})})
    query.stop()
    catalog.sql("SET 'table.exec.state.ttl' = '1 s'")
    query = catalog.sql(TOTALS).materialize("default.r", clock=lambda: times[0])
    query.wait({"default.t": put({3: 3})})
    times[0] += 5000
    query.wait({"default.t": put({5: 5})})
    assert content(catalog) == Counter([(1, 1, 5)])  # what was counted before is forgotten
    assert query.verify().excluded == ("state that was idle for its TTL is forgotten",)
    with pytest.raises(UnsupportedError, match="strict: state that was idle"):
        catalog.sql(TOTALS).materialize("default.s", strict=True)


def test_a_ttl_under_which_a_join_keeps_other_rows_is_refused_by_node(catalog, put):
    names = catalog.create_table(
        "default.names", [("v", "INT")], ["v"], options={"changelog-producer": "lookup"}
    )
    text = "SELECT k, t.v FROM t JOIN names ON t.v = names.v"
    catalog.sql(text).materialize("default.r").stop()
    catalog.sql("SET 'table.exec.state.ttl' = '1 d'")
    with pytest.raises(UnsupportedError, match=r"Join.*its ttl cannot change") as raised:
        catalog.sql(text).materialize("default.r")
    assert raised.value.field == "ttl"
    catalog.sql("SET 'table.exec.state.ttl' = '0 ms'")
    query = catalog.sql(text).materialize("default.r")
    query.wait({"default.t": put({1: 1}), "default.names": names.upsert([{"v": 1}]).id})
    assert content(catalog) == Counter([(1, 1)])


def test_all_results_of_a_set_of_statements_are_proved(catalog, put):
    for name in ("small", "large"):
        catalog.create_table(f"default.{name}", [("k", "INT"), ("v", "INT")], ["k"])
    query = catalog.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO small SELECT k, v FROM t WHERE v < 2; "
        "INSERT INTO large SELECT k, v FROM t WHERE v >= 2; END"
    ).start("both")
    query.wait({"default.t": put({1: 1, 2: 2})})
    assert query.verify().equal
    query.stop()
    catalog.load_table("default.large").upsert([{"k": 2, "v": 9}])
    assert query.verify().extra.to_pylist() == [{"k": 2, "v": 9}]
    assert query.verify(table="default.small").equal
    with pytest.raises(OptionError, match=r"its results are default\.small, default\.large"):
        query.verify(table="default.other")


def test_constants_are_no_sources_of_a_snapshot(catalog, put):
    query = catalog.sql("SELECT COUNT(*) AS n FROM t").materialize("default.r")
    number = put({1: 1})
    query.wait({"default.t": number})
    assert query.status()["sources"] == query.verify().sources == {"default.t": number}


def test_ranks_without_a_partition_run_with_a_warning(catalog, put):
    relation = catalog.sql("SELECT k, RANK() OVER (ORDER BY v DESC) AS place FROM t")
    assert "one change can move every row" in str(relation.explain())
    query = relation.materialize("default.r")
    query.wait({"default.t": put({1: 1, 2: 2, 3: 2})})
    query.wait({"default.t": put({1: 5}, 2)})
    assert content(catalog) == Counter([(1, 1), (3, 2)])
    assert query.verify().equal


def test_a_row_that_is_updated_and_deleted_in_one_epoch_is_gone(catalog):
    table = catalog.create_table("default.t", [("k", "INT"), ("v", "INT")], ["k"])
    query = catalog.sql("SELECT k, v FROM t").materialize("default.r")
    query.wait({"default.t": table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}]).id})
    query.stop()
    table.upsert([{"k": 1, "v": 5}])
    last = table.delete([{"k": 1}])
    query.resume().wait({"default.t": last.id})
    assert content(catalog) == Counter([(2, 2)])
    assert query.verify().equal


def test_every_snapshot_of_a_result_is_proved(catalog, put):
    first = put({1: 1, 2: 2})
    query = catalog.sql(TOTALS).materialize("default.r")
    query.wait({"default.t": first})
    for number in range(4):
        query.wait({"default.t": put({number: number * 3, 9: number})})
    snapshots = catalog.load_table("default.r").system("snapshots")["snapshot_id"].to_pylist()
    assert len(snapshots) == 5
    assert all(query.verify(each).equal for each in snapshots)
