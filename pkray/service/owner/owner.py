"""Owns buckets: takes their rows, prepares their commits, answers their lookups."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from pkray import spans
from pkray.format.commit_message import CommitMessage
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.metrics import names
from pkray.metrics.collection import Reading
from pkray.metrics.registry import REGISTRY
from pkray.service.assignment.buckets import DynamicBuckets
from pkray.service.assignment.key_index import ABSENT
from pkray.service.calls import OwnerClient
from pkray.service.client.key_ids import KeyIds, KeysToPlace
from pkray.service.client.routing import owner_of
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.age import CompactionAge
from pkray.service.compaction.compactions import Compactions
from pkray.service.compaction.scheduler import CompactionScheduler
from pkray.service.first_look import FirstLook
from pkray.service.leases import Leases, beat_seconds
from pkray.service.owner.buckets import OwnedBuckets, ReadContexts
from pkray.service.owner.commits import CommitPreparation, OwnerCommits
from pkray.service.owner.lookups import OwnerLookups, asks_one_bucket_a_key
from pkray.service.owner.sessions import Memory, OwnerSessions, OwnMemory
from pkray.service.owner.snapshot_refresher import SnapshotRefresher
from pkray.service.owner_settings import OwnerSettings
from pkray.service.protocol import (
    DRIVER,
    Acknowledgement,
    Assigned,
    Attempts,
    BucketSelection,
    HashedKeys,
    Holding,
    KeysFound,
    Lookup,
    LookupAnswer,
    PrepareRequest,
    Push,
    PushReport,
    RoutedBatch,
    RowsPlaced,
    SessionId,
    Slice,
)
from pkray.service.schema_cache import SchemaCache
from pkray.service.stats import OwnerStats
from pkray.service.timing.debounced_timer import DebouncedTimer
from pkray.service.timing.pulse import Pulse
from pkray.storage.location import TableLocation

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 60.0
"""Between two looks for copies that nobody used: often enough for the retention, seldom enough to
cost nothing."""


class CopyEviction:
    """Has copies expire though nobody looks anything up: by a timer, as long as there are any.

    Args:
        retention_millis: source: ``lookup.cache-file-retention``.
    """

    def __init__(self, cache: LookupStore, retention_millis: int) -> None:
        self._cache = cache
        self._seconds = max(_LEAST_SECONDS, min(_MOST_SECONDS, retention_millis / 1000))
        self._timer = DebouncedTimer()
        self._is_set = False

    def watch(self) -> None:
        """Note that there may be copies, made before this."""
        if not self._is_set:
            self._is_set = True
            self._timer.set(self._seconds, self._look)

    def close(self) -> None:
        self._timer.close()

    def _look(self) -> None:
        self._is_set = False
        self._cache.expire()
        stats = self._cache.stats()
        if stats.files or stats.making or stats.memory_bytes:
            self.watch()


class BucketOwner:
    """The one place where its buckets' rows meet.

    The constructor recovers from the latest snapshot; rows not committed before a crash are
    pushed again by whoever pushed them.

    Args:
        clock: epoch milliseconds.
        executor: runs compactions; by default threads of its own.
        peers: all owners of the table, where tasks may stage rows here.
        memory: says what it may use; by default what the table's options give.
        look: at the table, just now; by default its own.
    """

    def __init__(
        self,
        location: TableLocation,
        settings: OwnerSettings,
        clock: Callable[[], int],
        executor: Executor | None = None,
        peers: Callable[[], Sequence[OwnerClient]] | None = None,
        memory: Memory | None = None,
        look: FirstLook | None = None,
    ) -> None:
        self._settings = settings
        self._table = location.name
        self._meter = REGISTRY.of(location.warehouse)
        self._clock = clock
        store = location.open()
        identity = TableIdentity.at(location)
        look = look or FirstLook.at(location)
        self._schema = SchemaCache(look.schemas.copy(), identity, look.schema)
        schema = self._schema.current
        self._cache = LookupStore(
            f"{settings.local_directory}/lookup",
            CopyLimits.from_options(schema.core),
            clock=clock,
            in_background=True,
        )
        self._idle_copies = CopyEviction(self._cache, schema.core.lookup_cache_file_retention)
        memory, wanted = memory or OwnMemory(), schema.core.write_buffer_size
        self._flushed_rows = FlushedRowsCache(
            wanted, lambda: self._sessions.memory_bytes + wanted - memory.for_flushed(wanted)
        )
        committed = self._committed = CommittedFiles(
            store, schema, SnapshotStore(store), self._owns, self._files_gone, identity
        )
        committed.begin(look.latest)
        views = ReadContexts(store, self._schema.read, self._cache, self._flushed_rows)
        spill = f"{settings.local_directory}/spill"
        buckets = OwnedBuckets(store, self._schema, committed, views, clock, spill)
        self._dynamic = DynamicBuckets(store, self._schema, settings, clock, peers)
        sessions = self._sessions = OwnerSessions(buckets, self._schema, settings, clock, memory)
        self._leases = Leases(settings.lease_millis, clock)
        seconds = beat_seconds(settings.lease_millis)
        self._sweeper = Pulse(self.drop_abandoned, seconds, f"pkray-leases-{settings.index}")
        self._executor = executor or ThreadPoolExecutor(
            settings.compaction_threads, f"pkray-compaction-{settings.index}"
        )
        compactions = Compactions(self._executor, buckets.open_compactor, clock)
        age = CompactionAge(store, lambda: self._schema.current, SnapshotStore(store))
        compaction = CompactionScheduler(compactions, self._schema, committed, age, clock)
        self._compaction = compaction
        self._refresher = SnapshotRefresher(
            committed,
            self._schema,
            sessions,
            compactions,
            clock,
            settings.refresh_millis,
            look.began,
        )
        self._commits = OwnerCommits(
            sessions,
            self._dynamic,
            committed,
            self._refresher,
            CommitPreparation(self._schema, views, committed, compaction, buckets, sessions.lock),
            compaction,
            clock,
        )
        self._lookups = OwnerLookups(
            store, self._schema, committed, views, buckets, sessions, self._refresher
        )
        self._meter.watch(self._measured)

    @property
    def memory_bytes(self) -> int:
        """Sum the bytes of uncommitted rows, and of those that are kept for compactions."""
        return self._sessions.memory_bytes + self._flushed_rows.held_bytes

    def trim_memory(self) -> None:
        """Let rows go that are kept for compactions, where memory is wanted for others."""
        self._flushed_rows.trim()

    def ping(self) -> None:
        """Answer."""

    def push(self, push: Push, batch: RoutedBatch) -> None:
        """Take a batch once: the driver's into memory, a task's aside until its report.

        Raises:
            LostBatchesError: an earlier batch of it is not here.
            CommitFencedError: a newer writer of the user took over.
        """
        session = self._sessions.receiving(push)
        if session is None:
            return
        self._hold(push.session)
        about = spans.span("take", table=self._table, session=push.session)
        with about, session.exclusive():
            session.renew(self._clock())
            if push.source == DRIVER:
                session.write(push, batch)
                self._flushed_rows.trim()
            else:
                session.staging.put((push.source, push.attempt), push.index, batch)

    def take_over(self, push: Push, path: str, count: int) -> None:
        """Take ``count`` batches from a spool file of this machine, as `push` would."""
        session = self._sessions.receiving(push)
        if session is None:
            return
        self._hold(push.session)
        with session.exclusive():
            session.staging.put_file((push.source, push.attempt), push.index, path, count)

    def prepare(
        self, session_id: SessionId, wanted: PrepareRequest, tokens: Sequence[str] = ()
    ) -> list[CommitMessage]:
        """Prepare what is to be committed of a session: see `OwnerCommits.prepare`."""
        self._hold(session_id)
        with spans.span("prepare", table=self._table, session=session_id):
            return self._commits.prepare(session_id, wanted, tokens)

    def acknowledge(self, session_id: SessionId, done: Acknowledgement) -> bool:
        """Note that the session is committed: see `OwnerCommits.acknowledge`."""
        self._leases.end(session_id)
        with spans.span("acknowledge", table=self._table, session=session_id):
            pending = self._commits.acknowledge(session_id, done)
        self._idle_copies.watch()
        return pending

    def abort_prepare(self, session_id: SessionId) -> None:
        """Forget what was prepared for the session: it is not published, though the session goes
        on."""
        self._commits.abort_prepare(session_id)

    def abort(self, session_id: SessionId) -> None:
        """Drop a session."""
        self._leases.end(session_id)
        self._commits.abort(session_id)

    def heartbeat(self, session_id: SessionId) -> Holding:
        """Hold a session that is here for another lease; what there is of it.

        Waits for nobody: a lease is not to run out while others are at work.

        Raises:
            CommitFencedError: a newer writer of the user took over.
        """
        session_id.check_not_fenced(self._sessions.newest_generation(session_id.user))
        if session_id in self._leases:
            self._leases.renew(session_id)
        batches, token = self._sessions.batches_of(session_id), self._dynamic.token(session_id)
        return Holding(session_id, batches, token)

    def drop_abandoned(self) -> bool:
        """Drop the sessions whose lease has run out; whether others are held."""
        run_out = self._leases.run_out()
        if run_out:
            with self._sessions.lock:
                for session_id in self._sessions.drop_abandoned(run_out):
                    self._dynamic.forget(session_id)
                    self._leases.end(session_id)
        return len(self._leases) > 0

    def renew_files(self) -> None:
        """See `OwnerSessions.renew_files`."""
        self._sessions.renew_files()

    def newest_generation(self, user: str) -> int:
        """Find the newest of the user's writers that pushed here; 0 without one."""
        with self._sessions.lock:
            return self._sessions.newest_generation(user)

    def compact(self, selection: BucketSelection) -> int:
        """Compact committed files of the selected buckets; returns when that is done.

        Returns:
            The number of buckets with something to be committed.
        """
        self._refresher.advance()
        with self._sessions.lock:
            self._schema.refresh()
        buckets = [bucket for bucket in self._committed.buckets if selection.has(bucket)]
        with spans.within(table=self._table):
            return len(self._compaction.compact(buckets, selection.full))

    def compactions(self, wait: bool = False) -> tuple[int, bool]:
        """Begin what is due by now.

        Args:
            wait: until those that run have ended.

        Returns:
            The number of finished ones that are to be committed, and whether any are pending.
        """
        if wait:
            self._compaction.compactions.wait()
        with spans.within(table=self._table), self._sessions.lock:
            self._compaction.settle()
            if not wait:
                self._compaction.consider()
            return len(self._compaction.compactions.finished()), self._compaction.are_pending

    def assign(self, session_id: SessionId, keys: HashedKeys) -> Assigned:
        """Choose dynamic buckets for rows to be pushed: see `BucketAssigner.assign`."""
        self._hold(session_id)
        return self._dynamic.assigner.assign(session_id, keys)

    def locate(
        self, keys: HashedKeys, snapshot_id: int | None = None, expected: Sequence[Holding] = ()
    ) -> tuple[np.ndarray, int]:
        """Find the dynamic buckets of keys: see `BucketAssigner.locate`."""
        found = self._dynamic.assigner.locate(keys, snapshot_id, expected)
        absent = int(np.count_nonzero(found[0] == ABSENT))
        self._count_keys(absent, 0)  # the others are counted where their buckets are asked
        return found

    def place(self, session_id: SessionId, asked: KeysToPlace) -> RowsPlaced:
        """Choose where rows go whose keys cross partitions: see `KeyAssigner.place`."""
        self._hold(session_id)
        return self._dynamic.keys.place(session_id, asked)

    def stage(self, push: Push, batch: RoutedBatch) -> None:
        """Keep a task's rows until they are placed: see `StagedPushes.stage`."""
        self._hold(push.session)
        self._dynamic.staged.stage(push, batch)

    def place_staged(self, session_id: SessionId, attempts: Attempts) -> PushReport:
        """Place and push what tasks have left: see `StagedPushes.place`."""
        self._hold(session_id)
        return self._dynamic.staged.place(session_id, attempts)

    def locate_keys(
        self, keys: KeyIds, snapshot_id: int | None, latest: bool, expected: Sequence[Holding] = ()
    ) -> KeysFound | None:
        """Find where keys are that cross partitions: see `KeyAssigner.locate`."""
        return self._dynamic.keys.locate(keys, snapshot_id, latest=latest, expected=expected)

    def lookup(self, asked: Lookup) -> LookupAnswer:
        """Find rows by key: see `OwnerLookups.answer`."""
        try:
            about = spans.span("find", table=self._table)
            with about, self._meter.timed(names.LOOKUP_SECONDS, self._table):
                answer = self._lookups.answer(asked)
        finally:
            self._idle_copies.watch()
        if asks_one_bucket_a_key(asked):
            self._count_keys(asked.keys.num_rows, len(answer[0]))
            self._count_by_bucket(asked.slices, answer[0])
        return answer

    def _count_by_bucket(self, slices: Sequence[Slice], found: np.ndarray) -> None:
        """Count the keys of each bucket.

        Args:
            found: int64, positions among the keys.
        """
        counts = [len(found)]  # most lookups ask one bucket, and take no longer than before
        if len(slices) > 1:
            ends = [(piece.offset, piece.offset + piece.length) for piece in slices]
            counts = np.diff(np.searchsorted(np.sort(found), ends))[:, 0].tolist()
        for piece, count in zip(slices, counts, strict=False):  # none: no bucket
            labels, missing = (self._table, str(piece.bucket)), piece.length - count
            self._meter.count(names.BUCKET_LOOKUP_KEYS_TOTAL, piece.length, *labels)
            self._meter.count(names.BUCKET_LOOKUP_MISSES_TOTAL, missing, *labels)

    def _count_keys(self, asked: int, found: int) -> None:
        self._meter.count(names.LOOKUP_KEYS_TOTAL, asked, self._table)
        self._meter.count(names.LOOKUP_MISSES_TOTAL, asked - found, self._table)

    def _measured(self) -> Iterator[Reading]:
        """Read for metrics what is counted here."""
        table, compaction = self._table, self._compaction.stats()
        for outcome in ("committed", "dropped", "failed"):
            count = getattr(compaction, outcome)
            yield names.TABLE_COMPACTIONS_TOTAL, (table, outcome), count
        yield names.TABLE_COMPACTIONS_RUNNING, (table,), compaction.running
        stalled = compaction.writer_wait_seconds
        yield names.TABLE_WRITE_STALL_SECONDS_TOTAL, (table,), stalled
        yield names.TABLE_WRITERS_WAITING, (table,), compaction.writers_waiting
        memory = {
            "rows": self._sessions.memory_bytes,
            "flushed": self._flushed_rows.held_bytes,
            "lookups": self._cache.stats().memory_bytes,
        }
        for use, size in memory.items():
            yield names.WORKER_MEMORY_BYTES, (use,), size

    def stats(self) -> OwnerStats:
        """Count for people and metrics."""
        with self._sessions.lock:
            return OwnerStats(
                owner=self._settings.index,
                pid=os.getpid(),
                snapshot_id=self._committed.snapshot_id,
                buckets=len(self._committed.buckets),
                sessions=len(self._sessions),
                memory_bytes=self._sessions.memory_bytes,
                lookup=self._cache.stats(),
                assigned=self._dynamic.stats(),
                compaction=self._compaction.stats(),
            )

    def close(self) -> None:
        """Drop uncommitted work and the local files."""
        self._sweeper.stop()
        self._meter.unwatch(self._measured)
        self._compaction.compactions.close()
        self._executor.shutdown()
        with self._sessions.lock:
            self._sessions.drop_all()
            self._idle_copies.close()
            self._cache.close()
            shutil.rmtree(self._settings.local_directory, ignore_errors=True)

    def _hold(self, session_id: SessionId) -> None:
        """Hold a session for another lease."""
        self._leases.renew(session_id)
        self._sweeper.start()

    def _files_gone(self, file_names: Iterable[str]) -> None:
        names = list(file_names)
        self._cache.drop(names)
        self._flushed_rows.drop(names)

    def _owns(self, partition: bytes, bucket: int) -> bool:
        return owner_of(partition, bucket, self._settings.owners) == self._settings.index
