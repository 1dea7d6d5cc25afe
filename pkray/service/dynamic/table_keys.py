"""Where the keys of a table are: an index of the newest snapshot, kept on the local disk.

It is read from the table's keys when it is first needed, and then follows the snapshots: those of
this service's own commits by what they placed, those of others by reading the partitions that they
changed anew. Nothing of it needs to survive its process.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pkray.commit.index_files import index_files
from pkray.commit.live import delta_entries, live_files
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.format.data_file import ADD, DataFileMeta
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.snapshot import APPEND, COMPACT, Snapshot
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels, Vectors
from pkray.lsm.live_rows import LiveRows
from pkray.lsm.merge_read import merge_read
from pkray.schema import TableSchema
from pkray.service.committed import BucketId
from pkray.service.dynamic.key_ids import Bools, KeyIds, Words, identify, join
from pkray.service.dynamic.key_places import KeyPlaces
from pkray.service.dynamic.place_runs import CHUNK_ROWS, NOWHERE
from pkray.service.dynamic.placement import is_there, number_of, place_of
from pkray.service.dynamic.snapshot_watch import SnapshotWatch
from pkray.service.protocol import SessionId
from pkray.storage.object_store import ObjectStore

_TRIES = 8


class TableKeys:
    """The committed keys. Not thread-safe.

    Args:
        store: the table's root.
        schema: the table's newest.
        directory: on the local disk.
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: Callable[[], TableSchema],
        snapshots: SnapshotStore,
        directory: str,
        clock: Callable[[], int],
        refresh_millis: int,
    ) -> None:
        self._store = store
        self._schema = schema
        self._snapshots = snapshots
        self._directory = directory
        self._watch = SnapshotWatch(clock, refresh_millis)
        self._places: KeyPlaces | None = None
        self._snapshot: Snapshot | None = None
        self._partitions: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._gone: Bools = np.zeros(64, np.bool_)
        self._sizes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.additions = 0
        """How often others have added rows, or it is unknown what they did."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot that the places are of; 0 before the first."""
        return self._snapshot.id if self._snapshot else 0

    def number(self, partition: bytes) -> int:
        """The partition's number; another one after others have changed its rows."""
        if partition not in self._numbers:
            self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
            if len(self._partitions) > len(self._gone):
                self._gone = np.concatenate((self._gone, np.zeros_like(self._gone)))
        return self._numbers[partition]

    def partition(self, number: int) -> bytes:
        return self._partitions[number]

    def is_gone(self, number: int) -> bool:
        """Whether others have changed the rows of the partition since it got its number."""
        return bool(self._gone[number])

    def sizes(self, number: int) -> Counter[int]:
        """Keys by bucket of a partition."""
        return self._sizes[number]

    def find(self, keys: KeyIds) -> Words:
        """The place of each key, `NOWHERE` without one.

        Args:
            keys: in order.
        """
        assert self._places is not None
        found = self._places.find(keys)
        found[~is_there(found) | self._are_gone(found)] = NOWHERE
        return found

    def put(self, keys: KeyIds, before: Words, after: Words) -> None:
        """Take what a commit has changed.

        Args:
            keys: distinct and in order.
            before: what `find` says of them.
            after: their places now, or `DELETED`.
        """
        assert self._places is not None
        self._places.put(keys, after)
        self._count(before, -1)
        self._count(after, 1)

    def refresh(self) -> None:
        """See the newest snapshot, if no commit is under way whose own changes it may have."""
        if self._places is None or self._watch.is_due():
            with self._watch.looking():
                self._move(self._snapshots.latest)

    def expire(self) -> None:
        """Look for the newest snapshot when next asked to, however soon that is."""
        self._watch.expire()

    def await_commit(self, session_id: SessionId, base: int) -> None:
        """The session is being committed on top of a snapshot: see this one until it is."""
        if self._places is not None:
            self._move(lambda: self._snapshots.read(base) if base else None)
        self._watch.await_commit(session_id)

    def is_awaited(self, session_id: SessionId) -> bool:
        """Whether nothing that came after the session's base has been looked at."""
        return self._watch.is_awaited(session_id) and self._places is not None

    def committed(self, session_id: SessionId, snapshot_id: int) -> None:
        """What the session placed has been `put`: go on to its snapshot."""
        self._move(lambda: self._snapshots.read(snapshot_id), own=session_id.user)

    def ended(self, session_id: SessionId) -> None:
        """The session is committed, or never will be."""
        self._watch.ended(session_id)

    def forget(self) -> None:
        """Read all keys again when they are next needed."""
        self._places = self._snapshot = None
        self._gone[: len(self._partitions)] = True
        self._numbers.clear()
        self._sizes.clear()
        self.additions += 1

    def stats(self) -> dict[str, int]:
        return {"keys": sum(sum(sizes.values()) for sizes in self._sizes.values())}

    def _move(self, find: Callable[[], Snapshot | None], own: str | None = None) -> None:
        """Move on to a snapshot.

        Args:
            own: the commit user of one APPEND snapshot on the way, which is known.
        """
        for tries in range(1, _TRIES + 1):
            try:
                self._follow(find(), own)
                return
            except (SnapshotNotFoundError, MissingFileError):  # rolled back or expired meanwhile
                self.forget()
                find, own = self._snapshots.latest, None
                if tries == _TRIES:
                    raise
            except BaseException:
                self.forget()
                raise

    def _follow(self, target: Snapshot | None, own: str | None) -> None:
        held = self._snapshot
        if self._places is not None and target == held:
            return
        if held is not None and not self._snapshots.rests_on(held):
            self.forget()
        elif held is not None and (target is None or target.id <= held.id):
            return
        if self._places is None:
            self._places = KeyPlaces(self._directory, self._are_gone)
            if target is not None:
                self._read(target, None)
        elif target is not None:
            changed = self._changed(held.id if held else 0, target.id, own)
            for partition in changed:
                number = self._numbers.pop(partition, None)
                if number is not None:
                    self._gone[number] = True
                    self._sizes.pop(number, None)
            if changed:
                self._read(target, changed)
        self._snapshot = target

    def _changed(self, start: int, end: int, own: str | None) -> set[bytes]:
        """The partitions whose rows others have changed between two snapshots."""
        changed: set[bytes] = set()
        for snapshot in map(self._snapshots.read, range(start + 1, end + 1)):
            if snapshot.commit_kind == COMPACT:
                continue
            if snapshot.commit_user == own and snapshot.commit_kind == APPEND:
                own = None
                continue
            for entry in delta_entries(self._store, snapshot):
                changed.add(entry.partition)
                self.additions += entry.kind == ADD
        return changed

    def _read(self, snapshot: Snapshot, partitions: Collection[bytes] | None) -> None:
        """Read the keys of some partitions, or of all."""
        schema = self._schema()
        files: defaultdict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for entry in live_files(self._store, snapshot, schema, partitions=partitions):
            files[entry.partition, entry.bucket].append(entry.file)
        marked = index_files(self._store, snapshot, DELETION_VECTORS)
        assert self._places is not None
        reading = _Reading(self._places)

        def read(bucket: BucketId) -> int:
            vectors = read_vectors(self._store, marked.get(bucket, ()))
            place = place_of(np.array([self._numbers[bucket[0]]], np.uint64), np.array([bucket[1]]))
            return sum(
                reading.take(keys, place)
                for keys in self._keys(schema, bucket, files[bucket], vectors)
            )

        for partition, _ in files:
            self.number(partition)
        with ThreadPoolExecutor(schema.core.cross_partition_upsert_bootstrap_parallelism) as pool:
            for (partition, bucket), count in zip(files, pool.map(read, files), strict=True):
                self._sizes[self.number(partition)][bucket] = count
        reading.finish()

    def _keys(
        self, schema: TableSchema, bucket: BucketId, files: list[DataFileMeta], vectors: Vectors
    ) -> Iterator[KeyIds]:
        """The ids of a bucket's keys; those on level 0 too, whatever reads show."""
        reader = LiveRows(DataFileStore(self._store, schema, *bucket), vectors)
        runs = Levels(tuple(files)).runs()
        names = list(schema.primary_keys)
        for rows in merge_read(runs, reader, merge_engine(schema), schema, columns=names):
            yield identify([rows.column(name) for name in names])

    def _are_gone(self, places: Words) -> Bools:
        numbers = np.where(is_there(places), number_of(places), np.uint64(0))
        gone: Bools = self._gone[numbers.astype(np.int64)] & is_there(places)
        return gone

    def _count(self, places: Words, sign: int) -> None:
        distinct, counts = np.unique(places[is_there(places)], return_counts=True)
        for place, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            number, bucket = divmod(place, 1 << 16)
            if not self._gone[number]:
                self._sizes[number][bucket] += sign * count


class _Reading:
    """Gathers keys of buckets that are read side by side, and sorts them together."""

    def __init__(self, places: KeyPlaces) -> None:
        self._into = places
        self._keys: list[KeyIds] = []
        self._places: list[Words] = []
        self._held = 0
        self._lock = threading.Lock()

    def take(self, keys: KeyIds, place: Words) -> int:
        """Keys of one place; how many."""
        with self._lock:
            self._keys.append(keys)
            self._places.append(np.repeat(place, keys.count))
            self._held += keys.count
            if self._held >= CHUNK_ROWS:
                self.finish()
        return keys.count

    def finish(self) -> None:
        if not self._held:
            return
        keys = join(self._keys)
        order = keys.order()
        ordered = keys.at(order)
        # A key that is there twice: writers that know nothing of each other had it.
        firsts = ordered.firsts()
        self._into.put(ordered.at(firsts), np.concatenate(self._places)[order][firsts])
        self._keys, self._places, self._held = [], [], 0
