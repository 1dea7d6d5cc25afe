"""Streams from outside as sources of queries, fed by hand."""

import pyarrow as pa
import pytest

import pkray
from pkray.api.relation import of_source
from pkray.errors import OptionError, QueryFailedError, UnsupportedError, UpgradeRefusedError
from pkray.relational.continuous.queries.stored import IN_PROCESS
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.sources.changelog import ROW_KIND
from pkray.relational.sources.streamed import Feeding, StreamedSource, stored_streams
from pkray.relational.sources.watermarks import marked
from pkray.schema.types import DataType
from pkray.storage.opening import open_store
from pkray.storage.spool import Feeder, Spool

FIELDS = Fields((Field("k", DataType.parse("STRING")), Field("v", DataType.parse("BIGINT"))))


class HandFed:
    """Feeds a query with what a test pushes."""

    def __init__(self) -> None:
        self.is_running = False
        self.starts: list[Feeding] = []

    def start(self, source: StreamedSource, spool: Spool, feeding: Feeding) -> "HandFed":
        self.source, self.spool, self.is_running = source, spool, True
        self.starts.append(feeding)
        self.say("running")
        return self

    def say(self, state, message: str | None = None) -> None:
        self.is_running = state == "running"
        self.spool.say(Feeder("hand", state, self.starts[-1].ends, message))

    def push(self, *rows: tuple, number: int | None = None) -> None:
        schema = self.source.spooled_schema
        columns = list(zip(*rows, strict=True)) or [[] for _ in schema]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        number = self.spool.count() if number is None else number
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self.spool.add(number, [self.spool.write_file(number, schema, [batch])])

    def stop(self) -> None:
        self.say("stopped")


@pytest.fixture
def feeder() -> HandFed:
    return HandFed()


def totals(catalog, feeder, name="clicks", **arguments):
    source = StreamedSource(name, FIELDS, feeder=feeder, **arguments)
    catalog.create_view("clicks", of_source(source), temporary=True)
    return catalog.sql("SELECT k, SUM(v) AS total FROM clicks GROUP BY k")


def content(catalog, name: str) -> dict[str, int]:
    rows = catalog.load_table(name).to_arrow()
    return dict(zip(rows["k"].to_pylist(), rows["total"].to_pylist(), strict=True))


