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

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pkray.commit.index_files import index_files
from pkray.errors import CommitConflictError
from pkray.format.hash_index import Hashes, read_hashes, unique
from pkray.format.index_file import HASH, IndexFileMeta
from pkray.format.snapshot import Snapshot
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment import key_index
from pkray.service.assignment.bucket_filling import MAX_BUCKETS, BucketFilling
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.assignment.session_assigner import SessionAssigner
from pkray.service.assignment.snapshot_watch import SnapshotWatch
from pkray.service.client.assigners import KeyShare, assigner_count
from pkray.service.protocol import Assigned, HashedKeys, HashFile, Holding, SessionId
from pkray.service.stats import HashIndexStats
from pkray.storage.object_store import ObjectStore

HashFiles = dict[bytes, dict[int, IndexFileMeta]]
"""By partition and bucket."""


class CommittedKeys:
    """One owner's share of the keys, moved on from snapshot to snapshot. Not thread-safe.

    Args:
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often.
        memory_limit: bytes of hashes kept of partitions; the least recently used are let go and
            read again when they are needed. One partition is always kept.
    """

    def __init__(
        self,
        store: ObjectStore,
        snapshots: SnapshotStore,
        share: KeyShare,
        clock: Callable[[], int],
        refresh_millis: int,
        memory_limit: int,
    ) -> None:
        self._store = store
        self._snapshots = snapshots
        self._share = share
        self.watch = SnapshotWatch(clock, refresh_millis)
        self._memory_limit = memory_limit
        self._snapshot: Snapshot | None = None
        self._files: HashFiles = {}
        self._states: dict[bytes, int] = {}
        self._loaded: OrderedDict[tuple[bytes, frozenset[str]], key_index.KeyIndex] = OrderedDict()

    @property
    def snapshot_id(self) -> int:
        """The snapshot that they are of; 0 before the first."""
        return self._snapshot.id if self._snapshot else 0

    def files(self, partition: bytes) -> Mapping[int, IndexFileMeta]:
        """List a partition's index files by bucket."""
        return self._files.get(partition, {})

    def state(self, partition: bytes) -> int:
        """Number the state of the partition's index: another one whenever others have changed
        it."""
        return self._states.get(partition, 0)

    def keys(
        self, partition: bytes, files: Mapping[int, IndexFileMeta] | None = None
    ) -> key_index.KeyIndex:
        """Read the hashes of this owner's classes, in these files (the partition's by default)."""
        files = self.files(partition) if files is None else files
        version = partition, _names(files)
        if version not in self._loaded:
            self._loaded[version] = self._load(partition, files)
        self._loaded.move_to_end(version)
        return self._loaded[version]

    def files_at(self, snapshot_id: int) -> HashFiles:
        """List the index files of any snapshot; 0 is the empty table.

        Raises:
            SnapshotNotFoundError: the snapshot has expired.
        """
        if snapshot_id == self.snapshot_id:
            return self._files
        return self._files_of(self._snapshots.read(snapshot_id) if snapshot_id else None)

    def refresh(self) -> None:
        """See the newest snapshot, if no commit is under way whose own changes it may have."""
        if self.watch.is_due():
            with self.watch.looking():
                self._move(self._snapshots.latest())

    def await_commit(self, session_id: SessionId, base: int) -> None:
        """Note that the session is being committed on top of a snapshot: see this one until it
        is."""
        self._move(self._snapshots.read(base) if base else None)
        self.watch.await_commit(session_id)

    def take(
        self, partition: bytes, changed: Sequence[HashFile], assigned: key_index.KeyIndex | None
    ) -> None:
        """Put a commit's index files in the place of those before.

        What was assigned moves into the index in memory where that gives exactly what the files
        hold; else, as after a task's failed attempt, the files are read when they are needed.
        """
        before = self.files(partition)
        after = {**before, **{change.bucket: change.file for change in changed}}
        index = self._loaded.pop((partition, _names(before)), None)
        self._files[partition] = after
        if index is None:
            return
        sizes = _add_assigned(index, changed, assigned)
        for change in changed:
            if self._share.has_bucket(partition, change.bucket):
                known = before.get(change.bucket)
                added = change.file.row_count - (known.row_count if known is not None else 0)
                if added != sizes[change.bucket]:
                    return
        self._loaded[partition, _names(after)] = index

    def let_go(self) -> None:
        """Keep to the memory that the hashes may take."""
        held = sum(index.nbytes for index in self._loaded.values())
        while held > self._memory_limit and len(self._loaded) > 1:
            _, index = self._loaded.popitem(last=False)
            held -= index.nbytes

    def stats(self, uncommitted: int) -> HashIndexStats:
        return HashIndexStats(
            partitions=len(self._loaded),
            hashes=sum(len(index) for index in self._loaded.values()),
            bytes=sum(index.nbytes for index in self._loaded.values()),
            uncommitted=uncommitted,
        )

    def _move(self, target: Snapshot | None) -> None:
        """Move on to a snapshot, and note the partitions whose index others have changed."""
        held = self._snapshot
        if target == held:
            return
        behind = held is not None and (target is None or target.id <= held.id)
        if behind and held is not None and self._snapshots.rests_on(held):
            return
        files = self._files_of(target)
        for partition in files.keys() | self._files.keys():
            if files.get(partition) != self._files.get(partition):
                self._states[partition] = self._states.get(partition, 0) + 1
        self._files = files
        self._snapshot = target

    def _files_of(self, snapshot: Snapshot | None) -> HashFiles:
        files: HashFiles = {}
        for (partition, bucket), found in index_files(self._store, snapshot, HASH).items():
            files.setdefault(partition, {})[bucket] = found[-1]
        return files

    def _load(self, partition: bytes, files: Mapping[int, IndexFileMeta]) -> key_index.KeyIndex:
        index = key_index.KeyIndex()
        for bucket, file in sorted(files.items()):
            hashes = read_hashes(self._store, file)
            mine = self._share.has_hashes(partition, hashes)
            index.add(key_index.pack(unique(hashes[mine])), bucket)
        return index


