"""Share a keyed table among workers: each reads some of its buckets."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pkray.changelog.change_history import ChangeHistory
from pkray.format.snapshot import OVERWRITE
from pkray.metadata.live import unless_expired
from pkray.relational.continuous.feeds.table_changes import TableChanges
from pkray.scan.view import SnapshotView
from pkray.table.table import Table


class TableShare:
    """Reads the buckets of a table that are one worker's.

    Changes of a key are all in one bucket, and so come to one worker in their order. That does not
    hold for keys that move between partitions, nor for overwrites, which may change the number of
    buckets: epochs with these are the first worker's.

    Args:
        changes: of the table.
        worker, workers: the number of the worker, and how many there are.
    """

    def __init__(self, table: Table, changes: TableChanges, worker: int, workers: int) -> None:
        self._table = table
        self._changes = changes
        self._worker = worker
        self._workers = workers
        self._keys_stay = not table.schema.crosses_partitions

    def is_dealt(self, after: int, until: int) -> bool:
        """Whether the changes between two snapshots are dealt to the workers."""
        if not self._keys_stay:
            return False
        history = ChangeHistory(self._table.location.open())
        numbers = range(max(after, 0) + 1, until + 1) if after >= 0 else ()
        return all(history.find(number).commit_kind != OVERWRITE for number in numbers)

    def content(self, view: SnapshotView, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of this worker's buckets at a snapshot."""
        store = self._table.location.open()
        number = view.snapshot.id if view.snapshot else 0
        for split in view.plan(list(names)):
            if self._takes(split.partition, split.bucket):
                with unless_expired(store, number):
                    yield from split.read(store)

    def changes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Read what snapshots changed in this worker's buckets."""
        return self._changes.read(first, last, takes=self._takes)

    def _takes(self, partition: bytes, bucket: int | None) -> bool:
        return (zlib.crc32(partition) + (bucket or 0)) % self._workers == self._worker
