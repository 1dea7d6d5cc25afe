"""Sum the changes of several snapshots up to one of each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import RowOrder, concat, take
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_read import merge_read
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.metadata.live import BucketId
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


def last_changes(
    store: ObjectStore,
    schema: TableSchema,
    bucket: BucketId,
    files: Sequence[tuple[DataFileMeta, ...]],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Read the last change of each key from changelog files, in key order, in bounded memory.

    Args:
        files: changelog files of a bucket, of one snapshot after the other; each is sorted by key
            and has the changes of a key one after the other.
        columns: of the rows yielded.
    """
    source = DataFileStore(store, schema, *bucket)
    # The last change counts, whatever sequence fields say: it was merged by them.
    order = RowOrder(schema, by_user_sequence=False)
    wanted = list(dict.fromkeys([*columns, *order.key_columns]))
    streams = [_last_of_key(source.read(file, wanted), order) for group in files for file in group]
    for groups, _ in group_sorted(streams, order, MergeLimits.from_options(schema.core)):
        yield groups.take(groups.newest()).select(list(columns))


def merged_deltas(
    store: ObjectStore,
    schema: TableSchema,
    bucket: BucketId,
    files: Sequence[tuple[DataFileMeta, ...]],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Merge what writers added, a row a key with deletes, by the table's engine: in key order, in
    bounded memory.

    Args:
        files: data files that writers added to a bucket, of one snapshot after the other. Their
            order counts: sequence numbers may begin anew when all rows of a bucket are gone.
        columns: of the rows yielded.
    """
    source = DataFileStore(store, schema, *bucket)
    engine = merge_engine(schema)
    every = schema.row_schema.names
    streams = [
        merge_read(Levels(group).runs(), source, engine, schema, every, drop_deletes=False)
        for group in files
    ]
    for groups, _ in group_sorted(streams, RowOrder(schema), MergeLimits.from_options(schema.core)):
        yield engine.merge(groups).select(list(columns))


def _last_of_key(batches: Iterable[pa.RecordBatch], order: RowOrder) -> Iterator[pa.RecordBatch]:
    """Yield rows sorted by key, without those that another of their key follows."""
    held: pa.RecordBatch | None = None  # the key may go on in the next batch
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if held is None else concat([held, batch])
        ends = order.keys(rows).group_starts()[1:] - 1
        if len(ends):
            yield take(rows, ends)
        held = rows.slice(rows.num_rows - 1)
    if held is not None:
        yield held
