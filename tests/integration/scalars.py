"""Every scalar type: values of it, and how SQL says them to an independent reader.

Values are plain Python ones that compare as the type does: numbers, Decimal, str, bytes; for
dates days, for times milliseconds, for timestamps their unit since the epoch.
"""

import itertools
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pkray.schema.types import DataType

_ROOM = 2**63 - 1


@dataclass(frozen=True)
class Scalar:
    """A type and some of its values, in ascending order."""

    kind: str
    values: tuple[Any, ...]
    generated: st.SearchStrategy[Any]

    @property
    def arrow(self) -> pa.DataType:
        return DataType.parse(self.kind).arrow

    def array(self, values: Sequence[Any]) -> pa.Array:
        if pa.types.is_temporal(self.arrow):
            return pa.array(values, _machine_type(self.arrow)).cast(self.arrow)
        return pa.array(values, self.arrow)

    def plain(self, column: pa.ChunkedArray) -> list[Any]:
        """The column's values; the reader may have chosen another unit of time."""
        column = column.cast(self.arrow)
        if pa.types.is_temporal(self.arrow):
            column = column.cast(_machine_type(self.arrow))
        return column.to_pylist()

    def literal(self, value: Any) -> str:
        """The value in SQL."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if pa.types.is_timestamp(self.arrow):
            seconds = self.kind.endswith("(0)")
            number = value // 1000 if seconds else value
            return f"arrow_cast(arrow_cast('{number}', 'Int64'), '{_rust(self.arrow, seconds)}')"
        if pa.types.is_date(self.arrow):
            return f"arrow_cast(arrow_cast('{value}', 'Int32'), 'Date32')"
        if pa.types.is_time(self.arrow):
            return f"arrow_cast(arrow_cast('{value}', 'Int32'), 'Time32(Millisecond)')"
        number = format(value, "f") if isinstance(value, Decimal) else value
        return f"arrow_cast('{number}', '{_rust(self.arrow)}')"


@dataclass(frozen=True)
class Filter:
    """A condition on one column, in SQL and as a function of a value."""

    sql: str
    holds: Callable[[Any], bool]


_COMPARE = {
    "<": operator.lt,
    ">=": operator.ge,
    "=": operator.eq,
    ">": operator.gt,
    "<=": operator.le,
    "<>": operator.ne,
}


def filters(scalar: Scalar, column: str, values: Sequence[Any]) -> list[Filter]:
    """Equality with each value, another comparison with each, and lists and nulls."""
    pairs = [(value, "=") for value in values]
    pairs += zip(values, itertools.cycle(["<", ">=", "<>", ">", "<="]), strict=False)
    found = [
        Filter(
            f"{column} {sign} {scalar.literal(value)}",
            lambda v, value=value, holds=_COMPARE[sign]: v is not None and holds(v, value),
        )
        for value, sign in pairs
    ]
    chosen = list(values[:2])
    among = ", ".join(scalar.literal(value) for value in chosen)
    if len(chosen) > 1 or scalar.kind != "BOOLEAN":
        # pypaimon-rust drops `IN (false)` on a partition column, on its own tables too.
        found.append(Filter(f"{column} IN ({among})", lambda v: v in chosen))
    found.append(Filter(f"{column} IS NULL", lambda v: v is None))
    found.append(Filter(f"{column} IS NOT NULL", lambda v: v is not None))
    return found


def exact(value: Any) -> Any:
    """For comparison of content: floats by their bits, NaN included."""
    return struct.pack(">d", value) if isinstance(value, float) else value


def _machine_type(arrow: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(arrow) else pa.int32()


def _rust(arrow: pa.DataType, seconds: bool = False) -> str:
    """The type as DataFusion's ``arrow_cast`` names it."""
    if pa.types.is_timestamp(arrow):
        unit = {"ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[arrow.unit]
        zone = f'Some("{arrow.tz}")' if arrow.tz else "None"
        return f"Timestamp({'Second' if seconds else unit}, {zone})"
    if pa.types.is_decimal(arrow):
        return f"Decimal128({arrow.precision}, {arrow.scale})"
    names = {"float": "Float32", "double": "Float64"}
    return names.get(str(arrow), str(arrow).capitalize())


def _integers(kind: str, bits: int) -> Scalar:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return Scalar(kind, (low, -1, 0, 1, 42, high), st.integers(low, high))


def _bigint() -> Scalar:
    """DataFusion's estimates overflow on a filter on a file with the least and the largest."""
    far = 2**61
    return Scalar("BIGINT", (-far, -1, 0, 1, 42, far), st.integers(-far, far))


def _decimals(precision: int, scale: int) -> Scalar:
    high = 10**precision - 1
    values = tuple(_shift(n, scale) for n in (-high, -1234, -1, 0, 42, high))
    generated = st.integers(-high, high).map(lambda n: _shift(n, scale))
    return Scalar(f"DECIMAL({precision}, {scale})", values, generated)


def _shift(unscaled: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def _text(kind: str, length: int, *values: str) -> Scalar:
    return Scalar(kind, values, st.text(max_size=length))


def _bytes(kind: str, least: int, most: int, *values: bytes) -> Scalar:
    return Scalar(kind, values, st.binary(min_size=least, max_size=most))


def _timestamps(kind: str) -> list[Scalar]:
    found = []
    for precision, unit in ((0, 1000), (3, 1000), (6, 10**6), (9, 10**9)):
        step = 1000 if precision == 0 else 1
        far = 2**63 // step - 1 if precision == 9 else 253402300799 * unit // step
        seconds = [-(2**31), -1, 0, 1, 1_700_000_000]
        values = [second * unit for second in seconds]
        values[1] -= 0 if precision == 0 else 1  # before the epoch, with a fraction
        values[4] += 0 if precision == 0 else 123456789 % unit
        bound = min(far, _ROOM // step)
        generated = st.integers(-bound // 4, bound // 4).map(lambda n, step=step: n * step)
        found.append(Scalar(f"{kind}({precision})", tuple(values), generated))
    return found


def _thousand(number: int) -> int:
    return number * 1000


_EVERY = (
    Scalar("BOOLEAN", (False, True), st.booleans()),
    _integers("TINYINT", 8),
    _integers("SMALLINT", 16),
    _integers("INT", 32),
    _bigint(),
    Scalar(
        "FLOAT",
        (-(2.0**127), -1.5, -(2.0**-149), 0.0, 0.25, 3.0, 2.0**127),
        st.floats(width=32, allow_nan=False).map(lambda x: x + 0.0),
    ),
    Scalar(
        "DOUBLE",
        (-1e308, -1.5, -5e-324, 0.0, 0.1, 3.0, 1e308),
        st.floats(allow_nan=False).map(lambda x: x + 0.0),
    ),
    _decimals(5, 2),
    _decimals(18, 4),
    _decimals(38, 10),
    _text("CHAR(4)", 4, "    ", "abc ", "abcd", "żółw", "😀😀😀😀"),
    _text("VARCHAR(20)", 20, "", " ", "a=b/c%d", "abcdefgh", "z" * 20, "😀" * 20),
    _text("STRING", 20, "", "a' b", "abc", "n" * 16, "n" * 17, "ż" * 40, "\U0010ffff" * 17),
    _bytes("BINARY(3)", 3, 3, b"\0\0\0", b"\0\1\2", b"abc", b"\xff\xff\xff"),
    _bytes("VARBINARY(20)", 0, 20, b"", b"\0", b"abc", b"abcdefgh", b"\xff" * 20),
    _bytes("BYTES", 0, 20, b"", b"\0" * 20, b"abc", b"\x7f" * 16, b"\xff" * 40),
    Scalar("DATE", (-719162, -1, 0, 1, 19723, 2932896), st.integers(-719162, 2932896)),
    Scalar("TIME", (0, 1000, 43_200_000, 86_399_000), st.integers(0, 86_399).map(_thousand)),
    Scalar("TIME(3)", (0, 1, 1001, 43_200_000, 86_399_999), st.integers(0, 86_399_999)),
    *_timestamps("TIMESTAMP"),
    *_timestamps("TIMESTAMP_LTZ"),
)
SCALARS = {scalar.kind: scalar for scalar in _EVERY}
