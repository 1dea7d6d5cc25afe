"""Hashes: known digests, Spark's hashes, and a row's hash that never changes."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import QueryError
from pkray.relational.functions import function
from pkray.relational.functions.hashing.rows import column_hashes, row_hashes
from pkray.relational.plan.expressions import Expression
from tests.unit.relational.functions.evaluate import column, number, resolved, values


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (resolved("md5", column("STRING")), "902fbdd2b1df0c4f70b4a5d23525e932"),
        (resolved("sha", column("BYTES")), "3c01bdbb26f358bab27f267924aa2c9a03fcfdb8"),
        (
            resolved("sha2", column("STRING"), number(256)),
            "b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78",
        ),
        (
            resolved("sha256", column("STRING")),
            "b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78",
        ),
        (resolved("crc32", column("STRING")), 2743272264),
    ],
)
def test_digests(call: Expression, expected: Any) -> None:
    data = "ABC" if call.arguments[0].type.root == "STRING" else b"ABC"  # type: ignore[attr-defined]
    assert values(call, x=[data, None, data]) == [expected, None, expected]


def test_other_bits_of_sha2_are_refused() -> None:
    with pytest.raises(QueryError, match="not 255"):
        resolved("sha2", column("STRING"), number(255))


@pytest.mark.parametrize(
    ("kind", "value", "murmur", "xx"),
    [
        ("INT", 1, -559580957, -6698625589789238999),
        ("BIGINT", 1, -1712319331, -7001672635703045582),
        ("STRING", "Spark", 228093765, -4294468057691064905),
        ("STRING", None, 42, 42),
    ],
)
def test_hashes_are_sparks(kind: str, value: Any, murmur: int, xx: int) -> None:
    assert values(resolved("hash", column(kind)), x=[value]) == [murmur]
    assert values(resolved("xxhash64", column(kind)), x=[value]) == [xx]


def test_hashes_of_several_columns_follow_each_other() -> None:
    one = values(resolved("hash", column("STRING"), column("INT", "y")), x=["Spark"], y=[2])
    other = values(resolved("hash", column("INT", "y"), column("STRING")), x=["Spark"], y=[2])
    assert one != other
    rows = resolved("xxhash64", column("STRING"), column("STRING", "y"))
    assert len(set(values(rows, x=["a", "b", "a"], y=["b", "a", None]))) == 3


def test_hashes_of_nested_values_are_sparks() -> None:
    # SELECT hash('Spark', array(123), 2), xxhash64('Spark', array(123), 2) of Spark's manual.
    columns = column("STRING"), column("ARRAY<INT>", "y"), column("INT", "z")
    given = {"x": ["Spark"], "y": [[123]], "z": [2]}
    assert values(resolved("hash", *columns), **given) == [-1321691492]
    assert values(resolved("xxhash64", *columns), **given) == [5602566077635097486]
    row, plain = column("ROW<a INT, b STRING>"), (column("INT"), column("STRING", "y"))
    rows = [{"a": 1, "b": "x"}, None, {"a": None, "b": "x"}]
    flat = values(resolved("hash", *plain), x=[1, None, None], y=["x", None, "x"])
    assert values(resolved("hash", row), x=rows) == flat


def test_a_map_has_no_hash() -> None:
    with pytest.raises(QueryError, match="no order"):
        resolved("hash", column("ARRAY<MAP<INT, INT>>"))


def test_decimals_of_more_digits_than_python_keeps_hash_as_spark_does() -> None:
    wide = [Decimal("12345678901234567890.123456789012345678"), Decimal(-1), Decimal(128), None]
    hashes = values(resolved("hash", column("DECIMAL(38, 18)")), x=wide)
    assert hashes[0] == -1328266464
    assert hashes[3] == 42


COLUMNS = [
    pa.array([1, None, -1], pa.int64()),
    pa.array(["a", None, ""]),
    pa.array([1.5, math.nan, None]),
    pa.array([Decimal("1.00"), None, Decimal("-1.00")], pa.decimal128(38, 2)),
    pa.array([date(1969, 12, 31), None, date(2024, 2, 29)]),
    pa.array([datetime(1969, 12, 31), None, datetime(2024, 2, 29)], pa.timestamp("us", "UTC")),
    pa.array([True, None, False]),
    pa.array([[1, 2], None, []]),
    pa.array([{"a": 1}, None, {"a": None}]),
    pa.array([[("a", 1), ("b", 2)], None, []], pa.map_(pa.string(), pa.int64())),
]


def test_the_hash_of_a_row_never_changes() -> None:
    found = row_hashes(7, COLUMNS, 3).view(np.int64).tolist()
    assert found == [7022337955408115616, -1925476746269963050, -2191668223855971220]


@pytest.mark.parametrize("array", COLUMNS, ids=lambda array: str(array.type))
def test_values_are_told_apart_and_null_is_one(array: pa.Array) -> None:
    hashes = column_hashes(array)
    assert len(set(hashes.tolist())) == 3
    assert column_hashes(array.slice(1)).tolist() == hashes[1:].tolist()
    assert column_hashes(array.slice(0, 0)).tolist() == []


def test_equal_values_hash_alike() -> None:
    floats = column_hashes(pa.array([0.0, -0.0, math.nan, -math.nan]))
    assert floats[0] == floats[1]
    assert floats[2] == floats[3]
    pairs = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int64()))
    assert len(set(column_hashes(pairs).tolist())) == 1


def test_the_parts_of_a_sequence_count_by_their_place() -> None:
    words = pa.array(["ab", "ba", "a", "b", "", "aa", "aaa", "a\0", "\0a"])
    assert len(set(column_hashes(words).tolist())) == 9
    lists = pa.array([[1, 2], [2, 1], [[]][0], [0], [0, 0], [None]])
    assert len(set(column_hashes(lists).tolist())) == 6


def test_hashes_spread_evenly() -> None:
    numbers = row_hashes(1, [pa.array(range(20_000))], 20_000)
    words = row_hashes(2, [pa.array([f"k{n}" for n in range(20_000)])], 20_000)
    for hashes in (numbers, words):
        counts = np.bincount((hashes >> np.uint64(60)).astype(int), minlength=16)
        assert abs(counts - 1250).max() < 150
        assert len(set(hashes.tolist())) == 20_000


def test_row_hash_takes_a_constant_seed_and_is_never_null() -> None:
    call = resolved("row_hash", number(1), column("INT"), column("STRING", "y"))
    assert not call.type.nullable
    got = values(call, x=[1, None, 1], y=["a", None, "a"])
    assert got[0] == got[2] != got[1]
    other = resolved("row_hash", number(2), column("INT"), column("STRING", "y"))
    assert values(other, x=[1], y=["a"]) != got[:1]
    with pytest.raises(QueryError, match="the seed of row_hash must be a constant"):
        resolved("row_hash", column("INT"), column("INT"))
    assert function.function("row_hash").spark is function.NO_SPARK
