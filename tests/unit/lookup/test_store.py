import decimal
import logging
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkray.lookup import block_store, cached_file
from pkray.lookup import store as store_module
from pkray.lookup.block_store import LocalDiskError
from pkray.lookup.local_file_cache import RETRY_MILLIS, CopyLimits
from pkray.lookup.store import LookupStore
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from tests.effort import examples
from tests.unit.lookup.conftest import find


def keys(*values):
    return pa.table({"k": pa.array(values, pa.int64())})


def in_order(found):
    """The rows in the order of the keys asked."""
    positions, rows = found
    order = np.argsort(positions, kind="stable")
    return positions[order].tolist(), rows.take(pa.array(order))


def numbers(count, step=2):
    k = pa.array(np.arange(0, count * step, step))
    return pa.table({"k": k, "v": pa.array(np.arange(count) * 10)})


def diskless(tmp_path, clock):
    """A store whose folder cannot be made."""
    (tmp_path / "file").write_text("")
    limits = CopyLimits(max_disk_bytes=None, max_memory_bytes=1, retention_millis=1)
    return LookupStore(str(tmp_path / "file" / "lookup"), limits, clock=clock)


def test_finds_rows_of_all_types(store, files, every_type):
    file = files.add("a", every_type)
    names = every_type.column_names
    positions, rows = in_order(find(store, files, file, keys(*range(60)), names))
    assert positions == list(range(0, 60, 2))
    assert rows.select(names).equals(every_type)
    assert rows["_SEQUENCE_NUMBER"].to_pylist() == list(range(30))


def test_returns_the_columns_asked_for(store, files, every_type):
    file = files.add("a", every_type)
    _, rows = find(store, files, file, keys(4), ["row", "string"])
    assert rows.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "row", "string"]
    assert rows["row"].to_pylist() == every_type["row"].to_pylist()[2:3]


def test_reads_the_file_again_only_for_columns_it_lacks(store, files, every_type):
    file = files.add("a", every_type)
    find(store, files, file, keys(4), ["string"])
    find(store, files, file, keys(8), ["string"])
    assert files.reads == 1
    _, rows = find(store, files, file, keys(4), ["wide"])
    assert rows["wide"].to_pylist() == every_type["wide"].to_pylist()[2:3]
    assert files.reads == 2
    find(store, files, file, keys(4), ["string", "wide"])
    assert files.reads == 2
    assert store.stats().files == 1


def test_gives_row_kinds(store, files):
    file = files.add("a", numbers(3), kinds=[0, 3, 2])
    _, rows = in_order(find(store, files, file, keys(0, 2, 4), ["v"]))
    assert rows["_VALUE_KIND"].to_pylist() == [0, 3, 2]


def test_answers_a_key_as_often_as_it_is_asked(store, files):
    file = files.add("a", numbers(100))
    positions, rows = in_order(find(store, files, file, keys(6, 7, 6, 0, 6), ["v"]))
    assert positions == [0, 2, 3, 4]
    assert rows["v"].to_pylist() == [30, 30, 0, 30]


def test_never_finds_a_null(store, files):
    file = files.add("a", numbers(100))
    positions, rows = in_order(find(store, files, file, keys(None, 6, None), ["v"]))
    assert (positions, rows["v"].to_pylist()) == ([1], [30])


@pytest.mark.parametrize("asked", [(), (None,), (7,), (-5, 10_000)])
def test_says_the_types_when_nothing_is_found(store, files, every_type, asked):
    file = files.add("a", every_type)
    positions, rows = find(store, files, file, keys(*asked), ["wide", "map"])
    assert len(positions) == rows.num_rows == 0
    assert rows.schema.field("map").type == every_type.schema.field("map").type
    assert rows.schema.field("wide").type == pa.decimal128(38, 0)


def alike():
    """Find two numbers whose keys have one hash in the filter of a copy."""
    hashes = cached_file.filter_hashes([pa.array(range(2_000))])
    order = np.argsort(hashes, kind="stable")
    at = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])[0]
    return order[at : at + 2].tolist()


