"""Find the blocks of a data file that can hold a key: by their first keys, and a filter of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pkray.lookup.block_layout import BlockLayout, Hashes, Ints, records_at
from pkray.lookup.block_store import INDEX_BYTES_PER_ENTRY
from pkray.lsm.keys.key_prefixes import KeyPrefixes, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys

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
        return NormalizedKeys(self._key_columns)

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
        width = prefixes.width
        firsts = self._by_width.get(width)
        if firsts is None:
            firsts = self._by_width[width] = SortedPrefixes(self._key_columns[:width])
        low, high = firsts.spans(prefixes)
        # The block before the first one that begins so may end so.
        return np.unique(spread(np.maximum(low - 1, 0), high)[1])

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
