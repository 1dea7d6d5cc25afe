"""Find keys in the pages of rows that lie beside a data file."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.lookup.block_layout import Ints
from pkray.lookup.scan_search import ScanSearch
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.storage.row_pages import RowPages

BYTES_AT_ONCE = 4 << 20
"""Bounds rows that are read and searched together; a wide row may have more."""


class PageSearch:
    """The pages of one data file, and what is known of their keys."""

    def __init__(self, pages: RowPages) -> None:
        self._pages = pages
        self._first_keys = NormalizedKeys(list(pages.first_keys.columns)).packed()

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def row_count(self) -> int:
        return self._pages.row_count

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._pages.nbytes + 8 * len(self._pages)

    def schema_of(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self._pages.schema.field(name) for name in columns])

    def holds(self, columns: Sequence[str]) -> bool:
        return set(columns) <= set(self._pages.schema.names)

    def pages_of(self, keys: Sequence[pa.Array]) -> Ints:
        """Find the pages that may have the keys, ascending."""
        at, found = self._first_keys.search(NormalizedKeys(self._typed(keys)))
        pages = np.where(found, at, at - 1)
        return np.unique(pages[pages >= 0])

    def find(
        self, keys: Sequence[pa.Array], pages: Ints, columns: Sequence[str]
    ) -> Iterator[tuple[Ints, Ints, pa.Table]]:
        """Find rows by key: query positions, row positions in the file, and ``columns``.

        Args:
            pages: as of `pages_of`.

        Raises:
            StorageError: pages are gone or damaged.
        """
        key_columns = self._pages.first_keys.schema.names
        search = ScanSearch(self._typed(keys))
        firsts = self._pages.first_rows
        ends = np.append(firsts[1:], self.row_count)
        parts = np.cumsum(self._pages.page_bytes[pages], dtype=np.int64) // BYTES_AT_ONCE
        for some in np.split(pages, np.flatnonzero(np.diff(parts)) + 1) if len(pages) else ():
            rows = self._pages.read(some)
            sizes = ends[some] - firsts[some]
            places = np.repeat(firsts[some] - (np.cumsum(sizes) - sizes), sizes)
            for queries, found, batch in search.find([(0, rows)], key_columns):
                table = pa.Table.from_batches([batch]).select(list(columns))
                yield queries, found + places[found], table

    def _typed(self, keys: Sequence[pa.Array]) -> list[pa.Array]:
        own = self._pages.first_keys.columns
        return [
            key if key.type == each.type else key.cast(each.type)
            for key, each in zip(keys, own, strict=True)
        ]