def test_a_row_of_the_same_hash_hides_no_key_asked_beside_it(store, files):
    low, high = alike()
    file = files.add("a", pa.table({"k": [low, high, 5_000], "v": [1, 2, 3]}))
    positions, rows = in_order(find(store, files, file, keys(low, 5_000, 5_001), ["v"]))
    assert (positions, rows["v"].to_pylist()) == ([0, 1], [1, 3])


def test_gives_positions_in_the_file(store, files):
    file = files.add("a", numbers(5_000))
    queries, rows, _ = store.locate(files, file, keys(9_998, 1, 246, 0), [])
    assert dict(zip(queries.tolist(), rows.tolist(), strict=True)) == {0: 4_999, 2: 123, 3: 0}


def test_spans_many_slices_and_blocks(store, files, monkeypatch):
    monkeypatch.setattr("pkray.lookup.cached_file.SLICE_ROWS", 256)
    monkeypatch.setattr("pkray.lookup.cached_file.FETCHED_BYTES", 1_000)
    count = 1_333
    table = (
        numbers(count)
        .append_column(
            "s", pa.array([None if i % 11 == 0 else "x" * (i % 40) for i in range(count)])
        )
        .append_column("l", pa.array([[i] * (i % 3) for i in range(count)]))
    )
    file = files.add("a", table)
    asked = list(range(-10, 2 * count + 10))
    positions, rows = in_order(find(store, files, file, keys(*asked), table.column_names))
    assert positions == list(range(10, 2 * count + 10, 2))
    assert rows.select(table.column_names).equals(table)


def test_large_values_get_small_blocks(store, files):
    table = pa.table({"k": range(50), "v": [bytes([i]) * 5_000 for i in range(50)]})
    file = files.add("a", table)
    _, rows = in_order(find(store, files, file, keys(3, 49), ["v"]))
    assert rows["v"].to_pylist() == [bytes([3]) * 5_000, bytes([49]) * 5_000]


def test_many_keys_are_found_by_a_scan(store, files, monkeypatch):
    monkeypatch.setattr(store_module, "MANY_KEYS", 10)
    file = files.add("a", numbers(1_000))
    positions, rows = in_order(find(store, files, file, keys(*range(100), 4, 4), ["v"]))
    assert positions == [*range(0, 100, 2), 100, 101]
    assert rows["v"].to_pylist() == [*range(0, 500, 10), 20, 20]
    stats = store.stats()
    assert (stats.scans, stats.builds, stats.degraded) == (1, 0, 0)


TEXT = st.text("ab\0é", max_size=20) | st.sampled_from(["a" * 70, "a" * 70 + "b", "a" * 80])
KEY_TYPES = {
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "string": (pa.string(), TEXT),
    "bytes": (pa.binary(), st.binary(max_size=10)),
    "date": (pa.date32(), st.integers(-1000, 1000)),
    "timestamp": (pa.timestamp("us"), st.integers(-(10**12), 10**12)),
    "boolean": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (
        pa.decimal128(30, 2),
        st.integers(-(10**28), 10**28).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    ),
}


def sort_rank(value):
    if isinstance(value, float):
        return (value, str(value) != "-0.0")
    return (value.encode(),) if isinstance(value, str) else (value,)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), by_scan=st.booleans(), kept=st.sampled_from([0xFFFF, 31, 7]))
