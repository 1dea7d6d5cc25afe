"""Feeds: what a source changed between two positions.

A position is what of a source has been read: the id of a table's snapshot, the number of epochs
pushed to a changelog in memory. Changes between the same two positions are the same, whenever they
are read.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from pkray import errors
from pkray.changelog.change_history import ChangeHistory
from pkray.clock import now_millis
from pkray.columns.batches import batch_of
from pkray.expiration.expiry_journal import ExpiryJournal
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.metadata.named_files import known_hint
from pkray.metadata.snapshot_marks import SnapshotMarks
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.feeds.beginnings import EVERYTHING, Beginning, beginning
from pkray.relational.continuous.feeds.pace import Pace
from pkray.relational.continuous.feeds.read_columns import ReadColumns
from pkray.relational.continuous.feeds.table_changes import TableChanges
from pkray.relational.continuous.feeds.table_shares import TableShare
from pkray.relational.continuous.feeds.told_snapshots import ToldSnapshots
from pkray.relational.continuous.log.log import WAYS_ON
from pkray.relational.local.catalogue import run
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.json_writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Node, Scan, Values
from pkray.relational.sources.changelog import ROW_KIND, ChangelogSource
from pkray.relational.sources.streamed import StreamedSource
from pkray.relational.sources.table import TableSource
from pkray.scan.view import SnapshotView
from pkray.schema.row_kind import parse
from pkray.storage.branch_store import main_and_history
from pkray.storage.side_by_side import together
from pkray.storage.spool import Spool, SpoolFile
from pkray.table.maintenance.consumers import Consumers
from pkray.table.table import Table

Bounds = tuple[int, int]
"""The positions after which and up to which an epoch reads; from -1 on it reads what there is."""
NOTHING = -1
"""The position before anything was read."""
PART_ROWS = 1 << 18
"""Rows that the operators are given at a time: enough that calling them costs nothing beside their
work, and few enough for their copies to fit in memory."""
_TRIES = 10
"""Looks at the newest positions of all sources."""
_JUST_SECONDS = 10.0
"""For which a place need not be written again: far less than any time after which it expires."""


class Feed(ABC):
    """Gives the changes of one source.

    Attributes:
        name: of the source.
        has_history: whether what was read can be read again from the beginning.
        worker, workers: the number of the worker that reads, and how many read the source.
        pace: when it is idle, and whom it waits for.
    """

    name: str
    has_history = True
    worker, workers = 0, 1
    pace = Pace()

    @abstractmethod
    def newest(self) -> int:
        """Find the position up to which there are changes now; 0 where there are none."""

    @abstractmethod
    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        """Read changes between two positions, with the columns of a scan."""

    def read_share(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        """Read this worker's share of the changes; the first has all, unless a feed deals them.

        Changes of one key are one worker's, in their order.
        """
        return iter(()) if self.worker else self.read(bounds, scan)

    def next(self, after: int, newest: int, max_rows: int | None) -> int:
        """Choose the position that an epoch goes to."""
        return newest

    def beginning(self) -> Beginning:
        """Say where the first epoch begins."""
        return EVERYTHING

    def read_by(self, number: int, scan: Node) -> None:
        """Take note of which columns a scan reads.

        Args:
            number: of the scan in the plan.
        """
        return

    def lag(self, position: int) -> tuple[int, float]:
        """Say how far a position is behind: in epochs or snapshots, and in seconds."""
        return max(self.newest() - max(position, 0), 0), 0.0

    def untold(self) -> dict[str, Any] | None:
        """Say what is still to be compacted before it can be read; None: nothing."""
        return None

    def hold(self, reader: str, position: int) -> None:
        """Keep what comes after a position, and the rows as of it, for a reader.

        Raises:
            SnapshotNotFoundError: they have expired.
        """
        return

    def mark(self, position: int) -> str | None:
        """Tell what stands at a position from what other histories of the source have there; None
        where nothing does.
        """
        return None

    def check(self, position: int, mark: str | None) -> None:
        """Check that a position is still one of this source.

        Args:
            mark: as it was told when the position was reached; None: it was not.

        Raises:
            QueryDivergedError: the source was rolled back, or another is in its place.
        """
        return

    def let_go(self, reader: str) -> None:
        """Let expire what was kept for a reader."""
        return

    def is_there(self, position: int) -> bool:
        """Whether what the source held at a position can still be read."""
        return True

    def check_readable(self, position: int) -> None:
        """Check that what comes after a position can be read.

        Raises:
            SnapshotNotFoundError: it has expired.
        """
        return

    def forget(self, position: int) -> None:
        """Delete what came up to a position, where it is this query's alone."""
        return

    def stirred(self) -> bool:
        """Whether `newest` has found the source changed since this was last asked."""
        return False

    @property
    def is_finished(self) -> bool:
        """Whether nothing comes after the newest position."""
        return False

    @property
    def is_filling(self) -> bool:
        """Whether more of what there was when the query began is still on its way."""
        return False


