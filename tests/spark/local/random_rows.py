"""10,000 random rows with a column of every type, many NULLs, and the extremes of each type."""

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

ROWS = 10_000
_WORDS = [
    "",
    " ",
    "a",
    "ab",
    "abc",
    "B",
    "ba",
    "A b",
    "é",
    "ß",
    "日本",
    "🙂a",
    "a%b",
    "  a ",
    "x\ny",
]
_NUMBERS = ["0", "-1", "12", "3.5", " 7 ", "+4", "0.1", "-0.0", "127", "1000", "00012"]
_DATES = ["2020-02-29", "1969-12-31", "1582-10-15", "0001-01-01", "9999-12-31", "1970-01-01"]
_TIMES = ["2021-03-14 02:30:00", "2021-11-07 01:30:00", "2020-02-29 23:59:59.999999"]
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.5, 1e300, 1e-300, 0.1, 123456.789]
_WIDE = ["0", "0.000001", "-9999999999999999999999.999999", "12345678901234567.5"]


def random_rows(seed: int, rows: int = ROWS) -> pa.Table:
    """Make the rows.

    Columns named by a type reach its extremes; the others have values of which sums, products and
    casts fit: ``n`` and ``k`` whole numbers, ``p`` months 1 to 12, ``x`` fractions, ``nz``, ``xz``
    and ``mz`` never zero, ``dt1``, ``ts1`` and ``tz1`` times of two centuries, ``num``, ``dts``,
    ``tss`` and ``js`` texts that hold numbers, dates, times and JSON.
    """
    random = Random(seed)
    pick, below, chance = random.choice, random.randrange, random.random

    def column(kind: pa.DataType, value: Callable[[], Any], nulls: float = 0.25) -> pa.Array:
        return pa.array([None if chance() < nulls else value() for _ in range(rows)], kind)

    def integer(bits: int) -> Callable[[], int]:
        top = 2 ** (bits - 1)
        edges = [0, 1, -1, top - 1, -top]
        return lambda: pick(edges) if chance() < 0.3 else below(-top, top)

    def day(first: int, last: int) -> date:
        return date.fromordinal(
            below(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal())
        )

    def any_day() -> date:
        return date.fromisoformat(pick(_DATES)) if chance() < 0.2 else day(1, 9999)

    def moment(of: date) -> datetime:
        micros = below(86_400_000_000) // pick([1, 1000, 1_000_000])
        return datetime(of.year, of.month, of.day) + timedelta(microseconds=micros)

    def time() -> datetime:
        if chance() < 0.1:
            return datetime.fromisoformat(pick(_TIMES))
        return moment(any_day())

    def fraction() -> float:
        return pick([0.0, 0.5, 1.5, 2.5, -0.5, -1.25, below(-10_000, 10_000) / 100])

    def text() -> str:
        return (
            pick(_WORDS) if chance() < 0.6 else "".join(pick("abcAB é%_") for _ in range(below(8)))
        )

    def some(value: Callable[[], Any], nulls: float = 0.2) -> list[Any]:
        return [None if chance() < nulls else value() for _ in range(below(5))]

    def pairs() -> list[tuple[str, Any]]:
        keys = random.sample(["a", "b", "ab", "é", ""], below(4))
        return [(key, None if chance() < 0.2 else below(-9, 9)) for key in keys]

    def written() -> str:
        value = {
            "a": pick([1, -5, None, "x", 2.5, True]),
            "b": pick(["q", "", None, 'say "é"', 7]),
            "c": [below(9) for _ in range(below(3))],
            "d": {"e": pick(["deep", None])},
        }
        kept = {key: each for key, each in value.items() if chance() < 0.7}
        return pick([json.dumps(kept), json.dumps(kept, ensure_ascii=False), "[1, 2]", "", "{bad"])

    def whole(scale: int, top: int) -> Decimal:
        return Decimal(pick([0, 1, -1, top, -top, below(-top, top), below(-999, 999)])).scaleb(
            -scale
        )

    return pa.table(
        {
            "b": column(pa.bool_(), lambda: chance() < 0.5),
            "i8": column(pa.int8(), lambda: below(-60, 60)),
            "i16": column(pa.int16(), lambda: below(-30_000, 30_000)),
            "i32": column(pa.int32(), integer(32)),
            "i64": column(pa.int64(), integer(64)),
            "f": column(pa.float32(), lambda: pick([*_FLOATS[:7], 3.4e38, 1e-40, 0.1, 16777216.0])),
            "f1": column(pa.float32(), fraction),
            "d": column(pa.float64(), lambda: pick(_FLOATS)),
            "m": column(pa.decimal128(10, 2), lambda: whole(2, 10**10 - 1)),
            "m1": column(pa.decimal128(4, 1), lambda: whole(1, 999)),
            "w": column(
                pa.decimal128(38, 6),
                lambda: Decimal(pick(_WIDE)) if chance() < 0.5 else whole(6, 10**20),
            ),
            "s": column(pa.string(), text),
            "t": column(pa.string(), lambda: pick(["a", "b", "ab", "", "é", "B", " "])),
            "bin": column(pa.binary(), lambda: random.randbytes(below(6))),
            "dt": column(pa.date32(), any_day),
            "ts": column(pa.timestamp("us"), time),
            "tz": column(pa.timestamp("us", "UTC"), lambda: time().replace(tzinfo=UTC)),
            "n": column(pa.int32(), lambda: below(-20, 20)),
            "k": column(pa.int64(), lambda: below(-100_000, 100_000)),
            "p": column(pa.int32(), lambda: below(1, 13), nulls=0.0),
            "x": column(pa.float64(), fraction),
            "z": column(pa.float64(), lambda: pick([0.0, -0.0, 1.0])),
            "nz": column(pa.int32(), lambda: pick([1, -1, 2, 3, -7, 100])),
            "xz": column(pa.float64(), lambda: pick([0.5, -3.0, 7.25])),
            "mz": column(pa.decimal128(6, 3), lambda: Decimal(pick(["0.001", "-3.000", "7.5"]))),
            "dt1": column(pa.date32(), lambda: day(1900, 2100)),
            "ts1": column(pa.timestamp("us"), lambda: moment(day(1900, 2100))),
            "tz1": column(
                pa.timestamp("us", "UTC"), lambda: moment(day(1900, 2100)).replace(tzinfo=UTC)
            ),
            "num": column(pa.string(), lambda: pick(_NUMBERS)),
            "dts": column(pa.string(), lambda: pick(_DATES)),
            "tss": column(pa.string(), lambda: pick(_TIMES)),
            "js": column(pa.string(), written),
            "ints": column(pa.list_(pa.int32()), lambda: some(lambda: below(-3, 9))),
            "doubles": column(pa.list_(pa.float64()), lambda: some(lambda: pick(_FLOATS[:7]))),
            "texts": column(pa.list_(pa.string()), lambda: some(lambda: pick(_WORDS[:9]))),
            "texts3": column(
                pa.list_(pa.string()), lambda: [pick(_WORDS) for _ in range(3)], nulls=0.1
            ),
            "nested": column(
                pa.list_(pa.list_(pa.int32())), lambda: some(lambda: some(lambda: below(3)))
            ),
            "pairs": column(pa.map_(pa.string(), pa.int32()), pairs),
            "named": column(
                pa.struct({"a": pa.int32(), "b": pa.string()}),
                lambda: {"a": pick([None, 1, 2]), "b": pick([None, "a", "q"])},
            ),
        }
    )