def test_agrees_with_a_dict(open_store, files, data, by_scan, kept):
    names = data.draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    one_key = st.tuples(*(KEY_TYPES[name][1] for name in names))
    held = data.draw(st.lists(one_key, min_size=1, max_size=60, unique_by=repr))
    asked = data.draw(st.lists(one_key | st.sampled_from(held), min_size=1, max_size=60))
    held.sort(key=lambda key: [sort_rank(part) for part in key])
    model = {repr(key): row for row, key in enumerate(held)}

    def key_table(rows):
        columns = [
            pa.array([row[i] for row in rows], KEY_TYPES[name][0]) for i, name in enumerate(names)
        ]
        return pa.table(columns, [f"k{i}" for i in range(len(names))])

    def hashes_alike(columns):
        return filter_hashes(columns) & np.uint16(kept)

    filter_hashes = cached_file.filter_hashes
    texts = [None if row % 5 == 0 else "v" * row for row in range(len(held))]
    values = pa.array(texts, pa.string())
    file = files.add("a", key_table(held).append_column("v", values))
    store = open_store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "MANY_KEYS", 0 if by_scan else 1_000)
        patch.setattr(store_module, "ROWS_SCANNED_PER_KEY", 1_000)  # few keys are worth a scan
        patch.setattr(cached_file, "filter_hashes", hashes_alike)
        positions, rows = in_order(find(store, files, file, key_table(asked), ["v"]))
    assert store.stats().scans == by_scan
    expected = [(i, model[repr(key)]) for i, key in enumerate(asked) if repr(key) in model]
    assert positions == [i for i, _ in expected]
    assert rows["v"].to_pylist() == [values[row].as_py() for _, row in expected]
    store.close()


def test_files_out_of_order_are_scanned(store, files):
    table = numbers(1_000).take(pa.array(np.random.default_rng(0).permutation(1_000)))
    file = files.add("a", table)
    for _ in range(2):
        positions, rows = in_order(find(store, files, file, keys(4, 5, 8), ["v"]))
        assert (positions, rows["v"].to_pylist()) == ([0, 2], [20, 40])
    assert store.stats().files == 0


def test_a_copy_that_is_too_large_is_not_kept(open_store, files):
    store = open_store(max_disk_bytes=1_000)
    file = files.add("a", numbers(10_000))
    for _ in range(3):
        _, rows = find(store, files, file, keys(4), ["v"])
        assert rows["v"].to_pylist() == [20]
    assert store.stats().disk_bytes == 0
    assert store.stats().builds == 1


def test_the_least_recently_used_copies_go_first(open_store, files):
    small = open_store()
    find(small, files, files.add("x", numbers(10_000)), keys(4), ["v"])
    store = open_store(max_disk_bytes=int(2.5 * small.stats().disk_bytes))
    metas = {name: files.add(name, numbers(10_000)) for name in "abc"}
    for name in "abac":
        find(store, files, metas[name], keys(4), ["v"])
    assert store.stats().files == 2
    assert store.stats().evictions == 1
    files.reads = 0
    find(store, files, metas["a"], keys(4), ["v"])
    find(store, files, metas["c"], keys(4), ["v"])
    assert files.reads == 0


def test_copies_without_room_for_their_filter_still_answer(open_store, files):
    roomy = open_store()
    file = files.add("a", numbers(10_000))
    find(roomy, files, file, keys(4), ["v"])
    store = open_store(max_memory_bytes=roomy.stats().memory_bytes - 1)
    positions, rows = in_order(find(store, files, file, keys(4, 5, 19_998, 20_000), ["v"]))
    positions, rows = in_order(find(store, files, file, keys(4, 5, 19_998, 20_000), ["v"]))
    assert (positions, rows["v"].to_pylist()) == ([0, 2], [20, 99_990])
    stats = store.stats()
    assert (stats.files, stats.hits) == (1, 1)
    assert stats.memory_bytes < roomy.stats().memory_bytes


def test_memory_is_bounded_over_many_files(open_store, files):
    store = open_store(max_memory_bytes=20_000)
    for i in range(20):
        find(store, files, files.add(f"f{i}", numbers(1_000)), keys(4), ["v"])
        assert store.stats().memory_bytes <= 20_000
    assert store.stats().files > 0


def test_copies_not_used_expire(store, files, clock):
    old, new = files.add("old", numbers(10)), files.add("new", numbers(10))
    find(store, files, old, keys(4), ["v"])
    clock.now += 50_000
    find(store, files, new, keys(4), ["v"])
    clock.now += 20_000
    store.expire()
    assert store.stats().files == 1
    files.reads = 0
    find(store, files, new, keys(4), ["v"])
    assert files.reads == 0


