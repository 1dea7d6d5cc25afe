"""Column statistics of a file: minimum, maximum and null count, as manifests carry them.

Source: "metadata.stats-mode" in Apache Paimon (default ``truncate(16)``): strings are cut to 16
characters, the maximum's last one raised. As in Paimon, bytes and nested columns have null counts
only (nested: none), and a column that holds NaN has no minimum and maximum.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import OptionError
from pkray.format import binary_row
from pkray.format.data_file import SimpleStats
from pkray.format.words import fixed_values, unaligned_view
from pkray.options import TableOptions
from pkray.schema.types import BINARIES, STRINGS, DataType

DEFAULT_MODE = "truncate(16)"
EMPTY_STATS = SimpleStats(binary_row.EMPTY_ROW, binary_row.EMPTY_ROW, ())
"""Of no columns: the partition statistics of an unpartitioned table."""

_FLOATS = ("FLOAT", "DOUBLE")
_FEW_STRINGS = 1024
_NO_WORDS = (2**64, -1)
_WORD_BYTES = 8
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class StatsCollector:
    """Gathers the statistics of some columns over batches.

    Args:
        names: the columns, in the order the statistics have them.
        types: of each.
        mode: ``none``, ``counts``, ``full`` or ``truncate(<characters>)``; for all, or of each
            (:func:`column_modes`).

    Raises:
        OptionError: another mode.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[DataType],
        mode: str | Sequence[str] = DEFAULT_MODE,
    ) -> None:
        modes = [mode] * len(names) if isinstance(mode, str) else mode
        self._columns = {
            name: _Column(kind, each) for name, kind, each in zip(names, types, modes, strict=True)
        }

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take in more rows; columns that are not of these statistics are ignored."""
        for name, column in self._columns.items():
            column.update(batch.column(name))

    def finish(self, names: Sequence[str] | None = None) -> SimpleStats:
        """Return the statistics of all rows so far: of all columns, or of some in another order."""
        columns = [self._columns[name] for name in (self._columns if names is None else names)]
        if not columns:
            return EMPTY_STATS
        bounds = [column.bounds() for column in columns]
        low, high = binary_row.encode(bounds, [each.stored_kind for each in columns]).to_pylist()
        return SimpleStats(low, high, tuple(column.null_count for column in columns))


def column_modes(options: TableOptions, names: Sequence[str]) -> list[str]:
    """Find each column's mode: ``fields.<name>.stats-mode``, else ``metadata.stats-mode``."""
    said = {name: field.stats_mode for name, field in options.fields.items()}
    return [said.get(name) or options.metadata_stats_mode for name in names]


_ENDS_HELD = 256
"""Minima and maxima that are kept before they become one."""


class _Column:
    def __init__(self, kind: DataType, mode: str) -> None:
        mode = mode.lower()
        self.kind = kind
        length = _truncate_length(mode)
        self.length = length if kind.root in STRINGS else None
        self.counts = mode != "none" and not kind.is_nested
        self.bounded = self.counts and mode != "counts" and kind.root not in BINARIES
        self.null_count: int | None = 0 if self.counts else None
        self._ends: list[pa.Array] = []
        self._ends_held = 1 if kind.root in STRINGS else _ENDS_HELD
        self._words = _NO_WORDS

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
        if self.kind.root in _FLOATS:
            low, high = _float_ends(column)
            if math.isnan(high):
                self.bounded = False
                return
            self._widen(pa.array([low, high], self.kind.arrow))
            return
        if self.kind.root in STRINGS and column.null_count == 0:
            column, self._words = _text_candidates(column, self._words)
            if not len(column):
                return
        elif _is_integers(column):
            values = fixed_values(column, f"i{column.type.bit_width // 8}")
            both = np.array([values.min(), values.max()])
            self._widen(pa.Array.from_buffers(column.type, 2, [None, pa.py_buffer(both)]))
            return
        ends = pc.min_max(column)
        self._widen(pa.array([ends["min"], ends["max"]], self.kind.arrow))

    def _widen(self, ends: pa.Array) -> None:
        self._ends.append(ends)
        if len(self._ends) > self._ends_held:  # strings may be long
            both = pc.min_max(pa.concat_arrays(self._ends))
            self._ends = [pa.array([both["min"], both["max"]], self.kind.arrow)]

    def bounds(self) -> pa.Array:
        """Minimum and maximum, null where unknown."""
        low, high = self._known_bounds()
        return pa.array([low, high], self.stored_kind.arrow)

    def _known_bounds(self) -> tuple[Any, Any]:
        if not self.bounded or not self._ends:
            return None, None
        ends = pc.min_max(pa.concat_arrays(self._ends))
        low, high = ends["min"], ends["max"]
        if self.length is not None:
            raised = _raised(high.as_py(), self.length)
            return (None, None) if raised is None else (low.as_py()[: self.length], raised)
        if self.kind.root in _FLOATS:
            # Neither zero is beyond the other, but readers may compare their bits.
            return low.as_py() or -0.0, high.as_py() or 0.0
        return low, high


def _float_ends(column: pa.Array | pa.ChunkedArray) -> tuple[float, float]:
    """Minimum and maximum; NaN if there is one (numpy's are several times faster than arrow's)."""
    values = (column.drop_null() if column.null_count else column).to_numpy()
    return float(values.min()), float(values.max())


def _is_integers(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether it is integers, dates or times, without nulls, in one array."""
    if isinstance(column, pa.ChunkedArray) or column.null_count:
        return False
    return bool(pa.types.is_integer(column.type) or pa.types.is_temporal(column.type))


def _text_candidates(
    column: pa.Array | pa.ChunkedArray, known: tuple[int, int]
) -> tuple[pa.Array | pa.ChunkedArray, tuple[int, int]]:
    """Of strings of eight bytes or more, the few whose first eight are smallest or largest.

    Comparing words is several times as fast as comparing strings.

    Args:
        known: such smallest and largest words of strings before these.

    Returns:
        These, none if all are between those before; and the smallest and largest words now.
    """
    if isinstance(column, pa.ChunkedArray) or len(column) < _FEW_STRINGS:
        return column, known
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset :][: len(column) + 1]
    lengths = offsets[1:] - offsets[:-1]
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < _WORD_BYTES:
        return column, known
    data = np.frombuffer(data_buffer, np.uint8)
    if shortest == longest:
        shape, first = (len(column),), int(offsets[0])
        words = np.ndarray(shape, np.uint64, data.data, first, (shortest,)).byteswap()
    else:
        words = unaligned_view(data)[offsets[:-1]].byteswap(inplace=True)
    low, high = int(words.min()), int(words.max())
    if known[0] < low and high < known[1]:
        return column.slice(0, 0), known
    rows = np.flatnonzero((words == low) | (words == high))
    chosen = column.take(pa.array(rows)) if len(rows) < len(column) // 4 else column
    return chosen, (min(low, known[0]), max(high, known[1]))


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
    if mode in ("none", "counts", "full"):
        return None
    found = re.fullmatch(r"truncate\((\d+)\)", mode)
    if not found or int(found.group(1)) == 0:
        raise OptionError(
            f"metadata.stats-mode={mode!r} is not known; use none, counts, full or truncate(16)",
            option="metadata.stats-mode",
            value=mode,
        )
    return int(found.group(1))
