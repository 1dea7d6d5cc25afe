"""Locate the keys of a table by an index of the newest snapshot, kept on the local disk.

It is read from the table's keys when it is first needed, and then follows the snapshots: those of
this service's own commits by what they placed, those of others by reading the partitions that they
changed anew. Nothing of it needs to survive its process.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from pkray.changelog.splits import BucketState
from pkray.commit.index_files import index_files
from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.format.data_file import ADD
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.snapshot import APPEND, COMPACT, Snapshot
from pkray.metadata.live import BucketId, by_bucket, delta_entries, live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.location_runs import CHUNK_ROWS, NOWHERE, KeyLocations
from pkray.service.assignment.placement import bucket_of, is_there, locations_of, numbers_of
from pkray.service.assignment.snapshot_watch import SnapshotWatch
from pkray.service.client.key_ids import Bools, KeyIds, Words, identify, join
from pkray.service.protocol import SessionId
from pkray.service.stats import KeyIndexStats
from pkray.storage.object_store import ObjectStore

Codes = npt.NDArray[np.int32]


class PartitionNumbers:
    """Numbers partitions; once others have changed the rows of one, it gets another number.

    The locations of keys in it need not be looked for then: they name a number that is gone.
    """

    def __init__(self) -> None:
        self._partitions: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._gone: Bools = np.zeros(64, np.bool_)

    def number(self, partition: bytes) -> int:
        """Return the partition's number, a new one where it has none."""
        if partition not in self._numbers:
            self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
            if len(self._partitions) > len(self._gone):
                self._gone = np.concatenate((self._gone, np.zeros_like(self._gone)))
        return self._numbers[partition]

    def numbers(self, partitions: Sequence[bytes]) -> Words:
        return np.array([self.number(each) for each in partitions], np.uint64)

    def is_gone(self, number: int) -> bool:
        """Whether others have changed the rows of the partition since it got its number."""
        return bool(self._gone[number])

    def are_gone(self, locations: Words) -> Bools:
        """Whether each location is in a partition whose number is gone: bool."""
        there = is_there(locations)
        numbers = np.where(there, numbers_of(locations), np.uint64(0))
        gone: Bools = self._gone[numbers.astype(np.int64)] & there
        return gone

    def named(self, locations: Words) -> tuple[list[bytes], Codes, Codes]:
        """Name the partitions of locations; return them, each location's position in them and its
        bucket, int32 both; -1 for both without one."""
        there = np.flatnonzero(is_there(locations))
        indices = np.full(len(locations), -1, np.int32)
        buckets = indices.copy()
        numbers, indices[there] = np.unique(numbers_of(locations[there]), return_inverse=True)
        buckets[there] = bucket_of(locations[there])
        return [self._partitions[number] for number in numbers.tolist()], indices, buckets

    def retire(self, partition: bytes) -> int | None:
        """Forget a partition whose rows others have changed; return its number, if it had one."""
        number = self._numbers.pop(partition, None)
        if number is not None:
            self._gone[number] = True
        return number

    def retire_all(self) -> None:
        """Forget all partitions."""
        self._gone[: len(self._partitions)] = True
        self._numbers.clear()


_TRIES = 8
"""Times that the newest snapshot is looked for, as snapshots expire while they are read."""


