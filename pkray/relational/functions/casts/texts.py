"""Casts between text and bytes, and to their lengths."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.casts.numbers import Converted
from pkray.relational.functions.casts.writing import write
from pkray.schema.types import DataType


def from_bytes(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Read bytes as UTF-8; other bytes do not fit."""
    try:
        return _sized(array.cast(pa.string()), target), None
    except pa.ArrowInvalid:
        raise EvaluationError(
            f"BYTES that are no UTF-8 cannot be cast to {target.with_nullable(True)}; "
            "write them with hex or base64",
            function="cast",
        ) from None


def to_text(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Write values as text."""
    return _sized(write(array, source), target), None


def _sized(texts: pa.Array, target: DataType) -> pa.Array:
    """Cut text to the length of CHAR and VARCHAR, and fill CHAR up with spaces."""
    if target.length is None:
        return texts
    cut = pc.utf8_slice_codeunits(texts, 0, target.length)
    return pc.utf8_rpad(cut, target.length, " ") if target.root == "CHAR" else cut


def bytes_sized(array: pa.Array, source: DataType, target: DataType) -> Converted:
    """Cast bytes to bytes of another length."""
    return array.cast(pa.binary()), None
