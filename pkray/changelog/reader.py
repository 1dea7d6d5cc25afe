"""Reads the changes that each snapshot made."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.planner import ChangePlanner
from pkray.changelog.request import ROW_KIND, SNAPSHOT_ID, ChangeRequest
from pkray.changelog.splits import ChangeSplit
from pkray.errors import OptionError, SnapshotNotFoundError
from pkray.format.snapshot import Snapshot
from pkray.scan.moment import Timestamp
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore, each, together

__all__ = ["ROW_KIND", "SNAPSHOT_ID", "ChangelogReader"]


class ChangelogReader:
    """The changes between two snapshots, in commit order.

    With a changelog producer they are what it saved; with ``none`` they are the rows that each
    APPEND snapshot added, merged by key within the commit.

    Args:
        normalize, compares: as of `ChangePlanner`.
        location: where the table is, where that is known.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        *,
        normalize: bool = False,
        compares: bool = False,
        location: TableLocation | None = None,
    ) -> None:
        self._store = store
        self._history = ChangeHistory(store)
        self._request = ChangeRequest.from_arguments(location, schema)
        self._planner = ChangePlanner(
            store, self._request, self._history.whole, normalize, compares
        )
        self.schema = self._request.arrow_schema

    def read(
        self,
        from_snapshot: int | None = None,
        to_snapshot: int | None = None,
        *,
        from_tag: str | None = None,
        to_tag: str | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        takes: Callable[[bytes, int | None], bool] = lambda partition, bucket: True,
    ) -> Iterator[pa.RecordBatch]:
        """Read batches of ``_row_kind``, ``_snapshot_id`` and the table's columns, both ends
        included.

        By default from the oldest changes on after which all can be read, up to the newest.

        Args:
            takes: says of partitions, as manifests hold them, and buckets whether they are read;
                a bucket is None where several of a partition were overwritten.

        Raises:
            SnapshotNotFoundError: a snapshot between has expired, or the first is yet to come and
                is not the next one.
            OptionError: an end is said in two ways, or the last comes before the first.
            TagNotFoundError: there is no such tag.
        """
        first = self._history.id_of(from_snapshot, from_tag, from_timestamp, is_end=False)
        last = self._history.id_of(to_snapshot, to_tag, to_timestamp, is_end=True)
        return self._read(first, last, takes)

    def earliest(self, until: int) -> int:
        """Find the oldest snapshot from which on all changes up to another can be read."""
        whole = self._history.earliest_whole_id() or 1
        if self._planner.normalizes:
            return whole + 1 if whole > 1 else 1  # what its rows were before it is not there
        first = self._history.earliest_id() or 1
        if self._planner.looks_back:
            for number in range(min(whole, until), first - 1, -1):
                if not self._planner.can_read(self._history.find(number)):
                    return number + 1
        return first

    def splits(self, first: int | None, last: int | None) -> Iterator[ChangeSplit]:
        """Plan the changes of snapshots, both ends included, in the order in which they are read.

        Args:
            first, last: None: the oldest after which all can be read, the newest.

        Raises:
            SnapshotNotFoundError: as `read`.
        """
        latest, ahead = together(
            self._store, self._history.latest, lambda: self._find_ahead(first, last)
        )
        if latest is None:
            return
        end = latest.id if last is None else last
        if first is not None and first > end + 1:
            if last is not None:
                raise _backwards(first, last)
            self._history.find(first)  # is not there, unless it was made this moment
        if first is None:
            first = self.earliest(end)
        for number in range(first, end + 1):
            yield from self._planner.changes(ahead.pop(number, None) or self._history.find(number))

    def _find_ahead(self, first: int | None, last: int | None) -> dict[int, Snapshot]:
        """Find the first of some snapshots in an object store side by side, as far as they are
        there."""
        if first is None or last is None or self._store.local_path("") is not None:
            return {}

        def find(number: int) -> Snapshot | None:
            try:
                return self._history.find(number)
            except SnapshotNotFoundError:  # said when its turn comes
                return None

        numbers = range(first, min(last + 1, first + self._store.parallel_requests))
        found = zip(numbers, each(self._store, find, numbers), strict=True)
        return {number: snapshot for number, snapshot in found if snapshot is not None}

    def _read(
        self, first: int | None, last: int | None, takes: Callable[[bytes, int | None], bool]
    ) -> Iterator[pa.RecordBatch]:
        for split in self.splits(first, last):
            if takes(split.partition, split.bucket):
                yield from split.read(self._store)


def _backwards(first: int, last: int) -> OptionError:
    return OptionError(
        f"changes go from an older snapshot to a newer one, and {last} is older than {first}: "
        "swap them",
        start=first,
        end=last,
    )
