"""Find keys in a data file by reading it from front to back: for many keys, or without a disk."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.format.words import Words
from pkray.lookup.block_layout import Ints
from pkray.lookup.key_hash import equal_rows, hash_keys, one_chunk
from pkray.lsm.keys.keys import NormalizedKeys

_BITS_PER_KEY = 3
"""Binary digits the table of hashes has more than the number of keys."""


class ScanSearch:
    """Keys to be found in batches of rows.

    Args:
        keys: the columns of the keys, none of them null.
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        normalized = NormalizedKeys(keys)
        order, starts = normalized.sort(stable=False)
        self._order, self._starts = order, starts
        distinct = pa.array(order[starts])
        self._keys = [array.take(distinct) for array in keys]
        self._sorted = NormalizedKeys(self._keys)
        self._words: np.ndarray | None = None
        prefix, exact = self._sorted.prefix()
        if exact and len(keys) == 1 and pa.types.is_integer(keys[0].type):
            self._words = prefix
        else:
            self._prepare_hashes()

    def _prepare_hashes(self) -> None:
        hashes = hash_keys(self._keys)
        self._by_hash = np.argsort(hashes)
        self._hashes: Words = hashes[self._by_hash]
        bits = len(hashes).bit_length() + _BITS_PER_KEY
        self._shift = np.uint64(64 - bits)
        self._present = np.zeros(1 << bits, np.bool_)
        self._present[(hashes >> self._shift).astype(np.int64)] = True

    def find(
        self, batches: Iterable[tuple[int, pa.RecordBatch]], key_columns: Sequence[str]
    ) -> Iterator[tuple[Ints, Ints, pa.RecordBatch]]:
        """Yield query positions, row positions, and the rows.

        Args:
            batches: each with the position of its first row.
        """
        for first, batch in batches:
            if batch.num_rows:
                columns = [one_chunk(batch.column(name)) for name in key_columns]
                keys, rows = self._match(columns)
                if len(keys):
                    queries, which = self._queries(keys)
                    rows = rows[which]
                    yield queries, rows + first, batch.take(pa.array(rows))

    def _queries(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return all query positions of distinct keys, and which key each belongs to."""
        ends = np.append(self._starts[1:], len(self._order))
        first, sizes = self._starts[keys], ends[keys] - self._starts[keys]
        which = np.repeat(np.arange(len(keys)), sizes)
        places = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[which]
        return self._order[places], which

    def _match(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """Find keys in a batch: the numbers of distinct keys and of the rows that are equal."""
        if self._words is not None:
            words = NormalizedKeys(columns).prefix()[0]
            if bool((words[1:] > words[:-1]).all()):
                return self._merge(words)
            self._words = None
            self._prepare_hashes()
        return self._probe(columns)

    def _merge(self, words: np.ndarray) -> tuple[Ints, Ints]:
        assert self._words is not None
        first = int(np.searchsorted(self._words, words[0]))
        end = int(np.searchsorted(self._words, words[-1], side="right"))
        wanted = self._words[first:end]
        rows = np.searchsorted(words, wanted)
        hits = np.flatnonzero(words[rows] == wanted)
        return hits + first, rows[hits]

    def _probe(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        hashes = hash_keys(columns)
        rows = np.flatnonzero(self._present[(hashes >> self._shift).astype(np.int64)])
        some = hashes[rows]
        low = np.searchsorted(self._hashes, some, side="left")
        sizes = np.searchsorted(self._hashes, some, side="right") - low
        pair = np.repeat(np.arange(len(rows)), sizes)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + low[pair]
        keys, rows = self._by_hash[place], rows[pair]
        mine = [array.take(pa.array(keys)) for array in self._keys]
        theirs = [array.take(pa.array(rows)) for array in columns]
        same = equal_rows(mine, theirs)
        return keys[same], rows[same]
