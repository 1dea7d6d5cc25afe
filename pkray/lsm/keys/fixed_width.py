"""Columns whose values are all of one width: numpy gathers these in half the time arrow does."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.words import fixed_values, raw_type

_MOST_BYTES = 2**31 - 1
"""Offsets of Arrow's strings are 32 bits wide."""


@dataclass(frozen=True)
class FixedWidthColumn:
    """A column's values; found once, and gathered from as often as wanted.

    Args:
        values: one a row, as `raw_type`.
        text_width: of strings and binaries, each one's bytes; else None.
    """

    kind: pa.DataType
    values: npt.NDArray[Any]
    text_width: int | None = None

    @classmethod
    def from_array(cls, column: pa.Array) -> Self | None:
        """View a column's values; None if it has nulls or values of several widths, or is of bits
        or nested."""
        if column.null_count or not len(column):
            return None
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            return cls._from_text(column)
        return cls.from_fixed_type(column)

    @classmethod
    def from_fixed_type(cls, column: pa.Array) -> Self | None:
        """View a column's values, any value where it is null; None if its type is not of one width,
        or of bits."""
        kind = column.type
        if pa.types.is_boolean(kind) or not (
            pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
        ):
            return None
        return cls(kind, fixed_values(column, raw_type(kind.bit_width // 8)))

    @classmethod
    def _from_text(cls, column: pa.Array) -> Self | None:
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[column.offset :][: len(column) + 1]
        width = int(offsets[1] - offsets[0])
        if width <= 0 or offsets[-1] - offsets[0] != width * len(column):
            return None
        if (np.diff(offsets) != width).any():
            return None
        values = np.frombuffer(data, raw_type(width), len(column), int(offsets[0]))
        return cls(column.type, values, width)

    def gathered(
        self, numbers: np.ndarray, absent: npt.NDArray[np.bool_] | None = None
    ) -> pa.Array | None:
        """Take values by number, known to be in range; None if they are too many for arrow.

        Args:
            absent: where the number is -1, for null; default nowhere.
        """
        count, width = len(numbers), self.text_width
        nulls, buffers = 0, [None]
        if absent is not None and (nulls := int(np.count_nonzero(absent))):
            buffers = [pa.py_buffer(np.packbits(~absent, bitorder="little"))]
        if width is not None:
            if count * width > _MOST_BYTES:
                return None
            buffers.append(pa.py_buffer(np.arange(0, count * width + 1, width, dtype=np.int32)))
        buffers.append(pa.py_buffer(self.values.take(numbers)))
        return pa.Array.from_buffers(self.kind, count, buffers, null_count=nulls)
