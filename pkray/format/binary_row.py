"""BinaryRow: how keys, partitions and statistics are stored in manifests, vectorised over rows.

Layout, little-endian: null bits (8 bytes a 64 columns, the first 8 bits are the row kind), an
8-byte slot a column, then the variable part. In manifests a big-endian int32 arity comes before it.

Source: "BinaryRow" in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format.words import (
    COMPACT_DECIMAL_PRECISION,
    COMPACT_TIMESTAMP_PRECISION,
    FIXED_BYTES,
    INLINE_BYTES,
    AnyWords,
    Bools,
    Column,
    Ints,
    Slots,
    Words,
    column_slots,
    text_bytes,
    unaligned_view,
)
from pkray.types import BINARIES, STRINGS, TIMESTAMPS, DataType

ARITY_BYTES = 4
HEADER_BITS = 8
EMPTY_ROW = bytes(12)
"""The row without columns, with its arity: the partition of an unpartitioned table."""

_OFFSET_SHIFT = np.uint64(32)
_WORD_OFFSET_SHIFT = np.uint64(32 + 3)


def encode(
    columns: Sequence[Column], types: Sequence[DataType], *, arity_prefix: bool = True
) -> pa.Array:
    """The rows of these columns, one binary value each.

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


def header_words(arity: int) -> int:
    return (arity + HEADER_BITS + 63) // 64


def null_words(slots: Sequence[Slots]) -> list[AnyWords | None]:
    """The header's words; None where all rows have 0."""
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
    """All rows' words one after the other, and the number of words of each (one if all equal)."""
    uniform = word_columns(slots)
    if uniform is None:
        return _ragged_words(slots)
    body = np.zeros((len(slots[0].low), len(uniform)), np.uint64)
    for j, word in enumerate(uniform):
        if word is not None:
            body[:, j] = word
    return body.reshape(-1), len(uniform)


def word_columns(slots: Sequence[Slots]) -> list[AnyWords | None] | None:
    """The j-th words of all rows, for each j (None: all 0); None if the rows' sizes differ."""
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
    """Words in the variable part, as one number if it is the same for all rows."""
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
    """The column's slots: with the offset of the variable part, which is at word ``cursor``."""
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


def expand(sizes: Ints) -> tuple[Ints, Ints]:
    """For sizes 2, 0, 3: rows 0 0 2 2 2 and positions 0 1 0 1 2."""
    rows = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    first = np.cumsum(sizes) - sizes
    return rows, np.arange(len(rows), dtype=np.int64) - first[rows]


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
    """The columns of rows that carry their arity, as canonical Arrow arrays.

    Raises:
        CorruptFileError: a row has another arity, or points outside itself.
        UnsupportedError: a type is nested.
    """
    return _Reader(rows, len(types)).columns(types)


