"""Group rows by key: merge engines work on the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.keys.fixed_width import FixedWidthColumn
from pkray.lsm.keys.keys import NormalizedKeys, sort_within_groups
from pkray.schema.table_schema import KIND as KIND
from pkray.schema.table_schema import SEQUENCE as SEQUENCE
from pkray.schema.table_schema import TableSchema

_POOL = pa.system_memory_pool()
"""Of rows taken, which other threads free: mimalloc takes fresh pages for each of them, and that
the kernel clears them is an eighth of what upserts cost."""


class RowTaker:
    """Rows that are taken from several times: what is known of their columns is found once."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._columns: list[tuple[pa.Array, FixedWidthColumn | None]] | None = None

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Take rows by number (int64), known to be in range; not copied where these are all, in
        order."""
        if are_all(numbers, self._rows.num_rows):
            return self._rows
        if self._columns is None:
            self._columns = [
                (column, FixedWidthColumn.from_array(column)) for column in self._rows.columns
            ]
        wanted = pa.array(numbers)
        columns = []
        for column, values in self._columns:
            found = None if values is None else values.gathered(numbers)
            columns.append(taken(column, wanted) if found is None else found)
        return pa.RecordBatch.from_arrays(columns, schema=self._rows.schema)


@dataclass(frozen=True)
class KeyGroups:
    """The rows of some keys, all of each.

    Args:
        rows: key-value rows, as they came.
        order: numbers of the rows, key after key; within a key from the oldest to the newest
            (by user sequence, then sequence number) if ``ordered``.
        starts: where in the order each key starts.
        ordered: False: within a key the order is arbitrary, and the row that came last is newest.
        taker: of these rows, where other groups share it.
    """

    rows: pa.RecordBatch
    order: np.ndarray
    starts: np.ndarray
    ordered: bool = True
    taker: RowTaker | None = None

    def __len__(self) -> int:
        """Count the keys."""
        return len(self.starts)

    @property
    def ends(self) -> np.ndarray:
        """The place in the order where each key ends (exclusive): int64, one a key."""
        return np.append(self.starts[1:], len(self.order))

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each key."""
        return np.diff(self.starts, append=len(self.order))

    def newest(self) -> np.ndarray:
        """Return the number of each key's newest row."""
        if len(self.starts) == len(self.order):
            return self.order
        if self.ordered:
            return self.order[self.ends - 1]
        return np.maximum.reduceat(self.order, self.starts)

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Take some of the rows, by number (int64); not copied where these are all, in order."""
        return (self.taker or RowTaker(self.rows)).take(numbers)

    def group_of_row(self) -> np.ndarray:
        """Return the number of the key of each place in the order."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    def restrict(self, wanted: np.ndarray) -> tuple[KeyGroups, np.ndarray]:
        """Leave rows out.

        Args:
            wanted: for each row of ``rows``, whether it stays.

        Returns:
            The groups of the keys that still have rows, and the numbers of these keys.
        """
        kept = wanted[self.order]
        groups = self.group_of_row()[kept]
        present, starts = np.unique(groups, return_index=True)
        return KeyGroups(self.rows, self.order[kept], starts, self.ordered, self.taker), present

    def blocks(self, keys: int) -> Iterator[KeyGroups]:
        """Yield the groups in pieces of so many keys, over the same rows."""
        ends = self.ends
        taker = self.taker or RowTaker(self.rows)
        for first in range(0, len(self.starts), keys):
            starts = self.starts[first : first + keys]
            stop = ends[min(first + keys, len(ends)) - 1]
            order = self.order[starts[0] : stop]
            yield KeyGroups(self.rows, order, starts - starts[0], self.ordered, taker)


class RowOrder:
    """The order of a table's rows: by key, user sequence fields, sequence number, arrival.

    Args:
        by_sequence_number: arrival does not tell which row is newer; sequence numbers do.
        by_user_sequence: sequence fields tell first, if the table has any.
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        by_sequence_number: bool = False,
        by_user_sequence: bool = True,
    ) -> None:
        self.key_columns = tuple(schema.trimmed_primary_keys)
        self.sequence_fields = tuple(schema.core.sequence_field) if by_user_sequence else ()
        self._descending = schema.core.sequence_field_descending
        self._by_sequence_number = by_sequence_number

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have to be grouped."""
        number = (SEQUENCE,) if self._by_sequence_number else ()
        return (*self.key_columns, *self.sequence_fields, *number)

    def keys(self, rows: pa.RecordBatch | pa.Table) -> NormalizedKeys:
        return NormalizedKeys([rows.column(name) for name in self.key_columns])

    def group(self, rows: pa.RecordBatch, *, ordered: bool = True) -> KeyGroups:
        """Sort rows that came oldest first.

        Args:
            ordered: False: an engine that wants but the newest row does not need more; faster.
        """
        by_arrival = not self.sequence_fields and not self._by_sequence_number
        stable = ordered or not by_arrival
        order, starts = self.keys(rows).sort(stable=stable)
        if not by_arrival:
            order = sort_within_groups(order, starts, self._later_keys(rows))
        return KeyGroups(rows, order, starts, stable)

    def _later_keys(self, rows: pa.RecordBatch) -> NormalizedKeys:
        names = [*self.sequence_fields]
        descending = [self._descending] * len(names)
        if self._by_sequence_number:
            names.append(SEQUENCE)
            descending.append(False)
        return NormalizedKeys([rows.column(name) for name in names], descending)


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches with the same columns; slices that lie side by side are not copied."""
    if len(batches) == 1:
        return batches[0]
    columns = [_joined(pieces) for pieces in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def detached(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Copy rows, so that they do not hold the memory of larger rows that they are a slice of."""
    columns = [pa.concat_arrays([column], memory_pool=_POOL) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _joined(pieces: Sequence[pa.Array]) -> pa.Array:
    first, last = pieces[0], pieces[-1]
    if pa.types.is_nested(first.type):
        return pa.concat_arrays(pieces)
    memory, end = _addresses(first), first.offset
    for piece in pieces:
        if piece.offset != end or _addresses(piece) != memory:
            return pa.concat_arrays(pieces)
        end += len(piece)
    return pa.Array.from_buffers(
        first.type, end - first.offset, last.buffers(), offset=first.offset
    )


def _addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


def take(rows: pa.RecordBatch, numbers: np.ndarray) -> pa.RecordBatch:
    """Take rows by number (int64), known to be in range; not copied where these are all, in
    order."""
    return RowTaker(rows).take(numbers)


def shifted(rows: pa.RecordBatch, shift: int) -> pa.RecordBatch:
    """Add to the rows' sequence numbers."""
    if not shift:
        return rows
    position = rows.schema.get_field_index(SEQUENCE)
    numbers = pc.add(rows.column(position), shift)
    return rows.set_column(position, rows.schema.field(position), numbers)


def taken(column: pa.Array, numbers: pa.Array) -> pa.Array:
    """Take values by number (int64), known to be in range; null where the number is null."""
    return pc.take(column, numbers, boundscheck=False, memory_pool=_POOL)


def are_all(numbers: np.ndarray, count: int) -> bool:
    """Whether these numbers (int64) are 0, 1, 2, …, ``count`` - 1: to take them copies in vain."""
    if len(numbers) != count or not count or numbers[0] != 0 or numbers[-1] != count - 1:
        return False
    return np.array_equal(numbers, np.arange(count))


def empty_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch without rows."""
    arrays = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
