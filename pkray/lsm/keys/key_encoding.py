"""Columns as integers that compare as the column's values do.

A column of n rows becomes *words*: integer arrays of n, the first one deciding, the next ones
only where all before are equal. Numbers, dates and times need one word, wide decimals two.
Strings and bytes need one for each eight bytes, zero-padded, and their length as the last.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import UnsupportedError
from pkray.format.words import TAIL_MASKS, fixed_values, text_bytes

Rows = np.ndarray | slice
"""Row numbers, or a range of them."""

_MAGNITUDE: dict[int, Any] = {4: np.int32(2**31 - 1), 8: np.int64(2**63 - 1)}


class FixedWidthKeys:
    """A column whose number of words its type says."""

    tail = False

    def __init__(self, words: Sequence[np.ndarray]) -> None:
        self._words = words
        self.width = len(words)

    def chunk(self, number: int, rows: Rows | None = None) -> np.ndarray:
        """Return word ``number`` of the rows (all by default)."""
        word = self._words[number]
        return word if rows is None else word[rows]

    def unused_bits(self, number: int) -> int:
        return 0


class VariableWidthKeys:
    """A string or binary column: ``width`` words of bytes, then the length (``tail``)."""

    tail = True

    def __init__(self, array: pa.Array) -> None:
        self._text = text_bytes(array, None)
        self.lengths = self._text.lengths
        self._longest = int(self.lengths.max()) if len(self.lengths) else 0
        self.width = -(-self._longest // 8)
        self._first: np.ndarray | None = None

    def chunk(self, number: int, rows: Rows | None = None) -> np.ndarray:
        """Return bytes 8*number … 8*number+7 as a big-endian word; zeros beyond the end."""
        if number:
            return self._load(number, slice(None) if rows is None else rows)
        if rows is not None and self._first is None:
            return self._load(0, rows)
        if self._first is None:
            self._first = self._load(0, slice(None))
        return self._first if rows is None else self._first[rows]

    def length(self, rows: Rows | None = None) -> np.ndarray:
        return self.lengths if rows is None else self.lengths[rows]

    def unused_bits(self, number: int) -> int:
        """Count the low bits of this word that are zero in every row."""
        return 8 * max(0, 8 * (number + 1) - self._longest)

    def _load(self, number: int, rows: Rows) -> np.ndarray:
        if isinstance(rows, slice) and self._text.width is not None:
            return self._text.word(number)[rows].byteswap()
        left = np.clip(self.lengths[rows] - 8 * number, 0, 8)
        places = self._text.starts[rows] + 8 * number
        words = self._text.view[np.minimum(places, len(self._text.view) - 1)]
        words &= TAIL_MASKS[left]
        return words.byteswap(inplace=True)


KeyColumn = FixedWidthKeys | VariableWidthKeys


def sort_columns(
    column: pa.Array | pa.ChunkedArray, descending: bool = False, *, signed_zeros: bool = False
) -> list[KeyColumn]:
    """Encode a column as words; a column with nulls gets a word before them, as nulls are smallest.

    Args:
        signed_zeros: -0.0 is smaller than 0.0; as keys and sequences they are the same in Paimon.

    Raises:
        UnsupportedError: the type has no order.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found: list[KeyColumn] = []
    if array.null_count:
        found.append(
            FixedWidthKeys([pc.is_valid(array).to_numpy(zero_copy_only=False).view(np.uint8)])
        )
        array = _fill(array)
    words = _words(array, signed_zeros)
    if descending:
        words = _inverted(words)
    found.append(words)
    return found


def _words(array: pa.Array, signed_zeros: bool) -> KeyColumn:
    kind = array.type
    if pa.types.is_boolean(kind):
        return FixedWidthKeys([array.to_numpy(zero_copy_only=False).view(np.uint8)])
    if pa.types.is_integer(kind):
        return FixedWidthKeys([fixed_values(array, np.dtype(kind.to_pandas_dtype()))])
    if pa.types.is_temporal(kind):
        return FixedWidthKeys([fixed_values(array, np.dtype(f"i{kind.bit_width // 8}"))])
    if pa.types.is_floating(kind) and kind.bit_width in (32, 64):
        values = fixed_values(array, np.dtype(f"f{kind.bit_width // 8}"))
        return FixedWidthKeys([_ordered_floats(values if signed_zeros else values + 0)])
    if pa.types.is_decimal128(kind):
        halves = fixed_values(array, np.dtype([("low", "u8"), ("high", "i8")]))
        if kind.precision <= 18:
            return FixedWidthKeys([np.ascontiguousarray(halves["low"]).view(np.int64)])
        return FixedWidthKeys(
            [np.ascontiguousarray(halves["high"]), np.ascontiguousarray(halves["low"])]
        )
    if pa.types.is_fixed_size_binary(kind):
        return VariableWidthKeys(array.cast(pa.binary()))
    if _is_bytes(kind):
        return VariableWidthKeys(array)
    raise UnsupportedError(f"values of type {kind} have no order to sort by", type=str(kind))


def _ordered_floats(values: np.ndarray) -> np.ndarray:
    """Encode floats as integers in the order -inf … -0.0, 0.0 … inf, NaN; every NaN is the same."""
    size = values.dtype.itemsize
    bits = np.where(np.isnan(values), values.dtype.type(np.nan), values).view(f"i{size}")
    return bits ^ ((bits >> (8 * size - 1)) & _MAGNITUDE[size])


def _fill(array: pa.Array) -> pa.Array:
    if _is_bytes(array.type):
        return array.fill_null(b"" if "binary" in str(array.type) else "")
    zero = pa.array([0 if not pa.types.is_boolean(array.type) else False])
    if pa.types.is_decimal(array.type):
        zero = zero.cast(pa.decimal128(38, 0)).cast(array.type)
    elif pa.types.is_temporal(array.type):
        zero = zero.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return pc.fill_null(array, zero.cast(array.type)[0])


def _inverted(words: KeyColumn) -> FixedWidthKeys:
    inverted = [~words.chunk(number) for number in range(words.width)]
    if isinstance(words, VariableWidthKeys):
        inverted.append(~words.length())
    return FixedWidthKeys(inverted)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
