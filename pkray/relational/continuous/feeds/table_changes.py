"""Read what snapshots changed in a keyed table, for whoever applies it by key alone."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.changes import warn_of_cost
from pkray.changelog.reader import ChangelogReader
from pkray.changelog.request import ROW_KIND, SNAPSHOT_ID
from pkray.changelog.splits import ChangeSplit
from pkray.columns.batches import in_one_piece
from pkray.columns.keys import codes
from pkray.format.snapshot import OVERWRITE
from pkray.lsm.compaction.pick import skips_level_0
from pkray.metadata.live import unless_expired
from pkray.relational.continuous.changes import SIGNS
from pkray.relational.local.memory import OF_MACHINE, Memory, machine_memory
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import BIGINT, Scan
from pkray.relational.sources.table import TableSource
from pkray.scan.view import SnapshotView
from pkray.schema.row_kind import DELETE, parse
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType
from pkray.storage.object_store import ObjectStore
from pkray.table.table import Table

_BUCKET = "_bucket"
"""The column that says which bucket tells of a change."""
_BEFORE, _BETWEEN, _LAST = range(3)
"""When a key stayed in a bucket."""
Takes = Callable[[bytes, int | None], bool]
"""Whether changes of a bucket are read; as ``ChangelogReader.read`` takes it."""


class MovedKeys:
    """Puts the changes of each key in order, where they are read bucket by bucket.

    Each bucket tells in its own order when a key came to it, changed and left it, but maybe in
    another snapshot than the bucket where the key was before. In the order that is made a key
    leaves one bucket before it comes to the next one, and it comes last to where it stays. The
    changes themselves, and the order of those in one bucket, are kept.

    Rows beyond ``sort-spill-buffer-size`` are set aside on the local disk.
    """

    def __init__(self, source: TableSource) -> None:
        schema = source.schema
        self._scan = Scan(source)
        self._keys = list(schema.primary_keys)
        said = (Field(ROW_KIND, DataType("STRING")), Field(SNAPSHOT_ID, BIGINT))
        self._fields = Fields((*said, *source.fields, Field(_BUCKET, BIGINT)))
        share = schema.core.sort_spill_buffer_size
        self._memory = Memory(None, share, max(share, machine_memory() // OF_MACHINE))

    def in_order(
        self, splits: Iterable[ChangeSplit], store: ObjectStore
    ) -> Iterator[pa.RecordBatch]:
        """Read changes in order: batches of ``_row_kind``, ``_snapshot_id`` and columns.

        Args:
            splits: all changes from one state of the table, in which every key is in one bucket,
                to another; each of one bucket.
        """
        rows = _of_buckets(splits, store)
        for table in self._memory.tables(self._scan, rows, self._keys, self._fields):
            for batch in in_one_piece(table).to_batches():
                order = self._order(batch)
                changes = batch.drop_columns([_BUCKET])
                yield changes if order is None else changes.take(pa.array(order))

    def _order(self, rows: pa.RecordBatch) -> np.ndarray | None:
        """Number the rows in the order that is made: int64; None: as they are."""
        count, numbers = rows.num_rows, np.arange(rows.num_rows)
        columns = [rows.column(name) for name in self._keys]
        keys, stays = codes(columns, count), codes([*columns, rows.column(_BUCKET)], count)
        if stays.count == keys.count:
            return None
        buckets = np.bincount(keys.of_row[stays.first_rows()], minlength=keys.count)
        moved = np.flatnonzero(buckets[keys.of_row] > 1)
        kinds = parse(rows.column(ROW_KIND), ROW_KIND).to_numpy()[moved]
        last = np.zeros(keys.count, np.int64)
        last[keys.of_row] = numbers
        # what a key that moved is told of comes where its last change stood
        places, ranks = numbers.copy(), np.zeros((2, count), np.int64)
        places[moved] = last[keys.of_row[moved]]
        ranks[:, moved] = _ranks(stays.of_row[moved], kinds)
        return np.lexsort((numbers, *ranks, places))


def _of_buckets(splits: Iterable[ChangeSplit], store: ObjectStore) -> Iterator[pa.RecordBatch]:
    """Read splits, with the numbers of their buckets."""
    numbers: dict[tuple[bytes, int | None], int] = {}
    for split in splits:
        number = numbers.setdefault((split.partition, split.bucket), len(numbers))
        for rows in split.read(store):
            yield rows.append_column(_BUCKET, pa.array(np.full(rows.num_rows, number, np.int64)))


def _ranks(stays: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Rank changes, so that those of one key can be put in order.

    The changes of a key in one bucket are one stay after the other: each ends with the change by
    which the key leaves, or goes on. The stay that was there before all comes first, the one that
    goes on comes last; the others as they ended.

    Args:
        stays: int64, the key and the bucket of each change.
        kinds: int8, of each.

    Returns:
        int64, two rows: the end of each change's stay, and, which counts more, whether it was
        before, between or last.
    """
    order = np.argsort(stays, kind="stable")
    grouped, leaves = stays[order], kinds[order] == DELETE
    begins = np.r_[True, (grouped[1:] != grouped[:-1]) | leaves[:-1]]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) - 1
    was_there = SIGNS[kinds[order[starts]]] < 0
    turns = np.where(leaves[ends], np.where(was_there, _BEFORE, _BETWEEN), _LAST)
    of_change = np.cumsum(begins) - 1
    ranks = np.empty((2, len(order)), np.int64)
    ranks[:, order] = order[ends][of_change], turns[of_change]
    return ranks


class TableChanges:
    """Reads what snapshots changed in a keyed table.

    Overwrites and dropped partitions are followed, whatever the changelog producer. Where writers
    added rows by key, and nobody saved what became of them, it says so much (mode ``upsert``);
    everywhere else the changes are complete. Changes of a key come in their order, also where keys
    move from one partition to another.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._table = source.original
        schema = source.schema
        self._completes = source.changelog != "upsert" or not _adds_what_is_read(schema)
        self._moved = MovedKeys(source) if schema.crosses_partitions else None
        if self._completes:
            warn_of_cost(source.name, schema.core)

    def read(self, first: int, last: int, takes: Takes | None = None) -> Iterator[pa.RecordBatch]:
        """Read batches of ``_row_kind``, ``_snapshot_id`` and the table's columns.

        Args:
            first, last: the snapshots, both included.
            takes: default all buckets; where keys move it is left aside, as some buckets do not
                tell of all changes of a key.
        """
        table = self._table
        store, schema = table.location.open(), table.schema
        reader = ChangelogReader(store, schema, normalize=self._completes, compares=True)
        if self._moved is not None:
            return self._moved.in_order(reader.splits(first, last), store)
        return reader.read(first, last) if takes is None else reader.read(first, last, takes=takes)


def _adds_what_is_read(schema: TableSchema) -> bool:
    """Whether a row that is written is what readers find under its key from that snapshot on.

    Not where rows are merged, where an older one by ``sequence.field`` is no change, nor where
    readers see rows when they were compacted.
    """
    options = schema.core
    return (
        options.merge_engine == "deduplicate"
        and not options.sequence_field
        and not skips_level_0(schema)
    )


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