def test_dropping_a_file_frees_its_disk(store, files, tmp_path):
    file = files.add("a", numbers(100_000))
    find(store, files, file, keys(4), ["v"])
    assert disk_use(tmp_path) > 1_000_000
    store.drop(["a", "unknown"])
    assert store.stats().disk_bytes == 0
    assert disk_use(tmp_path) < 1_000_000


def disk_use(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.sst"))


def damage(folder: Path) -> None:
    """Flip a bit in every thousandth byte of the copies."""
    for path in folder.rglob("*.sst"):
        content = bytearray(path.read_bytes())
        for i in range(500, len(content), 1_000):
            content[i] ^= 1
        path.write_bytes(content)


def truncate(folder: Path) -> None:
    for path in folder.rglob("*.sst"):
        path.write_bytes(path.read_bytes()[:1_000])


@pytest.mark.parametrize("harm", [damage, truncate])
def test_a_damaged_copy_is_never_read_wrongly(store, files, tmp_path, clock, caplog, harm):
    file = files.add("a", numbers(20_000))
    asked = keys(*range(0, 40_000, 10))
    find(store, files, file, asked, ["v"])
    harm(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            positions, rows = in_order(find(store, files, file, asked, ["v"]))
            assert positions == list(range(4_000))
            assert rows["v"].to_pylist() == list(range(0, 200_000, 50))
    assert store.stats().degraded == 2
    assert len(caplog.records) == 1
    clock.now += RETRY_MILLIS
    find(store, files, file, asked, ["v"])
    assert store.stats().files == 1


def test_a_lost_directory_degrades_and_heals(store, files, tmp_path, clock):
    first, second = files.add("a", numbers(20_000)), files.add("b", numbers(20_000))
    find(store, files, first, keys(4), ["v"])
    shutil.rmtree(tmp_path / "lookup")
    for file in (first, second):
        _, rows = find(store, files, file, keys(4), ["v"])
        assert rows["v"].to_pylist() == [20]
    clock.now += RETRY_MILLIS
    for file in (first, second):
        _, rows = find(store, files, file, keys(4), ["v"])
        assert rows["v"].to_pylist() == [20]
    assert store.stats().files == 2


def test_a_full_disk_degrades_and_is_left_alone_for_a_while(
    store, files, clock, monkeypatch, caplog
):
    class FullWriter:
        opened = 0

        def __init__(self, options):
            FullWriter.opened += 1

        def open(self, path):
            Path(path).write_bytes(b"")

        def __setitem__(self, key, value):
            raise Exception("IO error: No space left on device")

    monkeypatch.setattr(block_store, "SstFileWriter", FullWriter)
    file = files.add("a", numbers(1_000))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            _, rows = find(store, files, file, keys(4), ["v"])
            assert rows["v"].to_pylist() == [20]
    assert FullWriter.opened == 1
    assert store.stats().degraded == 3
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "No space left" in caplog.text
    monkeypatch.undo()
    clock.now += RETRY_MILLIS
    find(store, files, file, keys(4), ["v"])
    assert store.stats().files == 1


def test_a_directory_that_cannot_be_made_degrades(files, tmp_path, clock):
    store = diskless(tmp_path, clock)
    _, rows = find(store, files, files.add("a", numbers(10)), keys(4), ["v"])
    assert rows["v"].to_pylist() == [20]
    assert store.stats().degraded == 1


def test_an_unreadable_data_file_is_the_callers_to_know(store, files):
    file = files.add("a", numbers(10))

    class Broken(type(files)):
        def read(self, file, columns):
            raise RuntimeError("the data file is gone")
            yield

    with pytest.raises(RuntimeError, match="the data file is gone"):
        find(store, Broken(), file, keys(4), ["v"])
    _, rows = find(store, files, file, keys(4), ["v"])
    assert rows["v"].to_pylist() == [20]


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
    store = diskless(tmp_path, clock)
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
