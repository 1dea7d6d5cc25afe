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

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pkray.commit.index_files import index_files
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import (
    CommitConflictError,
    CommitFencedError,
    LostBatchesError,
    OptionError,
)
from pkray.format.hash_index import Hashes, read_hashes, unique
from pkray.format.index_file import HASH, IndexFileMeta
from pkray.format.snapshot import Snapshot
from pkray.schema import TableSchema
from pkray.service.assigners import assigner_count, assigning_owner, classes
from pkray.service.key_index import (
    ABSENT,
    Buckets,
    KeyIndex,
    Packed,
    distinct,
    ordered,
    pack,
    unpack,
)
from pkray.service.protocol import Assigned, HashFile, SessionId
from pkray.storage.object_store import ObjectStore

MAX_BUCKETS = 32767
"""Buckets a partition; Paimon keeps their numbers in 16 bits."""

PENDING_MILLIS = 60_000
"""After so long without an answer, a commit's coordinator is taken for dead."""


@dataclass
class _Session:
    """What one session was assigned that is not committed.

    Args:
        token: told with each assignment; another one means that the session was forgotten.
        used: the partitions it was assigned in, with the state of their index then.
    """

    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    new: dict[bytes, KeyIndex] = field(default_factory=dict)
    counts: dict[bytes, dict[int, int]] = field(default_factory=dict)
    used: dict[bytes, int] = field(default_factory=dict)


