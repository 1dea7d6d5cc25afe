"""Sums of integers and decimals that are exact, whatever their size."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.numbers.decimals import rounded

_LOW = np.int64(0xFFFFFFFF)
_ONE_WORD = 18
"""Digits of decimals that fit in their low 64 bits."""
_TOP = 10**38
"""The first number of more digits than decimals have."""
_TOP_LIMBS = [_TOP >> 32 * place & 0xFFFFFFFF for place in range(4)]


class GroupNumbers:
    """Numbers, one a group, that grow with the groups; `fill` before anything is put in."""

    def __init__(self, dtype: type, fill: float = 0) -> None:
        self.array: np.ndarray = np.full(1024, fill, dtype)
        self.fill = fill

    def to(self, count: int) -> np.ndarray:
        """Give the numbers of at least `count` groups; writing to them changes them."""
        if count > len(self.array):
            wider = np.full(max(count, 2 * len(self.array)), self.fill, self.array.dtype)
            wider[: len(self.array)] = self.array
            self.array = wider
        return self.array


class ExactSums:
    """Sums of numbers of up to 128 bits, one a group, in four limbs of 32 bits.

    Each limb is added up by itself in 64 bits, which suffices for 2^31 rows.
    """

    def __init__(self) -> None:
        self._limbs: list[GroupNumbers | None] = [None] * 4

    def add_integers(
        self, groups: np.ndarray, count: int, values: np.ndarray, signs: np.ndarray | None = None
    ) -> None:
        """Add int64 values; those whose sign is -1 are subtracted."""
        if not len(values):
            return
        if values.min() >= -_LOW and values.max() <= _LOW:
            self._add(0, groups, count, values, signs)
        else:
            self._add(0, groups, count, values & _LOW, signs)
            self._add(1, groups, count, values >> 32, signs)

    def add_decimals(
        self, groups: np.ndarray, count: int, values: pa.Array, signs: np.ndarray | None = None
    ) -> None:
        """Add decimal128 values without NULLs, as integers without their scale."""
        words = decimal_words(values)
        low, high = words[:, 0], words[:, 1]
        if values.type.precision <= _ONE_WORD:
            self.add_integers(groups, count, np.ascontiguousarray(low), signs)
            return
        parts = (low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32)
        for place, part in enumerate(parts):
            self._add(place, groups, count, part, signs)

    @classmethod
    def from_limbs(cls, limbs: Sequence[np.ndarray]) -> Self:
        """Make sums of limbs that were added up, as `limbs_of` gives them."""
        sums = cls()
        for place, limb in enumerate(limbs):
            kept = sums._limbs[place] = GroupNumbers(np.int64)
            kept.to(len(limb))[: len(limb)] = limb
        return sums

    def _add(
        self,
        place: int,
        groups: np.ndarray,
        count: int,
        values: np.ndarray,
        signs: np.ndarray | None,
    ) -> None:
        limb = self._limbs[place]
        if limb is None:
            limb = self._limbs[place] = GroupNumbers(np.int64)
        np.add.at(limb.to(count), groups, values if signs is None else values * signs)

    def words(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give the sums of 128 bits: the low and the high int64, and whether more are needed."""
        carry = np.zeros(count, np.int64)
        parts = []
        for limb in self._limbs:
            total = carry if limb is None else limb.to(count)[:count] + carry
            parts.append(total & _LOW)
            carry = total >> 32
        low, high = parts[0] | (parts[1] << 32), parts[2] | (parts[3] << 32)
        return low, high, carry != high >> 63

    def integers(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the low int64 of the sums, and whether they do not fit in it."""
        low, high, over = self.words(count)
        return low, over | (high != low >> 63)

    def decimals(self, count: int, kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        """Give the sums as a decimal128 type of the values' scale, and whether they do not fit."""
        low, high, over = self.words(count)
        return decimals_of(low, high, kind), over | ~_fits(low, high, kind.precision)

    def parted(self, count: int, kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        """Give sums as a decimal128 type of 38 digits, and int64, how many times 10^38 are beside.

        None is beside a sum that fits.
        """
        rest, over = self.decimals(count, kind)
        if not over.any():
            return rest, np.zeros(count, np.int64)
        none = np.zeros(count, np.int64)
        limbs = [none if limb is None else limb.to(count)[:count] for limb in self._limbs]
        near = sum(limb * 2.0 ** (32 * place) for place, limb in enumerate(limbs)) / float(_TOP)
        times = np.where(over, np.where(near < 0, -1, 1) * np.maximum(np.rint(np.abs(near)), 1), 0)
        beside = times.astype(np.int64)
        limbs = [limb - beside * part for limb, part in zip(limbs, _TOP_LIMBS, strict=True)]
        rest, _ = ExactSums.from_limbs(limbs).decimals(count, kind)
        return rest, beside

    def add_parted(self, count: int, beside: np.ndarray) -> None:
        """Add 10^38, so many times a group."""
        if beside.any():
            for place, part in enumerate(_TOP_LIMBS):
                self._add(place, np.arange(count), count, beside * part, None)

    def exact(self, count: int, group: int) -> int:
        """Give one sum, for a message."""
        limbs = [0 if limb is None else int(limb.to(count)[group]) for limb in self._limbs]
        return sum(limb << 32 * place for place, limb in enumerate(limbs))


def limbs_of(values: pa.Array) -> list[np.ndarray]:
    """Give the limbs of 32 bits of integers or decimals, the low ones first; 0 for NULL."""
    if pa.types.is_decimal(values.type):
        words = decimal_words(values)
        if values.null_count:
            words = np.where(np.asarray(values.is_valid())[:, None], words, 0)
        low, high = words[:, 0], words[:, 1]
        return [low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32]
    whole = np.asarray(pc.fill_null(values, 0)).astype(np.int64)
    return [whole & _LOW, whole >> 32]


def decimal_words(values: pa.Array) -> np.ndarray:
    """Give the int64 words, (rows, 2) with the low ones first, of decimal128 values."""
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.zeros((len(values), 2), np.int64)
    words = np.frombuffer(buffer, np.int64)
    return words.reshape(-1, 2)[values.offset : values.offset + len(values)]


def decimals_of(low: np.ndarray, high: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Make decimal128 values of their words."""
    words = np.ascontiguousarray(np.stack([low, high], axis=1))
    return pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)])


def _fits(low: np.ndarray, high: np.ndarray, precision: int) -> np.ndarray:
    """Whether numbers of 128 bits have at most so many digits."""
    negative = high < 0
    size = np.where(negative, ~high + (low == 0), high)
    rest = np.where(negative, -low, low).view(np.uint64)
    most = 10**precision
    top, bottom = np.int64(most >> 64), np.uint64(most & 0xFFFFFFFFFFFFFFFF)
    return (size >= 0) & ((size < top) | ((size == top) & (rest < bottom)))


def divide_decimals(sums: pa.Array, counts: np.ndarray, scale: int) -> pa.Array:
    """Divide decimals by counts, rounded half away from zero; NULL where the count is 0.

    Returns:
        DECIMAL(76, scale).
    """
    divisors = pa.array(counts, mask=counts == 0).cast(pa.decimal256(19, 0))
    wide = sums.cast(pa.decimal256(38, sums.type.scale))
    quotients = pc.divide(wide, divisors)
    return rounded(quotients, scale).cast(pa.decimal256(76, scale))
