"""A partition value as the text its folder is named with.

By default (``partition.legacy-name`` true, all that Paimon 0.9 does) it is Java's toString of the
internal value: DATE as days, TIME as milliseconds, timestamps in ISO form without trailing zeros.
Otherwise it is SQL's cast to string.

Source: "partition.legacy-name" and "partition.default-name" in Apache Paimon.
"""

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.schema.types import BINARIES, TIMESTAMPS, DataType

_EPOCH = date(1970, 1, 1)
_ERA_YEARS, _ERA_DAYS = 400, 146_097  # after which the calendar repeats
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
# What Java calls white space: unlike Python's without the no-break spaces and U+0085.
_BLANK = re.compile("[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*")
_ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")


def to_text(value: pa.Scalar, kind: DataType, *, legacy: bool = True) -> str | None:
    """Write a partition value as text; None where the folder has the default name (null, blank).

    Raises:
        UnsupportedError: a type whose text is not the same for every reader.
    """
    if not value.is_valid:
        return None
    text = _text(value, kind, legacy)
    return None if _BLANK.fullmatch(text) else text


def value_text(value: pa.Scalar, kind: DataType) -> str:
    """Write a value that is not null as SQL casts it to a string."""
    return _text(value, kind, legacy=False)


def escape(text: str) -> str:
    """Write text as part of a path: characters that paths give a meaning become ``%XX``."""
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)


def check_type(name: str, kind: DataType, *, legacy: bool = True) -> None:
    """Refuse a partition column whose folders other engines would not find.

    Raises:
        UnsupportedError: names the column, its type and the remedy.
    """
    reason = None
    if kind.is_nested:
        reason = "use a scalar type"
    elif legacy and kind.root in BINARIES:
        reason = "its folder's name would differ from run to run; use STRING"
    elif not legacy and kind.root == "TIMESTAMP_LTZ":
        reason = "its folder's name would depend on the time zone; use TIMESTAMP"
    if reason:
        raise UnsupportedError(
            f"partition column {name!r} cannot be {kind}: {reason}", column=name, type=str(kind)
        )


def _text(value: pa.Scalar, kind: DataType, legacy: bool) -> str:
    root = kind.root
    if root == "BOOLEAN":
        return "true" if value.as_py() else "false"
    if root in ("FLOAT", "DOUBLE"):
        return _java_float(value)
    if root == "DECIMAL":
        return format(Decimal(value.as_py()), "f")
    if root == "DATE":
        days = value.value
        return str(days) if legacy else _day_text(days)
    if root == "TIME":
        return str(value.value) if legacy else _time_text(value.value, kind.precision or 0)
    if root in TIMESTAMPS:
        return _timestamp_text(value, kind, legacy)
    if root in BINARIES:
        return str(value.as_py().decode("utf-8", "replace"))
    return str(value.as_py())


def _timestamp_text(value: pa.TimestampScalar, kind: DataType, legacy: bool) -> str:
    per_second = _PER_SECOND[value.type.unit]
    seconds, fraction = divmod(value.value, per_second)
    days, second = divmod(seconds, 86_400)
    nanos = fraction * (10**9 // per_second)
    day = _day_text(days)
    minutes = f"{second // 3600:02d}:{second // 60 % 60:02d}"
    if not legacy:
        digits = f"{nanos:09d}".rstrip("0").ljust(kind.precision or 0, "0")
        return f"{day} {minutes}:{second % 60:02d}" + (f".{digits}" if digits else "")
    if not nanos:
        return f"{day}T{minutes}" + (f":{second % 60:02d}" if second % 60 else "")
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{day}T{minutes}:{second % 60:02d}.{digits}"


def _day_text(days: int) -> str:
    """LocalDate.toString: beyond 0000 to 9999 years have a sign."""
    eras, days = divmod(days, _ERA_DAYS)
    day = _EPOCH + timedelta(days=days)
    year = day.year + eras * _ERA_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def _time_text(millis: int, precision: int) -> str:
    second, fraction = divmod(millis, 1000)
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    if precision == 0 or fraction == 0:
        return text
    # Java stops at the first place after which nothing is left, and cuts at the precision.
    return f"{text}.{f'{fraction:03d}'.rstrip('0')[:precision]}"


def _java_float(value: pa.Scalar) -> str:
    """Float.toString and Double.toString: plain from 10^-3 to 10^7, else d.dddEn."""
    number: Any = value.as_py()
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    # str of the Arrow type's numpy scalar: as few digits as tell it from its neighbours.
    shortest = Decimal(str(pa.array([number], value.type).to_numpy()[0]))
    if shortest == 0 or Decimal("1e-3") <= abs(shortest) < Decimal("1e7"):
        text = format(shortest, "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = shortest.normalize().as_tuple()
    head, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{head}.{rest}E{int(exponent) + len(digits) - 1}"
