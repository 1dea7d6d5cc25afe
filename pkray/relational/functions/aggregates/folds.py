"""Aggregates that are computed in parts: states of each part, merged, and finished.

A `State` is one number a group that Arrow's aggregations compute (of rows) and merge (of states). A
`Fold` makes the column to aggregate, names its states and computes the result from them. Sums stay
exact: a column whose sum might not fit is widened first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.plan.expressions import AggregateCall

Columns = Sequence[pa.Array | pa.ChunkedArray]
Finish: TypeAlias = Callable[[AggregateCall, Sequence[pa.Array]], pa.Array]
WIDE = pa.decimal128(38, 0)


@dataclass(frozen=True)
class State:
    """One number a group.

    Attributes:
        of_rows: Arrow's aggregation that computes it.
        of_states: Arrow's aggregation that merges it.
        exact: whether it is a sum that must not wrap.
    """

    of_rows: str
    of_states: str
    exact: bool = False


@dataclass(frozen=True)
class Fold:
    """Says how an aggregate is computed in parts.

    Attributes:
        name: of `prepare`: calls of equal names and arguments share a column.
        prepare: makes the column to aggregate of the arguments; NULLs do not count.
        states: what is computed of it.
        finish: makes the result of the states.
    """

    name: str
    prepare: Callable[[Columns], pa.Array | pa.ChunkedArray]
    states: tuple[State, ...]
    finish: Finish


def widened(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Give a column of numbers in a type whose sum of them surely fits."""
    kind, rows = column.type, len(column)
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind.bit_width < 64):
        return column
    if not pa.types.is_decimal(kind):
        return column if bound(column) * rows < 1 << 63 else column.cast(WIDE)
    if kind.precision + len(str(rows)) <= 38 or kind.bit_width > 128:
        return column
    if bound(column) * rows < 10 ** (38 - kind.scale):
        return column
    return column.cast(pa.decimal256(76, kind.scale))


def bound(column: pa.Array | pa.ChunkedArray) -> int:
    """Give a whole number that no value's magnitude exceeds."""
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return 0 if low is None else int(max(abs(low), abs(high))) + 1


def alike(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array | pa.ChunkedArray]:
    """Give columns of sums, some of them widened, in the widest of their types."""
    kinds = {column.type for column in columns}
    if len(kinds) == 1:
        return list(columns)
    widest = max(kinds, key=lambda kind: kind.bit_width)
    return [column.cast(widest) for column in columns]


def first_argument(columns: Columns) -> pa.Array | pa.ChunkedArray:
    return columns[0]


def as_it_is(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return states[0].cast(call.type.arrow)
