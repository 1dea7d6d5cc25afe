"""Owns buckets: takes their rows, prepares their commits, answers their lookups."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.commit.schemas import SchemaStore
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import CommitFencedError
from pkray.format.commit_message import CommitMessage
from pkray.lookup.store import LookupStore
from pkray.lsm.bucket_writer import BucketWriter
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.service.bucket_lookup import BucketLookup
from pkray.service.committed import BucketId, CommittedFiles
from pkray.service.protocol import (
    DRIVER,
    Attempts,
    Push,
    RoutedBatch,
    SessionId,
    Slice,
    Visibility,
)
from pkray.service.routing import owner_of
from pkray.service.session import OwnerSession
from pkray.service.staging import StagingArea
from pkray.storage.location import TableLocation


@dataclass(frozen=True)
class OwnerSettings:
    """How one owner is set up.

    Args:
        index: 0 … owners-1.
        owners: how many share the table's buckets.
        local_directory: a folder of this owner alone, for spooled rows and the lookup cache.
        staging_memory: bytes of staged rows kept in memory. Default 128 MB.
        refresh_millis: look for other processes' snapshots at most this often before a
            committed lookup. Default 0: every time.
        idle_millis: a session not touched for so long is dropped, as its writer is gone; one
            that is not gone pushes again. Default: never.
    """

    index: int
    owners: int
    local_directory: str
    staging_memory: int = 128 << 20
    refresh_millis: int = 0
    idle_millis: int | None = None


class BucketOwner:
    """The one place where its buckets' rows meet.

    The constructor recovers from the latest snapshot; rows not committed before a crash are
    pushed again by whoever pushed them.
    """

    def __init__(
        self, location: TableLocation, settings: OwnerSettings, clock: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._clock = clock
        store = location.open()
        self._schema = SchemaStore(store, location.name).latest()
        self._files: dict[BucketId, DataFileStore] = {}
        self._store = store
        core = self._schema.core
        self._cache = LookupStore(
            f"{settings.local_directory}/lookup",
            max_disk_bytes=core.lookup_cache_max_disk_size,
            max_memory_bytes=core.lookup_cache_max_memory_size,
            retention_millis=core.lookup_cache_file_retention,
            clock=clock,
        )
        self._committed = CommittedFiles(
            store, self._schema, SnapshotStore(store), self._owns, self._cache.drop
        )
        self._lookup = BucketLookup(self._schema, self._cache)
        self._sessions: dict[SessionId, OwnerSession] = {}
        self._generations: dict[str, int] = {}
        self._closed: dict[str, SessionId] = {}
        self._lock = threading.RLock()
        self._refreshed = 0
        self._committed.advance()

    def ping(self) -> None:
        """Answer."""

    def push(self, push: Push, batch: RoutedBatch) -> None:
        """Take a batch once: the driver's into memory, a task's aside until its report.

        Raises:
            LostBatchesError: an earlier batch of it is not here.
            CommitFencedError: a newer writer of the user took over.
        """
        with self._lock:
            if self._is_closed(push.session):
                return
            session = self._session(push.session)
            if push.source == DRIVER:
                session.write(push, batch)
            else:
                session.staging.put((push.source, push.attempt), push.index, batch)

    def take_over(self, push: Push, path: str, count: int) -> None:
        """Take ``count`` batches from a spool file of this machine, as `push` would."""
        with self._lock:
            staging = self._session(push.session).staging
            staging.put_file((push.source, push.attempt), push.index, path, count)

    def prepare(
        self,
        session_id: SessionId,
        attempts: Attempts,
        base: int,
        compact_all: bool,
        full_compact: bool,
    ) -> list[CommitMessage]:
        """Flush and compact a session's buckets on top of snapshot ``base``.

        Repeating it gives the same messages.

        Raises:
            LostBatchesError: batches of the attempts are not here.
        """
        with self._lock:
            session = self._session(session_id)
            if session.messages is None:
                self._advance(base)
                for bucket, writer in session.writers.items():
                    writer.rebase(self._committed.levels(bucket))
                session.promote(attempts)
                if compact_all or full_compact:
                    for bucket in self._committed.buckets:
                        session.writer(bucket)
                session.messages = [
                    writer.prepare_commit(full_compact=full_compact)
                    for writer in session.writers.values()
                ]
            return session.messages

    def acknowledge(self, session_id: SessionId, snapshot_id: int) -> None:
        """The session is committed; its work is in ``snapshot_id``."""
        with self._lock:
            self._advance(snapshot_id)
            session = self._close(session_id)
            if session is not None:
                session.staging.clear()
            self._cache.expire()

    def abort(self, session_id: SessionId) -> None:
        """Drop a session."""
        with self._lock:
            session = self._close(session_id)
            if session is not None:
                session.abort()
            self._advance()

    def lookup(
        self,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None = None,
    ) -> tuple[np.ndarray, pa.Table, int]:
        """Rows by key.

        Args:
            keys: key columns, sorted by bucket as the slices say.
            visibility: ``latest`` sees what is pushed but not committed.
            snapshot_id: answer from this snapshot; by default from the newest known.

        Returns:
            Positions in ``keys`` of the keys found, their rows, and the snapshot answered from.
        """
        self._refresh()
        answered, buckets = self._committed.version(snapshot_id)
        positions, tables = [], []
        with self._lock if visibility == "latest" else nullcontext():
            for piece in slices:
                bucket = (piece.partition, piece.bucket)
                found, rows = self._lookup.find(
                    self._data_files(bucket),
                    buckets.get(bucket, _EMPTY),
                    self._writers(bucket) if visibility == "latest" else (),
                    keys.slice(piece.offset, piece.length),
                    columns,
                )
                if len(found):
                    positions.append(found + piece.offset)
                    tables.append(rows)
        if not tables:
            return np.empty(0, np.int64), self._empty(columns), answered
        return np.concatenate(positions), pa.concat_tables(tables), answered

    def stats(self) -> dict[str, object]:
        """Counters for people and metrics."""
        with self._lock:
            writers = [w for s in self._sessions.values() for w in s.writers.values()]
            return {
                "owner": self._settings.index,
                "pid": os.getpid(),
                "snapshot_id": self._committed.snapshot_id,
                "buckets": len(self._committed.buckets),
                "sessions": len(self._sessions),
                "memory_bytes": sum(writer.memory_bytes for writer in writers),
                "lookup": self._cache.stats(),
            }

    def close(self) -> None:
        """Drop uncommitted work and the local files."""
        with self._lock:
            for session in self._sessions.values():
                session.abort()
            self._sessions.clear()
            self._cache.close()
            shutil.rmtree(self._settings.local_directory, ignore_errors=True)

    def _empty(self, columns: Sequence[str]) -> pa.Table:
        fields = [self._schema.arrow_schema.field(name) for name in columns]
        return pa.schema(fields).empty_table()

    def _owns(self, partition: bytes, bucket: int) -> bool:
        return owner_of(partition, bucket, self._settings.owners) == self._settings.index

    def _session(self, session_id: SessionId) -> OwnerSession:
        now = self._clock()
        if session_id in self._sessions:
            self._sessions[session_id].touched = now
            return self._sessions[session_id]
        self._drop_idle(now)
        newest = self._generations.get(session_id.user, session_id.generation)
        if session_id.generation < newest:
            raise CommitFencedError(
                f"a newer writer of commit user {session_id.user!r} took over; stop this one, or "
                "open writers with different commit users",
                user=session_id.user,
                generation=session_id.generation,
                newest=newest,
            )
        self._generations[session_id.user] = session_id.generation
        for other in [s for s in self._sessions if s.user == session_id.user and s < session_id]:
            self._sessions.pop(other).abort()
        name = f"{session_id.generation}-{session_id.epoch}"
        staging = StagingArea(
            f"{self._settings.local_directory}/staging/{name}",
            self._settings.staging_memory,
        )
        session = OwnerSession(self._open_writer, staging, self._schema.core.write_buffer_size)
        session.touched = now
        self._sessions[session_id] = session
        return session

    def _drop_idle(self, now: int) -> None:
        idle = self._settings.idle_millis
        if idle is None:
            return
        for stale in [s for s, held in self._sessions.items() if now - held.touched > idle]:
            self._sessions.pop(stale).abort()

    def _close(self, session_id: SessionId) -> OwnerSession | None:
        newest = self._closed.get(session_id.user, session_id)
        self._closed[session_id.user] = max(newest, session_id)
        return self._sessions.pop(session_id, None)

    def _is_closed(self, session_id: SessionId) -> bool:
        """A batch of a session that has ended came late, or twice."""
        closed = self._closed.get(session_id.user)
        return closed is not None and session_id <= closed

    def _open_writer(self, bucket: BucketId) -> BucketWriter:
        return BucketWriter(
            self._schema,
            *bucket,
            self._data_files(bucket),
            self._committed.levels(bucket),
            self._lookup.upper_levels(self._data_files(bucket)),
            self._clock,
        )

    def _writers(self, bucket: BucketId) -> list[BucketWriter]:
        return [s.writers[bucket] for s in self._sessions.values() if bucket in s.writers]

    def _data_files(self, bucket: BucketId) -> DataFileStore:
        if bucket not in self._files:
            self._files[bucket] = DataFileStore(self._store, self._schema, *bucket)
        return self._files[bucket]

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._refreshed >= self._settings.refresh_millis:
            self._advance()
            self._refreshed = now

    def _advance(self, snapshot_id: int | None = None) -> None:
        before = self._committed.rollbacks
        self._committed.advance(snapshot_id)
        if self._committed.rollbacks != before:
            with self._lock:
                for session in self._sessions.values():
                    session.rebase(self._committed.levels)


_EMPTY = Levels()
