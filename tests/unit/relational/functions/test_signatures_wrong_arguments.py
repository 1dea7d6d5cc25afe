"""Every function over arguments of every type: a result, or an error of pkray's own."""

import itertools
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pkray.errors import PkrayError
from pkray.relational import from_arrow, query
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates import catalogue

VALUES = {
    "i": pa.array([1, None, -3], pa.int32()),
    "l": pa.array([1, None, -(2**63)], pa.int64()),
    "d": pa.array([0.5, None, float("nan")]),
    "n": pa.array([1, None, -2], pa.decimal128(38, 18)),
    "s": pa.array(["a", None, ""]),
    "y": pa.array([b"\xff", None, b""]),
    "b": pa.array([True, None, False]),
    "t": pa.array([0, None, 19_000], pa.date32()),
    "m": pa.array([0, None, -1], pa.timestamp("us")),
    "z": pa.array([0, None, -1], pa.timestamp("us", "UTC")),
    "a": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "w": pa.array([["a"], None, []], pa.list_(pa.string())),
    "p": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "r": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())])),
}
CONSTANTS = (
    *("NULL", "1", "-1", "'a'", "''", "0.5", "true", "array(1)", "array()", "x'ff'"),
    *("date'2024-01-01'", "map('a', 1)", "named_struct('x', 1)", "2147483648", "'yyyy'", "'[a'"),
    *("interval '99999999999999' day", "interval 1 day", "x -> x", "9223372036854775807"),
)
WORDS = (*VALUES, *CONSTANTS)
ROWS = from_arrow(pa.table(VALUES), name="v")
UNBOUND = {"rand", "randn", "uuid", "random"}


def names() -> list[str]:
    scalars = {each.name for dialect in Dialect for each in function.written(dialect)}
    return sorted({*scalars, *aggregate_names()} - UNBOUND)


def aggregate_names() -> set[str]:
    return {each.name for dialect in Dialect for each in catalogue.written_aggregates(dialect)}


def calls(name: str, most: int, seed: int) -> Iterator[str]:
    chosen = random.Random(f"{name} {seed}")
    yield f"{name}()"
    every = [f"{name}({word})" for word in WORDS]
    every += [f"{name}({a}, {b})" for a, b in itertools.product(WORDS, WORDS)]
    yield from chosen.sample(every, min(most, len(every)))
    for _ in range(most // 2):
        words = [chosen.choice(WORDS) for _ in range(chosen.randint(3, 5))]
        yield f"{name}({', '.join(words)})"


def raw_errors(name: str, most: int, seed: int = 0) -> list[str]:
    """Find calls that end in something else than rows or an error of pkray."""
    raw = []
    for call in calls(name, most, seed):
        try:
            query(f"SELECT {call} AS x FROM v", v=ROWS).to_arrow()
        except PkrayError:
            continue
        except Exception as error:
            raw.append(f"{call}: {type(error).__name__} {error}")
    return raw


def test_no_function_ends_in_a_raw_error_for_a_sample_of_arguments() -> None:
    sample = random.Random(0).sample(names(), 100)
    assert [each for name in sample for each in raw_errors(name, 6)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_no_function_ends_in_a_raw_error(name: str) -> None:
    assert raw_errors(name, 120) == []
