"""sum, product and count."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import MergeError
from pkray.lsm.engines.functions import decimals
from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.segments import Bools, Ints, Segments, Step, Values, values_at

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")


class _Arithmetic(SkippingNulls):
    @property
    def merges_its_type(self) -> bool:
        return self.data_type.root in _NUMBERS


class Sum(_Arithmetic):
    """The sum of the values that are not null; integers wrap around.

    A DECIMAL of more than 18 digits that overflows gives null; a smaller one keeps the digits.
    """

    name: ClassVar[str] = "sum"
    takes_back: ClassVar[bool] = True
    any_order: ClassVar[bool] = True

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        kind = column.type
        if pa.types.is_decimal128(kind):
            return rows.spread(self._decimals(column, rows))
        values = values_at(column, np.dtype(kind.to_pandas_dtype()), rows.order)
        if rows.retract is not None:
            values = np.where(rows.retract, -values, values)
        return rows.spread(pa.array(_add(values, rows)))

    def _decimals(self, column: pa.Array, rows: Segments) -> pa.Array:
        sign = 1 if rows.retract is None else np.where(rows.retract, -1, 1)
        all_valid = np.ones(len(rows), bool)
        if column.type.precision <= decimals.COMPACT_PRECISION:
            values = decimals.compact_at(column, rows.order) * sign
            return decimals.from_compact(_add(values, rows), all_valid, column.type)
        limbs = [_add(limb * sign, rows) for limb in decimals.limbs_at(column, rows.order)]
        return decimals.from_limbs(limbs, all_valid, column.type)


class Count(Sum):
    """Counts values that are not null: rows come in as ones and zeros (``as_counts``)."""

    name: ClassVar[str] = "count"
    roots: ClassVar[tuple[str, ...] | None] = _INTEGERS

    @staticmethod
    def as_counts(column: pa.Array) -> pa.Array:
        """Turn incoming values into what a table keeps of them: 1, or 0 for null."""
        return pc.is_valid(column).cast(column.type)


class Product(_Arithmetic):
    """The product of the values that are not null; taking back divides.

    Integers wrap around and are divided towards zero. Decimals are rounded half up to their scale
    after each step; where they then have more digits than the type the product is lost, and begins
    anew with the next value.
    """

    name: ClassVar[str] = "product"
    takes_back: ClassVar[bool] = True
    any_order: ClassVar[bool] = True

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        kind = column.type
        retract = rows.retract
        if pa.types.is_decimal128(kind):
            return rows.spread(self._decimals(column, rows, retract))
        values = values_at(column, np.dtype(kind.to_pandas_dtype()), rows.order)
        with np.errstate(all="ignore"):
            if retract is not None:
                product = rows.fold(values, self._step(retract))
            elif pa.types.is_integer(kind):
                product = np.multiply.reduceat(values, rows.starts, dtype=values.dtype)
            else:
                product = rows.fold_floats(values, np.multiply)
        return rows.spread(pa.array(product))

    def _step(self, retract: Bools) -> Step:
        def step(so_far: Values, following: Values, places: Ints) -> Values:
            back = retract[places]
            result = so_far * following
            if back.any():
                result[back] = self._divide(so_far[back], following[back])
            return result

        return step

    def _divide(self, values: Values, by: Values) -> Values:
        if values.dtype.kind == "f":
            return values / by
        self._check_nonzero(by)
        quotient, rest = np.divmod(values, by)
        return quotient + ((rest != 0) & ((values < 0) != (by < 0)))

    def _decimals(self, column: pa.Array, rows: Segments, retract: Bools | None) -> pa.Array:
        one = 10**column.type.scale
        bound = 10**column.type.precision
        lost = np.zeros(len(rows.order), bool)

        def step(so_far: Values, following: Values, places: Ints) -> Values:
            anew = lost[places - 1]
            multiplied = _round_half_up(so_far * following, np.full(len(so_far), one, object))
            if retract is not None:
                back = retract[places] & ~anew
                self._check_nonzero(following[back])
                multiplied[back] = _round_half_up(so_far[back] * one, following[back])
            multiplied[anew] = following[anew]
            lost[places] = (np.abs(multiplied) >= bound).astype(bool)
            return multiplied

        product = rows.fold(decimals.wide_at(column, rows.order), step)
        return decimals.from_wide(product, ~lost[rows.ends - 1], column.type)

    def _check_nonzero(self, divisors: Values) -> None:
        if (divisors == 0).any():
            raise MergeError(
                f"column {self.field!r}: a product cannot take 0 back; set "
                f"'fields.{self.field}.ignore-retract' = 'true' to ignore -U and -D rows",
                field=self.field,
                function=self.name,
            )


def _add(values: Values, rows: Segments) -> Values:
    if values.dtype.kind == "f":
        # In the order of the rows: reduceat adds in another.
        with np.errstate(all="ignore"):
            return rows.fold_floats(values, np.add)
    return np.add.reduceat(values, rows.starts, dtype=values.dtype)


def _round_half_up(
    values: npt.NDArray[np.object_], by: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """Divide to the nearest integer, ties away from zero."""
    size = (2 * np.abs(values) + np.abs(by)) // (2 * np.abs(by))
    negative = ((values < 0) != (by < 0)).astype(bool)
    return np.where(negative, -size, size)
