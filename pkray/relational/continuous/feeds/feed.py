"""Feed the changes of one source: of rows that stay, of pushes, and of streams from outside.

A position is what of a source has been read: the id of a table's snapshot, the number of epochs
pushed to a changelog in memory. Changes between the same two positions are the same, whenever they
are read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pkray import errors
from pkray.clock import now_millis
from pkray.columns.batches import batch_of
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.feeds.beginnings import EVERYTHING, Beginning
from pkray.relational.continuous.feeds.pace import Pace
from pkray.relational.local.catalogue import run
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Node
from pkray.relational.sources.changelog import ROW_KIND, ChangelogSource
from pkray.relational.sources.streamed import StreamedSource
from pkray.schema.row_kind import parse
from pkray.storage.object_store import ObjectStore
from pkray.storage.spool import Spool, SpoolFile

Bounds = tuple[int, int]
"""The positions after which and up to which an epoch reads; from -1 on it reads what there is."""
NOTHING = -1
"""The position before anything was read."""
TRIES = 10
"""Looks at the newest position of a source until it stays."""


class Feed(ABC):
    """Gives the changes of one source.

    Attributes:
        name: of the source.
        has_history: whether what was read can be read again from the beginning.
        worker, workers: the number of the worker that reads, and how many read the source.
        pace: when it is idle, and whom it waits for.
        store: that of a table, which is asked for what is new; None where nothing far is.
        is_fixed: whether nothing comes after its first rows.
    """

    name: str
    has_history = True
    worker, workers = 0, 1
    pace = Pace()
    store: ObjectStore | None = None
    is_fixed = False

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

    def has_heard(self) -> bool:
        """Whether somebody in this process has seen more than `newest` has; no request."""
        return False

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
    """Gives rows that are there from the beginning and do not change."""

    is_fixed = True

    def __init__(self, name: str) -> None:
        self.name = name

    def newest(self) -> int:
        return 1

    def read(self, bounds: Bounds, scan: Node) -> Iterator[Changes]:
        return iter(()) if bounds[0] >= 1 else added(run(scan), scan)

    @property
    def is_finished(self) -> bool:
        return True


class PushedFeed(Feed):
    """Gives changes in memory: each push is one epoch."""

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
    """Gives changes that a stream from outside writes to a spool: each of its batches is one epoch.

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
        if not self.has_history:
            self._spool.delete_below(position)

    @property
    def is_filling(self) -> bool:
        feeder = self._spool.feeder()
        return feeder is not None and feeder.ends and feeder.state == "running"


def added(batches: Iterable[pa.RecordBatch], scan: Node) -> Iterator[Changes]:
    """Make changes of rows that are added."""
    for batch in batches:
        yield Changes.of_kind(batch_of(batch.columns, scan.fields.arrow, batch.num_rows))


def with_kinds(rows: pa.Table | pa.RecordBatch, fields: Fields) -> Changes:
    """Make changes of rows whose kinds stand in ``_row_kind``."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    kinds = parse(table.column(ROW_KIND), ROW_KIND).to_numpy()
    columns = [table.column(name) for name in fields.names]
    return Changes(batch_of(columns, fields.arrow, table.num_rows), kinds)
