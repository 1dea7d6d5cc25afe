"""Rows encoded, hashed and decoded for every scalar type, against a reference of single values."""

import contextlib
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format import binary_row
from pkray.format.bucket import hash_rows
from pkray.schema.types import DataType
from tests.effort import examples
from tests.unit.format.row_reference import hash_of, row_of

PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    near_edges = st.sampled_from([0, 1, -1, 127, 128, -128, -129, 2**63, -(2**63) - 1, top, -top])
    unscaled = st.one_of(st.integers(-top, top), near_edges.filter(lambda n: abs(n) <= top))
    # Not by arithmetic, which would round to the context's 28 digits.
    return unscaled.map(lambda n: Decimal((int(n < 0), Decimal(abs(n)).as_tuple().digits, -scale)))


def moments(precision: int) -> st.SearchStrategy[tuple[int, int]]:
    step = 10 ** (9 - precision)
    nanos = st.integers(0, 10**precision - 1).map(lambda n: n * step)
    return st.tuples(st.integers(-9_000_000_000, 9_000_000_000), nanos)


TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INT": integers(32),
    "BIGINT": integers(64),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(5, 2)": decimals(5, 2),
    "DECIMAL(18, 0)": decimals(18, 0),
    "DECIMAL(19, 4)": decimals(19, 4),
    "DECIMAL(38, 10)": decimals(38, 10),
    "CHAR(3)": st.text(max_size=3),
    "VARCHAR(20)": st.text(max_size=20),
    "STRING": st.text(max_size=40),
    "BINARY(8)": st.binary(min_size=8, max_size=8),
    "VARBINARY(9)": st.binary(max_size=9),
    "BYTES": st.binary(max_size=40),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(0)": moments(0),
    "TIMESTAMP(3)": moments(3),
    "TIMESTAMP(6)": moments(6),
    "TIMESTAMP(9)": moments(9),
    "TIMESTAMP_LTZ(0)": moments(0),
    "TIMESTAMP_LTZ(6)": moments(6),
    "TIMESTAMP_LTZ(9)": moments(9),
}


def to_arrow(values: list[Any], kind: DataType) -> pa.Array:
    if not kind.root.startswith("TIMESTAMP"):
        return pa.array(values, kind.arrow)
    unit = PER_SECOND[kind.arrow.unit]
    ticks = [None if v is None else v[0] * unit + v[1] * unit // 10**9 for v in values]
    return pa.array(ticks, pa.int64()).view(kind.arrow)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], list[list[Any]]]:
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5))
    rows = draw(
        st.lists(st.tuples(*[st.none() | TYPES[name] for name in names]), min_size=1, max_size=8)
    )
    return [DataType.parse(name) for name in names], [list(row) for row in rows]


