"""Owns buckets: takes their rows, prepares their commits, answers their lookups."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from pkray.commit.live import unless_expired
from pkray.commit.schemas import SchemaStore
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import CommitFencedError, MissingFileError, PartitionBucketsError
from pkray.format.commit_message import CommitMessage
from pkray.format.partition import PartitionSpec
from pkray.lookup.store import LookupStore
from pkray.lsm.bucket_writer import BucketWriter
from pkray.lsm.compaction import skips_level_0
from pkray.lsm.compactor import Compactor
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.schema import KIND, TableSchema
from pkray.service.committed import BucketId, CommittedFiles
from pkray.service.compaction_age import CompactionAge
from pkray.service.compaction_planner import CompactionPlanner
from pkray.service.compactions import Compactions
from pkray.service.dynamic_buckets import DynamicBuckets
from pkray.service.protocol import (
    ANY_BUCKET,
    ANY_PARTITION,
    DRIVER,
    Assigned,
    Attempts,
    Chosen,
    HashFile,
    Push,
    RoutedBatch,
    SessionId,
    Slice,
    Visibility,
)
from pkray.service.routing import owner_of
from pkray.service.schema_views import SchemaViews
from pkray.service.session import OwnerSession
from pkray.service.staging import StagingArea
from pkray.service.stop import Stop, StoppableFiles
from pkray.storage.location import TableLocation

_LOOKUPS = 3
"""Times that a lookup is begun anew, as files expire under it."""


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
        compaction_threads: compactions at a time, beside writing. Default 1.
        idle_millis: a session not touched for so long is dropped, as its writer is gone; one
            that is not gone pushes again. Default: never.
    """

    index: int
    owners: int
    local_directory: str
    staging_memory: int = 128 << 20
    refresh_millis: int = 0
    idle_millis: int | None = None
    compaction_threads: int = 1


