"""A column of each type with the 32 values at its boundaries, and the same in other orders."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext
from typing import Any

import pyarrow as pa

VALUES = 32
BLOCKS = 4
"""How often each value stands in a column: beside itself, its successor and two others."""
ROLES = 3


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    edges = [top - 1, -top, top - 2, 1 - top, top // 2, -top // 2, top // 2 - 1]
    return [0, 1, -1, 2, -2, 3, 5, 7, -7, 9, 10, -10, 12, 31, 32, 33, 60, 64, 65, 100, 127, *edges]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    unit = Decimal(1).scaleb(-scale)
    with localcontext(Context(prec=76)):
        top = Decimal(10**precision - 1) * unit
        half = Decimal("0.5") if scale else Decimal(5)
        near = Decimal(1) - unit if scale else Decimal(99)
        values = [Decimal(each) for each in (0, 1, -1, 2, -2, 3, 7, 10, -10, 64, 100, -128, 12345)]
        values += [top, -top, top - unit, unit, -unit, near, -near, 1 + unit, half, -half, 1 + half]
        if precision == 38:
            middle = Decimal("12345678901234567890.1234567890123456789")
            seconds = Decimal(253402300800)
            values += [middle, -middle, top / 2, Decimal(2**31), Decimal(2**63), seconds]
            values.append(Decimal(-(2**63) - 1))
        return [Decimal(each).quantize(unit) for each in values]


_DOUBLES = [
    0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.7976931348623157e308,
    -1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0,
    0.9999999999999999, 1e15, 9007199254740993.0, 1e17, 2147483647.0, 2147483648.5,
    9.223372036854775e18, -9.223372036854776e18, 1e19, 1e-7, 123456.789, -0.001,
]  # fmt: skip
_FLOATS = [
    0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-45, -1e-45, 3.4028235e38,
    -3.4028235e38, 1.1754944e-38, 0.1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, 0.99999994, 1e15,
    16777216.0, 1e7, 2147483647.0, 2147483904.0, 9.223372e18, -9.223372e18, 1e19, 1e-7, 123456.79,
    -0.001,
]  # fmt: skip
_TEXTS = [
    "", " ", "a", "b", "A", "ab", "aB", "abc", "a,b", ",", "a b  c", "  a  ", "\t\n", "a%b_c",
    "é", "e\u0301", "ß", "日本", "🙂", "a🙂b", "\U000f0000", "İ", "ﬃ", "\x00", "'", '"', "\\",
    "a=b:c,d", "x" * 40, "null", "{}",
]  # fmt: skip
_WRITTEN = [
    "0", "-0", "1", "-1", "+7", " 12 ", "127", "128", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "0.5", "-0.0", "1.5", "0.999999999999999999",
    "1e3", "1E-400", "NaN", "-Infinity", "true", "f", "1970", "1970-01-01", "2020-02-29",
    "0001-01-01", "9999-12-31", "1582-10-10", "2021-03-14 02:30:00.123456",
    "12345678901234567890123456789012345678",
]  # fmt: skip
_BINARIES = [
    b"", b" ", b"a", b"b", b"A", b"ab", b"abc", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff",
    b"\x7f", b"\x80", b"\xc3\xa9", b"\xc3", b"\xe6\x97\xa5", b"\xf0\x9f\x99\x82", b"\xf0\x9f",
    b"a\x00b", b"1", b"12", b"-1", b"0", b"  a ", b"a,b", bytes(range(16)), b"x" * 40,
    b"\xed\xa0\x80", b"true", b"\\", b"%41",
]  # fmt: skip
_DATES = [
    "0001-01-01", "0001-12-31", "0004-02-29", "0100-03-01", "1000-01-01", "1582-10-04",
    "1582-10-05", "1582-10-14", "1582-10-15", "1600-02-29", "1883-11-18", "1900-01-01",
    "1900-02-28", "1969-12-31", "1970-01-01", "1970-01-02", "1999-12-31", "2000-01-01",
    "2000-02-29", "2004-12-27", "2008-12-29", "2019-12-30", "2020-01-31", "2020-02-29",
    "2021-01-03", "2024-03-31", "2024-11-03", "2038-01-19", "2100-02-28", "9999-01-01",
    "9999-12-31",
]  # fmt: skip
_CLOCKS = [
    "00:00:00", "00:00:00.000001", "12:34:56.789012", "23:59:59.999999", "23:59:59", "01:30:00",
    "02:30:00", "00:00:00.1", "11:59:59.999",
]  # fmt: skip


def _moments() -> list[datetime]:
    texts = [f"{day} {_CLOCKS[place % 9]}" for place, day in enumerate(_DATES)]
    return [datetime.fromisoformat(text) for text in texts]


def _parts(values: Sequence[Any], size: int = 3) -> list[list[Any]]:
    """Make lists: empty, of NULL, of one value, of equal ones, and of values side by side."""
    first = values[0]
    made = [[], [None], [first], [first, first], [None, first, None], [first, None, values[1]]]
    count = VALUES - 1 - len(made)
    return made + [
        [values[(place * 5 + each * 7) % len(values)] for each in range(1 + place % size)]
        for place in range(count)
    ]


def _entries(keys: Sequence[Any], values: Sequence[Any]) -> list[list[tuple[Any, Any]]]:
    made = [[], [(keys[0], None)], [(keys[0], values[0]), (keys[1], None)]]
    count = VALUES - 1 - len(made)
    return made + [
        [
            (keys[(place + each) % len(keys)], values[(place * 3 + each) % len(values)])
            for each in range(1 + place % 3)
        ]
        for place in range(count)
    ]


_MOMENTS = _moments()
_KINDS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [n for n in _integers(8) if -129 < n < 128]),
    "i16": (pa.int16(), _integers(16)),
    "i32": (pa.int32(), _integers(32)),
    "i64": (pa.int64(), _integers(64)),
    "f": (pa.float32(), _FLOATS),
    "d": (pa.float64(), _DOUBLES),
    "m": (pa.decimal128(10, 2), _decimals(10, 2)),
    "w": (pa.decimal128(38, 18), _decimals(38, 18)),
    "h": (pa.decimal128(38, 0), _decimals(38, 0)),
    "s": (pa.string(), _TEXTS),
    "u": (pa.string(), _WRITTEN),
    "bin": (pa.binary(), _BINARIES),
    "dt": (pa.date32(), [date.fromisoformat(each) for each in _DATES]),
    "ts": (pa.timestamp("us"), _MOMENTS),
    "tz": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=UTC) for each in _MOMENTS]),
    "ints": (pa.list_(pa.int32()), _parts(_integers(32))),
    "doubles": (pa.list_(pa.float64()), _parts(_DOUBLES)),
    "texts": (pa.list_(pa.string()), _parts(_TEXTS)),
    "nested": (pa.list_(pa.list_(pa.int32())), _parts(_parts(_integers(32))[:9])),
    "pairs": (pa.map_(pa.string(), pa.int32()), _entries(_TEXTS, _integers(32))),
    "named": (
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        [
            {"a": a, "b": b}
            for a, b in zip([None, *_integers(32)], ["x", None, *_TEXTS], strict=False)
        ],
    ),
}
TYPES = list(_KINDS)
NUMBERS = ["i8", "i16", "i32", "i64", "f", "d", "m", "w", "h"]
SMALL = [0, 1, 2, -1, 3, 5, -2, 12]


def _column(kind: pa.DataType, values: Sequence[Any], role: int) -> pa.Array:
    """Repeat 32 values, the first of them NULL, in as many orders as there are blocks."""
    known = [None, *values]
    chosen = [known[place % len(known)] for place in range(VALUES)]
    steps = [(1, 0), (1, role), (1 + 4 * role, 3 * role), (1 + 6 * role, 11 * role)]
    places = [(place * step + shift) % VALUES for step, shift in steps for place in range(VALUES)]
    return pa.array([chosen[place] for place in places], kind)


def boundary_rows() -> pa.Table:
    """Make the rows: a column a type and role (``i32``, ``i32_2``, ``i32_3``), and few others.

    ``n``, ``n_2``, ``n_3`` are small whole numbers, such as lengths; ``row`` counts.
    """
    columns: dict[str, pa.Array] = {"row": pa.array(range(VALUES * BLOCKS), pa.int32())}
    for role in range(ROLES):
        end = f"_{role + 1}" if role else ""
        for name, (kind, values) in _KINDS.items():
            columns[name + end] = _column(kind, values, role)
        columns["n" + end] = _column(pa.int32(), SMALL, role)
    return pa.table(columns)
