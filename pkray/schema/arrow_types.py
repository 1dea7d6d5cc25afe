"""Maps scalar column types to Arrow's and back."""

from typing import NamedTuple

import pyarrow as pa

from pkray.errors import UnsupportedError

STRINGS = ("CHAR", "VARCHAR", "STRING")
BINARIES = ("BINARY", "VARBINARY", "BYTES")
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")

_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    **dict.fromkeys(STRINGS, pa.string()),
    **dict.fromkeys(BINARIES, pa.binary()),
}
SCALARS = (*_ARROW, "DECIMAL", *TIMESTAMPS)
_ROOTS = {
    **{arrow: root for root, arrow in _ARROW.items() if root not in (*STRINGS, *BINARIES, "TIME")},
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "STRING"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "BYTES"),
}
_REMEDIES = {
    pa.uint8(): "cast it to int16",
    pa.uint16(): "cast it to int32",
    pa.uint32(): "cast it to int64",
    pa.uint64(): "cast it to decimal128(20, 0)",
    pa.float16(): "cast it to float32",
    pa.date64(): "cast it to date32",
    pa.time64("us"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.time64("ns"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.null(): "a column of nulls has no type of its own: cast it to the type it should have",
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class ScalarType(NamedTuple):
    """A scalar type's name and its parameters, as `DataType` takes them."""

    root: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None


def scalar_to_arrow(root: str, precision: int | None, scale: int | None) -> pa.DataType:
    """Return the Arrow type that rows of a scalar column are held in."""
    if root in _ARROW:
        return _ARROW[root]
    if root == "DECIMAL":
        return pa.decimal128(precision, scale)
    digits = precision or 0
    unit = "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
    return pa.timestamp(unit, tz="UTC" if root == "TIMESTAMP_LTZ" else None)


def scalar_from_arrow(arrow: pa.DataType) -> ScalarType:
    """Return the scalar type that holds values of an Arrow type.

    Raises:
        UnsupportedError: no scalar type holds them without loss; the message says what to cast to.
    """
    if arrow in _ROOTS:
        return ScalarType(_ROOTS[arrow])
    is_a = pa.types
    if is_a.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return ScalarType("DECIMAL", precision=arrow.precision, scale=arrow.scale)
    if is_a.is_time32(arrow):
        return ScalarType("TIME", precision=_DIGITS[arrow.unit])
    if is_a.is_timestamp(arrow):
        root = "TIMESTAMP" if arrow.tz is None else "TIMESTAMP_LTZ"
        return ScalarType(root, precision=_DIGITS[arrow.unit])
    if is_a.is_fixed_size_binary(arrow):
        return ScalarType("BINARY", length=arrow.byte_width)
    raise UnsupportedError(f"{arrow} is not supported: {_remedy(arrow)}", type=str(arrow))


def _remedy(arrow: pa.DataType) -> str:
    if pa.types.is_duration(arrow) or pa.types.is_interval(arrow):
        return "cast it to int64"
    if pa.types.is_decimal(arrow):
        return "use a decimal128 of at most 38 digits and a scale of 0 or more"
    return _REMEDIES.get(arrow, "cast it to a type that Paimon has")
