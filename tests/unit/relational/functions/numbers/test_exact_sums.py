"""Sums beyond 38 digits, kept as what is left beside multiples of 10^38."""

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest

from pkray.relational.functions.numbers.exact_sums import ExactSums

TOP = 10**38
KIND = pa.decimal128(38, 0)


@pytest.mark.parametrize(
    "values",
    [
        [TOP - 1],
        [TOP - 1, 1],
        [1 - TOP, -1],
        [TOP - 1, TOP // 2],
        [TOP - 1] * 7 + [3],
        [1 - TOP] * 1000,
        [TOP - 1] * 5 + [1 - TOP] * 5 + [-2],
        [],
    ],
    ids=len,
)
def test_parted_sums_are_put_together_again(values: list[int]) -> None:
    sums = ExactSums()
    numbers = pa.array([Decimal(value) for value in values], KIND)
    sums.add_decimals(np.zeros(len(values), np.int64), 1, numbers)
    rest, beside = sums.parted(1, KIND)
    left = int(rest[0].as_py().to_integral_value(context=Context(prec=40)))
    assert int(beside[0]) * TOP + left == sum(values)
    assert (int(beside[0]) == 0) == (abs(sum(values)) < TOP)
    again = ExactSums()
    again.add_decimals(np.zeros(1, np.int64), 1, rest)
    again.add_parted(1, beside)
    assert again.exact(1, 0) == sum(values)
