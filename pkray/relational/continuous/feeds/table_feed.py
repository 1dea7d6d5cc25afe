"""Feed the changes of a keyed table, or its rows as of one moment."""

import time
from collections.abc import Iterator
from typing import Any

from pkray import errors
from pkray.changelog.change_history import ChangeHistory
from pkray.clock import now_millis
from pkray.errors import SchemaChangedError
from pkray.expiration.expiry_journal import ExpiryJournal
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.metadata.named_files import known_hint
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshot_marks import SnapshotMarks
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.feeds import feed
from pkray.relational.continuous.feeds.beginnings import Beginning, beginning
from pkray.relational.continuous.feeds.pace import Pace
from pkray.relational.continuous.feeds.table_changes import TableChanges, TableShare
from pkray.relational.continuous.feeds.told_snapshots import ToldSnapshots
from pkray.relational.continuous.log.log import WAYS_ON
from pkray.relational.plan.nodes import Node
from pkray.relational.sources.table import TableSource
from pkray.scan.view import SnapshotView
from pkray.schema.types import DataField
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore
from pkray.table.maintenance.consumers import Consumers
from pkray.table.table import Table

_JUST_SECONDS = 10.0
"""For which a place need not be written again: far less than any time after which it expires."""


class ReadColumns:
    """Checks that a table still has the columns that scans read, under their names and types.

    Others may come and go.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._checked = source.schema.id
        self._numbers: dict[str, int] = {}

    def add(self, number: int, scan: Node) -> None:
        """Take note of a scan.

        Args:
            number: of the scan in the plan.
        """
        for name in scan.fields.names:
            self._numbers.setdefault(name, number)

    def check(self, schema_id: int) -> None:
        """Check the table's schema, if it has changed.

        Args:
            schema_id: of the newest snapshot.

        Raises:
            SchemaChangedError: a column that is read was dropped, renamed or has another type.
        """
        if schema_id == self._checked:
            return
        table = self._source.original
        schema = SchemaStore(table.location.open(), table.name).latest()
        there = {each.id: each for each in schema.fields}
        for before in self._source.schema.fields:
            number = self._numbers.get(before.name)
            if number is not None:
                self._check_column(number, before, there.get(before.id))
        self._checked = schema_id

    def _check_column(self, number: int, before: DataField, now: DataField | None) -> None:
        if now is None:
            said = "was dropped"
        elif now.name != before.name:
            said = f"was renamed to {now.name}"
        elif str(now.type) != str(before.type):
            said = f"was {before.type} and is {now.type} now"
        else:
            return
        table = self._source.name
        raise SchemaChangedError(
            f"column {before.name!r} of {table}, which node {number} (Scan) reads, {said}: change "
            "it back and resume the query, or upgrade the query to a plan that reads it as it is",
            table=table,
            column=before.name,
            node=number,
        )


class TableFeed(feed.Feed):
    """Gives the changes of a keyed table: complete ones, or of mode ``upsert`` what writers added.

    The first time everything that the table holds, as +I, unless its options say another
    beginning.
    """

    store: ObjectStore

    def __init__(self, source: TableSource) -> None:
        self.name = source.name
        self.source = source
        self._table = source.original
        self.pace = Pace.from_options(source.table.schema.core)
        self._changes = TableChanges(source)
        self._told = ToldSnapshots(self._table)
        self._read = ReadColumns(source)
        self.store = self._table.location.open()
        self._marks = SnapshotMarks(self.store)
        self._consumers = Consumers(self.store, self._table._check_same_table)
        self._just_held: tuple[str, int, float] | None = None
        self._begins_at = 0
        self._latest: Snapshot | None = None
        self._has_stirred = False

    def read_by(self, number: int, scan: Node) -> None:
        self._read.add(number, scan)

    def newest(self) -> int:
        latest = self._table.at().snapshot
        if latest is not None:
            self._read.check(latest.schema_id)
        self._has_stirred |= latest != self._latest
        self._latest = latest
        told = self._told_of(latest)
        return told if told >= self._begins_at else feed.NOTHING

    def has_heard(self) -> bool:
        newest = 0 if self._latest is None else self._latest.id
        return known_hint(self.store, paths.LATEST_HINT) > newest

    def stirred(self) -> bool:
        stirred, self._has_stirred = self._has_stirred, False
        return stirred

    def _at(self, snapshot: int) -> SnapshotView:
        """Open a snapshot with the columns of the plan: some may have come after it."""
        view, schema = self._table.at(snapshot_id=snapshot), self.source.schema
        return view.under(schema) if view.schema.id < schema.id else view

    def _told_of(self, latest: Snapshot | None) -> int:
        return 0 if latest is None else self._told.newest(latest)

    def untold(self) -> dict[str, Any] | None:
        """Name the newest snapshot that was seen, where rows of it are still to be told of."""
        latest = self._latest
        if latest is None or self._told_of(latest) >= latest.id:
            return None
        return {"snapshot": latest.id, "full": self._told.by_full_compactions}

    def beginning(self) -> Beginning:
        return beginning(self.source, self._told)

    def next(self, after: int, newest: int, max_rows: int | None) -> int:
        """Take as many snapshots as have at most so many rows, but one at least."""
        if max_rows is None or after < 0:
            return newest
        rows, chosen = 0, after
        for number in range(after + 1, newest):
            snapshot = self._table.at(snapshot_id=number).snapshot
            if snapshot is None:
                break
            rows += snapshot.delta_record_count or 0
            if rows > max_rows and chosen > after:
                break
            if self._told.is_told(snapshot):
                chosen = number
                if rows > max_rows:
                    break
        else:
            return newest
        return chosen if chosen > after else newest

    def lag(self, position: int) -> tuple[int, float]:
        """Say how far a position is behind: in snapshots, and in seconds; by none of compactions
        and the like that bring no changes."""
        position = max(position, 0)
        newest = self._told.last_change(position, self._told_of(self._table.at().snapshot))
        if newest <= position:
            return 0, 0.0
        # Before anything was read, older snapshots may have expired: the newest is what will be.
        snapshot = self._table.at(snapshot_id=position + 1 if position else newest).snapshot
        since = (now_millis() - snapshot.time_millis) / 1000 if snapshot else 0.0
        return newest - position, max(since, 0.0)

    def hold(self, reader: str, position: int) -> None:
        """Keep what comes after a position; before anything was read, what there is now."""
        if self._was_just_held(reader, position):
            return
        for _ in range(feed.TRIES):
            held = position if position > feed.NOTHING else self.newest()
            if held < 0:  # it waits for the next one of which all is told
                held = self._marks.latest_id()
            if self._holds(reader, held, is_read=position == feed.NOTHING):
                self._just_held = reader, held, time.monotonic()
                return
            if position > feed.NOTHING:
                break
            self._begins_at = held + 1  # what was told up to now expires
        raise errors.SnapshotNotFoundError(
            f"snapshot {held} of {self.name} expired before query reader {reader} could hold it",
            table=self.name,
            snapshot_id=held,
        )

    def _was_just_held(self, reader: str, position: int) -> bool:
        """Whether this feed has written so a moment ago; consumers that do not move are written
        again, as they are forgotten otherwise."""
        if self._just_held is None or position <= 0:
            return False
        known, held, at = self._just_held
        return (known, held) == (reader, position) and time.monotonic() - at < _JUST_SECONDS

    def _holds(self, reader: str, held: int, *, is_read: bool) -> bool:
        """Keep what comes after a snapshot, and the rows as of it; false where they expire all the
        same, as an expiry was faster.

        Args:
            is_read: whether the snapshot itself is read, which has to be there then.
        """
        try:
            self._consumers.reset(reader, max(held, 1))
        except errors.SnapshotNotFoundError:
            return False
        if max(held, 1) < _stays_from(self._table):
            return False
        return not is_read or held <= 0 or self._marks.at(held) is not None

    def let_go(self, reader: str) -> None:
        self._just_held = None
        self._table.consumers.delete(reader)

    def is_there(self, position: int) -> bool:
        return position <= 0 or self._marks.at(position) is not None

    def check_readable(self, position: int) -> None:
        earliest = ChangeHistory(self._table.location.open()).earliest_id() or 1
        if feed.NOTHING < position < earliest - 1:
            raise errors.SnapshotNotFoundError(
                f"the query is to read {self.name} on from snapshot {position}, and changes before "
                f"snapshot {earliest} have expired: {WAYS_ON}",
                table=self.name,
                snapshot_id=position,
                earliest=earliest,
            )

    def mark(self, position: int) -> str | None:
        return self._marks.at(position) if position > feed.NOTHING else None

    def check(self, position: int, mark: str | None) -> None:
        if mark is None:
            return
        found = self._marks.at(position)
        if found == mark or (found is None and position <= self._marks.latest_id()):
            return  # as it was, or it has expired
        raise errors.QueryDivergedError(
            f"the query has read {self.name} up to snapshot {position}, and that is "
            f"{'another one' if found else 'not there'} now: the table was rolled back, or another "
            f"is in its place; {WAYS_ON}",
            table=self.name,
            expected=mark,
            found=found,
        )

    def read(self, bounds: feed.Bounds, scan: Node) -> Iterator[Changes]:
        after, until = bounds
        names = list(scan.fields.names)
        if after < 0 < until:
            yield from feed.added(self._at(until).to_batches(names), scan)
        elif until > after >= 0:
            for batch in self._changes.read(after + 1, until):
                yield feed.with_kinds(batch, scan.fields)

    def read_share(self, bounds: feed.Bounds, scan: Node) -> Iterator[Changes]:
        after, until = bounds
        share = TableShare(self._table, self._changes, self.worker, self.workers)
        if self.workers == 1 or not share.is_dealt(after, until):
            yield from super().read_share(bounds, scan)
        elif after < 0 < until:
            yield from feed.added(share.content(self._at(until), scan.fields.names), scan)
        elif until > after >= 0:
            for batch in share.changes(after + 1, until):
                yield feed.with_kinds(batch, scan.fields)


class PinnedFeed(feed.FixedFeed):
    """Gives the rows of a table as of a moment that the query names."""

    def __init__(self, source: TableSource) -> None:
        super().__init__(source.name)
        self._table = source.original
        self._at = source.at

    def hold(self, reader: str, position: int) -> None:
        snapshot = self._table.at(**self._at.named).snapshot
        if snapshot is None:
            return
        try:
            self._table.consumers.reset(f"{reader}-at-{snapshot.id}", snapshot.id)
            is_taken = snapshot.id < _stays_from(self._table)
        except errors.SnapshotNotFoundError:
            is_taken = True
        if is_taken and self._at.tag is None:
            raise errors.SnapshotNotFoundError(
                f"snapshot {snapshot.id} of {self.name} expired before query reader {reader} could "
                "hold it: name another one",
                table=self.name,
                snapshot_id=snapshot.id,
            )

    def let_go(self, reader: str) -> None:
        snapshot = self._table.at(**self._at.named).snapshot
        if snapshot is not None:
            self._table.consumers.delete(f"{reader}-at-{snapshot.id}")


def _stays_from(table: Table) -> int:
    """Find the oldest snapshot that an expiry leaves which may have missed a new consumer."""
    return ExpiryJournal(main_and_history(table.location.open())[1]).stays_from()
