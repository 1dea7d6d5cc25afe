import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError
from pkray.options import TableOptions
from pkray.storage.block_checksums import (
    BLOCK_BYTES,
    KEY,
    SMALL_BYTES,
    BlockChecksums,
    BlockHasher,
    checked,
)
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter, read_batches, read_metadata

SIZES = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, SMALL_BYTES, SMALL_BYTES + 17]
LARGE = SMALL_BYTES + BLOCK_BYTES + 5


def random_bytes(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


def checksums(data: bytes, piece: int = 1 << 20) -> str:
    hasher = BlockHasher()
    for start in range(0, len(data), piece):
        hasher.update(data[start : start + piece])
    return hasher.text()


def open_checked(data: bytes, text: str) -> pa.NativeFile:
    return checked(pa.BufferReader(data), BlockChecksums.parse(text))


@pytest.mark.parametrize("size", SIZES)
def test_what_comes_in_pieces_has_the_checksums_of_the_whole(size):
    data = random_bytes(size)
    assert checksums(data, 1000) == checksums(data) == checksums(data, BLOCK_BYTES)


@pytest.mark.parametrize("size", SIZES)
def test_what_is_as_written_is_read(size):
    data = random_bytes(size) + b"behind"
    file = open_checked(data, checksums(data[:size]))
    assert file.read() == data
    for start, count in [(0, 1), (size // 2, 100), (size, 3), (max(0, size - 5), 11)]:
        assert file.read_at(count, start) == data[start : start + count]


@pytest.mark.parametrize("place", [0, BLOCK_BYTES - 1, BLOCK_BYTES, LARGE - 1])
def test_a_changed_bit_is_found_by_who_reads_its_block(place):
    data = bytearray(random_bytes(LARGE))
    text = checksums(bytes(data))
    data[place] ^= 16
    file = open_checked(bytes(data), text)
    block = place // BLOCK_BYTES * BLOCK_BYTES
    with pytest.raises(pa.ArrowInvalid, match=f"bytes from {block} on"):
        file.read_at(1, block)
    assert file.read_at(9, BLOCK_BYTES if block != BLOCK_BYTES else 0)


@pytest.mark.parametrize("place", [0, BLOCK_BYTES - 1, BLOCK_BYTES, SMALL_BYTES - 1])
def test_a_changed_bit_of_a_small_file_is_found_as_it_is_opened(place):
    data = bytearray(random_bytes(SMALL_BYTES))
    text = checksums(bytes(data))
    data[place] ^= 1
    with pytest.raises(pa.ArrowInvalid, match=f"bytes from {place // BLOCK_BYTES * BLOCK_BYTES}"):
        open_checked(bytes(data), text)


def test_a_file_cut_short_is_found():
    data = random_bytes(LARGE)
    file = open_checked(data[: SMALL_BYTES + 9], checksums(data))
    with pytest.raises(pa.ArrowInvalid, match=f"bytes from {SMALL_BYTES} on"):
        file.read()


@pytest.mark.parametrize("text", ["", "5", "x:", "5:AAAA", "5:****", "70000:AAAAAA=="])
def test_checksums_that_do_not_fit_are_refused(text):
    with pytest.raises(ValueError):
        BlockChecksums.parse(text)


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path) -> ObjectStore:
    if request.param == "local":
        return open_store(tmp_path)
    return open_store(f"memory://{tmp_path.name}")


def written(store: ObjectStore, rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    table = pa.table({"a": random.integers(0, 1 << 60, rows), "b": random.random(rows)})
    with ParquetWriter(store, "f", table.schema, TableOptions.parse({})) as writer:
        writer.write(table)
    return table


def test_a_file_holds_the_checksums_of_its_data(store):
    table = written(store, 300_000)
    found = read_metadata(store, "f").metadata[KEY.encode()].decode()
    size = int(found.partition(":")[0])
    assert size > table.nbytes
    assert found == checksums(store.read("f")[:size])


@pytest.mark.parametrize("buffered", [False, True])
def test_a_damaged_block_of_a_file_is_named(store, buffered, monkeypatch):
    table = written(store, 300_000)
    if buffered:
        monkeypatch.setattr("pkray.storage.parquet.reader.CHUNKS_BYTES", 0)
    assert pa.Table.from_batches(read_batches(store, "f")).equals(table)
    data = bytearray(store.read("f"))
    for place in (100, len(data) // 2, len(data) - 20_000):
        damaged = bytearray(data)
        damaged[place] ^= 1
        store.write("f", bytes(damaged))
        with pytest.raises(CorruptFileError, match=r"f.*checksum of its bytes from"):
            list(read_batches(store, "f"))
