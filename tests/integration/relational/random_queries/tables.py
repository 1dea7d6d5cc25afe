"""Small random tables with a column of every kind, NULLs and equal values."""

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

WORDS = ("", "a", "ab", "aab", "ba", "B", "b a", "a,b", "a%b", "x1", "12", "-3", "é", "日本")
TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "dec": pa.decimal128(12, 2),
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "ts": pa.timestamp("us"),
    "ints": pa.list_(pa.int32()),
    "texts": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.int32()),
    "row": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
"""Kinds of columns that tables hold."""

COLUMNS = {
    "r": ("int", "int", "long", "double", "text", "ints", "map", "date"),
    "s": ("int", "text", "text", "dec", "bool", "texts", "row", "ts"),
    "u": ("long", "int", "dec", "date", "ts", "double"),
}
"""Tables, and the kinds of their columns, which are called by their places: ``r0``, ``r1`` …"""

SPREAD = 6
"""Whole numbers lie this far from zero in small tables, so that many are equal."""


def fields_of(table: str) -> dict[str, str]:
    """Name the columns of a table, with their kinds."""
    return {f"{table}{place}": kind for place, kind in enumerate(COLUMNS[table])}


def random_tables(random: Random, rows: int, spread: int = SPREAD) -> dict[str, pa.Table]:
    """Make the tables; floats are multiples of a quarter, so that sums are exact.

    Args:
        rows: most rows of each.
        spread: how far whole numbers lie from zero.
    """
    made = {}
    for table in COLUMNS:
        count = random.choice((0, 1, rows // 2, rows, rows))
        made[table] = pa.table(
            {
                name: pa.array([_value(random, kind, spread) for _ in range(count)], TYPES[kind])
                for name, kind in fields_of(table).items()
            }
        )
    return made


def _value(random: Random, kind: str, spread: int) -> Any:
    if random.random() < 0.15:
        return None
    return _MAKERS[kind](random, spread)


def _number(random: Random, spread: int) -> int:
    return random.randint(-spread, spread)


def _double(random: Random, spread: int) -> float:
    chance = random.random()
    if chance < 0.04:
        return math.nan
    return math.inf if chance < 0.06 else _number(random, 4 * spread) / 4


def _pairs(random: Random, spread: int) -> list[tuple[str, Any]]:
    keys = random.sample(WORDS[:5], random.randint(0, 3))
    return [(key, _value(random, "int", spread)) for key in keys]


_MAKERS: dict[str, Callable[[Random, int], Any]] = {
    "int": _number,
    "long": _number,
    "double": _double,
    "dec": lambda random, spread: Decimal(_number(random, 40 * spread)) / 4,
    "text": lambda random, spread: random.choice(WORDS) if spread < 99 else f"w{random.random()}",
    "bool": lambda random, spread: random.random() < 0.5,
    "date": lambda random, spread: date(2024, 2, 28) + timedelta(_number(random, spread)),
    "ts": lambda random, spread: (
        datetime(2024, 2, 29, 23) + timedelta(minutes=37 * _number(random, spread))
    ),
    "ints": lambda random, spread: [
        _value(random, "int", spread) for _ in range(random.randint(0, 4))
    ],
    "texts": lambda random, spread: [
        _value(random, "text", spread) for _ in range(random.randint(0, 3))
    ],
    "map": _pairs,
    "row": lambda random, spread: {
        "a": _value(random, "int", spread),
        "b": _value(random, "text", spread),
    },
}
