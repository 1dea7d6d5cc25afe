"""BinaryRow: how keys, partitions and statistics are stored in manifests, vectorised over rows.

Layout, little-endian: null bits (8 bytes a 64 columns, the first 8 bits are the row kind), an
8-byte slot a column, then the variable part. In manifests a big-endian int32 arity comes before it.

Source: "BinaryRow" in Apache Paimon.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.format.row_reader import RowReader
from pkray.format.words import (
    ARITY_BYTES,
    HEADER_BITS,
    INLINE_BYTES,
    AnyWords,
    Column,
    Ints,
    Slots,
    Words,
    column_slots,
    expand,
    header_words,
    unaligned_view,
)
from pkray.schema.types import DataType

EMPTY_ROW = bytes(12)
"""The row without columns, with its arity: the partition of an unpartitioned table."""

_WORD_OFFSET_SHIFT = np.uint64(32 + 3)


def encode(
    columns: Sequence[Column], types: Sequence[DataType], *, arity_prefix: bool = True
) -> pa.Array:
    """Encode the rows of these columns, one binary value each.

    Args:
        columns: at least one, all of one length; scalar types only.
        types: of each column. A null DECIMAL(p>18) or TIMESTAMP(p>3) reserves its variable part.

    Raises:
        UnsupportedError: a type is nested.
    """
    slots = [column_slots(column, kind) for column, kind in zip(columns, types, strict=True)]
    prefix = len(types).to_bytes(ARITY_BYTES, "big") if arity_prefix else b""
    body, sizes = row_words(slots)
    return _to_binary(body, sizes, prefix)


def null_words(slots: Sequence[Slots]) -> list[AnyWords | None]:
    """Make the header's words; None where all rows have 0."""
    words: list[AnyWords | None] = [None] * header_words(len(slots))
    for i, column in enumerate(slots):
        if column.nulls is None:
            continue
        which, bit = divmod(i + HEADER_BITS, 64)
        bits = column.nulls.astype(np.uint64) << np.uint64(bit)
        before = words[which]
        words[which] = bits if before is None else before | bits
    return words


def row_words(slots: Sequence[Slots]) -> tuple[Words, Ints | int]:
    """Encode all rows' words one after the other, and count those of each (one number if all have
    as many)."""
    uniform = word_columns(slots)
    if uniform is None:
        return _ragged_words(slots)
    body = np.zeros((len(slots[0].low), len(uniform)), np.uint64)
    for j, word in enumerate(uniform):
        if word is not None:
            body[:, j] = word
    return body.reshape(-1), len(uniform)


def word_columns(slots: Sequence[Slots]) -> list[AnyWords | None] | None:
    """Encode the j-th words of all rows, for each j (None: all 0); None if the rows' sizes
    differ."""
    header = null_words(slots)
    cursor = len(header) + len(slots)
    fixed = list(header)
    variable: list[AnyWords | None] = []
    for column in slots:
        size = tail_words(column)
        if not isinstance(size, int):
            return None
        fixed.append(slot_words(column, cursor))
        variable.extend(column.tail if column.text is None else map(column.text.word, range(size)))
        cursor += size
    return fixed + variable


def _ragged_words(slots: Sequence[Slots]) -> tuple[Words, Ints]:
    header = null_words(slots)
    tails = [tail_words(column) for column in slots]
    cursor: Ints | int = len(header) + len(slots)
    sizes: Ints = np.asarray(cursor + sum(tails))
    starts = np.cumsum(sizes) - sizes
    body = np.zeros(int(sizes.sum()), np.uint64)
    for j, word in enumerate(header):
        if word is not None:
            body[starts + j] = word
    for i, (column, tail) in enumerate(zip(slots, tails, strict=True)):
        body[starts + (len(header) + i)] = slot_words(column, cursor)
        _write_tail(body, starts + cursor, column, tail)
        cursor = cursor + tail
    return body, sizes


def tail_words(column: Slots) -> Ints | int:
    """Count the words in the variable part, as one number if it is the same for all rows."""
    if column.text is None:
        return len(column.tail)
    width, lengths = column.text.width, column.text.lengths
    if width is not None:
        return (width + 7) // 8 if width > INLINE_BYTES else 0
    words: Ints = np.where(lengths > INLINE_BYTES, (lengths + 7) >> 3, 0)
    if len(words) == 0:
        return 0
    return int(words[0]) if (words == words[0]).all() else words


def slot_words(column: Slots, cursor: Ints | int) -> AnyWords:
    """Encode the column's slots, with the offset of the variable part, which is at word
    ``cursor``."""
    if column.text is None and not column.tail:
        return column.low
    offset = np.asarray(cursor, dtype=np.int64).astype(np.uint64) << _WORD_OFFSET_SHIFT
    if column.text is None:
        return column.low | offset
    lengths = column.text.lengths
    width = column.text.width
    if width is not None:
        if width <= INLINE_BYTES:
            return column.low
        return np.broadcast_to(np.uint64(width) | offset, lengths.shape)
    return column.low | np.where(lengths > INLINE_BYTES, offset, np.uint64(0))


def _write_tail(body: Words, at: Ints, column: Slots, sizes: Ints | int) -> None:
    if column.text is not None and not isinstance(sizes, int):
        rows, positions = expand(sizes)
        body[at[rows] + positions] = column.text.words(rows, positions)
        return
    words = column.tail if column.text is None else map(column.text.word, range(sizes))
    for j, word in enumerate(words):
        body[at + j] = word


def _to_binary(body: Words, sizes: Ints | int, prefix: bytes) -> pa.Array:
    if isinstance(sizes, int):
        rows = body.view(np.uint8).reshape(-1, 8 * sizes)
        count = len(rows)
        ends = np.arange(count + 1, dtype=np.int64) * (8 * sizes + len(prefix))
        if prefix:
            head = np.broadcast_to(np.frombuffer(prefix, np.uint8), (count, len(prefix)))
            rows = np.hstack([head, rows])
        data = np.ascontiguousarray(rows).reshape(-1)
    else:
        count = len(sizes)
        ends = np.zeros(count + 1, np.int64)
        np.cumsum(sizes * 8 + len(prefix), out=ends[1:])
        data = body.view(np.uint8)
        if prefix:
            data = np.empty(int(ends[-1]), np.uint8)
            for i, byte in enumerate(prefix):
                data[ends[:-1] + i] = byte
            rows_of, j = expand(sizes)
            unaligned_view(data)[ends[rows_of] + len(prefix) + 8 * j] = body
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{count} rows take {ends[-1]} bytes: encode fewer at a time")
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def decode(rows: Sequence[bytes] | pa.Array, types: Sequence[DataType]) -> list[pa.Array]:
    """Decode rows that carry their arity into columns, as canonical Arrow arrays.

    Raises:
        CorruptFileError: a row has another arity, or points outside itself.
        UnsupportedError: a type is nested.
    """
    return RowReader(rows, len(types)).columns(types)


def decode_column(rows: pa.Array, position: int, types: Sequence[DataType]) -> pa.Array:
    """Decode one column of such rows. Raises as `decode`."""
    return RowReader(rows, len(types)).column(position, types[position])