@given(tables())
@settings(max_examples=examples(40))
def test_rows_and_hashes_are_those_of_single_values(
    table: tuple[list[DataType], list[list[Any]]],
) -> None:
    kinds, rows = table
    columns = [to_arrow([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    expected = [row_of(row, kinds) for row in rows]
    arity = len(kinds).to_bytes(4, "big")
    assert binary_row.encode(columns, kinds, arity_prefix=False).to_pylist() == expected
    assert binary_row.encode(columns, kinds).to_pylist() == [arity + row for row in expected]
    assert hash_rows(columns, kinds).tolist() == [hash_of(row) for row in expected]


@given(tables(), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=examples(25))
def test_decoding_gives_the_columns_back(
    table: tuple[list[DataType], list[list[Any]]], skipped: int, cut: int
) -> None:
    kinds, rows = table
    columns = [
        to_arrow([row[i] for row in rows], kind).slice(skipped, max(len(rows) - skipped - cut, 0))
        for i, kind in enumerate(kinds)
    ]
    decoded = binary_row.decode(binary_row.encode(columns, kinds), kinds)
    assert [c.type for c in decoded] == [kind.arrow for kind in kinds]
    assert [c.to_pylist() for c in decoded] == [c.to_pylist() for c in columns]
    for column in decoded:
        column.validate(full=True)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_column_of_nulls(name: str) -> None:
    kind = DataType.parse(name)
    column = pa.nulls(3, kind.arrow)
    rows = binary_row.encode([column], [kind], arity_prefix=False).to_pylist()
    assert rows == [row_of([None], [kind])] * 3
    assert hash_rows([column], [kind]).tolist() == [hash_of(rows[0])] * 3
    assert binary_row.decode(binary_row.encode([column], [kind]), [kind]) == [column]


@pytest.mark.parametrize("arity", [55, 56, 57, 120, 121])
def test_null_bits_of_many_columns(arity: int) -> None:
    kinds = [DataType("INT")] * arity
    values = [None if i % 3 == 0 or i == arity - 1 else i for i in range(arity)]
    columns = [pa.array([value, i], pa.int32()) for i, value in enumerate(values)]
    rows = binary_row.encode(columns, kinds, arity_prefix=False).to_pylist()
    assert rows == [row_of(values, kinds), row_of(list(range(arity)), kinds)]
    assert binary_row.decode(binary_row.encode(columns, kinds), kinds) == columns


def test_chunked_columns_are_encoded_as_one() -> None:
    kind = DataType("STRING")
    column = pa.chunked_array([["a", "long enough"], [], [None, "é"]], pa.string())
    assert binary_row.encode([column], [kind]) == binary_row.encode(
        [column.combine_chunks()], [kind]
    )


@pytest.mark.parametrize("kind", [DataType("STRING"), DataType("BIGINT"), DataType("BOOLEAN")])
def test_no_rows(kind: DataType) -> None:
    nothing = pa.array([], kind.arrow)
    assert binary_row.encode([nothing], [kind]).to_pylist() == []
    assert binary_row.decode([], [kind]) == [nothing]
    assert hash_rows([nothing], [kind]).tolist() == []
    assert hash_rows([pa.chunked_array([], kind.arrow)], [kind]).tolist() == []


def test_values_of_very_different_lengths_hash_as_single_ones() -> None:
    kind = DataType("STRING")
    values = ["x" * n for n in (0, 7, 8, 9, 100, 5000, 16, 3)] * 5000
    expected = [hash_of(row_of([value], [kind])) for value in values[:8]]
    assert hash_rows([pa.array(values)], [kind]).tolist() == expected * 5000


def test_a_buffer_that_ends_with_its_last_value() -> None:
    kind = DataType("BYTES")
    data = pa.py_buffer(b"0123456789abcdefghijklm")
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (3, 13, 23)))
    column = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, data])
    expected = [row_of([value], [kind]) for value in (b"3456789abc", b"defghijklm")]
    assert binary_row.encode([column], [kind], arity_prefix=False).to_pylist() == expected


def test_dictionaries_and_wider_arrow_types_are_taken_too() -> None:
    kind = DataType("STRING")
    plain = pa.array(["a", "something long", None])
    expected = binary_row.encode([plain], [kind])
    for other in (plain.dictionary_encode(), plain.cast(pa.large_string())):
        assert binary_row.encode([other], [kind]) == expected


def test_nested_types_are_refused() -> None:
    kind = DataType("ARRAY", element=DataType("INT"))
    with pytest.raises(UnsupportedError, match="ARRAY<INT>"):
        binary_row.encode([pa.array([[1]], pa.list_(pa.int32()))], [kind])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"", "due"),
        (bytes(12), "bytes"),
        (b"\0\0\0\2" + bytes(24), "2 columns"),
        (b"\0\0\0\1" + bytes(8) + b"\x08\0\0\0\x10\0\0\0", "outside"),
        (b"\0\0\0\1" + bytes(8) + b"\x08\0\0\0\0\0\0\x70", "outside"),
        (b"\0\0\0\1" + bytes(8) + bytes(7) + b"\x8f", "inline"),
        (b"\0\0\0\1" + bytes(8) + b"\xff" + bytes(6) + b"\x81", "UTF-8"),
    ],
)
def test_a_damaged_row_is_reported(row: bytes, reason: str) -> None:
    with pytest.raises(CorruptFileError, match=reason):
        binary_row.decode([row], [DataType("STRING")])


def test_a_damaged_decimal_is_reported() -> None:
    kind = DataType.parse("DECIMAL(20, 2)")
    row = b"\0\0\0\1" + bytes(8) + b"\x11\0\0\0\x10\0\0\0" + bytes(16)
    with pytest.raises(CorruptFileError, match="1 to 16"):
        binary_row.decode([row], [kind])


@given(st.binary(max_size=60))
@settings(max_examples=examples(30))
def test_random_bytes_decode_or_are_reported(data: bytes) -> None:
    kinds = [DataType("STRING"), DataType.parse("DECIMAL(20, 2)"), DataType.parse("TIMESTAMP(6)")]
    with contextlib.suppress(CorruptFileError):
        binary_row.decode([b"\0\0\0\3" + data], kinds)


def test_dates_before_1970_and_the_epoch() -> None:
    kind = DataType("DATE")
    days = [date(1969, 12, 31), date(1970, 1, 1), date(1, 1, 1)]
    rows = binary_row.encode([pa.array(days)], [kind], arity_prefix=False).to_pylist()
    assert rows == [row_of([day], [kind]) for day in days]
