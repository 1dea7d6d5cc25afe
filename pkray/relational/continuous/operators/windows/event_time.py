"""Event time in microseconds, and when the watermark has passed it."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch
from pkray.schema.types import DataType

MILLI = 1000
MILLIS = 3
"""Digits of seconds of a time in milliseconds."""


def micros(column: pa.Array) -> np.ndarray:
    """Give times in microseconds since 1970, rounded down: int64, one a row.

    Args:
        column: TIMESTAMP or TIMESTAMP_LTZ of any precision, without NULLs.
    """
    kind = column.type
    if kind.unit == "ns":
        return np.asarray(column.view(pa.int64())) // 1000
    return np.asarray(pc.cast(column, pa.timestamp("us", kind.tz)).view(pa.int64()))


def as_times(values: np.ndarray, kind: pa.TimestampType) -> pa.Array:
    """Make a column of a type of microseconds since 1970."""
    return pc.cast(pa.array(values).view(pa.timestamp("us", kind.tz)), kind, safe=False)


def tick(kind: DataType) -> int:
    """Give the microseconds between a time and the next of a type, one at least."""
    return MILLI if (kind.precision or 0) <= MILLIS else 1


def passed(ends: np.ndarray, watermark: int | None, tick: int) -> np.ndarray:
    """Tell which windows are over: the watermark is at their last moment, or after it.

    Args:
        ends: microseconds, of the first moment after each window.
        tick: as `tick` gives it.
    """
    if watermark is None:
        return np.zeros(len(ends), bool)
    return ends - tick <= watermark


def on_time(
    context: Context, index: int, changes: Changes, ends: np.ndarray, epoch: Epoch, tick: int = 0
) -> np.ndarray:
    """Number the changes of an input that the watermark has not passed: the others are late.

    Args:
        ends: as of `passed`, one a change.
    """
    late = passed(ends, epoch.watermark, tick)
    if late.any():
        context.late(index, changes.where(late), epoch)
    return np.flatnonzero(~late)
