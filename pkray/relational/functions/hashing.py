"""Functions that hash values.

``row_hash`` is pkray's own: it chooses the rows of samples and splits, so that what it gives never
changes. ``hash`` and ``xxhash64`` give what Spark's functions of the name give.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import xxhash

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import BIGINT, INT, STRING
from pkray.relational.functions.function import (
    NO_SPARK,
    Family,
    Kernel,
    Resolver,
    Value,
)
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.numbers.exact_sums import decimal_words
from pkray.relational.functions.signatures import (
    binary,
    check_count,
    constant,
    result,
    takes,
    wrong_argument,
)
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

Values = Sequence[Value]
HASHING = Family("hashing")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULL_HASH = np.uint64(0x5851F42D4C957F2D)


# --- Digests of bytes -----------------------------------------------------------------------------


def _of_distinct(
    array: pa.Array, compute: Callable[[bytes], object], kind: pa.DataType
) -> pa.Array:
    """Compute once for each distinct value; NULL stays NULL."""
    encoded = array.cast(pa.binary()).dictionary_encode()
    results = pa.array([compute(value) for value in encoded.dictionary.to_pylist()], kind)
    return results.take(encoded.indices)


def _digest(compute: Callable[[bytes], object]) -> Kernel:
    return lambda call, values, rows: _of_distinct(
        as_array(values[0], rows), compute, call.type.arrow
    )


_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _sha2_kernel(call: Call, values: Values, rows: int) -> Value:
    bits = values[1].as_py() if isinstance(values[1], pa.Scalar) else values[1][0].as_py()
    digest = _hexadecimal(_SHA2[bits])
    return _of_distinct(as_array(values[0], rows), digest, pa.string())


def _sha2(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("sha2", arguments, 2, 2)
    value = binary.taken("sha2", arguments, 0, dialect)
    bits = constant("sha2", arguments[1], "the number of bits")
    if bits not in _SHA2:
        raise QueryError(f"sha2 has 224, 256, 384 or 512 bits, not {bits!r}", function="sha2")
    said = Literal(INT.with_nullable(False), bits)
    return Call(STRING.with_nullable(value.type.nullable), "sha2", (value, said))


def _hexadecimal(algorithm: str) -> Callable[[bytes], object]:
    return lambda value: hashlib.new(algorithm, value, usedforsecurity=False).hexdigest()


def _by_sha2(call: Call, arguments: Sequence[str]) -> str:
    return f"sha2({arguments[0]}, {call.function.removeprefix('sha')})"


for _name, _title, _synonyms in (
    ("md5", "MD5", ()),
    ("sha1", "SHA-1", ("sha",)),
    ("sha224", "SHA-224", ()),
    ("sha256", "SHA-256", ()),
    ("sha384", "SHA-384", ()),
    ("sha512", "SHA-512", ()),
):
    HASHING.add(
        _name,
        f"{_name}(text | bytes) -> STRING",
        f"Give the {_title} digest in hexadecimal digits.",
        takes(_name, binary),
        _digest(_hexadecimal(_name)),
        result(STRING),
        synonyms=_synonyms,
        spark=None if _name in ("md5", "sha1") else _by_sha2,
        fallible=False,
    )
HASHING.add(
    "sha2",
    "sha2(text | bytes, bits) -> STRING",
    "Give a SHA-2 digest in hexadecimal digits.",
    _sha2,
    _sha2_kernel,
    result(STRING),
    fallible=False,
)
HASHING.add(
    "crc32",
    "crc32(text | bytes) -> BIGINT",
    "Give the CRC-32 checksum.",
    takes("crc32", binary),
    _digest(zlib.crc32),
    result(BIGINT),
    fallible=False,
)


# --- Hashes of rows -------------------------------------------------------------------------------


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
    return mixed(_plain_bits(array))


def _plain_bits(array: pa.Array) -> np.ndarray:
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


def _row_hash(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    seed = constant("row_hash", arguments[0], "the seed") if arguments else None
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise QueryError("the seed of row_hash must be a BIGINT", function="row_hash")
    literal = Literal(BIGINT.with_nullable(False), seed)
    return Call(BIGINT.with_nullable(False), "row_hash", (literal, *arguments[1:]))


def _row_hash_kernel(call: Call, values: Values, rows: int) -> Value:
    seed = call.arguments[0]
    assert isinstance(seed, Literal)
    columns = [as_array(value, rows) for value in values[1:]]
    return pa.array(row_hashes(seed.value, columns, rows).view(np.int64))


HASHING.add(
    "row_hash",
    "row_hash(seed BIGINT, x, …) -> BIGINT",
    "Hash values to a number that is the same everywhere; NULLs are values.",
    _row_hash,
    _row_hash_kernel,
    result(BIGINT, nullable=False),
    spark=NO_SPARK,
    fallible=False,
)


# --- Spark's hashes -------------------------------------------------------------------------------

_SEED = 42


def _spark_hash(name: str, kind: DataType) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 1, None)
        for place, each in enumerate(arguments):
            if each.type.is_nested:
                raise wrong_argument(name, place, each, "values that are not nested")
        return Call(kind.with_nullable(False), name, arguments)

    return resolve


def _chained(
    start: int, dtype: type, hashes: Callable[[pa.Array, np.ndarray], np.ndarray]
) -> Kernel:
    """Hash column after column, each with the hashes so far as seeds; NULLs change nothing."""

    def kernel(call: Call, values: Values, rows: int) -> Value:
        seeds: np.ndarray = np.full(rows, start, dtype)
        for value in values:
            array = as_array(value, rows)
            with np.errstate(over="ignore"):
                found = hashes(array, seeds)
            seeds = np.where(np.asarray(array.is_valid()), found, seeds)
        signed = np.int32 if dtype is np.uint32 else np.int64
        return pa.array(seeds.view(signed))

    return kernel


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
        return _plain_bits(micros), 8
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None
    width = 8 if pa.types.is_int64(kind) or pa.types.is_time(kind) else 4
    bits = _plain_bits(array)
    return (bits & np.uint64(0xFFFFFFFF) if width == 4 else bits), width


def _variable(array: pa.Array) -> pa.Array:
    """Give text, bytes and wide decimals as the bytes that Spark hashes."""
    if not pa.types.is_decimal(array.type):
        return array.cast(pa.binary())
    unscaled = [
        None if value is None else int(value.scaleb(array.type.scale))
        for value in array.to_pylist()
    ]
    return pa.array(
        [
            None if each is None else each.to_bytes(each.bit_length() // 8 + 1, "big", signed=True)
            if each >= 0 else each.to_bytes((each + 1).bit_length() // 8 + 1, "big", signed=True)
            for each in unscaled
        ],
        pa.binary(),
    )  # fmt: skip


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


HASHING.add(
    "hash",
    "hash(x, …) -> INT",
    "Hash values by Murmur3, as Spark does.",
    _spark_hash("hash", INT),
    _chained(_SEED, np.uint32, _murmur),
    result(INT, nullable=False),
    fallible=False,
)
HASHING.add(
    "xxhash64",
    "xxhash64(x, …) -> BIGINT",
    "Hash values by xxHash64, as Spark does.",
    _spark_hash("xxhash64", BIGINT),
    _chained(_SEED, np.uint64, _xxhash),
    result(BIGINT, nullable=False),
    fallible=False,
)
