"""Kernels of functions of time: numbers of days and ticks go in, arrays come out."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pkray.relational.functions.function import Kernel, Value
from pkray.relational.functions.time.calendar import Times, times_of
from pkray.relational.functions.values import as_array, null_rows, refuse
from pkray.relational.plan.expressions import Call
from pkray.schema.types import DataType

Compute: TypeAlias = Callable[..., np.ndarray]


def numbers_of(value: Value, rows: int) -> Times | np.ndarray:
    """Give times as `Times` and integers as int64; NULLs are 0."""
    array = as_array(value, rows)
    if pa.types.is_temporal(array.type):
        return times_of(array)
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled).astype(np.int64)


def built(
    numbers: np.ndarray, kind: DataType, values: Sequence[Value], rows: int, *, bad: object = None
) -> pa.Array:
    """Make an array of ticks or integers, NULL where an argument is, or where `bad` is true."""
    mask = null_rows(values, rows)
    if isinstance(bad, np.ndarray):
        mask |= bad
    arrow = kind.arrow
    if pa.types.is_date(arrow) or pa.types.is_time(arrow):
        numbers = numbers.astype(np.int32)
    if pa.types.is_temporal(arrow):
        return pa.array(numbers, mask=mask).view(arrow)
    return pa.array(numbers, arrow, mask=mask)


def computed(compute: Compute) -> Kernel:
    """Make a kernel that cannot fail of a function of `Times` and int64 arrays."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        numbers = compute(*(numbers_of(value, rows) for value in values))
        return built(numbers, call.type, values, rows)

    return kernel


def refuse_known(
    call: Call, values: Sequence[Value], wrong: np.ndarray, problem: str, rows: int
) -> None:
    """Refuse the first row without NULLs for which `wrong` is true."""
    refuse(call, values, pa.array(np.broadcast_to(wrong, (rows,))), problem, rows)


def to_days(compute: Compute) -> Kernel:
    """Make a kernel that gives a DATE, and refuses what is out of its range."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        days = compute(*(numbers_of(value, rows) for value in values))
        refuse_known(call, values, days != days.astype(np.int32), "overflows DATE", rows)
        return built(days, call.type, values, rows)

    return kernel
