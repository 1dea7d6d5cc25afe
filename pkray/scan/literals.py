"""Literals of a filter, brought into the type of the column they are compared with."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.errors import InputError
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataField, DataType

_SECOND = 10**9
_DAY = 86_400 * _SECOND
_EPOCH = dt.date(1970, 1, 1).toordinal()
_PER_UNIT = {"s": _SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
_LIMITS = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}
_EXACT = Context(prec=1000)
_HUGE = Decimal("1e200")

_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,9}))?)?"
)


@dataclass(frozen=True)
class Instant:
    """A date or a point in time.

    Args:
        nanos: nanoseconds since 1970-01-01 00:00, in UTC where it has a zone.
        zoned: whether a time zone was given.
    """

    nanos: int
    zoned: bool = False

    @staticmethod
    def parse(text: str) -> Instant:
        """Parse ``2024-02-29``, ``2024-02-29 12:30:00.123456789`` or with ``Z`` or ``+01:00``.

        Raises:
            ValueError: it is none.
        """
        match = _INSTANT.fullmatch(text.strip())
        if match is None:
            raise ValueError(text)
        year, month, day = (int(part) for part in match["date"].split("-"))
        nanos = (dt.date(year, month, day).toordinal() - _EPOCH) * _DAY
        if match["hour"] is not None:
            nanos += _clock_nanos(match)
        zone = match["zone"]
        if zone and zone[0] in "+-":
            minutes = int(zone[1:3]) * 60 + int(zone[-2:])
            nanos += (-minutes if zone[0] == "+" else minutes) * 60 * _SECOND
        return Instant(nanos, zone is not None)


@dataclass(frozen=True)
class Clock:
    """A time of day, in nanoseconds since midnight."""

    nanos: int

    @staticmethod
    def parse(text: str) -> Clock:
        """Parse ``12:30`` or ``12:30:00.123``.

        Raises:
            ValueError: it is none.
        """
        match = _CLOCK.fullmatch(text.strip())
        if match is None:
            raise ValueError(text)
        return Clock(_clock_nanos(match))


Literal = bool | Decimal | float | str | bytes | Instant | Clock | None


@dataclass(frozen=True)
class Fitted:
    """A literal in a column's type.

    Args:
        value: the largest value of the type that is not above the literal; None when the
            literal is below them all.
        exact: whether the value is the literal.
    """

    value: pa.Scalar | None
    exact: bool


def literal(value: Any) -> Literal:
    """Make a literal of a Python, numpy or Arrow value.

    Raises:
        InputError: a value of a type that no column holds.
    """
    if isinstance(value, np.datetime64):
        value = pa.scalar(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pa.Scalar):
        if pa.types.is_timestamp(value.type) and value.is_valid:
            nanos = value.value * _PER_UNIT[value.type.unit]
            return Instant(nanos, value.type.tz is not None)
        value = value.as_py()
    if value is None or isinstance(value, bool | Decimal | float | str | bytes | Instant | Clock):
        return value
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, dt.datetime):
        return _from_datetime(value)
    if isinstance(value, dt.date):
        return Instant((value.toordinal() - _EPOCH) * _DAY)
    if isinstance(value, dt.time) and value.tzinfo is None:
        return Clock.parse(value.isoformat())
    raise InputError(
        f"a filter cannot compare with {value!r} of type {type(value).__name__}", value=value
    )


def fit(value: Literal, field: DataField) -> Fitted:
    """Convert a literal to the column's type.

    Raises:
        InputError: they do not compare; it names the column, its type and the literal.
    """
    root, arrow = field.type.root, field.type.arrow
    if isinstance(value, bool) == (root == "BOOLEAN"):
        if isinstance(value, bool):
            return Fitted(pa.scalar(value, arrow), True)
        if root in STRINGS and isinstance(value, str):
            return Fitted(pa.scalar(value, arrow), True)
        if root in BINARIES and isinstance(value, bytes):
            return Fitted(pa.scalar(value, arrow), True)
        if root in ("FLOAT", "DOUBLE") and isinstance(value, Decimal | float | str):
            number = _parsed(float, value, field) if isinstance(value, str) else float(value)
            return Fitted(pa.scalar(number, arrow), True)
        if root in (*INTEGERS, "DECIMAL") and isinstance(value, Decimal | float | str):
            number = _parsed(Decimal, value, field) if isinstance(value, str) else Decimal(value)
            return _fit_number(number, field)
        if root in ("DATE", *TIMESTAMPS) and isinstance(value, Instant | str):
            moment = _parsed(Instant.parse, value, field) if isinstance(value, str) else value
            if not moment.zoned or root == "TIMESTAMP_LTZ":
                return _fit_ticks(moment.nanos, field.type)
        if root == "TIME" and isinstance(value, Clock | str):
            clock = _parsed(Clock.parse, value, field) if isinstance(value, str) else value
            return _fit_ticks(clock.nanos, field.type)
    raise mismatch(value, field)


def mismatch(value: Literal, field: DataField) -> InputError:
    """Make the error for a literal that a column cannot be compared with."""
    return InputError(
        f"column {field.name!r} is {field.type} and cannot be compared with {_shown(value)}: "
        f"write a literal such as {_example(field.type)}",
        column=field.name,
        type=str(field.type),
        value=value,
    )


def _fit_number(number: Decimal, field: DataField) -> Fitted:
    if number.is_nan():
        raise mismatch(number, field)
    number = max(-_HUGE, min(_HUGE, number))
    if field.type.root == "DECIMAL":
        scale, limit = field.type.scale or 0, 10 ** (field.type.precision or 0)
        ticks, exact = _floor(_EXACT.scaleb(number, scale))
        return _clamped(
            ticks, exact, -limit + 1, limit - 1, lambda t: _decimal(t, scale, field.type.arrow)
        )
    limit = _LIMITS[field.type.root]
    ticks, exact = _floor(number)
    return _clamped(ticks, exact, -limit, limit - 1, lambda t: pa.scalar(t, field.type.arrow))


def _fit_ticks(nanos: int, data_type: DataType) -> Fitted:
    arrow = data_type.arrow
    size = _DAY if pa.types.is_date32(arrow) else _PER_UNIT[arrow.unit]
    width = 64 if pa.types.is_timestamp(arrow) else 32
    stored = pa.int64() if width == 64 else pa.int32()
    limit = 2 ** (width - 1)
    return _clamped(
        nanos // size,
        nanos % size == 0,
        -limit,
        limit - 1,
        lambda ticks: pa.scalar(ticks, stored).cast(arrow),
    )


def _clamped(ticks: int, exact: bool, least: int, most: int, scalar: Any) -> Fitted:
    if ticks < least:
        return Fitted(None, False)
    if ticks > most:
        return Fitted(scalar(most), False)
    return Fitted(scalar(ticks), exact)


def _floor(number: Decimal) -> tuple[int, bool]:
    whole = number.to_integral_value(ROUND_FLOOR, _EXACT)
    return int(whole), whole == number


def _decimal(ticks: int, scale: int, arrow: pa.DataType) -> pa.Scalar:
    return pa.scalar(_EXACT.scaleb(Decimal(ticks), -scale), arrow)


def _parsed(parse: Any, text: str, field: DataField) -> Any:
    try:
        return parse(text.strip())
    except (ValueError, InvalidOperation):
        raise mismatch(text, field) from None


def _clock_nanos(match: re.Match[str]) -> int:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match.string)
    part = int((match["part"] or "").ljust(9, "0"))
    return ((hour * 60 + minute) * 60 + second) * _SECOND + part


def _from_datetime(value: dt.datetime) -> Instant:
    zoned = value.tzinfo is not None
    if zoned:
        value = value.astimezone(dt.UTC)
    days = value.toordinal() - _EPOCH
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    below = value.microsecond * 1000 + getattr(value, "nanosecond", 0)
    return Instant(days * _DAY + seconds * _SECOND + below, zoned)


def _shown(value: Literal) -> str:
    if isinstance(value, Instant):
        seconds, below = divmod(value.nanos, _SECOND)
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        part = f".{below:09}".rstrip("0") if below else ""
        return f"the time {moment:%Y-%m-%d %H:%M:%S}{part}{'Z' if value.zoned else ''}"
    if isinstance(value, Clock):
        return f"the time of day {dt.timedelta(microseconds=value.nanos // 1000)}"
    if isinstance(value, float | Decimal) and math.isnan(value):
        return "NaN"
    return str(value) if isinstance(value, Decimal | bool) else repr(value)


def _example(data_type: DataType) -> str:
    examples = {
        "BOOLEAN": "TRUE",
        "DATE": "DATE '2024-02-29'",
        "TIME": "TIME '12:30:00'",
        "TIMESTAMP": "TIMESTAMP '2024-02-29 12:30:00'",
        "TIMESTAMP_LTZ": "TIMESTAMP '2024-02-29 12:30:00Z'",
        **dict.fromkeys(STRINGS, "'text'"),
        **dict.fromkeys(BINARIES, "X'00FF'"),
    }
    return examples.get(data_type.root, "42")
