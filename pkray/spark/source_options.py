"""The options of the batch source: text that any user of a Spark session may write."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pkray.errors import OptionError
from pkray.scan.moment import LATEST, Moment

_STORAGE = "storage."
_NAMES = ("path", "table", "columns", "filter", "tag", "timestamp", "snapshot-id", "watermark")
_NOT_STORAGE = ("", "url", "warehouse", "runtime", "runtime_options")
"""Other arguments of what opens warehouses."""
_MOST_CHARACTERS = 64 << 10
"""Of an option and its value: they go to every task."""
_MOST_DIGITS = 19
"""Of a 64-bit number."""


@dataclass(frozen=True)
class SourceOptions:
    """The table that is read, and what of it.

    Args:
        path: the warehouse.
        table: ``database.table``, or with the name of a branch or a system table.
        storage: what the object store needs.
    """

    path: str
    table: str
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    at: Moment = LATEST
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options as Spark hands them on, with keys in any case.

        Raises:
            OptionError: a key that is unknown, a value that is none of its key's or longer than
                65,536 characters, no warehouse or no table; a moment is named twice.
        """
        given = {key.lower(): value for key, value in options.items()}
        for key, value in given.items():
            _check(key, value)
        if not given.get("path") or not given.get("table"):
            raise OptionError(
                "the pkray source needs the options path (the warehouse) and table "
                '(database.table): give them to spark.read.format("pkray"), or to CREATE '
                "TEMPORARY VIEW … USING pkray OPTIONS (…), as Spark does not pass on those of "
                "CREATE TABLE"
            )
        columns, timestamp = given.get("columns"), given.get("timestamp")
        return cls(
            given["path"],
            given["table"],
            tuple(name.strip() for name in columns.split(",")) if columns else None,
            given.get("filter"),
            Moment.from_arguments(
                _number(given, "snapshot-id"),
                given.get("tag"),
                int(timestamp) if timestamp and _is_number(timestamp) else timestamp,
                _number(given, "watermark"),
            ),
            {
                key[len(_STORAGE) :]: value
                for key, value in given.items()
                if key.startswith(_STORAGE)
            },
        )


def _check(key: str, value: str) -> None:
    if len(key) + len(value) > _MOST_CHARACTERS:
        raise OptionError(
            f"option {key[:80]!r} of the pkray source has {len(value):,} characters: it takes "
            f"{_MOST_CHARACTERS:,}",
            key=key[:80],
        )
    if key in _NAMES:
        return
    storage = key.removeprefix(_STORAGE)
    if storage != key and storage not in _NOT_STORAGE:
        return
    near = difflib.get_close_matches(key, _NAMES, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise OptionError(
        f"option {key!r} is unknown to the pkray source: {hint}it takes {', '.join(_NAMES)} and "
        "storage.<name>",
        key=key,
    )


def _number(options: Mapping[str, str], key: str) -> int | None:
    text = options.get(key)
    if text is not None and not _is_number(text):
        raise OptionError(f"{key} is {text[:80]!r}: give a number", key=key)
    return None if text is None else int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
