"""Hashes and rows against vectors recorded from Java."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import UnsupportedError
from pkray.format.binary_row import encode
from pkray.format.bucket import BLOCK_ROWS, assign_buckets, hash_rows
from pkray.schema.types import DataType
from tests.effort import examples
from tests.unit.format.row_reference import bucket_of, hash_of, row_of

VECTORS: dict[str, tuple[list[tuple[str, Any]], str, tuple[int, int, int]]] = {
    "BIGINT 1": ([("BIGINT", 1)], "00000000000000000100000000000000", (1465514398, 2, 5)),
    "BIGINT -1": ([("BIGINT", -1)], "0000000000000000ffffffffffffffff", (-821098432, 0, 0)),
    "INT -5": ([("INT", -5)], "0000000000000000fbffffff00000000", (-343067111, 3, 2)),
    "abc": ([("STRING", "abc")], "00000000000000006162630000000083", (-101922419, 3, 4)),
    "abcdefgh": (
        [("STRING", "abcdefgh")],
        "000000000000000008000000100000006162636465666768",
        (-843760178, 2, 2),
    ),
    "composite": (
        [("BIGINT", 7), ("STRING", "user-0000042")],
        "000000000000000007000000000000000c00000018000000757365722d3030303030343200000000",
        (1512738412, 0, 3),
    ),
    "TIMESTAMP(6)": (
        [("TIMESTAMP(6)", datetime(2023, 11, 14, 22, 13, 20, 123456))],
        "000000000000000040f50600100000007b68e5cf8b010000",
        (1196670069, 1, 0),
    ),
    "DECIMAL(20, 2)": (
        [("DECIMAL(20, 2)", Decimal("-12.34"))],
        "00000000000000000200000010000000fb2e0000000000000000000000000000",
        (809605724, 0, 4),
    ),
    "null": (
        [("INT", None), ("INT", 3)],
        "000100000000000000000000000000000300000000000000",
        (527241520, 0, 1),
    ),
}
"""Types and values of rows, their bytes, and their hashes with the bucket of 4 and of 7."""


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_from_java(name: str) -> None:
    row, hexed, (code, of_4, of_7) = VECTORS[name]
    kinds = [DataType.parse(kind) for kind, _ in row]
    columns = [pa.array([value], kind.arrow) for kind, (_, value) in zip(kinds, row, strict=True)]
    assert encode(columns, kinds, arity_prefix=False)[0].as_py().hex() == hexed
    assert hash_rows(columns, kinds).tolist() == [code]
    assert assign_buckets(columns, kinds, 4).tolist() == [of_4]
    assert assign_buckets(columns, kinds, 7).tolist() == [of_7]


@given(
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30),
    st.integers(1, 2**31 - 1),
)
@settings(max_examples=examples(25))
def test_buckets_are_the_absolute_truncated_remainder(
    keys: list[int | None], num_buckets: int
) -> None:
    kind = DataType("INT")
    columns = [pa.array(keys, pa.int32())]
    expected = [bucket_of(hash_of(row_of([key], [kind])), num_buckets) for key in keys]
    assert assign_buckets(columns, [kind], num_buckets).tolist() == expected


@pytest.mark.parametrize("kind", [DataType("INT"), DataType("BIGINT")])
def test_the_mod_function_is_the_floor_modulus(kind: DataType) -> None:
    keys = pa.array([0, 5, -1, -7, 2**31 - 1, -(2**31)], kind.arrow)
    assert assign_buckets([keys], [kind], 7, "mod").tolist() == [0, 5, 6, 0, 1, 5]


@pytest.mark.parametrize("types", [["STRING"], ["BIGINT", "BIGINT"], ["SMALLINT"]])
def test_the_mod_function_takes_one_int_or_bigint(types: list[str]) -> None:
    kinds = [DataType(name) for name in types]
    columns = [pa.nulls(1, kind.arrow) for kind in kinds]
    with pytest.raises(UnsupportedError, match="one INT or BIGINT") as caught:
        assign_buckets(columns, kinds, 4, "mod")
    assert caught.value.option == "bucket-function.type"


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'hive'"):
        assign_buckets([pa.array([1])], [DataType("BIGINT")], 4, "hive")


def test_blocks_are_hashed_like_single_rows() -> None:
    kinds = [DataType("BIGINT"), DataType("STRING")]
    count = 2 * BLOCK_ROWS + 3
    numbers = np.arange(count)
    columns = [pa.array(numbers), pa.array([f"name-{i % 13}" * (i % 3) for i in range(count)])]
    whole = hash_rows(columns, kinds)
    for i in (0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, count - 1):
        values = [column[i].as_py() for column in columns]
        assert whole[i] == hash_of(row_of(values, kinds))
