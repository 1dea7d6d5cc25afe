"""Columns as the 8-byte words of BinaryRow: what each contributes to a row, vectorised over rows.

Source: BinaryRow in Apache Paimon, little-endian. All arrays are of one column and one entry a
row; words are uint64.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.schema.types import BINARIES, STRINGS, TIMESTAMPS, DataType

Words = npt.NDArray[np.uint64]
AnyWords = npt.NDArray[np.unsignedinteger[Any]]
"""Words, or what fills only their lower bytes."""
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column: TypeAlias = pa.Array | pa.ChunkedArray

ARITY_BYTES = 4
HEADER_BITS = 8
INLINE_BYTES = 7
COMPACT_DECIMAL_PRECISION = 18
COMPACT_TIMESTAMP_PRECISION = 3

FIXED_BYTES = {
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "BIGINT": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "DATE": 4,
    "TIME": 4,
}
# Of a word, the bytes that belong to the value when this many are left of it.
TAIL_MASKS: Words = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_INLINE_MARKS: Words = np.array([(0x80 | n) << 56 for n in range(8)], dtype=np.uint64)


@dataclass(frozen=True)
class Bytes:
    """A column of byte strings.

    ``view[b]`` is the word at byte b of ``data``, for any b a value can start or go on at. Null
    values have length 0. ``width`` is the length of all values if it is the same, and they lie one
    after the other: their words are then read without a gather.
    """

    data: npt.NDArray[np.uint8]
    view: Words
    offsets: npt.NDArray[np.int32]
    lengths: Ints
    width: int | None = None

    @cached_property
    def starts(self) -> Ints:
        """Tell where in ``data`` each value begins."""
        return self.offsets[:-1].astype(np.int64)

    def word(self, j: int) -> Words:
        """Return the j-th word of every value, zero padded; none may end before it."""
        if self.width is None:
            return self.words(slice(None), j)
        mask = TAIL_MASKS[min(self.width - 8 * j, 8)]
        words = self._strided(8 * j)
        return words if self.width >= 8 * j + 8 else words & mask

    def words(self, rows: Ints | slice, j: Ints | int) -> Words:
        """Return the j-th words of the values of ``rows``."""
        left = np.minimum(self.lengths[rows] - 8 * j, 8)
        return self.view[self.starts[rows] + 8 * j] & TAIL_MASKS[left]

    def slots(self) -> Words:
        """Encode short values with their length marked; of values over 7 bytes the length alone."""
        if self.width is not None and self.width > INLINE_BYTES:
            return np.broadcast_to(np.uint64(self.width), self.lengths.shape)
        if self.width is not None:
            mark = np.uint64((0x80 | self.width) << 56)
            return self._strided(0) & TAIL_MASKS[self.width] | mark
        inline = np.minimum(self.lengths, INLINE_BYTES)
        marked = self.view[self.starts] & TAIL_MASKS[inline] | _INLINE_MARKS[inline]
        return np.where(self.lengths > INLINE_BYTES, self.lengths.view(np.uint64), marked)

    def _strided(self, offset: int) -> Words:
        start = int(self.offsets[0]) + offset
        strides = (self.width or 0,)
        return np.ndarray(self.lengths.shape, np.uint64, self.data.data, start, strides)


@dataclass(frozen=True)
class Slots:
    """A column's part of the rows.

    Args:
        low: the slot, in as many bytes as the type has; for a value kept in the variable part
            without its offset (upper 32 bits).
        nulls: True where the value is null, or None if there is none.
        tail: words in the variable part: one array a word, the same number for every row.
        text: the bytes of a column of byte strings, else None.
    """

    low: AnyWords
    nulls: Bools | None
    tail: tuple[Words, ...] = ()
    text: Bytes | None = None


def header_words(arity: int) -> int:
    """Count the words of the row kind and the null bits."""
    return (arity + HEADER_BITS + 63) // 64


def expand(sizes: Ints) -> tuple[Ints, Ints]:
    """Number rows and positions: for sizes 2, 0, 3, rows 0 0 2 2 2 and positions 0 1 0 1 2."""
    rows = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    first = np.cumsum(sizes) - sizes
    return rows, np.arange(len(rows), dtype=np.int64) - first[rows]


def one_array(column: Column, data_type: DataType) -> pa.Array:
    """Combine the column into one array of the type's canonical Arrow type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else column
    return column if column.type == data_type.arrow else column.cast(data_type.arrow)


