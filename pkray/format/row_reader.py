"""Reads BinaryRows laid one after the other in a buffer into columns."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format import words
from pkray.schema.types import BINARIES, STRINGS, TIMESTAMPS, DataType

_OFFSET_SHIFT = np.uint64(32)


class RowReader:
    """Rows laid over one buffer, read a column at a time."""

    def __init__(self, rows: Sequence[bytes] | pa.Array, arity: int) -> None:
        array = rows if isinstance(rows, pa.Array) else pa.array(rows, pa.binary())
        text = words.text_bytes(array.cast(pa.binary()), None)
        self.count, self.arity = len(array), arity
        self.view = text.view
        self.bytes = text.data
        self.starts = text.starts + words.ARITY_BYTES
        self.sizes = text.lengths - words.ARITY_BYTES
        self.slots = self.starts + 8 * words.header_words(arity)
        self._check(text.starts)

    def _check(self, starts: words.Ints) -> None:
        least = 8 * (words.header_words(self.arity) + self.arity)
        short = self.sizes < least
        if short.any():
            raise _corrupt(f"a row has {int(self.sizes[short][0])} bytes, {least} are due")
        found = (self.view[starts] & np.uint64(0xFFFFFFFF)).astype(np.uint32).byteswap()
        if (found != self.arity).any():
            wrong = int(found[found != self.arity][0])
            raise _corrupt(f"a row has {wrong} columns, {self.arity} are due")

    def columns(self, types: Sequence[DataType]) -> list[pa.Array]:
        return [self.column(i, kind) for i, kind in enumerate(types)]

    def column(self, i: int, kind: DataType) -> pa.Array:
        """Decode the field at one position: a value a row."""
        which, bit = divmod(i + words.HEADER_BITS, 64)
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
        if kind.root not in words.FIXED_BYTES:
            raise UnsupportedError(f"{kind} cannot be in a BinaryRow; use a scalar type")
        return _array(kind, valid, slot.astype(f"u{words.FIXED_BYTES[kind.root]}"))

    def _pointed(self, slot: words.Words, used: words.Bools, size: words.Ints | int) -> words.Ints:
        """Locate the variable part of each row in the buffer; row start where not used."""
        offset = (slot >> _OFFSET_SHIFT).astype(np.int64)
        if (used & ((offset < 0) | (offset + size > self.sizes))).any():
            raise _corrupt("a row points outside itself")
        return self.starts + np.where(used, offset, 0)

    def _text(self, i: int, kind: DataType, slot: words.Words, valid: words.Bools) -> pa.Array:
        mark = slot >> np.uint64(56)
        inline = mark >= 0x80
        length = np.where(inline, mark & np.uint64(0x7F), slot & np.uint64(0xFFFFFFFF))
        lengths: words.Ints = np.where(valid, length, 0).astype(np.int64)
        if (inline & valid & (lengths > words.INLINE_BYTES)).any():
            raise _corrupt("a row has an inline value of more than 7 bytes")
        pointed = self._pointed(slot, valid & ~inline, lengths)
        source = np.where(inline, self.slots + 8 * i, pointed)
        ends = np.zeros(self.count + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        of_row, position = words.expand(lengths)
        data = self.bytes[source[of_row] + position]
        buffers = [_bitmap(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        array = pa.Array.from_buffers(kind.arrow, self.count, buffers)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _corrupt(f"a row holds a string that is not UTF-8 ({error})") from error
        return array

    def _decimal(
        self, kind: DataType, slot: words.Words, valid: words.Bools
    ) -> tuple[words.Words, words.Ints]:
        if (kind.precision or 0) <= words.COMPACT_DECIMAL_PRECISION:
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

    def _timestamp(self, kind: DataType, slot: words.Words, valid: words.Bools) -> words.Ints:
        if (kind.precision or 0) <= words.COMPACT_TIMESTAMP_PRECISION:
            return slot.view(np.int64)
        millis = self.view[self._pointed(slot, valid, 8)].view(np.int64)
        nanos = (slot & np.uint64(0xFFFFFFFF)).astype(np.int64)
        if kind.arrow.unit == "us":
            return millis * 1_000 + nanos // 1_000
        return millis * 1_000_000 + nanos


def _array(kind: DataType, valid: words.Bools, values: npt.NDArray[np.generic]) -> pa.Array:
    buffers = [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind.arrow, len(valid), buffers)


def _bitmap(valid: words.Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _corrupt(reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"a stored key, partition or statistic is damaged: {reason}; "
        "the manifest it came from is not of this table, or broken",
        reason=reason,
    )
