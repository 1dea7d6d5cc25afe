"""Removes the oldest snapshots and changelogs, and the files that nothing else names."""

import itertools
import uuid
from collections.abc import Callable

import msgspec

from pkray.clock import now_millis
from pkray.errors import SnapshotNotFoundError
from pkray.expiration.expiry_journal import Expiring, ExpiryJournal
from pkray.expiration.expiry_report import ExpiryReport
from pkray.expiration.retention import (
    Retention,
    changelog_retention,
    first_kept,
    snapshot_retention,
)
from pkray.expiration.unreferenced_files import UnreferencedFiles
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore, each, together


class SnapshotExpirer:
    """Expires the snapshots of a table, or of one of its branches.

    An expiry can be killed between any two steps, and the next one ends what it began: what is
    to go is written down first, then the snapshots' own files go, then what only they named.
    So a reader finds a snapshot whole or not at all, and a tag made while the snapshot was there
    keeps its files. Two processes may expire at once. Not thread-safe.

    Who reads on under a consumer writes that first and looks at what is written down after it;
    whoever expires writes that down first and looks at the consumers again after it. So one of the
    two sees the other: either the reader chooses another snapshot, or what was written down stays
    as it is, and nothing is deleted, until no consumer needs any of it. Nobody takes it back, as
    another process may be about to carry it out.

    An object store deletes many snapshots at once, in any order. Whoever meets the gap finds in
    what was written down that no rollback left it: see `SnapshotStore.look_below`.

    Args:
        store: the table's root, or a branch.
        schema: the table's newest schema, or what returns it.
        clock: epoch milliseconds.
        dry_run: only say what would go: nothing is written and nothing deleted.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema | Callable[[], TableSchema],
        clock: Callable[[], int] = now_millis,
        *,
        dry_run: bool = False,
    ) -> None:
        main, self._history = main_and_history(store)
        self._schema_source = schema
        self._clock = clock
        self._is_dry_run = dry_run
        self._snapshots = SnapshotStore(self._history)
        self._changelogs = ChangelogStore(self._history)
        self._consumers = ConsumerStore(self._history)
        self._journal = ExpiryJournal(self._history)
        self._unreferenced = UnreferencedFiles(main, self._history)
        self._earliest: Snapshot | None = None
        self._oldest_changelog: Snapshot | None = None
        self._has_changelogs: bool | None = None
        self._resumed = False
        self._held_by: tuple[str, ...] = ()

    def expire(
        self,
        retention: Retention | None = None,
        changelogs: Retention | None = None,
        *,
        latest: int | None = None,
    ) -> ExpiryReport:
        """Expire what has been kept for long enough.

        Args:
            retention: of snapshots. Default the table's options.
            changelogs: of changelogs. Default the table's options; none is kept for less long
                than the snapshots.
            latest: the newest snapshot's id, where it is known.

        Raises:
            StorageError: the storage failed; the next expiry goes on from there.
        """
        options = self._schema.core
        snapshots = retention or snapshot_retention(options)
        changelogs = changelogs or changelog_retention(options, snapshots)
        report = self._resume()
        self._held_by = ()
        if latest is None:
            latest = self._snapshots.latest_id()
        if latest is None:
            return report
        report += self._expire_snapshots(latest, snapshots, changelogs.outlives(snapshots))
        report += self._expire_changelogs(latest, changelogs)
        return report + ExpiryReport(held_by=self._held_by)

    @property
    def _schema(self) -> TableSchema:
        source = self._schema_source
        return source if isinstance(source, TableSchema) else source()

    def _resume(self) -> ExpiryReport:
        """End what a killed process began. Once is enough: `_carry_out` meets later ones."""
        if self._resumed:
            return ExpiryReport()
        begun, _, changelog = together(
            self._history, self._journal.read, self._find_earliest, self._find_changelog
        )
        self._has_changelogs = changelog is not None
        self._oldest_changelog = changelog
        report = ExpiryReport()
        if begun is not None:
            report = self._foresee(begun) if self._is_dry_run else self._finish(begun, resumed=True)
        self._resumed = True
        return report

    def _expire_snapshots(
        self, latest: int, retention: Retention, keep_changelogs: bool
    ) -> ExpiryReport:
        earliest = self._find_earliest()
        if earliest is None:
            return ExpiryReport()
        end = self._first_kept(earliest, latest, retention, self._time_of_snapshot)
        if end <= earliest.id:
            return ExpiryReport()
        expired = list(self._snapshots.range(earliest.id, end - 1, fresh=True))
        kept = next(self._snapshots.range(end, end, fresh=True), None)
        if not expired or kept is None:  # another process is at it
            self._earliest = None
            return ExpiryReport()
        return self._carry_out(
            Expiring(
                token=str(uuid.uuid4()),
                expired=tuple(expired),
                kept=kept,
                keep_changelogs=keep_changelogs,
            )
        )

    def _expire_changelogs(self, latest: int, retention: Retention) -> ExpiryReport:
        if self._has_changelogs is False:
            return ExpiryReport()
        first = self._oldest_changelog = self._oldest_changelog or self._find_changelog()
        self._has_changelogs = first is not None
        kept = self._find_earliest()
        if first is None or kept is None:
            return ExpiryReport()
        end = self._first_kept(first, latest, retention, self._time_of_changelog)
        if end <= first.id:
            return ExpiryReport()
        newest = self._changelogs.latest_id() or first.id
        expired = tuple(self._changelogs.range(first.id, min(end, newest + 1) - 1))
        if not expired:
            self._oldest_changelog = None
            return ExpiryReport()
        return self._carry_out(
            Expiring(token=str(uuid.uuid4()), expired=expired, kept=kept, changelogs=True)
        )

    def _first_kept(
        self,
        earliest: Snapshot,
        latest: int,
        retention: Retention,
        time_of: Callable[[int], int | None],
    ) -> int:
        now = self._clock()
        wanted = first_kept(earliest.id, latest, retention, now, time_of)
        if wanted <= earliest.id:
            return earliest.id
        idle = self._schema.core.consumer_expiration_time
        gone = () if idle is None else self._drop_idle(now - idle)
        holding = {n: need for n, need in self._holding(wanted).items() if n not in gone}
        self._held_by = tuple(sorted(holding.keys() | self._held_by))
        protected = min(holding.values(), default=None)
        return first_kept(earliest.id, latest, retention, now, time_of, protected)

    def _drop_idle(self, before_millis: int) -> tuple[str, ...]:
        """Drop the consumers that last moved before a time; their names."""
        drop = self._consumers.idle if self._is_dry_run else self._consumers.expire
        return drop(before_millis)

    def _holding(self, end: int) -> dict[str, int]:
        """Find the consumers that need something before a snapshot: what, by their names."""
        found = {each.name: each.oldest_needed for each in self._consumers.list()}
        return {name: needed for name, needed in found.items() if needed < end}

    def _foresee(self, expiring: Expiring) -> ExpiryReport:
        """Count what `_finish` would remove."""
        count = len(expiring.expired)
        named = ExpiryReport(changelogs=count)
        if not expiring.changelogs:
            named = ExpiryReport(snapshots=count)
            self._earliest = expiring.kept
        return named + self._unreferenced.find(expiring, self._schema).report

    def _carry_out(self, expiring: Expiring) -> ExpiryReport:
        if self._is_dry_run:
            return self._foresee(expiring)
        if self._journal.begin(expiring):
            return self._finish(expiring, resumed=False)
        other = self._journal.read()
        self._earliest = None
        return ExpiryReport() if other is None else self._finish(other, resumed=True)

    def _finish(self, expiring: Expiring, *, resumed: bool) -> ExpiryReport:
        self._earliest = self._oldest_changelog = None
        expired = list(expiring.expired)
        holding = self._holding(expired[-1].id + 1)
        if holding:  # since they were looked at before this was written down
            self._held_by = tuple(sorted(holding.keys() | self._held_by))
            return ExpiryReport()
        if not self._snapshots.holds(expiring.kept):
            # Rolled back below it, or expired by another engine since.
            kept = self._find_earliest()
            if kept is None or not expiring.changelogs:
                self._journal.end(expiring)
                return ExpiryReport()
            expiring = msgspec.structs.replace(expiring, kept=kept)
        if expiring.changelogs:
            report = ExpiryReport(changelogs=len(expired))
            left = [number for number in self._changelogs.ids() if number > expired[-1].id]
            self._changelogs.delete([each.id for each in expired], min(left, default=None))
            self._has_changelogs = bool(left)
        else:
            report = ExpiryReport(snapshots=len(expired))
            if expiring.keep_changelogs:
                self._changelogs.write(expired)
                self._has_changelogs = True
            self._delete_snapshots(expiring, resumed=resumed)
        report += self._unreferenced.delete(expiring, self._schema)
        self._journal.end(expiring)
        return report

    def _delete_snapshots(self, expiring: Expiring, *, resumed: bool) -> None:
        expired = expiring.expired
        if resumed:  # after a rollback another snapshot may have the id
            there = each(self._history, self._snapshots.holds, expired)
            expired = tuple(itertools.compress(expired, there))
        if self._history.local_path("") is not None:
            for snapshot in expired:
                self._snapshots.delete(snapshot.id)
        elif expired:
            self._snapshots.delete(*(snapshot.id for snapshot in expired))
        self._history.write(paths.EARLIEST_HINT, str(expiring.kept.id).encode())

    def _find_earliest(self) -> Snapshot | None:
        """Return the oldest snapshot: as remembered, until something is to be expired."""
        while self._earliest is None:
            number = self._snapshots.earliest_id()
            if number is None:
                return None
            self._earliest = next(self._snapshots.range(number, number, fresh=True), None)
        return self._earliest

    def _find_changelog(self) -> Snapshot | None:
        earliest = self._changelogs.earliest_id()
        return None if earliest is None else self._changelogs.read(earliest)

    def _time_of_snapshot(self, number: int) -> int | None:
        return _time_of(number, self._earliest, self._snapshots)

    def _time_of_changelog(self, number: int) -> int | None:
        return _time_of(number, self._oldest_changelog, self._changelogs)


def _time_of(
    number: int, known: Snapshot | None, among: SnapshotStore | ChangelogStore
) -> int | None:
    if known is not None and number == known.id:
        return known.time_millis
    try:
        return among.read(number).time_millis
    except SnapshotNotFoundError:
        return None
