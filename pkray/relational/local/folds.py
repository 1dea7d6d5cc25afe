"""Aggregates that are computed in parts: states of each part, merged, and finished.

A `State` is one number a group that Arrow's aggregations compute (of rows) and merge (of states). A
`Fold` makes the column to aggregate, names its states and computes the result from them. Sums stay
exact: a column whose sum might not fit is widened first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.errors import EvaluationError
from pkray.relational.functions.aggregates.numbers import decimal_means, truncated_means
from pkray.relational.functions.aggregates.overflow import unfit_sum
from pkray.relational.plan.expressions import AggregateCall
from pkray.schema.types import INTEGERS, DataType

Columns = Sequence[pa.Array | pa.ChunkedArray]
SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
WIDE = pa.decimal128(38, 0)
EXACT = Context(prec=80)


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
    finish: Callable[[AggregateCall, Sequence[pa.Array]], pa.Array]


COUNT = State("count", "sum")
SUM = State("sum", "sum", exact=True)
WRAPPING = State("sum", "sum")


def fold_of(call: AggregateCall, kinds: Sequence[pa.DataType]) -> Fold | None:
    """Find how a call is computed in parts; None: only of all rows of a group at once.

    Args:
        kinds: of the arguments.
    """
    if call.function in ("min", "max") and not pa.types.is_nested(kinds[0]):
        return _extreme(call.function, kinds[0])
    if call.function == "count" and len(call.arguments) > 1:
        return Fold("there", _all_there, (COUNT,), _counted)
    return FOLDS.get(call.function)


def widened(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Give a column of numbers in a type whose sum of them surely fits."""
    kind, rows = column.type, len(column)
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind.bit_width < 64):
        return column
    if not pa.types.is_decimal(kind):
        return column if _bound(column) * rows < 1 << 63 else column.cast(WIDE)
    if kind.precision + len(str(rows)) <= 38 or kind.bit_width > 128:
        return column
    if _bound(column) * rows < 10 ** (38 - kind.scale):
        return column
    return column.cast(pa.decimal256(76, kind.scale))


def _bound(column: pa.Array | pa.ChunkedArray) -> int:
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


def _first(columns: Columns) -> pa.Array | pa.ChunkedArray:
    return columns[0]


def _all_there(columns: Columns) -> pa.Array:
    there = np.ones(len(columns[0]), bool)
    for column in columns:
        if column.null_count:
            there &= np.asarray(whole(pc.is_valid(column)))
    return pa.array(there, mask=~there)


def _trues(columns: Columns) -> pa.Array | pa.ChunkedArray:
    return pc.if_else(columns[0], True, pa.scalar(None, pa.bool_()))


def _counted(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return pc.fill_null(states[0], 0)


def _as_it_is(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return states[0].cast(call.type.arrow)


def _summed(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    """Give a sum in its type; fail where it does not fit."""
    (total,) = states
    if call.type.root not in (*INTEGERS, "DECIMAL"):
        return total.cast(call.type.arrow)
    try:
        return total.cast(call.type.arrow)
    except pa.ArrowInvalid:
        raise _overflow(call, total) from None


def _overflow(call: AggregateCall, total: pa.Array) -> EvaluationError:
    values = [value for value in pc.unique(total).to_pylist() if value is not None]
    worst = max(values, key=abs)
    scale = total.type.scale if pa.types.is_decimal(total.type) else 0
    digits = int(Decimal(worst).scaleb(scale, EXACT))
    return unfit_sum(call, digits, scale)


def wrapped(total: pa.Array, kind: DataType) -> pa.Array:
    """Cut whole numbers down to a type by dropping their high bits."""
    if not pa.types.is_integer(total.type):
        return total.cast(kind.arrow)
    numbers = np.asarray(pc.fill_null(total, 0)).astype(np.dtype(kind.arrow.to_pandas_dtype()))
    return pa.array(numbers, mask=np.asarray(total.is_null()))


def _summed_wrapping(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return wrapped(states[0], call.type)


def average(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    """Divide sums by counts: decimals are rounded half up, integers truncated if the call says."""
    total, count = states
    counts = np.asarray(pc.fill_null(count, 0))
    if call.type.root == "DECIMAL":
        return _decimal_average(call, total, counts)
    none = counts == 0
    counts = np.where(none, 1, counts)
    if call.type.root in INTEGERS:
        sums = np.asarray(pc.fill_null(total, 0))
        return truncated_means(sums, np.where(none, 0, counts), call.type.arrow)
    sums = np.asarray(pc.fill_null(total.cast(pa.float64()), 0.0))
    return pa.array(sums / counts, mask=none).cast(call.type.arrow)


def _decimal_average(call: AggregateCall, total: pa.Array, counts: np.ndarray) -> pa.Array:
    scale = call.type.scale or 0
    shift = 10 ** (scale - total.type.scale)
    none = (counts == 0) | np.asarray(total.is_null())
    if _bound(total) * 10**total.type.scale * shift < 1 << 62:
        sums = unscaled(total) * shift
        counts = np.where(none, 1, counts)
        rounded = np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts))
        return scaled(pa.array(rounded, mask=none), call.type.arrow)
    try:
        sums = total.cast(pa.decimal128(38, total.type.scale))
    except pa.ArrowInvalid:
        raise _overflow(call, total) from None
    return decimal_means(call, sums, np.where(none, 0, counts))


def unscaled(decimals: pa.Array) -> np.ndarray:
    """Give the int64 digits of decimals that are known to have fewer than 19; 0 for NULL."""
    wide = decimals.cast(pa.decimal128(38, decimals.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)
    digits = words[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    return np.where(np.asarray(wide.is_null()), 0, digits) if wide.null_count else digits


def scaled(digits: pa.Array, kind: pa.DataType) -> pa.Array:
    """Make decimals of a type out of their int64 digits."""
    low = np.asarray(pc.fill_null(digits, 0)).astype(np.int64)
    words = np.stack([low, low >> 63], axis=1)
    valid = pc.is_valid(digits).buffers()[1] if digits.null_count else None
    return pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(words)])


def _extreme(name: str, kind: pa.DataType) -> Fold:
    state = State(name, name)
    if not pa.types.is_floating(kind):
        return Fold("values", _first, (state,), _as_it_is)
    return Fold("bits", lambda columns: _bits(columns[0]), (state,), _from_bits)


def _bits(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give integers that sort as floats do, with NaN greatest."""
    array = whole(column)
    values = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ SIGN, bits), mask=np.asarray(array.is_null()))


def _from_bits(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    (state,) = states
    ordered = np.asarray(pc.fill_null(state, 0)).astype(np.int64)
    bits = np.where(ordered < 0, ordered ^ SIGN, ordered)
    values = pa.array(bits.view(np.float64), mask=np.asarray(state.is_null()))
    return values.cast(call.type.arrow)


FOLDS: dict[str, Fold] = {
    "count": Fold("values", _first, (COUNT,), _counted),
    "count_if": Fold("trues", _trues, (COUNT,), _counted),
    "sum": Fold("values", _first, (SUM,), _summed),
    "sum_wrapping": Fold("values", _first, (WRAPPING,), _summed_wrapping),
    "avg": Fold("values", _first, (SUM, COUNT), average),
    "avg_truncating": Fold("values", _first, (WRAPPING, COUNT), average),
    "bool_and": Fold("values", _first, (State("all", "all"),), _as_it_is),
    "bool_or": Fold("values", _first, (State("any", "any"),), _as_it_is),
}
