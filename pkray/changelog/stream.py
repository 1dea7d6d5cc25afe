"""Iterate over a table's changes as they come, and wait for the next snapshot."""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pkray.arguments.facade import checked_class
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.planner import ChangePlanner
from pkray.changelog.progress import Progress
from pkray.changelog.splits import ChangeSplit
from pkray.changelog.start import Position, Start
from pkray.closing import Closeable
from pkray.errors import SnapshotNotFoundError, TableError
from pkray.format.snapshot import Snapshot
from pkray.metadata.schemas import TableIdentity
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore

Wait = Callable[[float], bool]
"""Waits so many seconds, or less if the stream is closed meanwhile: True then."""


@dataclass(frozen=True)
class StreamBounds:
    """The end of a stream; by default it has none.

    Args:
        until_snapshot: the last one that is read.
        watermark: it ends before the first snapshot with a greater watermark.
    """

    until_snapshot: int | None = None
    watermark: int | None = None

    def is_past(self, next_id: int) -> bool:
        return self.until_snapshot is not None and next_id > self.until_snapshot

    def ends_at(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is not read any more for its watermark."""
        if self.watermark is None or snapshot.watermark is None:
            return False
        return snapshot.watermark > self.watermark


@dataclass(frozen=True)
class StreamSettings:
    """The beginning, the waiting and the end of a stream.

    Args:
        poll_seconds: between two looks for new snapshots.
        progress: of the stream's consumer, if it has one.
        ignores_progress: begin anew, whatever the consumer read before.
        wait: for tests; see `Wait`.
    """

    start: Start
    bounds: StreamBounds
    poll_seconds: float
    progress: Progress | None = None
    ignores_progress: bool = False
    wait: Wait | None = None


@checked_class
class ChangeStream(Closeable, Iterator[pa.RecordBatch]):
    """Batches of ``_row_kind``, ``_snapshot_id`` and columns, snapshot after snapshot.

    Iterating waits for snapshots that are to come; `close`, from whatever thread, ends that at
    once. A consumer's place moves on when the next batch is asked for, or by `commit`. A context
    manager; not thread-safe otherwise.

    Attributes:
        schema: of the batches.
    """

    def __init__(
        self,
        location: TableLocation,
        store: ObjectStore,
        planner: ChangePlanner,
        schema: pa.Schema,
        settings: StreamSettings,
    ) -> None:
        self.schema = schema
        self._location = location
        self._store = store
        self._planner = planner
        self._settings = settings
        self._bounds = settings.bounds
        self._progress = settings.progress
        self._history = ChangeHistory(store)
        self._identity = TableIdentity(store, location.name, location.identity)
        self._closed = threading.Event()
        self._wait = settings.wait or self._closed.wait
        self._latest = 0
        self._last: Snapshot | None = None
        self._taken: int | None = None  # all before this snapshot was asked for and given
        self._given: int | None = None  # so it will be, once the next batch is asked for
        self._batches = self._run()

    def __repr__(self) -> str:
        begun = "not begun" if self.next_snapshot is None else f"next: {self.next_snapshot}"
        at = "closed" if self._closed.is_set() else begun
        return f"ChangeStream({self._location.name!r}, {at})"

    def __next__(self) -> pa.RecordBatch:
        if self._closed.is_set():
            raise StopIteration
        self._take()
        try:
            return next(self._batches)
        except StopIteration:
            self._record(force=True)
            raise

    def tables(self) -> Iterator[pa.Table]:
        """Yield the batches of a snapshot as one table, which is in memory as a whole."""
        batches: list[pa.RecordBatch] = []
        for batch in self:
            batches.append(batch)
            if self._given is not None:
                yield pa.Table.from_batches(batches, self.schema)
                batches = []

    @property
    def is_snapshot_complete(self) -> bool:
        """Whether the last batch was the last one of its snapshot."""
        return self._given is not None

    @property
    def next_snapshot(self) -> int | None:
        """Changes of all snapshots before this one were given; None before the first."""
        return self._taken if self._given is None else self._given

    def commit(self) -> None:
        """Record that all that was given is done: a consumer goes on after it.

        A snapshot of which there is more to come counts as not given.
        """
        self._take()
        self._record(force=True)

    def close(self) -> None:
        """End the stream: nothing more is given, and whoever waits for the next batch is woken.

        What was given and not followed by a call for more, or by `commit`, is given again to the
        next stream of the consumer.
        """
        if not self._closed.is_set():
            self._closed.set()
            self._record(force=True)
            with contextlib.suppress(ValueError):  # another thread is in it, and will leave
                self._batches.close()

    def _take(self) -> None:
        if self._given is not None:
            self._taken, self._given = self._given, None

    def _record(self, *, force: bool = False) -> None:
        if self._progress is not None and self._taken is not None:
            self._progress.reached(self._taken, force=force)

    def _run(self) -> Generator[pa.RecordBatch]:
        self._check_same_table()
        position = self._find_start()
        if position is None:
            return
        next_id = position.next_id
        if position.content is not None:
            content = position.content
            if self._bounds.is_past(content.id):
                return
            self._last = content
            yield from self._give(self._planner.content(content, self._location), next_id)
            if self._bounds.ends_at(content):
                return
        else:
            self._taken = next_id
        while not self._bounds.is_past(next_id) and self._await(next_id):
            snapshot = self._history.find(next_id)
            if self._bounds.ends_at(snapshot):
                return
            self._last = snapshot
            next_id += 1
            yield from self._give(self._planner.changes(snapshot), next_id)

    def _find_start(self) -> Position | None:
        """Find where the consumer is, or else where the start is; None when closed before."""
        if self._progress is not None and not self._settings.ignores_progress:
            consumer = self._progress.resume()
            if consumer is not None and not consumer.is_loading:
                return Position(consumer.next_snapshot)
        while True:
            position = self._settings.start.find(self._history)
            if position is not None and (self._progress is None or self._progress.begin(position)):
                return position
            if self._pause():
                return None

    def _give(self, splits: list[ChangeSplit], next_id: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a snapshot; `is_snapshot_complete` is set before the last one."""
        held: pa.RecordBatch | None = None
        for split in splits:
            for batch in split.read(self._store):
                if self._closed.is_set():
                    return
                if held is None:
                    self._record()
                else:
                    yield held
                held = batch
        if held is None:
            self._taken = next_id
        else:
            self._given = next_id
            yield held

    def _await(self, next_id: int) -> bool:
        """Whether the snapshot is there, waiting for it; False when closed."""
        while not self._closed.is_set():
            if next_id <= self._latest:
                return True
            rollbacks = self._history.rollbacks
            latest = self._history.latest()
            self._latest = latest.id if latest is not None else 0
            rolled_back = self._history.rollbacks != rollbacks
            self._check_same_table()
            if self._latest < next_id - 1 or (rolled_back and not self._stands()):
                raise SnapshotNotFoundError(
                    f"the table at {self._store.url!r} was rolled back to snapshot "
                    f"{self._latest} after its changes up to {next_id - 1} were read: what was "
                    "read does not hold any more; read the whole table anew, or reset the "
                    "consumer to where to go on",
                    snapshot_id=next_id,
                    latest=self._latest,
                )
            if next_id > self._latest and self._pause():
                return False
        return False

    def _check_same_table(self) -> None:
        try:
            self._identity.check_same_table_after(self._history.invalidations)
        except TableError:
            self._progress = None  # the consumer of that name is another table's
            raise

    def _stands(self) -> bool:
        return self._last is None or self._history.holds(self._last)

    def _pause(self) -> bool:
        """Wait a while; True when closed."""
        self._record()
        return self._wait(self._settings.poll_seconds) or self._closed.is_set()
