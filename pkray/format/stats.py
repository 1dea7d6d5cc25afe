"""Column statistics of a file: minimum, maximum and null count, as manifests carry them.

Source: "metadata.stats-mode" in Apache Paimon (default ``truncate(16)``): strings are cut to 16
characters, the maximum's last one raised. As in Paimon, bytes and nested columns have null counts
only (nested: none), and a column that holds NaN has no minimum and maximum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import OptionError
from pkray.format import binary_row
from pkray.format.data_file import SimpleStats
from pkray.types import BINARIES, STRINGS, DataType

DEFAULT_MODE = "truncate(16)"
EMPTY_STATS = SimpleStats(binary_row.EMPTY_ROW, binary_row.EMPTY_ROW, ())
"""Of no columns: the partition statistics of an unpartitioned table."""

_FLOATS = ("FLOAT", "DOUBLE")
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class StatsCollector:
    """Gathers the statistics of some columns over batches.

    Args:
        names: the columns, in the order the statistics have them.
        types: of each.
        mode: ``none``, ``counts``, ``full`` or ``truncate(<characters>)``.

    Raises:
        OptionError: another mode.
    """

    def __init__(
        self, names: Sequence[str], types: Sequence[DataType], mode: str = DEFAULT_MODE
    ) -> None:
        length = _truncate_length(mode)
        self._columns = [
            (name, _Column(kind, mode.lower(), length))
            for name, kind in zip(names, types, strict=True)
        ]

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take in more rows; columns that are not of these statistics are ignored."""
        for name, column in self._columns:
            column.update(batch.column(name))

    def finish(self) -> SimpleStats:
        """The statistics of all rows so far."""
        if not self._columns:
            return EMPTY_STATS
        found = [column.bounds() for _, column in self._columns]
        types = [column.stored_kind for _, column in self._columns]
        lows, highs = binary_rows([low for low, _ in found], [high for _, high in found], types)
        return SimpleStats(lows, highs, tuple(column.null_count for _, column in self._columns))


def binary_rows(
    lows: Sequence[pa.Array], highs: Sequence[pa.Array], types: Sequence[DataType]
) -> tuple[bytes, bytes]:
    """The minimum and the maximum row of arrays of one value each."""
    both = [pa.concat_arrays(pair) for pair in zip(lows, highs, strict=True)]
    low, high = binary_row.encode(both, types).to_pylist()
    return low, high


class _Column:
    def __init__(self, kind: DataType, mode: str, length: int | None) -> None:
        self.kind = kind
        self.length = length if kind.root in STRINGS else None
        self.counts = mode != "none" and not kind.is_nested
        self.bounded = self.counts and mode != "counts" and kind.root not in BINARIES
        self.null_count: int | None = 0 if self.counts else None
        self._found: list[pa.Array] = []

    @property
    def stored_kind(self) -> DataType:
        """The type of the value's place in the rows; of a nested column, which is null, any."""
        return DataType("INT") if self.kind.is_nested else self.kind

    def update(self, column: pa.Array | pa.ChunkedArray) -> None:
        if self.null_count is None:
            return
        self.null_count += column.null_count
        if not self.bounded or column.null_count == len(column):
            return
        if self.kind.root in _FLOATS and pc.any(pc.is_nan(column)).as_py():
            self.bounded = False
            return
        ends = pc.min_max(column)
        self._found.append(pa.array([ends["min"], ends["max"]], self.kind.arrow))

    def bounds(self) -> tuple[pa.Array, pa.Array]:
        """Minimum and maximum, as arrays of one value, null where unknown."""
        nothing = pa.nulls(1, self.stored_kind.arrow)
        if not self.bounded or not self._found:
            return nothing, nothing
        ends = pc.min_max(pa.concat_arrays(self._found))
        low, high = ends["min"], ends["max"]
        if self.length is not None:
            text = _raised(high.as_py(), self.length)
            if text is None:
                return nothing, nothing
            low, high = low.as_py()[: self.length], text
        elif self.kind.root in _FLOATS:
            # Neither zero is beyond the other, but readers may compare their bits.
            low = -0.0 if low.as_py() == 0 else low.as_py()
            high = 0.0 if high.as_py() == 0 else high.as_py()
        return pa.array([low], self.kind.arrow), pa.array([high], self.kind.arrow)


def _raised(text: str, length: int) -> str | None:
    """The shortest text of at most ``length`` characters not below ``text``; None if none is."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CODE_POINT:
            return text[: end - 1] + chr(following)
    return None


def _truncate_length(mode: str) -> int | None:
    if mode.lower() in ("none", "counts", "full"):
        return None
    found = re.fullmatch(r"truncate\((\d+)\)", mode.lower())
    if not found or int(found.group(1)) == 0:
        raise OptionError(
            f"metadata.stats-mode={mode!r} is not known; use none, counts, full or truncate(16)",
            option="metadata.stats-mode",
            value=mode,
        )
    return int(found.group(1))
