"""Finds what a commit user has committed."""

import itertools
from collections import OrderedDict
from typing import NamedTuple

from pkray.format.snapshot import COMPACT, Snapshot
from pkray.metadata.snapshots import SnapshotStore

KEPT = 256
"""Identifiers whose snapshots are remembered: repeated commits are among a user's last ones."""
KEPT_UUIDS = 1 << 14
"""Snapshots whose identifiers are remembered by their uuids, some 150 bytes each."""
CLOCKS_APART_MILLIS = 60 * 60 * 1000
"""How far the clocks of a table's processes may be apart."""


class Committed(NamedTuple):
    """The snapshots that one commit made, as far as they are known."""

    append: Snapshot | None = None
    compact: Snapshot | None = None

    @property
    def newest(self) -> Snapshot | None:
        return self.compact or self.append


class CommitHistory:
    """The newest identifier of a commit user and the snapshots of its last commits.

    Identifiers of a user grow: the newest snapshot of the user has the newest identifier.
    """

    def __init__(self, snapshots: SnapshotStore, user: str) -> None:
        self._snapshots = snapshots
        self._user = user
        self._scanned = 0
        self._commits: OrderedDict[int, Committed] = OrderedDict()
        self._by_uuid: OrderedDict[str, int] | None = None
        self._uuids_from = 0
        self.identifier: int | None = None

    def reset(self) -> None:
        """Forget everything: the table was rolled back."""
        self._scanned = 0
        self._commits.clear()
        self._by_uuid = None
        self.identifier = None

    def advance(self, latest: Snapshot | None) -> None:
        """Take in the snapshots made since the last time, up to the latest."""
        if latest is None or latest.id < self._scanned:
            self.reset()
        if latest is None or latest.id == self._scanned:
            return
        found: list[Snapshot] = []
        for snapshot in self._snapshots.backwards(latest.id):
            if snapshot.id <= self._scanned:
                break
            if snapshot.commit_user == self._user:
                found.append(snapshot)
            if found and self._scanned == 0 and self._is_whole(found):
                break
        for snapshot in reversed(found):
            self._note(snapshot)
        self._scanned = latest.id

    def find(self, identifier: int) -> Committed:
        """Return the snapshots of a commit; looked for among all if it is not one of the last."""
        if identifier in self._commits:
            return self._commits[identifier]
        if self.identifier is None or identifier > self.identifier:
            return Committed()
        append = compact = None
        for snapshot in self._snapshots.backwards(self._scanned):
            if snapshot.commit_user != self._user:
                continue
            if snapshot.commit_identifier < identifier:
                break
            if snapshot.commit_identifier == identifier:
                if snapshot.commit_kind == COMPACT:
                    compact = snapshot
                else:
                    append = snapshot
        return Committed(append, compact)

    def find_uuid(self, uuid: str, since: int) -> int | None:
        """Return the identifier of the commit whose snapshot has the uuid, as far as it is known.

        Args:
            since: epoch milliseconds; the snapshot is not older.
        """
        oldest = since - CLOCKS_APART_MILLIS
        if self._by_uuid is None or oldest < self._uuids_from:
            self._by_uuid, self._uuids_from = OrderedDict(), oldest
            for snapshot in reversed(self._made_since(oldest)):
                self._note_uuid(self._by_uuid, snapshot)
        return self._by_uuid.get(uuid)

    def _made_since(self, oldest: int) -> list[Snapshot]:
        """Return the user's snapshots, newest first."""
        if self.identifier is None:
            return []
        backwards = self._snapshots.backwards(self._scanned)
        recent = itertools.takewhile(lambda snapshot: snapshot.time_millis >= oldest, backwards)
        return [snapshot for snapshot in recent if snapshot.commit_user == self._user]

    @staticmethod
    def _note_uuid(known: OrderedDict[str, int], snapshot: Snapshot) -> None:
        if snapshot.commit_kind != COMPACT and snapshot.uuid is not None:
            known[snapshot.uuid] = snapshot.commit_identifier
            if len(known) > KEPT_UUIDS:
                known.popitem(last=False)

    def _note(self, snapshot: Snapshot) -> None:
        if self._by_uuid is not None:
            self._note_uuid(self._by_uuid, snapshot)
        identifier = snapshot.commit_identifier
        known = self._commits.get(identifier, Committed())
        if snapshot.commit_kind == COMPACT:
            known = known._replace(compact=snapshot)
        else:
            known = known._replace(append=snapshot)
        self._commits[identifier] = known
        if self.identifier is None or identifier > self.identifier:
            self.identifier = identifier
        if len(self._commits) > KEPT:
            self._commits.popitem(last=False)

    @staticmethod
    def _is_whole(found: list[Snapshot]) -> bool:
        """Whether all of the user's newest commit was met, going back."""
        oldest = found[-1]
        return oldest.commit_kind != COMPACT or (
            oldest.commit_identifier != found[0].commit_identifier
        )
