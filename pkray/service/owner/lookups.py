"""Rows by key in an owner's buckets, of its memory too; what commits in doubt became is found out
first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.lookup.bucket_lookup import reads_pages
from pkray.lsm.compaction.pick import skips_level_0
from pkray.lsm.levels import Levels
from pkray.metadata.live import BucketId, unless_expired
from pkray.schema.table_schema import TableSchema
from pkray.service.committed_files import CommittedFiles
from pkray.service.owner.buckets import OwnedBuckets, ReadContexts
from pkray.service.owner.session import OwnerSession
from pkray.service.owner.sessions import OwnerSessions
from pkray.service.owner.snapshot_refresher import SnapshotRefresher
from pkray.service.protocol import ANY_BUCKET, ANY_PARTITION, Holding, Lookup, LookupAnswer, Slice
from pkray.service.schema_cache import SchemaCache
from pkray.storage.object_store import ObjectStore, ahead

Ints = npt.NDArray[np.int64]

_TRIES = 3
"""Times that a lookup is begun anew, as files expire under it."""


class OwnerLookups:
    """Lookups in committed files, and in what sessions hold on top of them."""

    def __init__(
        self,
        store: ObjectStore,
        schema: SchemaCache,
        committed: CommittedFiles,
        views: ReadContexts,
        buckets: OwnedBuckets,
        sessions: OwnerSessions,
        refresher: SnapshotRefresher,
    ) -> None:
        self._store = store
        self._schema = schema
        self._committed = committed
        self._views = views
        self._buckets = buckets
        self._sessions = sessions
        self._in_doubt = InDoubtCommits(sessions, committed)
        self._refresher = refresher

    def answer(self, asked: Lookup) -> LookupAnswer:
        """Look keys up.

        Raises:
            LostBatchesError: rows that are expected are not here.
            PartitionBucketsError: a partition has another number of buckets than the slices say.
                Without ``totals`` rows that are not committed are for another number.
            SchemaChangedError: the table has another schema of the id that is named.
            SnapshotNotFoundError: the snapshot has expired.
        """
        for tries in range(1, _TRIES + 1):
            try:
                with unless_expired(self._store, asked.snapshot_id):
                    self._refresher.refresh(tries > 1, asked.staleness_millis)
                    return self._find(asked)
            except MissingFileError:
                # Others compacted it away, and the snapshot that had it has expired.
                if asked.snapshot_id is not None or tries == _TRIES:
                    raise
        raise AssertionError("unreachable")

    def _find(self, asked: Lookup) -> LookupAnswer:
        answered, levels, sessions = self._state(asked)
        positions, tables = [], []
        schema = self._schema.current
        if asked.schema_id is not None:
            schema = self._schema.resolve(asked.schema_id, asked.schema_digest)
        newest = self._schema.current
        sessions = [session for session in sessions if not session.is_replaced]
        # What is not committed is held under the owner's schema.
        under = newest if asked.sees_uncommitted else schema
        evolution = self._views.evolution(under, schema)
        keys, columns = asked.keys, asked.columns
        if evolution is not None:
            keys = keys.rename_columns([evolution.source(n) for n in keys.schema.names])
            columns = evolution.sources(columns)
        totals = [self._total_of(session) for session in sessions]
        for session, total in zip(sessions, totals, strict=True):
            if total == newest.core.bucket:  # others will not be committed
                self._check_not_waiting(asked, schema, session, total, answered)
        self._buckets.check_buckets(filter(_is_named, asked.slices), schema, answered)
        written = (bucket for session in sessions for bucket in list(session.writers))

        def find_in(piece: Slice) -> tuple[Ints, pa.Table]:
            bucket = (piece.partition, piece.bucket)
            committed = levels.get(bucket, _EMPTY)
            held = (
                session.uncommitted(bucket, committed, under.id)
                for session, total in zip(sessions, totals, strict=True)
                if self._buckets.fits(bucket, total, answered)
            )
            lookup = self._views.lookup(under, bucket)
            find = lookup.find_prefixes if asked.by_prefix else lookup.find
            found, rows = find(
                self._visible(committed, asked),
                keys.slice(piece.offset, piece.length),
                columns,
                [each for each in held if each is not None],
            )
            if evolution is not None:
                rows = evolution.apply_table(rows, asked.columns)
            return found + piece.offset, rows

        pieces = self._reached(asked, chain(levels, written), answered)
        together = reads_pages(under, keys.num_rows)
        parts = ahead(self._store, find_in, pieces) if together else map(find_in, pieces)
        for found, rows in parts:
            if len(found):
                positions.append(found)
                tables.append(rows)
        if not tables:
            return np.empty(0, np.int64), _empty(schema, asked.columns), answered
        if len(tables) == 1:
            return positions[0], tables[0], answered
        return np.concatenate(positions), pa.concat_tables(tables), answered

    def _state(
        self, asked: Lookup
    ) -> tuple[int, Mapping[BucketId, Levels], Sequence[OwnerSession]]:
        """A snapshot, its levels, and the sessions whose rows are to be merged on top.

        A commit that is under way may show in the newest snapshot before its session ends, and
        would count twice: the snapshot before it is taken.
        """
        if not asked.sees_uncommitted:
            return *self._committed.version(asked.snapshot_id), ()
        sessions, wanted = self._uncommitted(asked.expected)
        try:
            answered, levels = self._committed.version(wanted)
        except SnapshotNotFoundError:  # rolled back or expired meanwhile
            answered, levels = self._committed.version(None)
        return answered, levels, [s for s in sessions if not s.prepared.is_in(answered)]

    def _uncommitted(self, expected: Sequence[Holding]) -> tuple[Sequence[OwnerSession], int]:
        """All sessions, and the snapshot to lay them on."""
        while True:
            self._in_doubt.find_out()
            with self._sessions.lock:
                if self._in_doubt.is_found_out:
                    self._sessions.require(expected)
                    base = self._sessions.base_in_flight()
                    newest = self._committed.snapshot_id
                    sessions = [session for _, session in self._sessions.items()]
                    return sessions, newest if base is None else base

    def _total_of(self, session: OwnerSession) -> int:
        """The number of buckets that a session's rows were spread over."""
        schema_id = session.schema_id
        schema = self._schema.current if schema_id is None else self._schema.read(schema_id)
        return schema.core.bucket

    def _check_not_waiting(
        self,
        asked: Lookup,
        schema: TableSchema,
        session: OwnerSession,
        total: int,
        snapshot_id: int,
    ) -> None:
        """Check that what is committed of the keys of a session's rows is not in other buckets,
        perhaps of other owners: the table may have been rolled back over a rescale."""
        fits = self._buckets.fits
        reached = _named_buckets(asked) or list(session.writers)
        apart = {b for b in reached if not fits(b, total, snapshot_id)}
        for bucket in apart.intersection(session.written if apart else ()):
            for piece in asked.slices:
                spread = piece.total_buckets or schema.core.bucket
                if _may_hold(replace(piece, total_buckets=spread), bucket, total):
                    raise self._buckets.waiting(bucket[0], snapshot_id)

    def _reached(
        self, asked: Lookup, held: Iterable[BucketId], snapshot_id: int
    ) -> Iterator[Slice]:
        """The slices, those of any partition or bucket once for each that there is here."""
        if _named_buckets(asked):
            yield from asked.slices
            return
        there: dict[bytes, set[int]] = {}
        for partition, bucket in held:
            there.setdefault(partition, set()).add(bucket)
        for piece in asked.slices:
            if _is_named(piece):
                yield piece
                continue
            any_partition = piece.partition == ANY_PARTITION
            for partition in sorted(there) if any_partition else [piece.partition]:
                buckets = there.get(partition, set())
                total = self._committed.total_buckets(partition, snapshot_id)
                if piece.bucket != ANY_BUCKET and total in (None, piece.total_buckets):
                    buckets = buckets & {piece.bucket}
                for bucket in sorted(buckets):
                    yield Slice(partition, bucket, piece.offset, piece.length)

    def _visible(self, levels: Levels, asked: Lookup) -> Levels:
        """Leave what lookups of committed rows see of a snapshot's files, as its readers do."""
        hides = not asked.sees_uncommitted and skips_level_0(self._schema.current)
        return levels.compacted() if hides else levels