class BucketAssigner:
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
        self._store = store
        self._snapshots = snapshots
        self._index = index
        self._owners = owners
        self._assigners = assigner_count(schema.core, owners)
        self._target = schema.core.dynamic_bucket_target_row_num
        self._clock = clock
        self._refresh_millis = refresh_millis
        self._memory_limit = memory_limit
        self._lock = threading.RLock()
        self._snapshot: Snapshot | None = None
        self._files: dict[bytes, dict[int, IndexFileMeta]] = {}
        self._states: dict[bytes, int] = {}
        self._loaded: OrderedDict[tuple[bytes, frozenset[str]], KeyIndex] = OrderedDict()
        self._sessions: dict[SessionId, _Session] = {}
        self._ended: dict[str, SessionId] = {}
        self._pending: tuple[SessionId, int] | None = None
        self._refreshed: int | None = None

    def assign(
        self,
        session_id: SessionId,
        partitions: Sequence[bytes],
        codes: npt.NDArray[np.int32],
        hashes: Hashes,
    ) -> Assigned:
        """Buckets for rows that a session is to write; asking again gives the same ones.

        Args:
            codes: each row's partition, as a position in ``partitions``.

        Raises:
            CommitConflictError: another process assigned keys of these partitions meanwhile.
            CommitFencedError: the session has ended.
            OptionError: a partition has as many buckets as there can be.
        """
        buckets = np.empty(len(hashes), np.int32)
        is_new = np.empty(len(hashes), np.bool_)
        with self._lock:
            session = self._session(session_id)
            for partition, rows in _by_partition(partitions, codes):
                self._refuse_changed(session, partition)
                buckets[rows], is_new[rows] = self._assign(session, partition, hashes[rows])
            self._let_go()
        return Assigned(buckets, is_new, session.token)

    def locate(
        self,
        partitions: Sequence[bytes],
        codes: npt.NDArray[np.int32],
        hashes: Hashes,
        snapshot_id: int | None = None,
    ) -> tuple[Buckets, int]:
        """The bucket of each key, `ABSENT` where there is no key of its hash.

        Args:
            snapshot_id: look into this snapshot; by default into the newest and into what is not
                committed.

        Returns:
            The buckets, and the snapshot that was looked into.

        Raises:
            SnapshotNotFoundError: the snapshot has expired.
        """
        buckets = np.empty(len(hashes), np.int32)
        with self._lock:
            if snapshot_id is not None and (not self._snapshot or self._snapshot.id < snapshot_id):
                self._refreshed = None
            self._refresh()
            answered, files = self._snapshot.id if self._snapshot else 0, self._files
            if snapshot_id is not None and snapshot_id != answered:
                snapshot = self._snapshots.read(snapshot_id) if snapshot_id else None
                answered, files = snapshot_id, self._files_at(snapshot)
            for partition, rows in _by_partition(partitions, codes):
                keys = ordered(hashes[rows])
                found = self._committed(partition, files.get(partition, {})).find(keys.wanted)
                if snapshot_id is None:
                    for session in self._sessions.values():
                        _fill(found, keys.wanted, session.new.get(partition))
                answers = np.empty_like(found)
                answers[keys.rows] = found
                buckets[rows] = answers
            self._let_go()
        return buckets, answered

    def check(self, session_id: SessionId, tokens: Iterable[str], base: int) -> None:
        """What a session was assigned holds on top of snapshot ``base``.

        Args:
            tokens: what `assign` said to those whose rows are to be committed.

        Raises:
            LostBatchesError: this assigner has restarted, or dropped the session, since.
            CommitConflictError: another process changed the index of a partition meanwhile.
        """
        with self._lock:
            session = self._sessions.get(session_id)
            held = {session.token} if session is not None else set()
            if not set(tokens) <= held:
                raise LostBatchesError(
                    f"owner {self._index} no longer knows which buckets it had assigned for "
                    f"{session_id.user!r}: it restarted; push again",
                    owner=self._index,
                    user=session_id.user,
                )
            self._move(self._snapshots.read(base) if base else None)
            self._pending = session_id, self._clock() + PENDING_MILLIS
            if session is not None:
                for partition in session.used:
                    self._refuse_changed(session, partition)

    def committed(self, session_id: SessionId, changes: Iterable[HashFile]) -> None:
        """The session is committed, with these index files for buckets of the table."""
        with self._lock:
            session = self._sessions.get(session_id) or _Session()
            by_partition: dict[bytes, list[HashFile]] = {}
            for change in changes:
                by_partition.setdefault(change.partition, []).append(change)
            for partition, changed in by_partition.items():
                self._take(partition, changed, session.new.get(partition))
            self.drop(session_id)

    def drop(self, session_id: SessionId) -> None:
        """Forget a session that was not committed."""
        with self._lock:
            self._sessions.pop(session_id, None)
            newest = self._ended.get(session_id.user, session_id)
            self._ended[session_id.user] = max(newest, session_id)
            if self._pending is not None and self._pending[0] == session_id:
                self._pending = None
            self._refreshed = None

    def file(self, partition: bytes, bucket: int) -> IndexFileMeta | None:
        """The bucket's committed index file, as this assigner knows it."""
        with self._lock:
            return self._files.get(partition, {}).get(bucket)

    def stats(self) -> dict[str, int]:
        with self._lock:
            return {
                "partitions": len(self._loaded),
                "hashes": sum(len(index) for index in self._loaded.values()),
                "bytes": sum(index.nbytes for index in self._loaded.values()),
                "uncommitted": sum(len(i) for s in self._sessions.values() for i in s.new.values()),
            }

    def _session(self, session_id: SessionId) -> _Session:
        if session_id not in self._sessions:
            ended = self._ended.get(session_id.user)
            rivals = [other for other in self._sessions if other.user == session_id.user]
            if (ended and session_id <= ended) or any(session_id < other for other in rivals):
                raise CommitFencedError(
                    f"this session of commit user {session_id.user!r} has ended, or a newer writer "
                    "took over; stop this one, or open writers with different commit users",
                    user=session_id.user,
                    generation=session_id.generation,
                )
            for other in rivals:
                self.drop(other)
            self._refreshed = None
            self._refresh()
            self._sessions[session_id] = _Session()
        return self._sessions[session_id]

    def _assign(
        self, session: _Session, partition: bytes, hashes: Hashes
    ) -> tuple[Buckets, npt.NDArray[np.bool_]]:
        keys = ordered(hashes)
        found = self._committed(partition, self._files.get(partition, {})).find(keys.wanted)
        absent = np.flatnonzero(found == ABSENT)
        is_new = np.zeros(len(found), np.bool_)
        if len(absent):
            fresh, of_absent = distinct(keys.wanted[absent])
            found[absent] = self._assign_new(session, partition, fresh)[of_absent]
            is_new[keys.rows[absent]] = True
        buckets = np.empty_like(found)
        buckets[keys.rows] = found
        return buckets, is_new

    def _assign_new(self, session: _Session, partition: bytes, hashes: Packed) -> Buckets:
        """Buckets of distinct hashes that are not committed; other sessions may have them too."""
        own = session.new.setdefault(partition, KeyIndex())
        found = own.find(hashes)
        added = found == ABSENT
        for other in self._sessions.values():
            if other is not session and (found == ABSENT).any():
                _fill(found, hashes, other.new.get(partition))
        fresh = np.flatnonzero(found == ABSENT)
        if len(fresh):
            found[fresh] = self._place(partition, unpack(hashes[fresh]))
        own.add(hashes[added], found[added])
        counts = session.counts.setdefault(partition, {})
        sizes = np.bincount(found[added])
        for bucket in np.flatnonzero(sizes).tolist():
            counts[bucket] = counts.get(bucket, 0) + int(sizes[bucket])
        return found

    def _place(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Buckets with room for new hashes, class by class."""
        placed = np.empty(len(hashes), np.int32)
        numbers = classes(hashes, self._assigners)
        sizes = self._sizes(partition)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            rows = np.flatnonzero(numbers == number)
            placed[rows] = self._fill_buckets(partition, number, sizes, len(rows))
        return placed

    def _fill_buckets(
        self, partition: bytes, number: int, sizes: Mapping[int, int], count: int
    ) -> Buckets:
        """Fill the class's buckets in order, and then as many new ones as it takes."""
        filled: list[tuple[int, int]] = []
        there = (bucket for bucket in sorted(sizes) if bucket % self._assigners == number)
        numbers = range(number, MAX_BUCKETS, self._assigners)
        unused = (bucket for bucket in numbers if bucket not in sizes)
        for bucket in itertools.chain(there, unused):
            room = min(self._target - sizes.get(bucket, 0), count)
            if room > 0:
                filled.append((bucket, room))
                count -= room
            if not count:
                break
        if count:
            raise OptionError(
                f"a partition has {MAX_BUCKETS} buckets, the most there can be: raise "
                f"dynamic-bucket.target-row-num, which is {self._target}",
                key="dynamic-bucket.target-row-num",
                value=str(self._target),
            )
        return np.repeat(
            np.array([bucket for bucket, _ in filled], np.int32), [room for _, room in filled]
        )

    def _sizes(self, partition: bytes) -> dict[int, int]:
        """Hashes by bucket, those not committed included."""
        sizes = {bucket: file.row_count for bucket, file in self._files.get(partition, {}).items()}
        for session in self._sessions.values():
            for bucket, count in session.counts.get(partition, {}).items():
                sizes[bucket] = sizes.get(bucket, 0) + count
        return sizes

    def _refuse_changed(self, session: _Session, partition: bytes) -> None:
        state = self._states.get(partition, 0)
        if session.used.setdefault(partition, state) != state:
            raise CommitConflictError(
                "another process changed the hash index of a partition that this commit assigns "
                "buckets in; nothing was committed: let one service write a table with dynamic "
                "buckets, abort, and write again",
                partition=partition,
            )

    def _refresh(self) -> None:
        """See the newest snapshot, if no commit is under way whose own changes it may have."""
        now = self._clock()
        if self._pending is not None and now < self._pending[1]:
            return
        if self._refreshed is None or now - self._refreshed >= self._refresh_millis:
            self._move(self._snapshots.latest())
            self._refreshed = now

    def _move(self, target: Snapshot | None) -> None:
        """Move on to a snapshot, and note the partitions whose index others have changed."""
        held = self._snapshot
        if target == held:
            return
        behind = held is not None and (target is None or target.id <= held.id)
        if behind and held is not None and self._snapshots.rests_on(held):
            return
        files = self._files_at(target)
        for partition in files.keys() | self._files.keys():
            if files.get(partition) != self._files.get(partition):
                self._states[partition] = self._states.get(partition, 0) + 1
        self._files = files
        self._snapshot = target

    def _files_at(self, snapshot: Snapshot | None) -> dict[bytes, dict[int, IndexFileMeta]]:
        files: dict[bytes, dict[int, IndexFileMeta]] = {}
        for (partition, bucket), found in index_files(self._store, snapshot, HASH).items():
            files.setdefault(partition, {})[bucket] = found[-1]
        return files

    def _committed(self, partition: bytes, files: Mapping[int, IndexFileMeta]) -> KeyIndex:
        """The hashes of this owner's classes in these files."""
        version = partition, frozenset(file.file_name for file in files.values())
        if version not in self._loaded:
            self._loaded[version] = self._load(partition, files)
        self._loaded.move_to_end(version)
        return self._loaded[version]

    def _load(self, partition: bytes, files: Mapping[int, IndexFileMeta]) -> KeyIndex:
        index = KeyIndex()
        for bucket, file in sorted(files.items()):
            hashes = read_hashes(self._store, file)
            index.add(pack(unique(hashes[self._is_mine(partition, hashes)])), bucket)
        return index

    def _is_mine(self, partition: bytes, hashes: Hashes) -> npt.NDArray[np.bool_]:
        first = assigning_owner(partition, 0, self._owners)
        mine: npt.NDArray[np.bool_] = (
            first + classes(hashes, self._assigners)
        ) % self._owners == self._index
        return mine

    def _take(
        self, partition: bytes, changed: Sequence[HashFile], assigned: KeyIndex | None
    ) -> None:
        """Put a commit's index files in the place of those before.

        What was assigned moves into the index in memory where that gives exactly what the files
        hold; else, as after a task's failed attempt, the files are read when they are needed.
        """
        before = self._files.get(partition, {})
        after = {**before, **{change.bucket: change.file for change in changed}}
        old = partition, frozenset(file.file_name for file in before.values())
        index = self._loaded.pop(old, None)
        self._files[partition] = after
        if index is None:
            return
        is_changed = np.zeros(MAX_BUCKETS, np.bool_)
        is_changed[[change.bucket for change in changed]] = True
        sizes = np.zeros(MAX_BUCKETS, np.int64)
        for hashes, buckets in assigned.items() if assigned is not None else ():
            taken = is_changed[buckets] & (index.find(hashes) == ABSENT)
            sizes += np.bincount(buckets[taken], minlength=MAX_BUCKETS)
            index.add(hashes[taken], buckets[taken])
        for change in changed:
            if self._is_class_of(partition, change.bucket):
                known = before.get(change.bucket)
                added = change.file.row_count - (known.row_count if known is not None else 0)
                if added != sizes[change.bucket]:
                    return
        new = partition, frozenset(file.file_name for file in after.values())
        self._loaded[new] = index

    def _is_class_of(self, partition: bytes, bucket: int) -> bool:
        number = bucket % self._assigners
        return assigning_owner(partition, number, self._owners) == self._index

    def _let_go(self) -> None:
        held = sum(index.nbytes for index in self._loaded.values())
        while held > self._memory_limit and len(self._loaded) > 1:
            _, index = self._loaded.popitem(last=False)
            held -= index.nbytes


def _by_partition(
    partitions: Sequence[bytes], codes: npt.NDArray[np.int32]
) -> Iterator[tuple[bytes, Any]]:
    """Each partition with the positions of its rows, as numpy takes them."""
    if len(partitions) == 1:
        yield partitions[0], slice(None)
        return
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(partitions)))
    for partition, rows in zip(partitions, np.split(order, ends[:-1]), strict=True):
        if len(rows):
            yield partition, rows


def _fill(found: Buckets, hashes: Packed, index: KeyIndex | None) -> None:
    """Look up in another index what is still absent."""
    if index is not None:
        absent = np.flatnonzero(found == ABSENT)
        found[absent] = index.find(hashes[absent])
