"""Read what a bucket held at a snapshot, and compare what a partition held at two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import IndexFileMeta
from pkray.lsm.compaction.changelog_rows import differences
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import KeyGroups, RowOrder
from pkray.lsm.levels import Levels
from pkray.lsm.merge.live_rows import LiveRows
from pkray.lsm.merge.merge_read import merge_read
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True)
class BucketState:
    """The files of one bucket; it pickles.

    Args:
        partition: as manifests hold it.
        vector_files: the bucket's index files of deletion vectors.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    vector_files: tuple[IndexFileMeta, ...] = ()

    def levels(self, store: ObjectStore) -> Levels:
        """Make sorted runs of the files, and read which of their rows are deleted."""
        names = {file.file_name for file in self.files}
        vectors = read_vectors(store, self.vector_files, names)
        return Levels(self.files, vectors, tuple(file.file_name for file in self.vector_files))

    def rows(
        self, store: ObjectStore, schema: TableSchema, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read the merged rows, in key order, in bounded memory."""
        levels = self.levels(store)
        files = DataFileStore(store, schema, self.partition, self.bucket)
        reader = LiveRows(files, levels.vectors)
        engine = merge_engine(schema)
        yield from merge_read(levels.runs(), reader, engine, schema, list(columns))


def difference(
    store: ObjectStore,
    schema: TableSchema,
    before: Sequence[BucketState],
    after: Sequence[BucketState],
    *,
    show_old: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read two states of a partition, and yield the rows in which they differ, in key order.

    A key may have moved from one bucket to another. Rows have ``_VALUE_KIND`` and all value
    columns.

    Args:
        before, after: of buckets of one partition.
        show_old: with -U.
    """
    columns = [KIND, *schema.names]
    streams = [state.rows(store, schema, columns) for state in (*before, *after)]
    order, limits = RowOrder(schema, by_user_sequence=False), MergeLimits.from_options(schema.core)
    for groups, source in group_sorted(streams, order, limits):
        is_old = source < len(before)
        old, new = _row_of_key(groups, is_old), _row_of_key(groups, ~is_old)
        yield differences(groups.rows, old, new, show_old=show_old)


def _row_of_key(groups: KeyGroups, chosen: np.ndarray) -> np.ndarray:
    """Return the number of each key's row among those chosen; -1 where it has none."""
    found = np.full(len(groups), -1)
    of_key = chosen[groups.order]
    found[groups.group_of_row()[of_key]] = groups.order[of_key]
    return found
