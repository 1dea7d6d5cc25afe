"""Kernels of functions of time: numbers of days and ticks go in, arrays come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pkray.relational.functions.function import Kernel, Value
from pkray.relational.functions.time.calendar import Times, times_of
from pkray.relational.functions.values import as_array, refuse
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


def valid_rows(values: Sequence[Value], rows: int) -> np.ndarray | None:
    """Say in which rows no argument is NULL; None: in all."""
    valid = None
    for value in values:
        if isinstance(value, pa.Scalar):
            if not value.is_valid:
                return np.zeros(rows, bool)
        elif value.null_count:
            one = np.asarray(value.is_valid())
            valid = one if valid is None else valid & one
    return valid


def built(
    numbers: np.ndarray, kind: DataType, values: Sequence[Value], rows: int, *, bad: object = None
) -> pa.Array:
    """Make an array of ticks or integers, NULL where an argument is, or where `bad` is true."""
    valid = valid_rows(values, rows)
    mask = None if valid is None else ~valid
    if isinstance(bad, np.ndarray):
        mask = bad if mask is None else mask | bad
    arrow = kind.arrow
    if pa.types.is_date(arrow) or pa.types.is_time(arrow):
        numbers = numbers.astype(np.int32)
        return pa.array(numbers, mask=mask).view(arrow)
    if pa.types.is_timestamp(arrow):
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
    valid = valid_rows(values, rows)
    wrong = np.broadcast_to(wrong, (rows,))
    refuse(call, values, pa.array(wrong if valid is None else wrong & valid), problem, rows)


def to_days(compute: Compute) -> Kernel:
    """Make a kernel that gives a DATE, and refuses what is out of its range."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        days = compute(*(numbers_of(value, rows) for value in values))
        refuse_known(call, values, days != days.astype(np.int32), "overflows DATE", rows)
        return built(days, call.type, values, rows)

    return kernel
