"""Columns whose values are all of one width: numpy gathers these in half the time arrow does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class OneWidth:
    """A column's values; found once, and gathered from as often as wanted.

    Args:
        values: one a row: a word, or bytes if no word is as wide.
        text_width: of strings and binaries, each one's bytes; else None.
    """

    kind: pa.DataType
    values: np.ndarray[Any, Any]
    text_width: int | None = None

    @classmethod
    def of(cls, column: pa.Array) -> OneWidth | None:
        """None if the column has nulls or values of several widths, or is of bits or nested."""
        kind = column.type
        if column.null_count or not len(column):
            return None
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return cls._of_text(column)
        values = words_of(column)
        return None if values is None else cls(kind, values)

    @classmethod
    def _of_text(cls, column: pa.Array) -> OneWidth | None:
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[column.offset :][: len(column) + 1]
        width = int(offsets[1] - offsets[0])
        if width <= 0 or offsets[-1] - offsets[0] != width * len(column):
            return None
        if (np.diff(offsets) != width).any():
            return None
        values = _values(data.slice(int(offsets[0])), 0, len(column), width)
        return cls(column.type, values, width)

    def gathered(self, numbers: np.ndarray) -> pa.Array | None:
        """Values by number, which is known to be in range; None if they are too many for arrow."""
        count, width = len(numbers), self.text_width
        if width is None:
            buffers = [None]
        elif count * width > _MOST_BYTES:
            return None
        else:
            buffers = [None, pa.py_buffer(np.arange(0, count * width + 1, width, dtype=np.int32))]
        buffers.append(pa.py_buffer(self.values.take(numbers, axis=0)))
        return pa.Array.from_buffers(self.kind, count, buffers, null_count=0)


def words_of(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """The values of a type of one width, anything where they are null; None of other types."""
    kind = column.type
    if pa.types.is_boolean(kind) or not (
        pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    ):
        return None
    return _values(column.buffers()[1], column.offset, len(column), kind.bit_width // 8)


def _values(buffer: pa.Buffer, offset: int, count: int, width: int) -> np.ndarray[Any, Any]:
    if width in (1, 2, 4, 8):
        kind = np.dtype(f"u{width}")
        return np.frombuffer(buffer, kind, count, offset * width)
    return np.frombuffer(buffer, np.uint8, count * width, offset * width).reshape(count, width)
