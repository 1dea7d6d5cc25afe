"""Files that other readers of Parquet may take as they are."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

import pkray
from pkray.scan.raw_files import divided

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING", "n": "INT"}
Change = Callable[[pkray.Table], Any]


def rows(low: int, high: int, value: str) -> list[dict[str, Any]]:
    return [{"k": k, "v": value, "n": k % 3} for k in range(low, high)]


def raw(table: pkray.Table, filter: object = None) -> tuple[int, int]:
    """Compare with a read; return how many files are raw, and how many are not."""
    location = table.location
    store = location.open()
    paths, others = divided(table.at().plan(None, filter), store)
    names = table.schema.names
    found = [pq.ParquetFile(store.local_path(path)).read(names).to_pylist() for path in paths]
    read = [batch.to_pylist() for split in others for batch in split.read()]
    if filter is None:
        assert counted(*found, *read) == counted(table.to_arrow().to_pylist())
    return len(paths), sum(len(split.files) for split in others)


def counted(*parts: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(row) for part in parts for row in part)


def put(low: int, high: int, value: str) -> Change:
    return lambda table: table.upsert(rows(low, high, value))


A, B = put(0, 9, "a"), put(5, 12, "b")
MARKED = {"num-sorted-run.compaction-trigger": "5", "deletion-vectors.enabled": "true"}
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
CASES: dict[str, tuple[dict[str, str], list[Change], tuple[int, int]]] = {
    "a file alone": ({}, [A], (1, 0)),
    "files of different keys": ({}, [A, put(9, 20, "b")], (2, 0)),
    "files that overlap, beside one that does not": ({}, [A, B, put(50, 60, "c")], (1, 2)),
    "what was compacted": ({}, [A, B, lambda t: t.compact(full=True)], (1, 0)),
    "deletes of keys that are nowhere else": ({}, [A, lambda t: t.delete([{"k": 40}])], (1, 1)),
    "rows that are marked deleted": (MARKED, [put(0, 60_000, "a"), put(5, 6, "b")], (1, 1)),
    "an older schema's file": (
        {},
        [
            A,
            lambda t: t.alter.add_column("more", "INT"),
            lambda t: t.upsert([{"k": 10, "v": "b", "n": 1, "more": 7}]),
        ],
        (1, 1),
    ),
    "values of default": (
        {"fields.v.default-value": "none"},
        [lambda t: t.upsert([{"k": 1, "v": None, "n": 1}])],
        (0, 1),
    ),
    "another merge engine": (SUMS, [A, put(20, 30, "b")], (2, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_raw_files_and_the_other_splits_have_the_rows(name: str, catalog: pkray.Catalog) -> None:
    options, changes, expected = CASES[name]
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "20", **options}
    catalog.create_table("db.t", COLUMNS, ["k"], options=options)
    for change in changes:
        change(catalog.load_table("db.t"))
    assert raw(catalog.load_table("db.t")) == expected


def test_columns_of_partitions_are_in_raw_files(catalog: pkray.Catalog) -> None:
    columns = {"day": "STRING NOT NULL", **COLUMNS}
    keys = {"primary_keys": ["day", "k"], "partition_keys": ["day"]}
    table = catalog.create_table("db.t", columns, **keys, options={"bucket": "1"})
    table.upsert(
        [{"day": "a/=1", "k": 1, "v": "x", "n": 2}, {"day": "b", "k": 1, "v": "y", "n": 3}]
    )
    assert raw(table) == (2, 0)
    assert raw(table, "day = 'b'") == (1, 0)
