"""Batches, row groups and pages are bounded by bytes as well as by rows."""

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pkray.options import TableOptions
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter, read_batches
from pkray.storage.parquet import reader as parquet_reader

WIDE, MOST = 100_000, 100


@functools.cache
def widest() -> pa.Table:
    letters = np.random.default_rng(1).integers(32, 127, MOST * WIDE, dtype=np.uint8).tobytes()
    texts = [letters[i * WIDE : (i + 1) * WIDE].decode() for i in range(MOST)]
    return pa.table({"k": pa.array(range(MOST), pa.int64()), "s": pa.array(texts, pa.string())})


def wide(rows: int) -> pa.Table:
    return widest().slice(0, rows)


def write(folder: Path, *tables: pa.Table) -> ObjectStore:
    store = open_store(str(folder))
    with ParquetWriter(store, "f.parquet", tables[0].schema, TableOptions.parse({})) as writer:
        for table in tables:
            writer.write(table)
    return store


def test_a_batch_of_wide_rows_has_few_of_them(tmp_path: Path) -> None:
    table = wide(50)
    store = write(tmp_path, table)
    batches = list(read_batches(store, "f.parquet", batch_bytes=1 << 20))
    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert pa.Table.from_batches(batches).equals(table)


def test_a_row_wider_than_a_batch_may_be_comes_alone(tmp_path: Path) -> None:
    table = wide(5)
    store = write(tmp_path, table)
    batches = list(read_batches(store, "f.parquet", batch_bytes=1000))
    assert [batch.num_rows for batch in batches] == [1] * 5
    assert pa.Table.from_batches(batches).equals(table)


def test_only_the_columns_that_are_read_count(tmp_path: Path) -> None:
    store = write(tmp_path, wide(50))
    (batch,) = read_batches(store, "f.parquet", ["k"], batch_bytes=1000)
    assert batch.column("k").to_pylist() == list(range(50))


def test_narrow_rows_come_by_number(tmp_path: Path) -> None:
    table = pa.table({"k": pa.array(range(1000), pa.int64())})
    store = write(tmp_path, table)
    batches = list(read_batches(store, "f.parquet", batch_rows=300))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]


def test_row_groups_of_narrow_and_of_wide_rows_get_batches_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pkray.storage.parquet.writer.ROW_GROUP_BYTES", 2 << 20)
    narrow = pa.table({"k": pa.array(range(300_000), pa.int64()), "s": pa.array(["x"] * 300_000)})
    table = pa.concat_tables([narrow, wide(60)])
    store = write(tmp_path, narrow, wide(60))
    batches = list(read_batches(store, "f.parquet", batch_bytes=1 << 20))
    assert max(batch.nbytes for batch in batches) <= 3 << 20
    assert max(batch.num_rows for batch in batches) > 10_000
    assert pa.Table.from_batches(batches).equals(table)


def test_names_with_dots_and_nested_columns_are_measured(tmp_path: Path) -> None:
    lists = pa.array([np.arange(20_000)] * 20, pa.list_(pa.int64()))
    table = pa.table({"a.b": lists, "a": pa.array(range(20), pa.int64())})
    store = write(tmp_path, table)
    batches = list(read_batches(store, "f.parquet", ["a.b"], batch_bytes=1 << 20))
    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert sum(batch.num_rows for batch in batches) == 20
    (batch,) = read_batches(store, "f.parquet", ["a"], batch_bytes=1 << 20)
    assert batch.num_rows == 20


@pytest.mark.parametrize(
    ("columns", "filter", "in_pieces"),
    [
        (None, None, True),
        (["a.b"], None, True),
        (["c"], None, False),
        (["c"], pc.field("c") > 3, True),  # which reads all columns
    ],
)
def test_only_large_columns_are_read_in_pieces(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str] | None,
    filter: pc.Expression | None,
    in_pieces: bool,
) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, (20, 2_000))
    table = pa.table({"a.b": list(numbers), "c": pa.array(range(20), pa.int64())})
    store = write(tmp_path, table)
    opened = []

    class Watched(pq.ParquetFile):
        def __init__(self, *args: object, buffer_size: int, **how: object) -> None:
            opened.append(buffer_size > 0)
            super().__init__(*args, buffer_size=buffer_size, **how)

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    monkeypatch.setattr(parquet_reader, "CHUNKS_BYTES", 64 << 10)
    read = pa.Table.from_batches(read_batches(store, "f.parquet", columns, filter=filter))
    assert read.equals(table.slice(20 - read.num_rows).select(columns or table.schema.names))
    assert opened == [in_pieces]


def test_pages_of_wide_values_are_small(tmp_path: Path) -> None:
    write(tmp_path, wide(100))
    file = pq.ParquetFile(tmp_path / "f.parquet")
    chunk = file.metadata.row_group(0).column(1)
    # A page is decoded whole: read one row and see that not all of the chunk is.
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    streamed = pq.ParquetFile(tmp_path / "f.parquet", buffer_size=64 << 10, pre_buffer=False)
    first = next(streamed.iter_batches(1, columns=["s"], use_threads=False))
    assert first.num_rows == 1
    assert pool.bytes_allocated() - before < chunk.total_uncompressed_size // 2
