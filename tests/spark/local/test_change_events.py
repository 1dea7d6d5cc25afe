"""DataFrames of change events into tables, batch and streaming."""

import json
from typing import Any

import pytest

import pkray.cdc
import pkray.spark
from pkray.errors import ChangeRecordError, InputError, OptionError, ServiceError
from pkray.service.client.push_session import PushSession

COLUMNS = [("id", "BIGINT"), ("name", "STRING"), ("price", "DECIMAL(9, 2)"), ("lsn", "BIGINT")]
FORMAT = {"format": "debezium-json", "metadata": {"lsn": "source.lsn"}}


def event(op: str, before: Any, after: Any, lsn: int) -> str:
    return json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": lsn}})


def history(keys: int) -> tuple[list[str | None], list[dict[str, Any]]]:
    """Each key is inserted and updated; every third one is deleted."""
    events: list[str | None] = []
    content = []
    for key in range(keys):
        row = {"id": key, "name": f"n{key}", "price": "1.50"}
        new = {**row, "price": "2.25"}
        events += [event("c", None, row, 4 * key), event("u", row, new, 4 * key + 1)]
        if key % 3:
            content.append({"id": key, "name": f"n{key}", "price": "2.25", "lsn": 4 * key + 1})
        else:
            events += [event("d", new, None, 4 * key + 2), None]
    return events, content


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", COLUMNS, ["id"], options={"sequence.field": "lsn"})


def content(table: pkray.Table) -> list[dict[str, Any]]:
    rows = table.to_arrow().sort_by("id").to_pylist()
    return [{**row, "price": str(row["price"])} for row in rows]


def test_a_dataframe_of_events_becomes_rows(spark, table):
    events, rows = history(60)
    df = spark.createDataFrame([(each,) for each in events], "value STRING").repartition(3)
    changes = pkray.cdc.changes(df, table, **FORMAT)
    assert changes.columns == ["id", "name", "price", "lsn", "_row_kind"]
    pkray.spark.ingest(changes, table, row_kinds="_row_kind")
    assert content(table) == rows


def test_a_stream_of_events_becomes_rows(spark, table, tmp_path):
    events, rows = history(60)
    folder = tmp_path / "incoming"
    folder.mkdir()
    for number, start in enumerate((0, 50, 100)):
        some = [each or "null" for each in events[start : start + 50 if number < 2 else None]]
        (folder / f"{number}.json").write_text("\n".join(some))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    query = pkray.spark.start_ingest(
        pkray.cdc.changes(stream, table, **FORMAT),
        table,
        checkpoint_location=str(tmp_path / "checkpoint"),
        row_kinds="_row_kind",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    assert content(table) == rows


def test_a_bad_record_is_named_by_its_place_in_kafka(spark, table):
    good = event("c", None, {"id": 1, "name": "x", "price": None}, 1)
    records = [(good, "shop", 3, offset) for offset in range(100, 105)]
    records.append(("{", "shop", 3, 105))
    schema = "value STRING, topic STRING, partition INT, offset BIGINT"
    df = spark.createDataFrame(records, schema).coalesce(1)
    with pytest.raises(ChangeRecordError, match="topic 'shop' partition 3 offset 105") as refused:
        pkray.spark.ingest(pkray.cdc.changes(df, table, **FORMAT), table, row_kinds="_row_kind")
    assert refused.value.record == 105
    assert table.latest_snapshot() is None


def test_a_column_of_words_becomes_row_kinds(spark, catalog):
    table = catalog.create_table("db.words", [("id", "BIGINT"), ("name", "STRING")], ["id"])
    rows = [("i", 1, "a"), ("I", 2, "b"), ("U", 2, "c"), ("delete", 1, None)]
    df = spark.createDataFrame(rows, "`the op` STRING, id BIGINT, name STRING").coalesce(1)
    changes = pkray.cdc.changes(df, table, format="row-kinds", row_kinds="the op")
    pkray.spark.ingest(changes, table, row_kinds="_row_kind")
    assert table.to_arrow().to_pylist() == [{"id": 2, "name": "c"}]


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({**FORMAT, "value": "text"}, InputError, "column 'text' is to hold records"),
        ({"format": "csv"}, OptionError, "'csv' is no format of changes"),
        ({"format": "row-kinds"}, OptionError, "needs row_kinds"),
        ({"format": "row-kinds", "new_columns": "add"}, OptionError, "merge_schema=True"),
        ({**FORMAT, "new_columns": "drop"}, OptionError, "new_columns"),
    ],
)
def test_what_is_not_read_is_refused_at_once(spark, table, how, error, said):
    df = spark.createDataFrame([("{}",)], "value STRING")
    with pytest.raises(error, match=said):
        pkray.cdc.changes(df, table, **how)


def placed(errors: pkray.Table) -> list[tuple[Any, ...]]:
    rows = errors.to_arrow().sort_by([("source", "ascending"), ("record", "ascending")])
    return [(row["source"], row["record"], row["reason"]) for row in rows.to_pylist()]


