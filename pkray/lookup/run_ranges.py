"""Find which file of a sorted run can hold a key, by the ranges that metadata names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.lookup.block_layout import Ints
from pkray.lsm.keys.key_prefixes import KeyPrefixes, SortedPrefixes, spread
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.levels import SortedRun
from pkray.schema.types import DataType

_REMEMBERED = "lookup_ranges"


class RunRanges:
    """The files of one run in key order."""

    def __init__(self, files: Sequence[DataFileMeta], types: Sequence[DataType]) -> None:
        lows = binary_row.decode([file.min_key for file in files], types)
        order = NormalizedKeys(lows).argsort()
        self.files = [files[i] for i in order.tolist()]
        self._lows = binary_row.decode([f.min_key for f in self.files], types)
        self._highs = binary_row.decode([f.max_key for f in self.files], types)
        self.lows, self.highs = NormalizedKeys(self._lows), NormalizedKeys(self._highs)

    def files_of(self, keys: Sequence[pa.Array]) -> Iterator[tuple[DataFileMeta, Ints]]:
        """Yield each file with the positions of the keys in its range."""
        wanted = NormalizedKeys(keys)
        at, _ = self.highs.search(wanted)
        inside = np.flatnonzero(at < len(self.files))
        inside = inside[self.lows.compare(at[inside], wanted, inside) <= 0]
        if not len(inside):
            return
        if len(self.files) == 1:
            yield self.files[0], inside
            return
        inside = inside[np.argsort(at[inside], kind="stable")]
        chosen, starts = np.unique(at[inside], return_index=True)
        ends = np.append(starts[1:], len(inside))
        for i, start, end in zip(chosen.tolist(), starts.tolist(), ends.tolist(), strict=True):
            yield self.files[i], inside[start:end]

    def files_with(self, prefixes: KeyPrefixes) -> Iterator[DataFileMeta]:
        """Yield the files that may have keys which begin with the prefixes, in key order."""
        width = prefixes.width
        first, _ = SortedPrefixes(self._highs[:width]).spans(prefixes)
        _, end = SortedPrefixes(self._lows[:width]).spans(prefixes)
        for number in np.unique(spread(first, end)[1]).tolist():
            yield self.files[number]


def run_ranges(run: SortedRun, types: tuple[DataType, ...]) -> RunRanges:
    """Return the ranges of a run. The run remembers them, as finding them by its value costs more
    than a lookup."""
    held: RunRanges | None = run.__dict__.get(_REMEMBERED)
    if held is None:
        held = run.__dict__[_REMEMBERED] = RunRanges(run.files, types)
    return held
