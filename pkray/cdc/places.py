"""Places that sources have reached, as properties of the commits that their changes are in.

Each later snapshot has them too, whoever commits it, so that a place is there as long as the table
is: with its copies and branches, and taken back with its rows.
"""

import json
from collections.abc import Mapping
from typing import Any

from pkray.format.snapshot import CARRIED
from pkray.metadata.snapshots import SnapshotStore
from pkray.table.table import Table


def newest_place(table: Table, user: str, name: str) -> Mapping[str, str] | None:
    """Find the newest place of a commit user.

    Args:
        name: a property that it has.
    """
    snapshots = SnapshotStore(table.location.open())
    latest = snapshots.latest()
    for snapshot in snapshots.backwards(latest.id) if latest is not None else ():
        properties = snapshot.properties or {}
        carried = properties.get(f"{CARRIED}{user}")
        if carried is not None:
            found: dict[str, Any] = json.loads(carried)
            return found
        if snapshot.commit_user == user and name in properties:  # written before any was carried
            return properties
    return None


def as_properties(place: Mapping[str, str], user: str) -> dict[str, str]:
    """Make the properties of the commit that reaches a place."""
    return {**place, f"{CARRIED}{user}": json.dumps(place)}