def test_each_batch_is_one_epoch(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    feeder.push(("a", 1), ("b", 2))
    feeder.push(("a", 10))
    query.wait({"clicks": 2})
    assert content(catalog, "db.totals") == {"a": 11, "b": 2}
    assert query.status()["epoch"] == 1
    assert query.status()["streams"] == {"clicks": "running"}


def test_a_batch_that_comes_again_is_taken_once(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    feeder.push(("a", 1))
    query.wait({"clicks": 1})
    feeder.push(("a", 1), number=0)
    feeder.push(("b", 2))
    query.wait({"clicks": 2})
    assert content(catalog, "db.totals") == {"a": 1, "b": 2}


def test_what_ends_is_taken_to_its_end(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals", trigger="available_now")
    assert feeder.starts[0].ends
    feeder.push(("a", 1))
    query.wait({"clicks": 1})
    assert query.status()["state"] == "running"
    feeder.push(("b", 2))
    feeder.say("ended")
    query.wait_ended()
    assert content(catalog, "db.totals") == {"a": 1, "b": 2}


def test_a_failed_feeder_fails_the_query_after_what_it_brought(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    feeder.push(("a", 1))
    feeder.say("failed", "the disk is full")
    with pytest.raises(QueryFailedError, match="'clicks' failed: the disk is full"):
        query.wait({"clicks": 2})
    assert content(catalog, "db.totals") == {"a": 1}
    assert query.resume().status()["streams"] == {"clicks": "running"}
    feeder.push(("b", 2))
    query.wait({"clicks": 2})


def test_stopping_a_query_stops_what_feeds_it(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    query.stop()
    assert not feeder.is_running
    assert query.status()["streams"] == {"clicks": "stopped"}
    query.resume()
    assert feeder.is_running


def test_a_query_is_fed_until_its_catalog_is_closed(tmp_path, feeder):
    with pkray.connect(str(tmp_path / "other")) as catalog:
        totals(catalog, feeder).materialize("db.totals")
        assert feeder.is_running
    assert not feeder.is_running


def test_another_process_goes_on_with_what_is_there_and_waits(tmp_path, feeder):
    with pkray.connect(str(tmp_path / "other")) as catalog:
        query = totals(catalog, feeder).materialize("db.totals")
        query.stop()
        feeder.push(("a", 1))
    IN_PROCESS.clear()
    with pkray.connect(str(tmp_path / "other")) as catalog:
        query = catalog.query("db.totals").resume()
        query.wait({"clicks": 1})
        assert content(catalog, "db.totals") == {"a": 1}
        assert query.status()["state"] == "running"


def test_rows_that_every_checkpoint_has_are_deleted(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    for number in range(4):
        feeder.push(("a", number))
        query.wait({"clicks": number + 1})
        query.stop()
        query.resume()
    assert [each.number for each in map(feeder.spool.batch, range(4)) if each] == [3]
    with pytest.raises(UnsupportedError, match="keep=True"):
        query.verify()


def test_a_savepoint_keeps_the_rows_after_it(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    feeder.push(("a", 1))
    query.wait({"clicks": 1})
    query.savepoint("before")
    for number in range(1, 5):
        feeder.push(("a", 10))
        query.wait({"clicks": number + 1})
        query.stop()
        query.resume()
    query.resume(savepoint="before").wait({"clicks": 5})
    assert content(catalog, "db.totals") == {"a": 41}


def test_kept_rows_prove_a_result(catalog, feeder):
    query = totals(catalog, feeder, keeps=True).materialize("db.totals")
    for number in range(4):
        feeder.push(("a", number))
        query.wait({"clicks": number + 1})
        query.stop()
        query.resume()
    assert query.verify()
    assert query.verify(snapshot=2).sources == {"clicks": 2}


def test_an_epoch_takes_a_batch_and_the_changes_of_tables(catalog, feeder):
    names = catalog.create_table("db.names", [("k", "STRING"), ("n", "INT")], primary_keys=["k"])
    names.upsert([{"k": "a", "n": 1}])
    totals(catalog, feeder)
    query = catalog.sql("SELECT v, n FROM clicks JOIN db.names ON clicks.k = names.k")
    query = query.materialize("db.joined")
    feeder.push(("a", 5), ("b", 6))
    query.wait({"clicks": 1})
    later = names.upsert([{"k": "b", "n": 2}])
    query.wait({"db.names": later.id})
    rows = catalog.load_table("db.joined").to_arrow().select(["v", "n"]).to_pylist()
    assert sorted(map(tuple, map(dict.values, rows))) == [(5, 1), (6, 2)]


def test_a_query_waits_for_the_first_batch(catalog, feeder):
    with totals(catalog, feeder).stream() as changes:
        assert changes.poll() is None
        feeder.push(("a", 1))
        assert changes.poll().to_pylist() == [
            {"_row_kind": "+I", "_epoch": 0, "k": "a", "total": 1}
        ]


def test_a_stream_without_a_name_leaves_nothing_behind(catalog, feeder, tmp_path):
    with totals(catalog, feeder).stream() as changes:
        feeder.push(("a", 1))
        changes.poll()
        assert list((tmp_path / "warehouse" / ".queries").iterdir())
    assert list((tmp_path / "warehouse" / ".queries").iterdir()) == []
    assert not feeder.is_running


def test_a_stream_with_a_name_goes_on(catalog, feeder):
    relation = totals(catalog, feeder)
    with relation.stream(name="sums") as changes:
        feeder.push(("a", 1))
        changes.poll()
    feeder.push(("a", 2))
    with relation.stream(name="sums") as changes:
        assert [row["total"] for row in changes.poll().to_pylist()] == [1, 3]


@pytest.mark.parametrize("mode", ["insert", "all"])
def test_several_workers_share_a_batch(catalog, feeder, mode):
    catalog.sql("SET 'query.parallelism' = '3'")
    query = totals(catalog, feeder, mode=mode).materialize("db.totals")
    for number in range(3):
        rows = [(f"k{each % 7}", number) + ((0,) if mode == "all" else ()) for each in range(50)]
        feeder.push(*rows)
        query.wait({"clicks": number + 1})
    counts = {f"k{each}": 3 * (8 if each == 0 else 7) for each in range(7)}
    assert query.status()["workers"] == 3
    assert content(catalog, "db.totals") == counts


def test_a_function_is_called_for_each_batch(catalog, feeder):
    found = []
    query = totals(catalog, feeder).foreach_batch(
        lambda batch, epoch: found.append((epoch, batch.column("total").to_pylist())), name="calls"
    )
    feeder.push(("a", 1))
    feeder.push(("b", 2))
    query.wait({"clicks": 2})
    query.drop()
    assert found == [(0, [1]), (1, [2])]
    assert not feeder.is_running


def test_statements_share_a_stream(catalog, feeder):
    totals(catalog, feeder)
    for name in ("low", "high"):
        catalog.sql(f"CREATE TABLE {name} (k STRING, v BIGINT) TBLPROPERTIES ('primary-key' = 'k')")
    query = catalog.sql("""EXECUTE STATEMENT SET BEGIN
        INSERT INTO low SELECT * FROM clicks WHERE v < 5;
        INSERT INTO high SELECT * FROM clicks WHERE v >= 5;
    END""").start("both")
    feeder.push(("a", 1), ("b", 9))
    query.wait({"clicks": 1})
    found = {each: catalog.load_table(each).to_arrow().to_pylist() for each in query.tables}
    assert found == {"default.low": [{"k": "a", "v": 1}], "default.high": [{"k": "b", "v": 9}]}
    assert len(feeder.starts) == 1


def test_kinds_are_those_that_the_spool_has(catalog, feeder):
    relation = totals(catalog, feeder, mode="all")
    with relation.stream("upsert") as changes:
        feeder.push(("a", 1, 0), ("a", 2, 0), ("b", 5, 0))
        changes.poll()
        feeder.push(("a", 1, 1), ("a", 7, 2), ("b", 5, 3))
        found = [(row["_row_kind"], row["k"], row["total"]) for row in changes.poll().to_pylist()]
    assert sorted(found) == [("+U", "a", 9), ("-D", "b", 5)]


def test_two_streams_of_one_query_have_different_names(catalog, feeder):
    first = of_source(StreamedSource("s", FIELDS, feeder=feeder))
    second = of_source(StreamedSource("s", FIELDS, feeder=HandFed()))
    catalog.create_view("a", first, temporary=True)
    catalog.create_view("b", second, temporary=True)
    with pytest.raises(UnsupportedError, match="two sources of the query are called s"):
        catalog.sql("SELECT * FROM a UNION ALL SELECT * FROM b").materialize("db.both")


def test_a_stream_has_a_name_that_a_folder_can_have():
    with pytest.raises(OptionError, match="no name of a stream"):
        StreamedSource("../up", FIELDS)


def test_another_process_finds_the_columns_of_a_stream(tmp_path):
    store = open_store(tmp_path)
    fields, mark = marked(
        Fields((Field("ts", DataType.parse("TIMESTAMP(3)")), *FIELDS)), ("ts", "ts")
    )
    made = StreamedSource("s", fields, ("k",), "upsert", mark, keeps=True).in_query(store)
    found = stored_streams(store)["s"]
    assert (found.fields, found.primary_key, found.mode) == (fields, ("k",), "upsert")
    assert found.watermark == mark
    assert found.keeps
    assert found.spool.store == made.spool.store
    assert found.spooled_schema.names == ["ts", "k", "v", ROW_KIND]


def test_a_stream_that_is_not_kept_has_no_history_for_an_upgrade(catalog, feeder):
    query = totals(catalog, feeder).materialize("db.totals")
    feeder.push(("a", 1), ("b", 2))
    query.wait({"clicks": 1})
    newer = "SELECT k, SUM(v) AS total FROM clicks WHERE v > 1 GROUP BY k"
    with pytest.raises(UpgradeRefusedError, match="clicks has no history") as refused:
        query.upgrade(newer)
    assert refused.value.field == "source/clicks"
    catalog.sql("SET 'table.exec.state.ttl' = '1 d'")
    upgrade = query.upgrade("SELECT k, SUM(v) AS total FROM clicks GROUP BY k")
    assert [each.fate for each in upgrade.diff.nodes] == ["kept"]
    feeder.push(("a", 10))
    query.wait({"clicks": 2})
    assert content(catalog, "db.totals") == {"a": 11, "b": 2}


def test_a_stream_that_is_kept_is_read_again_for_an_upgrade(catalog, feeder):
    query = totals(catalog, feeder, keeps=True).materialize("db.totals")
    feeder.push(("a", 1), ("b", 2))
    query.wait({"clicks": 1})
    query.upgrade("SELECT k, SUM(v) AS total FROM clicks WHERE v > 1 GROUP BY k")
    feeder.push(("a", 10))
    query.wait({"clicks": 2})
    assert content(catalog, "db.totals") == {"a": 10, "b": 2}
    query.rollback()
    feeder.push(("b", 1))
    query.wait({"clicks": 3})
    assert content(catalog, "db.totals") == {"a": 11, "b": 3}
