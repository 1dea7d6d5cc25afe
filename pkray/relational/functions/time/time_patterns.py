"""Patterns of dates and times, such as ``yyyy-MM-dd HH:mm:ss``: written, and read.

Letters are those of Java's DateTimeFormatter: y (u), Q (q), M (L), d, D, E, a, H, k, h, K, m, s, S,
and for UTC X, x, Z, z, V, O; text in quotes stands for itself; [ ] holds what may be missing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.functions.time import calendar

MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "yuQqMLdDEaHkhKmsSXxZzVO"
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\[|\]|[^A-Za-z'\[\]]+")


@dataclass(frozen=True)
class Token:
    """A part of a pattern: a letter and how often it stands, or (letter empty) text."""

    letter: str
    count: int
    text: str = ""


@cache
def tokens(pattern: str) -> tuple[Token, ...]:
    """Take a pattern apart.

    Raises:
        QueryError: it has a letter that means nothing here.
    """
    found, place = [], 0
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None:
            raise QueryError(f"the pattern {pattern!r} has a quote that is not closed")
        text, letter = match[0], match[2]
        if letter is None:
            inside = match[1]
            plain = text if inside is None else inside.replace("''", "'") or "'"
            found.append(Token("[" if text == "[" else "]" if text == "]" else "", 0, plain))
        elif letter not in _LETTERS:
            raise QueryError(
                f"the pattern {pattern!r} has the letter {letter!r}, which is not supported; "
                "put text in single quotes"
            )
        else:
            found.append(Token(_SAME.get(letter, letter), len(text)))
        place = match.end()
    return tuple(found)


_SAME = {"u": "y", "L": "M", "q": "Q"}


def write(times: calendar.Times, pattern: str) -> pa.Array:
    """Write times by a pattern.

    Raises:
        QueryError: the pattern is none.
    """
    rows = len(times.ticks)
    parts: list[pa.Array | pa.Scalar] = [
        pa.scalar(token.text) if not token.letter else _WRITERS[token.letter](times, token.count)
        for token in tokens(pattern)
        if token.letter not in ("[", "]")
    ]
    if all(isinstance(part, pa.Scalar) for part in parts):
        return pa.repeat(pa.scalar("".join(part.as_py() for part in parts)), rows)
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _padded(numbers: np.ndarray, width: int) -> pa.Array:
    text = pa.array(numbers).cast(pa.string())
    if width < 2:
        return text
    if numbers.size and numbers.min() < 0:
        positive = pc.utf8_lpad(pa.array(np.abs(numbers)).cast(pa.string()), width, "0")
        signs = pa.array(np.where(numbers < 0, "-", ""))
        return pc.binary_join_element_wise(signs, positive, "")
    return pc.utf8_lpad(text, width, "0")


def _named(names: tuple[str, ...], numbers: np.ndarray) -> pa.Array:
    return pa.array(names).take(pa.array(numbers))


def _write_year(times: calendar.Times, count: int) -> pa.Array:
    years = calendar.year_of(times.days)
    return _padded(years % 100, 2) if count == 2 else _padded(years, count)


def _write_month(times: calendar.Times, count: int) -> pa.Array:
    month = calendar.months_of(times.days) % 12
    if count >= 3:
        return _named(MONTH_NAMES if count == 4 else _short(MONTH_NAMES), month)
    return _padded(month + 1, count)


def _write_weekday(times: calendar.Times, count: int) -> pa.Array:
    names = DAY_NAMES if count == 4 else _short(DAY_NAMES)
    return _named(names, calendar.weekday(times.days))


def _write_quarter(times: calendar.Times, count: int) -> pa.Array:
    quarter = calendar.months_of(times.days) % 12 // 3
    names = tuple(f"Q{number}" for number in range(1, 5))
    return _padded(quarter + 1, count) if count < 3 else _named(names, quarter)


def _short(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name[:3] for name in names)


def _hours(times: calendar.Times) -> np.ndarray:
    return times.seconds() // 3600


def _write_fraction(times: calendar.Times, count: int) -> pa.Array:
    nanos = _padded(times.fraction(10**9), 9)
    return pc.utf8_slice_codeunits(nanos, 0, min(count, 9))


def _write_zone(letter: str) -> Callable[[calendar.Times, int], pa.Scalar]:
    def text(times: calendar.Times, count: int) -> pa.Scalar:
        if letter == "X":
            return pa.scalar("Z")
        if letter in "xZ":
            colon = count in (3, 5)
            short = letter == "x" and count == 1
            return pa.scalar("+00" if short else "+00:00" if colon else "+0000")
        return pa.scalar("GMT" if letter == "O" else "UTC")

    return text


_WRITERS: dict[str, Callable[[calendar.Times, int], pa.Array | pa.Scalar]] = {
    "y": _write_year,
    "Q": _write_quarter,
    "M": _write_month,
    "d": lambda times, count: _padded(calendar.day_of_month(times.days), count),
    "D": lambda times, count: _padded(calendar.day_of_year(times.days), count),
    "E": _write_weekday,
    "a": lambda times, count: _named(("AM", "PM"), _hours(times) // 12),
    "H": lambda times, count: _padded(_hours(times), count),
    "k": lambda times, count: _padded((_hours(times) - 1) % 24 + 1, count),
    "h": lambda times, count: _padded((_hours(times) - 1) % 12 + 1, count),
    "K": lambda times, count: _padded(_hours(times) % 12, count),
    "m": lambda times, count: _padded(times.seconds() // 60 % 60, count),
    "s": lambda times, count: _padded(times.seconds() % 60, count),
    "S": _write_fraction,
    **{letter: _write_zone(letter) for letter in "XxZzVO"},
}


# --- Reading --------------------------------------------------------------------------------------


@cache
def _reader(pattern: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Make the regular expression of a pattern, and say which letter each of its groups is of."""
    expression, letters = "", list[tuple[str, int]]()
    for token in tokens(pattern):
        if token.letter == "[":
            expression += "(?:"
        elif token.letter == "]":
            expression += ")?"
        elif not token.letter:
            expression += re.escape(token.text)
        else:
            expression += f"(?P<g{len(letters)}>{_expression(token)})"
            letters.append((token.letter, token.count))
    return f"^{expression}$", tuple(letters)


