"""Spark's hashes: the columns of a row are hashed one after the other, by Murmur3 or xxHash64."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pkray.columns.keys import list_parts
from pkray.relational.functions import spans
from pkray.relational.functions.coercion import BIGINT, INT, cast_to
from pkray.relational.functions.function import Kernel, Value, Written, typed_call, wrong_argument
from pkray.relational.functions.hashing.family import HASHING, Values
from pkray.relational.functions.hashing.rows import plain_bits
from pkray.relational.functions.numbers.exact_sums import decimal_words
from pkray.relational.functions.signatures import result
from pkray.relational.functions.text.slices import join_bytes
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import DataType

_SEED = 42


def _spark_hash(call: Written) -> Expression:
    for place, each in enumerate(call.between(1, None)):
        if _has_map(each.type):
            raise wrong_argument(call.name, place, each, "no MAP, whose entries have no order")
    return typed_call(call.name, *map(_as_hashed, call.arguments))


def _as_hashed(argument: Expression) -> Expression:
    """Give an INTERVAL as the number that Spark has for it: an INT of months, or microseconds."""
    if not argument.type.span:
        return argument
    return cast_to(argument, INT if spans.is_months(argument.type) else BIGINT)


def _has_map(kind: DataType) -> bool:
    inside = (kind.element, *(each.type for each in kind.fields or ()))
    return kind.root == "MAP" or any(_has_map(each) for each in inside if each is not None)


def _chained(
    start: int, dtype: type, hashes: Callable[[pa.Array, np.ndarray], np.ndarray]
) -> Kernel:
    """Hash column after column, each with the hashes so far as seeds; NULLs change nothing."""

    def kernel(call: Call, values: Values, rows: int) -> Value:
        seeds: np.ndarray = np.full(rows, start, dtype)
        for value in values:
            with np.errstate(over="ignore"):
                seeds = _hashed(as_array(value, rows), seeds, hashes)
        signed = np.int32 if dtype is np.uint32 else np.int64
        return pa.array(seeds.view(signed))

    return kernel


def _hashed(
    array: pa.Array, seeds: np.ndarray, hashes: Callable[[pa.Array, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Hash values, those of nested ones in their order; at NULL the seed stays."""
    if pa.types.is_struct(array.type):
        for each in array.flatten():
            seeds = _hashed(each, seeds, hashes)
        return seeds
    if not pa.types.is_list(array.type):
        return np.where(np.asarray(array.is_valid()), hashes(array, seeds), seeds)
    starts, lengths, (elements,) = list_parts(array)
    seeds = seeds.copy()
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        some = elements.take(pa.array(starts[rows] + place))
        seeds[rows] = _hashed(some, seeds[rows], hashes)
    return seeds


def _fixed(array: pa.Array) -> tuple[np.ndarray, int] | None:
    """Give values of 4 or 8 bytes as Spark hashes them, and their width; None for others."""
    kind = array.type
    if pa.types.is_floating(kind):
        width = 4 if pa.types.is_float32(kind) else 8
        numbers = np.asarray(array.fill_null(0)) + 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
        plain = numbers.astype(np.float32 if width == 4 else np.float64)
        return plain.view(np.uint32 if width == 4 else np.uint64).astype(np.uint64), width
    if pa.types.is_decimal(kind):
        if kind.precision > 18:
            return None
        return np.ascontiguousarray(decimal_words(array)[:, 0]).view(np.uint64), 8
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz), safe=False)
        return plain_bits(micros), 8
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None
    width = 8 if pa.types.is_int64(kind) or pa.types.is_time(kind) else 4
    bits = plain_bits(array)
    return (bits & np.uint64(0xFFFFFFFF) if width == 4 else bits), width


