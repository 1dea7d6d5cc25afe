"""Which bucket a key belongs to: Paimon's hash of the bucket key, vectorised.

Murmur3_32 (seed 42) over the BinaryRow without its arity, 32-bit little-endian words. Rows are
hashed from their columns: the row is built only where strings make the rows differ in size.

Source: "bucket" and "bucket-function.type" in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pkray.errors import UnsupportedError
from pkray.format.binary_row import row_words, word_columns
from pkray.format.words import Column, Ints, Slots, Words, column_slots, one_array
from pkray.types import DataType

Hashes = npt.NDArray[np.int32]
State = npt.NDArray[np.uint32]

BLOCK_ROWS = 32 * 1024
"""Rows hashed at a time: the state and its temporaries stay in the CPU's cache."""

_SEED = 42
_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_HALF = np.uint64(32)


def assign_buckets(
    columns: Sequence[Column],
    types: Sequence[DataType],
    num_buckets: int,
    function: str = "default",
) -> npt.NDArray[np.int32]:
    """The bucket (0 to ``num_buckets`` - 1) of each row.

    Args:
        columns: the bucket key's columns, in order.
        function: ``bucket-function.type``: ``default`` (hash) or ``mod`` (one INT or BIGINT).

    Raises:
        UnsupportedError: ``mod`` on other columns, or another function.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets is {num_buckets}: at least 1")
    if function == "mod":
        return _modulo(columns, types, num_buckets)
    if function != "default":
        raise UnsupportedError(
            f"bucket-function.type={function!r} is not supported; use 'default' or 'mod'",
            option="bucket-function.type",
            value=function,
        )
    if num_buckets == 1:
        return np.zeros(len(columns[0]), np.int32)
    hashes = hash_rows(columns, types)
    # Java's remainder has the sign of the hash: its size is what numpy's fmod gives.
    return np.abs(np.fmod(hashes, np.int32(num_buckets)))


def _modulo(
    columns: Sequence[Column], types: Sequence[DataType], num_buckets: int
) -> npt.NDArray[np.int32]:
    if len(types) != 1 or types[0].root not in ("INT", "BIGINT"):
        raise UnsupportedError(
            "bucket-function.type='mod' takes one INT or BIGINT bucket key, not "
            f"({', '.join(map(str, types))}); use 'default'",
            option="bucket-function.type",
            value="mod",
        )
    keys = one_array(columns[0], types[0]).to_numpy(zero_copy_only=False)
    return np.mod(keys, num_buckets).astype(np.int32)


def hash_rows(columns: Sequence[Column], types: Sequence[DataType]) -> Hashes:
    """The hash of each row of these columns."""
    arrays = [one_array(column, kind) for column, kind in zip(columns, types, strict=True)]
    hashes = np.empty(len(arrays[0]), np.uint32)
    for start in range(0, len(hashes), BLOCK_ROWS):
        block = [array.slice(start, BLOCK_ROWS) for array in arrays]
        slots = [column_slots(array, kind) for array, kind in zip(block, types, strict=True)]
        _hash_block(slots, hashes[start : start + BLOCK_ROWS])
    return hashes.view(np.int32)


def _hash_block(slots: Sequence[Slots], out: State) -> None:
    uniform = word_columns(slots)
    if uniform is None:
        _hash_ragged(*row_words(slots), out)
        return
    out[:] = _SEED
    scratch = np.empty((2, len(out)), np.uint32)
    for word in uniform:
        _mix_word(out, word, scratch)
    _finish(out, np.uint32(8 * len(uniform)), scratch)


def _hash_ragged(body: Words, sizes: Ints | int, out: State) -> None:
    """Longest rows first, so that those which still have a j-th word are a prefix."""
    sizes = np.broadcast_to(np.asarray(sizes), out.shape)
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    starts, ordered = starts[order], sizes[order]
    state = np.full(len(out), _SEED, np.uint32)
    scratch = np.empty((2, len(out)), np.uint32)
    longer = np.searchsorted(-ordered, -np.arange(ordered[0]), side="left")
    for j, rows in enumerate(longer.tolist()):
        _mix_word(state[:rows], body[starts[:rows] + j], scratch[:, :rows])
    _finish(state, (ordered * 8).astype(np.uint32), scratch)
    out[order] = state


def _mix_word(state: State, word: Words | None, scratch: npt.NDArray[np.uint32]) -> None:
    """Take in the two 32-bit halves of an 8-byte word, the lower first."""
    for half in range(2):
        if word is not None:
            k, spare = scratch
            np.copyto(k, word if half == 0 else word >> _HALF, casting="unsafe")
            np.multiply(k, _C1, out=k)
            _rotate(k, 15, spare)
            np.multiply(k, _C2, out=k)
            np.bitwise_xor(state, k, out=state)
        _rotate(state, 13, scratch[0])
        np.multiply(state, np.uint32(5), out=state)
        np.add(state, _C3, out=state)


def _rotate(values: State, bits: int, spare: State) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=spare)
    np.left_shift(values, np.uint32(bits), out=values)
    np.bitwise_or(values, spare, out=values)


def _finish(state: State, sizes: State | np.uint32, scratch: npt.NDArray[np.uint32]) -> None:
    spare = scratch[0]
    np.bitwise_xor(state, sizes, out=state)
    for shift, factor in ((16, _F1), (13, _F2), (16, None)):
        np.right_shift(state, np.uint32(shift), out=spare)
        np.bitwise_xor(state, spare, out=state)
        if factor is not None:
            np.multiply(state, factor, out=state)
