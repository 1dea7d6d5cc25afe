"""Python's decimals of any number of digits; left to itself, `decimal` keeps 28."""

from decimal import Context, Decimal

EXACT = Context(prec=1000)
"""Has more digits than any DECIMAL, an intermediate result or a number in JSON."""


def unscaled(value: Decimal, scale: int) -> int:
    """Give a decimal in units of its last digit."""
    return int(EXACT.scaleb(value, scale))
