"""Makes Arrow values that stand in the code or in a query, without pandas.

`pyarrow.array` and `pyarrow.scalar` import pandas where it is installed, to recognise its objects:
more than a third of the time in which a process would start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def texts(values: Sequence[str]) -> pa.StringArray:
    """Make an array of texts."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def null(kind: pa.DataType) -> pa.Scalar:
    """Make a NULL of a type."""
    return pa.nulls(1, kind)[0]


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Make a scalar as `pyarrow.scalar` does; without pandas of NULLs and most plain values."""
    if value is None:
        return null(kind)
    if type(value) is str and pa.types.is_string(kind):
        return texts([value])[0]
    if type(value) is bool and pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes([value]))])[0]
    is_whole = type(value) is int and pa.types.is_integer(kind) and _fits(value, kind)
    if is_whole or (type(value) is float and pa.types.is_float64(kind)):
        number = np.array([value], kind.to_pandas_dtype())
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(number)])[0]
    return pa.scalar(value, kind)


def _fits(value: int, kind: pa.DataType) -> bool:
    bounds = np.iinfo(kind.to_pandas_dtype())
    return int(bounds.min) <= value <= int(bounds.max)
