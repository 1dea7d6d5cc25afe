"""Puts default values in the place of nulls: ``fields.<name>.default-value``.

Files keep the nulls, and rows are merged with them.
"""

import re
from collections.abc import Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, DataType

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_WHOLE = re.compile(r"([+-]?\d+)\.?\d*|[+-]?\.\d+", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})( .*)?", re.ASCII)
_TIME = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d{1,9})?)?", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,9})?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?Infinity|NaN", re.ASCII)
_EXACT = Context(prec=1000)


def with_defaults(rows: Rows, defaults: Mapping[str, pa.Scalar]) -> Rows:
    """Return rows as readers see them.

    Args:
        rows: columns of the table, with others or not.
        defaults: of columns, by name (``TableSchema.default_values``).
    """
    for name, value in defaults.items():
        position = rows.schema.get_field_index(name)
        if position >= 0 and rows.column(position).null_count:
            filled = pc.fill_null(rows.column(position), value)
            rows = rows.set_column(position, rows.schema.field(position), filled)
    return rows


def default_value(text: str, data_type: DataType, column: str) -> pa.Scalar:
    """Convert the default of a column to its Arrow type.

    Whole numbers lose what is after the point, decimals round half up, texts and bytes are cut
    or, with a fixed length, filled up: as SQL casts text.

    Raises:
        SchemaError: the text is no value of the type.
        UnsupportedError: the type has no defaults.
    """
    if data_type.is_nested or data_type.root == "TIMESTAMP_LTZ":
        why = "it would depend on the reader's time zone" if not data_type.is_nested else "nested"
        raise UnsupportedError(
            f"column {column!r} is {data_type}, which has no default values ({why}): remove the "
            f"option fields.{column}.default-value",
            column=column,
            type=str(data_type),
        )
    try:
        return _parsed(text, data_type)
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise SchemaError(
            f"the default value {text!r} of column {column!r} is no {data_type}: correct the "
            f"option fields.{column}.default-value, or remove it",
            column=column,
            value=text,
            type=str(data_type),
        ) from error


def _parsed(text: str, data_type: DataType) -> pa.Scalar:
    root, arrow = data_type.root, data_type.arrow
    if root in STRINGS:
        return pa.scalar(_fitted(text, data_type, " "), arrow)
    if root in BINARIES:
        return pa.scalar(_fitted(text.encode(), data_type, b"\0"), arrow)
    if root in INTEGERS:
        return pa.scalar(int(_match(_WHOLE, text)[1] or 0), arrow)
    if root == "BOOLEAN":
        if text.lower() not in _TRUE + _FALSE:
            raise ValueError(text)
        return pa.scalar(text.lower() in _TRUE, arrow)
    if root in ("FLOAT", "DOUBLE"):
        return pa.scalar(float(_match(_NUMBER, text.strip())[0]), arrow)
    if root == "DECIMAL":
        return pa.scalar(_decimal(text, data_type.scale or 0), arrow)
    if root == "DATE":
        year, month, day = map(int, _match(_DATE, text).groups()[:3])
        return pa.scalar(date(year, month, day), arrow)
    if root == "TIMESTAMP":
        return _time(_match(_TIMESTAMP, text)[0], data_type).cast(arrow)
    return _time(f"1970-01-01 {_match(_TIME, text)[0]}", data_type).cast(arrow)


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found


def _decimal(text: str, scale: int) -> Decimal:
    number = Decimal(_match(_NUMBER, text)[0])
    if not number.is_finite():
        raise InvalidOperation(text)
    return number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)


def _time(text: str, data_type: DataType) -> pa.Scalar:
    """Convert text to a point in time; digits beyond the type's precision are cut."""
    whole, _, part = text.partition(".")
    digits = part[: data_type.precision or 0]
    return pa.scalar(f"{whole}.{digits}" if digits else whole).cast(
        pa.timestamp(data_type.arrow.unit)
    )


Text = TypeVar("Text", str, bytes)


def _fitted(text: Text, data_type: DataType, filler: Text) -> Text:
    length = data_type.length
    if length is None:
        return text
    filled = text.ljust(length, filler) if data_type.root in ("CHAR", "BINARY") else text
    return filled[:length]
