"""Lookups in large files whose copies are not made yet: from row groups that may have the keys."""

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pkray
from pkray.lookup import store
from pkray.lookup.cache_entry import CopyThread
from pkray.storage.parquet import writer as parquet_writer

ROWS = 600


@pytest.fixture(autouse=True)
def no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LARGE_ROWS", 0)
    monkeypatch.setattr(CopyThread, "make", lambda *_: None)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", 16)


def doubles() -> list[float]:
    return [-math.inf, *np.linspace(-50, 50, ROWS - 3).tolist(), math.inf, math.nan]


KEYS: dict[str, tuple[str, Sequence[Any]]] = {
    "bigint": ("BIGINT", range(0, 3 * ROWS, 3)),
    "string": ("STRING", [f"é{i:05}" for i in range(ROWS)]),
    "decimal": ("DECIMAL(12, 2)", [decimal.Decimal(i - 99) / 4 for i in range(ROWS)]),
    "double": ("DOUBLE", doubles()),
    "timestamp": (
        "TIMESTAMP(3)",
        [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=i) for i in range(ROWS)],
    ),
    "bytes": ("VARBINARY(9)", [i.to_bytes(3, "big") for i in range(ROWS)]),
}


@pytest.fixture(params=KEYS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pkray.Table]:
    """Its compacted file has most rows; a few were replaced, and every tenth was deleted, later."""
    kind, values = KEYS[request.param]
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("k", kind), ("v", "BIGINT")], ["k"], options=options)
        write(table, list(values))
    with pkray.connect(tmp_path) as catalog:  # which has nothing of it in memory
        yield catalog.load_table("db.t")


def write(table: pkray.Table, values: list[Any]) -> None:
    schema = table.schema.arrow_schema
    with table.open_writer("w") as writer:
        writer.upsert(pa.table({"k": values, "v": list(range(ROWS))}, schema=schema))
        writer.commit(full_compact=True)
        replaced = values[5::20]
        writer.upsert(pa.table({"k": replaced, "v": [-1] * len(replaced)}, schema=schema))
        writer.delete(pa.table({"k": values[::10]}, schema=pa.schema([schema.field("k")])))
        writer.commit()


def test_few_keys(table: pkray.Table, request: pytest.FixtureRequest) -> None:
    values = KEYS[request.node.callspec.params["table"]][1]
    random = np.random.default_rng(1)
    for count in (1, 1, 1, 2, 5, 40):
        numbers = random.choice(ROWS, count, replace=False).tolist()
        keys = pa.array([values[n] for n in numbers], table.schema.arrow_schema.field("k").type)
        for visibility in ("latest", "committed"):
            found = table.lookup(pa.table({"k": keys}), visibility=visibility)
            expected = [-1 if n % 20 == 5 else n for n in numbers if n % 10]
            assert found["v"].to_pylist() == expected


def test_absent_keys(table: pkray.Table, request: pytest.FixtureRequest) -> None:
    first = KEYS[request.node.callspec.params["table"]][1][0]
    absent = pa.array([first], table.schema.arrow_schema.field("k").type)  # it was deleted
    assert not table.lookup(pa.table({"k": absent}), visibility="committed").num_rows
