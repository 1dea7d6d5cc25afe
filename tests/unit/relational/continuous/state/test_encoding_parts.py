"""Columns are cut out of encoded rows as they were encoded."""

import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pkray.relational.continuous.state import encoding
from tests.effort import examples

MAKERS: dict[pa.DataType, Any] = {
    pa.int32(): lambda rng: rng.randint(-5, 5),
    pa.int8(): lambda rng: 0,
    pa.float64(): lambda rng: rng.choice([0.0, -0.0, float("nan"), 1.5]),
    pa.bool_(): lambda rng: rng.random() < 0.5,
    pa.decimal128(10, 2): lambda rng: Decimal(rng.randint(-999, 999)) / 100,
    pa.timestamp("us"): lambda rng: datetime(2020, 1, rng.randint(1, 9)),
    pa.string(): lambda rng: rng.choice(["", "a", "\0", "\0\0", "a\0b\0"]),
    pa.binary(): lambda rng: rng.choice([b"", b"\xff", b"\0\xff", b"\0"]),
    pa.list_(pa.string()): lambda rng: [
        rng.choice(["", "\0", None]) for _ in range(rng.randint(0, 3))
    ],
    pa.map_(pa.string(), pa.int32()): lambda rng: (
        [("k\0", rng.choice([None, 0]))] * rng.randint(0, 2)
    ),
    pa.struct([("a", pa.string()), ("b", pa.int16())]): lambda rng: {"a": "\0", "b": None},
    pa.null(): lambda rng: None,
}


@pytest.mark.parametrize("seed", range(examples(20)))
@pytest.mark.parametrize(
    ("encoded", "parts"),
    [(encoding.encoded, encoding.parts), (encoding.identified, encoding.parts_of_identified)],
    ids=["encoded", "identified"],
)
def test_some_columns_of_a_row(encoded: Any, parts: Any, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(MAKERS), k=rng.randint(1, 5))
    columns = [
        pa.array([None if rng.random() < 0.2 else MAKERS[kind](rng) for _ in range(30)], kind)
        for kind in kinds
    ]
    places = rng.sample(range(len(kinds)), rng.randint(0, len(kinds)))
    wanted = encoding.encoded([columns[place] for place in places], 30)
    assert parts(encoded(columns), kinds, places).equals(wanted)


def test_keys_within_keys_are_found_again() -> None:
    keys = pa.array([b"", b"\0", b"\0\0", b"\0\xff", b"a\0\xffb"], pa.binary())
    whole = encoding.encoded([keys, pa.array(range(5))])
    assert encoding.texts_of(encoding.parts(whole, [pa.binary()], [0])).equals(keys)


def test_of_no_rows_there_are_no_parts() -> None:
    assert not len(encoding.parts(pa.array([], pa.binary()), [pa.string(), pa.int32()], [1]))
