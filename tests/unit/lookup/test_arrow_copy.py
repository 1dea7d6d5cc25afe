"""Files that are read whole again and again are read from copies of plain columns."""

import pyarrow as pa
import pytest

from pkray.lookup import arrow_copy

ROWS = 5_000


@pytest.fixture
def file(files):
    keys = pa.array(range(ROWS), pa.int64())
    return files.add("f", pa.table({"k": keys, "v": pa.array(map(str, range(ROWS)))}))


def read(store, files, file, columns=("_SEQUENCE_NUMBER", "k", "v")):
    return pa.Table.from_batches(store.read(files, file, list(columns)))


def expected(files, columns=("_SEQUENCE_NUMBER", "k", "v")):
    return files.files["f"].select(list(columns))


def test_every_read_gives_the_files_rows(store, files, file):
    for _ in range(4):
        assert read(store, files, file).equals(expected(files))


def test_all_types_are_copied(store, files, every_type):
    typed = files.add("f", every_type)
    for _ in range(3):
        assert read(store, files, typed, every_type.column_names).equals(every_type)


def test_from_the_third_time_on_the_file_is_not_read(store, files, file):
    read(store, files, file)
    read(store, files, file)
    before = files.reads
    read(store, files, file, ["v"])
    assert files.reads == before


def test_a_column_that_the_copy_lacks_is_copied_too(store, files, file):
    for _ in range(3):
        read(store, files, file, ["k"])
    assert read(store, files, file).equals(expected(files))
    assert store.stats().files == 1


def test_wide_rows_come_in_small_chunks(store, files, monkeypatch):
    monkeypatch.setattr(arrow_copy, "CHUNK_BYTES", 1_000)
    wide = files.add("f", pa.table({"k": list(range(50)), "v": ["x" * 400] * 50}))
    for _ in range(2):
        read(store, files, wide)
    batches = list(store.read(files, wide, ["k", "v"]))
    assert max(batch.num_rows for batch in batches) <= 3
    assert pa.Table.from_batches(batches).equals(expected(files, ["k", "v"]))


def test_a_copy_beyond_the_disk_limit_is_not_kept(open_store, files, file):
    store = open_store(max_disk_bytes=1_000)
    for _ in range(3):
        assert read(store, files, file).equals(expected(files))
    assert store.stats().disk_bytes == 0


def test_copies_not_used_expire(store, files, file, clock):
    for _ in range(2):
        read(store, files, file)
    assert store.stats().disk_bytes > 0
    clock.now += 60_001
    store.expire()
    assert store.stats().disk_bytes == 0


def test_a_copy_damaged_in_mid_read_loses_and_doubles_nothing(
    store, files, file, tmp_path, monkeypatch
):
    monkeypatch.setattr(arrow_copy, "CHUNK_ROWS", 1_000)
    with (tmp_path / "copy").open("w+b") as copy:
        monkeypatch.setattr(arrow_copy, "TemporaryFile", lambda **_: copy)
        for _ in range(2):
            read(store, files, file)
        reading = store.read(files, file, ["_SEQUENCE_NUMBER", "k", "v"])
        batches = [next(reading)]
        copy.seek(-arrow_copy.SECTOR_BYTES, 2)
        copy.write(b"\x07" * arrow_copy.SECTOR_BYTES)
        copy.flush()
        batches += reading
    assert pa.Table.from_batches(batches).equals(expected(files))
    assert store.stats().degraded == 1