class FixedFeed(Feed):
    """Rows that are there from the beginning and do not change.

    Args:
        batches: gives the rows with the columns of a scan.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def newest(self) -> int:
        return 1

    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        if bounds[0] >= 1:
            return
        for batch in _rows_of(scan):
            yield Changes.of_kind(batch_of(batch.columns, scan.fields.arrow, batch.num_rows))

    @property
    def is_finished(self) -> bool:
        return True


class PinnedFeed(FixedFeed):
    """The rows of a table as of a moment that the query names."""

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


def _rows_of(scan: Node) -> Iterable[pa.RecordBatch]:
    return run(scan)


class PushedFeed(Feed):
    """Changes in memory: each push is one epoch."""

    def __init__(self, source: ChangelogSource) -> None:
        self.name = source.name
        self.source = source

    def newest(self) -> int:
        return len(self.source.epochs)

    def next(self, after: int, newest: int, max_rows: int | None) -> int:
        return min(max(after, 0) + 1, newest)

    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        for pushed in self.source.epochs[max(bounds[0], 0) : bounds[1]]:
            if pushed.num_rows:
                yield with_kinds(pushed, scan.fields)

    @property
    def is_finished(self) -> bool:
        return self.source.is_finished


class StreamFeed(Feed):
    """Changes that a stream from outside writes to a spool: each of its batches is one epoch.

    A position is a number of batches. Where nothing feeds the stream, the query waits.
    """

    def __init__(self, source: StreamedSource) -> None:
        self.name = source.name
        self.has_history = source.keeps
        self._source = source

    @property
    def _spool(self) -> Spool:
        assert self._source.spool is not None, "it is in a query"
        return self._source.spool

    def newest(self) -> int:
        return self._spool.count()

    def next(self, after: int, newest: int, max_rows: int | None) -> int:
        """Go one batch on.

        Raises:
            QueryFailedError: there is none, for the stream has failed.
        """
        at = max(after, 0)
        if at < newest:
            return at + 1
        feeder = self._spool.feeder()
        if feeder is not None and feeder.state == "failed" and self._spool.count() == newest:
            raise errors.QueryFailedError(
                f"the stream {self.name!r} failed: {feeder.message}; mend the cause, then start "
                "the program again that feeds it",
                stream=self.name,
            )
        return newest

    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        for file in self._files(bounds):
            for rows in self._spool.read_file(file):
                yield self._changes(rows, scan.fields)

    def read_share(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        """Read this worker's files; where rows take others away, the first worker has all."""
        if self._source.mode != "insert":
            yield from super().read_share(bounds, scan)
            return
        for number, file in enumerate(self._files(bounds)):
            if number % self.workers == self.worker:
                for rows in self._spool.read_file(file):
                    yield self._changes(rows, scan.fields)

    def _files(self, bounds: Bounds) -> Iterator[SpoolFile]:
        for number in range(max(bounds[0], 0), bounds[1]):
            batch = self._spool.batch(number)
            if batch is None:
                raise errors.MissingFileError(
                    f"batch {number} of the stream {self.name} is gone: drop the query, and begin "
                    "anew",
                    stream=self.name,
                    batch=number,
                )
            yield from batch.files

    def _changes(self, rows: pa.RecordBatch, fields: Fields) -> Changes:
        columns = [rows.column(name) for name in fields.names]
        wanted = batch_of(columns, fields.arrow, rows.num_rows)
        if self._source.mode == "insert":
            return Changes.of_kind(wanted)
        return Changes(wanted, rows.column(ROW_KIND).to_numpy())

    def lag(self, position: int) -> tuple[int, float]:
        """Say how far a position is behind: in batches, and in seconds."""
        newest, position = self.newest(), max(position, 0)
        batch = self._spool.batch(position) if newest > position else None
        since = (now_millis() - batch.time) / 1000 if batch else 0.0
        return max(newest - position, 0), max(since, 0.0)

    def forget(self, position: int) -> None:
        if not self._source.keeps:
            self._spool.delete_below(position)

    @property
    def is_filling(self) -> bool:
        feeder = self._spool.feeder()
        return feeder is not None and feeder.ends and feeder.state == "running"