class BucketOwner:
    """The one place where its buckets' rows meet.

    The constructor recovers from the latest snapshot; rows not committed before a crash are
    pushed again by whoever pushed them.

    Args:
        clock: epoch milliseconds.
        executor: runs compactions; by default threads of its own.
    """

    def __init__(
        self,
        location: TableLocation,
        settings: OwnerSettings,
        clock: Callable[[], int],
        executor: Executor | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        store = location.open()
        self._schemas = SchemaStore(store, location.name)
        self._schema = self._schemas.newest()
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
        self._views = SchemaViews(store, self._schemas.read, self._cache)
        self._buckets = DynamicBuckets(
            store,
            self._schema,
            settings.index,
            settings.owners,
            clock,
            settings.refresh_millis,
        )
        self._sessions: dict[SessionId, OwnerSession] = {}
        self._generations: dict[str, int] = {}
        self._closed: dict[str, SessionId] = {}
        self._lock = threading.RLock()
        self._refreshed = 0
        self._committed.advance()
        self._age = CompactionAge(store, lambda: self._schema, SnapshotStore(store))
        self._executor = executor or ThreadPoolExecutor(
            settings.compaction_threads, f"pkray-compaction-{settings.index}"
        )
        self._compaction = CompactionPlanner(
            Compactions(self._executor, self._open_compactor, clock),
            lambda: self._schema,
            self._committed.levels,
            self._aged,
            self._schemas.read,
            clock,
        )
        self._interrupted = self._compaction.interrupted(self._committed.buckets)

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
            session = self._session_of(push)
            if push.source == DRIVER:
                session.write(push, batch)
            else:
                session.staging.put((push.source, push.attempt), push.index, batch)

    def take_over(self, push: Push, path: str, count: int) -> None:
        """Take ``count`` batches from a spool file of this machine, as `push` would."""
        with self._lock:
            staging = self._session_of(push).staging
            staging.put_file((push.source, push.attempt), push.index, path, count)

    def prepare(
        self,
        session_id: SessionId,
        attempts: Attempts,
        base: int,
        compaction: Chosen | None = None,
        full_compact: bool = False,
        tokens: Sequence[str] = (),
    ) -> list[CommitMessage]:
        """Flush a session's buckets on top of snapshot ``base``, and compact what a commit must.

        Compactions that have finished beside it are handed over too. Repeating it gives the same
        messages; on another snapshot, others in their place. Where compaction is too far behind
        it waits.

        Args:
            compaction: see `CommitRequest`.
            full_compact: compact every bucket into one run.
            tokens: what this owner said when it assigned dynamic buckets to the attempts.

        Raises:
            LostBatchesError: batches of the attempts, or what was assigned to them, are not here.
            CommitConflictError: another process changed the hash indexes of dynamic buckets.
            SchemaChangedError: the table was rescaled since the rows were written.
        """
        asked = (base, attempts, compaction, full_compact)
        while True:
            with self._lock:
                self._advance(base)
                session = self._session(session_id)
                self._buckets.check(session_id, tokens, base)
                if session.messages is None or session.prepared_for != asked:
                    self._catch_up()
                    if session.schema_id is not None:
                        self._views.incoming(session.schema_id, self._schema)
                    self._compaction.settle(begin=False)
                    session.take_back()
                    session.rebase(self._committed.levels)
                    session.promote(attempts)
                    written = self._written(session, compaction, full_compact)
                    full = self._compacted_fully(written, compaction, full_compact)
                    if self._compaction.has_room(written, full):
                        session.messages = self._messages(session, written, full)
                        session.prepared_for = asked
                if session.messages is not None:
                    return self._buckets.indexed(session.messages, session.new_hashes)
            self._compaction.make_room(written, full)

    def acknowledge(
        self, session_id: SessionId, snapshot_id: int, hash_files: Sequence[HashFile] = ()
    ) -> bool:
        """The session is committed; its work is in ``snapshot_id``.

        Args:
            hash_files: the index files of the commit, those of other owners' buckets included.

        Returns:
            Whether compactions run, or are to be committed or begun.
        """
        with self._lock:
            self._buckets.committed(session_id, hash_files)
            self._advance(snapshot_id)
            session = self._close(session_id)
            if session is not None:
                session.staging.clear()
            self._cache.expire()
            self._interrupted = self._compaction.interrupted(self._interrupted)
            self._compaction.compactions.spend(self._committed.levels)
            self._compaction.settle()
            self._compaction.consider(session.writers if session is not None else ())
            return self._compaction.are_pending

    def compact(self, chosen: Chosen) -> int:
        """Compact committed files of the buckets chosen; returns when that is done.

        Returns:
            The number of buckets with something to be committed.
        """
        self._advance()
        with self._lock:
            self._catch_up()
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
            self._buckets.drop(session_id)
            session = self._close(session_id)
            written = list(session.writers) if session is not None else []
            if session is not None:
                session.abort()
            self._advance()
            # It may be committed in part: the coordinator was killed between its two snapshots.
            self._interrupted |= self._compaction.interrupted(written)
            self._compaction.settle()

    def assign(
        self,
        session_id: SessionId,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
    ) -> Assigned:
        """Dynamic buckets for rows to be pushed: see `BucketAssigner.assign`."""
        return self._buckets.assign(session_id, partitions, codes, hashes)

    def locate(
        self,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
        snapshot_id: int | None = None,
    ) -> tuple[np.ndarray, int]:
        """Dynamic buckets of keys: see `BucketAssigner.locate`."""
        return self._buckets.locate(partitions, codes, hashes, snapshot_id)

    def lookup(
        self,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None = None,
        schema_id: int | None = None,
    ) -> tuple[np.ndarray, pa.Table, int]:
        """Rows by key.

        Args:
            keys: key columns, sorted by bucket as the slices say.
            visibility: ``latest`` sees what is pushed but not committed.
            snapshot_id: answer from this snapshot; by default from the newest known.
            schema_id: the schema that keys and columns are of; by default the newest known.

        Returns:
            Positions in ``keys`` of the keys found, their rows, and the snapshot answered from.

        Raises:
            PartitionBucketsError: a partition has another number of buckets than the slices say.
            SnapshotNotFoundError: the snapshot has expired.
        """
        return self._lookup(False, keys, slices, visibility, columns, snapshot_id, schema_id)

    def lookup_prefix(
        self,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None = None,
        schema_id: int | None = None,
    ) -> tuple[np.ndarray, pa.Table, int]:
        """All rows of keys that begin so; as `lookup`.

        Args:
            keys: leading columns of the trimmed primary key, and perhaps others.
            slices: of some of the keys each; their partition may be `ANY_PARTITION` and their
                bucket `ANY_BUCKET`.
        """
        return self._lookup(True, keys, slices, visibility, columns, snapshot_id, schema_id)

    def _lookup(
        self,
        by_prefix: bool,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None,
        schema_id: int | None,
    ) -> tuple[np.ndarray, pa.Table, int]:
        for left in range(_LOOKUPS, 0, -1):
            try:
                with unless_expired(self._store, snapshot_id):
                    return self._find(
                        by_prefix, keys, slices, visibility, columns, snapshot_id, schema_id
                    )
            except MissingFileError:
                # Others compacted it away, and the snapshot that had it has expired.
                if snapshot_id is not None or left == 1:
                    raise
                self._refreshed = 0
        raise AssertionError("unreachable")

    def _find(
        self,
        by_prefix: bool,
        keys: pa.RecordBatch,
        slices: Sequence[Slice],
        visibility: Visibility,
        columns: Sequence[str],
        snapshot_id: int | None,
        schema_id: int | None,
    ) -> tuple[np.ndarray, pa.Table, int]:
        self._refresh()
        answered, buckets = self._committed.version(snapshot_id)
        positions, tables = [], []
        with self._lock if visibility == "latest" else nullcontext():
            self._catch_up(schema_id or 0)
            asked = self._schema if schema_id is None else self._schemas.read(schema_id)
            # What is not committed is held under the owner's schema.
            under = self._schema if visibility == "latest" else asked
            evolution = self._views.evolution(under, asked)
            sources = columns if evolution is None else evolution.sources(columns)
            if evolution is not None:
                keys = keys.rename_columns([evolution.source(n) for n in keys.schema.names])
            named = [s for s in slices if s.partition != ANY_PARTITION and s.bucket != ANY_BUCKET]
            self._refuse_other_buckets(named, asked, answered)
            lookup = self._views.lookup(under)
            find = lookup.find_prefixes if by_prefix else lookup.find
            for piece in self._reached(slices, buckets, visibility, answered):
                bucket = (piece.partition, piece.bucket)
                found, rows = find(
                    self._views.files(under, bucket),
                    self._visible(buckets.get(bucket, _EMPTY), visibility),
                    self._writers(bucket) if visibility == "latest" else (),
                    keys.slice(piece.offset, piece.length),
                    sources,
                )
                if evolution is not None:
                    rows = evolution.apply_table(rows, columns)
                if len(found):
                    positions.append(found + piece.offset)
                    tables.append(rows)
        if not tables:
            return np.empty(0, np.int64), _empty(asked, columns), answered
        return np.concatenate(positions), pa.concat_tables(tables), answered

    def _reached(
        self,
        slices: Sequence[Slice],
        committed: Iterable[BucketId],
        visibility: Visibility,
        snapshot_id: int,
    ) -> Iterator[Slice]:
        """The slices, those of any partition or bucket once for each that there is here."""
        there: dict[bytes, set[int]] = {}
        held = [s.writers for s in self._sessions.values()] if visibility == "latest" else []
        for partition, bucket in chain(committed, *held):
            there.setdefault(partition, set()).add(bucket)
        for piece in slices:
            any_partition = piece.partition == ANY_PARTITION
            if not any_partition and piece.bucket != ANY_BUCKET:
                yield piece
                continue
            for partition in sorted(there) if any_partition else [piece.partition]:
                buckets = there.get(partition, set())
                total = self._committed.total_buckets(partition, snapshot_id)
                if piece.bucket != ANY_BUCKET and total in (None, piece.total_buckets):
                    buckets = buckets & {piece.bucket}
                for bucket in sorted(buckets):
                    yield Slice(partition, bucket, piece.offset, piece.length)

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
                "assigned": self._buckets.stats(),
                "compaction": self._compaction.stats(),
            }

    def close(self) -> None:
        """Drop uncommitted work and the local files."""
        self._compaction.compactions.close()
        self._executor.shutdown()
        with self._lock:
            for session in self._sessions.values():
                session.abort()
            self._sessions.clear()
            self._cache.close()
            shutil.rmtree(self._settings.local_directory, ignore_errors=True)

    def _visible(self, levels: Levels, visibility: Visibility) -> Levels:
        """What lookups of committed rows see of a snapshot's files: what its readers see."""
        hides = visibility == "committed" and skips_level_0(self._schema)
        return levels.compacted() if hides else levels

    def _owns(self, partition: bytes, bucket: int) -> bool:
        return owner_of(partition, bucket, self._settings.owners) == self._settings.index

    def _session_of(self, push: Push) -> OwnerSession:
        session = self._session(push.session)
        self._catch_up(push.schema_id)
        session.expect(push)
        return session

    def _session(self, session_id: SessionId) -> OwnerSession:
        now = self._clock()
        if session_id in self._sessions:
            self._sessions[session_id].touched = now
            return self._sessions[session_id]
        self._drop_idle(now)
        self._catch_up()
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
        session = OwnerSession(
            self._open_writer,
            self._keep_current,
            self._as_current,
            lambda slices: self._refuse_other_buckets(slices, self._schema),
            staging,
            self._schema.core.write_buffer_size,
        )
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

    def _catch_up(self, schema_id: int | None = None) -> None:
        """Go on under the newest schema; only if this one is not known yet, where it is given."""
        if schema_id is None or schema_id > self._schema.id:
            self._schema = self._schemas.newest()

    def _refuse_other_buckets(
        self, slices: Iterable[Slice], schema: TableSchema, snapshot_id: int | None = None
    ) -> None:
        """Keys or rows that were spread over other buckets than their partition's."""
        wrong: dict[bytes, int] = {}
        for piece in slices:
            there = self._committed.total_buckets(piece.partition, snapshot_id)
            if there not in (None, piece.total_buckets or schema.core.bucket):
                wrong[piece.partition] = there
        if wrong:
            partition, there = next(iter(wrong.items()))
            named = PartitionSpec(schema).to_dict(partition) or "the table's rows"
            raise PartitionBucketsError(
                f"{named}: spread over {there} buckets, while the table has "
                f"{schema.core.bucket}; rescale the partition before writing to it: "
                f"table.rescale(buckets={schema.core.bucket})",
                totals=wrong,
                buckets=schema.core.bucket,
            )

    def _schema_of(self, bucket: BucketId) -> TableSchema:
        """The schema under which a bucket is written: with the buckets that its partition has."""
        there = self._committed.total_buckets(bucket[0])
        schema = self._schema
        if there is None or there == schema.core.bucket:
            return schema
        return dataclasses.replace(schema, options={**schema.options, "bucket": str(there)})

    def _open_writer(self, bucket: BucketId) -> BucketWriter:
        levels = self._committed.levels(bucket)
        self._catch_up(max((file.schema_id for file in levels.files), default=0))
        files = self._views.files(self._schema, bucket)
        return BucketWriter(
            self._schema_of(bucket),
            *bucket,
            files,
            levels,
            self._views.lookup(self._schema).upper_levels(files),
            self._clock,
            inline=self._compaction.is_inline,
        )

    def _open_compactor(self, bucket: BucketId, stop: Stop) -> tuple[Compactor, DataFileStore]:
        levels = self._committed.levels(bucket)
        self._catch_up(max((file.schema_id for file in levels.files), default=0))
        schema = self._schema
        files = StoppableFiles(self._store, schema, *bucket, schemas=self._schemas.read)
        files.stop = stop
        lookup = self._views.lookup(schema).upper_levels(self._views.files(schema, bucket))
        return Compactor(schema, files, merge_engine(schema), lookup, self._clock), files

    def _keep_current(self, writer: BucketWriter) -> None:
        """Let a writer go on under the owner's schema."""
        if writer.schema.id < self._schema.id:
            files = self._views.files(self._schema, (writer.partition, writer.bucket))
            lookup = self._views.lookup(self._schema).upper_levels(files)
            schema = self._schema_of((writer.partition, writer.bucket))
            writer.change_schema(schema, files, lookup)

    def _as_current(self, schema_id: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        evolution = self._views.incoming(schema_id, self._schema)
        return rows if evolution is None else evolution.apply(rows, [*self._schema.names, KIND])

    def _aged(self) -> CompactionAge:
        self._age.advance(self._committed.snapshot_id)
        return self._age

    def _written(
        self, session: OwnerSession, compaction: Chosen | None, full_compact: bool
    ) -> list[BucketId]:
        """Buckets that the session's commit is about."""
        chosen = set(session.writers) | set(self._compaction.compactions.finished())
        chosen |= self._interrupted & set(self._committed.buckets)
        for bucket in self._committed.buckets:
            asked = compaction is not None and compaction.has(bucket)
            if full_compact or (asked and self._compaction.commits_compact):
                chosen.add(bucket)
        if compaction is None:
            chosen.update(self._compaction.overdue(chosen))
        return sorted(chosen)

    def _compacted_fully(
        self, written: Sequence[BucketId], compaction: Chosen | None, full_compact: bool
    ) -> set[BucketId]:
        if full_compact:
            return set(written)
        if compaction is not None:
            by_commit = compaction.full and self._compaction.is_inline
            return {b for b in written if by_commit and compaction.has(b)}
        return self._compaction.overdue(written)

    def _messages(
        self, session: OwnerSession, written: Iterable[BucketId], full: Collection[BucketId]
    ) -> list[CommitMessage]:
        compactions = self._compaction.compactions
        messages = []
        for bucket in written:
            levels, writer = self._committed.levels(bucket), session.writer(bucket)
            writer.rebase(levels)
            finished = compactions.result(bucket, levels)
            if finished is not None:
                writer.adopt(finished)
            busy = compactions.busy(bucket)
            messages.append(writer.prepare_commit(full_compact=bucket in full, busy=busy))
        compactions.handed_over(messages)
        return messages

    def _writers(self, bucket: BucketId) -> list[BucketWriter]:
        return [s.writer(bucket) for s in self._sessions.values() if bucket in s.writers]

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
                self._compaction.compactions.spend(self._committed.levels)
                for session_id, session in list(self._sessions.items()):
                    if session.messages is None:
                        session.rebase(self._committed.levels)
                    else:  # the rollback may have taken its files: they are pushed again
                        self._sessions.pop(session_id).abort()


_EMPTY = Levels()


def _empty(schema: TableSchema, columns: Sequence[str]) -> pa.Table:
    return pa.schema([schema.arrow_schema.field(name) for name in columns]).empty_table()
