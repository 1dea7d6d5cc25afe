"""A data file's rows in the block store: how they get there, and how rows are found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pkray.lookup.block_layout import (
    MAX_BLOCK_ROWS,
    NESTED_ROWS,
    BlockLayout,
    Hashes,
    Ints,
    records_at,
)
from pkray.lookup.block_store import INDEX_BYTES_PER_ENTRY, BlockFile, BlockStore
from pkray.lookup.key_hash import equal_rows, hash_keys, one_batch
from pkray.lsm.keys.key_groups import are_all
from pkray.lsm.keys.key_prefixes import Bools, KeyPrefixes, KeyRanges, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys

SLICE_ROWS = 65_536
SLICE_BYTES = 16 << 20
"""Rows encoded at a time: so many, a multiple of NESTED_ROWS, or fewer if they are wide."""
PIECE_ROWS = 8_192
"""Encoded, and put into the store, without a break; a multiple of NESTED_ROWS too."""
FETCHED_BYTES = 4 << 20
"""Bytes of blocks held at a time while rows are found."""

Entries = tuple[list[bytes], list[bytes]]


def filter_hashes(keys: Sequence[pa.Array]) -> Hashes:
    return (hash_keys(keys) >> np.uint64(48)).astype(np.uint16)


def block_keys(first_rows: Ints) -> list[bytes]:
    """Return the store's keys of the blocks that begin with these rows."""
    keys: list[bytes] = first_rows.astype(">u4").view("V4").tolist()
    return keys


def slices(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut rows into batches of ``most_rows``, fewer where rows are wide.

    All batches but the last have whole blocks.
    """
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        is_nested = any(pa.types.is_nested(field.type) for field in batch.schema)
        least = NESTED_ROWS if is_nested else MAX_BLOCK_ROWS
        while count >= most_rows or (size >= SLICE_BYTES and count >= least):
            fitting = SLICE_BYTES * count // max(1, size) // least * least
            rows = min(most_rows, max(least, fitting))
            table = pa.Table.from_batches(waiting)
            yield one_batch(table.slice(0, rows))
            rest = table.slice(rows)
            waiting, count, size = rest.to_batches(), rest.num_rows, rest.nbytes
    if count:
        yield one_batch(pa.Table.from_batches(waiting))


class FileEncoder:
    """Turns the batches of a data file into entries of the store, and then into its index.

    Args:
        before_each: is called before each piece of the work.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        key_columns: Sequence[str],
        before_each: Callable[[], None],
    ) -> None:
        self._before_each = before_each
        self._batches = batches
        self._key_columns = key_columns
        self._layout: BlockLayout | None = None
        self._filters: list[Hashes] = []
        self._first_keys: list[pa.RecordBatch] = []
        self._rows = 0

    def entries(self) -> Iterator[Entries]:
        """Yield the file's blocks as keys and values of the store."""
        for batch in slices(self._batches, SLICE_ROWS):
            if self._layout is None:
                self._layout = BlockLayout.fitting(batch)
            for start in range(0, batch.num_rows, PIECE_ROWS):
                self._before_each()
                yield self._encode(self._layout, batch.slice(start, PIECE_ROWS))

    def _encode(self, layout: BlockLayout, batch: pa.RecordBatch) -> Entries:
        keys = batch.select(list(self._key_columns))
        hashes = filter_hashes(keys.columns)
        starts = np.arange(0, batch.num_rows, layout.block_rows)
        self._filters.append(hashes)
        self._first_keys.append(keys.take(pa.array(starts)))
        names, values = block_keys(starts + self._rows), layout.encode(batch, hashes)
        if layout.nested:
            names, values = self._with_nested(layout, batch, names, values)
        self._rows += batch.num_rows
        return names, values

    @staticmethod
    def _with_nested(
        layout: BlockLayout, batch: pa.RecordBatch, names: list[bytes], values: list[bytes]
    ) -> Entries:
        nested = batch.select(list(layout.nested))
        every = NESTED_ROWS // layout.block_rows
        all_names: list[bytes] = []
        all_values: list[bytes] = []
        for i in range(0, len(names), every):
            rows = nested.slice(i * layout.block_rows, NESTED_ROWS)
            all_names += [names[i], names[i] + b"n", *names[i + 1 : i + every]]
            all_values += [values[i], rows.serialize().to_pybytes(), *values[i + 1 : i + every]]
        return all_names, all_values

    def index(self) -> FileIndex | None:
        """Make the index of the rows; None without any, or if they are not in key order."""
        if self._layout is None:
            return None
        first = one_batch(pa.Table.from_batches(self._first_keys))
        padded = np.zeros(first.num_rows * self._layout.block_rows, np.uint16)
        np.concatenate(self._filters, out=padded[: self._rows])
        index = FileIndex(self._layout, self._rows, first, padded)
        return index if index.is_sorted else None


