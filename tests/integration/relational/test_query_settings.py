"""What SET says of continuous queries."""

from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.errors import OptionError, UnsupportedError

COLUMNS = pa.schema([("k", pa.int32()), ("v", pa.int64())])


@pytest.fixture
def catalog(catalog) -> pkray.Catalog:
    catalog.create_table("default.t", [("k", "INT"), ("v", "BIGINT")], ["k"])
    return catalog


def changes(stream: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while (batch := stream.poll()) is not None:
        found += [(row.pop("_row_kind"), *list(row.values())[1:]) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize(("twice", "expected"), [("true", (1, 5)), ("false", (2, 10))])
def test_changes_that_are_told_twice_count_once_where_it_is_said(catalog, twice, expected):
    catalog.sql(f"SET 'table.exec.source.cdc-events-duplicate' = '{twice}'")
    source = pkray.relational.changelog(COLUMNS, primary_key=["k"], mode="all")
    relation = (
        catalog.sql("SELECT k, v FROM t")
        .union(source, all=True)
        .group_by("k")
        .agg(n="count(*)", total="sum(v)")
    )
    with relation.stream() as stream:
        source.push([{"_row_kind": "+I", "k": 1, "v": 5}] * 2)
        assert changes(stream)[-1] == ("+I", 1, *expected)


def test_an_update_that_is_told_twice_comes_out_once(catalog):
    catalog.sql("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    source = pkray.relational.changelog(COLUMNS, primary_key=["k"], mode="all")
    relation = catalog.sql("SELECT k, v FROM t").union(source, all=True)
    told = [("+I", 1, 5), ("-U", 1, 5), ("+U", 1, 6)]
    with relation.stream() as stream:
        for kind, k, v in [*told, *told[1:]]:
            source.push([{"_row_kind": kind, "k": k, "v": v}])
        assert changes(stream) == [("+I", 1, 5), ("-U", 1, 5), ("+U", 1, 6)]
    assert relation.to_arrow().to_pylist() == [{"k": 1, "v": 6}]


def test_the_plan_of_such_a_source_says_that_it_is_completed(catalog):
    catalog.sql("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    source = pkray.relational.changelog(COLUMNS, primary_key=["k"], mode="all")
    relation = catalog.sql("SELECT k, v FROM t").union(source, all=True)
    assert str(relation.explain()).count("Normalize(key=[k])") == 2


def test_changes_that_are_told_twice_need_a_key(catalog):
    catalog.sql("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    source = pkray.relational.changelog(COLUMNS, mode="all")
    with pytest.raises(UnsupportedError, match="has no primary key"):
        catalog.sql("SELECT k, v FROM t").union(source, all=True).stream()


def test_rows_with_nulls_where_there_are_none_are_left_out_where_it_is_said(catalog):
    catalog.create_table("default.r", [("k", "INT"), ("v", "BIGINT NOT NULL")], ["k"])
    catalog.sql("SET 'table.exec.sink.not-null-enforcer' = 'drop'")
    insert = catalog.sql("INSERT INTO r SELECT k, v FROM t")
    table = catalog.load_table("default.t")
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": None}])
    query = insert.start()
    last = table.upsert([{"k": 1, "v": None}, {"k": 3, "v": 3}])
    query.wait({"default.t": last.id})
    assert catalog.load_table("default.r").to_arrow().to_pylist() == [{"k": 3, "v": 3}]
    assert query.verify().equal


def test_epochs_and_checkpoints_are_bounded(catalog):
    catalog.sql("SET 'table.exec.mini-batch.enabled' = 'true'")
    catalog.sql("SET 'table.exec.mini-batch.allow-latency' = '10 ms'")
    catalog.sql("SET 'table.exec.mini-batch.size' = '2'")
    catalog.sql("SET 'execution.checkpointing.interval' = '5 s'")
    calls: list[int] = []
    table = catalog.load_table("default.t")
    relation = catalog.sql("SELECT k, v FROM t")
    query = relation.foreach_batch(lambda batch, epoch: calls.append(batch.num_rows), "calls")
    kept = query._watched.stored.definition.options
    assert (kept["trigger"], kept["max_rows"], kept["checkpoint_seconds"]) == ("10 ms", 2, 5.0)
    assert table.upsert([{"k": 1, "v": 1}]) is not None


@pytest.mark.parametrize(
    "key",
    [
        "table.exec.sink.upsert-materialize",
        "table.exec.sink.keyed-shuffle",
        "table.exec.async-lookup.timeout",
        "table.optimizer.agg-phase-strategy",
        "pipeline.max-parallelism",
    ],
)
def test_options_that_mean_nothing_here_are_refused_by_name(catalog, key):
    with pytest.raises(OptionError, match=key.replace(".", r"\.")):
        catalog.sql(f"SET '{key}' = '1'")
