"""Assigns rows of a table with dynamic buckets to buckets, by the hash of their key.

Every owner is also an assigner of its class of key hashes (`assigners`), as in Paimon, because
that is right for any number of owners: an assigner reads the HASH index of all of a partition's
buckets and keeps the hashes of its class, so that it finds a key in whatever bucket it is, and
only it adds keys to the buckets of its class, so that it knows how full they are. Rows then go to
the owners of their buckets as those of fixed buckets do. Writers ask before they push: 4 bytes a
row travel there and back, the row itself once.

What was assigned and is not committed belongs to a session and ends with it. That a commit cannot
put a key into a second bucket rests on three checks: a session's assigner must not have forgotten
it (the token), the partition's index must be the one it was assigned by, but for this service's
own commits (`check`), and must be it still when the snapshot is published (the committer).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pkray.errors import CommitConflictError
from pkray.format.hash_index import Hashes
from pkray.format.index_file import IndexFileMeta
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.bucket_filling import BucketFilling
from pkray.service.assignment.committed_keys import CommittedKeys
from pkray.service.assignment.key_index import (
    ABSENT,
    Buckets,
    KeyIndex,
    Packed,
    distinct,
    ordered,
    unpack,
)
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.assignment.session_assigner import SessionAssigner
from pkray.service.client.assigners import KeyShare, assigner_count
from pkray.service.protocol import Assigned, HashedKeys, HashFile, Holding, SessionId
from pkray.service.stats import HashIndexStats
from pkray.storage.object_store import ObjectStore


@dataclass
class Assignments:
    """The buckets that one session was assigned.

    Args:
        token: told with each assignment; another one means that the session was forgotten.
        new: the buckets of keys that are not committed, by partition.
        counts: keys by bucket, by partition.
        used: the partitions it was assigned in, with the state of their index then.
    """

    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    new: dict[bytes, KeyIndex] = field(default_factory=dict)
    counts: dict[bytes, dict[int, int]] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=dict)

    def find(self, partition: bytes, hashes: Packed) -> Buckets:
        """Find the bucket of each hash, int32; `ABSENT` where it was assigned none."""
        return self.new.get(partition, KeyIndex()).find(hashes)

    def add(self, partition: bytes, hashes: Packed, buckets: Buckets) -> None:
        """Note distinct hashes that were assigned none yet, and the bucket of each: int32."""
        self.new.setdefault(partition, KeyIndex()).add(hashes, buckets)
        counts = self.counts.setdefault(partition, {})
        sizes = np.bincount(buckets)
        for bucket in np.flatnonzero(sizes).tolist():
            counts[bucket] = counts.get(bucket, 0) + int(sizes[bucket])


class OpenAssignments(OpenSessions[Assignments]):
    """The assignments of all sessions that have not ended."""

    def __len__(self) -> int:
        """Keys that are not committed."""
        return sum(len(index) for each in self for index in each.new.values())

    def fill(self, partition: bytes, hashes: Packed, found: Buckets) -> None:
        """Set the bucket of each hash that is still absent, where some session was assigned it."""
        for each in self:
            absent = np.flatnonzero(found == ABSENT)
            if not len(absent):
                return
            if partition in each.new:
                found[absent] = each.find(partition, hashes[absent])

    def sizes(self, partition: bytes) -> dict[int, int]:
        """Count keys by bucket."""
        sizes: dict[int, int] = {}
        for each in self:
            for bucket, count in each.counts.get(partition, {}).items():
                sizes[bucket] = sizes.get(bucket, 0) + count
        return sizes


class BucketAssigner(SessionAssigner[Assignments]):
    """One owner's share of a table's keys. Thread-safe.

    Args:
        index: the owner's.
        owners: how many share the table.
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often before a lookup.
        memory_limit: bytes of hashes kept of partitions; the least recently used are let go and
            read again when they are needed. One partition is always kept.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        snapshots: SnapshotStore,
        index: int,
        owners: int,
        clock: Callable[[], int],
        refresh_millis: int = 0,
        memory_limit: int = 512 << 20,
    ) -> None:
        share = KeyShare(index, owners, assigner_count(schema.core, owners))
        self._keys = CommittedKeys(store, snapshots, share, clock, refresh_millis, memory_limit)
        self._open = OpenAssignments()
        super().__init__(index, self._open, self._keys)
        self._filling = BucketFilling(share.assigners, schema.core.dynamic_bucket_target_row_num)

    def assign(self, session_id: SessionId, keys: HashedKeys) -> Assigned:
        """Choose buckets for rows that a session is to write, int32, one a row; asking again gives
        the same ones.

        Raises:
            CommitConflictError: another process assigned keys of these partitions meanwhile.
            CommitFencedError: the session has ended.
            OptionError: a partition has as many buckets as there can be.
        """
        buckets, is_new = np.empty(len(keys), np.int32), np.empty(len(keys), np.bool_)
        with self._lock:
            session = self._session(session_id)
            for partition, rows in keys.by_partition():
                self._check_unchanged(session, partition)
                buckets[rows], is_new[rows] = self._assign(session, partition, keys.hashes[rows])
            self._keys.let_go()
        return Assigned(buckets, is_new, session.token)

    def locate(
        self, keys: HashedKeys, snapshot_id: int | None = None, expected: Sequence[Holding] = ()
    ) -> tuple[Buckets, int]:
        """Find the bucket of each key, int32, one a key; `ABSENT` where there is no key of its
        hash.

        Args:
            snapshot_id: look into this snapshot; by default into the newest and into what is not
                committed.
            expected: what is to be known of sessions, those apart that have ended.

        Returns:
            The buckets, and the snapshot that was looked into.

        Raises:
            LostBatchesError: what is expected is not known here.
            SnapshotNotFoundError: the snapshot has expired.
        """
        buckets = np.empty(len(keys), np.int32)
        with self._lock:
            self._look(snapshot_id, expected)
            answered = self._keys.snapshot_id if snapshot_id is None else snapshot_id
            files = self._keys.files_at(answered)
            for partition, rows in keys.by_partition():
                asked = ordered(keys.hashes[rows])
                found = self._keys.keys(partition, files.get(partition, {})).find(asked.wanted)
                if snapshot_id is None:
                    self._open.fill(partition, asked.wanted, found)
                answers = np.empty_like(found)
                answers[asked.rows] = found
                buckets[rows] = answers
            self._keys.let_go()
        return buckets, answered

    def committed(self, session_id: SessionId, changes: Iterable[HashFile]) -> None:
        """Note that the session is committed, with these index files for buckets of the table."""
        with self._lock:
            session = self._open.get(session_id) or Assignments()
            by_partition: dict[bytes, list[HashFile]] = {}
            for change in changes:
                by_partition.setdefault(change.partition, []).append(change)
            for partition, changed in by_partition.items():
                self._keys.take(partition, changed, session.new.get(partition))
            self.drop(session_id)

    def file(self, partition: bytes, bucket: int) -> IndexFileMeta | None:
        """Return the bucket's committed index file, as this assigner knows it."""
        with self._lock:
            return self._keys.files(partition).get(bucket)

    def stats(self) -> HashIndexStats:
        """Count what is held."""
        with self._lock:
            return self._keys.stats(uncommitted=len(self._open))

    def _begun(self) -> Assignments:
        return Assignments()

    def _check_session(self, session: Assignments) -> None:
        for partition in session.used:
            self._check_unchanged(session, partition)

    def _assign(
        self, session: Assignments, partition: bytes, hashes: Hashes
    ) -> tuple[Buckets, npt.NDArray[np.bool_]]:
        keys = ordered(hashes)
        found = self._keys.keys(partition).find(keys.wanted)
        absent = np.flatnonzero(found == ABSENT)
        is_new = np.zeros(len(found), np.bool_)
        if len(absent):
            fresh, of_absent = distinct(keys.wanted[absent])
            found[absent] = self._assign_new(session, partition, fresh)[of_absent]
            is_new[keys.rows[absent]] = True
        buckets = np.empty_like(found)
        buckets[keys.rows] = found
        return buckets, is_new

    def _assign_new(self, session: Assignments, partition: bytes, hashes: Packed) -> Buckets:
        """Buckets of distinct hashes that are not committed; other sessions may have them too."""
        found = session.find(partition, hashes)
        added = found == ABSENT
        self._open.fill(partition, hashes, found)
        fresh = np.flatnonzero(found == ABSENT)
        if len(fresh):
            sizes = self._sizes(partition)
            found[fresh] = self._filling.place(unpack(hashes[fresh]), sizes)
        session.add(partition, hashes[added], found[added])
        return found

    def _sizes(self, partition: bytes) -> dict[int, int]:
        """Keys by bucket, those not committed included."""
        sizes = self._open.sizes(partition)
        for bucket, file in self._keys.files(partition).items():
            sizes[bucket] = sizes.get(bucket, 0) + file.row_count
        return sizes

    def _check_unchanged(self, session: Assignments, partition: bytes) -> None:
        state = self._keys.state(partition)
        if session.used.setdefault(partition, state) != state:
            raise CommitConflictError(
                "another process changed the hash index of a partition that this commit assigns "
                "buckets in; nothing was committed: let one service write a table with dynamic "
                "buckets, abort, and write again",
                partition=partition,
            )
