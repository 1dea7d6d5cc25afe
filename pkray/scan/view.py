"""A table as it is at one snapshot, under that snapshot's schema."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.arguments.facade import checked_class
from pkray.format.snapshot import Snapshot
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.metadata.live import unless_expired
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate
from pkray.scan.report import ScanReport
from pkray.scan.split import Split, arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore

_POSITION = "__position"


@checked_class
class SnapshotView:
    """Reads of one snapshot.

    Args:
        store: the root of the table, or a branch.
        planner: of the schema.
        snapshot: None is the empty table.
    """

    def __init__(
        self,
        store: ObjectStore,
        planner: ScanPlanner,
        schema: TableSchema,
        snapshot: Snapshot | None,
    ) -> None:
        self.schema = schema
        self.snapshot = snapshot
        self._store = store
        self._planner = planner

    def __repr__(self) -> str:
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.id}"
        return f"SnapshotView({at}, {len(self.schema.names)} columns)"

    def splits(self, columns: Sequence[str] | None, filter: object) -> list[Split]:
        """Plan splits as ``Table.splits`` does; so do the methods below."""
        return self._planner.scan(self.snapshot, columns, self._predicate(filter))

    def explain(self, columns: Sequence[str] | None, filter: object) -> ScanReport:
        return self._planner.explain(self.snapshot, columns, self._predicate(filter))

    def batches(self, columns: Sequence[str] | None, filter: object) -> Iterator[pa.RecordBatch]:
        for split in self.splits(columns, filter):
            with self._reading():
                yield from split.read(self._store)

    def to_arrow(self, columns: Sequence[str] | None, filter: object) -> pa.Table:
        splits = self.splits(columns, filter)
        schema = arrow_schema(self.schema, columns)
        workers = min(len(splits), os.cpu_count() or 1)
        if workers <= 1:
            parts = [self._read(split) for split in splits]
        else:
            with ThreadPoolExecutor(workers) as pool:
                parts = list(pool.map(self._read, splits))
        return pa.Table.from_batches([batch for part in parts for batch in part], schema)

    def find(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Look rows up by key, in the keys' order, by reading what may hold them.

        Args:
            keys: the primary key columns.
            wanted: the columns to return.
        """
        names = keys.column_names
        if keys.num_rows == 0:
            return wanted.empty_table()
        among = [(name, "in", _literals(keys.column(name).unique())) for name in names]
        columns = list(dict.fromkeys([*names, *wanted.names]))
        rows = self.to_arrow(columns, among)
        asked = keys.append_column(_POSITION, pa.array(range(keys.num_rows), pa.int64()))
        numbered = rows.select(names).append_column(
            "__row", pa.array(range(rows.num_rows), pa.int64())
        )
        found = asked.join(numbered, names, join_type="inner").sort_by(_POSITION)
        return rows.take(found.column("__row")).select(wanted.names)

    def find_prefixes(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Find all rows whose keys begin so, each one's in key order, by reading what may hold
        them.

        Args:
            keys: leading columns of the trimmed primary key, with the partition columns or not.
            wanted: the columns to return.
        """
        names = keys.column_names
        if keys.num_rows == 0:
            return wanted.empty_table()
        among = [(name, "in", _literals(keys.column(name).unique())) for name in names]
        every = [*names, *self.schema.trimmed_primary_keys, *self.schema.partition_keys]
        by_key = list(dict.fromkeys(every))
        rows = self.to_arrow(list(dict.fromkeys([*wanted.names, *by_key])), among)
        order = NormalizedKeys([rows.column(name) for name in by_key]).argsort()
        rows = rows.take(pa.array(order)).combine_chunks()
        positions, numbers = KeyPrefixes(_arrays(keys, names)).answers(_arrays(rows, names))
        numbers = numbers[np.argsort(positions, kind="stable")]
        return rows.take(pa.array(numbers)).select(wanted.names)

    def _predicate(self, filter: object) -> Predicate | None:
        return None if filter is None else Predicate.parse(filter, self.schema)

    def _read(self, split: Split) -> list[pa.RecordBatch]:
        with self._reading():
            return list(split.read(self._store))

    def _reading(self) -> AbstractContextManager[None]:
        """Report a missing file as an expired snapshot."""
        return unless_expired(self._store, None if self.snapshot is None else self.snapshot.id)


def _arrays(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    return [pa.concat_arrays(table.column(name).chunks) for name in names]


def _literals(column: pa.ChunkedArray) -> list[Any]:
    """Make values for a filter: times as Arrow's scalars, as Python has no nanoseconds."""
    return list(column) if pa.types.is_timestamp(column.type) else column.to_pylist()
