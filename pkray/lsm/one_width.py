"""Columns whose values are all of one width: numpy gathers these in half the time arrow does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_MOST_BYTES = 2**31 - 1


def gathered(column: pa.Array, numbers: np.ndarray) -> pa.Array | None:
    """Values by number, which is known to be in range.

    None if the column has nulls or values of several widths, or is of bits or nested.
    """
    kind = column.type
    if column.null_count or not len(column):
        return None
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _gathered_text(column, numbers)
    if pa.types.is_boolean(kind) or not (
        pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    ):
        return None
    values = _values(column.buffers()[1], column.offset, len(column), kind.bit_width // 8)
    return pa.Array.from_buffers(
        kind, len(numbers), [None, pa.py_buffer(values.take(numbers, axis=0))], null_count=0
    )


def _gathered_text(column: pa.Array, numbers: np.ndarray) -> pa.Array | None:
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset :][: len(column) + 1]
    width = int(offsets[1] - offsets[0])
    if not 0 < width * max(len(numbers), 1) <= _MOST_BYTES:
        return None
    if offsets[-1] - offsets[0] != width * len(column) or (np.diff(offsets) != width).any():
        return None
    values = _values(data.slice(int(offsets[0])), 0, len(column), width)
    ends = np.arange(len(numbers) + 1, dtype=np.int32)
    ends *= width
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(values.take(numbers, axis=0))]
    return pa.Array.from_buffers(column.type, len(numbers), buffers, null_count=0)


def _values(buffer: pa.Buffer, offset: int, count: int, width: int) -> np.ndarray[Any, Any]:
    """One value a row: a word, or bytes if no word is as wide."""
    if width in (1, 2, 4, 8):
        kind = np.dtype(f"u{width}")
        return np.frombuffer(buffer, kind, count, offset * width)
    return np.frombuffer(buffer, np.uint8, count * width, offset * width).reshape(count, width)