def _names(files: Mapping[int, IndexFileMeta]) -> frozenset[str]:
    return frozenset(file.file_name for file in files.values())


def _add_assigned(
    index: key_index.KeyIndex, changed: Sequence[HashFile], assigned: key_index.KeyIndex | None
) -> npt.NDArray[np.int64]:
    """Add what was assigned in the buckets that changed; how many hashes by bucket."""
    is_changed = np.zeros(MAX_BUCKETS, np.bool_)
    is_changed[[change.bucket for change in changed]] = True
    sizes = np.zeros(MAX_BUCKETS, np.int64)
    for hashes, buckets in assigned.items() if assigned is not None else ():
        taken = is_changed[buckets] & (index.find(hashes) == key_index.ABSENT)
        sizes += np.bincount(buckets[taken], minlength=MAX_BUCKETS)
        index.add(hashes[taken], buckets[taken])
    return sizes


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
    new: dict[bytes, key_index.KeyIndex] = field(default_factory=dict)
    counts: dict[bytes, dict[int, int]] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=dict)

    def find(self, partition: bytes, hashes: key_index.Packed) -> key_index.Buckets:
        """Find the bucket of each hash, int32; `ABSENT` where it was assigned none."""
        return self.new.get(partition, key_index.KeyIndex()).find(hashes)

    def add(self, partition: bytes, hashes: key_index.Packed, buckets: key_index.Buckets) -> None:
        """Note distinct hashes that were assigned none yet, and the bucket of each: int32."""
        self.new.setdefault(partition, key_index.KeyIndex()).add(hashes, buckets)
        counts = self.counts.setdefault(partition, {})
        sizes = np.bincount(buckets)
        for bucket in np.flatnonzero(sizes).tolist():
            counts[bucket] = counts.get(bucket, 0) + int(sizes[bucket])


class OpenAssignments(OpenSessions[Assignments]):
    """The assignments of all sessions that have not ended."""

    def __len__(self) -> int:
        """Keys that are not committed."""
        return sum(len(index) for each in self for index in each.new.values())

    def fill(self, partition: bytes, hashes: key_index.Packed, found: key_index.Buckets) -> None:
        """Set the bucket of each hash that is still absent, where some session was assigned it."""
        for each in self:
            absent = np.flatnonzero(found == key_index.ABSENT)
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
    ) -> tuple[key_index.Buckets, int]:
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
                asked = key_index.ordered(keys.hashes[rows])
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
    ) -> tuple[key_index.Buckets, npt.NDArray[np.bool_]]:
        keys = key_index.ordered(hashes)
        found = self._keys.keys(partition).find(keys.wanted)
        absent = np.flatnonzero(found == key_index.ABSENT)
        is_new = np.zeros(len(found), np.bool_)
        if len(absent):
            fresh, of_absent = key_index.distinct(keys.wanted[absent])
            found[absent] = self._assign_new(session, partition, fresh)[of_absent]
            is_new[keys.rows[absent]] = True
        buckets = np.empty_like(found)
        buckets[keys.rows] = found
        return buckets, is_new

    def _assign_new(
        self, session: Assignments, partition: bytes, hashes: key_index.Packed
    ) -> key_index.Buckets:
        """Buckets of distinct hashes that are not committed; other sessions may have them too."""
        found = session.find(partition, hashes)
        added = found == key_index.ABSENT
        self._open.fill(partition, hashes, found)
        fresh = np.flatnonzero(found == key_index.ABSENT)
        if len(fresh):
            sizes = self._sizes(partition)
            found[fresh] = self._filling.place(key_index.unpack(hashes[fresh]), sizes)
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
