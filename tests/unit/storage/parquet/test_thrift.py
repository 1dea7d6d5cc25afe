import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pkray.storage.parquet import thrift
from pkray.storage.parquet.thrift import BINARY, BYTE, DOUBLE, FALSE, I32, I64, LIST, STRUCT, TRUE

VALUES = {
    "nothing": {},
    "numbers": {1: (I32, 0), 2: (I64, 2**63 - 1), 3: (I64, -(2**63)), 4: (4, -1), 5: (BYTE, 200)},
    "booleans": {1: (TRUE, True), 2: (FALSE, False)},
    "far fields": {1: (I32, 1), 16: (I32, 2), 32: (I32, 3), 3000: (I32, 4)},
    "text": {1: (BINARY, b""), 2: (BINARY, b"x" * 300)},
    "doubles": {7: (DOUBLE, -1.5)},
    "a list": {1: (LIST, (I32, [1, -2, 3]))},
    "a long list": {1: (LIST, (BINARY, [b"%d" % n for n in range(200)]))},
    "booleans in a list": {1: (LIST, (TRUE, [1, 2, 1]))},
    "structures": {1: (STRUCT, {2: (STRUCT, {})}), 2: (LIST, (STRUCT, [{}, {1: (I32, 5)}]))},
}


@pytest.mark.parametrize("name", VALUES)
def test_a_structure_comes_back(name):
    assert thrift.decode(thrift.encode(VALUES[name])) == VALUES[name]


def test_a_footer_is_written_as_it_was():
    out = pa.BufferOutputStream()
    names = [f"column {n}" for n in range(40)]
    rows = pa.table({name: [1.5, None, 2.5] for name in names} | {"l": [["a"], [], None]})
    pq.write_table(rows, out, row_group_size=1, sorting_columns=[pq.SortingColumn(0)])
    file = out.getvalue().to_pybytes()
    footer = file[-int.from_bytes(file[-8:-4], "little") - 8 : -8]
    assert thrift.encode(thrift.decode(footer)) == footer


def test_numbers_take_the_bytes_of_the_specification():
    assert thrift.encode({1: (I32, -1), 2: (I64, 300)}) == bytes([0x15, 1, 0x16, 0xD8, 4, 0])


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x18\x05ab", b"\x17\x00", b"\x1c\x15\x02"])
def test_a_structure_cut_short_is_refused(data):
    with pytest.raises(ValueError, match="bytes hold no whole structure"):
        thrift.decode(data)


def test_what_follows_a_structure_is_refused():
    with pytest.raises(ValueError, match="ends at byte 1 of 2"):
        thrift.decode(b"\x00\x00")


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="unknown type 11"):
        thrift.decode(b"\x1b\x00")
