"""Streams of events, written to a table, are the source's content."""

import json
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.cdc
from pkray.schema.types import DataType
from tests.effort import examples
from tests.integration.cdc.histories import (
    HEARTBEAT,
    KEYS,
    MYSQL,
    NEW,
    TYPES,
    Evolving,
    Row,
    alter,
    avro_message,
    canal_streams,
    debezium_avro_events,
    debezium_avro_schema,
    debezium_streams,
    delivered,
    evolving_histories,
    evolving_streams,
    folded,
    histories,
    maxwell_streams,
    shortened,
)
from tests.integration.readers import read_with_rust

JSON = ("debezium-json", "maxwell-json", "canal-json")
BEAT = 9
"""The number of the schema of heartbeats, in Avro."""
Load = Callable[..., object]
"""Takes `pkray.cdc.upsert`'s arguments ``new_columns`` and ``missing``."""


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


def written(folder: str, records: list[str | None], name: str = "events.json") -> Path:
    file = Path(folder, name)
    file.write_text("".join(f"{'null' if each is None else each}\n" for each in records), "utf-8")
    return file


def columns_of(format: str) -> Iterable[str]:
    """Name the columns that sources of a format have."""
    return TYPES if "debezium" in format else MYSQL


def drawn(data: st.DataObject, format: str) -> tuple[Evolving, tuple[list[Any], list[Any]], Row]:
    """Give a history, its records in a format of JSON, and what else that takes to be read."""
    if format != "debezium-json":
        history = data.draw(evolving_histories(finite=True))
        stream = maxwell_streams if format == "maxwell-json" else canal_streams
        return history, data.draw(evolving_streams(history, stream)), {}
    history = data.draw(evolving_histories())
    schema, full = data.draw(st.booleans()), data.draw(st.booleans())
    decimals = "precise" if schema else data.draw(st.sampled_from(["precise", "string"]))
    stream = partial(debezium_streams, schema=schema, decimals=decimals, full=full)
    modes = {} if schema else {"decimal_handling_mode": decimals, "time_precision_mode": "adaptive"}
    return history, data.draw(evolving_streams(history, stream)), modes


def load_both(table: pkray.Table, history: Evolving, before: Load, after: Load) -> None:
    """Load both parts of a history; a column that gets wider the table's owner has to change."""
    before()
    if history.evolution == "widened":
        alter(table, history.evolution)
        after()
    else:
        after(new_columns="add", missing="null")


def check_content(table: pkray.Table, history: Evolving) -> None:
    """Check that a table has the rows that a history says, as another reader finds it as well."""
    names = (*table.arrow_schema.names, NEW)
    rows = [{n: value for n, value in row.items() if n in names} for row in history.after.content]
    evolution = history.evolution
    others = read_with_rust(str(Path(table.location.url).parents[1]), table.name)
    for found in (table.to_arrow(), others):
        assert folded(found.to_pylist(), evolution) == folded(rows, evolution)


@pytest.mark.parametrize("format", JSON)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_events_become_the_source_s_content(format: str, data: st.DataObject):
    becomes_the_content(format, data)


@pytest.mark.slow
@pytest.mark.parametrize("format", JSON)
@settings(max_examples=examples(200))
@given(data=st.data())
def test_many_events_become_the_source_s_content(format: str, data: st.DataObject):
    becomes_the_content(format, data)


def becomes_the_content(format: str, data: st.DataObject) -> None:
    """Load a history's events, in two parts between which a column changes."""
    history, records, modes = drawn(data, format)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog, columns_of(format))
        load = partial(pkray.cdc.upsert, table, format=format, **modes)
        files = (written(folder, each, f"{n}.json") for n, each in enumerate(records))
        load_both(table, history, *(partial(load, file) for file in files))
        check_content(table, history)


def avro_files(
    data: st.DataObject, folder: Path, events: list[Row | None], schema: Row, number: int
) -> list[Path]:
    """Write events as they come from a topic: some in a file, which has one schema and no
    tombstones, the others as messages that name their schema by a number."""
    cut = data.draw(st.integers(0, len(events)))
    codec = data.draw(st.sampled_from(["null", "deflate"]))
    parsed, beat = map(fastavro.parse_schema, (schema, HEARTBEAT))
    files = [folder / f"{number}.avro"]
    with files[0].open("wb") as out:
        changes = [each for each in events[:cut] if each is not None and "op" in each]
        fastavro.writer(out, parsed, changes, codec, sync_interval=300)
    for event in filter(None, events[cut:]):
        its, its_number = (parsed, number) if "op" in event else (beat, BEAT)
        files.append(folder / f"{number}-{len(files)}.bin")
        files[-1].write_bytes(avro_message(its, event, b"\0" + its_number.to_bytes(4, "big")))
    return files


@settings(max_examples=examples(8))
@given(data=st.data())
def test_events_in_avro_become_the_source_s_content(data: st.DataObject):
    becomes_the_content_by_avro(data)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(data=st.data())
def test_many_events_in_avro_become_the_source_s_content(data: st.DataObject):
    becomes_the_content_by_avro(data)


def becomes_the_content_by_avro(data: st.DataObject) -> None:
    """As `becomes_the_content`, of files and messages in Avro."""
    history = data.draw(evolving_histories())
    full = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog)
        ids, loads = {BEAT: json.dumps(HEARTBEAT)}, []
        load = partial(pkray.cdc.upsert, table, format="debezium-avro", avro_schema=ids)
        for number, part in enumerate((history.before, history.after)):
            schema = debezium_avro_schema(part.columns)
            ids[number] = json.dumps(schema)
            events = delivered(data.draw, data.draw(debezium_avro_events(part, full=full)))
            loads.append(partial(load, avro_files(data, Path(folder), events, schema, number)))
        load_both(table, history, *loads)
        check_content(table, history)


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
