"""What a merge engine is."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.key_groups import KeyGroups
from pkray.row_kind import DELETE, UPDATE_BEFORE
from pkray.schema import KIND


class MergeEngine(Protocol):
    """Merges the rows of each key into one.

    Attributes:
        needs_order: it looks at more than the newest row of a key.
        keeps_newest: the merged row is the newest one by arrival, whatever was there before; so
            a row need not be merged with those of older levels to be right.
    """

    needs_order: bool
    keeps_newest: bool

    def merge(self, groups: KeyGroups) -> pa.RecordBatch:
        """One row a key, in the groups' order, with the columns of ``groups.rows``.

        A key that is not there after merging comes as a -D.

        Raises:
            MergeError: rows that the engine refuses.
        """
        ...


def is_add(kinds: pa.Array) -> np.ndarray:
    """Whether each row's kind is +I or +U."""
    numbers = kinds.to_numpy()
    return (numbers != DELETE) & (numbers != UPDATE_BEFORE)


def without_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of kind +I and +U; rows without a kind column are."""
    position = rows.schema.get_field_index(KIND)
    if position < 0:
        return rows
    kept = is_add(rows.column(position))
    return rows if kept.all() else rows.filter(pa.array(kept))


def count_deletes(rows: pa.RecordBatch) -> int:
    """Rows of kind -U and -D."""
    kinds = rows.column(KIND)
    if not pc.any(pc.not_equal(kinds, 0)).as_py():
        return 0
    return rows.num_rows - int(is_add(kinds).sum())
