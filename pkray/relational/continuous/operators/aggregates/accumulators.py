"""Numbers a group from which rows can be taken out again as they were put in.

Each is computed of `Taken` rows: the changes that one argument list, FILTER and DISTINCT leave.

Integers and decimals are summed exactly. Floats are summed in the order of the changes: what a
retraction leaves differs from a sum over the rows that are left by rounding, relative to the
greatest sum that the group has had; it is exactly 0.0 again when the last value goes. NaN and
infinities are counted apart, so that a sum is as if they had never been there once they are
retracted. Variances and the like are computed of sums of differences from one value of the group,
and promise the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.functions.aggregates.overflow import unfit
from pkray.relational.functions.numbers.exact_sums import ExactSums, limbs_of

GREATEST, LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
Restored = Callable[[Sequence[np.ndarray]], list[pa.Array]]
"""Makes an accumulator's columns of merged numbers."""
BIGINT, DOUBLE = pa.int64(), pa.float64()
Columns = Sequence[pa.Array]


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

    def take(self, rows: np.ndarray) -> Self:
        """Take groups by number."""
        return replace(self, values=self.values[rows])


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


@dataclass(frozen=True)
class Taken:
    """The rows that one argument list takes.

    Attributes:
        groups: int64, one a row.
        signs: int64, 1 for a row that is added, -1 for one that is taken out.
        arguments: arrays without NULLs where the aggregate leaves NULLs out.
    """

    groups: np.ndarray
    signs: np.ndarray
    arguments: tuple[pa.Array, ...]


Take = Callable[[Groups], Taken]


class Accumulator(ABC):
    """Something that is kept a group.

    Attributes:
        columns: what its state has, with types.
    """

    columns: tuple[tuple[str, pa.DataType], ...]

    @abstractmethod
    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        """Take the changes of groups.

        Args:
            before: the state's columns, a row a group; NULL for groups that are new.

        Returns:
            the same afterwards.
        """

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        """Give what is kept as numbers that can be merged, and how to make columns of merged ones.

        Args:
            kept: the state's columns, a row a group.
        """
        raise NotImplementedError(f"groups of {type(self).__name__} cannot be merged")


class Count(Accumulator):
    """Counts rows."""

    columns = (("count", BIGINT),)

    def __init__(self, take: Take) -> None:
        self._take = take

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        added = summed(taken.groups, self._added(taken), groups.count)
        return [pa.array(integers(before[0]) + added)]

    def _added(self, taken: Taken) -> np.ndarray:
        """Say how much each row adds: int64."""
        return taken.signs

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        return [Numbers(integers(kept[0]))], lambda merged: [pa.array(merged[0])]


class CountTrue(Count):
    """Counts rows whose argument is true."""

    columns = (("trues", BIGINT),)

    def _added(self, taken: Taken) -> np.ndarray:
        return taken.signs * np.asarray(pc.fill_null(taken.arguments[0], False))


class Wrapped(Count):
    """Adds integers up, modulo 2^64."""

    columns = (("sum", BIGINT),)

    def _added(self, taken: Taken) -> np.ndarray:
        return taken.signs * np.asarray(taken.arguments[0].cast(BIGINT))


