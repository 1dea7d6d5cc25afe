"""Changes as messages: what belongs together, wherever batches end."""

import json

import pyarrow as pa
import pytest

from pkray.kafka.change_events import ChangeEvents, EventSource

SCHEMA = pa.schema([("_row_kind", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


def made(*rows: tuple[str, int, int], size: int = 100, form: str = "debezium-json"):
    events = ChangeEvents(form, ["id", "n"], ["id"], EventSource("db", "t", 5, 7), is_content=False)
    columns = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    batches = pa.Table.from_pylist(columns, SCHEMA).to_batches(max_chunksize=size)
    found = [messages for batch in batches for messages in events.messages(batch)]
    found.append(events.rest())
    return [pair for messages in found for pair in zip(*messages, strict=True)]


def shown(*rows: tuple[str, int, int], size: int = 100):
    events = [json.loads(value) for _, value in made(*rows, size=size)]
    assert [event["source"]["sequence"] for event in events] == list(range(len(events)))
    return [
        (
            event["op"],
            event["before"] and event["before"]["n"],
            event["after"] and event["after"]["n"],
        )
        for event in events
    ]


def test_an_event_says_where_it_comes_from():
    [(name, value)] = made(("+I", 1, 2))
    assert name == b'{"id":1}'
    assert json.loads(value) == {
        "before": None,
        "after": {"id": 1, "n": 2},
        "source": {
            "connector": "pkray", "db": "db", "table": "t", "ts_ms": 7, "snapshot_id": 5,
            "sequence": 0,
        },
        "op": "c",
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_two_rows_of_an_update_are_one_event(size):
    rows = [("+I", 1, 0), ("-U", 2, 1), ("+U", 2, 2), ("-D", 3, 3), ("-U", 4, 4), ("+U", 4, 5)]
    assert shown(*rows, size=size) == [("c", None, 0), ("u", 1, 2), ("d", 3, None), ("u", 4, 5)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_row_before_alone_is_gone_and_one_after_alone_is_an_update(size):
    rows = [("-U", 1, 1), ("-U", 2, 2), ("+U", 3, 3), ("+U", 3, 4), ("-U", 5, 5)]
    assert shown(*rows, size=size) == [
        ("d", 1, None), ("d", 2, None), ("u", None, 3), ("u", None, 4), ("d", 5, None),
    ]  # fmt: skip


def test_rows_by_key_are_the_newest_or_nothing():
    rows = [("+I", 1, 0), ("-U", 2, 1), ("+U", 2, 2), ("-D", 3, 3)]
    assert made(*rows, form="upsert-json") == [
        (b'{"id":1}', b'{"id":1,"n":0}'), (b'{"id":2}', b'{"id":2,"n":2}'), (b'{"id":3}', None),
    ]  # fmt: skip


def test_large_rows_are_written_in_parts(monkeypatch):
    monkeypatch.setattr("pkray.kafka.change_events._MOST_BYTES", 64)
    rows = [("-U" if number % 2 == 0 else "+U", number // 2, number) for number in range(40)]
    assert shown(*rows) == [("u", number, number + 1) for number in range(0, 40, 2)]
