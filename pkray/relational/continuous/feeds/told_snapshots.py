"""Find the snapshots of a table of which the changelog tells all rows."""

from pkray.changelog.planner import min_changelog_level
from pkray.errors import SnapshotNotFoundError
from pkray.format.snapshot import ANALYZE, APPEND, COMPACT, Snapshot
from pkray.metadata.live import live_files
from pkray.table.table import Table

_LOOKED_BACK = 32
"""Snapshots that are looked at for one whose rows are all told of: commits that overlap are few."""


class ToldSnapshots:
    """Finds the newest snapshot of a table up to which its changelog tells everything.

    The producers ``lookup`` and ``full-compaction`` tell of rows when they are compacted, in a
    snapshot after the one that added them. Between the two the table holds rows that its changelog
    has not told of.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._level = min_changelog_level(table.schema.core)
        self._newest = 0
        self._checked = 0

    @property
    def by_full_compactions(self) -> bool:
        """Whether only full compactions tell of rows."""
        return self._level > 1

    def newest(self, latest: Snapshot) -> int:
        """Find it; 0 before the first, -1 where those that would tell have expired.

        Args:
            latest: the table's newest snapshot.
        """
        if not self._level:
            return latest.id
        if latest.id < self._checked:  # rolled back
            self._newest = 0
        if latest.id != self._checked:
            self._newest = self._search(latest)
            self._checked = latest.id
        return self._newest

    def _search(self, latest: Snapshot) -> int:
        found: Snapshot | None = latest
        newest = latest.id  # of those that add nothing to the one that is looked at
        for _ in range(_LOOKED_BACK):
            if found is None:
                return self._newest or -1  # what there is will be told of by a later snapshot
            if found.id <= self._newest or (found.commit_kind != APPEND and self.is_told(found)):
                return newest
            if found.commit_kind != APPEND or found.delta_record_count != 0:
                newest = found.id - 1
            if found.id == 1:
                return newest
            found = self._before(found)
        return self._newest

    def last_change(self, after: int, until: int) -> int:
        """Find the last snapshot between two that brings changes.

        Args:
            after: a snapshot that was read; it is the answer where none after it does.
            until: the newest one that is told.
        """
        for number in range(until, max(after, until - _LOOKED_BACK), -1):
            found = self._table.at(snapshot_id=number).snapshot
            if found is None or self._brings_changes(found):
                return number
        return max(after, until - _LOOKED_BACK)

    def _brings_changes(self, snapshot: Snapshot) -> bool:
        if snapshot.commit_kind == COMPACT:
            told = snapshot.changelog_manifest_list is not None
            return bool(self._level) and told and snapshot.changelog_record_count != 0
        return snapshot.commit_kind != ANALYZE and (
            snapshot.commit_kind != APPEND or snapshot.delta_record_count != 0
        )

    def _before(self, snapshot: Snapshot) -> Snapshot | None:
        """Read the snapshot before one; None where there is none, or it has expired."""
        try:
            return self._table._before(snapshot) if snapshot.id > 1 else None
        except SnapshotNotFoundError:
            return None

    def is_told(self, snapshot: Snapshot) -> bool:
        """Whether no file lies below the levels whose rows the changelog tells of."""
        if not self._level:
            return True
        if snapshot.commit_kind == COMPACT and self._follows_its_rows(snapshot):
            return True
        store = self._table.location.open()
        return all(each.file.level >= self._level for each in live_files(store, snapshot))

    def _follows_its_rows(self, snapshot: Snapshot) -> bool:
        """Whether it compacts what the snapshot right before it added, all before being told of."""
        if self._level != 1 or self._newest != snapshot.id - 2:
            return False
        added = self._before(snapshot)
        return (
            added is not None
            and added.commit_kind == APPEND
            and (added.commit_user, added.commit_identifier)
            == (snapshot.commit_user, snapshot.commit_identifier)
        )