def with_colour(key: int, colour: object) -> str:
    return event("c", None, {"id": key, "name": "x", "price": "1.00", "colour": colour}, key)


def plain(key: int) -> str:
    return event("c", None, {"id": key, "name": "x", "price": "1.00"}, key)


def test_columns_that_events_bring_are_added_and_bad_records_kept(spark, catalog, table, tmp_path):
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    folder, checkpoint = tmp_path / "incoming", tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "0.json").write_text("\n".join([plain(1), "{", plain(2)]))

    def run() -> str:
        stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        changes = pkray.cdc.changes(stream, table, **FORMAT, new_columns="add", errors=errors)
        query = pkray.spark.start_ingest(
            changes,
            table,
            checkpoint_location=str(checkpoint),
            row_kinds="_row_kind",
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        return query.id

    run()
    (folder / "1.json").write_text(
        "\n".join([with_colour(3, "red"), with_colour(4, "blue"), "nonsense"])
    )
    query = run()
    rows = {row["id"]: row["colour"] for row in table.to_arrow().to_pylist()}
    assert rows == {1: None, 2: None, 3: "red", 4: "blue"}
    found = placed(errors)
    assert [each[:2] for each in found] == [
        (f"{query} commit 0 partition 0", 1),
        (f"{query} commit 1 partition 0", 2),
    ]
    before = table.latest_snapshot().id, errors.latest_snapshot().id
    for noted in ("1", ".1.crc"):  # as where a driver is killed before it has noted the commit
        (checkpoint / "commits" / noted).unlink()
    run()
    assert (table.latest_snapshot().id, errors.latest_snapshot().id) == before
    assert placed(errors) == found


def test_a_column_is_added_as_the_first_partition_has_it(spark, catalog, table):
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    values = [(1, 7), (2, "red"), (3, 8)]
    parts = [spark.createDataFrame([(with_colour(k, v),)], "value STRING") for k, v in values]
    df = parts[0].coalesce(1).union(parts[1].coalesce(1)).union(parts[2].coalesce(1))
    changes = pkray.cdc.changes(df, table, **FORMAT, new_columns="add", errors=errors)
    pkray.spark.ingest(changes, table, row_kinds="_row_kind")
    rows = {row["id"]: row["colour"] for row in table.to_arrow().to_pylist()}
    assert rows == {1: 7, 3: 8}
    assert "colour" in placed(errors)[0][2]


def test_bad_records_and_rows_are_each_committed_once(spark, catalog, table, no_wait, monkeypatch):
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    records = [(plain(key), "shop", 0, key) for key in range(6)]
    records[4] = ("{", "shop", 0, 4)
    records[5] = (with_colour(5, "red"), "shop", 0, 5)
    schema = "value STRING, topic STRING, partition INT, offset BIGINT"
    df = spark.createDataFrame(records, schema).repartition(3)
    changes = pkray.cdc.changes(df, table, **FORMAT, errors=errors)
    commit = PushSession.commit
    failures = [None, ServiceError("an owner is gone")]  # of the rows, when bad records are there

    def failing(session: PushSession, reports: Any, **more: Any) -> Any:
        error = failures.pop(0) if failures else None
        if error is not None:
            raise error
        return commit(session, reports, **more)

    monkeypatch.setattr(PushSession, "commit", failing)
    for _ in range(2):
        pkray.spark.ingest(
            changes, table, row_kinds="_row_kind", commit_user="job", commit_identifier=1
        )
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [0, 1, 2, 3]
    assert [each[:2] for each in placed(errors)] == [
        ("topic 'shop' partition 0", 4),
        ("topic 'shop' partition 0", 5),
    ]
    assert "new_columns='add'" in placed(errors)[1][2]
    assert (table.latest_snapshot().id, errors.latest_snapshot().id) == (1, 1)


def test_what_is_not_given_to_ingest_as_it_is_stops_at_a_bad_record(spark, catalog, table):
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    df = spark.createDataFrame([(plain(1),), ("{",)], "value STRING")
    changes = pkray.cdc.changes(df, table, **FORMAT, errors=errors, new_columns="add")
    with pytest.raises(ChangeRecordError, match="row"):
        pkray.spark.ingest(changes.where("id > 0"), table, row_kinds="_row_kind")
    with pytest.raises(OptionError, match="row_kinds='_row_kind'"):
        pkray.spark.ingest(changes, table)
    other = catalog.create_table("db.other", COLUMNS, ["id"])
    with pytest.raises(InputError, match=r"decoded for db\.t, and not for db\.other"):
        pkray.spark.ingest(changes, other, row_kinds="_row_kind")
    with pytest.raises(InputError, match="no table of bad records"):
        pkray.cdc.changes(df, table, **FORMAT, errors=other)
    assert table.latest_snapshot() is None
    assert errors.latest_snapshot() is None
