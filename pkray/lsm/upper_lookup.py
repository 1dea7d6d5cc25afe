"""The rows that a compaction's keys had in the levels above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from pkray.lsm.key_groups import RowOrder, concat, empty_rows, row_schema, take
from pkray.lsm.keys import KeyBound
from pkray.lsm.levels import SortedRun
from pkray.lsm.merge import MergeEngine
from pkray.lsm.merge_read import FileReader, merge_read

if TYPE_CHECKING:
    from pkray.schema import TableSchema

READ_ROWS = 32 << 10


class UpperLevelLookup(Protocol):
    """Finds rows by key in the runs above a compaction's output level."""

    def find(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> pa.RecordBatch:
        """The merged rows of those keys that are there.

        Args:
            keys: the key columns, distinct and ascending; those of one compaction ascend from
                call to call as well.
            runs: newest first.

        Returns:
            Key-value rows with all columns, in key order; without those whose row is a delete.
        """
        ...


class ScanLookup:
    """Reads the runs in key order beside the compaction, once."""

    def __init__(self, schema: TableSchema, files: FileReader, engine: MergeEngine) -> None:
        self._schema = schema
        self._files = files
        self._engine = engine
        self._order = RowOrder(schema)
        self._row_schema = row_schema(schema)
        self._scanned: tuple[SortedRun, ...] | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._empty = empty_rows(self._row_schema)
        self._rows, self._keys = self._empty, self._order.keys(self._empty)
        self._consumed = True
        self._passed: KeyBound | None = None

    def find(self, keys: pa.RecordBatch, runs: Sequence[SortedRun]) -> pa.RecordBatch:
        wanted = self._order.keys(keys)
        first, last = wanted.bound(0), wanted.bound(-1)
        if self._scanned != tuple(runs) or self._passed is None or first <= self._passed:
            self._open(runs)
        self._passed = last
        found = []
        answered = 0
        while self._load():
            end = self._keys.bound(-1)
            here = wanted.count_le(end)
            positions, hit = self._keys.search(
                self._order.keys(keys.slice(answered, here - answered))
            )
            found.append(take(self._rows, positions[hit]))
            answered = here
            if end >= last:
                break
            self._consumed = True
        return concat(found) if found else self._empty

    def _open(self, runs: Sequence[SortedRun]) -> None:
        self._scanned = tuple(runs)
        self._consumed = True
        self._batches = merge_read(
            runs,
            self._files,
            self._engine,
            self._schema,
            self._row_schema.names,
            batch_rows=READ_ROWS,
        )

    def _load(self) -> bool:
        """Make sure that there are rows not passed yet; False at the end."""
        if self._consumed:
            rows = next(self._batches, None)
            if rows is None:
                return False
            self._rows, self._keys = rows, self._order.keys(rows)
            self._consumed = False
        return True