class CachedFile:
    """A data file in the block store.

    Args:
        index: where the rows are.
        blocks: their bytes.
    """

    def __init__(self, index: FileIndex, blocks: BlockFile, key_columns: Sequence[str]) -> None:
        self.index = index
        self.blocks = blocks
        self._key_columns = list(key_columns)
        count = index.blocks
        self._queries_at_once = max(1, FETCHED_BYTES // (blocks.size // count + 1))

    @classmethod
    def build(
        cls,
        store: BlockStore,
        batches: Iterable[pa.RecordBatch],
        key_columns: Sequence[str],
        before_each: Callable[[], None] = lambda: None,
    ) -> CachedFile | None:
        """Copy a file's rows into the store; None if they are not in key order.

        Args:
            before_each: is called before each piece of the work.

        Raises:
            LocalDiskError: the disk is full or fails.
        """
        encoder = FileEncoder(batches, key_columns, before_each)
        blocks = store.load(encoder.entries())
        index = encoder.index()
        if index is None:
            store.drop(blocks)
            return None
        return cls(index, blocks, key_columns)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.index.layout.schema.names)

    def find(
        self, keys: Sequence[pa.Array], columns: Sequence[str]
    ) -> Iterator[tuple[Ints, Ints, pa.Table]]:
        """Find rows by key: query positions, row positions, and ``columns`` of the rows.

        Raises:
            LocalDiskError: blocks are damaged or gone.
        """
        keys = self.index.as_typed(keys)
        if len(keys[0]) == 1:
            yield self._find_some(keys, columns)
            return
        # Neighbours fetched together come from the same pages of the disk.
        order = NormalizedKeys(keys).argsort(stable=False)
        for begin in range(0, len(order), self._queries_at_once):
            some = order[begin : begin + self._queries_at_once]
            taken = [array.take(pa.array(some)) for array in keys]
            queries, rows, table = self._find_some(taken, columns)
            yield some[queries], rows, table

    def find_prefixes(
        self, prefixes: KeyPrefixes, blocks: Ints, columns: Sequence[str]
    ) -> Iterator[tuple[Ints, pa.Table]]:
        """Find rows whose keys begin with the prefixes: row positions and ``columns``, in file
        order.

        Args:
            blocks: of the index, `FileIndex.blocks_with` these prefixes.

        Raises:
            LocalDiskError: blocks are damaged or gone.
        """
        leading = self._key_columns[: prefixes.width]
        prefixes = prefixes.typed_like([self.index.first_keys.column(name) for name in leading])
        for begin in range(0, len(blocks), self._queries_at_once):
            yield self._with_prefixes(
                prefixes, leading, blocks[begin : begin + self._queries_at_once], columns
            )

    def read_blocks(self, blocks: Ints, columns: Sequence[str]) -> Iterator[tuple[Ints, pa.Table]]:
        """Read blocks whole: row positions and ``columns``, in file order.

        Args:
            blocks: ascending.

        Raises:
            LocalDiskError: blocks are damaged or gone.
        """
        for begin in range(0, len(blocks), self._queries_at_once):
            data, starts, rows = self._rows_in(blocks[begin : begin + self._queries_at_once])
            yield rows, self._decoded(data, starts, rows, columns)

    def _with_prefixes(
        self, prefixes: KeyPrefixes, leading: Sequence[str], blocks: Ints, columns: Sequence[str]
    ) -> tuple[Ints, pa.Table]:
        layout = self.index.layout
        data, starts, rows = self._rows_in(blocks)
        keys = layout.decode(data, starts, rows % layout.block_rows, leading)
        hit = prefixes.begin([keys[name] for name in leading])
        rows, starts = rows[hit], starts[hit]
        return rows, self._decoded(data, starts, rows, columns)

    def _rows_in(self, blocks: Ints) -> tuple[bytes, Ints, Ints]:
        """Read blocks; give beside their bytes, for each row, where its block begins, and its
        position in the file."""
        per_block = self.index.layout.block_rows
        data, starts = self._fetch(blocks)
        rows = (blocks[:, None] * per_block + np.arange(per_block)).reshape(-1)
        there = rows < self.index.row_count
        return data, np.repeat(starts, per_block)[there], rows[there]

    def _decoded(self, data: bytes, starts: Ints, rows: Ints, columns: Sequence[str]) -> pa.Table:
        layout = self.index.layout
        wanted = set(columns)
        flat = [name for name in layout.flat if name in wanted]
        nested = [name for name in layout.nested if name in wanted]
        found = layout.decode(data, starts, rows % layout.block_rows, flat)
        if nested:
            found.update(self._nested(rows, nested))
        chosen = [found[name] for name in columns]
        return pa.Table.from_arrays(chosen, schema=layout.schema_of(columns))

    def _find_some(
        self, keys: Sequence[pa.Array], columns: Sequence[str]
    ) -> tuple[Ints, Ints, pa.Table]:
        hashes = filter_hashes(keys)
        per_block = self.index.layout.block_rows
        pairs = self.index.rows_of(keys, hashes)
        if pairs is None:
            candidates = self.index.blocks_of(keys)
            data, starts = self._fetch(candidates[1])
            queries, rows = self.index.rows_in(candidates, data, starts, hashes)
            block_of_pair = _positions(candidates[1], starts, rows // per_block)
        else:
            queries, rows = pairs
            data, block_of_pair = self._fetch(rows // per_block)
        return self._rows(keys, columns, queries, rows, data, block_of_pair)

    def _rows(
        self,
        keys: Sequence[pa.Array],
        columns: Sequence[str],
        queries: Ints,
        rows: Ints,
        data: bytes,
        starts: Ints,
    ) -> tuple[Ints, Ints, pa.Table]:
        layout = self.index.layout
        wanted = set(columns)
        flat = [n for n in layout.flat if n in wanted or n in self._key_columns]
        found = layout.decode(data, starts, rows % layout.block_rows, flat)
        asked = keys
        if not are_all(queries, len(keys[0])):  # some may have two rows of their hash, some none
            asked = [array.take(pa.array(queries)) for array in keys]
        same = equal_rows([found[name] for name in self._key_columns], asked)
        if not same.all():
            kept = pa.array(np.flatnonzero(same))
            found = {name: array.take(kept) for name, array in found.items()}
            queries, rows = queries[same], rows[same]
        nested = [name for name in layout.nested if name in wanted]
        if nested:
            found.update(self._nested(rows, nested))
        chosen = [found[name] for name in columns]
        table = pa.Table.from_arrays(chosen, schema=layout.schema_of(columns))
        return queries, rows, table

    def _fetch(self, blocks: Ints) -> tuple[bytes, Ints]:
        """Read blocks: their bytes joined, and where each of ``blocks`` begins in them."""
        if len(blocks) == 0:
            return b"", np.zeros(0, np.int64)
        per_block = self.index.layout.block_rows
        if len(blocks) == 1:
            return self.blocks.get(block_keys(blocks * per_block))[0], np.zeros(1, np.int64)
        unique, which = _distinct(blocks)
        values = self.blocks.get(block_keys(unique * per_block))
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        return b"".join(values), (np.cumsum(sizes) - sizes)[which]

    def _nested(self, rows: Ints, columns: list[str]) -> dict[str, pa.ChunkedArray]:
        schema = self.index.layout.nested_schema
        groups, which = np.unique(rows // NESTED_ROWS, return_inverse=True)
        names = [name + b"n" for name in block_keys(groups * NESTED_ROWS)]
        values = self.blocks.get(names) if names else []
        batches = [pa.ipc.read_record_batch(pa.py_buffer(value), schema) for value in values]
        sizes = np.fromiter((batch.num_rows for batch in batches), np.int64, len(batches))
        before = np.cumsum(sizes) - sizes
        at = pa.array(before[which] + rows % NESTED_ROWS) if names else pa.array([], pa.int64())
        table = pa.Table.from_batches(batches, schema).select(columns).combine_chunks().take(at)
        return {name: table.column(name) for name in columns}


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers, ascending, and for each number which of them it is."""
    if (numbers[1:] < numbers[:-1]).any():
        unique, which = np.unique(numbers, return_inverse=True)
        return unique, which
    is_first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first], np.cumsum(is_first) - 1


def _positions(blocks: Ints, starts: Ints, wanted: Ints) -> Ints:
    """Return the start of each wanted block, all of which are among ``blocks``."""
    order = np.argsort(blocks, kind="stable")
    return starts[order[np.searchsorted(blocks, wanted, sorter=order)]]


Pairs = tuple[Ints, Ints]
"""Query positions and the row (or block) numbers that may answer them."""


@dataclass(frozen=True)
class FileIndex:
    """The part of a cached data file that is kept in memory.

    Args:
        first_keys: the key columns of each block's first row.
        filter: 16-bit hash of each row's key, padded to whole blocks; None if it was let go.
    """

    layout: BlockLayout
    row_count: int
    first_keys: pa.RecordBatch
    filter: Hashes | None

    @property
    def blocks(self) -> int:
        return int(self.first_keys.num_rows)

    def as_typed(self, keys: Sequence[pa.Array]) -> list[pa.Array]:
        """Cast keys to the types of the file's."""
        return [
            key if key.type == own.type else key.cast(own.type)
            for key, own in zip(keys, self._key_columns, strict=True)
        ]

    @cached_property
    def _key_columns(self) -> list[pa.Array]:
        return list(self.first_keys.columns)

    @cached_property
    def _sorted_keys(self) -> NormalizedKeys:
        return NormalizedKeys(self._key_columns).packed()

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the blocks follow one another in key order, as a search needs it."""
        rows = np.arange(self.blocks)
        return bool((self._sorted_keys.compare(rows[:-1], self._sorted_keys, rows[1:]) < 0).all())

    @property
    def nbytes(self) -> int:
        """Memory in use, with RocksDB's index; text keys keep their first word apart."""
        own = self.first_keys.get_total_buffer_size() + (8 + INDEX_BYTES_PER_ENTRY) * self.blocks
        return int(own) + (0 if self.filter is None else self.filter.nbytes)

    def blocks_of(self, keys: Sequence[pa.Array]) -> Pairs:
        """Find for each key the block whose range of keys it falls into, if there is one."""
        at, found = self._sorted_keys.search(NormalizedKeys(keys))
        blocks = np.where(found, at, at - 1)
        queries = np.flatnonzero(blocks >= 0)
        return queries, blocks[queries]

    def blocks_with(self, prefixes: KeyPrefixes) -> Ints:
        """Find the blocks that may have keys which begin with the prefixes, ascending."""
        low, high = self._leading(prefixes.width).spans(prefixes)
        # The block before the first one that begins so may end so.
        return np.unique(spread(np.maximum(low - 1, 0), high)[1])

    def blocks_of_ranges(self, ranges: KeyRanges, count: int) -> tuple[Ints, Bools]:
        """Find the blocks, ascending, that have so many of the first or last keys of ranges, where
        there are as many; tell which ranges go on beyond them."""
        low, high = ranges.spans(self._leading(ranges.width), self._sorted_keys)
        blocks = -(-count // self.layout.block_rows) + 1
        begin, end, more = ranges.cut(np.maximum(low - 1, 0), high, blocks)
        return np.unique(spread(begin, end)[1]), more

    def _leading(self, width: int) -> SortedPrefixes:
        firsts = self._by_width.get(width)
        if firsts is None:
            firsts = self._by_width[width] = SortedPrefixes(self._key_columns[:width])
        return firsts

    @cached_property
    def _by_width(self) -> dict[int, SortedPrefixes]:
        """The first keys' leading columns, by their number."""
        return {}

    def rows_of(self, keys: Sequence[pa.Array], hashes: Hashes) -> Pairs | None:
        """Find for each key the rows whose hash is its own; None without a filter."""
        if self.filter is None:
            return None
        queries, blocks = self.blocks_of(keys)
        per_block = self.layout.block_rows
        heads = self.filter.reshape(-1, per_block)[blocks]
        return self._same_hash(queries, blocks, heads, hashes)

    def rows_in(self, pairs: Pairs, data: bytes, starts: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
        """Find what :meth:`rows_of` does, by the hashes in the fetched blocks.

        Args:
            pairs: of :meth:`blocks_of`.
            starts: where in ``data`` the block of each pair begins.
        """
        head = np.dtype(("<u2", (self.layout.block_rows,)))
        heads = records_at(data, starts, np.dtype([("head", head)]))["head"]
        return self._same_hash(*pairs, heads, hashes)

    def _same_hash(self, queries: Ints, blocks: Ints, heads: Hashes, hashes: Hashes) -> Pairs:
        pair, slot = np.nonzero(heads == hashes[queries][:, None])
        rows = blocks[pair] * self.layout.block_rows + slot
        real = rows < self.row_count
        return queries[pair][real], rows[real]
