"""Streams of events, written to a table, are the source's content."""

import json
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.cdc
from pkray.schema.types import DataType
from tests.effort import examples
from tests.integration.cdc.histories import (
    EVOLUTIONS,
    HEARTBEAT,
    KEYS,
    MYSQL,
    TYPES,
    WIDENED,
    WIDER,
    Row,
    avro_message,
    canal_streams,
    debezium_avro_events,
    debezium_avro_schema,
    debezium_streams,
    evolved,
    evolved_content,
    folded,
    histories,
    maxwell_streams,
    shortened,
)


def source(rows: list[Row], names: Iterable[str] = tuple(TYPES)) -> pa.Table:
    """The rows as Arrow, in the order of their keys."""
    fields = [
        pa.field(name, DataType.parse(kind).arrow) for name, kind in TYPES.items() if name in names
    ]
    return pa.Table.from_pylist(sorted(rows, key=key), pa.schema(fields))


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS)


def content(table: pkray.Table, names: Iterable[str] = tuple(TYPES)) -> pa.Table:
    return source(table.to_arrow().to_pylist(), names)


def create(
    catalog: pkray.Catalog, names: Iterable[str] = tuple(TYPES), **options: str
) -> pkray.Table:
    columns = [(name, kind) for name, kind in TYPES.items() if name in names]
    return catalog.create_table("db.t", columns, primary_keys=list(KEYS), options=options)


def written(folder: str, records: list[str | None]) -> Path:
    file = Path(folder, "events.json")
    file.write_text("".join(f"{'null' if each is None else each}\n" for each in records), "utf-8")
    return file


@settings(max_examples=examples(30))
@given(data=st.data())
def test_debezium_s_events_become_the_source_s_content(data: st.DataObject):
    history = data.draw(histories())
    schema = data.draw(st.booleans())
    decimals = data.draw(st.sampled_from(["precise", "string"]))
    full = data.draw(st.booleans())
    stream = debezium_streams(history, schema=schema, decimals=decimals, full=full)
    if schema:
        decimals = "precise"
        stream = debezium_streams(history, schema=True, decimals="precise", full=full)
    records = data.draw(stream)
    modes = {} if schema else {"decimal_handling_mode": decimals, "time_precision_mode": "adaptive"}
    evolution = data.draw(st.sampled_from(EVOLUTIONS))
    lsn = data.draw(st.sampled_from([change.lsn for change in history.changes] or [0]))
    changed = [evolved(each, evolution, lsn) for each in records]
    first = next((n for n, each in enumerate(changed) if each != records[n]), len(records))
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog)
        load = partial(pkray.cdc.upsert, table, format="debezium-json", **modes)
        if first:
            load(written(folder, changed[:first]))
        rest = written(folder, changed[first:])
        if evolution == "widened":
            table.alter.change_type(WIDENED, WIDER)
            load(rest)
        else:
            load(rest, new_columns="add", missing="null")
        found = sorted(folded(table.to_arrow().to_pylist()), key=key)
        assert found == sorted(evolved_content(history, evolution, lsn), key=key)


@settings(max_examples=examples(20))
@given(data=st.data())
def test_debezium_s_events_in_avro_become_the_source_s_content(data: st.DataObject):
    history = data.draw(histories())
    events = data.draw(debezium_avro_events(history, full=data.draw(st.booleans())))
    cut = data.draw(st.integers(0, len(events)))
    schema, beat = map(fastavro.parse_schema, (debezium_avro_schema(), HEARTBEAT))
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog)
        changes = [each for each in events[:cut] if each is not None and "op" in each]
        file = Path(folder, "events.avro")
        with file.open("wb") as out:  # a file has one schema, and no tombstones
            codec = data.draw(st.sampled_from(["null", "deflate"]))
            fastavro.writer(out, schema, changes, codec, sync_interval=300)
        pkray.cdc.upsert(table, file, format="debezium-avro")
        messages = [
            each
            and (
                avro_message(schema, each, b"\0\0\0\0\7")
                if "op" in each
                else avro_message(beat, each, b"\0\0\0\0\b")
            )
            for each in events[cut:]
        ]
        files = [Path(folder, f"{n}.bin") for n, each in enumerate(messages) if each is not None]
        for path, message in zip(files, filter(None, messages), strict=True):
            path.write_bytes(message)
        ids = {7: json.dumps(debezium_avro_schema()), 8: json.dumps(HEARTBEAT)}
        pkray.cdc.upsert(table, files, format="debezium-avro", avro_schema=ids)
        assert content(table).equals(source(history.content))


@settings(max_examples=examples(20))
@given(data=st.data())
def test_maxwell_s_and_canal_s_events_become_the_source_s_content(data: st.DataObject):
    history = data.draw(histories(finite=True))
    name, stream = data.draw(
        st.sampled_from([("maxwell-json", maxwell_streams), ("canal-json", canal_streams)])
    )
    records = data.draw(stream(history))
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog, MYSQL)
        pkray.cdc.upsert(table, written(folder, records), format=name)
        assert content(table, MYSQL).equals(source(history.content, MYSQL))


@settings(max_examples=examples(20))
@given(data=st.data())
def test_values_that_events_do_not_bring_are_those_that_rows_have(data: st.DataObject):
    history = data.draw(histories())
    events = data.draw(shortened(history))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=2)))
    parts = zip([0, *cuts], [*cuts, len(events)], strict=True)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog)
        for start, stop in parts:
            pkray.cdc.upsert(
                table,
                written(folder, events[start:stop]),
                format="debezium-json",
                decimal_handling_mode="string",
                time_precision_mode="adaptive",
            )
        assert content(table).equals(source(history.content))
