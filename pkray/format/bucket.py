"""Assign keys to buckets by Paimon's hash of the bucket key, vectorised.

Murmur3_32 (seed 42) over the BinaryRow without its arity, 32-bit little-endian words. Rows are
hashed from their columns: the row is built only where strings make the rows differ in size.

Source: "bucket" and "bucket-function.type" in Apache Paimon.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pkray.errors import UnsupportedError
from pkray.format import words
from pkray.format.binary_row import null_words, slot_words, tail_words
from pkray.schema.types import DataType

Hashes = npt.NDArray[np.int32]
State = npt.NDArray[np.uint32]

BLOCK_ROWS = 32 * 1024
"""Rows hashed at a time: the state and its temporaries stay in the CPU's cache."""

_SEED = 42
_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_HALF = np.uint64(32)


def assign_buckets(
    columns: Sequence[words.Column],
    types: Sequence[DataType],
    num_buckets: int,
    function: str = "default",
) -> npt.NDArray[np.int32]:
    """Assign each row its bucket: int32, 0 to ``num_buckets`` - 1, one a row.

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
    columns: Sequence[words.Column], types: Sequence[DataType], num_buckets: int
) -> npt.NDArray[np.int32]:
    if len(types) != 1 or types[0].root not in ("INT", "BIGINT"):
        raise UnsupportedError(
            "bucket-function.type='mod' takes one INT or BIGINT bucket key, not "
            f"({', '.join(map(str, types))}); use 'default'",
            option="bucket-function.type",
            value="mod",
        )
    keys = words.one_array(columns[0], types[0]).to_numpy(zero_copy_only=False)
    return np.mod(keys, num_buckets).astype(np.int32)


def hash_rows(columns: Sequence[words.Column], types: Sequence[DataType]) -> Hashes:
    """Hash each row of these columns: int32, one a row."""
    arrays = [words.one_array(column, kind) for column, kind in zip(columns, types, strict=True)]
    hashes = np.empty(len(arrays[0]), np.uint32)
    for start in range(0, len(hashes), BLOCK_ROWS):
        block = [array.slice(start, BLOCK_ROWS) for array in arrays]
        slots = [words.column_slots(array, kind) for array, kind in zip(block, types, strict=True)]
        _hash_block(slots, hashes[start : start + BLOCK_ROWS])
    return hashes.view(np.int32)


def _hash_block(slots: Sequence[words.Slots], out: State) -> None:
    """Each row's words in their order: header, slots, then the columns' variable parts."""
    scratch = np.empty((2, len(out)), np.uint32)
    state = np.full(1, _SEED, np.uint32)  # of all rows, until they differ

    def mix(word: words.AnyWords | None) -> None:
        nonlocal state
        if len(state) == 1 and word is not None:
            if word.strides == (0,):
                word = word[:1]
            else:
                out[:] = state
                state = out
        _mix_word(state, word, scratch[:, : len(state)])

    for word in null_words(slots):
        mix(word)
    cursor: words.Ints | int = words.header_words(len(slots)) + len(slots)
    tails = [tail_words(column) for column in slots]
    for column, tail in zip(slots, tails, strict=True):
        mix(slot_words(column, cursor))
        cursor = cursor + tail
    for column, tail in zip(slots, tails, strict=True):
        if column.text is None:
            for word in column.tail:
                mix(word)
        elif isinstance(tail, int):
            for j in range(tail):
                mix(column.text.word(j))
        else:
            _mix_ragged(state, column.text, tail, scratch)
    out[:] = state
    _finish(out, np.asarray(cursor * 8).astype(np.uint32), scratch)


def _mix_ragged(state: State, text: words.Bytes, sizes: words.Ints, scratch: State) -> None:
    """Longest values first, so that those which have a j-th word are the first ones."""
    longest = int(sizes.max())
    shortness = longest - sizes
    if longest < 1 << 16:
        shortness = shortness.astype(np.uint16)  # which numpy sorts by radix
    order = np.argsort(shortness, kind="stable")
    having = len(sizes) - np.cumsum(np.bincount(sizes))[:-1]
    rows = order[: having[0]]
    starts, lengths, mixed = text.starts[rows], text.lengths[rows], state[rows]
    for j, (count, going_on) in enumerate(itertools.pairwise([*having.tolist(), 0])):
        word = text.view[starts[:count]]
        word[going_on:] &= words.TAIL_MASKS[lengths[going_on:count] - 8 * j]
        starts[:going_on] += 8
        _mix_word(mixed[:count], word, scratch[:, :count])
    state[rows] = mixed


def _mix_word(state: State, word: words.AnyWords | None, scratch: State) -> None:
    """Take in the two 32-bit halves of an 8-byte word, the lower first."""
    k, spare = scratch
    if word is None:
        _mix(state, None, spare)
        _mix(state, None, spare)
        return
    np.copyto(k, word, casting="unsafe")
    _mix(state, k, spare)
    if word.itemsize < 8:
        _mix(state, None, spare)
        return
    np.right_shift(word, _HALF, out=k, casting="unsafe")
    _mix(state, k, spare)


def _mix(state: State, k: State | None, spare: State) -> None:
    """Take in 32 bits a row; None is 0. Overwrites ``k`` and ``spare``."""
    if k is not None:
        np.multiply(k, _C1, out=k)
        _rotate(k, 15, spare)
        np.multiply(k, _C2, out=k)
        np.bitwise_xor(state, k, out=state)
    _rotate(state, 13, spare)
    np.multiply(state, np.uint32(5), out=state)
    np.add(state, _C3, out=state)


def _rotate(values: State, bits: int, spare: State) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=spare)
    np.left_shift(values, np.uint32(bits), out=values)
    np.bitwise_or(values, spare, out=values)


def _finish(state: State, sizes: State, scratch: State) -> None:
    spare = scratch[0]
    np.bitwise_xor(state, sizes, out=state)
    for shift, factor in ((16, _F1), (13, _F2), (16, None)):
        np.right_shift(state, np.uint32(shift), out=spare)
        np.bitwise_xor(state, spare, out=state)
        if factor is not None:
            np.multiply(state, factor, out=state)
