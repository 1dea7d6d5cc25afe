"""Values of every type, written by pkray and by Paimon's Java core in turn."""

import itertools
from typing import Any

import pytest

from pkray.schema.types import DataType
from tests.integration.scalars import SCALARS, Scalar
from tests.interop_java.both import Row
from tests.interop_java.plain_values import from_arrow

SPECIAL = {
    kind: [f"{bits:016x}" for bits in (0x7FF8 << 48, 0x7FF << 52, 0xFFF << 52, 0x8000 << 48, 0)]
    for kind in ("FLOAT", "DOUBLE")
}
# But for a ROW in a ROW: the Java core fails at its own where the outer one is null. And it takes a
# ROW of nulls for null.
NESTED: dict[str, list[Any]] = {
    "ARRAY<INT>": [[1, None, -3], [], None, list(range(40))],
    "ARRAY<STRING>": [["a", "", None, "ż" * 20], None, []],
    "ARRAY<DECIMAL(38, 10)>": [["1.0000000000", None], None],
    "ARRAY<TIMESTAMP(6)>": [[[-1, 5000], None, [0, 0]], None],
    "MAP<STRING, INT>": [[["a", 1], ["b", None]], [], None],
    "MAP<INT, STRING>": [[[-1, "x"], [5, "y" * 30]], None, []],
    "ROW<a INT, b STRING>": [[1, "x"], [None, "y"], None, [2, None]],
    "ARRAY<ROW<a INT, b STRING>>": [[[1, "x"], [None, "y"]], [], None],
    "MAP<STRING, ARRAY<INT>>": [[["k", [1, 2]], ["l", []]], [], None],
}


def plain(scalar: Scalar) -> list[Any]:
    values = from_arrow(scalar.array(scalar.values), DataType.parse(scalar.kind))
    if scalar.kind.startswith("TIMESTAMP") and scalar.kind.endswith("(9)"):
        # The Java core cannot read those before the epoch that it writes itself.
        return [value for value in values if value[0] >= 0]
    return values


def moments(precision: int) -> list[Any]:
    step = 10 ** (9 - precision)
    nanos = 1_700_000_000_123_456_789 // step * step
    return [[0, 0], list(divmod(nanos, 10**6)), None]


def in_turn(
    make: Any, maker: str, columns: dict[str, str], keys: list[str], rows: list[Row]
) -> None:
    """Each writes, changes and deletes what the other wrote, and compacts it."""
    options = {"bucket": "2", "changelog-producer": "lookup"}
    both = make(columns, keys, options=options, maker=maker)
    other = "java" if maker == "pkray" else "pkray"
    values = [row[len(keys) :] for row in rows]
    changed = [row[: len(keys)] + other for row, other in zip(rows, values[1:], strict=False)]
    for writer, changes, full in [
        (maker, [["+I", *row] for row in rows], False),
        (other, [["+U", *row] for row in changed[::2]], False),
        (maker, [["-D", *row] for row in rows[::5]], False),
        (other, [["+U", *row] for row in changed[1::3]], True),
    ]:
        both.write(writer, changes, full)
        both.check()
    both.check_changes()


@pytest.mark.parametrize("maker", ["pkray", "java"])
def test_values(make: Any, maker: str) -> None:
    samples = {kind: [*plain(scalar), None] for kind, scalar in SCALARS.items()}
    samples |= NESTED
    for precision in (1, 2, 4, 5, 7, 8):
        samples[f"TIMESTAMP({precision})"] = moments(precision)
        samples[f"TIMESTAMP_LTZ({precision})"] = moments(precision)
    samples |= {kind: samples[kind] + special for kind, special in SPECIAL.items()}
    columns = {"id": "INT", **{f"c{n}": kind for n, kind in enumerate(samples)}}
    cycles = [itertools.cycle(values) for values in samples.values()]
    rows = [[n, *(next(each) for each in cycles)] for n in range(15)]
    in_turn(make, maker, columns, ["id"], [*rows, [99, *[None] * len(samples)]])


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("maker", ["pkray", "java"])
def test_keys(make: Any, maker: str, half: int) -> None:
    scalars = list(SCALARS.values())[half::2]
    columns = {f"k{n}": scalar.kind for n, scalar in enumerate(scalars)}
    cycles = [itertools.cycle(plain(scalar)) for scalar in scalars]
    rows = [[*(next(each) for each in cycles), n] for n in range(20)]
    in_turn(make, maker, {**columns, "v": "INT"}, list(columns), rows)


@pytest.mark.parametrize("kind", ["BIGINT", "STRING", "DECIMAL(38, 10)", "TIMESTAMP(9)", "BYTES"])
def test_a_key_alone(make: Any, kind: str) -> None:
    rows = [[value, n] for n, value in enumerate(plain(SCALARS[kind]))]
    in_turn(make, "pkray", {"k": kind, "v": "INT"}, ["k"], rows)


@pytest.mark.parametrize("maker", ["pkray", "java"])
def test_partitions(make: Any, maker: str) -> None:
    kinds = ["BOOLEAN", "INT", "DATE", "STRING", "TIMESTAMP(3)"]
    cycles = [itertools.cycle(plain(SCALARS[kind])[:4]) for kind in kinds]
    columns = {f"p{n}": kind for n, kind in enumerate(kinds)}
    both = make({**columns, "k": "INT", "v": "STRING"}, [*columns, "k"], list(columns), maker=maker)
    rows = [["+I", *(next(each) for each in cycles), n, "v"] for n in range(8)]
    both.write("java", rows)
    both.write("pkray", [[*row[:-1], "w"] for row in rows[::2]])
    both.check()
    both.write("pkray", [["-D", *row[1:]] for row in rows[:3]], full_compact=True)
    both.check()
    both.write("java", rows[2:4], full_compact=True)
    assert len(both.check()) == 6
    both.check_changes()
