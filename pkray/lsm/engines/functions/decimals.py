"""128-bit integers of decimal columns in numpy."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.lsm.engines.segments import Ints, values_at

COMPACT_PRECISION = 18
"""Up to here an unscaled value fits 64 bits."""

_HALVES = np.dtype([("low", "u8"), ("high", "i8")])
_LIMB = np.int64(0xFFFFFFFF)


def compact_at(column: pa.Array, numbers: Ints) -> Ints:
    """Return unscaled values of at most 18 digits: int64, one a number."""
    return np.ascontiguousarray(values_at(column, _HALVES, numbers)["low"]).view(np.int64)


def wide_at(column: pa.Array, numbers: Ints) -> npt.NDArray[np.object_]:
    """Return unscaled values as Python integers, one a number."""
    halves = values_at(column, _HALVES, numbers)
    return (halves["high"].astype(object) << 64) | halves["low"].astype(object)


def limbs_at(column: pa.Array, numbers: Ints) -> list[Ints]:
    """Return unscaled values as four 32-bit limbs (int64, one a number), lowest first; the last one
    has the sign."""
    halves = values_at(column, _HALVES, numbers)
    low = np.ascontiguousarray(halves["low"])
    high = np.ascontiguousarray(halves["high"])
    lower = [(low & np.uint64(_LIMB)).view(np.int64), (low >> np.uint64(32)).view(np.int64)]
    return [*lower, high & _LIMB, high >> 32]


def from_limbs(limbs: list[Ints], valid: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Make decimals of sums of limbs; null where they have more digits than the type."""
    carry = np.zeros(len(limbs[0]), np.int64)
    whole = []
    for limb in limbs[:3]:
        total = limb + carry
        whole.append(total & _LIMB)
        carry = total >> 32
    top = limbs[3] + carry
    fits = (top >= -(2**31)) & (top < 2**31)
    high = (top << 32) | whole[2]
    low = ((whole[1] << 32) | whole[0]).view(np.uint64)
    bound = 10**kind.precision
    fits &= _less(high, low, bound) & ~_less(high, low, 1 - bound)
    return _decimals(low, high, valid & fits, kind)


def from_compact(values: Ints, valid: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return _decimals(values.view(np.uint64), values >> 63, valid, kind)


def from_wide(
    values: npt.NDArray[np.object_], valid: npt.NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    """Make decimals of Python integers; null where a value has more digits than the type."""
    bound = 10**kind.precision
    fits = valid & (np.abs(values) < bound).astype(bool)
    inside = np.where(fits, values, 0)
    low = (inside & (2**64 - 1)).astype(np.uint64)
    return _decimals(low, (inside >> 64).astype(np.int64), fits, kind)


def _less(high: Ints, low: npt.NDArray[np.uint64], bound: int) -> npt.NDArray[np.bool_]:
    bound_high, bound_low = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
    return (high < bound_high) | ((high == bound_high) & (low < bound_low))


def _decimals(
    low: npt.NDArray[np.uint64], high: Ints, valid: npt.NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    halves = np.empty(len(low), _HALVES)
    halves["low"], halves["high"] = low, high
    mask = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(low), [mask, pa.py_buffer(halves)])
