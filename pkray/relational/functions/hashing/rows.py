"""Hashes of rows that are the same everywhere.

They choose the rows of samples and splits, so that what they give never changes.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.functions.coercion import BIGINT
from pkray.relational.functions.function import NO_SPARK, Value, Written
from pkray.relational.functions.hashing.family import HASHING, Values
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.numbers.exact_sums import decimal_words
from pkray.relational.functions.signatures import constant, result
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULL_HASH = np.uint64(0x5851F42D4C957F2D)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Spread the bits of uint64 numbers evenly (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + _GOLDEN
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return numbers ^ (numbers >> np.uint64(31))


_OF_BYTE = mixed(np.arange(256, dtype=np.uint64))


def column_hashes(array: pa.Array) -> np.ndarray:
    """Hash each value of a column to a uint64; equal values alike, NULL to a constant.

    0.0 and -0.0 are alike, and all NaNs; the order of a map's pairs does not count.
    """
    hashes = _hashes(array)
    if array.null_count:
        hashes = np.where(np.asarray(array.is_null()), _NULL_HASH, hashes)
    return hashes


def _hashes(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_struct(kind):
        result = np.zeros(len(array), np.uint64)
        for child in array.flatten():
            result = mixed(result ^ column_hashes(child))
        return result
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _hashes_of_lists(Lists.of(array, len(array)))
    if pa.types.is_decimal(kind):
        words = decimal_words(array).view(np.uint64)
        return mixed(words[:, 0] ^ mixed(words[:, 1]))
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hashes_of_bytes(array)
    return mixed(plain_bits(array))


def plain_bits(array: pa.Array) -> np.ndarray:
    """Give numbers, booleans and times as uint64."""
    kind = array.type
    if pa.types.is_floating(kind):
        numbers = np.asarray(array.fill_null(0)).astype(np.float64) + 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64)
    return np.asarray(array.fill_null(0)).astype(np.int64).view(np.uint64)


def _hashes_of_bytes(array: pa.Array) -> np.ndarray:
    plain = array.cast(pa.large_binary())
    offsets = np.frombuffer(plain.buffers()[1] or b"", np.int64)
    offsets = offsets[plain.offset : plain.offset + len(plain) + 1]
    if not len(plain):
        return np.zeros(0, np.uint64)
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return _hashes_of_sequences(np.diff(offsets), _OF_BYTE[data])


def _hashes_of_lists(lists: Lists) -> np.ndarray:
    hashes = column_hashes(lists.values)
    if lists.items is None:
        return _hashes_of_sequences(lists.lengths, hashes)
    pairs = mixed(hashes ^ mixed(column_hashes(lists.items)))
    return mixed(_sums(lists.lengths, pairs) ^ lists.lengths.astype(np.uint64))


def _hashes_of_sequences(lengths: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Hash sequences of hashes: the sum of each times a power of an odd number for its place."""
    begins = np.cumsum(lengths) - lengths
    places = np.arange(len(parts)) - np.repeat(begins, lengths)
    with np.errstate(over="ignore"):
        powers = np.multiply.accumulate(np.full(int(lengths.max(initial=0)) + 1, _GOLDEN))
        sums = _sums(lengths, parts * powers[places])
    return mixed(sums ^ mixed(lengths.astype(np.uint64)))


def _sums(lengths: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Add up the parts of each sequence, in 64 bits."""
    with np.errstate(over="ignore"):
        totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(parts, dtype=np.uint64)))
        ends = np.cumsum(lengths)
        return totals[ends] - totals[ends - lengths]


def row_hashes(seed: int, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
    """Hash rows to uint64s; the order of the columns counts."""
    result = np.full(rows, mixed(np.array([seed]).astype(np.int64).view(np.uint64))[0])
    for column in columns:
        result = mixed(result ^ column_hashes(column))
    return result


def _row_hash(call: Written) -> Expression:
    seed = constant("row_hash", call.arguments[0], "the seed") if call.arguments else None
    if type(seed) is not int or not -(2**63) <= seed < 2**63:
        raise QueryError("the seed of row_hash must be a BIGINT", function="row_hash")
    literal = Literal(BIGINT.with_nullable(False), seed)
    return Call(BIGINT.with_nullable(False), "row_hash", (literal, *call.arguments[1:]))


@HASHING.infallible.kernel(
    "row_hash(seed BIGINT, x, …) -> BIGINT",
    "Hash values to a number that is the same everywhere; NULLs are values.",
    _row_hash,
    result(BIGINT, nullable=False),
    spark=NO_SPARK,
)
def _row_hash_kernel(call: Call, values: Values, rows: int) -> Value:
    seed = call.arguments[0]
    assert isinstance(seed, Literal)
    columns = [as_array(value, rows) for value in values[1:]]
    return pa.array(row_hashes(seed.value, columns, rows).view(np.int64))
