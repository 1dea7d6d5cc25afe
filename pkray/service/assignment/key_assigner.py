"""Places rows of a table whose keys cross partitions, by an index of all its keys.

One owner does it for the whole table, as Paimon's single writer does: where a row goes depends on
where its key is, and that on the rows before. Writers ask before they push: 20 bytes a row travel
there, where each row goes and what is to be deleted elsewhere come back, and the rows themselves
go to the owners of their buckets as always.

What sessions placed is knowledge of theirs alone until they are committed. That no commit puts a
key into a second partition rests on four checks: a session's answers count one after the other
(`place`), its assigner must not have forgotten it (the token), nobody else may have changed where
its keys are (`check`), and nobody may have done so when the snapshot is published (the committer).
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pkray.errors import CommitConflictError, LostBatchesError, StorageError
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.bucket_filling import BucketFilling
from pkray.service.assignment.global_key_index import GlobalKeyIndex
from pkray.service.assignment.location_runs import NOWHERE, KeyLocations
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.assignment.placement import (
    Placed,
    Placement,
    Rule,
    is_there,
    locations_of,
    numbers_of,
)
from pkray.service.assignment.session_assigner import SessionAssigner
from pkray.service.client.key_ids import KeyIds, KeysToPlace, Words
from pkray.service.protocol import ASSIGNER, Holding, KeysFound, RowsPlaced, SessionId
from pkray.service.stats import KeyIndexStats
from pkray.storage.object_store import ObjectStore


@dataclass
class SessionLocations:
    """The locations that one session was told.

    Args:
        locations: of all keys that it asked for, as they will be.
        additions: `GlobalKeyIndex.additions` when it began.
        token: told with each answer; another one means that the session was forgotten.
        sizes: keys that were given new locations, by partition and bucket.
        used: the numbers of the partitions that its keys are or were in.
        answer: the last one, to be repeated where it was lost.
        is_overtaken: another session was committed that changed locations of its keys.
    """

    locations: KeyLocations
    additions: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    sizes: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    used: set[int] = field(default_factory=set)
    answers: int = 0
    answer: RowsPlaced | None = None
    is_overtaken: bool = False


class PendingLocations(OpenSessions[SessionLocations]):
    """The locations that sessions were told that have not ended."""

    def __len__(self) -> int:
        """Keys that are not committed."""
        return sum(each.locations.count for each in self)

    def latest(self, keys: KeyIds, committed: Words) -> Words:
        """Find locations (uint64) with what is not committed; where two sessions disagree, of
        either.

        Args:
            keys: in order.
            committed: their locations in the table.
        """
        found = committed.copy()
        for each in self:
            told = each.locations.find(keys)
            changed = (told != NOWHERE) & (told != committed)
            found[changed] = told[changed]
        return found

    def sizes(self, partition: int) -> Counter[int]:
        """Count the keys that were given new locations in a partition, by bucket."""
        sizes: Counter[int] = Counter()
        for each in self:
            sizes.update(each.sizes.get(partition, {}))
        return sizes

    def overtake(self, keys: KeyIds) -> None:
        """Note that other locations of these keys were committed."""
        for each in self:
            each.is_overtaken |= bool((each.locations.find(keys) != NOWHERE).any())


class KeyAssigner(SessionAssigner[SessionLocations]):
    """Places the rows of one table. Thread-safe.

    Args:
        schema: the table's newest.
        directory: of its own, on the local disk.
        clock: epoch milliseconds.
        refresh_millis: look for other processes' snapshots at most this often before a lookup.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: Callable[[], TableSchema],
        directory: str,
        clock: Callable[[], int],
        refresh_millis: int = 0,
    ) -> None:
        self._directory = directory
        self._keys = GlobalKeyIndex(
            store, schema, SnapshotStore(store), directory, clock, refresh_millis
        )
        self._rule = Rule.from_schema(schema())
        self._filling = BucketFilling(1, schema().core.dynamic_bucket_target_row_num)
        self._open = PendingLocations()
        super().__init__(ASSIGNER, self._open, self._keys)

    def place(self, session_id: SessionId, asked: KeysToPlace) -> RowsPlaced:
        """Choose where rows go that a session is to write; asking again for the last batch changes
        nothing.

        Raises:
            LostBatchesError: an answer before this one is not known here.
            CommitConflictError: another writer changed where keys are.
            CommitFencedError: the session has ended.
            OptionError: a partition has as many buckets as there can be.
            StorageError: the table cannot be read, or the local disk is full.
        """
        with self._lock:
            session = self._session(session_id)
            if session.answer is not None and asked.batch == session.answers - 1:
                return session.answer
            if asked.batch != session.answers:
                raise LostBatchesError(
                    f"batch {asked.batch} of {session_id.user!r} is to be placed, but "
                    f"{session.answers} was to come next: the owner restarted; push again",
                    user=session_id.user,
                    expected=session.answers,
                    got=asked.batch,
                )
            self._check_session(session)
            answer = self._place(session, asked)
            session.answer = answer
            session.answers += 1
            return answer

    def locate(
        self,
        keys: KeyIds,
        snapshot_id: int | None,
        *,
        latest: bool,
        expected: Sequence[Holding] = (),
    ) -> KeysFound | None:
        """Find where keys are; None for a snapshot that is neither the newest nor about to be.

        Args:
            latest: what is not committed counts too.
            expected: what is to be known of sessions, those apart that have ended.

        Raises:
            LostBatchesError: it is not.
        """
        with self._lock:
            self._look(snapshot_id, expected)
            if snapshot_id not in (None, self._keys.snapshot_id):
                return None
            order = keys.order()
            ordered = keys.at(order)
            committed = self._keys.find(ordered)
            found = np.empty(keys.count, np.uint64)
            found[order] = self._open.latest(ordered, committed) if latest else committed
            partitions, indices, buckets = self._keys.partitions.named(found)
            return KeysFound(partitions, indices, buckets, self._keys.snapshot_id)

    def committed(self, session_id: SessionId, snapshot_id: int, *, new: bool) -> None:
        """Note that the session is committed.

        Args:
            new: what it was told is what the snapshot holds; else an earlier attempt's is.
        """
        with self._lock:
            session = self._open.get(session_id)
            if session is not None and new and self._keys.is_awaited(session_id):
                self._open.end(session_id)
                try:
                    self._take(session)
                    self._keys.committed(session_id, snapshot_id)
                except StorageError:  # the commit is not undone by it
                    self._keys.forget()
            self.drop(session_id)

    def stats(self) -> KeyIndexStats:
        """Count what is held."""
        with self._lock:
            return self._keys.stats(uncommitted=len(self._open))

    def _begun(self) -> SessionLocations:
        return SessionLocations(KeyLocations(self._directory), self._keys.additions)

    def _place(self, session: SessionLocations, asked: KeysToPlace) -> RowsPlaced:
        numbers, keys = self._keys.partitions.numbers(asked.partitions), asked.keys
        order = keys.order()
        ordered = keys.at(order)
        firsts = ordered.firsts()
        distinct = ordered.at(firsts)
        told = session.locations.find(distinct)
        committed = self._keys.find(distinct)
        before = np.where(told == NOWHERE, committed, told)
        wanted = numbers[asked.indices[order]]
        placement = Placement(self._rule, firsts, before, wanted, asked.removes[order])
        added: defaultdict[int, Counter[int]] = defaultdict(Counter)
        # Back in its committed partition a key goes to its bucket: it is an update there.
        fresh = committed[(np.cumsum(firsts) - 1)[placement.fresh]]
        new = np.flatnonzero(numbers_of(fresh) != wanted[placement.fresh])
        rows = placement.fresh[new]
        fresh[new] = self._new_locations(wanted[rows], ordered.at(rows).shards(), added)
        placed = placement.place(fresh)
        changed = np.flatnonzero(placed.after != told)
        session.locations.put(distinct.at(changed), placed.after[changed])
        for number, sizes in added.items():
            session.sizes[number].update(sizes)
        for locations in (before, placed.locations, placed.after):
            session.used.update(np.unique(numbers_of(locations[is_there(locations)])).tolist())
        return self._answer(session, order, placed)

    def _new_locations(
        self, numbers: Words, shards: npt.NDArray[np.int32], added: defaultdict[int, Counter[int]]
    ) -> Words:
        """New locations in partitions."""
        locations = np.empty(len(numbers), np.uint64)
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        for number, rows in zip(distinct.tolist(), np.split(order, starts)[1:], strict=True):
            sizes = Counter(self._keys.sizes(number))
            sizes.update(self._open.sizes(number))
            buckets = self._filling.place(shards[rows], sizes)
            counts = np.bincount(buckets)
            for bucket in np.flatnonzero(counts).tolist():
                added[number][bucket] += int(counts[bucket])
            locations[rows] = locations_of(numbers[rows], buckets)
        return locations

    def _answer(
        self, session: SessionLocations, order: npt.NDArray[np.int64], placed: Placed
    ) -> RowsPlaced:
        moves = np.flatnonzero(placed.left != NOWHERE)
        locations = np.empty(len(order) + len(moves), np.uint64)
        locations[order] = placed.locations
        locations[len(order) :] = placed.left[moves]
        partitions, indices, buckets = self._keys.partitions.named(locations)
        return RowsPlaced(partitions, indices, buckets, order[moves], session.token)

    def _take(self, session: SessionLocations) -> None:
        """Put what was told into the table's index."""
        for piece in session.locations.chunks():
            before = self._keys.find(piece.keys)
            after = piece.locations
            changed = np.flatnonzero((before != after) & (is_there(before) | is_there(after)))
            keys = piece.keys.at(changed)
            self._keys.put(keys, before[changed], after[changed])
            self._open.overtake(keys)

    def _check_session(self, session: SessionLocations) -> None:
        changed = (
            session.is_overtaken
            or session.additions != self._keys.additions
            or any(self._keys.partitions.is_gone(number) for number in session.used)
        )
        if changed:
            raise CommitConflictError(
                "another writer changed where keys are that this commit writes; nothing was "
                "committed: let one writer at a time write a table whose keys cross partitions, "
                "abort, and write again"
            )
