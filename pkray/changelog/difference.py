"""The difference between two states of a partition, by reading both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.changelog.bucket_state import BucketState
from pkray.lsm.compaction.changelog_rows import differences
from pkray.lsm.keys.key_groups import KeyGroups, RowOrder
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore


def difference(
    store: ObjectStore,
    schema: TableSchema,
    before: Sequence[BucketState],
    after: Sequence[BucketState],
    *,
    show_old: bool = True,
) -> Iterator[pa.RecordBatch]:
    """``_VALUE_KIND`` and all value columns of the rows that are others, in key order.

    A key may have moved from one bucket to another.

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
    """For each key the number of its row among those chosen; -1 where it has none."""
    found = np.full(len(groups), -1)
    of_key = chosen[groups.order]
    found[groups.group_of_row()[of_key]] = groups.order[of_key]
    return found