_EMPTY = Levels()


def asks_one_bucket_a_key(asked: Lookup) -> bool:
    """Whether no other bucket can have a key that is not found."""
    return not asked.by_prefix and all(map(_is_named, asked.slices))


def _is_named(piece: Slice) -> bool:
    return piece.partition != ANY_PARTITION and piece.bucket != ANY_BUCKET


def _named_buckets(asked: Lookup) -> list[BucketId]:
    """The only buckets that are asked; none where that depends on which there are."""
    if not all(map(_is_named, asked.slices)):
        return []
    return [(piece.partition, piece.bucket) for piece in asked.slices]


def _may_hold(piece: Slice, bucket: BucketId, total: int) -> bool:
    """Whether keys of a slice may have rows in a bucket, one of so many in its partition."""
    if piece.partition not in (ANY_PARTITION, bucket[0]):
        return False
    if piece.bucket != ANY_BUCKET and piece.total_buckets == total:
        return piece.bucket == bucket[1]
    return not _is_named(piece)  # named ones were sent where such rows are before


def _empty(schema: TableSchema, columns: Sequence[str]) -> pa.Table:
    return pa.schema([schema.arrow_schema.field(name) for name in columns]).empty_table()


class InDoubtCommits:
    """Finds the snapshots of sessions whose end the owner was not told.

    Their rows would count twice, with those of the snapshot, as soon as it is compacted: until
    then the files themselves tell.
    """

    def __init__(self, sessions: OwnerSessions, committed: CommittedFiles) -> None:
        self._sessions = sessions
        self._committed = committed

    @property
    def is_found_out(self) -> bool:
        """Whether `find_out` has looked into the newest snapshot known."""
        newest = self._committed.snapshot_id
        waiting = self._sessions.in_doubt()
        return all(prepared.searched_until >= newest for _, prepared in waiting)

    def find_out(self) -> None:
        """Look into the snapshots that sessions' users made since their commits were prepared."""
        newest = self._committed.snapshot_id
        for session_id, prepared in self._sessions.in_doubt():
            after = prepared.searched_until
            prepared.search(self._committed.appended_by(session_id.user, after, newest), newest)
