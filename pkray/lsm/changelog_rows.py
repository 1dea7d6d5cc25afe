"""Changes between two states of the same keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import UnsupportedError
from pkray.lsm.key_groups import concat
from pkray.lsm.merge import is_add
from pkray.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from pkray.schema import KIND

if TYPE_CHECKING:
    from pkray.schema import TableSchema


class ChangelogRows:
    """Makes changelog rows for a table.

    Source: ``changelog-producer.row-deduplicate`` and
        ``changelog-producer.row-deduplicate-ignore-fields``.
    """

    def __init__(self, schema: TableSchema) -> None:
        options = schema.core
        ignored = {*options.row_deduplicate_ignore_fields, *schema.trimmed_primary_keys}
        self._compared = [field.name for field in schema.fields if field.name not in ignored]
        self._drops_equal = options.row_deduplicate

    def between(
        self,
        before: pa.RecordBatch,
        keys_of_before: np.ndarray,
        after: pa.RecordBatch,
        touched: np.ndarray,
    ) -> pa.RecordBatch:
        """What changed, in the keys' order: +I, -D, or -U and +U.

        Args:
            before: old rows of some keys; deletes count as absent.
            keys_of_before: the number of each one's key.
            after: the new row of every key; deletes count as absent.
            touched: the keys to say something about, changed or not.
        """
        existed = is_add(before.column(KIND))
        old_row = np.full(after.num_rows, -1)
        old_row[keys_of_before[existed]] = np.flatnonzero(existed)
        was, is_now = old_row >= 0, is_add(after.column(KIND))
        changed = touched & (was | is_now)
        if self._drops_equal:
            both = np.flatnonzero(changed & was & is_now)
            changed[both[self._equal(before, old_row[both], after, both)]] = False
        shows_old, shows_new = changed & was, changed & is_now
        places = np.cumsum(shows_old.astype(np.int64) + shows_new)
        count = int(places[-1]) if len(places) else 0
        rows = np.empty(count, np.int64)
        kinds = np.empty(count, np.int8)
        old_place = (places - 1 - shows_new)[shows_old]
        new_place = (places - 1)[shows_new]
        rows[old_place] = old_row[shows_old]
        rows[new_place] = before.num_rows + np.flatnonzero(shows_new)
        kinds[old_place] = np.where(is_now[shows_old], UPDATE_BEFORE, DELETE)
        kinds[new_place] = np.where(was[shows_new], UPDATE_AFTER, INSERT)
        taken = concat([before, after]).take(pa.array(rows))
        return taken.set_column(
            taken.schema.get_field_index(KIND), taken.schema.field(KIND), pa.array(kinds)
        )

    def _equal(
        self, before: pa.RecordBatch, old: np.ndarray, after: pa.RecordBatch, new: np.ndarray
    ) -> np.ndarray:
        equal = np.ones(len(old), bool)
        old_rows, new_rows = pa.array(old), pa.array(new)
        for name in self._compared:
            equal &= _equal_values(
                before.column(name).take(old_rows), after.column(name).take(new_rows), name
            )
        return equal


def _equal_values(one: pa.Array, other: pa.Array, name: str) -> np.ndarray:
    """Whether values are equal; null equals null, NaN equals NaN."""
    if pa.types.is_nested(one.type):
        raise UnsupportedError(
            f"changelog-producer.row-deduplicate cannot compare {name!r} of type {one.type}; "
            "name it in changelog-producer.row-deduplicate-ignore-fields",
            column=name,
        )
    same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    same |= pc.and_(pc.is_null(one), pc.is_null(other)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(one.type):
        same |= pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False).to_numpy(
            zero_copy_only=False
        )
    return same
