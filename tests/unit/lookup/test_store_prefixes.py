"""Rows of a data file by the beginning of their key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.lookup.block_store import LocalDiskError
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from tests.effort import examples

KEYS = ["a", "b", "c"]


def rows_of(keys: list[tuple[int, str, int]]) -> pa.Table:
    """Rows with these keys, sorted, and their number and a nested value."""
    a, b, c = zip(*sorted(keys), strict=True)
    n = range(len(keys))
    return pa.table(
        {
            "a": pa.array(a, pa.int64()),
            "b": pa.array(b, pa.string()),
            "c": pa.array(c, pa.int32()),
            "n": pa.array(n, pa.int64()),
            "list": pa.array([[i] for i in n], pa.list_(pa.int64())),
        }
    )


def prefixes_of(*columns: list) -> KeyPrefixes:
    types = [pa.int64(), pa.string(), pa.int32()]
    return KeyPrefixes([pa.array(c, t) for c, t in zip(columns, types, strict=False)])


GRID = [(a, f"{'x' * (b % 3)}{b}", c) for a in range(40) for b in range(7) for c in range(a % 13)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_across_blocks(files, store, width):
    table = rows_of(GRID)
    file = files.add("f", table)
    asked = [row[:width] for row in [*sorted(GRID)[::97], (3, "x", 0), (99, "", 0), (-1, "z", 9)]]
    places, rows = store.locate_prefixes(
        files, file, KEYS, prefixes_of(*map(list, zip(*asked, strict=True))), ["n", "list", "b"]
    )
    expected = [i for i, key in enumerate(sorted(GRID)) if key[:width] in set(asked)]
    assert places.tolist() == expected
    assert rows["n"].to_pylist() == expected
    assert rows["list"].to_pylist() == [[i] for i in expected]
    assert rows["b"].to_pylist() == [sorted(GRID)[i][1] for i in expected]


@settings(max_examples=examples(25))
@given(
    keys=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "ab"]), st.integers(0, 30)),
        min_size=1,
        unique=True,
    ),
    asked=st.lists(
        st.tuples(st.none() | st.integers(-1, 4), st.sampled_from(["", "a", "ab", "b"])), min_size=1
    ),
    width=st.integers(1, 2),
)
def test_answers_come_for_each_question_in_key_order(keys, asked, width):
    table = rows_of(keys)
    questions = [question[:width] for question in asked]
    prefixes = prefixes_of(*map(list, zip(*questions, strict=True)))
    leading = [table.column(name).combine_chunks() for name in KEYS[:width]]
    positions, numbers = prefixes.answers(leading)
    given = [[] for _ in questions]
    for position, number in zip(positions.tolist(), numbers.tolist(), strict=True):
        given[position].append(sorted(keys)[number])
    assert given == [[k for k in sorted(keys) if k[:width] == question] for question in questions]


def test_a_copy_answers_again_without_the_file(files, store):
    file = files.add("f", rows_of(GRID))
    for a in (5, 6, 7):
        store.locate_prefixes(files, file, KEYS, prefixes_of([a]), ["n"])
    assert files.reads == 1
    assert store.stats().hits == 2


def test_few_blocks_are_read_of_a_large_file(files, store, monkeypatch):
    keys = [(a, "", c) for a in range(4_000) for c in range(5)]
    file = files.add("f", rows_of(keys))
    store.locate_prefixes(files, file, KEYS, prefixes_of([0]), ["n"])
    cached = store._copies._entries["f"].cached_file
    asked = []
    get = cached.blocks.get
    monkeypatch.setattr(cached.blocks, "get", lambda names: asked.extend(names) or get(names))
    places, _ = store.locate_prefixes(files, file, KEYS, prefixes_of([777, 3_999]), ["n"])
    assert places.tolist() == [*range(3885, 3890), *range(19_995, 20_000)]
    assert len(asked) <= 2 * (5 // cached.index.layout.block_rows + 2)


def test_most_of_a_file_is_read_from_front_to_back(files, store):
    keys = [(a, "", c) for a in range(5_000) for c in range(4)]
    file = files.add("f", rows_of(keys))
    wanted = list(range(0, 5_000, 2))
    places, _ = store.locate_prefixes(files, file, KEYS, prefixes_of(wanted), ["n"])
    assert store.stats().scans == 1
    assert places.tolist() == [i for i in range(20_000) if i // 4 % 2 == 0]


def test_without_a_local_disk_the_file_answers(files, tmp_path, clock):
    (tmp_path / "file").write_text("")
    store = LookupStore(
        str(tmp_path / "file" / "lookup"),
        CopyLimits(max_disk_bytes=None, max_memory_bytes=1, retention_millis=1),
        clock=clock,
    )
    file = files.add("f", rows_of(GRID))
    places, rows = store.locate_prefixes(files, file, KEYS, prefixes_of([12, 30]), ["n"])
    expected = [i for i, key in enumerate(sorted(GRID)) if key[0] in (12, 30)]
    assert places.tolist() == rows["n"].to_pylist() == expected
    assert store.stats().degraded == 1


def test_damaged_blocks_are_not_asked_again(files, store, monkeypatch):
    file = files.add("f", rows_of(GRID))
    store.locate_prefixes(files, file, KEYS, prefixes_of([1]), ["n"])

    def fail(names):
        raise LocalDiskError("torn")

    monkeypatch.setattr(store._copies._entries["f"].cached_file.blocks, "get", fail)
    places, _ = store.locate_prefixes(files, file, KEYS, prefixes_of([2]), ["n"])
    assert [sorted(GRID)[i][0] for i in places.tolist()] == [2] * 14
    assert store.stats().degraded == 1
    assert store.stats().evictions == 1


def test_blocks_of_one_row_and_wide_keys(files, store):
    keys = [(a, "k" * 3_000 + str(b), 0) for a in range(3) for b in range(4)]
    file = files.add("f", rows_of(keys))
    places, _ = store.locate_prefixes(
        files, file, KEYS, prefixes_of([1], ["k" * 3_000 + "2"]), ["n"]
    )
    assert places.tolist() == [6]
    assert np.array_equal(
        store.locate_prefixes(files, file, KEYS, prefixes_of([2]), ["n"])[0], np.arange(8, 12)
    )
