"""The tags of a table."""

from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa

from pkray.arguments.facade import Name, SnapshotId, checked_class
from pkray.arguments.whole_number import check_snapshot
from pkray.errors import OptionError, SnapshotNotFoundError
from pkray.expiration.tag_removal import TagRemoval
from pkray.format.tag import Tag
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.options.values import DURATION
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.system import history
from pkray.system.source import Source

Duration = int | str | timedelta
"""Milliseconds, a timedelta, or text such as ``7 d``."""


@checked_class
class Tags:
    """Names snapshots, so that they stay when they would expire; ``table.tags``.

    Args:
        store: the root of the table, or a branch.
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        location: TableLocation,
        store: ObjectStore,
        schema: TableSchema,
        clock: Callable[[], int],
    ) -> None:
        self._location = location
        self._store = store
        self._schema = schema
        self._snapshots = SnapshotStore(store)
        self._tags = TagStore(store, self._snapshots, clock)

    def __repr__(self) -> str:
        return f"Tags({self._location.name!r})"

    def create(
        self,
        name: Name,
        snapshot_id: SnapshotId | None = None,
        time_retained: Duration | None = None,
        if_not_exists: bool = False,
    ) -> Tag:
        """Name a snapshot.

        Args:
            snapshot_id: default the newest.
            time_retained: milliseconds, a timedelta or text such as ``7 d``; default the option
                ``tag.default-time-retained``, and without it for ever.
            if_not_exists: return the tag that is there instead of failing.

        Raises:
            TagExistsError: the name is taken.
            SnapshotNotFoundError: the snapshot has expired or was never made.
            TableError: a name that no tag can have.
            OptionError: ``snapshot_id`` is no id, or ``time_retained`` no duration.
        """
        check_snapshot("snapshot_id", snapshot_id)
        retained = _millis(time_retained)
        if retained is None:
            retained = self._schema.core.tag_default_time_retained
        if snapshot_id is None:
            snapshot = self._snapshots.latest()
        else:
            snapshot = self._snapshots.read(snapshot_id, fresh=True)
        if snapshot is None:
            raise SnapshotNotFoundError(
                f"table {self._location.name} has no snapshot yet: commit to it, then make tag "
                f"{name!r}",
                tag=name,
            )
        return self._tags.create(
            name, snapshot, retained, if_not_exists=if_not_exists, undo=self._removal().delete
        )

    def get(self, name: Name) -> Tag:
        """Read a tag, or raise `TagNotFoundError` where there is none of this name."""
        return self._tags.get(name)

    def delete(self, name: Name) -> None:
        """Remove a tag; if its snapshot has expired, the files that only it kept go too.

        Raises:
            TagNotFoundError: there is none.
        """
        self._removal().delete(name)

    def expire(self) -> list[str]:
        """Delete the tags that were kept for as long as they were to be; their names."""
        return self._removal().expire()

    def list(self) -> pa.Table:
        """List the tags, a row each, by name: ``tag_name``, ``snapshot_id``, ``schema_id``,
        ``commit_time``, ``record_count``, ``create_time``, ``time_retained``."""
        return history.tags(Source(self._location, self._store, self._schema))

    def _removal(self) -> TagRemoval:
        return TagRemoval(self._store, self._schema, self._tags)


def _millis(duration: Duration | None) -> int | None:
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * 1000)
    if isinstance(duration, str):
        try:
            return int(DURATION.parse(duration))
        except ValueError:
            raise OptionError(
                f"time_retained cannot be {duration!r}: it takes {DURATION.allowed}",
                value=duration,
                arguments=("time_retained",),
            ) from None
    return duration
