"""Remember rows between epochs by encoded keys, in a log-structured merge tree.

A state of shape ``fold`` has one row a key; of the other shapes one a key and *row key*, which says
where in its key's rows it stands. Both are bytes (``encoding``), so that NULLs, whole rows and
orders are keys like others; what people read stands in the columns beside them. Rows are in memory
up to a bound, then in data files of the table format, which a checkpoint names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of, whole
from pkray.errors import SchemaError, TableExistsError
from pkray.format.binary_row import EMPTY_ROW
from pkray.format.data_file import DataFileMeta
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.range_search import RangeSearch
from pkray.lookup.store import LookupStore
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_prefixes import KeyRanges
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import is_add
from pkray.lsm.merge.merge_read import merge_read
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.metadata.schemas import SchemaStore
from pkray.relational.continuous.state.row_cache import HashesCollideError, RowCache
from pkray.relational.plan.fields import distinct_names
from pkray.schema.changes import AddColumn
from pkray.schema.row_kind import DELETE, INSERT
from pkray.schema.table_schema import KIND, TableSchema
from pkray.schema.types import DataType
from pkray.storage.object_store import ObjectStore

_READ_PER_MISS = 4
"""A key looked for in files costs as much as reading so many rows one after the other."""
_BYTES_PER_ROW, _BYTES_PER_VALUE = 48, 12
"""What rows take in memory at most, beside the bytes of long values."""

KEY, ROW, WRITTEN = "_key", "_row", "_written"
"""The columns of encoded keys, of row keys, and of the time of writing in epoch milliseconds."""


@dataclass(frozen=True)
class StateSpec:
    """Describes one state of an operator.

    Attributes:
        columns: beside the keys; all may be NULL.
        by_row: whether a key has several rows, told apart and ordered by row keys.
        index: which of the operator's inputs it is about: its TTL applies.
        name: tells states of one operator and input apart; empty for the main one.
        exchanged_by: gives of rows as they are stored (keys, then columns) the keys by which their
            changes were exchanged (``Operator.key_bytes``), where these are not the state's own.
        is_everywhere: whether a worker may have rows of others: they do no harm.
    """

    columns: pa.Schema
    by_row: bool = False
    index: int = 0
    name: str = ""
    exchanged_by: Callable[[pa.RecordBatch], pa.Array] | None = None
    is_everywhere: bool = False


def own_keys(rows: pa.RecordBatch) -> pa.Array:
    """Say of a state that its keys are those by which changes are exchanged."""
    return rows.column(0)


class Found(NamedTuple):
    """Rows that were asked for.

    Attributes:
        positions: int64, for each row the number of the key that was asked for, ascending; those
            of one key in the order of their row keys.
        rows: the state's columns, in the order of its spec.
        row_keys: BINARY, one a row; None for a state without row keys.
    """

    positions: np.ndarray
    rows: pa.RecordBatch
    row_keys: pa.Array = None

    def column(self, name: str) -> pa.Array:
        """Give one column."""
        return self.rows.column(self.rows.schema.get_field_index(name))

    def numbers(self, name: str, count: int) -> np.ndarray:
        """Give a column of integers, one for each of so many keys: int64, 0 for those without a
        row."""
        numbers = np.zeros(count, np.int64)
        numbers[self.positions] = self.column(name).to_numpy(zero_copy_only=False)
        return numbers

    def among(self, count: int) -> np.ndarray:
        """Whether each of so many keys has a row."""
        result: np.ndarray = np.bincount(self.positions, minlength=count) > 0
        return result

    def take(self, numbers: np.ndarray) -> Found:
        """Take rows by number, in the order given."""
        rows = self.rows.take(numbers) if self.rows.num_columns else self.rows
        keys = None if self.row_keys is None else self.row_keys.take(numbers)
        return Found(self.positions[numbers], rows, keys)


class State:
    """One state of an operator. For one thread.

    Args:
        store: the folder of its files.
        lookups: copies of files on the local disk, which states share.
        files: the data files of the checkpoint that it goes on from.
        memory: bytes of rows that are held in memory before they go to a file.
        ttl: milliseconds after which a row that was not written again is not found any more; 0:
            never. It may change from run to run; rows that were written while there was none stay
            until they are written again.
        local_directory: on the local disk, for rows set aside.
        cache_room: gives the bytes that rows kept in memory to be found by key may still take, of
            all states together; None: none are kept.
        worker: number of the worker whose share of the rows it is: the bucket of its files.
    """

    def __init__(
        self,
        spec: StateSpec,
        store: ObjectStore,
        lookups: LookupStore,
        files: Sequence[DataFileMeta] = (),
        *,
        memory: int = 64 << 20,
        ttl: int = 0,
        local_directory: str | None = None,
        cache_room: Callable[[], int] | None = None,
        worker: int = 0,
    ) -> None:
        self.spec = spec
        self.worker = worker
        self.ttl = ttl
        self.now = 0
        self._store = store
        self._has_schema = False
        self._keys = [KEY, ROW] if spec.by_row else [KEY]
        self._names = distinct_names(spec.columns.names, [KEY, ROW, WRITTEN])
        stored = self._stored_schema()
        has_times = ttl or (stored is not None and WRITTEN in stored.names)
        self._written = [WRITTEN] if has_times else []
        made = self._table_schema(memory)
        self._schema = made if stored is None else _of_files(made, stored)
        cache = FlushedRowsCache(memory, lambda: self._writer.memory_bytes)
        source = DataFileStore(store, self._schema, EMPTY_ROW, worker, flushed_rows=cache)
        engine = merge_engine(self._schema)
        self._lookups = lookups
        self._copied: set[str] = set()
        self._lookup = BucketLookup(lookups, source, self._schema, engine)
        self._source = source
        self._ranges = RangeSearch(lookups, source, self._schema, self._is_live)
        self._levels = Levels(files)
        self._writer = BucketWriter(
            self._schema,
            source,
            self._levels,
            StoreLookup(lookups, self._schema, source, engine),
            local_directory=local_directory,
        )
        self._row_schema = pa.schema(
            [self._schema.row_schema.field(name) for name in (*self._keys, *self._all_names)]
        )
        self._cache: RowCache | None = None
        self._cache_room = cache_room
        self._missed = 0
        types = self._row_schema.types[1:]
        if cache_room is not None and not spec.by_row and RowCache.holds(types):
            self._cache = RowCache(types, is_complete=not files)

    def get(self, keys: pa.Array, row_keys: pa.Array | None = None) -> Found:
        """Find rows by their whole keys.

        Args:
            keys: BINARY, without NULLs; one asked twice is answered twice.
            row_keys: beside them, of a state that has row keys.
        """
        if self._cache is not None:
            try:
                return self._found(*self._cached(self._cache, keys))
            except HashesCollideError:
                self._cache = None
        arrays = [keys] if row_keys is None else [keys, row_keys]
        return self._found(*self._stored(arrays))

    def _cached(self, cache: RowCache, keys: pa.Array) -> tuple[np.ndarray, pa.Table]:
        """Find rows by key in memory, where those that are not there yet are brought."""
        slots = cache.slots(keys)
        if not cache.is_complete:
            missing = np.flatnonzero(slots < 0)
            if len(missing):
                self._bring(cache, keys.take(pa.array(missing)))
                slots = cache.slots(keys)
        positions, columns = cache.rows_at(slots)
        return positions, pa.Table.from_arrays(columns, names=self._all_names)

    def _bring(self, cache: RowCache, keys: pa.Array) -> None:
        """Keep the rows of keys in memory; all rows, where many are asked for and all fit."""
        self._missed += len(keys)
        if self._missed * _READ_PER_MISS >= self._file_rows and self._fits():
            for batch in self.batches():
                new = pa.array(np.flatnonzero(cache.slots(batch.column(0)) < 0))
                cache.put(batch.column(0).take(new), [each.take(new) for each in batch.columns[1:]])
            cache.is_complete = True
            return
        positions, rows = self._stored([keys])
        absent = np.bincount(positions, minlength=len(keys)) == 0
        found = keys.take(pa.array(positions))
        cache.put(found, [whole(rows.column(name)) for name in self._all_names])
        cache.remove(keys.filter(pa.array(absent)))

    def _fits(self) -> bool:
        """Whether all rows of the files have room in memory."""
        assert self._cache_room is not None
        size = sum(file.file_size for file in self._writer.levels.files)
        row = _BYTES_PER_ROW + _BYTES_PER_VALUE * len(self._all_names)
        return 2 * size + self._file_rows * row < self._cache_room()

    def _stored(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, pa.Table]:
        asked = pa.RecordBatch.from_arrays(keys, names=self._keys)
        return self._lookup.find(self._levels, asked, self._asked, self._held)

    def rows_of(
        self,
        keys: pa.Array,
        *,
        first: int | None = None,
        last: int | None = None,
        bounds: pa.Array | None = None,
    ) -> Found:
        """Find all rows of keys, of a state that has row keys.

        Args:
            keys: BINARY, without NULLs.
            first, last: so many rows of each key at most, by their row keys from the least or the
                greatest on; default all. They come in ascending order. Only these are read, and few
                around them.
            bounds: with `first` or `last`, a row key beside each key: the first rows from there on,
                with it, or the last ones before it.
        """
        if first is not None or last is not None:
            count = first if first is not None else last or 0
            ranges = KeyRanges([keys], bounds, first is None)
            positions, rows = self._ranges.find(
                self._writer.uncommitted.on(self._levels),
                self._writer.uncommitted.memory,
                ranges,
                count,
                self._asked,
            )
            return self._found(positions, pa.Table.from_batches([rows]))
        asked = pa.RecordBatch.from_arrays([keys], names=[KEY])
        return self._found(
            *self._lookup.find_prefixes(self._levels, asked, self._asked, self._held)
        )

    def put(
        self, keys: pa.Array, values: Sequence[pa.Array], row_keys: pa.Array | None = None
    ) -> None:
        """Insert rows, or replace those of the same keys; of one key twice the last counts.

        Args:
            values: one array a column of the spec.
        """
        self._write(keys, row_keys, values, INSERT)

    def remove(self, keys: pa.Array, row_keys: pa.Array | None = None) -> None:
        """Remove rows by their whole keys; those that are not there are ignored."""
        nothing = [pa.nulls(len(keys), field.type) for field in self.spec.columns]
        self._write(keys, row_keys, nothing, DELETE)

    def change(
        self,
        keys: pa.Array,
        values: Sequence[pa.Array],
        there: np.ndarray,
        gone: np.ndarray,
        row_keys: pa.Array | None = None,
    ) -> None:
        """Remove the rows of some keys, then put those of others.

        Args:
            keys, values, row_keys: as of `put`, of both.
            there, gone: whether each is put, and whether it is removed.
        """
        if gone.any():
            self.remove(keys.filter(gone), None if row_keys is None else row_keys.filter(gone))
        if not there.all():
            keys, values = keys.filter(there), [each.filter(there) for each in values]
            row_keys = None if row_keys is None else row_keys.filter(there)
        self.put(keys, values, row_keys)

    def restore(self, rows: pa.RecordBatch) -> None:
        """Put rows as `stored_rows` gives them, with the times of their writing."""
        self._write_rows(rows.select(self._row_schema.names), INSERT)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read all rows, merged, in the order of their keys: keys first, then the columns.

        What is in memory is written to a file for that.
        """
        self._writer.flush()
        names = [*self._keys, *self._all_names]
        runs = self._writer.levels.runs()
        yield from merge_read(runs, self._source, self._lookup.engine, self._schema, names)

    @property
    def memory_bytes(self) -> int:
        """Bytes of rows that are in memory."""
        return self.unwritten_bytes + self.cache_bytes

    @property
    def unwritten_bytes(self) -> int:
        """Bytes of rows that are in memory alone, in no file."""
        return self._writer.memory_bytes

    @property
    def cache_bytes(self) -> int:
        """Bytes of rows that are kept in memory so that they are found faster."""
        return 0 if self._cache is None else self._cache.nbytes

    @property
    def rows(self) -> int:
        """Count rows without reading any: exact if all are kept in memory, else an estimate.

        What is written again or removed counts in each file until these are merged; expired rows
        count too.
        """
        if self._cache is not None and self._cache.is_complete:
            return self._cache.rows
        deletes = sum(file.delete_row_count or 0 for file in self._writer.levels.files)
        return self._file_rows - deletes + self._writer.memory_rows

    @property
    def file_bytes(self) -> int:
        """Bytes of the files that hold its rows."""
        return sum(file.file_size for file in self._writer.levels.files)

    @property
    def _file_rows(self) -> int:
        return sum(file.row_count for file in self._writer.levels.files)

    def shrink_cache(self, limit: int) -> None:
        """Keep so many bytes at most in memory to find rows faster; least used rows go first."""
        if self._cache is not None:
            self._cache.shrink(limit)
            self._missed = 0

    def flush(self) -> None:
        """Write what is in memory to files, which no checkpoint names yet."""
        self._writer.flush()
        self._prepare_copies()

    def _prepare_copies(self) -> None:
        """Have new files copied to where keys are found in them, before the next lookup waits."""
        levels = self._writer.uncommitted.on(self._levels)
        files = {file.file_name: file for file in levels.files}
        if self._cache is None or not self._cache.is_complete:
            for name in files.keys() - self._copied:
                self._lookups.prepare(self._source, files[name], self._keys, self._asked)
        self._lookups.drop(self._copied - files.keys())
        self._copied = set(files)

    def checkpoint(self) -> tuple[DataFileMeta, ...]:
        """Write what is in memory to files; list the files that hold all rows."""
        if not self._has_schema:
            schemas = SchemaStore(self._store, "a state")
            if not schemas.exists():
                with suppress(TableExistsError):  # another worker's share came first
                    schemas.create(self._schema)
            self._has_schema = True
        self._writer.prepare_commit()
        self._levels = self._writer.levels
        self._writer.committed(self._levels)
        self._prepare_copies()
        return self._levels.files

    def close(self) -> None:
        """Forget what no checkpoint has, and delete its files."""
        self._writer.abort()

    @property
    def _all_names(self) -> list[str]:
        return [*self._names, *self._written]

    @property
    def _asked(self) -> list[str]:
        return [*([ROW] if self.spec.by_row else []), *self._all_names]

    @property
    def _held(self) -> list[Uncommitted]:
        return [self._writer.uncommitted]

    def _stored_schema(self) -> TableSchema | None:
        """Read the schema of the files that are there, with what they lack.

        That is the times of writing where rows expire, and columns that earlier versions had not,
        which are NULL in their rows.
        """
        schemas = SchemaStore(self._store, "a state")
        if not schemas.exists():
            return None
        stored = schemas.latest()
        wanted = dict(zip(self._names, self.spec.columns.types, strict=True))
        if self.ttl:
            wanted[WRITTEN] = pa.int64()
        lacking = {name: kind for name, kind in wanted.items() if name not in stored.names}
        if not lacking:
            return stored
        added = [
            AddColumn(name, DataType.from_field(pa.field(name, kind)))
            for name, kind in lacking.items()
        ]
        try:
            return schemas.change(added, has_snapshots=lambda: True, clock=lambda: 0)
        except SchemaError:
            if not lacking.keys() <= set(schemas.latest().names):  # another worker added them
                raise
            return schemas.latest()

    def _table_schema(self, memory: int) -> TableSchema:
        fields = [pa.field(name, pa.binary(), nullable=False) for name in self._keys]
        fields += [
            pa.field(name, field.type)
            for name, field in zip(self._names, self.spec.columns, strict=True)
        ]
        fields += [pa.field(name, pa.int64()) for name in self._written]
        options = {"write-buffer-size": f"{memory} b"}
        return TableSchema.create(pa.schema(fields), self._keys, (), options)

    def _write(
        self, keys: pa.Array, row_keys: pa.Array | None, values: Sequence[pa.Array], kind: int
    ) -> None:
        if not len(keys):
            return
        rows = len(keys)
        arrays = [keys, *([row_keys] if self.spec.by_row else []), *values]
        if self._written:
            arrays.append(pa.repeat(pa.scalar(self.now, pa.int64()), rows))
        self._write_rows(batch_of(arrays, self._row_schema, rows), kind)

    def _write_rows(self, rows: pa.RecordBatch, kind: int) -> None:
        self._cache_written(rows.column(0), None if kind == DELETE else rows.columns[1:])
        kinds = pa.array(np.full(rows.num_rows, kind, np.int8))
        self._writer.write(
            pa.RecordBatch.from_arrays([kinds, *rows.columns], names=[KIND, *rows.schema.names])
        )

    def _cache_written(self, keys: pa.Array, values: Sequence[pa.Array] | None) -> None:
        """Do in memory what is done to rows; None: they are removed."""
        if self._cache is None:
            return
        try:
            if values is None:
                self._cache.remove(keys)
            else:
                self._cache.put(keys, values)
        except HashesCollideError:
            self._cache = None

    def _is_live(self, rows: pa.RecordBatch) -> np.ndarray:
        """Whether rows are there: neither removed nor expired."""
        live = is_add(rows.column(KIND))
        if self.ttl:
            written = rows.column(WRITTEN).fill_null(self.now)
            live &= np.asarray(written) + self.ttl > self.now
        return live

    def _found(self, positions: np.ndarray, table: pa.Table) -> Found:
        if not np.all(positions[1:] >= positions[:-1]):
            order = np.argsort(positions, kind="stable")
            positions, table = positions[order], table.take(pa.array(order))
        table = table.combine_chunks()
        row_keys = whole(table.column(ROW)) if self.spec.by_row else None
        columns = [whole(table.column(name)) for name in self._names]
        found = Found(positions, batch_of(columns, self.spec.columns, table.num_rows), row_keys)
        if not self.ttl or not table.num_rows:
            return found
        written = whole(table.column(WRITTEN)).fill_null(self.now).to_numpy(zero_copy_only=False)
        live = written + self.ttl > self.now
        return found if live.all() else found.take(np.flatnonzero(live))


def _of_files(made: TableSchema, stored: TableSchema) -> TableSchema:
    """Give a schema the number of that of the files, and its columns theirs."""
    ids = {field.name: field.id for field in stored.fields}
    fields = tuple(replace(field, id=ids[field.name]) for field in made.fields)
    return replace(made, id=stored.id, fields=fields, highest_field_id=stored.highest_field_id)


def stored_rows(
    store: ObjectStore, shares: Mapping[int, Sequence[DataFileMeta]]
) -> pa.RecordBatchReader:
    """Read the rows of a state as a checkpoint names its files: the keys, then the columns.

    Args:
        store: the folder of the state.
        shares: the files of each worker, by its number.
    """
    schema = SchemaStore(store, "a state").latest()
    engine = merge_engine(schema)
    rows = (
        merge_read(Levels(files).runs(), source, engine, schema)
        for number, files in shares.items()
        for source in [DataFileStore(store, schema, EMPTY_ROW, number)]
    )
    return pa.RecordBatchReader.from_batches(schema.arrow_schema, chain.from_iterable(rows))
