"""Keys compared for equality: by 64-bit hashes, and by their bytes."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.words import Words, fixed_values, text_bytes

Bools = npt.NDArray[np.bool_]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_THIRD = np.uint64(29)

Mix = Callable[[Words, Words], None]
"""Takes words into hashes, in place."""


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Combine a column's chunks into one plain array."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Combine a table's chunks into one batch of plain arrays."""
    columns = [one_chunk(column) for column in table.columns]
    fields = [f.with_type(c.type) for f, c in zip(table.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def hash_keys(columns: Sequence[pa.Array]) -> Words:
    """Hash keys to uint64, one a row; equal keys have equal hashes."""
    return _hash(columns, _mix)


def hash_keys_otherwise(columns: Sequence[pa.Array]) -> Words:
    """Hash keys to other uint64 values: keys that `hash_keys` takes for one differ in them."""
    return _hash(columns, _mix_twice)


def _hash(columns: Sequence[pa.Array], mix: Mix) -> Words:
    hashes = np.zeros(len(columns[0]), np.uint64)
    for array in columns:
        if is_text(array.type):
            _hash_text(hashes, array, mix)
        else:
            for word in _bits(array):
                mix(hashes, word)
    hashes *= _FINISH
    hashes ^= hashes >> _HALF
    hashes *= _MIX
    return hashes


def _mix(hashes: Words, word: Words) -> None:
    hashes ^= word
    hashes *= _MIX
    hashes ^= hashes >> _HALF


def _mix_twice(hashes: Words, word: Words) -> None:
    _mix(hashes, word)
    hashes *= _FINISH
    hashes ^= hashes >> _THIRD


def _hash_text(hashes: Words, array: pa.Array, mix: Mix) -> None:
    text = text_bytes(array, None)
    lengths = text.lengths
    longest = int(lengths.max(initial=0))
    shortest = int(lengths.min(initial=0))
    for j in range((longest + 7) // 8):
        if shortest > 8 * j:
            mix(hashes, text.word(j))
        else:
            rows = np.flatnonzero(lengths > 8 * j)
            some = hashes[rows]
            mix(some, text.words(rows, j))
            hashes[rows] = some
    mix(hashes, lengths.astype(np.uint64))


def _bits(array: pa.Array) -> list[Words]:
    """Return the values' bits, as one or two words."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return [array.to_numpy(zero_copy_only=False).astype(np.uint64)]
    if pa.types.is_decimal(kind):
        halves = fixed_values(array, np.dtype(("u8", 2)))
        return [np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])]
    if pa.types.is_floating(kind):
        return [_float_bits(array)]
    values = fixed_values(array, np.dtype(f"i{kind.bit_width // 8}"))
    return [values.astype(np.int64, copy=False).view(np.uint64)]


def _float_bits(array: pa.Array) -> Words:
    """IEEE bits as float64, all NaN alike and both zeros."""
    values = fixed_values(array, array.type.to_pandas_dtype()).astype(np.float64) + 0
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
    """Compare two lists of key columns row by row: whether they hold the same key."""
    same = np.ones(len(left[0]), np.bool_)
    for a, b in zip(left, right, strict=True):
        if is_text(a.type):
            same &= _equal_text(a, b)
        else:
            for x, y in zip(_bits(a), _bits(b), strict=True):
                same &= x == y
    return same


def _equal_text(left: pa.Array, right: pa.Array) -> Bools:
    a, b = text_bytes(left, None), text_bytes(right, None)
    same = a.lengths == b.lengths
    longest = int(a.lengths.max(initial=0, where=same))
    for j in range((longest + 7) // 8):
        rows = np.flatnonzero(same & (a.lengths > 8 * j))
        same[rows] = a.words(rows, j) == b.words(rows, j)
    return same
