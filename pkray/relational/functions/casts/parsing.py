"""Text read as values of other types, as Spark's ANSI mode reads it.

Each function gives the values and a mask of what cannot be read (None: all can).
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.relational.functions.casts.numbers import Converted as Parsed
from pkray.relational.functions.casts.numbers import in_range
from pkray.relational.functions.numbers import decimals
from pkray.schema.types import DataType

_SPACES = "".join(map(chr, range(33))) + "\x7f"
_NONE = constants.null(pa.string())
_TRUE = constants.texts(["t", "true", "y", "yes", "1"])
_FALSE = constants.texts(["f", "false", "n", "no", "0"])
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DATE = r"^(?P<sign>[+-]?)(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?"
_HOURS = _CLOCK.replace(":(?P<minute>", "(?::(?P<minute>", 1) + ")?"
_ZONE = r"\s*(?P<zone>Z|z|[A-Za-z_]+(?:/[A-Za-z_+\-0-9]+)*|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?)?"


def parse_boolean(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read true and false, t and f, yes and no, y and n, 1 and 0, whatever the case."""
    words = pc.ascii_lower(pc.utf8_trim(array, _SPACES))
    truth, falsehood = pc.is_in(words, value_set=_TRUE), pc.is_in(words, value_set=_FALSE)
    known = pc.or_(truth, falsehood)
    result = pc.if_else(pc.and_(known, array.is_valid()), truth, pa.scalar(None, pa.bool_()))
    return result, _bad(array, known)


def _bad(array: pa.Array, known: pa.Array) -> pa.Array | None:
    bad = pc.and_(array.is_valid(), pc.invert(known.fill_null(False)))
    return bad if bad.true_count else None


def _matched(array: pa.Array, pattern: str) -> tuple[pa.Array, pa.Array]:
    """Trim, and tell which texts match; the others become NULL."""
    texts = pc.utf8_trim(array, _SPACES)
    known = pc.match_substring_regex(texts, pattern)
    return pc.if_else(known, texts, _NONE), known