class _Reader:
    """Rows laid over one buffer, read a column at a time."""

    def __init__(self, rows: Sequence[bytes] | pa.Array, arity: int) -> None:
        array = rows if isinstance(rows, pa.Array) else pa.array(rows, pa.binary())
        text = text_bytes(array.cast(pa.binary()), None)
        self.count, self.arity = len(array), arity
        self.view = text.view
        self.bytes = text.data
        self.starts = text.starts + ARITY_BYTES
        self.sizes = text.lengths - ARITY_BYTES
        self.slots = self.starts + 8 * header_words(arity)
        self._check(text.starts)

    def _check(self, starts: Ints) -> None:
        least = 8 * (header_words(self.arity) + self.arity)
        short = self.sizes < least
        if short.any():
            raise _corrupt(f"a row has {int(self.sizes[short][0])} bytes, {least} are due")
        found = (self.view[starts] & np.uint64(0xFFFFFFFF)).astype(np.uint32).byteswap()
        if (found != self.arity).any():
            wrong = int(found[found != self.arity][0])
            raise _corrupt(f"a row has {wrong} columns, {self.arity} are due")

    def columns(self, types: Sequence[DataType]) -> list[pa.Array]:
        return [self._column(i, kind) for i, kind in enumerate(types)]

    def _column(self, i: int, kind: DataType) -> pa.Array:
        which, bit = divmod(i + HEADER_BITS, 64)
        word = self.view[self.starts + 8 * which]
        valid = (word >> np.uint64(bit)) & np.uint64(1) == 0
        slot = self.view[self.slots + 8 * i]
        if kind.root in STRINGS or kind.root in BINARIES:
            return self._text(i, kind, slot, valid)
        if kind.root == "DECIMAL":
            low, high = self._decimal(kind, slot, valid)
            return _array(kind, valid, np.stack([low, high.view(np.uint64)], axis=1))
        if kind.root in TIMESTAMPS:
            return _array(kind, valid, self._timestamp(kind, slot, valid))
        if kind.root == "BOOLEAN":
            return pa.array((slot & np.uint64(1)).astype(np.bool_), mask=~valid)
        if kind.root not in FIXED_BYTES:
            raise UnsupportedError(f"{kind} cannot be in a BinaryRow; use a scalar type")
        return _array(kind, valid, slot.astype(f"u{FIXED_BYTES[kind.root]}"))

    def _pointed(self, slot: Words, used: Bools, size: Ints | int) -> Ints:
        """Where in the buffer the variable part of each row is; row start where not used."""
        offset = (slot >> _OFFSET_SHIFT).astype(np.int64)
        if (used & ((offset < 0) | (offset + size > self.sizes))).any():
            raise _corrupt("a row points outside itself")
        return self.starts + np.where(used, offset, 0)

    def _text(self, i: int, kind: DataType, slot: Words, valid: Bools) -> pa.Array:
        mark = slot >> np.uint64(56)
        inline = mark >= 0x80
        length = np.where(inline, mark & np.uint64(0x7F), slot & np.uint64(0xFFFFFFFF))
        lengths: Ints = np.where(valid, length, 0).astype(np.int64)
        if (inline & valid & (lengths > INLINE_BYTES)).any():
            raise _corrupt("a row has an inline value of more than 7 bytes")
        pointed = self._pointed(slot, valid & ~inline, lengths)
        source = np.where(inline, self.slots + 8 * i, pointed)
        ends = np.zeros(self.count + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        of_row, position = expand(lengths)
        data = self.bytes[source[of_row] + position]
        buffers = [_bitmap(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        array = pa.Array.from_buffers(kind.arrow, self.count, buffers)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _corrupt(f"a row holds a string that is not UTF-8 ({error})") from error
        return array

    def _decimal(self, kind: DataType, slot: Words, valid: Bools) -> tuple[Words, Ints]:
        if (kind.precision or 0) <= COMPACT_DECIMAL_PRECISION:
            return slot, slot.view(np.int64) >> 63
        lengths = np.where(valid, slot & np.uint64(0xFFFFFFFF), 16).astype(np.int64)
        if ((lengths < 1) | (lengths > 16)).any():
            raise _corrupt("a row has a decimal that is not 1 to 16 bytes long")
        at = self._pointed(slot, valid, 16)
        high = self.view[at].byteswap().view(np.int64)
        low = self.view[np.where(valid, at + 8, at)].byteswap()
        # Left-aligned bytes, shifted right arithmetically to the place of a 128-bit integer.
        bits = (16 - lengths) * 8
        far = bits >= 64
        near = np.where(far, 0, bits).astype(np.uint64)
        carried = np.where(near > 0, high.view(np.uint64) << (np.uint64(64) - near) % 64, 0)
        from_high = (high >> np.maximum(bits - 64, 0)).view(np.uint64)
        low = np.where(far, from_high, low >> near | carried)
        high = np.where(far, high >> 63, high >> near.astype(np.int64))
        return low.astype(np.uint64), high

    def _timestamp(self, kind: DataType, slot: Words, valid: Bools) -> Ints:
        if (kind.precision or 0) <= COMPACT_TIMESTAMP_PRECISION:
            return slot.view(np.int64)
        millis = self.view[self._pointed(slot, valid, 8)].view(np.int64)
        nanos = (slot & np.uint64(0xFFFFFFFF)).astype(np.int64)
        if kind.arrow.unit == "us":
            return millis * 1_000 + nanos // 1_000
        return millis * 1_000_000 + nanos


def _array(kind: DataType, valid: Bools, values: npt.NDArray[np.generic]) -> pa.Array:
    buffers = [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind.arrow, len(valid), buffers)


def _bitmap(valid: Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _corrupt(reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"a stored key, partition or statistic is damaged: {reason}; "
        "the manifest it came from is not of this table, or broken",
        reason=reason,
    )
