"""Sums of integers and decimals over frames, exact whatever their size."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.aggregates.overflow import unfit_sum
from pkray.relational.functions.numbers.exact_sums import decimal_words, decimals_of
from pkray.relational.local.frames import Frames
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import WindowCall

LOW = np.int64(0xFFFFFFFF)


@dataclass(frozen=True)
class Limbs:
    """Numbers of 128 bits in four limbs of 32 bits, each in 64 bits, the lowest first.

    Limbs are added up one by one: 2^31 of them fit.
    """

    parts: list[np.ndarray]

    @staticmethod
    def of(values: pa.Array) -> Limbs:
        """Take integers, or decimals as integers of their last digit; NULLs are 0."""
        null = np.asarray(values.is_null()) if values.null_count else None
        if pa.types.is_decimal(values.type):
            words = decimal_words(values.cast(pa.decimal128(38, values.type.scale)))
            low, high = words[:, 0], words[:, 1]
        else:
            low = np.asarray(pc.fill_null(values, 0)).astype(np.int64)
            high = low >> 63
        if null is not None:
            low, high = np.where(null, 0, low), np.where(null, 0, high)
        return Limbs([low & LOW, (low >> 32) & LOW, high & LOW, high >> 32])

    def sums(self, frames: Frames) -> Limbs:
        """Add up each frame."""
        made = []
        for part in self.parts:
            until = np.concatenate([[0], np.cumsum(part)])
            made.append(until[frames.high] - until[frames.low])
        return Limbs(made)._carried()

    def _carried(self) -> Limbs:
        parts, carry = [], np.zeros(len(self.parts[0]), np.int64)
        for part in self.parts[:-1]:
            total = part + carry
            parts.append(total & LOW)
            carry = total >> 32
        return Limbs([*parts, self.parts[-1] + carry])

    def _words(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give the low and the high int64, and whether more are needed."""
        a, b, c, d = self.parts
        return a | (b << 32), c | (d << 32), d != (d << 32) >> 32

    def finished(self, call: WindowCall, none: np.ndarray) -> pa.Array:
        """Give sums in the call's type; NULL where there was nothing to add."""
        if call.type.root == "DECIMAL":
            return self.decimals(call, call.type.scale or 0, none).cast(call.type.arrow)
        if facts(call.function).wraps:
            numbers = self._words()[0].astype(np.dtype(call.type.arrow.to_pandas_dtype()))
            return pa.array(numbers, mask=none)
        return self.integers(call, none).cast(call.type.arrow)

    def integers(self, call: WindowCall, none: np.ndarray) -> pa.Array:
        """Give int64 sums; fail where they do not fit."""
        low, high, over = self._words()
        if not facts(call.function).wraps:  # whose sum wraps
            self._check(call, (over | (high != low >> 63)) & ~none, 0)
        return pa.array(low, mask=none)

    def decimals(self, call: WindowCall, scale: int, none: np.ndarray) -> pa.Array:
        """Give sums as DECIMAL(38, scale); fail where they do not fit in the call's type."""
        low, high, over = self._words()
        made = decimals_of(low, high, pa.decimal128(38, scale))
        digits = 38 if facts(call.function).is_mean else call.type.precision or 38
        most = pa.scalar(Decimal((0, (9,) * digits, -scale)), made.type)
        self._check(call, (over | np.asarray(pc.greater(pc.abs(made), most))) & ~none, scale)
        return pc.if_else(pa.array(none), pa.scalar(None, made.type), made)

    def _check(self, call: WindowCall, over: np.ndarray, scale: int) -> None:
        if not over.any():
            return
        row = int(np.flatnonzero(over)[0])
        total = sum(int(part[row]) << 32 * place for place, part in enumerate(self.parts))
        raise unfit_sum(call, total, scale)
