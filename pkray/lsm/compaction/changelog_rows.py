"""Make changelog rows of two states of the same keys."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.keys.equality import equal_values
from pkray.lsm.keys.key_groups import concat, take
from pkray.lsm.merge.merge_function import is_add
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from pkray.schema.table_schema import KIND, TableSchema


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
        before: Sequence[pa.RecordBatch],
        keys_of_before: np.ndarray,
        after: pa.RecordBatch,
        touched: np.ndarray,
    ) -> pa.RecordBatch:
        """Make the changelog rows from one state of the keys to another, in their order: +I, -D, or
        -U and +U.

        Args:
            before: old rows of some keys, one after the other; deletes count as absent.
            keys_of_before: the number of each one's key.
            after: the new row of every key; deletes count as absent.
            touched: the keys to say something about, changed or not.
        """
        rows = concat([*before, after])
        count = rows.num_rows - after.num_rows
        existed = is_add(rows.column(KIND).slice(0, count))
        old_row = np.full(after.num_rows, -1)
        old_row[keys_of_before[existed]] = np.flatnonzero(existed)
        was, is_now = old_row >= 0, is_add(after.column(KIND))
        changed = touched & (was | is_now)
        new_row = count + np.arange(after.num_rows)
        if self._drops_equal:
            both = np.flatnonzero(changed & was & is_now)
            changed[both[self._equal(rows, old_row[both], new_row[both])]] = False
        return interleaved(rows, old_row, new_row, was, is_now, changed)

    def _equal(self, rows: pa.RecordBatch, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        equal = np.ones(len(old), bool)
        old_rows, new_rows = pa.array(old), pa.array(new)
        for name in self._compared:
            column = rows.column(name)
            equal &= equal_values(column.take(old_rows), column.take(new_rows))
        return equal


def differences(
    rows: pa.RecordBatch, old: np.ndarray, new: np.ndarray, *, show_old: bool = True
) -> pa.RecordBatch:
    """Compare two states of some keys: +I, -D, or -U and +U where the row is another.

    Args:
        rows: with ``_VALUE_KIND``, which is set anew, and all value columns.
        old, new: for each key the number of its row before and after; -1 where there is none.
        show_old: False leaves -U out.
    """
    was, is_now = old >= 0, new >= 0
    changed = was | is_now
    both = np.flatnonzero(was & is_now)
    old_rows, new_rows = pa.array(old[both]), pa.array(new[both])
    same = np.ones(len(both), np.bool_)
    for name in rows.schema.names:
        if name != KIND:
            column = rows.column(name)
            same &= equal_values(column.take(old_rows), column.take(new_rows))
    changed[both[same]] = False
    changes = interleaved(rows, old, new, was, is_now, changed)
    if not show_old:
        changes = changes.filter(pc.not_equal(changes.column(KIND), UPDATE_BEFORE))
    return changes


def interleaved(
    rows: pa.RecordBatch,
    old: np.ndarray,
    new: np.ndarray,
    was: np.ndarray,
    is_now: np.ndarray,
    changed: np.ndarray,
) -> pa.RecordBatch:
    """Put the rows of the keys that changed in order: key after key, the old one before the new
    one.

    Args:
        rows: with ``_VALUE_KIND``, which is set anew.
        old, new: for each key the numbers of its rows.
        was, is_now: whether it has them.
    """
    # A key is a pair of places, the old row's and the new one's.
    shown = np.stack([changed & was, changed & is_now], axis=1)
    numbers = np.stack([old, new], axis=1)[shown]
    kind_of_old = np.where(is_now, np.int8(UPDATE_BEFORE), np.int8(DELETE))
    kind_of_new = np.where(was, np.int8(UPDATE_AFTER), np.int8(INSERT))
    kinds = np.stack([kind_of_old, kind_of_new], axis=1)[shown]
    taken = take(rows.drop_columns([KIND]), numbers)
    columns = dict(zip(taken.schema.names, taken.columns, strict=True)) | {KIND: pa.array(kinds)}
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in rows.schema.names], schema=rows.schema
    )