class Exact(Accumulator):
    """Adds integers or decimals up.

    Args:
        beyond: whether sums of decimals of more than 38 digits are kept: as what is left beside
            multiples of 10^38, and how many these are.

    Raises:
        EvaluationError: a sum does not fit the state: BIGINT, or DECIMAL of 38 digits.
    """

    def __init__(
        self, take: Take, kind: pa.DataType, argument: str, *, beyond: bool = False
    ) -> None:
        self._take = take
        self._kind = kind
        self._argument = argument
        self._beyond = beyond
        self.columns = (("sum", kind), *([("beyond", BIGINT)] if beyond else []))

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        (values,) = taken.arguments
        if pa.types.is_integer(self._kind):
            found = _small_sums(integers(before[0]), taken, groups.count)
            if found is not None:
                return [pa.array(found)]
        sums = ExactSums()
        every = np.arange(groups.count)
        one = np.ones(groups.count, np.int64)
        for rows, signs, numbers in ((every, one, before[0]), (taken.groups, taken.signs, values)):
            _add(sums, rows, groups.count, signs, numbers)
        if self._beyond:
            sums.add_parted(groups.count, integers(before[1]))
        return self._kept(sums, groups, groups.count)

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        """Add limbs up, so that no sum of them leaves 64 bits."""
        numbers = limbs_of(kept[0])
        if self._beyond:
            numbers.append(integers(kept[1]))

        def restored(merged: Sequence[np.ndarray]) -> list[pa.Array]:
            count = len(merged[0])
            sums = ExactSums.from_limbs(merged[:-1] if self._beyond else merged)
            if self._beyond:
                sums.add_parted(count, merged[-1])
            return self._kept(sums, None, count)

        return [Numbers(each) for each in numbers], restored

    def _kept(self, sums: ExactSums, groups: Groups | None, count: int) -> list[pa.Array]:
        """Give the columns of sums; `groups` names them in an error."""
        if self._beyond:
            rest, beside = sums.parted(count, self._kind)
            return [rest, pa.array(beside)]
        if pa.types.is_integer(self._kind):
            totals, over = sums.integers(count)
            result = pa.array(totals)
        else:
            result, over = sums.decimals(count, self._kind)
        if over.any():
            self._refuse(sums, groups, int(np.argmax(over)), count)
        return [result]

    def _refuse(self, sums: ExactSums, groups: Groups | None, group: int, count: int) -> None:
        scale = 0 if pa.types.is_integer(self._kind) else self._kind.scale
        named = "BIGINT" if pa.types.is_integer(self._kind) else f"DECIMAL(38, {scale})"
        where = groups.describe(group) if groups else ""
        raise unfit("sum", [self._argument], named, sums.exact(count, group), scale, where)


def _small_sums(before: np.ndarray, taken: Taken, count: int) -> np.ndarray | None:
    """Add up in 64 bits, where no sum leaves them."""
    values = np.asarray(taken.arguments[0].cast(BIGINT))
    most = max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0
    if most * max(len(values), 1) >= 1 << 62:
        return None
    if count and max(abs(int(before.max())), abs(int(before.min()))) >= 1 << 62:
        return None
    return before + summed(taken.groups, values * taken.signs, count)


def _add(
    sums: ExactSums, groups: np.ndarray, count: int, signs: np.ndarray, values: pa.Array
) -> None:
    if values.null_count:
        valid = np.asarray(values.is_valid())
        groups, signs, values = groups[valid], signs[valid], values.drop_null()
    if pa.types.is_decimal(values.type):
        sums.add_decimals(groups, count, values, signs)
    else:
        sums.add_integers(groups, count, np.asarray(values.cast(BIGINT)), signs)


