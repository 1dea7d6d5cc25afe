"""Digests of bytes: MD5, SHA, CRC-32."""

import hashlib
import zlib
from collections.abc import Callable, Sequence

import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.functions.coercion import BIGINT, INT, STRING
from pkray.relational.functions.function import Kernel, Value, Written, typed_call
from pkray.relational.functions.hashing.family import HASHING, Values
from pkray.relational.functions.signatures import binary, constant, result, takes
from pkray.relational.functions.values import by_distinct
from pkray.relational.plan.expressions import Call, Expression, Literal


def _digest(compute: Callable[[bytes], object]) -> Kernel:
    return lambda call, values, rows: by_distinct(values[0], compute, call.type.arrow, rows)


_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _sha2(call: Written) -> Expression:
    _, said = call.exactly(2)
    value = binary.taken(call, 0)
    bits = constant("sha2", said, "the number of bits")
    if bits not in _SHA2:
        raise QueryError(f"sha2 has 224, 256, 384 or 512 bits, not {bits!r}", function="sha2")
    return typed_call("sha2", value, Literal(INT.with_nullable(False), bits))


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
    HASHING.infallible.add(
        f"{_name}(text | bytes) -> STRING",
        f"Give the {_title} digest in hexadecimal digits.",
        takes(binary),
        _digest(_hexadecimal(_name)),
        result(STRING),
        synonyms=_synonyms,
        spark=None if _name in ("md5", "sha1") else _by_sha2,
    )


@HASHING.infallible.kernel(
    "sha2(text | bytes, bits) -> STRING",
    "Give a SHA-2 digest in hexadecimal digits.",
    _sha2,
    result(STRING),
)
def _sha2_kernel(call: Call, values: Values, rows: int) -> Value:
    digest = _hexadecimal(_SHA2[values[1].as_py()])
    return by_distinct(values[0], digest, pa.string(), rows)


HASHING.infallible.add(
    "crc32(text | bytes) -> BIGINT",
    "Give the CRC-32 checksum.",
    takes(binary),
    _digest(zlib.crc32),
    result(BIGINT),
)
