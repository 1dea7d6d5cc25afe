"""A table as it is at one snapshot, under that snapshot's schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pkray import spans
from pkray.arguments.facade import ColumnNames, checked_class
from pkray.extras import require_extra
from pkray.format.snapshot import Snapshot
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.metadata.live import unless_expired
from pkray.scan.conditions import Statistics
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate
from pkray.scan.report import ScanReport
from pkray.scan.split import Split, arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.shown import html_table
from pkray.storage.object_store import ObjectStore, ahead

_POSITION = "__position"
_T = TypeVar("_T")


@checked_class
class SnapshotView:
    """A table at one moment, with the columns that it had then; made by ``Table.at``.

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

    def _repr_html_(self) -> str:
        rows = [(each.name, each.type, each.description) for each in self.schema.fields]
        columns = html_table(repr(self), rows, ("column", "type", "comment"))
        return columns if self.snapshot is None else columns + self.snapshot._repr_html_()

    def under(self, schema: TableSchema) -> SnapshotView:
        """Give the same rows under another schema of the table: what it has more is NULL."""
        return SnapshotView(self._store, self._planner.under(schema), schema, self.snapshot)

    def to_arrow(self, columns: ColumnNames | None = None, filter: object = None) -> pa.Table:
        """Read the rows, merged; several buckets at a time.

        Args:
            columns: what to read; default every column.
            filter: SQL text such as ``"amount > 10 AND id IN (1, 2)"``, pyarrow-style lists of
                tuples, or a pyarrow expression.

        Raises:
            InputError: a column the table did not have, or a filter that is not understood.
            SnapshotNotFoundError: the snapshot has expired.
        """
        with spans.span("scan", table=self._planner.table):
            splits = self.plan(columns, filter)
            schema = arrow_schema(self.schema, columns)
            parts = self._concurrently(lambda split: list(split.read(self._store)), splits)
        return pa.Table.from_batches([batch for part in parts for batch in part], schema)

    def to_batches(
        self, columns: ColumnNames | None = None, filter: object = None
    ) -> Iterator[pa.RecordBatch]:
        """Read as `to_arrow`, batch by batch in bounded memory.

        Buckets of an object store are begun side by side, and a batch of each is held.
        """
        return spans.over("scan", self._batches(columns, filter), table=self._planner.table)

    def _batches(self, columns: ColumnNames | None, filter: object) -> Iterator[pa.RecordBatch]:
        for first, others in ahead(self._store, self._begun, self.plan(columns, filter)):
            with self._reading():
                yield from first
                yield from others

    def to_pandas(self, columns: ColumnNames | None = None, filter: object = None) -> Any:
        """Read as `to_arrow`, as a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        require_extra("pandas", "pandas", "to_pandas()")
        return self.to_arrow(columns, filter).to_pandas()

    def count(self, filter: object = None) -> int:
        """Count the rows, or those that a filter as of `to_arrow` finds.

        The keys are read, and the filter's columns: rows that later ones replace do not count.
        """
        with spans.span("scan", table=self._planner.table):
            splits = self.plan([], filter)
            counts = self._concurrently(lambda split: _row_count(split.read(self._store)), splits)
        return sum(counts)

    def plan(self, columns: ColumnNames | None = None, filter: object = None) -> list[Split]:
        """Cut the read into parts for other processes: each pickles and has ``read()``.

        Args:
            columns, filter: as of `to_arrow`.
        """
        return self._planner.scan(self.snapshot, columns, self._predicate(filter))

    def explain(self, columns: ColumnNames | None = None, filter: object = None) -> ScanReport:
        """Say what `to_arrow` would read of the table: print it, or take its counts."""
        return self._planner.explain(self.snapshot, columns, self._predicate(filter))

    def _statistics(self, columns: Sequence[str]) -> Statistics:
        """Say what the statistics of the live files say of columns: an element a file."""
        return self._planner.statistics(self.snapshot, columns)

    splits, batches = plan, to_batches  # their older names

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

    def _concurrently(self, read: Callable[[Split], _T], splits: list[Split]) -> list[_T]:
        """Read the splits, one a processor at a time, and as many of an object store as it is asked
        for at once; what is made of each, in their order."""

        def of(split: Split) -> _T:
            with self._reading():
                return read(split)

        is_local = self._store.local_path("") is not None
        at_once = (os.cpu_count() or 1) if is_local else self._store.parallel_requests
        workers = min(len(splits), at_once)
        if workers <= 1:
            return [of(split) for split in splits]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(spans.carried(of), splits))

    def _begun(self, split: Split) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
        """Read the first batch of a split; give it, and what reads the others."""
        batches = split.read(self._store)
        if self._store.local_path("") is not None:
            return [], batches
        with self._reading():
            return list(islice(batches, 1)), batches

    def _reading(self) -> AbstractContextManager[None]:
        """Report a missing file as an expired snapshot."""
        return unless_expired(self._store, None if self.snapshot is None else self.snapshot.id)


def _row_count(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _arrays(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    return [pa.concat_arrays(table.column(name).chunks) for name in names]


def _literals(column: pa.ChunkedArray) -> list[Any]:
    """Make values for a filter: times as Arrow's scalars, as Python has no nanoseconds."""
    return list(column) if pa.types.is_timestamp(column.type) else column.to_pylist()
