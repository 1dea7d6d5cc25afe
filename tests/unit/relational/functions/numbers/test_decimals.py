"""Decimals at sizes where Arrow's own division is wrong, beside Python's whole numbers."""

import decimal
import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from pkray.relational.functions.numbers import decimals

CONTEXT = Context(prec=90)
MODES = {
    decimals.HALF_UP: decimal.ROUND_HALF_UP,
    "half_to_even": decimal.ROUND_HALF_EVEN,
    "towards_zero": decimal.ROUND_DOWN,
    "up": decimal.ROUND_CEILING,
    "down": decimal.ROUND_FLOOR,
}


def numbers(seed: str, digits: int, count: int = 300) -> list[int]:
    """Make numbers at powers of two and ten, and others, of some digits at most."""
    chance = random.Random(seed)
    found = [0, 1, 5, 10**digits - 1]
    while len(found) < count:
        edge = 2 ** chance.choice([31, 32, 63, 64, 95, 96, 127]) - chance.randint(0, 2)
        half = 5 * 10 ** chance.randint(0, digits)
        near = chance.choice([edge, half, chance.getrandbits(chance.randint(1, 4 * digits))])
        found.append(near * 10 ** chance.randint(0, 40) % 10**digits + chance.choice([0, 0, 1]))
    return [number % 10**digits * chance.choice([1, -1]) for number in found]


def array(whole: list[int], precision: int, scale: int) -> pa.Array:
    kind = pa.decimal128 if precision <= 38 else pa.decimal256
    return pa.array([CONTEXT.scaleb(Decimal(n), -scale) for n in whole], kind(precision, scale))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("precision", "scale", "to"),
    [(38, 15, 0), (38, 18, 6), (38, 37, 1), (38, 9, 0), (38, 0, -18), (60, 20, 0), (74, 37, 2)],
)
def test_decimals_are_rounded_as_whole_numbers_are(
    precision: int, scale: int, to: int, mode: str
) -> None:
    whole = numbers(f"{precision} {scale} {to}", precision - 1)
    found = decimals.rounded(array(whole, precision, scale), to, mode).to_pylist()
    step = Decimal(1).scaleb(-to)
    exact = [CONTEXT.scaleb(Decimal(n), -scale) for n in whole]
    assert found == [each.quantize(step, MODES[mode], CONTEXT) for each in exact]


@pytest.mark.parametrize(("precision", "scale"), [(38, 15), (38, 18), (38, 38), (60, 20), (76, 38)])
def test_digits_are_cut_off_towards_zero(precision: int, scale: int) -> None:
    whole = numbers(f"cut {precision}", min(precision, 75) - 1)
    found = decimals.shortened(array(whole, precision, scale), 0)
    assert found.type.scale == 0
    expected = [abs(n) // 10**scale * (1 if n > 0 else -1) for n in whole]
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("one", "other"), [((20, 0), (38, 18)), ((38, 3), (38, 10)), ((9, 2), (20, 2))]
)
def test_quotients_and_rests_are_exact(one: tuple[int, int], other: tuple[int, int]) -> None:
    left = [n or 1 for n in numbers(f"left {one}", one[0] - 1)]
    right = [n or 1 for n in reversed(numbers(f"right {other}", other[0] - 1))]
    pair = array(left, *one), array(right, *other)
    whole, rest = decimals.quotient_and_rest(*pair)
    scale = max(one[1], other[1])
    exact = [
        (a * 10 ** (scale - one[1]), b * 10 ** (scale - other[1]))
        for a, b in zip(left, right, strict=True)
    ]
    expected = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in exact]
    assert whole.to_pylist() == expected
    rests = [a - q * b for (a, b), q in zip(exact, expected, strict=True)]
    assert [int(each.scaleb(scale, CONTEXT)) for each in rest.to_pylist()] == rests


def test_a_long_quotient_is_exact() -> None:
    left = array([2**63 - 1, 5], 20, 0)
    right = array([5 * 10**17, 2 * 10**18], 38, 18)
    found = decimals.rounded(decimals.divide(left, right, 6), 6)
    assert found.to_pylist() == [Decimal("18446744073709551614"), Decimal("2.5")]
    one = decimals.divide(left[0], right[0], 6)
    assert one.as_py() == Decimal("18446744073709551614")
