"""Owns buckets: takes their rows, prepares their commits, answers their lookups."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa

from pkray.commit.schemas import SchemaStore
from pkray.commit.snapshots import SnapshotStore
from pkray.commit.table_identity import TableIdentity
from pkray.errors import LostBatchesError, TableError
from pkray.format.commit_message import CommitMessage
from pkray.lookup.store import LookupStore
from pkray.lsm.fresh_rows import FreshRows
from pkray.service.committed import CommittedFiles
from pkray.service.compaction.age import CompactionAge
from pkray.service.compaction.compactions import Compactions
from pkray.service.compaction.planner import CompactionPlanner
from pkray.service.dynamic.buckets import DynamicBuckets
from pkray.service.dynamic.key_ids import KeyIds
from pkray.service.elapsed import elapsed
from pkray.service.handle import Handle
from pkray.service.newest_schema import NewestSchema
from pkray.service.owned_buckets import OwnedBuckets
from pkray.service.owner_lookups import Answer, Lookup, OwnerLookups
from pkray.service.owner_sessions import OwnerSessions
from pkray.service.owner_settings import OwnerSettings
from pkray.service.preparation import CommitPreparation, Wanted
from pkray.service.protocol import (
    DRIVER,
    Assigned,
    Attempts,
    Chosen,
    HashFile,
    KeysFound,
    Push,
    PushReport,
    RoutedBatch,
    RowsPlaced,
    SessionId,
    Slice,
    Visibility,
)
from pkray.service.routing import owner_of
from pkray.service.schema_views import SchemaViews
from pkray.service.session import InFlight, OwnerSession
from pkray.service.staging import StagingArea
from pkray.service.unanswered import UnansweredCommits
from pkray.storage.location import TableLocation


class BucketOwner:
    """The one place where its buckets' rows meet.

    The constructor recovers from the latest snapshot; rows not committed before a crash are
    pushed again by whoever pushed them.

    Args:
        clock: epoch milliseconds.
        executor: runs compactions; by default threads of its own.
        peers: all owners of the table, where tasks may stage rows here.
    """

    def __init__(
        self,
        location: TableLocation,
        settings: OwnerSettings,
        clock: Callable[[], int],
        executor: Executor | None = None,
        peers: Callable[[], Sequence[Handle]] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        # Held for moments: rows are written, compacted and looked up without it.
        self._lock = threading.RLock()
        self._preparing = threading.Lock()
        self._refreshed = 0
        self._rollbacks = 0
        store = location.open()
        self._schema = NewestSchema(SchemaStore(store, location.name))
        schema = self._schema.current
        self._cache = LookupStore(
            f"{settings.local_directory}/lookup",
            max_disk_bytes=schema.core.lookup_cache_max_disk_size,
            max_memory_bytes=schema.core.lookup_cache_max_memory_size,
            retention_millis=schema.core.lookup_cache_file_retention,
            clock=clock,
        )
        self._fresh = FreshRows(schema.core.write_buffer_size, lambda: self._sessions.memory_bytes)
        self._committed = CommittedFiles(
            store,
            schema,
            SnapshotStore(store),
            self._owns,
            self._files_gone,
            TableIdentity.at(location),
        )
        self._committed.advance()
        self._views = SchemaViews(store, self._schema.read, self._cache, self._fresh)
        shutil.rmtree(f"{settings.local_directory}/staging", ignore_errors=True)
        self._buckets = OwnedBuckets(
            store,
            self._schema,
            self._committed,
            self._views,
            clock,
            f"{settings.local_directory}/spill",
        )
        self._dynamic = DynamicBuckets(store, self._schema, settings, clock, peers)
        self._sessions = OwnerSessions(self._open_session, clock, settings.idle_millis)
        self._age = CompactionAge(store, lambda: self._schema.current, SnapshotStore(store))
        self._executor = executor or ThreadPoolExecutor(
            settings.compaction_threads, f"pkray-compaction-{settings.index}"
        )
        self._compaction = CompactionPlanner(
            Compactions(self._executor, self._buckets.open_compactor, clock),
            lambda: self._schema.current,
            self._committed.levels,
            self._aged,
            self._schema.read,
            clock,
        )
        self._preparation = CommitPreparation(
            self._schema, self._views, self._committed, self._compaction, self._lock
        )
        self._lookups = OwnerLookups(
            store,
            self._schema,
            self._committed,
            self._views,
            self._buckets,
            self._sessions,
            UnansweredCommits(self._sessions, self._committed),
            self._lock,
            self._refresh,
        )

    def ping(self) -> None:
        """Answer."""

    def push(self, push: Push, batch: RoutedBatch) -> None:
        """Take a batch once: the driver's into memory, a task's aside until its report.

        Raises:
            LostBatchesError: an earlier batch of it is not here.
            CommitFencedError: a newer writer of the user took over.
        """
        session = self._session_of(push)
        if session is None:
            return
        with session.at_work():
            session.renew(self._clock())
            if push.source == DRIVER:
                session.write(push, batch)
                self._fresh.trim()
            else:
                session.staging.put((push.source, push.attempt), push.index, batch)

    def take_over(self, push: Push, path: str, count: int) -> None:
        """Take ``count`` batches from a spool file of this machine, as `push` would."""
        session = self._session_of(push)
        if session is None:
            return
        with session.at_work():
            session.staging.put_file((push.source, push.attempt), push.index, path, count)

    def prepare(
        self,
        session_id: SessionId,
        attempts: Attempts,
        base: int,
        compaction: Chosen | None = None,
        full_compact: bool = False,
        tokens: Sequence[str] = (),
        run: str = "",
    ) -> list[CommitMessage]:
        """Flush a session's buckets on top of snapshot ``base``, and compact what a commit must.

        Compactions that have finished beside it are handed over too. Repeating it gives the same
        messages; on another snapshot, others in their place. Where compaction is too far behind
        it waits.

        Args:
            compaction: see `CommitRequest`.
            full_compact: compact every bucket into one run.
            tokens: what this owner said when it assigned dynamic buckets to the attempts.
            run: the same as before where what was handed over before is certainly not published.

        Raises:
            LostBatchesError: batches of the attempts, or what was assigned to them, are not here.
            CommitConflictError: another process changed the hash indexes of dynamic buckets.
            SchemaChangedError: the table was rescaled since the rows were written.
        """
        wanted = Wanted(base, attempts, compaction, full_compact, run)
        with self._preparing:
            while True:
                with self._lock:
                    self._advance(base)
                    self._sessions.land()
                    session = self._sessions.get(session_id)
                    self._dynamic.check(session_id, tokens, base)
                with session.at_work():
                    written, full = self._preparation.prepare(session, wanted)
                    if session.messages is not None:
                        messages = self._dynamic.indexed(session.messages, session.new_hashes)
                        session.handed_over.add(base, messages)
                        session.in_flight = InFlight(base, self._clock())
                        return messages
                self._compaction.make_room(written, full)

    def acknowledge(
        self,
        session_id: SessionId,
        snapshot_id: int,
        hash_files: Sequence[HashFile] = (),
        new: bool = False,
    ) -> bool:
        """The session is committed; its work is in ``snapshot_id``.

        Args:
            hash_files: the index files of the commit, those of other owners' buckets included.
            new: the snapshot was made by this commit, not by an earlier attempt of its name.

        Returns:
            Whether compactions run, or are to be committed or begun.
        """
        with self._lock:
            self._dynamic.committed(session_id, snapshot_id, hash_files, new)
            self._advance(snapshot_id)
            self._sessions.land()
            session = self._sessions.close(session_id)
            if session is not None:
                session.staging.clear()
            self._cache.expire()
            self._preparation.note_interrupted()
            self._compaction.compactions.spend(self._committed.levels)
            self._compaction.settle()
            self._compaction.consider(session.writers if session is not None else ())
            return self._compaction.are_pending

    def give_up(self, session_id: SessionId) -> None:
        """What was prepared for the session is not published, though the session goes on."""
        with self._lock:
            self._dynamic.give_up(session_id)
            self._sessions.land()

    def renew_files(self) -> None:
        """Write files again that sessions hold for so long that cleaners of orphan files may soon
        take them."""
        with self._lock:
            sessions = [session for _, session in self._sessions.items()]
        for session in sessions:
            with suppress(LostBatchesError), session.at_work():
                session.renew()

    def newest_generation(self, user: str) -> int:
        """Of the user's writers that pushed here; 0 without one."""
        with self._lock:
            return self._sessions.newest_generation(user)

    def compact(self, chosen: Chosen) -> int:
        """Compact committed files of the buckets chosen; returns when that is done.

        Returns:
            The number of buckets with something to be committed.
        """
        self._advance()
        with self._lock:
            self._schema.catch_up()
        buckets = [bucket for bucket in self._committed.buckets if chosen.has(bucket)]
        return len(self._compaction.compact(buckets, chosen.full))

    def compactions(self, wait: bool = False) -> tuple[int, bool]:
        """Begin what is due by now.

        Args:
            wait: until those that run have ended.

        Returns:
            The number of finished ones that are to be committed, and whether any are pending.
        """
        if wait:
            self._compaction.compactions.wait()
        with self._lock:
            self._compaction.settle()
            if not wait:
                self._compaction.consider()
            return len(self._compaction.compactions.finished()), self._compaction.are_pending

    def abort(self, session_id: SessionId) -> None:
        """Drop a session."""
        with self._lock:
            self._dynamic.drop(session_id)
            session = self._sessions.close(session_id)
            written = list(session.writers) if session is not None else []
            if session is not None:
                session.end()
            with suppress(TableError):  # nothing is left to be compacted
                self._advance()
            # It may be committed in part: the coordinator was killed between its two snapshots.
            self._preparation.note_interrupted(written)
            self._compaction.settle()

    def assign(
        self,
        session_id: SessionId,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
    ) -> Assigned:
        """Dynamic buckets for rows to be pushed: see `BucketAssigner.assign`."""
        return self._dynamic.assign(session_id, partitions, codes, hashes)

    def locate(
        self,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
        snapshot_id: int | None = None,
    ) -> tuple[np.ndarray, int]:
        """Dynamic buckets of keys: see `BucketAssigner.locate`."""
        return self._dynamic.locate(partitions, codes, hashes, snapshot_id)

    def place(
        self,
        session_id: SessionId,
        index: int,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        keys: KeyIds,
        removes: np.ndarray,
    ) -> RowsPlaced:
        """Where rows go whose keys cross partitions: see `KeyAssigner.place`."""
        return self._dynamic.place(session_id, index, partitions, codes, keys, removes)

    def stage(self, push: Push, batch: RoutedBatch) -> None:
        """Keep a task's rows until they are placed: see `StagedPushes.stage`."""
        self._dynamic.stage(push, batch)

    def place_staged(self, session_id: SessionId, attempts: Attempts) -> PushReport:
        """Place and push what tasks have left: see `StagedPushes.place`."""
        return self._dynamic.place_staged(session_id, attempts)

    def locate_keys(self, keys: KeyIds, snapshot_id: int | None, latest: bool) -> KeysFound | None:
        """Where keys are that cross partitions: see `KeyAssigner.locate`."""
        return self._dynamic.locate_keys(keys, snapshot_id, latest)

    def lookup(
        self,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None = None,
        schema_id: int | None = None,
    ) -> Answer:
        """Rows by key: see `Lookup` and `OwnerLookups.answer`."""
        asked = Lookup(keys, slices, visibility, columns, snapshot_id, schema_id)
        return self._lookups.answer(asked)

    def lookup_prefix(
        self,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None = None,
        schema_id: int | None = None,
    ) -> Answer:
        """All rows of keys that begin so; as `lookup`.

        Args:
            keys: leading columns of the trimmed primary key, and perhaps others.
            slices: of some of the keys each; their partition may be `ANY_PARTITION` and their
                bucket `ANY_BUCKET`.
        """
        asked = Lookup(keys, slices, visibility, columns, snapshot_id, schema_id, by_prefix=True)
        return self._lookups.answer(asked)

    def stats(self) -> dict[str, object]:
        """Counters for people and metrics."""
        with self._lock:
            return {
                "owner": self._settings.index,
                "pid": os.getpid(),
                "snapshot_id": self._committed.snapshot_id,
                "buckets": len(self._committed.buckets),
                "sessions": len(self._sessions),
                "memory_bytes": self._sessions.memory_bytes,
                "lookup": self._cache.stats(),
                "assigned": self._dynamic.stats(),
                "compaction": self._compaction.stats(),
            }

    def close(self) -> None:
        """Drop uncommitted work and the local files."""
        self._compaction.compactions.close()
        self._executor.shutdown()
        with self._lock:
            self._sessions.drop_all()
            self._cache.close()
            shutil.rmtree(self._settings.local_directory, ignore_errors=True)

    def _files_gone(self, file_names: Iterable[str]) -> None:
        names = list(file_names)
        self._cache.drop(names)
        self._fresh.drop(names)

    def _owns(self, partition: bytes, bucket: int) -> bool:
        return owner_of(partition, bucket, self._settings.owners) == self._settings.index

    def _session_of(self, push: Push) -> OwnerSession | None:
        """None where the session is over, and the message late."""
        with self._lock:
            if self._sessions.is_closed(push.session):
                return None
            session = self._sessions.get(push.session)
            self._schema.catch_up(push.schema_id)
            session.expect(push)
            return session

    def _open_session(self, session_id: SessionId) -> OwnerSession:
        self._schema.catch_up()
        name = f"{session_id.generation}-{session_id.epoch}"
        staging = StagingArea(
            f"{self._settings.local_directory}/staging/{name}", self._settings.staging_memory
        )
        return OwnerSession(self._buckets, staging, self._schema.current.core.write_buffer_size)

    def _aged(self) -> CompactionAge:
        self._age.advance(self._committed.snapshot_id)
        return self._age

    def _refresh(self, at_once: bool) -> None:
        """See what other processes have committed, if that was not done just now."""
        now = self._clock()
        if at_once or elapsed(self._refreshed, now, self._settings.refresh_millis):
            self._advance()
            self._refreshed = now

    def _advance(self, snapshot_id: int | None = None) -> None:
        self._committed.advance(snapshot_id)
        if self._committed.rollbacks == self._rollbacks:
            return
        with self._lock:  # whoever comes first, lest a commit is prepared before it is seen to
            if self._committed.rollbacks == self._rollbacks:
                return
            self._rollbacks = self._committed.rollbacks
            self._compaction.compactions.spend(self._committed.levels)
            for session_id, session in self._sessions.items():
                if session.messages is None:
                    session.lay_on(self._committed.levels)
                else:  # the rollback may have taken its files: they are pushed again
                    self._sessions.drop(session_id)