class GlobalKeyIndex:
    """The committed keys. Not thread-safe.

    Args:
        store: the table's root.
        schema: the table's newest.
        directory: on the local disk.
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often.

    Attributes:
        partitions: the numbers by which locations name them.
        additions: how often others have added rows, or it is unknown what they did.
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
        self.watch = SnapshotWatch(clock, refresh_millis)
        self._locations: KeyLocations | None = None
        self._snapshot: Snapshot | None = None
        self._sizes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.partitions = PartitionNumbers()
        self.additions = 0

    @property
    def snapshot_id(self) -> int:
        """The snapshot that the locations are of; 0 before the first."""
        return self._snapshot.id if self._snapshot else 0

    def sizes(self, number: int) -> Counter[int]:
        """Count the keys of a partition by bucket."""
        return self._sizes[number]

    def find(self, keys: KeyIds) -> Words:
        """Find the location of each key: uint64; `NOWHERE` without one.

        Args:
            keys: in order.
        """
        assert self._locations is not None
        found = self._locations.find(keys)
        found[~is_there(found) | self.partitions.are_gone(found)] = NOWHERE
        return found

    def put(self, keys: KeyIds, before: Words, after: Words) -> None:
        """Take what a commit has changed.

        Args:
            keys: distinct and in order.
            before: what `find` says of them.
            after: their locations now, or `DELETED`.
        """
        assert self._locations is not None
        self._locations.put(keys, after)
        self._count(before, -1)
        self._count(after, 1)

    def refresh(self) -> None:
        """See the newest snapshot, if no commit is under way whose own changes it may have."""
        if self._locations is None or self.watch.is_due():
            with self.watch.looking():
                self._move(self._snapshots.latest)

    def await_commit(self, session_id: SessionId, base: int) -> None:
        """Note that the session is being committed on top of a snapshot: see this one until it
        is."""
        if self._locations is not None:
            self._move(lambda: self._snapshots.read(base) if base else None)
        self.watch.await_commit(session_id)

    def is_awaited(self, session_id: SessionId) -> bool:
        """Whether nothing that came after the session's base has been looked at."""
        return self.watch.is_awaited(session_id) and self._locations is not None

    def committed(self, session_id: SessionId, snapshot_id: int) -> None:
        """Go on to the session's snapshot: what it placed has been `put`."""
        self._move(lambda: self._snapshots.read(snapshot_id), own=session_id.user)

    def forget(self) -> None:
        """Read all keys again when they are next needed."""
        self._locations = self._snapshot = None
        self.partitions.retire_all()
        self._sizes.clear()
        self.additions += 1

    def stats(self, uncommitted: int) -> KeyIndexStats:
        """Count what is held."""
        keys = sum(sum(sizes.values()) for sizes in self._sizes.values())
        return KeyIndexStats(keys, uncommitted)

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
        if self._locations is not None and target == held:
            return
        if held is not None and not self._snapshots.rests_on(held):
            self.forget()
        elif held is not None and (target is None or target.id <= held.id):
            return
        if self._locations is None:
            self._locations = KeyLocations(self._directory, self.partitions.are_gone)
            if target is not None:
                self._read(target, None)
        elif target is not None:
            changed = self._changed(held.id if held else 0, target.id, own)
            for partition in changed:
                gone = self.partitions.retire(partition)
                if gone is not None:
                    self._sizes.pop(gone, None)
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
        files = by_bucket(live_files(self._store, snapshot, schema, partitions=partitions))
        marked = index_files(self._store, snapshot, DELETION_VECTORS)
        assert self._locations is not None
        reading = KeyReading(self._store, schema, self._locations)
        numbers = self.partitions.numbers([partition for partition, _ in files])
        locations = locations_of(numbers, np.array([bucket for _, bucket in files], np.int32))
        at = dict(zip(files, locations, strict=True))

        def read(bucket: BucketId) -> int:
            vectors = tuple(marked.get(bucket, ()))
            return reading.read(BucketState(*bucket, files[bucket], vectors), at[bucket])

        with ThreadPoolExecutor(schema.core.cross_partition_upsert_bootstrap_parallelism) as pool:
            for (partition, bucket), count in zip(files, pool.map(read, files), strict=True):
                self._sizes[self.partitions.number(partition)][bucket] = count
        reading.finish()

    def _count(self, locations: Words, sign: int) -> None:
        distinct, counts = np.unique(locations[is_there(locations)], return_counts=True)
        for location, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            number, bucket = divmod(location, 1 << 16)
            if not self.partitions.is_gone(number):
                self._sizes[number][bucket] += sign * count


class KeyReading:
    """Gathers keys of buckets that are read side by side, and sorts them together.

    Args:
        store: the table's root.
        into: what the keys' locations are put into.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, into: KeyLocations) -> None:
        self._store = store
        self._schema = schema
        self._into = into
        self._keys: list[KeyIds] = []
        self._locations: list[Words] = []
        self._held = 0
        self._lock = threading.Lock()

    def read(self, bucket: BucketState, location: np.uint64) -> int:
        """Read a bucket's keys, which are all at one location; how many. Those on level 0 too,
        whatever reads show. Thread-safe."""
        names = self._schema.primary_keys
        return sum(
            self._take(identify([rows.column(name) for name in names]), location)
            for rows in bucket.rows(self._store, self._schema, names)
        )

    def finish(self) -> None:
        """Put what is held."""
        if not self._held:
            return
        keys = join(self._keys)
        order = keys.order()
        ordered = keys.at(order)
        # A key that is there twice: writers that know nothing of each other had it.
        firsts = ordered.firsts()
        self._into.put(ordered.at(firsts), np.concatenate(self._locations)[order][firsts])
        self._keys, self._locations, self._held = [], [], 0

    def _take(self, keys: KeyIds, location: np.uint64) -> int:
        with self._lock:
            self._keys.append(keys)
            self._locations.append(np.full(keys.count, location))
            self._held += keys.count
            if self._held >= CHUNK_ROWS:
                self.finish()
        return keys.count
