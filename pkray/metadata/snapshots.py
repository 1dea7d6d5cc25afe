"""The snapshots of a table: found, read and published."""

import builtins
import contextlib
import threading
from collections.abc import Hashable, Iterator
from typing import Literal
from weakref import WeakValueDictionary

import msgspec

from pkray.errors import CorruptFileError, MissingFileError, SnapshotNotFoundError, StorageError
from pkray.format import paths
from pkray.format.snapshot import Snapshot, decode, encode
from pkray.json_files import decode as decode_json
from pkray.metadata.metadata_cache import metadata
from pkray.metadata.named_files import (
    find_earliest,
    numbered_files,
    recall,
    recalled_hint,
    write_hint,
)
from pkray.storage.object_store import ObjectStore, ahead, each

_PREFIX = f"{paths.SNAPSHOT_DIR}/snapshot-"
Below = Literal["there", "expired", "lost"]
_FEW = 8
"""Snapshots that are read with the newest one: whoever follows them is likely to look at them."""


class _Expiring(msgspec.Struct):
    """The part of what an expiry has written down that tells which snapshots go."""

    expired: tuple[Snapshot, ...] = msgspec.field(name="dead")
    kept: Snapshot


_expiring = msgspec.json.Decoder(_Expiring)


class SnapshotStore:
    """Snapshots by id; ids are contiguous from the earliest not yet expired to the latest.

    The hint files ``EARLIEST`` and ``LATEST`` save listing the directory. They are never trusted:
    a wrong or missing one costs time, not correctness. Thread-safe.

    Which snapshots are known is each store's own: another may not have seen a rollback yet. A
    snapshot that several know is in memory once, in the `MetadataCache`.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: WeakValueDictionary[int, Snapshot] = WeakValueDictionary()
        self._seen = 0
        self._newest: tuple[Snapshot, Hashable] | None = None
        self.rollbacks = 0
        """Grows when `latest` finds that snapshots it knew are no more: what was concluded from
        them is void."""
        self.invalidations = 0
        """Grows when `latest` or `rests_on` finds nothing that it knew to be there: another
        table may be in the place of this one."""

    def latest_id(self) -> int | None:
        """Return the newest snapshot's id, or None on a table without snapshots."""
        start = 0
        if self._seen:
            is_there, has_next = self._look_at(self._seen)
            if is_there and not has_next:
                self._see(self._seen)
                return self._seen
            start = self._seen + has_next if is_there else 0
        hint = recalled_hint(self._store, paths.LATEST_HINT)
        if hint > start:
            is_there, has_next = self._look_at(hint)
            if is_there and not has_next:
                self._see(hint)
                return hint
            start = hint + has_next if is_there else start
        latest = self._climb(start) if start else max(self.ids(), default=None)
        self._see(latest or 0)
        return latest

    def _see(self, snapshot_id: int) -> None:
        self._seen = snapshot_id
        recall(self._store, paths.LATEST_HINT, snapshot_id)

    def _look_at(self, snapshot_id: int) -> tuple[bool, bool]:
        """Whether a snapshot is there, and the next one; the latter is not looked for in vain on a
        local disk."""
        if self._store.local_path("") is not None:
            is_there = self._exists(snapshot_id)
            return is_there, is_there and self._exists(snapshot_id + 1)
        there, after = each(self._store, self._exists, (snapshot_id, snapshot_id + 1))
        return there, after

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, as it is in the store now, or None."""
        if (known := self._still_newest()) is not None:
            return known
        while (snapshot_id := self.latest_id()) is not None:
            try:
                return self._follow(snapshot_id)
            except (SnapshotNotFoundError, MissingFileError):  # rolled back or expired meanwhile
                self._seen = 0
        self._notice(None, None)
        return None

    def exists(self, snapshot_id: int) -> bool:
        """Whether a snapshot has not expired and was made."""
        return self._exists(snapshot_id)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is there as it was: not expired, nor rolled back and made anew."""
        try:
            return self._load(snapshot.id).is_same(snapshot)
        except SnapshotNotFoundError:
            return False

    def earliest_id(self) -> int | None:
        """Return the oldest snapshot's id that has not expired, or None."""
        return find_earliest(self._store, paths.EARLIEST_HINT, self._exists, self.ids)

    def ids(self) -> builtins.list[int]:
        """List the ids of all snapshots, ascending, by listing the directory."""
        return sorted(number for number, _ in numbered_files(self._store, _PREFIX))

    def read(self, snapshot_id: int, *, fresh: bool = False) -> Snapshot:
        """Return a snapshot, from memory if it was read before, unless it is to be fresh.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
            CorruptFileError: its file is damaged.
        """
        with self._lock:
            known = None if fresh else self._kept.get(snapshot_id)
        if known is None:
            return self._load(snapshot_id)
        metadata.get(self._key(snapshot_id))  # used lately; one that was deleted does not come back
        return known

    def range(self, first: int, last: int, *, fresh: bool = False) -> Iterator[Snapshot]:
        """Yield snapshots first..last, both included, ascending, read as by `read`; those that
        expired are left out."""

        def read(snapshot_id: int) -> Snapshot | None:
            try:
                return self.read(snapshot_id, fresh=fresh)
            except SnapshotNotFoundError:
                return None

        found = ahead(self._store, read, builtins.range(first, last + 1))
        yield from (snapshot for snapshot in found if snapshot is not None)

    def all(self) -> Iterator[Snapshot]:
        """Yield every snapshot, oldest first."""
        first, last = self.earliest_id(), self.latest_id()
        if first is not None and last is not None:
            yield from self.range(first, last)

    def backwards(self, last: int) -> Iterator[Snapshot]:
        """Yield snapshots from ``last`` back to the earliest; none if ``last`` is not there."""
        local = self._store.local_path("") is not None
        chunk = 1
        while last > 0:
            first = max(1, last - chunk + 1)
            if not local:
                self._read_ahead(first, last)
            for snapshot_id in builtins.range(last, first - 1, -1):
                try:
                    yield self.read(snapshot_id)
                except SnapshotNotFoundError:
                    return
            last, chunk = first - 1, min(self._store.parallel_requests, chunk * 2)

    def _read_ahead(self, first: int, last: int) -> None:
        """Read snapshots into memory together."""
        with self._lock:
            missing = [n for n in builtins.range(first, last + 1) if n not in self._kept]
        if len(missing) < 2:
            return

        def read(snapshot_id: int) -> None:
            with contextlib.suppress(StorageError):  # met again when its turn comes
                self._load(snapshot_id)

        each(self._store, read, missing)

    def publish(self, snapshot: Snapshot) -> bool:
        """Create the snapshot, and note that it is visible."""
        is_made = self.create(snapshot)
        if is_made:
            self.published(snapshot)
        return is_made

    def create(self, snapshot: Snapshot) -> bool:
        """Make a snapshot visible; False if another one has its id.

        Raises:
            StorageError: the answer was lost: the snapshot may or may not be visible.
        """
        return self._store.create(paths.snapshot(snapshot.id), encode(snapshot))

    def published(self, snapshot: Snapshot) -> None:
        """Note that a snapshot is visible: keep it and move the hints on."""
        self.follow_with_hints(snapshot)
        self.note_published(snapshot)

    def note_published(self, snapshot: Snapshot) -> None:
        """Keep a snapshot that is visible."""
        self._keep(snapshot)
        self._see(max(self._seen, snapshot.id))
        if self._newest is None or self._newest[0].id == snapshot.id - 1:
            self._newest = snapshot, None

    def follow_with_hints(self, snapshot: Snapshot) -> None:
        """Move the hints on to a snapshot that is visible."""
        hints = [paths.LATEST_HINT, *([paths.EARLIEST_HINT] if snapshot.id == 1 else [])]
        each(self._store, lambda hint: write_hint(self._store, hint, snapshot.id), hints)

    def remove_published(self, snapshot: Snapshot) -> None:
        """Delete a snapshot just published, which has got into another table or comes too late."""
        if self.holds(snapshot):
            for path in (paths.LATEST_HINT, paths.EARLIEST_HINT):
                self._store.delete(path)
            self.delete(snapshot.id)
            self.write_hints()
        self._forget(snapshot.id)

    def rests_on(self, base: Snapshot) -> bool:
        """Whether a snapshot just published on ``base`` has it below still: see `look_below`."""
        return self.look_below(base) != "lost"

    def look_below(self, base: Snapshot) -> Below:
        """Find out what became of the snapshot on which another was just published.

        A rollback may have removed it between the two: then nothing that was read before is known
        any more. Expiry may have, too, but it leaves nothing older in the end, and has said before
        what it deletes.
        """
        try:
            if self._load(base.id) == base:
                return "there"
            self.invalidations += 1
        except SnapshotNotFoundError as error:
            self.invalidations += 1
            if error.earliest is None or error.earliest > base.id or self._is_expiring(base):
                return "expired"
        with self._lock:
            self._kept.clear()
        return "lost"

    def _is_expiring(self, missing: Snapshot) -> bool:
        """Whether a snapshot that is gone, though older ones are there, went with an expiry.

        An expiry deletes snapshots in any order, and writes down first which, and which one after
        them it keeps. A rollback to one of them would have removed that one before the others.
        """
        try:
            said = decode_json(self._store.read(paths.EXPIRING), _expiring)
        except MissingFileError:
            said = None
        except ValueError:
            return False
        if said is None or not any(missing.is_same(each) for each in said.expired):
            known = self.ids()  # it may have ended since
            return not known or known[0] > missing.id
        return self.holds(said.kept)

    def remove_from(self, first: int) -> builtins.list[Snapshot]:
        """Delete the snapshots from an id on, the newest first, until no more come.

        At any moment those left are a table. ``LATEST`` goes first: for other engines a hint at
        what is gone is an error.

        Returns:
            Those removed, as far as they could be read, newest first.
        """
        removed: builtins.list[Snapshot] = []
        while above := [number for number in self.ids() if number >= first]:
            self._store.delete(paths.LATEST_HINT)
            for number in reversed(above):
                with contextlib.suppress(SnapshotNotFoundError, CorruptFileError):
                    removed.append(self.read(number, fresh=True))
                self.delete(number)
        self._seen = 0
        return removed

    def delete(self, snapshot_id: int, *others: int) -> None:
        """Delete the files of snapshots, and forget them; the hints stay.

        Args:
            others: go with it, in any order.
        """
        numbers = (snapshot_id, *others)
        self._store.delete([paths.snapshot(number) for number in numbers])
        for number in numbers:
            self._forget(number)

    def write_hints(self) -> None:
        """Let the hints say what is there."""
        ids = self.ids()
        if ids:
            write_hint(self._store, paths.EARLIEST_HINT, ids[0])
            write_hint(self._store, paths.LATEST_HINT, ids[-1])

    def _follow(self, snapshot_id: int) -> Snapshot:
        """Return the newest snapshot, read again only if it may be another than the last time."""
        mark = self._store.fingerprint(paths.snapshot(snapshot_id))
        if self._newest is not None and mark is not None:
            newest, known = self._newest
            if newest.id == snapshot_id and known == mark:
                return newest
        latest = self._load(snapshot_id)
        self._notice(latest, mark)
        return latest

    def _still_newest(self) -> Snapshot | None:
        """Read the newest snapshot known and the next one in one round of requests; None where
        another may be the newest, and on a disk, where marks cost less."""
        if self._store.local_path("") is not None:
            return None
        hint = recalled_hint(self._store, paths.LATEST_HINT)
        seen = self._seen or hint
        if not seen:
            return None
        # What others in this process saw after it is likely to be the newest, and is read with it,
        # as are the few between.
        last = max(seen, hint)
        first = seen if last - seen < _FEW else last
        numbers = builtins.range(first, last + 2)
        *known, after = each(self._store, self._read_if_there, numbers)
        if None in known:
            return None
        newest = known[-1] if after is None else self._newest_after(after)
        if newest is None:
            return None
        self._see(newest.id)
        self._notice(newest, None)
        return newest

    def _newest_after(self, snapshot: Snapshot) -> Snapshot | None:
        """Read the newest snapshot at or after one; None where the table is rolled back."""
        start = snapshot.id
        one, two = each(self._store, self._read_if_there, (start + 1, start + 2))  # as commits make
        if one is None:
            return snapshot
        return one if two is None else self._read_if_there(self._climb(start + 2))

    def _read_if_there(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self._decoded(snapshot_id)
        except MissingFileError:
            return None

    def _notice(self, latest: Snapshot | None, mark: Hashable) -> None:
        known = self._newest[0] if self._newest is not None else None
        if known is None:
            self.invalidations += latest is not None or self.invalidations == 0
        elif latest != known:
            follows = latest is not None and latest.id > known.id and self.rests_on(known)
            if not follows:
                self.invalidations += 1
                with self._lock:
                    self._kept.clear()
                    self.rollbacks += 1
                if latest is not None:
                    self._keep(latest)
        self._newest = None if latest is None else (latest, mark)

    def _climb(self, start: int) -> int:
        """Find the newest snapshot at or after one that exists, in a logarithmic number of
        looks."""
        low, step = start, 1
        if self._store.local_path("") is None:  # a commit makes one or two
            is_next, has_next = self._look_at(low + 1)
            if not (is_next and has_next):
                return low + is_next
            low += 2
        while self._exists(low + step):
            low += step
            step *= 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return low

    def _exists(self, snapshot_id: int) -> bool:
        return self._store.exists(paths.snapshot(snapshot_id))

    def _load(self, snapshot_id: int) -> Snapshot:
        path = paths.snapshot(snapshot_id)
        try:
            return self._decoded(snapshot_id)
        except MissingFileError as error:
            self._forget(snapshot_id)
            known = self.ids()
            there = f"{known[0]} to {known[-1]} are there" if known else "there are none"
            raise SnapshotNotFoundError(
                f"snapshot {snapshot_id} has expired or was never made: {there}; name one of "
                "those, or read the latest",
                snapshot_id=snapshot_id,
                earliest=known[0] if known else None,
                latest=known[-1] if known else None,
                path=path,
            ) from error

    def _decoded(self, snapshot_id: int) -> Snapshot:
        path = paths.snapshot(snapshot_id)
        data = self._store.read(path)
        return self._keep(decode(data, self._store.location(path), snapshot_id))

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        snapshot = self._hold(snapshot)
        with self._lock:
            known = self._kept.get(snapshot.id)
            if known is not None and known != snapshot:  # rolled back, then committed anew
                self._kept.clear()
            self._kept[snapshot.id] = snapshot
        return snapshot

    def _hold(self, snapshot: Snapshot) -> Snapshot:
        """Keep a snapshot in memory; return the one that is there already, if it is the same."""
        key = self._key(snapshot.id)
        held: Snapshot | None = metadata.get(key)
        if held is not None and (held is snapshot or held == snapshot):
            return held
        metadata.put(key, snapshot)
        return snapshot

    def _forget(self, snapshot_id: int) -> None:
        with self._lock:
            self._kept.pop(snapshot_id, None)
        metadata.forget([self._key(snapshot_id)])

    def _key(self, snapshot_id: int) -> tuple[str, str]:
        return self._store.url, paths.snapshot(snapshot_id)