def parse_integer(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read digits with or without a sign."""
    texts, known = _matched(array, r"^[+-]?[0-9]+$")
    texts = pc.replace_substring_regex(texts, r"^(?:\+|(-))0*([0-9])", r"\1\2")
    try:
        return texts.cast(target.arrow), _bad(array, known)
    except pa.ArrowInvalid:
        short = pc.less_equal(pc.utf8_length(texts), 38)
        wide = pc.if_else(short, texts, _NONE).cast(pa.decimal128(38, 0))
        fits = in_range(wide, target).fill_null(False)
        kept = pc.if_else(fits, wide, pa.scalar(None, wide.type))
        return kept.cast(target.arrow), _bad(array, fits)


def parse_double(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read numbers with or without a point and an exponent; NaN and infinities by name."""
    pattern = r"(?i)^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?[df]?|inf(?:inity)?|nan)$"
    texts, known = _matched(array, pattern)
    texts = pc.replace_substring_regex(texts, r"(?i)([0-9.])[df]$", r"\1")
    texts = pc.replace_substring_regex(texts, r"(?i)^[+-]?nan$", "nan")
    numbers = texts.cast(pa.float64()) if target.root == "DOUBLE" else texts.cast(pa.float32())
    return numbers, _bad(array, known)


def parse_decimal(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read numbers with or without a point and an exponent; further digits are rounded half up."""
    texts, known = _matched(array, r"(?i)^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?$")
    wide = pa.decimal256(decimals.WIDE, 38)
    try:
        numbers = texts.cast(wide)
    except pa.ArrowInvalid:
        numbers = _longer_decimals(texts, wide)
    near = decimals.rounded(numbers, target.scale or 0)
    fits = pc.invert(decimals.too_large(near, target.arrow))
    if isinstance(fits, pa.Scalar):
        fits = near.is_valid()
    kept = pc.if_else(fits, near, pa.scalar(None, near.type)).cast(target.arrow)
    return kept, _bad(array, pc.and_(known, fits))


def _longer_decimals(texts: pa.Array, wide: pa.DataType) -> pa.Array:
    """Cut digits that round nothing; what has more than 38 digits before the point is NULL."""
    short = pc.replace_substring_regex(texts, r"^([^.eE]*\.[0-9]{38})[0-9]+", r"\1")
    size = pc.abs(short.cast(pa.float64()))
    short = pc.if_else(pc.less(size, 1e-37), "0", pc.if_else(pc.less(size, 1e38), short, _NONE))
    try:
        return short.cast(wide)
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(short, r"^[^eE]*$")
        return pc.if_else(plain, short, _NONE).cast(wide)


def parse_date(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read ``2020-01-31``, ``2020-1``, ``2020``; what follows a space or T is ignored."""
    try:
        return array.cast(pa.date32()), None
    except pa.ArrowInvalid:
        texts = pc.utf8_trim(array, _SPACES)
    parts = pc.extract_regex(texts, _DATE + r"(?:[ T].*)?)?)?$")
    days, good = _days(parts)
    return _parsed(array, days.astype(np.int32), good, pa.date32())


def parse_timestamp(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read a date, then perhaps a time of day with up to nine digits of fraction and a zone.

    A zone is ignored where the type has none; UTC is the session's.
    """
    kind = target.arrow
    try:
        return _plain_timestamps(array, target), None
    except pa.ArrowInvalid:
        texts = pc.utf8_trim(array, _SPACES)
    pattern = _DATE + rf"(?:[ T](?:{_HOURS}{_ZONE})?)?)?)?$"
    parts = pc.extract_regex(texts, pattern)
    days, good = _days(parts)
    clock, nano, is_clock = _clock(parts, 9)
    per_second = _PER_SECOND[kind.unit]
    seconds, good = days * 86_400 + clock, good & is_clock
    if kind.tz is not None:
        offsets, known = _offsets(parts, seconds)
        seconds, good = seconds - offsets, good & known
    good &= np.abs(seconds) <= (2**63 - 1) // per_second - 1
    step = 10 ** (9 - (target.precision or 0))
    ticks = np.where(good, seconds, 0) * per_second + nano // step * step // (10**9 // per_second)
    return _parsed(array, ticks, good, kind)


def _plain_timestamps(array: pa.Array, target: DataType) -> pa.Array:
    if target.precision not in (3, 6, 9):
        raise pa.ArrowInvalid("digits are to be cut")
    naive = array.cast(pa.timestamp(target.arrow.unit))
    return naive.cast(target.arrow) if target.arrow.tz is None else pc.assume_timezone(naive, "UTC")


def parse_time(array: pa.Array, source: DataType, target: DataType) -> Parsed:
    """Read ``10:20:30.123``."""
    texts = pc.utf8_trim(array, _SPACES)
    parts = pc.extract_regex(texts, rf"^{_CLOCK}$")
    seconds, millis, good = _clock(parts, 3)
    good &= parts.is_valid().to_numpy(zero_copy_only=False)
    step = 10 ** max(3 - (target.precision or 0), 0)
    ticks = seconds * 1000 + millis // step * step
    return _parsed(array, ticks.astype(np.int32), good, pa.time32("ms"))


def _parsed(array: pa.Array, ticks: Any, good: Any, kind: pa.DataType) -> Parsed:
    """Make times of what was read of texts; `good` says where that is one."""
    return pa.array(ticks, mask=~good).cast(kind), _bad(array, pa.array(good))


def _clock(parts: pa.Array, digits: int) -> tuple[Any, Any, Any]:
    """Give seconds of the day, the fraction's first digits, and whether that is a time of day."""
    hour, minute, second = (_ints(parts, name) for name in ("hour", "minute", "second"))
    padded = pc.utf8_rpad(parts.field("fraction"), digits, "0")
    fraction = pc.if_else(parts.is_valid(), pc.utf8_slice_codeunits(padded, 0, digits), "0")
    good = (hour < 24) & (minute < 60) & (second < 60)
    return (hour * 60 + minute) * 60 + second, fraction.cast(pa.int64()).to_numpy(), good


def _ints(parts: pa.Array, name: str, default: int = 0) -> Any:
    texts = pc.if_else(parts.is_valid(), parts.field(name), "")
    texts = pc.if_else(pc.equal(texts, ""), str(default), texts)
    return texts.cast(pa.int64()).to_numpy()


def _days(parts: pa.Array) -> tuple[Any, Any]:
    """Count days since 1970 of matched years, months and days, and tell which there are."""
    good = parts.is_valid().to_numpy(zero_copy_only=False)
    year = _ints(parts, "year", 1970)
    negative = pc.equal(parts.field("sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    year = np.where(negative, -year, year)
    month, day = _ints(parts, "month", 1), _ints(parts, "day", 1)
    good = good & (month >= 1) & (month <= 12) & (day >= 1)
    month = np.where(good, month, 1)
    days = _first_of_month(year, month)
    good &= day <= _first_of_month(year + month // 12, month % 12 + 1) - days
    return days + day - 1, good


def _first_of_month(year: Any, month: Any) -> Any:
    months = (year - 1970) * 12 + month - 1
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _offsets(parts: pa.Array, seconds: Any) -> tuple[Any, Any]:
    """Find each zone's seconds ahead of UTC at a local time, and tell which zones there are."""
    zones = pc.if_else(parts.is_valid(), parts.field("zone"), "")
    result = np.zeros(len(zones), np.int64)
    known = np.ones(len(zones), bool)
    for zone in zones.unique().to_pylist():
        if zone.upper() in ("", "Z", "UTC", "GMT"):
            continue
        rows = pc.equal(zones, zone).to_numpy(zero_copy_only=False)
        offset = _offset(zone, seconds[rows])
        known[rows] = offset is not None
        result[rows] = 0 if offset is None else offset
    return result, known


def _offset(zone: str, seconds: Any) -> Any:
    text = zone.upper().removeprefix("UTC").removeprefix("GMT")
    if text[:1] in "+-":
        digits = text[1:].replace(":", "")
        hours, minutes = (
            (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
        )
        if hours > 18 or minutes > 59:
            return None
        return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)
    local = pa.array(seconds.astype("datetime64[s]"))
    try:
        there = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid:
        return None
    return seconds - there.cast(pa.int64()).to_numpy()
