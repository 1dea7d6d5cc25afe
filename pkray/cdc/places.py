"""Places that a source has reached, as properties of the commits that its changes are in."""

from __future__ import annotations

from collections.abc import Mapping

from pkray.metadata.snapshots import SnapshotStore
from pkray.table.table import Table


def newest_place(table: Table, user: str, name: str) -> Mapping[str, str] | None:
    """Find the properties of a commit user's newest snapshot that has one of a name."""
    snapshots = SnapshotStore(table.location.open())
    latest = snapshots.latest()
    for snapshot in snapshots.backwards(latest.id) if latest is not None else ():
        if snapshot.commit_user == user and name in (snapshot.properties or {}):
            return snapshot.properties
    return None
