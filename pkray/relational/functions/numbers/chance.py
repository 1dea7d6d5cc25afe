"""Functions of chance: other values each time, in queries that run once.

Continuous queries refuse them, since a row that is computed again would get another value.
"""

import itertools
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function, signatures
from pkray.relational.functions.function import Family, Value, Written, typed_call, wrong_argument
from pkray.relational.plan.expressions import Call, Cast, Expression
from pkray.schema.types import INTEGERS, DataType

MATHEMATICS = Family("mathematics")
NAMES = ("rand", "randn", "uuid", "randstr", "monotonically_increasing_id", "shuffle")
"""Canonical names of what chance gives."""
_LETTERS = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8
)
_LONGEST = 1 << 16
"""Characters of a random text: a batch of them stays below the two gigabytes of a column."""
_LOCK = threading.Lock()
_next_id = itertools.count()


def no_seed(call: Written, count: int) -> tuple[Expression, ...]:
    """Give so many arguments; refuse a seed, which would be the next one."""
    if len(call.arguments) == count + 1:
        raise UnsupportedError(
            f"{call.name} takes no seed: batches are computed in any order, so that it would not "
            "give the same values again; leave it out, or take a hash of a key, such as "
            "pmod(hash(key), 100)",
            function=call.name,
        )
    return call.exactly(count)


def _plain(call: Written) -> Expression:
    if call.name == "monotonically_increasing_id":
        call.exactly(0)
    no_seed(call, 0)
    return typed_call(call.name)


def _numbers(call: Call, values: Sequence[Value], rows: int) -> Value:
    chance = np.random.default_rng()
    made = chance.random(rows) if call.function == "rand" else chance.standard_normal(rows)
    return pa.array(made)


def _uuids(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Write random UUIDs of version 4, all at once."""
    octets = np.random.default_rng().integers(0, 256, (rows, 16), np.uint8)
    octets[:, 6] = octets[:, 6] & 0x0F | 0x40
    octets[:, 8] = octets[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[
        np.stack([octets >> 4, octets & 15], axis=2).reshape(rows, 32)
    ]
    dash = np.full((rows, 1), ord("-"), np.uint8)
    parts = np.split(digits, [8, 12, 16, 20], axis=1)
    spread = [each for part in parts for each in (part, dash)][:-1]
    return _texts(np.concatenate(spread, axis=1))


def _texts(letters: np.ndarray) -> pa.Array:
    """Make texts of one length of their ASCII letters, a row each."""
    rows, width = letters.shape
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * width)
    return pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(letters.tobytes()))


def _randstr(call: Written) -> Expression:
    no_seed(call, 1)
    length = signatures.integer.taken(call, 0)
    given = signatures.constant("randstr", length, "the length")
    if given is not None and not 0 <= int(given) <= _LONGEST:
        raise QueryError(
            f"the length of randstr is {given}: it must be 0 to {_LONGEST}", function="randstr"
        )
    return typed_call("randstr", length)


def _ids(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Take the next numbers of this process."""
    with _LOCK:
        return pa.array(np.fromiter(itertools.islice(_next_id, rows), np.int64, rows))


def _uniform(call: Written) -> Expression:
    """Resolve uniform(low, high) as low + rand() * (high - low), of the type of both."""
    for place, each in enumerate(no_seed(call, 2)):
        if each.type.root not in coercion.NUMBERS and not coercion.is_untyped_null(each):
            raise wrong_argument(call.name, place, each, "a number")
        signatures.constant(call.name, each, "a bound")
    kinds = [
        coercion.DOUBLE if coercion.is_untyped_null(each) else each.type for each in call.arguments
    ]
    kind = coercion.wider(kinds[0], kinds[1], call.dialect)
    assert kind is not None
    if {each.root for each in kinds} <= {"FLOAT", *INTEGERS} and kind.root == "DOUBLE":
        kind = DataType("FLOAT")
    low, high = (coercion.cast_to(each, coercion.DOUBLE) for each in call.arguments)
    width = function.resolve("subtract", (high, low), Dialect.SPARK)
    away = function.resolve("multiply", (typed_call("rand"), width), Dialect.SPARK)
    made = function.resolve("add", (low, away), Dialect.SPARK)
    return coercion.cast_to(made, kind.with_nullable(coercion.any_nullable(call.arguments)))


def _rand_integer(call: Written) -> Expression:
    """Resolve RAND_INTEGER(bound)."""
    no_seed(call, 1)
    bound = coercion.cast_to(signatures.integer.taken(call, 0), coercion.DOUBLE)
    product = function.resolve("multiply", (typed_call("rand"), bound), Dialect.SPARK)
    return Cast(coercion.INT.with_nullable(product.type.nullable), product)


for _name, _usage, _about, _kernel, _kind, _synonyms in (
    ("rand", "rand() -> DOUBLE", "Give a random number from 0 to 1.", _numbers, coercion.DOUBLE,
     ("random",)),
    ("randn", "randn() -> DOUBLE", "Give a random number of the standard normal distribution.",
     _numbers, coercion.DOUBLE, ()),
    ("uuid", "uuid() -> STRING", "Give a random UUID.", _uuids, coercion.STRING, ()),
    ("monotonically_increasing_id", "monotonically_increasing_id() -> BIGINT",
     "Number rows as they are computed, with gaps; each number once a process.",
     _ids, coercion.BIGINT, ()),
):  # fmt: skip
    MATHEMATICS.infallible.add(
        _usage,
        _about,
        _plain,
        _kernel,
        signatures.result(_kind, nullable=False),
        synonyms=_synonyms,
        deterministic=False,
        name=_name,
    )


@MATHEMATICS.only(Dialect.SPARK).infallible.kernel(
    "randstr(length) -> STRING",
    "Give a random text of letters and digits.",
    _randstr,
    signatures.result(coercion.STRING, nullable=False),
    deterministic=False,
)
def _randstr_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    length = int(signatures.constant("randstr", call.arguments[0], "the length") or 0)
    return _texts(np.random.default_rng().choice(_LETTERS, (rows, length)))


MATHEMATICS.only(Dialect.SPARK).alias(
    "uniform(low, high) -> number",
    "Give a random number between two bounds, the higher one excluded.",
    _uniform,
)
MATHEMATICS.only(Dialect.FLINK).alias(
    "rand_integer(bound) -> INT", "Give a random integer from 0 on, below a bound.", _rand_integer
)