class Floats(Accumulator):
    """Adds floats up, and counts them.

    Args:
        retracts: whether rows are taken out: then NaN and infinities are counted apart.
    """

    def __init__(self, take: Take, *, retracts: bool) -> None:
        self._take = take
        self._retracts = retracts
        odd = ("nans", "infinities", "negative_infinities") if retracts else ()
        self.columns = (("count", BIGINT), ("sum", DOUBLE), *((name, BIGINT) for name in odd))

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken, count = self._take(groups), groups.count
        values = np.asarray(taken.arguments[0].cast(DOUBLE))
        counts, sums = integers(before[0]), floats(before[1])
        with np.errstate(all="ignore"):
            if not self._retracts:
                np.add.at(sums, taken.groups, values)
                counts += np.bincount(taken.groups, minlength=count)
                return [pa.array(counts), pa.array(sums)]
            finite = np.isfinite(values)
            counts += summed(taken.groups, taken.signs * finite, count)
            sums = _moved(sums, taken.groups, np.where(finite, values, 0.0) * taken.signs, counts)
        masks = (np.isnan(values), values == np.inf, values == -np.inf)
        odd = [
            integers(earlier) + summed(taken.groups, taken.signs * mask, count)
            for mask, earlier in zip(masks, before[2:], strict=True)
        ]
        return [pa.array(column) for column in (counts, sums, *odd)]

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        counts, sums, *odd = kept
        numbers = [integers(counts), floats(sums), *map(integers, odd)]
        return [Numbers(each) for each in numbers], lambda merged: [*map(pa.array, merged)]

    @staticmethod
    def total(states: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Give the sums with what was counted apart, and how many values there are."""
        counts, sums = integers(states[0]), floats(states[1])
        if len(states) == 2:
            return sums, counts
        odd = [integers(each) for each in states[2:]]
        nans, up, down = (each > 0 for each in odd)
        sums = np.where(up, np.inf, np.where(down, -np.inf, sums))
        return np.where(nans | (up & down), np.nan, sums), counts + sum(odd)


class Parity(Accumulator):
    """Combines the bits of integers by XOR: what is put in twice is out again."""

    def __init__(self, take: Take, kind: pa.DataType) -> None:
        self._take = take
        self.columns = (("bits", kind),)

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        bits = integers(before[0])
        np.bitwise_xor.at(bits, taken.groups, np.asarray(taken.arguments[0].cast(BIGINT)))
        return [pa.array(bits).cast(self.columns[0][1])]

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        kind = self.columns[0][1]
        numbers = Numbers(integers(kept[0]), np.bitwise_xor)
        return [numbers], lambda merged: [pa.array(merged[0]).cast(kind)]


class Moments(Accumulator):
    """Adds up differences from one value of the group, their squares and their products.

    Rows where a value is NaN or infinite are only counted, as ``odd``.
    """

    def __init__(self, take: Take, arguments: int) -> None:
        self._take = take
        names = ["shift_x", "x", "xx", *(["shift_y", "y", "yy", "xy"] if arguments == 2 else [])]
        self.columns = (("finite", BIGINT), ("odd", BIGINT), *((name, DOUBLE) for name in names))

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        count = groups.count
        values = [np.asarray(each.cast(DOUBLE)) for each in taken.arguments]
        finite = np.logical_and.reduce([np.isfinite(each) for each in values])
        odd = integers(before[1]) + summed(taken.groups, taken.signs * ~finite, count)
        known = integers(before[0])
        rows, signs = taken.groups[finite], taken.signs[finite]
        now = known + summed(rows, signs, count)
        shifts, away, sums = [], [], []
        for place, each in enumerate(values):
            shift, *earlier = (floats(column) for column in before[2 + 3 * place : 5 + 3 * place])
            first = np.zeros(count)
            first[rows[::-1]] = each[finite][::-1]
            shift = np.where(known > 0, shift, first)
            far = each[finite] - shift[rows]
            shifts.append(shift)
            away.append(far)
            sums.append(
                [_moved(e, rows, signs * far**power, now) for power, e in enumerate(earlier, 1)]
            )
        made = [
            column for shift, pair in zip(shifts, sums, strict=True) for column in (shift, *pair)
        ]
        if len(values) == 2:
            made.append(_moved(floats(before[8]), rows, signs * away[0] * away[1], now))
        return [pa.array(now), pa.array(odd), *map(pa.array, made)]

    @staticmethod
    def spreads(states: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Give counts, and sums of squares and products of differences from the means.

        Returns:
            counts, of x and x, of x and y, of y and y; NaN where a value is not finite.
        """
        finite, odd = integers(states[0]), integers(states[1])
        numbers = [floats(column) for column in states[2:]]
        _, x, xx = numbers[:3]
        _, y, yy, xy = numbers[3:] if len(numbers) > 3 else (None, x, xx, xx)
        spoilt = np.where(odd > 0, np.nan, 0.0)
        divisor = np.maximum(finite, 1)
        xx, xy, yy = (
            _without_noise(each - one * other / divisor, each) + spoilt
            for each, one, other in ((xx, x, x), (xy, x, y), (yy, y, y))
        )
        return finite + odd, np.where(xx < 0, 0.0, xx), xy, np.where(yy < 0, 0.0, yy)


def _moved(
    before: np.ndarray, groups: np.ndarray, values: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Add to sums; those of groups in which nothing is left are 0 again."""
    np.add.at(before, groups, values)
    before[counts == 0] = 0.0
    return before


def _without_noise(spread: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Put 0 where a difference of two sums is no more than their rounding."""
    return np.where(np.abs(spread) <= 1e-15 * np.abs(squares), 0.0, spread)


def summed(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Add int64 values up, a sum a group."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return sums


def integers(column: pa.Array) -> np.ndarray:
    """Give integers as a new int64 array, 0 for NULL."""
    return np.array(pc.fill_null(column.cast(BIGINT), 0), np.int64)


def floats(column: pa.Array) -> np.ndarray:
    """Give floats as a new float64 array, 0.0 for NULL."""
    return np.array(pc.fill_null(column, 0.0), np.float64)