def _expression(token: Token) -> str:
    letter, count = token.letter, token.count
    if letter == "M" and count >= 3:
        return "(?i:" + "|".join(_names(MONTH_NAMES, count)) + ")"
    if letter == "E":
        return "(?i:" + "|".join(_names(DAY_NAMES, count)) + ")"
    if letter == "a":
        return "(?i:AM|PM)"
    if letter in "XxZ":
        return r"Z|[+-]\d{2}(?::?\d{2})?"
    if letter in "zVO":
        return r"UTC|GMT|Z|[+-]\d{2}:?\d{2}"
    if letter == "S":
        return rf"\d{{1,{count}}}"
    if letter == "Q":
        raise QueryError("a quarter (Q) can be written by a pattern, not read")
    if letter == "y":
        return r"\d{2}" if count == 2 else r"\d{4,6}" if count == 4 else r"\d{1,6}"
    most = 3 if letter == "D" else 2
    return rf"\d{{{count}}}" if count > 1 else rf"\d{{1,{most}}}"


def _names(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    return names if count == 4 else _short(names)


def read(text: pa.Array, pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Read times by a pattern.

    Returns:
        int64 microseconds since 1970-01-01 00:00:00 UTC, and whether the text is such a time.

    Raises:
        QueryError: the pattern is none.
    """
    expression, letters = _reader(pattern)
    if not letters:
        raise QueryError(f"the pattern {pattern!r} names no part of a time")
    matched = pc.extract_regex(text, expression)
    valid = np.asarray(matched.is_valid())
    parts = {letter: (count, matched.field(place)) for place, (letter, count) in enumerate(letters)}
    numbers = {letter: _number(letter, *part) for letter, part in parts.items()}
    rows = len(text)
    days, is_date = _date(numbers, rows)
    micros, is_time = _time(numbers, rows)
    offset = sum(numbers.get(letter, 0) for letter in "XxZzVO")
    return days * calendar.SECONDS * 10**6 + micros - offset, valid & is_date & is_time


_DEFAULTS = {"y": 1970, "M": 1, "d": 1}


def _number(letter: str, count: int, text: pa.Array) -> np.ndarray:
    """Give the numbers that a group's text is, the letter's default where it is missing."""
    text = pc.fill_null(text, "")
    missing = np.asarray(pc.equal(text, ""))
    if letter == "M" and count >= 3:
        names = [name.lower() for name in _names(MONTH_NAMES, count)]
        found = pc.index_in(pc.utf8_lower(text), pa.array(names))
        numbers = np.asarray(pc.fill_null(found, 0)).astype(np.int64) + 1
    elif letter == "E":
        return np.zeros(len(text), np.int64)
    elif letter == "a":
        numbers = np.asarray(pc.equal(pc.utf8_upper(text), "PM")).astype(np.int64)
    elif letter in "XxZzVO":
        return _offset(text)
    else:
        digits = pc.utf8_rpad(text, 9, "0") if letter == "S" else text
        digits = pc.if_else(pa.array(missing), "0", digits)
        numbers = np.asarray(digits.cast(pa.int64()))
        numbers = numbers + 2000 if letter == "y" and count == 2 else numbers
    return np.where(missing, _DEFAULTS.get(letter, 0), numbers)


def _offset(text: pa.Array) -> np.ndarray:
    """Read offsets such as +02:00 as microseconds."""
    digits = pc.replace_substring_regex(text, "[^0-9]", "")
    none = pc.equal(digits, "")
    padded = pc.utf8_rpad(pc.if_else(none, "0000", digits), 4, "0")
    hours = np.asarray(pc.utf8_slice_codeunits(padded, 0, 2).cast(pa.int64()))
    minutes = np.asarray(pc.utf8_slice_codeunits(padded, 2, 4).cast(pa.int64()))
    sign = np.where(np.asarray(pc.starts_with(text, "-")), -1, 1)
    return sign * (hours * 60 + minutes) * 60 * 10**6


def _date(numbers: dict[str, np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    years = numbers.get("y", np.full(rows, 1970))
    if "D" in numbers:
        days = calendar.day_number(years, np.ones(rows, np.int64), np.ones(rows, np.int64))
        day = days + numbers["D"] - 1
        return day, (numbers["D"] >= 1) & (calendar.year_of(day) == years)
    months = numbers.get("M", np.ones(rows, np.int64))
    day = numbers.get("d", np.ones(rows, np.int64))
    valid = calendar.is_day(years, np.clip(months, 1, 12), day) & (months >= 1) & (months <= 12)
    return calendar.day_number(years, np.where(valid, months, 1), np.where(valid, day, 1)), valid


def _time(numbers: dict[str, np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    zero = np.zeros(rows, np.int64)
    valid = np.ones(rows, bool)
    hours = zero
    for letter, low, high in (("H", 0, 23), ("k", 1, 24), ("h", 1, 12), ("K", 0, 11)):
        if letter in numbers:
            hours = numbers[letter]
            valid = valid & (hours >= low) & (hours <= high)
            hours = hours % (24 if letter in "Hk" else 12)
    hours = hours + 12 * numbers["a"] if "a" in numbers else hours
    minutes, seconds = numbers.get("m", zero), numbers.get("s", zero)
    valid = valid & (minutes < 60) & (seconds < 60)
    whole = (hours * 60 + minutes) * 60 + seconds
    return whole * 10**6 + numbers.get("S", zero) // 1000, valid
