"""Option values as text: booleans, whole numbers, sizes, durations, lists and choices."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from pkray.arguments import file_names

MB = 1 << 20
HOUR = 3_600_000
LONGEST = 1 << 63
"""Sizes, durations and whole numbers are below it: they are stored and sent as 64 bits."""

_SIZE_UNITS = {"": 0, "b": 0, "bytes": 0}
_SIZE_UNITS |= {"k": 10, "kb": 10, "kib": 10, "kibibytes": 10}
_SIZE_UNITS |= {"m": 20, "mb": 20, "mib": 20, "mebibytes": 20}
_SIZE_UNITS |= {"g": 30, "gb": 30, "gib": 30, "gibibytes": 30}
_SIZE_UNITS |= {"t": 40, "tb": 40, "tib": 40, "tebibytes": 40}

_SECOND = 1_000_000_000
_NANOS: dict[str, int] = {"": 1_000_000}
_NANOS |= dict.fromkeys(("d", "day", "days"), 86_400 * _SECOND)
_NANOS |= dict.fromkeys(("h", "hour", "hours"), 3_600 * _SECOND)
_NANOS |= dict.fromkeys(("m", "min", "minute", "minutes"), 60 * _SECOND)
_NANOS |= dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND)
_NANOS |= dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000)
_NANOS |= dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000)
_NANOS |= dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1)

_PREFIX_BYTES = 100  # what makes a name unique, and the end of an unfinished file's, fit after it

_QUANTITY = re.compile(r"(\d+)\s*([a-zµ]*)")


class Kind:
    """Reads the text of one kind of option, and says in words what it takes."""

    def __init__(self, name: str, parse: Callable[[str], Any], allowed: str) -> None:
        self.name = name
        self.allowed = allowed
        self._parse = parse

    def parse(self, text: str) -> Any:
        """Parse the value. Raises ValueError when the text is not of this kind."""
        return self._parse(text.strip())


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _quantity(text: str, units: dict[str, int]) -> tuple[int, int]:
    match = _QUANTITY.fullmatch(text.lower())
    if match is None or match.group(2) not in units:
        raise ValueError(text)
    return int(match.group(1)), units[match.group(2)]


def _size(text: str) -> int:
    number, shift = _quantity(text, _SIZE_UNITS)
    return _within(number << shift, text)


def _within(number: int, text: str, low: int | None = None, high: int | None = None) -> int:
    least = -LONGEST if low is None else low
    most = LONGEST - 1 if high is None else high
    if not least <= number <= most:
        raise ValueError(text)
    return number


def duration_millis(text: str) -> int:
    """Read a duration in milliseconds.

    Raises:
        ValueError: the text is no duration.
    """
    number, nanos = _quantity(text, _NANOS)
    return _within(number * nanos // 1_000_000, text)


def duration_text(text: str) -> str:
    """Write a duration as a number and a unit of ``ms``, ``s``, ``min``, ``h`` or ``d``.

    Raises:
        ValueError: the text is no duration.
    """
    number, nanos = _quantity(text, _NANOS)
    named = {_NANOS[unit]: unit for unit in ("ms", "s", "min", "h", "d")}
    return f"{number} {named[nanos]}" if nanos in named else f"{duration_millis(text)} ms"


def _part_of_path(text: str) -> str:
    if file_names.fault(text, _PREFIX_BYTES) is not None:
        raise ValueError(text)
    return text


def _file_prefix(text: str) -> str:
    if text.startswith("."):
        raise ValueError(text)
    return _part_of_path(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _by_level(text: str) -> tuple[tuple[int, str], ...]:
    pairs = (pair.partition(":") for pair in text.split(",") if pair.strip())
    return tuple((int(level), value.strip().lower()) for level, _, value in pairs)


BOOLEAN = Kind("boolean", _boolean, "true or false")
STRING = Kind("text", str, "text")
FILE_PREFIX = Kind(
    "file prefix",
    _file_prefix,
    f"the start of a file's name: at most {_PREFIX_BYTES} bytes {file_names.ALLOWED}, and no dot "
    "first",
)
FOLDER_NAME = Kind(
    "folder name",
    _part_of_path,
    f"a folder's name: at most {_PREFIX_BYTES} bytes {file_names.ALLOWED}",
)
NAMES = Kind("columns", _names, "column names separated by commas")
BY_LEVEL = Kind("by level", _by_level, "a value by level, such as 0:lz4,5:zstd")
SIZE = Kind("size", _size, "a size such as 256 mb, 8MB or 65536 (bytes)")
DURATION = Kind(
    "duration", duration_millis, "a duration such as 1 h, 30min, 7 d or 500 (milliseconds)"
)


def integer(low: int | None = None, high: int | None = None) -> Kind:
    """Take a whole number, at least ``low`` and at most ``high``."""

    def parse(text: str) -> int:
        return _within(int(text), text, low, high)

    bound = "" if low is None else f" of at least {low}"
    bound += "" if high is None else f" and at most {high}"
    return Kind("integer", parse, f"a whole number{bound}")


def size(low: str, high: str | None = None) -> Kind:
    """Take a size, at least ``low`` and at most ``high``."""
    least, most = _size(low), None if high is None else _size(high)

    def parse(text: str) -> int:
        return _within(_size(text), text, least, most)

    bound = f" of at least {low}" + ("" if high is None else f" and at most {high}")
    return Kind("size", parse, f"{SIZE.allowed}{bound}")


POSITIVE_SIZE = size("1")


def _http_url(text: str) -> str:
    """Check that a URL is one of HTTP or HTTPS, without a user in it."""
    parts = urlsplit(text)
    usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    if not usable or parts.username is not None or any(char.isspace() for char in text):
        raise ValueError("no URL of HTTP or HTTPS")
    return text


HTTP_URL = Kind("URL", _http_url, "a URL such as https://host/path, without a user in it")


def choice(*words: str) -> Kind:
    """Take one of some words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return Kind("choice", parse, f"one of {', '.join(words)}")


CODEC = choice("zstd", "snappy", "lz4", "gzip", "none", "uncompressed")
"""The compression of a file."""
