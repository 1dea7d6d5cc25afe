"""Books of what tables hold, snapshot by snapshot, kept beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pkray
from tests.faults.lives.machines import World
from tests.faults.lives.plans import Bag, Row, Rows

Layout = Literal["plain", "parted", "moving"]
Producer = Literal["none", "input", "lookup", "full-compaction"]

COLUMNS = [
    ("k", "BIGINT NOT NULL"),
    ("g", "BIGINT NOT NULL"),
    ("v", "BIGINT"),
    ("p", "BIGINT NOT NULL"),
]
SOURCES, QUERY = "pkray.query.sources", "pkray.query.name"
"""Properties of a result's snapshots: the positions of the sources, and who made it."""


@dataclass
class History:
    """What a table held at each of its snapshots; 0 is before the first one."""

    at: dict[int, Rows] = field(default_factory=lambda: {0: ()})

    def until(self, snapshot: int) -> History:
        """Give a history that goes on from a snapshot of this one."""
        return History({number: rows for number, rows in self.at.items() if number <= snapshot})

    @property
    def newest(self) -> int:
        return max(self.at)


Histories = Mapping[str, History]


def positions_in(histories: Histories, positions: Mapping[str, int]) -> dict[str, Rows] | None:
    """Give what sources held at positions; None where one was never there."""
    found = {}
    for name, at in positions.items():
        history = histories.get(name)
        if history is None or max(at, 0) not in history.at:
            return None
        found[name] = history.at[max(at, 0)]
    return found


@dataclass(frozen=True)
class Stamp:
    """Tells a snapshot from another one of the same number."""

    number: int
    mark: int


def snapshots_of(world: World, table: str) -> list[Stamp]:
    """List the snapshots of a table that are there, in order."""
    folder = f"{folder_of(table)}snapshot/snapshot-"
    found = world.below(folder)
    return sorted(
        (Stamp(int(path.removeprefix(folder)), file.mark) for path, file in found.items()),
        key=lambda each: each.number,
    )


def snapshot_json(world: World, table: str, number: int) -> dict[str, Any]:
    data = world.files[f"{folder_of(table)}snapshot/snapshot-{number}"].data
    return dict(json.loads(data))


def tells_all(world: World, table: str) -> bool:
    """Whether the changelog of a table tells of all rows that it holds; of those that tell of rows
    when they are compacted.
    """
    there = snapshots_of(world, table)
    kinds = ("COMPACT", "OVERWRITE")
    return not there or snapshot_json(world, table, there[-1].number)["commitKind"] in kinds


def folder_of(table: str) -> str:
    database, name = table.split(".")
    return f"w/{database}.db/{name}/"


def folder_of_query(name: str) -> str:
    return f"w/.queries/{name}/"


def definition_of(world: World, query: str) -> dict[str, Any]:
    """Read what a query that is there is."""
    prefix = f"{folder_of_query(query)}definitions/definition-"
    numbers = [int(path.removeprefix(prefix)) for path in world.below(prefix)]
    return dict(json.loads(world.files[f"{prefix}{max(numbers)}"].data))


def folder_of_life(world: World, query: str) -> str:
    """Name the folder of what is kept of a query that is there."""
    return f"{folder_of_query(query)}lives/{definition_of(world, query)['begun']}/"


