"""ARRAY, MAP and ROW values, deep and empty ones, through everything that a row passes."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
from pkray.schema.types import DataType
from tests.effort import examples
from tests.integration.readers import read_with_rust

COLUMNS = {
    "k": "BIGINT NOT NULL",
    "a": "ARRAY<INT>",
    "r": "ROW<x ARRAY<BIGINT>, y MAP<INT, STRING>, z ROW<b BYTES, f DOUBLE>>",
    "m": "MAP<STRING, ARRAY<ROW<d DECIMAL(20, 2), t TIMESTAMP(9), w DECIMAL(38, 10)>>>",
    "aa": "ARRAY<ARRAY<STRING>>",
}
TYPES = {name: DataType.parse(kind).arrow for name, kind in COLUMNS.items()}
NANOS = 1_700_000_000_123_456_789


def small(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.none() | numbers, max_size=3)


def maps(keys: st.SearchStrategy[Any], items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, st.none() | items, max_size=3).map(lambda d: list(d.items()))


DEEP = st.fixed_dictionaries(
    {
        "d": st.none() | st.integers(-(10**18), 10**18).map(lambda n: Decimal(n).scaleb(-2)),
        "t": st.none() | st.integers(-NANOS, NANOS),
        "w": st.none() | st.integers(-(10**26), 10**26).map(lambda n: Decimal(n).scaleb(-10)),
    }
)
INNER = st.fixed_dictionaries(
    {"b": st.none() | st.binary(max_size=9), "f": st.none() | st.floats(allow_nan=False, width=32)}
)
VALUES = {
    "a": small(st.integers(-9, 9)),
    "r": st.fixed_dictionaries(
        {
            "x": st.none() | small(st.integers(0, 2**40)),
            "y": st.none() | maps(st.integers(0, 9), st.text("aé", max_size=9)),
            "z": st.none() | INNER,
        }
    ),
    "m": maps(st.text("ab", max_size=2), st.lists(st.none() | DEEP, max_size=2)),
    "aa": small(st.lists(st.none() | st.text("xy", max_size=9), max_size=2)),
}
ROW = st.fixed_dictionaries(
    {"k": st.integers(0, 5), **{name: st.none() | values for name, values in VALUES.items()}}
)
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=1, max_size=4)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({n: pa.array([row[n] for row in rows], kind) for n, kind in TYPES.items()})


def by_key(model: dict[int, dict[str, Any]]) -> pa.Table:
    return table_of([model[key] for key in sorted(model)])


def assert_same(found: pa.Table, expected: pa.Table, what: str) -> None:
    found = found.select(expected.column_names).cast(expected.schema).sort_by("k")
    for name in expected.column_names:
        one, other = found[name].combine_chunks(), expected[name].combine_chunks()
        assert one.equals(other), f"{what}, {name}: {one.diff(other)}"


def merge(model: dict[int, dict[str, Any]], row: dict[str, Any], engine: str) -> None:
    old = model.get(row["k"])
    if old is None or engine == "deduplicate":
        model[row["k"]] = row
    elif engine != "first-row":
        new = {name: value for name, value in row.items() if value is not None}
        model[row["k"]] = {**old, **new}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return str(tmp_path_factory.mktemp("w"))


@pytest.fixture(scope="module")
def catalog(warehouse):
    with pkray.connect(warehouse, runtime_options={"owners": 1}) as catalog:
        yield catalog


_made = iter(range(10**6))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_nested_values_survive_everything(catalog, warehouse, engine):
    @settings(max_examples=examples(6))
    @given(batches=BATCHES, full=st.booleans())
    def check(batches, full):
        name = f"db.t{next(_made)}"
        options = {
            "bucket": "1",
            "merge-engine": engine,
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
        }
        table = catalog.create_table(name, list(COLUMNS.items()), ["k"], options=options)
        model: dict[int, dict[str, Any]] = {}
        keys = [{"k": key} for key in range(6)]
        for rows in batches:
            with table.open_writer() as writer:
                writer.upsert(table_of(rows))
                for row in rows:
                    merge(model, row, engine)
                assert_same(table.lookup(keys), by_key(model), "latest")
                writer.commit()
            assert_same(table.lookup(keys, visibility="committed"), by_key(model), "committed")
        if full:
            table.compact(full=True)
        assert_same(table.to_arrow(), by_key(model), "read")
        assert_same(read_with_rust(warehouse, name), by_key(model), "pypaimon-rust")
        changes = table.changelog()
        shown = changes.filter(pc.is_in(changes["_row_kind"], pa.array(["+I", "+U"])))
        last = {row: i for i, row in enumerate(shown["k"].to_pylist())}
        newest = shown.take([last[key] for key in sorted(last)])
        assert_same(newest, by_key(model), "changelog")

    check()


def test_rows_that_are_spilled_and_cut_into_many_files(catalog, warehouse):
    options = {"bucket": "1", "write-buffer-size": "64 kb", "target-file-size": "20 kb"}
    table = catalog.create_table("db.spilled", list(COLUMNS.items()), ["k"], options=options)
    count = 3_000
    rows = [
        {
            "k": key,
            "a": None if key % 7 == 0 else [None, key] * (key % 3),
            "r": None if key % 5 == 0 else {"x": [key], "y": [(key, "é" * (key % 4))], "z": None},
            "m": [("p", [{"d": Decimal(key), "t": NANOS + key, "w": None}, None]), ("q", None)],
            "aa": [[], None, ["x" * (key % 11)]],
        }
        for key in range(count)
    ]
    with table.open_writer() as writer:
        for start in range(0, count, 250):
            writer.upsert(table_of(rows[start : start + 250]))
        writer.commit()
    table.compact(full=True)
    assert table.files().num_rows > 2
    assert_same(table.to_arrow(), table_of(rows), "read")
    assert_same(read_with_rust(warehouse, "db.spilled"), table_of(rows), "pypaimon-rust")
    some = table.lookup([{"k": 2_999}, {"k": 7}, {"k": 5}], visibility="committed")
    assert_same(some, table_of([rows[5], rows[7], rows[2_999]]), "lookup")
