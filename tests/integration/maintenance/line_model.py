"""What a table's main line or a branch holds at each snapshot, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from pkray.schema.types import DataType

Key = tuple[str, int]
Row = dict[int, Any]
"""Values beside the key, by column id; those not there are null."""
Rows = dict[Key, Row]


class Column(NamedTuple):
    id: int
    name: str
    type: str


Columns = tuple[Column, ...]
KEYS: list[Key] = [(p, k) for p in ("x", "y=/z", "w") for k in range(5)]
KEY = (0, 1)
"""Ids of the partition column and the key's other one."""
SUMMED = 2
"""Id of the column that the engine ``aggregation`` sums up."""
FIRST: Columns = (
    Column(0, "p", "STRING"),
    Column(1, "k", "INT"),
    Column(SUMMED, "n", "INT"),
    Column(3, "s", "STRING"),
)


@dataclass(frozen=True)
class Change:
    """A row that was written; None deletes the key."""

    key: Key
    row: Row | None


def merge(engine: str, old: Row | None, new: Row | None) -> Row | None:
    """What a row becomes."""
    if new is None:
        return None
    if old is None or engine == "deduplicate":
        return dict(new)
    if engine == "first-row":
        return old
    merged = {**old, **{number: value for number, value in new.items() if value is not None}}
    if engine == "aggregation" and None not in (old.get(SUMMED), new.get(SUMMED)):
        merged[SUMMED] = old[SUMMED] + new[SUMMED]
    return merged


def merged(engine: str, rows: Rows, changes: Iterable[Change], columns: Columns) -> Rows:
    """The rows with changes on top, under these columns."""
    known = {column.id for column in columns}
    rows = dict(rows)
    for change in changes:
        new = change.row
        if new is not None:
            new = {number: value for number, value in new.items() if number in known}
        row = merge(engine, rows.get(change.key), new)
        if row is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = row
    return rows


def under(rows: Rows, columns: Columns) -> Rows:
    """The rows without the columns that are no more."""
    known = {column.id for column in columns}
    return {key: {n: v for n, v in row.items() if n in known} for key, row in rows.items()}


def shown(rows: Rows, columns: Columns) -> dict[Key, tuple[Any, ...]]:
    """As a read under these columns gives them."""
    return {
        key: tuple(_plain(row.get(c.id), c.type) for c in columns if c.id not in KEY)
        for key, row in rows.items()
    }


def read(table: pa.Table | pa.RecordBatch, columns: Columns) -> dict[Key, tuple[Any, ...]]:
    """The same of what was read."""
    found = [(row_key(row, columns), row) for row in table.to_pylist()]
    assert len(dict(found)) == len(found), "a key is there twice"
    return {key: tuple(row[c.name] for c in columns if c.id not in KEY) for key, row in found}


def row_key(row: dict[str, Any], columns: Columns) -> Key:
    names = {column.id: column.name for column in columns}
    return row[names[0]], row[names[1]]


def by_id(row: dict[str, Any], columns: Columns) -> Row:
    return {c.id: row[c.name] for c in columns if c.id not in KEY}


def _plain(value: Any, kind: str) -> Any:
    return None if value is None else pa.scalar(value).cast(DataType.parse(kind).arrow).as_py()


@dataclass(frozen=True)
class SnapshotSelector:
    """A snapshot.

    Args:
        rows: all that was committed up to it.
        schema_id: under which it is read.
        uuid: which of several of one id it is.
        millis: when it was committed, epoch milliseconds.
        told: what the changes up to it say; None where that is not known.
        is_visible: whether reads show all of ``rows``.
    """

    id: int
    rows: Rows
    schema_id: int
    uuid: str
    millis: int
    told: Rows | None
    is_visible: bool
    kind: str


@dataclass
class Consumer:
    """What a reader of changes holds.

    Args:
        keeps: the oldest snapshot that it needs.
    """

    next_id: int
    keeps: int
    state: Rows


@dataclass
class Line:
    """A history: the table's own, or a branch's."""

    name: str | None
    schemas: dict[int, Columns]
    buckets: dict[int, int]
    rows: Rows = field(default_factory=dict)
    moments: dict[int, SnapshotSelector] = field(default_factory=dict)
    live: list[int] = field(default_factory=list)
    tags: dict[str, SnapshotSelector] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)

    @property
    def bucket_count(self) -> int:
        return self.buckets[self.schema_id]

    @property
    def schema_id(self) -> int:
        return max(self.schemas)

    @property
    def columns(self) -> Columns:
        return self.schemas[self.schema_id]

    @property
    def latest(self) -> int:
        return self.live[-1] if self.live else 0

    def go_back(self, moment: SnapshotSelector) -> None:
        """To a snapshot: the columns stay."""
        self.moments = {n: m for n, m in self.moments.items() if n < moment.id}
        self.moments[moment.id] = moment
        self.live = [n for n in self.live if n < moment.id] + [moment.id]
        self.tags = {name: m for name, m in self.tags.items() if m.id <= moment.id}
        self.consumers = {n: c for n, c in self.consumers.items() if c.next_id <= moment.id + 1}
        self.rows = under(moment.rows, self.columns)

    def branch(self, name: str, tag: str | None) -> Line:
        if tag is None:
            return Line(name, dict(self.schemas), dict(self.buckets))
        moment = self.tags[tag]
        schemas = {n: c for n, c in self.schemas.items() if n <= moment.schema_id}
        found = Line(name, schemas, {n: self.buckets[n] for n in schemas})
        found.moments = {moment.id: moment}
        found.live = [moment.id]
        found.tags = {tag: moment}
        found.rows = under(moment.rows, found.columns)
        return found