def rows_of(table: Any, snapshot: int) -> Bag:
    """Read a snapshot, without the column that a query adds as a key."""
    rows = table.at(snapshot_id=snapshot).to_arrow()
    names = [name for name in rows.column_names if name != "_row_key"]
    return Counter(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


@dataclass
class Source:
    """A table that queries read, and what is in it.

    Attributes:
        rows: by their keys.
        history: of the table that is there now; another one once it is made anew or rolled back.
        lacks_told: whether it went back to between rows and what was told of them: that comes with
            the next commit.
    """

    name: str
    layout: Layout
    producer: Producer
    world: World
    catalog: pkray.Catalog
    rows: dict[Row, Row] = field(default_factory=dict)
    history: History = field(default_factory=History)
    lives: int = 0
    lacks_told: bool = False

    def create(self) -> None:
        """Make the table."""
        parted = {"partition_keys": ["p"]} if self.layout != "plain" else {}
        options = {"changelog-producer": self.producer}
        if self.layout == "moving":
            options["bucket"] = "-1"
        keys = ["p", "k"] if self.layout == "parted" else ["k"]
        self.catalog.create_table(self.name, COLUMNS, keys, options=options, **parted)  # type: ignore[arg-type]
        self.rows, self.history, self.lives = {}, History(), self.lives + 1
        self.lacks_told = False
        self._open()

    def _open(self) -> None:
        self.table = self.catalog.load_table(self.name)
        self._writer: Any = None

    @property
    def exists(self) -> bool:
        return bool(self.world.below(f"{folder_of(self.name)}schema/"))

    def key(self, row: Row) -> Row:
        return (row[3], row[0]) if self.layout == "parted" else (row[0],)

    def write(self, rows: Sequence[Row], deleted: Sequence[Row]) -> None:
        """Add or replace rows, and delete others, in one commit."""
        if self._writer is None:
            self._writer = self.table.open_writer(missing="null")
        if rows:
            self._writer.upsert([dict(zip("kgvp", row, strict=True)) for row in rows])
        for row in rows:
            self.rows[self.key(row)] = row
        gone = [self.rows.pop(key) for key in map(self.key, deleted) if key in self.rows]
        if gone:
            names = ("p", "k") if self.layout != "plain" else ("k",)
            self._writer.delete([{name: row["kgvp".index(name)] for name in names} for row in gone])
        self._writer.commit()
        self.lacks_told = False
        self._record()

    def overwrite(self, partition: int | None, rows: Sequence[Row]) -> None:
        """Replace all rows, or those of a partition."""
        named = {} if partition is None else {"p": partition}
        nulls = {name: None for name in self.table.schema.names if name not in tuple("kgvp")}
        self.table.overwrite([dict(zip("kgvp", row, strict=True)) | nulls for row in rows], named)
        left = [row for row in self.rows.values() if partition is not None and row[3] != partition]
        self.rows = {self.key(row): row for row in (*left, *rows)}
        self._record()

    def drop_partition(self, partition: int) -> None:
        self.table.drop_partitions([{"p": partition}])
        self.rows = {key: row for key, row in self.rows.items() if row[3] != partition}
        self._record()

    def compact(self) -> None:
        self.table.compact(full=True)
        self.lacks_told = False
        self._record()

    def expire(self, retained: int) -> None:
        """Expire all snapshots but the newest, and those that somebody holds."""
        self.table.expire_snapshots(retain_max=retained, retain_min=1, older_than=self.world.now())

    def add_column(self, name: str) -> None:
        self.table.alter.add_column(name, "INT")
        self._open()

    def drop_and_add(self, name: str) -> None:
        """Drop a column with its values, and add one of its name."""
        self.table.alter.drop_column(name)
        self.table.alter.add_column(name, "BIGINT")
        self._open()
        index = "kgvp".index(name)
        self.rows = {key: (*row[:index], None, *row[index + 1 :]) for key, row in self.rows.items()}
        self.history = History()
        self._record()

    def make_anew(self) -> None:
        """Drop the table, whoever reads it, and make another one of its name."""
        self.catalog.drop_table(self.name, force=True)
        self.create()

    def roll_back(self, snapshot: int) -> None:
        """Go back to a snapshot, whoever reads it."""
        self.table.rollback_to(snapshot, force=True)
        rows = self.history.at[snapshot]
        self.history = self.history.until(snapshot)
        self.rows = {self.key(row): row for row in rows}
        self.lacks_told = not self.tells_all
        self._open()

    def held(self) -> list[int]:
        """List the snapshots that can be gone back to."""
        return [each.number for each in snapshots_of(self.world, self.name)]

    @property
    def tells_all(self) -> bool:
        """Whether the changelog tells of all rows."""
        if self.producer == "full-compaction" or self.lacks_told:
            return False  # of level 0 it knows nothing
        return self.producer in ("none", "input") or tells_all(self.world, self.name)

    def _record(self) -> None:
        rows = tuple(sorted(self.rows.values(), key=repr))
        newest = snapshots_of(self.world, self.name)
        for number in range(max(self.history.at) + 1, (newest[-1].number if newest else 0) + 1):
            self.history.at[number] = rows


@dataclass
class Seen:
    """A snapshot that was looked at.

    Attributes:
        said: what its file says.
        rows: all that the table held.
    """

    stamp: Stamp
    said: dict[str, Any]
    rows: Bag

    @property
    def positions(self) -> dict[str, int]:
        """The positions of the sources that it names; empty where no query made it."""
        text = self.properties.get(SOURCES)
        return {} if text is None else {name: int(at) for name, at in json.loads(text).items()}

    @property
    def query(self) -> str:
        """The query that made it."""
        user = str(self.said["commitUser"]).removeprefix("query-")
        return self.properties.get(QUERY, user)

    @property
    def properties(self) -> dict[str, str]:
        return self.said.get("properties") or {}


@dataclass
class Result:
    """A table that queries write, as it is found to be.

    Attributes:
        seen: the snapshots that were looked at.
        history: what they held; another one once snapshots were taken away.
        parts: what each query added to what it holds now, and users, under no name.
        users: the rows of users, by their keys.
    """

    name: str
    world: World
    catalog: pkray.Catalog
    seen: list[Stamp] = field(default_factory=list)
    history: History = field(default_factory=History)
    parts: dict[str, Bag] = field(default_factory=dict)
    users: dict[Row, Row] = field(default_factory=dict)

    def new(self) -> list[Seen]:
        """Look at the snapshots that came since the last time, in order."""
        there = snapshots_of(self.world, self.name)
        known, left = set(self.seen), set(there)
        gone = [each.number for each in self.seen if each not in left]
        oldest = there[0].number if there else 0
        if any(number >= oldest for number in gone):  # rolled back, not expired
            self.history = self.history.until(min(gone) - 1)
        found = [self._look(stamp) for stamp in there if stamp not in known]
        self.seen = there
        return found

    def _look(self, stamp: Stamp) -> Seen:
        rows = rows_of(self.catalog.load_table(self.name), stamp.number)
        self.history.at[stamp.number] = tuple(rows.elements())
        return Seen(stamp, snapshot_json(self.world, self.name, stamp.number), rows)

    @property
    def newest(self) -> Bag:
        return Counter(self.history.at[self.history.newest])

    @property
    def user_rows(self) -> Bag:
        return Counter(self.users.values())

    def others_than(self, query: str) -> Bag:
        """Give the rows that others than a query added."""
        return sum((bag for name, bag in self.parts.items() if name != query), Counter[Row]())

    @property
    def tells_all(self) -> bool:
        """Whether the newest snapshot tells of all rows: who adds them may die before that."""
        return tells_all(self.world, self.name)
