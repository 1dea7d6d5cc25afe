"""Finds the partitions that are old enough to expire."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

from pkray.errors import UnsupportedError
from pkray.format.data_file import ManifestEntry
from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema


def expired_partitions(
    schema: TableSchema, entries: Iterable[ManifestEntry], now: int
) -> list[bytes]:
    """Return the partitions that the table's options expire, oldest first.

    ``partition.expiration-strategy`` ``values-time`` goes by the time that a partition's values
    stand for, ``update-time`` by its newest file; ``partition.expiration-time`` is the age, and
    ``partition.expiration-max-num`` bounds how many go at once. Partitions whose values make no
    time stay.

    Args:
        entries: the live files.
        now: epoch milliseconds.
    """
    options = schema.core
    age = options.partition_expiration_time
    if age is None or not schema.partition_keys:
        return []
    updated: dict[bytes, int] = {}
    for entry in entries:
        made = entry.file.creation_time or 0
        updated[entry.partition] = max(made, updated.get(entry.partition, made))
    if options.partition_expiration_strategy == "update-time":
        times = updated
    else:
        times = _times(schema, updated)
    old = [partition for partition, when in times.items() if when < now - age]
    old.sort(key=lambda partition: (times[partition], partition))
    return old[: options.partition_expiration_max_num]


def _times(schema: TableSchema, partitions: Iterable[bytes]) -> dict[bytes, int]:
    options, spec = schema.core, PartitionSpec(schema)
    reader = PartitionTime(
        options.partition_timestamp_formatter, options.partition_timestamp_pattern
    )
    times: dict[bytes, int] = {}
    for partition in partitions:
        when = reader.parse(spec.to_dict(partition))
        if when is not None:
            times[partition] = round(when.timestamp() * 1000)
    return times


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute"}
_FIELDS |= {"s": "second", "S": "fraction"}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_PLAIN = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?P<fraction>\.\d+)?)?)?"
)


class PartitionTime:
    """Reads the time of a partition; times are of the machine's own zone, as in Paimon.

    Args:
        formatter: ``partition.timestamp-formatter``; by default ``yyyy-MM-dd HH:mm:ss`` and
            ``yyyy-MM-dd``.
        pattern: ``partition.timestamp-pattern``, such as ``$year-$month-$day``; by default the
            first partition column.

    Raises:
        UnsupportedError: a letter of the formatter that pkray does not read.
    """

    def __init__(self, formatter: str | None = None, pattern: str | None = None) -> None:
        self._pattern = pattern
        self._regex = _PLAIN if formatter is None else re.compile(_compiled(formatter))

    def parse(self, values: Mapping[str, object]) -> datetime | None:
        """Read the time of partition values by column; None where they make none."""
        if self._pattern is None:
            text = _text(next(iter(values.values())))
        else:
            text = self._pattern
            for name in sorted(values, key=len, reverse=True):
                text = text.replace(f"${name}", _text(values[name]))
        found = self._regex.fullmatch(text)
        return None if found is None else _time(found.groupdict())


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return value.isoformat() if isinstance(value, date) else str(value)


def _time(parts: Mapping[str, str | None]) -> datetime | None:
    year, month = parts.get("year") or "1970", parts.get("month") or "1"
    if len(year) == 2:
        year = f"20{year}"
    number = int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1
    rest = [int(parts.get(name) or 0) for name in ("hour", "minute", "second")]
    digits = (parts.get("fraction") or "").lstrip(".")[:6].ljust(6, "0")
    try:
        day = datetime(int(year), number, int(parts.get("day") or 1))
        return day + timedelta(
            hours=rest[0], minutes=rest[1], seconds=rest[2], microseconds=int(digits)
        )
    except ValueError:
        return None


def _compiled(formatter: str) -> str:
    """Compile a DateTimeFormatter's pattern to a regular expression."""
    out, seen = [], set()
    for token in _TOKEN.finditer(formatter):
        quoted, letter, other = token.groups()
        if letter is None:
            plain = other if quoted is None else quoted.replace("''", "'") or "'"
            optional = {"[": "(?:", "]": ")?"}.get(other) if quoted is None else None
            out.append(optional or re.escape(plain))
            continue
        name, width = _FIELDS.get(letter), len(token.group())
        if name is None or name in seen:
            raise UnsupportedError(
                f"partition.timestamp-formatter {formatter!r} is not supported: {token.group()!r} "
                "cannot be read; use y, M, d, H, m, s and S, each once",
                formatter=formatter,
            )
        seen.add(name)
        out.append(f"(?P<{name}>{_digits(letter, width)})")
    return "".join(out)


def _digits(letter: str, width: int) -> str:
    if letter == "M" and width > 2:
        return f"(?i:{'|'.join(_MONTHS)})" + ("" if width == 3 else "[a-z]*")
    if letter in "yu" and width != 4:
        return r"\d{2}" if width == 2 else r"\d{4,}"
    return rf"\d{{{width}}}" if width > 1 else r"\d{1,9}" if letter == "S" else r"\d{1,2}"
