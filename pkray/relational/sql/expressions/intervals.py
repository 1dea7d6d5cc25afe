"""Spans of time as queries write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import (
    BIGINT,
    DATE,
    INT,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    any_nullable,
    cast_to,
)
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import STRINGS, TIMESTAMPS

DAY = 86_400_000_000
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MICROS = {
    "WEEK": 7 * DAY,
    "DAY": DAY,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_MOST_MONTHS, _MOST_MICROS = 2**31 - 1, 2**63 - 1
_PARTS = ("DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True)
class Interval(Expression):
    """A span of time inside an expression that is being bound; it never stands in a plan.

    Attributes:
        months: INT.
        micros: BIGINT, microseconds.
    """

    months: Expression
    micros: Expression

    def __post_init__(self) -> None:
        parts = ((self.months, _MOST_MONTHS, "months"), (self.micros, _MOST_MICROS, "microseconds"))
        for part, most, unit in parts:
            if isinstance(part, Literal) and abs(part.value or 0) > most:
                raise QueryError(f"an INTERVAL of {part.value} {unit} is longer than {most}")

    def negated(self, dialect: Dialect) -> Interval:
        """Turn it round."""
        return self._each(lambda part: _negated(part, dialect))

    def times(self, factor: Expression, dialect: Dialect) -> Interval:
        """Multiply it by a number."""
        product = self._each(lambda part: _product(part, factor, dialect))
        return replace(
            product,
            months=cast_to(product.months, INT),
            micros=cast_to(product.micros, BIGINT),
        )

    def _each(self, change: object) -> Interval:
        assert callable(change)
        return replace(self, months=change(self.months), micros=change(self.micros))

    def added_to(self, time: Expression, dialect: Dialect) -> Expression:
        """Add it to a time: ``plus_interval``.

        Raises:
            QueryError: what it is added to is no time.
        """
        default = TIMESTAMP_LTZ if dialect is Dialect.SPARK else TIMESTAMP
        if time.type.root in STRINGS:
            time = cast_to(time, default)
        if time.type.root == "DATE" and not self._is_days:
            time = cast_to(time, default)
        if time.type.root not in ("DATE", *TIMESTAMPS):
            raise QueryError(
                f"an INTERVAL is added to a date or a timestamp, not to {time.type.root}"
            )
        arguments = (time, self.months, self.micros)
        result = time.type.with_nullable(any_nullable(arguments))
        return Call(result, "plus_interval", arguments)

    @property
    def _is_days(self) -> bool:
        return isinstance(self.micros, Literal) and (self.micros.value or 0) % DAY == 0


def _negated(part: Expression, dialect: Dialect) -> Expression:
    if isinstance(part, Literal):
        return part if part.value is None else replace(part, value=-part.value)
    return function.resolve("negative", (part,), dialect)


def _product(part: Expression, factor: Expression, dialect: Dialect) -> Expression:
    if isinstance(part, Literal) and isinstance(factor, Literal) and part.value is not None:
        if part.value == 0:
            return part
        if type(factor.value) is int:
            return replace(part, value=part.value * factor.value)
    if isinstance(part, Literal) and part.value == 0:
        return part
    return function.resolve("multiply", (cast_to(part, BIGINT), factor), dialect)


def interval(months: int, micros: int) -> Interval:
    """Make an interval of constants."""
    return Interval(
        BIGINT.with_nullable(False),
        Literal(INT.with_nullable(False), months),
        Literal(BIGINT.with_nullable(False), micros),
    )


def is_date(expression: Expression) -> bool:
    """Whether it is a DATE."""
    return expression.type.root == DATE.root


def read_interval(node: exp.Interval) -> tuple[int, int]:
    """Read an INTERVAL with a constant length, as months and microseconds.

    ``INTERVAL '5' SECOND``, ``INTERVAL 5 DAYS``, ``INTERVAL '1-2' YEAR TO MONTH``,
    ``INTERVAL '1 02:03:04.5' DAY TO SECOND``, ``INTERVAL '1 day 2 hours'``.

    Raises:
        QueryError: it cannot be read.
    """
    text, sign = _text(node), 1
    unit = node.args.get("unit")
    if text.startswith("-"):
        text, sign = text[1:].strip(), -1
    if unit is None:
        months, micros = _words(text)
    elif isinstance(unit, exp.IntervalSpan):
        months, micros = _span(text, _unit(unit.this), _unit(unit.expression))
    else:
        months, micros = _amount(text, _unit(unit))
    return sign * months, sign * micros


def _text(node: exp.Interval) -> str:
    value = node.this
    sign = ""
    while isinstance(value, exp.Neg | exp.Paren):
        sign, value = ("-" if isinstance(value, exp.Neg) else sign), value.this
    if not isinstance(value, exp.Literal):
        raise QueryError(
            "the length of this INTERVAL must be a constant: write INTERVAL '5' SECOND"
        )
    text = value.this.strip()
    return sign + text.removeprefix("+")


def _unit(node: exp.Expr) -> str:
    unit = node.name.upper()
    if not unit and isinstance(node, exp.Expr):
        unit = str(node.this).upper()
    return unit if unit in _MONTHS or unit in _MICROS else unit.removesuffix("S")


def _amount(text: str, unit: str) -> tuple[int, int]:
    if unit in _MONTHS and re.fullmatch(r"-?\d+", text):
        return int(text) * _MONTHS[unit], 0
    if unit in _MICROS and re.fullmatch(r"-?\d+(\.\d{1,9})?", text):
        whole, _, fraction = text.lstrip("-").partition(".")
        size = _MICROS[unit]
        micros = int(whole) * size + int(fraction.ljust(9, "0")) * size // 10**9
        return 0, -micros if text.startswith("-") else micros
    if unit not in _MONTHS and unit not in _MICROS:
        raise QueryError(f"{unit or text!r} is no unit of an INTERVAL: write DAY, HOUR, MONTH …")
    raise QueryError(f"{text!r} is no length of an INTERVAL {unit}")


def _span(text: str, first: str, last: str) -> tuple[int, int]:
    if (first, last) == ("YEAR", "MONTH"):
        found = re.fullmatch(r"(\d+)-(\d+)", text)
        if found:
            return int(found[1]) * 12 + int(found[2]), 0
    elif first in _PARTS and last in _PARTS:
        units = _PARTS[_PARTS.index(first) : _PARTS.index(last) + 1]
        numbers = re.split(r"[ :]", text)
        if len(numbers) == len(units):
            parts = [_amount(number, unit) for number, unit in zip(numbers, units, strict=True)]
            return 0, sum(micros for _, micros in parts)
    raise QueryError(f"{text!r} is no INTERVAL {first} TO {last}")


def _words(text: str) -> tuple[int, int]:
    found = re.findall(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    if not found or re.sub(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)", "", text).strip():
        raise QueryError(f"{text!r} is no INTERVAL: write INTERVAL '5' SECOND")
    parts = [_amount(number, _unit(exp.var(unit))) for number, unit in found]
    return sum(months for months, _ in parts), sum(micros for _, micros in parts)
