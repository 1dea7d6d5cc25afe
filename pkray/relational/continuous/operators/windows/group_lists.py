"""Lists of groups that wait for a moment: many groups are one row of state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from pkray.relational.continuous.operator import Context, Epoch
from pkray.relational.continuous.operators.windows.waiting import Waiting

LISTED_GROUPS, LISTED_MOMENTS, LISTED_MOST = 1 << 8, 1 << 6, 1 << 14
"""Groups are listed together until there are so many, or of so many moments; of one moment there
may be more, up to the last number."""
_LIST = "groups"


class GroupLists:
    """Keeps the keys of groups until a moment, a list of many at a time.

    Several workers may have a list after a query was rescaled: whoever reads it finds the groups of
    others nowhere.

    Args:
        keys: the columns of the keys.
    """

    def __init__(self, context: Context, keys: pa.Schema, name: str) -> None:
        lists = pa.schema([(_LIST, pa.binary())])
        self._keys = keys
        self._lists = Waiting(context, lists, name=name, is_everywhere=True)
        self._epoch, self._count = -1, 0

    def add(self, keys: pa.Table, moments: np.ndarray, epoch: Epoch) -> None:
        """List groups.

        Args:
            moments: int64, one a group.
        """
        if not len(moments):
            return
        if epoch.number != self._epoch:
            self._epoch, self._count = epoch.number, 0
        order = np.argsort(moments, kind="stable")
        moments = moments[order]
        keys = keys.take(pa.array(order)).combine_chunks()
        starts = np.array(list(_cuts(moments)))
        sizes = np.diff(np.append(starts, len(moments)))
        batches = [
            _one(keys.slice(start, size)).serialize().to_pybytes()
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]
        numbers = pa.array(np.arange(len(starts)) + self._count + (self._lists.worker << 40))
        self._count += len(starts)
        epochs = pa.repeat(pa.scalar(epoch.number, pa.int64()), len(starts))
        self._lists.put(moments[starts], [epochs, numbers], [pa.array(batches, pa.binary())])

    def due(self, until: int) -> pa.Table:
        """Give and forget lists of which a group's moment has come; others may be in them."""
        found = [self._read(each) for due in self._lists.due(until) for each in due.rows[0]]
        return pa.concat_tables([self._keys.empty_table(), *found])

    def all(self) -> pa.Table:
        """Give the groups of all lists."""
        found = [self._read(each) for rows in self._lists.all() for each in rows.column(0)]
        return pa.concat_tables([self._keys.empty_table(), *found])

    def _read(self, listed: pa.Scalar) -> pa.Table:
        batch = pa.ipc.read_record_batch(listed.as_buffer(), self._keys)
        return pa.Table.from_batches([batch])


def _cuts(moments: np.ndarray) -> Iterator[int]:
    """Cut groups in the order of their moments into those that are listed together."""
    begins = np.flatnonzero(np.r_[True, moments[1:] != moments[:-1]])
    start, windows = 0, 0
    for begin, stop in zip(begins.tolist(), [*begins[1:].tolist(), len(moments)], strict=True):
        if windows and (begin - start >= LISTED_GROUPS or windows >= LISTED_MOMENTS):
            yield start
            start, windows = begin, 0
        windows += 1
        while stop - start > LISTED_MOST:
            yield start
            start += LISTED_MOST
    yield start


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]
