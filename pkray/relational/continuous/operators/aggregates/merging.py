"""Keep groups as numbers that can be merged: of two groups one is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GREATEST, LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(frozen=True)
class Numbers:
    """One number a group.

    Attributes:
        values: int64 or float64.
        merge: makes one number of two.
        identity: the number that changes none.
    """

    values: np.ndarray
    merge: np.ufunc = np.add
    identity: int = 0

    def take(self, rows: np.ndarray) -> Numbers:
        """Take groups by number."""
        return replace(self, values=self.values[rows])


Restored = Callable[[Sequence[np.ndarray]], list[pa.Array]]
"""Makes an accumulator's columns of merged numbers."""


def ordered(values: pa.Array, *, greatest: bool) -> tuple[list[Numbers], Restored]:
    """Merge values into the greatest or the least one.

    Args:
        values: numbers, times or BOOLEANs; NULL where a group has none.
    """
    kind = values.type
    merge, identity = (np.maximum, LEAST) if greatest else (np.minimum, GREATEST)
    known = np.asarray(values.is_valid()).astype(np.int64)
    numbers = np.where(known > 0, _as_integers(values), identity)

    def restored(merged: Sequence[np.ndarray]) -> list[pa.Array]:
        numbers, counts = merged
        some = counts > 0
        return [_from_integers(np.where(some, numbers, 0), ~some, kind)]

    return [Numbers(numbers, merge, identity), Numbers(known)], restored


def _as_integers(values: pa.Array) -> np.ndarray:
    """Give integers in the order of values; NaN is the greatest."""
    kind = values.type
    if pa.types.is_floating(kind):
        floats = np.array(pc.fill_null(values, 0.0)).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(np.int64)
        return np.where(bits < 0, bits ^ GREATEST, bits)
    if pa.types.is_temporal(kind):
        values = values.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    filled = pc.fill_null(values, False if pa.types.is_boolean(kind) else 0)
    return np.asarray(filled.cast(pa.int64()))


def _from_integers(numbers: np.ndarray, null: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        floats = np.where(numbers < 0, numbers ^ GREATEST, numbers).view(np.float64)
        return pa.array(floats, mask=null).cast(kind, safe=False)
    whole = pa.array(numbers, mask=null)
    if pa.types.is_temporal(kind):
        return (whole if kind.bit_width == 64 else whole.cast(pa.int32())).view(kind)
    return whole.cast(kind)