class TableFeed(Feed):
    """The changes of a keyed table: complete ones, or of mode ``upsert`` what writers added.

    The first time everything that the table holds, as +I, unless its options say another
    beginning.
    """

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
        return told if told >= self._begins_at else NOTHING

    def has_heard(self) -> bool:
        """Whether somebody in this process has seen a later snapshot than this; no request."""
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
        snapshot = self._table.at(snapshot_id=position + 1).snapshot
        since = (now_millis() - snapshot.time_millis) / 1000 if snapshot else 0.0
        return newest - position, max(since, 0.0)

    def hold(self, reader: str, position: int) -> None:
        """Keep what comes after a position; before anything was read, what there is now."""
        if self._was_just_held(reader, position):
            return
        for _ in range(_TRIES):
            held = position if position > NOTHING else self.newest()
            if held < 0:  # it waits for the next one of which all is told
                held = self._marks.latest_id()
            if self._holds(reader, held, is_read=position == NOTHING):
                self._just_held = reader, held, time.monotonic()
                return
            if position > NOTHING:
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
        if NOTHING < position < earliest - 1:
            raise errors.SnapshotNotFoundError(
                f"the query is to read {self.name} on from snapshot {position}, and changes before "
                f"snapshot {earliest} have expired: {WAYS_ON}",
                table=self.name,
                snapshot_id=position,
                earliest=earliest,
            )

    def mark(self, position: int) -> str | None:
        return self._marks.at(position) if position > NOTHING else None

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

    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        after, until = bounds
        names = list(scan.fields.names)
        if after < 0 < until:
            yield from _added(self._at(until).to_batches(names), scan)
        elif until > after >= 0:
            for batch in self._changes.read(after + 1, until):
                yield with_kinds(batch, scan.fields)

    def read_share(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        after, until = bounds
        share = TableShare(self._table, self._changes, self.worker, self.workers)
        if self.workers == 1 or not share.is_dealt(after, until):
            yield from super().read_share(bounds, scan)
        elif after < 0 < until:
            yield from _added(share.content(self._at(until), scan.fields.names), scan)
        elif until > after >= 0:
            for batch in share.changes(after + 1, until):
                yield with_kinds(batch, scan.fields)


def _added(batches: Iterable[pa.RecordBatch], scan: Node) -> Iterator[Changes]:
    for batch in batches:
        yield Changes.of_kind(batch_of(batch.columns, scan.fields.arrow, batch.num_rows))


def with_kinds(rows: pa.Table | pa.RecordBatch, fields: Fields) -> Changes:
    """Make changes of rows whose kinds stand in ``_row_kind``."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    kinds = parse(table.column(ROW_KIND), ROW_KIND).to_numpy()
    columns = [table.column(name) for name in fields.names]
    return Changes(batch_of(columns, fields.arrow, table.num_rows), kinds)


def feed_of(scan: Scan | Values) -> Feed:
    """Make the feed of what a plan reads.

    Raises:
        UnsupportedError: the source has no changes.
    """
    if isinstance(scan, Values):
        return FixedFeed("VALUES")
    match scan.source:
        case ChangelogSource():
            return PushedFeed(scan.source)
        case TableSource() if scan.source.reads_changes:
            raise errors.UnsupportedError(
                f"{scan.source.name} is read between two snapshots: such a query runs bounded",
                table=scan.source.name,
            )
        case TableSource():
            return TableFeed(scan.source) if scan.source.at.is_latest else PinnedFeed(scan.source)
        case StreamedSource():
            return StreamFeed(scan.source)
    return FixedFeed(scan.source.name)


class Feeds:
    """All feeds of a plan.

    Args:
        scans: what the plan reads, by number.
        max_rows: most changed rows of a table that an epoch takes; None: no bound.
        worker, workers: the number of the worker that reads, and how many there are.
    """

    def __init__(
        self,
        scans: Mapping[int, Scan | Values],
        max_rows: int | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self._max_rows = max_rows
        self._beginnings: dict[str, Beginning] = {}
        self._scans = scans
        self._keys: dict[int, str] = {}
        self.feeds: dict[str, Feed] = {}
        self._names: dict[Any, str] = {}
        known = self._names
        for number, scan in scans.items():
            source = scan.source if isinstance(scan, Scan) else number
            if source not in known:
                feed = feed_of(scan)
                feed.worker, feed.workers = worker, workers
                known[source] = _fresh(feed.name, self.feeds)
                self.feeds[known[source]] = feed
            self._keys[number] = known[source]
            self.feeds[known[source]].read_by(number, scan)

    def beginnings(self) -> dict[str, Beginning]:
        """Find where the sources that say so begin; of others everything is read."""
        found = {name: feed.beginning() for name, feed in self.feeds.items()}
        return {name: each for name, each in found.items() if each != EVERYTHING}

    def begin(self, beginnings: Mapping[str, Beginning] | None = None) -> None:
        """Set where the first epoch begins; default where it would begin now."""
        self._beginnings = self.beginnings() if beginnings is None else dict(beginnings)

    def first_positions(self) -> dict[str, int]:
        """Give the positions after which the first epoch reads; -1: all that there is."""
        return {name: self._beginnings.get(name, EVERYTHING)[0] for name in self.feeds}

    def next(
        self,
        positions: Mapping[str, int],
        held: Collection[str] = (),
        marks: Mapping[str, str] | None = None,
    ) -> dict[str, Bounds] | None:
        """Choose what the next epoch reads; None where nothing is new.

        Changes pushed in memory come one push an epoch, in the order of the pushes; of tables all
        that is new, or one snapshot where they wait for each other.

        Args:
            held: sources that are not read on.
            marks: of the positions.

        Raises:
            QueryDivergedError: a source was rolled back.
        """
        newest = dict(zip(self.feeds, self._newest(), strict=True))
        for name, at in positions.items():
            stirred = name in newest and self.feeds[name].stirred()
            if name in newest and (newest[name] < at or (newest[name] == at and stirred)):
                self.feeds[name].check(at, (marks or {}).get(name))
        new = {
            name: self._next(name, positions.get(name), positions[name] if name in held else at)
            for name, at in newest.items()
        }
        moved = {name: bounds for name, bounds in new.items() if bounds[1] > bounds[0]}
        pushed = [name for name in moved if isinstance(self.feeds[name], PushedFeed)]
        if positions and pushed:
            first = min(pushed, key=lambda name: self._stamp(name, moved[name][1]))
            moved = {name: at for name, at in moved.items() if name == first or name not in pushed}
        if not positions:
            begun = {name: at for name, at in new.items() if at[0] > NOTHING}
            moved = {name: (at[0], 0 if name in pushed else at[1]) for name, at in moved.items()}
            moved |= begun
            waits = all(isinstance(self.feeds[each], StreamFeed) for each in moved)
            if waits and not any(newest.values()):
                return None  # no stream has brought anything yet
        return {name: moved.get(name, _same(new[name])) for name in new} if moved else None

    def _next(self, name: str, position: int | None, newest: int) -> Bounds:
        if position is not None:
            most = self._max_rows if self.feeds[name].pace.group is None else 1
            return position, self.feeds[name].next(position, newest, most)
        after, until = self._beginnings.get(name, EVERYTHING)
        last = newest if until is None else min(newest, until)
        return after, self.feeds[name].next(after, max(last, after), self._max_rows)

    def _newest(self) -> list[int]:
        """Find the newest positions of all at one instant: until none moves between two looks."""
        found = [feed.newest() for feed in self.feeds.values()]
        for _ in range(_TRIES if len(found) > 1 else 0):
            again = [feed.newest() for feed in self.feeds.values()]
            if again == found:
                break
            found = again
        return found

    def _stamp(self, name: str, until: int) -> int:
        feed = self.feeds[name]
        assert isinstance(feed, PushedFeed)
        return feed.source.stamps[until - 1]

    def name_of(self, source: object) -> str:
        """Give the name under which positions of a source are kept."""
        return self._names[source]

    def ended(self, positions: Mapping[str, int]) -> set[str]:
        """List the sources that have been read to their end."""
        return {
            name
            for name, feed in self.feeds.items()
            if feed.is_finished and positions.get(name, NOTHING) >= feed.newest()
        }

    def names_of(self, scans: Iterable[int]) -> set[str]:
        """Name the sources of scans."""
        return {self._keys[number] for number in scans}

    def scans_of(self, names: Collection[str]) -> set[int]:
        """List the numbers of the scans of sources."""
        return {number for number, name in self._keys.items() if name in names}

    def changing(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Leave out sources that never change, unless there are no others."""
        fixed = {name for name, feed in self.feeds.items() if isinstance(feed, FixedFeed)}
        return {n: at for n, at in positions.items() if n not in fixed} or dict(positions)

    def hold(self, reader: str, positions: Mapping[str, int] | None = None) -> None:
        """Keep what comes after positions, and the rows as of them, for a reader.

        Args:
            positions: of all sources; None: as they are now.
        """
        least: dict[str, tuple[int, Feed]] = {}  # two scans of a table may be at different places
        for name, feed in self.feeds.items():
            at = NOTHING if positions is None else positions.get(name, NOTHING)
            what = feed.name if isinstance(feed, TableFeed) else name
            if what not in least or at < least[what][0]:
                least[what] = (at, feed)
        for position, feed in least.values():
            feed.hold(reader, position)

    def check_readable(self, positions: Mapping[str, int]) -> None:
        """Check that sources can be read on from positions.

        Raises:
            SnapshotNotFoundError: what comes after one has expired.
        """
        for name, position in positions.items():
            self.feeds[name].check_readable(position)

    def marks(self, positions: Mapping[str, int]) -> dict[str, str]:
        """Tell what stands at positions from what other histories have there."""
        works = [partial(self.feeds[name].mark, at) for name, at in positions.items()]
        found = zip(positions, self.together(*works), strict=True)
        return {name: mark for name, mark in found if mark is not None}

    @property
    def are_far(self) -> bool:
        """Whether a look for something new sends requests to an object store."""
        tables = [feed for feed in self.feeds.values() if isinstance(feed, TableFeed)]
        return any(feed.store.local_path("") is None for feed in tables)

    def have_heard(self) -> bool:
        """Whether this process knows of something new, without a look into the stores."""
        return any(f.has_heard() for f in self.feeds.values() if isinstance(f, TableFeed))

    def together(self, *works: Callable[[], Any]) -> list[Any]:
        """Do works that ask the sources and do not depend on each other."""
        for feed in self.feeds.values():
            if isinstance(feed, TableFeed):
                return together(feed.store, *works)
        return [work() for work in works]

    def check(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """Check that positions are still those of the sources.

        Raises:
            QueryDivergedError: a source was rolled back, or another is in its place.
        """
        self.together(
            *(
                partial(self.feeds[name].check, positions[name], mark)
                for name, mark in marks.items()
                if name in self.feeds and name in positions
            )
        )

    def forget(self, oldest: Callable[[], Mapping[str, int]]) -> None:
        """Delete what is this query's alone and is read by no run of it any more.

        Args:
            oldest: gives the positions after which a run may begin.
        """
        if any(isinstance(feed, StreamFeed) for feed in self.feeds.values()):
            for name, position in oldest().items():
                self.feeds[name].forget(position)

    def read(
        self, bounds: Mapping[str, Bounds], without: Collection[int] = ()
    ) -> Iterator[dict[int, Changes]]:
        """Read an epoch: changes by the number of their scan, in parts of some `PART_ROWS` rows.

        Args:
            without: numbers of scans that are not read.
        """
        held: dict[int, list[Changes]] = {}
        rows = 0
        for number, scan in self._scans.items():
            if number in without:
                continue
            key = self._keys[number]
            for changes in self.feeds[key].read_share(bounds[key], scan):
                held.setdefault(number, []).append(changes)
                rows += len(changes)
                if rows >= PART_ROWS:
                    yield self._joined(held)
                    held, rows = {}, 0
        if held:
            yield self._joined(held)

    def _joined(self, held: Mapping[int, list[Changes]]) -> dict[int, Changes]:
        scans = self._scans
        return {each: concatenated(scans[each].fields, parts) for each, parts in held.items()}

    def lag(self, positions: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Say of each source how far the result is behind: ``snapshots`` and ``seconds``."""
        found = {}
        for name, feed in self.feeds.items():
            snapshots, seconds = feed.lag(positions.get(name, NOTHING))
            found[name] = {"snapshots": snapshots, "seconds": round(seconds, 3)}
        return found

    def untold(self) -> dict[str, dict[str, Any]]:
        """Say of the sources that are to be compacted before they can be read on: ``snapshot``, the
        newest one, and ``full``, whether compactions have to be full ones."""
        found = {name: feed.untold() for name, feed in self.feeds.items()}
        return {name: untold for name, untold in found.items() if untold is not None}

    @property
    def is_finished(self) -> bool:
        """Whether no source changes after what there is now."""
        return all(feed.is_finished for feed in self.feeds.values())

    @property
    def is_filling(self) -> bool:
        """Whether more of what the sources held when the query began is still on its way."""
        return any(feed.is_filling for feed in self.feeds.values())


def scans_of(roots: Sequence[Node]) -> dict[int, Scan | Values]:
    """List what plans read, by the numbers of the nodes."""
    nodes = enumerate(in_order(shared_nodes(roots)), 1)
    return {number: node for number, node in nodes if isinstance(node, Scan | Values)}


def _same(bounds: Bounds) -> Bounds:
    return bounds[0], bounds[0]


def _fresh(name: str, taken: Mapping[str, Feed]) -> str:
    return name if name not in taken else _fresh(f"{name}'", taken)
