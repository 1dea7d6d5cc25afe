"""The options of the source and the sink: text that any user of a Spark session may write."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pkray.errors import OptionError
from pkray.rows.input import Missing
from pkray.scan.moment import LATEST, Moment

_STORAGE = "storage."
_NAMES = ("path", "table", "columns", "filter", "tag", "timestamp", "snapshot-id", "watermark")
_OF_READ_STREAMS = ("consumer", "max-rows", "row-kind-column")
"""Options that ``readStream`` alone takes."""
_SINK_NAMES = (
    "path",
    "table",
    "commit-user",
    "commit-identifier",
    "row-kind-column",
    "missing",
    "merge-schema",
)
_OF_STREAMS = ("checkpointlocation", "queryname")
"""Spark's own, which it hands on to the sink of a stream."""
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
        at: the snapshot that is read; of a stream, where it begins.
        consumer, max_rows, row_kinds: of a stream alone, as ``StreamRequest`` has them.
    """

    path: str
    table: str
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    at: Moment = LATEST
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    consumer: str | None = None
    max_rows: int | None = None
    row_kinds: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options as Spark hands them on, with keys in any case.

        Raises:
            OptionError: a key that is unknown, a value that is none of its key's or longer than
                65,536 characters, no warehouse or no table; a moment is named twice.
        """
        given = _checked(options, (*_NAMES, *_OF_READ_STREAMS))
        if not given.get("path") or not given.get("table"):
            raise OptionError(
                "the pkray source needs the options path (the warehouse) and table "
                '(database.table): give them to spark.read.format("pkray"), or to CREATE '
                "TEMPORARY VIEW … USING pkray OPTIONS (…), as Spark does not pass on those of "
                "CREATE TABLE"
            )
        columns, timestamp = given.get("columns"), given.get("timestamp")
        max_rows = _number(given, "max-rows")
        if max_rows == 0:
            raise OptionError("max-rows is 0: give 1 or more", key="max-rows")
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
            _storage(given),
            given.get("consumer"),
            max_rows,
            given.get("row-kind-column"),
        )

    @property
    def of_stream(self) -> dict[str, Any]:
        """The options that say that a stream is read."""
        values = (self.consumer, self.max_rows, self.row_kinds)
        named = zip(_OF_READ_STREAMS, values, strict=True)
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True)
class SinkOptions:
    """The table that is written, and how.

    Args:
        path: the warehouse.
        table: ``database.table``, or with the name of a branch.
        commit_user, commit_identifier: the commit's name; the identifier of a batch alone.
        row_kinds: a column of '+I', '-U', '+U', '-D'; None: all rows are upserts.
        missing, merge_schema: as `Table.open_writer` takes them.
        storage: what the object store needs.
    """

    path: str
    table: str
    commit_user: str | None = None
    commit_identifier: int | None = None
    row_kinds: str | None = None
    missing: Missing = "error"
    merge_schema: bool = False
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        """Parse the options as Spark hands them on, with keys in any case.

        Raises:
            OptionError: a key that is unknown, a value that is none of its key's or longer than
                65,536 characters, no warehouse or no table, or half of a commit's name.
        """
        own = {k: v for k, v in options.items() if not (streaming and k.lower() in _OF_STREAMS)}
        given = _checked(own, _SINK_NAMES)
        if not given.get("path") or not given.get("table"):
            raise OptionError(
                "the pkray sink needs the options path (the warehouse; also as save(path)) and "
                "table (database.table); INSERT INTO takes what CREATE TEMPORARY VIEW … USING "
                "pkray OPTIONS (…) made, as Spark does not pass on the options of CREATE TABLE"
            )
        user, identifier = given.get("commit-user"), _number(given, "commit-identifier")
        if streaming and identifier is not None:
            raise OptionError(
                "the number of a micro-batch is its commit-identifier: leave the option out",
                key="commit-identifier",
            )
        if not streaming and (user is None) != (identifier is None):
            raise OptionError(
                "commit-user and commit-identifier name a commit together: give both, or neither",
                key="commit-user",
            )
        missing = given.get("missing", "error")
        if missing not in ("error", "null"):
            raise OptionError(f"missing is {missing[:80]!r}: give error or null", key="missing")
        merge = given.get("merge-schema", "false").lower()
        if merge not in ("true", "false"):
            raise OptionError(
                f"merge-schema is {merge[:80]!r}: give true or false", key="merge-schema"
            )
        return cls(
            given["path"],
            given["table"],
            user,
            identifier,
            given.get("row-kind-column"),
            "null" if missing == "null" else "error",
            merge == "true",
            _storage(given),
        )


def _checked(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    given = {key.lower(): value for key, value in options.items()}
    for key, value in given.items():
        _check(key, value, names)
    return given


def _storage(given: Mapping[str, str]) -> dict[str, str]:
    return {key[len(_STORAGE) :]: each for key, each in given.items() if key.startswith(_STORAGE)}


def _check(key: str, value: str, names: Sequence[str]) -> None:
    if len(key) + len(value) > _MOST_CHARACTERS:
        raise OptionError(
            f"option {key[:80]!r} of the pkray source has {len(value):,} characters: it takes "
            f"{_MOST_CHARACTERS:,}",
            key=key[:80],
        )
    if key in names:
        return
    storage = key.removeprefix(_STORAGE)
    if storage != key and storage not in _NOT_STORAGE:
        return
    near = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise OptionError(
        f"option {key!r} is unknown to the pkray source: {hint}it takes {', '.join(names)} and "
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