def _variable(array: pa.Array) -> pa.Array:
    """Give text, bytes and wide decimals as the bytes that Spark hashes."""
    if not pa.types.is_decimal(array.type):
        return array.cast(pa.binary())
    words = np.ascontiguousarray(decimal_words(array)[:, ::-1]).astype(">u8")
    digits = words.view(np.uint8).reshape(len(array), 16)
    needless = (digits[:, :-1] == np.where(digits[:, :1] >= 128, 255, 0)) & (
        digits[:, 1:] >> 7 == digits[:, :1] >> 7
    )
    first = np.cumprod(needless, axis=1).sum(axis=1)
    begins = np.arange(len(array)) * 16
    made = join_bytes(digits.ravel(), begins + first, begins + 16, pa.binary())
    return pc.if_else(array.is_valid(), made, pa.scalar(None, pa.binary()))


def _by_pairs(
    array: pa.Array, seeds: np.ndarray, compute: Callable[[bytes, int], int]
) -> np.ndarray:
    """Compute once for each distinct pair of bytes and seed."""
    encoded = _variable(array).dictionary_encode()
    places = np.asarray(encoded.indices.fill_null(0)).astype(np.uint64)
    pairs = np.stack([places, seeds.astype(np.uint64)], axis=1)
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    words = encoded.dictionary.to_pylist() or [b""]
    results = [compute(words[place], seed) for place, seed in distinct.tolist()]
    return np.array(results, np.uint64)[inverse.ravel()].astype(seeds.dtype)


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _rotated(numbers: np.ndarray, bits: int) -> np.ndarray:
    width = numbers.dtype.itemsize * 8
    kind = numbers.dtype.type
    return (numbers << kind(bits)) | (numbers >> kind(width - bits))


def _xxhash(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    fixed = _fixed(array)
    if fixed is None:
        return _by_pairs(array, seeds, lambda data, seed: xxhash.xxh64_intdigest(data, seed))
    bits, width = fixed
    hashes = seeds + _P5 + np.uint64(width)
    if width == 8:
        hashes = hashes ^ (_rotated(bits * _P2, 31) * _P1)
        hashes = _rotated(hashes, 27) * _P1 + _P4
    else:
        hashes = hashes ^ (bits * _P1)
        hashes = _rotated(hashes, 23) * _P2 + _P3
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _murmur_step(seeds: np.ndarray, words: np.ndarray) -> np.ndarray:
    words = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(seeds ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(hashes: np.ndarray, length: np.ndarray | int) -> np.ndarray:
    hashes = hashes ^ np.uint32(length)
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _murmur(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    fixed = _fixed(array)
    if fixed is None:
        return _by_pairs(array, seeds, _murmur_bytes)
    bits, width = fixed
    hashes = _murmur_step(seeds, bits.astype(np.uint32))
    if width == 8:
        hashes = _murmur_step(hashes, (bits >> np.uint64(32)).astype(np.uint32))
    return _murmur_end(hashes, width)


def _murmur_bytes(data: bytes, seed: int) -> int:
    """Hash bytes as Spark does: words of four bytes, then each byte left as a word."""
    whole = len(data) // 4 * 4
    words = np.frombuffer(data[:whole], "<u4")
    rest = np.frombuffer(data[whole:], np.int8).astype(np.int32).view(np.uint32)
    hashes = np.array([seed], np.uint32)
    with np.errstate(over="ignore"):
        for word in (*words, *rest):
            hashes = _murmur_step(hashes, np.array([word], np.uint32))
        return int(_murmur_end(hashes, len(data))[0])


HASHING.infallible.add(
    "hash(x, …) -> INT",
    "Hash values by Murmur3, as Spark does.",
    _spark_hash,
    _chained(_SEED, np.uint32, _murmur),
    result(INT, nullable=False),
)
HASHING.infallible.add(
    "xxhash64(x, …) -> BIGINT",
    "Hash values by xxHash64, as Spark does.",
    _spark_hash,
    _chained(_SEED, np.uint64, _xxhash),
    result(BIGINT, nullable=False),
)
