"""Rows that are in memory only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pkray.lsm.key_groups import KIND, KeyGroups, RowOrder, concat, empty_rows, row_schema, take
from pkray.lsm.keys import NormalizedKeys
from pkray.lsm.merge import MergeEngine

if TYPE_CHECKING:
    from pkray.schema import TableSchema

BLOCK_KEYS = 64 << 10
"""Keys merged and handed on at a time."""


@dataclass(frozen=True)
class FrozenRows:
    """A memtable's rows, sorted."""

    groups: KeyGroups

    def merged(self, engine: MergeEngine) -> Iterator[pa.RecordBatch]:
        """One key-value row a key, in key order."""
        for block in self.groups.blocks(BLOCK_KEYS):
            yield engine.merge(block)

    def every(self) -> Iterator[pa.RecordBatch]:
        """All rows by key, user sequence and arrival; needs groups that are ordered."""
        for block in self.groups.blocks(BLOCK_KEYS):
            yield take(block.rows, block.order)


class Memtable:
    """Incoming rows in the order of their arrival.

    Attributes:
        bytes: what they take up.
        rows: how many.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._order = RowOrder(schema)
        names = [field.name for field in schema.fields]
        self._names = [KIND, *names]
        self._schema = row_schema(schema)
        self._batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self.rows = 0
        self._index: _Index | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows with all value columns and ``_VALUE_KIND``."""
        if rows.num_rows:
            self._batches.append(rows.select(self._names))
            self.bytes += rows.nbytes
            self.rows += rows.num_rows
            self._index = None

    def clear(self) -> None:
        self._batches = []
        self.bytes = self.rows = 0
        self._index = None

    def freeze(self, first_sequence: int, *, ordered: bool = True) -> FrozenRows:
        """The rows with sequence numbers in the order of their arrival.

        Args:
            ordered: False is faster, and enough for engines without ``needs_order``.
        """
        return FrozenRows(self._order.group(self._combined(first_sequence), ordered=ordered))

    def lookup(
        self, keys: pa.RecordBatch, engine: MergeEngine, first_sequence: int
    ) -> pa.RecordBatch:
        """Merged key-value rows of the keys that are here, deletes included, in key order.

        Args:
            keys: the key columns, distinct.
            first_sequence: of the oldest row here.
        """
        if not self.rows:
            return empty_rows(self._schema)
        if self._index is None or self._index.first_sequence != first_sequence:
            frozen = self.freeze(first_sequence)
            self._index = _Index(first_sequence, frozen.groups, self._order)
        return engine.merge(self._index.find(self._order.keys(keys)))

    def _combined(self, first_sequence: int) -> pa.RecordBatch:
        rows = concat(self._batches)
        numbers = pa.array(np.arange(first_sequence, first_sequence + rows.num_rows))
        return pa.RecordBatch.from_arrays([numbers, *rows.columns], schema=self._schema)


class _Index:
    """The rows by key."""

    def __init__(self, first_sequence: int, groups: KeyGroups, order: RowOrder) -> None:
        self.first_sequence = first_sequence
        self._groups = groups
        self._ends = groups.ends
        firsts = pa.array(groups.order[groups.starts])
        self._keys = NormalizedKeys(
            [groups.rows.column(name).take(firsts) for name in order.key_columns]
        )

    def find(self, keys: NormalizedKeys) -> KeyGroups:
        positions, found = self._keys.search(keys)
        wanted = np.sort(positions[found])
        sizes = self._ends[wanted] - self._groups.starts[wanted]
        starts = np.cumsum(sizes) - sizes
        places = np.repeat(self._groups.starts[wanted] - starts, sizes) + np.arange(sizes.sum())
        return KeyGroups(self._groups.rows, self._groups.order[places], starts)
