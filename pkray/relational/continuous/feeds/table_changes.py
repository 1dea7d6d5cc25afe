"""Read what snapshots changed in a keyed table, for whoever applies it by key alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pkray.changelog.changes import warn_of_cost
from pkray.changelog.reader import ChangelogReader
from pkray.lsm.compaction.pick import skips_level_0
from pkray.relational.continuous.feeds.moved_keys import MovedKeys
from pkray.relational.sources.table import TableSource
from pkray.schema.table_schema import TableSchema

Takes = Callable[[bytes, int | None], bool]
"""Whether changes of a bucket are read; as ``ChangelogReader.read`` takes it."""


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