def null_mask(array: pa.Array) -> Bools | None:
    """Flag where the array is null: bool, one a value; None if it nowhere is."""
    if array.null_count == 0:
        return None
    mask: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def column_slots(column: Column, data_type: DataType) -> Slots:
    """Encode what a column contributes to its rows.

    Raises:
        UnsupportedError: the type is nested.
    """
    array = one_array(column, data_type)
    nulls = null_mask(array)
    root = data_type.root
    if root in STRINGS or root in BINARIES:
        text = text_bytes(array, nulls)
        return Slots(_without_nulls(text.slots(), nulls), nulls, text=text)
    if root == "DECIMAL":
        return _decimal_slots(array, data_type, nulls)
    if root in TIMESTAMPS:
        return _timestamp_slots(array, data_type, nulls)
    if root == "BOOLEAN":
        return Slots(_without_nulls(flag_values(array), nulls), nulls)
    if root in FIXED_BYTES:
        values = fixed_values(array, raw_type(FIXED_BYTES[root]))
        return Slots(_without_nulls(values, nulls), nulls)
    raise UnsupportedError(f"{data_type} cannot be in a BinaryRow; use a scalar type")


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View the values of a fixed-width array as they lie in memory; any value where it is null."""
    kind, buffer = np.dtype(dtype), array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def flag_values(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Unpack the values of a boolean array, 0 or 1; any value where it is null."""
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    return np.unpackbits(bits, bitorder="little")[array.offset :][: len(array)]


def raw_type(width: int) -> np.dtype[Any]:
    """Choose a type for values of so many bytes: unsigned integers, or bytes if no integer is as
    wide."""
    return np.dtype(f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}")


def unaligned_view(data: npt.NDArray[np.uint8]) -> Words:
    """View the words at every byte of ``data`` (all but its last seven)."""
    return np.ndarray((max(len(data) - 7, 0),), np.uint64, data.data, strides=(1,))


def text_bytes(array: pa.Array, nulls: Bools | None) -> Bytes:
    """View a string or binary array as :class:`Bytes`."""
    count = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or count == 0:
        padding = np.zeros(8, np.uint8)
        empty = np.zeros(count, np.int64)
        return Bytes(padding, unaligned_view(padding), np.zeros(count + 1, np.int32), empty)
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + count + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    end = int(offsets[-1])
    if len(data) < end + 8:
        # The last value's words reach up to eight bytes past it; copy no more than is used.
        first = int(offsets[0])
        data = np.concatenate([data[first:end], np.zeros(8, np.uint8)])
        offsets = offsets - first
    lengths = np.diff(offsets)
    if nulls is not None:
        lengths[nulls] = 0
    elif (lengths == lengths[0]).all():
        width = int(lengths[0])
        same = np.broadcast_to(np.int64(width), (count,))
        return Bytes(data, unaligned_view(data), offsets, same, width)
    return Bytes(data, unaligned_view(data), offsets, lengths.astype(np.int64))


def _decimal_slots(array: pa.Array, data_type: DataType, nulls: Bools | None) -> Slots:
    halves = fixed_values(array, np.dtype(("i8", 2)))
    low, high = halves[:, 0].view(np.uint64), halves[:, 1]
    if (data_type.precision or 0) <= COMPACT_DECIMAL_PRECISION:
        return Slots(_without_nulls(low.copy(), nulls), nulls)
    lengths = decimal_lengths(low, high)
    # Big-endian bytes, then zeros: reading at the first significant byte aligns them to the left.
    big = np.zeros((len(array), 4), np.uint64)
    big[:, 0], big[:, 1] = high.view(np.uint64).byteswap(), low.byteswap()
    starts = np.arange(len(array)) * 32 + 16 - lengths
    view = unaligned_view(big.reshape(-1).view(np.uint8))
    tail = tuple(_without_nulls(view[starts + 8 * j], nulls) for j in range(2))
    return Slots(_without_nulls(lengths.astype(np.uint64), nulls), nulls, tail)


def decimal_lengths(low: Words, high: Ints) -> Ints:
    """Count the bytes of the shortest two's complement of 128-bit integers (1 to 16)."""
    sign = (high >> 63).view(np.uint64)
    steps = np.array([1 << (8 * k - 1) for k in range(1, 9)], np.uint64)
    of_low = np.searchsorted(steps, low ^ sign, side="right")
    of_high = np.searchsorted(steps, high.view(np.uint64) ^ sign, side="right")
    lengths: Ints = 1 + np.where(high.view(np.uint64) == sign, of_low, 8 + of_high)
    return lengths


def _timestamp_slots(array: pa.Array, data_type: DataType, nulls: Bools | None) -> Slots:
    values = fixed_values(array, np.int64)
    if (data_type.precision or 0) <= COMPACT_TIMESTAMP_PRECISION:
        return Slots(_without_nulls(values.view(np.uint64), nulls), nulls)
    per_milli = 1_000 if array.type.unit == "us" else 1_000_000
    millis = values // per_milli
    nanos = (values - millis * per_milli) * (1_000_000 // per_milli)
    return Slots(
        _without_nulls(nanos.view(np.uint64), nulls),
        nulls,
        (_without_nulls(millis.view(np.uint64), nulls),),
    )


def _without_nulls(words: npt.NDArray[Any], nulls: Bools | None) -> npt.NDArray[Any]:
    return words if nulls is None else np.where(nulls, words.dtype.type(0), words)
