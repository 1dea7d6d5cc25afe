"""Hashes and rows against vectors recorded from Java."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import UnsupportedError
from pkray.format.binary_row import encode
from pkray.format.bucket import assign_buckets, hash_rows
from pkray.types import DataType

VECTORS = [
    ("BIGINT 1", ["BIGINT"], [1], "00000000000000000100000000000000", 1465514398, 2, 5),
    ("BIGINT -1", ["BIGINT"], [-1], "0000000000000000ffffffffffffffff", -821098432, 0, 0),
    ("INT -5", ["INT"], [-5], "0000000000000000fbffffff00000000", -343067111, 3, 2),
    ("abc", ["STRING"], ["abc"], "00000000000000006162630000000083", -101922419, 3, 4),
    (
        "abcdefgh",
        ["STRING"],
        ["abcdefgh"],
        "000000000000000008000000100000006162636465666768",
        -843760178,
        2,
        2,
    ),
    (
        "composite",
        ["BIGINT", "STRING"],
        [7, "user-0000042"],
        "000000000000000007000000000000000c00000018000000757365722d3030303030343200000000",
        1512738412,
        0,
        3,
    ),
    (
        "TIMESTAMP(6)",
        ["TIMESTAMP(6)"],
        [datetime(2023, 11, 14, 22, 13, 20, 123456)],
        "000000000000000040f50600100000007b68e5cf8b010000",
        1196670069,
        1,
        0,
    ),
    (
        "DECIMAL(20, 2)",
        ["DECIMAL(20, 2)"],
        [Decimal("-12.34")],
        "00000000000000000200000010000000fb2e0000000000000000000000000000",
        809605724,
        0,
        4,
    ),
    (
        "null",
        ["INT", "INT"],
        [None, 3],
        "000100000000000000000000000000000300000000000000",
        527241520,
        0,
        1,
    ),
]


def columns_of(types: list[str], *rows: list[Any]) -> tuple[list[pa.Array], list[DataType]]:
    kinds = [DataType.parse(text) for text in types]
    return [pa.array(list(c), k.arrow) for c, k in zip(zip(*rows), kinds, strict=True)], kinds


@pytest.mark.parametrize(("name", "types", "row", "hexed", "code", "of_4", "of_7"), VECTORS)
def test_vectors_from_java(
    name: str, types: list[str], row: list[Any], hexed: str, code: int, of_4: int, of_7: int
) -> None:
    columns, kinds = columns_of(types, row)
    assert encode(columns, kinds, arity_prefix=False)[0].as_py().hex() == hexed
    assert hash_rows(columns, kinds).tolist() == [code]
    assert assign_buckets(columns, kinds, 4).tolist() == [of_4]
    assert assign_buckets(columns, kinds, 7).tolist() == [of_7]
