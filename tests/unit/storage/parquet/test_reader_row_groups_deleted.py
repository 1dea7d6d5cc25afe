"""Rows are left out by their position in the file, however the file is read."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.format.deletion_vector import DeletionVector
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.parquet import read_batches
from pkray.storage.parquet.reader import row_groups_with

ROWS, GROUP_ROWS = 100, 16
GROUPS = -(-ROWS // GROUP_ROWS)


@pytest.fixture(scope="module", params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    root = tmp_path_factory.mktemp("positions")
    store = open_store(root if request.param == "local" else f"memory://{root.name}")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": np.arange(ROWS)}), sink, row_group_size=GROUP_ROWS)
    store.write("f.parquet", sink.getvalue().to_pybytes())
    return store


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch.column("n").to_pylist()]


deleted_rows = st.sets(st.integers(0, ROWS - 1))


@given(
    deleted=deleted_rows,
    groups=st.none() | st.sets(st.integers(0, GROUPS - 1)).map(sorted),
    batch_rows=st.integers(1, 2 * ROWS),
)
def test_batches_and_row_groups(
    store: ObjectStore, deleted: set[int], groups: list[int] | None, batch_rows: int
) -> None:
    vector = DeletionVector.from_positions(np.array(sorted(deleted), np.int64))
    read = read_batches(
        store, "f.parquet", batch_rows=batch_rows, row_groups=groups, deleted=vector
    )
    wanted = range(GROUPS) if groups is None else groups
    assert numbers(read) == [
        n for n in range(ROWS) if n // GROUP_ROWS in wanted and n not in deleted
    ]


@given(deleted=deleted_rows, low=st.integers(0, ROWS), high=st.integers(0, ROWS))
def test_row_groups_that_a_filter_leaves_out(
    store: ObjectStore, deleted: set[int], low: int, high: int
) -> None:
    vector = DeletionVector.from_positions(np.array(sorted(deleted), np.int64))
    within = (pc.field("n") >= low) & (pc.field("n") < high)
    read = read_batches(store, "f.parquet", batch_rows=7, filter=within, deleted=vector)
    assert numbers(read) == [n for n in range(low, high) if n not in deleted]


@given(wanted=st.sets(st.integers(-5, ROWS + 5), max_size=4))
def test_row_groups_with_some_values(store: ObjectStore, wanted: set[int]) -> None:
    condition = pc.field("n").isin(pa.array(sorted(wanted), pa.int64()))
    found = dict(row_groups_with(store, "f.parquet", condition))
    assert set(found) >= {n // GROUP_ROWS for n in wanted if 0 <= n < ROWS}
    assert len(found) <= len(wanted)
    assert all(first == number * GROUP_ROWS for number, first in found.items())


def test_a_condition_of_another_type_leaves_no_row_group_out(store: ObjectStore) -> None:
    condition = pc.field("n") == "text"
    assert len(list(row_groups_with(store, "f.parquet", condition))) == GROUPS
