"""What an owner keeps of the rows that it was given: its own, not those around them."""

import gc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import pkray

BUFFER = 1 << 20
ALLOWED = 10 * BUFFER
"""What is held around them is 24 MB and more."""
COLUMNS = pa.schema(
    [pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("s", pa.string())]
)


@pytest.fixture
def table(tmp_path) -> Iterator[pkray.Table]:
    options = {"bucket": "1", "write-buffer-size": f"{BUFFER} b", "write-only": "true"}
    with pkray.connect(tmp_path) as catalog:
        yield catalog.create_table("db.t", COLUMNS, ["p", "k"], ["p"], options=options)


def rows_of(partitions: np.ndarray, first: int) -> pa.Table:
    keys = np.arange(first, first + len(partitions))[::-1]
    texts = pa.array(["x" * 100]).take(pa.array(np.zeros(len(keys), np.int64)))
    return pa.table([partitions, keys, texts], schema=COLUMNS)


def allocated() -> int:
    gc.collect()
    return sum(
        pool.bytes_allocated() for pool in (pa.default_memory_pool(), pa.system_memory_pool())
    )


def test_a_bucket_of_few_rows_does_not_hold_those_of_the_others(table) -> None:
    before = allocated()
    partitions = np.zeros(10_000, np.int32)
    partitions[::1000] = 1
    with table.open_writer() as writer:
        for number in range(20):
            writer.upsert(rows_of(partitions, number * len(partitions)))
        held = allocated() - before
        writer.commit()
    assert held < ALLOWED
    assert table.to_arrow(columns=["k"], filter="p = 1").num_rows == 200


def test_a_slice_does_not_hold_what_it_was_cut_from(table) -> None:
    before = allocated()
    with table.open_writer() as writer:
        for number in range(20):
            whole = rows_of(np.zeros(10_000, np.int32), number * 10_000)
            writer.upsert(whole.slice(5_000, 10))
            del whole
        held = allocated() - before
        writer.commit()
    assert held < ALLOWED
    assert table.to_arrow().num_rows == 200
