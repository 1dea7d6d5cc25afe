"""Binary columns as hexadecimal text, and back."""

import numpy as np
import pyarrow as pa

from pkray.errors import InputError

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_NO_DIGIT = 255
_VALUES = np.full(256, _NO_DIGIT, np.uint8)
_VALUES[_DIGITS] = np.arange(16)
_VALUES[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def to_hex(array: pa.Array) -> pa.Array:
    """Write binary as lower-case text."""
    offsets, data = _parts(array)
    text = np.stack([_DIGITS[data >> 4], _DIGITS[data & 15]], axis=1).ravel()
    return _built(pa.string(), offsets * 2, text, array)


def from_hex(array: pa.Array, column: str) -> pa.Array:
    """Read binary from text.

    Raises:
        InputError: a text that is not hexadecimal; it names the column and the text.
    """
    offsets, data = _parts(array)
    values = _VALUES[data]
    odd = np.flatnonzero((offsets[1:] - offsets[:-1]) % 2)
    bad = np.flatnonzero(values == _NO_DIGIT)
    if len(odd) or len(bad):
        row = odd[0] if len(odd) else np.searchsorted(offsets, bad[0], "right") - 1
        text = array[int(row)].as_py()
        raise InputError(
            f"column {column!r} holds binary data as hexadecimal text, which {text!r} is not",
            column=column,
            value=text,
        )
    return _built(pa.binary(), offsets // 2, values[::2] << 4 | values[1::2], array)


def _parts(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets from 0 and bytes, those of nulls taken out."""
    filled = array.fill_null(b"" if pa.types.is_binary(array.type) else "")
    _, offsets, data = filled.buffers()
    cut = np.frombuffer(offsets, np.int32)[filled.offset : filled.offset + len(filled) + 1]
    every = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return cut - cut[0], every[cut[0] : cut[-1]]


def _built(
    data_type: pa.DataType, offsets: np.ndarray, data: np.ndarray, like: pa.Array
) -> pa.Array:
    valid = None if like.null_count == 0 else pa.array(like.is_valid()).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(data_type, len(like), buffers)
