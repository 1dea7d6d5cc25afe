"""DataFrames of change events into tables, batch and streaming."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pkray.cdc
import pkray.spark
from pkray.errors import ChangeRecordError, InputError, OptionError

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
    ],
)
def test_what_is_not_read_is_refused_at_once(spark, table, how, error, said):
    df = spark.createDataFrame([("{}",)], "value STRING")
    with pytest.raises(error, match=said):
        pkray.cdc.changes(df, table, **how)
