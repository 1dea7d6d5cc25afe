"""Deletion vectors: bitmaps of row positions and the index files that hold them."""

import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format.deletion_vector import MAGIC_64, DeletionVector, read_index, write_index
from pkray.format.index_file import DeletionVectorRange

PATH = "index/index-u-0"
positions = st.sets(st.integers(0, 300) | st.integers(0, 2**31 - 1))


def of(*rows: int) -> DeletionVector:
    return DeletionVector.from_positions(np.array(rows, np.int64))


def one_file(vectors: dict[str, DeletionVector]) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    (written,) = write_index(vectors, 1 << 20)
    return written


@given(st.dictionaries(st.text("abc", min_size=1), positions, min_size=1, max_size=4))
def test_vectors_come_back_from_an_index_file(by_file: dict[str, set[int]]) -> None:
    vectors = {name: of(*rows) for name, rows in by_file.items()}
    data, ranges = one_file(vectors)
    assert read_index(data, ranges, PATH) == vectors
    found = {name: set(v.positions.tolist()) for name, v in vectors.items()}
    assert found == by_file


def test_an_index_file_has_the_bytes_of_the_java_core() -> None:
    # Version, size, magic number, a bitmap of one array container with 1 and 4, CRC32.
    body = "5e43f2d0" + "3a300000" + "01000000" + "00000100" + "10000000" + "01000400"
    checksum = zlib.crc32(bytes.fromhex(body))
    data, (where,) = one_file({"data-a-0.parquet": of(1, 4)})
    assert data.hex() == "01" + "00000018" + body + f"{checksum:08x}"
    assert where == DeletionVectorRange("data-a-0.parquet", 1, 24, 2)


def test_one_of_many_vectors_is_read_without_the_others() -> None:
    vectors = {name: of(number) for number, name in enumerate("abc")}
    data, ranges = one_file(vectors)
    damaged = bytearray(data)
    damaged[ranges[0].offset + 6] ^= 1
    assert read_index(bytes(damaged), ranges[1:2], PATH) == {"b": of(1)}


@given(st.data())
def test_a_flipped_bit_is_noticed(data: st.DataObject) -> None:
    written, ranges = one_file({"a": of(1, 70_000), "b": of(*range(5_000))})
    damaged = bytearray(written)
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptFileError, match=PATH):
        read_index(bytes(damaged), ranges, PATH)


@given(st.data())
def test_a_file_cut_short_is_noticed(data: st.DataObject) -> None:
    written, ranges = one_file({"a": of(1, 70_000), "b": of(2)})
    length = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(CorruptFileError, match=PATH) as raised:
        read_index(written[:length], ranges, PATH)
    assert raised.value.path == PATH


def test_a_count_that_differs_from_the_manifests_is_noticed() -> None:
    data, (where,) = one_file({"a": of(1, 2)})
    other = DeletionVectorRange(where.data_file, where.offset, where.length, 3)
    with pytest.raises(CorruptFileError, match="2 rows, not 3"):
        read_index(data, [other], PATH)


def framed(body: bytes) -> bytes:
    return b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("counted", [0, 8])
def test_vectors_of_64_bits_are_read(counted: int) -> None:
    rows = [0, 5, 70_000, 2**32 - 1]
    body = struct.pack("<i", MAGIC_64) + BitMap64(rows).serialize()
    where = DeletionVectorRange("a", 1, len(body) + counted, 4)
    assert read_index(framed(body), [where], PATH)["a"].positions.tolist() == rows


def test_rows_beyond_32_bits_are_refused() -> None:
    body = struct.pack("<i", MAGIC_64) + BitMap64([2**32]).serialize()
    with pytest.raises(UnsupportedError, match="4294967296"):
        read_index(framed(body), [DeletionVectorRange("a", 1, len(body))], PATH)


def test_unknown_bitmaps_are_refused() -> None:
    body = b"\0\1\2\3" + bytes(8)
    with pytest.raises(UnsupportedError, match="00010203"):
        read_index(framed(body), [DeletionVectorRange("a", 1, len(body))], PATH)


def test_a_file_that_has_the_target_size_gets_no_more_vectors() -> None:
    vectors = {name: of(*range(0, 40, 2)) for name in "abcd"}
    size = len(vectors["a"].to_bytes())
    files = list(write_index(vectors, 2 * size))
    assert [[each.data_file for each in ranges] for _, ranges in files] == [["a", "b"], ["c", "d"]]
    assert list(write_index({}, 1)) == []


@given(positions, st.integers(0, 300), st.integers(0, 300))
def test_within_counts_from_the_first_row_asked(rows: set[int], first: int, count: int) -> None:
    found = of(*rows).within(first, count).tolist()
    assert found == sorted(row - first for row in rows if first <= row < first + count)


@given(positions, st.lists(st.integers(0, 320)))
def test_contains_answers_in_the_order_asked(rows: set[int], asked: list[int]) -> None:
    found = of(*rows).contains(np.array(asked, np.int64)).tolist()
    assert found == [row in rows for row in asked]


@given(positions, positions)
def test_united_vectors_have_the_rows_of_both(one: set[int], other: set[int]) -> None:
    assert (of(*one) | of(*other)) == of(*(one | other))
    assert hash(of(*one) | of(*other)) == hash(of(*(one | other)))


def test_vectors_pickle() -> None:
    vector = of(3, 70_000)
    assert pickle.loads(pickle.dumps(vector)) == vector
