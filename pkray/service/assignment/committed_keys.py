"""The buckets of a table's keys, by the HASH indexes of a snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pkray.commit.index_files import index_files
from pkray.format.hash_index import read_hashes, unique
from pkray.format.index_file import HASH, IndexFileMeta
from pkray.format.snapshot import Snapshot
from pkray.metadata.snapshots import SnapshotStore
from pkray.service.assignment.bucket_filling import MAX_BUCKETS
from pkray.service.assignment.key_index import ABSENT, KeyIndex, pack
from pkray.service.assignment.snapshot_watch import SnapshotWatch
from pkray.service.client.assigners import KeyShare
from pkray.service.protocol import HashFile, SessionId
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
        self._loaded: OrderedDict[tuple[bytes, frozenset[str]], KeyIndex] = OrderedDict()

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

    def keys(self, partition: bytes, files: Mapping[int, IndexFileMeta] | None = None) -> KeyIndex:
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
        self, partition: bytes, changed: Sequence[HashFile], assigned: KeyIndex | None
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

    def _load(self, partition: bytes, files: Mapping[int, IndexFileMeta]) -> KeyIndex:
        index = KeyIndex()
        for bucket, file in sorted(files.items()):
            hashes = read_hashes(self._store, file)
            mine = self._share.has_hashes(partition, hashes)
            index.add(pack(unique(hashes[mine])), bucket)
        return index


def _names(files: Mapping[int, IndexFileMeta]) -> frozenset[str]:
    return frozenset(file.file_name for file in files.values())


def _add_assigned(
    index: KeyIndex, changed: Sequence[HashFile], assigned: KeyIndex | None
) -> npt.NDArray[np.int64]:
    """Add what was assigned in the buckets that changed; how many hashes by bucket."""
    is_changed = np.zeros(MAX_BUCKETS, np.bool_)
    is_changed[[change.bucket for change in changed]] = True
    sizes = np.zeros(MAX_BUCKETS, np.int64)
    for hashes, buckets in assigned.items() if assigned is not None else ():
        taken = is_changed[buckets] & (index.find(hashes) == ABSENT)
        sizes += np.bincount(buckets[taken], minlength=MAX_BUCKETS)
        index.add(hashes[taken], buckets[taken])
    return sizes
