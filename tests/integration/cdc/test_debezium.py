"""Streams of Debezium's events, written to a table, are the source's content."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.cdc
from pkray.schema.types import DataType
from tests.effort import examples
from tests.integration.cdc.histories import KEYS, TYPES, Row, debezium_streams, histories


def source(rows: list[Row]) -> pa.Table:
    """The rows as Arrow, in the order of their keys."""
    fields = [pa.field(name, DataType.parse(kind).arrow) for name, kind in TYPES.items()]
    return pa.Table.from_pylist(sorted(rows, key=key), pa.schema(fields))


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS)


def content(table: pkray.Table) -> pa.Table:
    rows = table.to_arrow().to_pylist()
    return source([{name: row[name] for name in TYPES} for row in rows])


def create(catalog: pkray.Catalog, extra: Any = (), **options: str) -> pkray.Table:
    return catalog.create_table(
        "db.t", [*TYPES.items(), *extra], primary_keys=list(KEYS), options=options
    )


@settings(max_examples=examples(200))
@given(data=st.data())
def test_a_stream_becomes_the_source_s_content(data: st.DataObject):
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
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog)
        file = Path(folder, "events.json")
        file.write_text("".join(f"{'null' if each is None else each}\n" for each in records))
        pkray.cdc.upsert(table, file, format="debezium-json", **modes)
        assert content(table).equals(source(history.content))
