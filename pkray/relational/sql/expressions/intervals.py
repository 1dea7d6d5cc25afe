"""Spans of time as queries write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function, spans
from pkray.relational.functions.spans import DAY_SECOND, YEAR_MONTH
from pkray.relational.functions.time import calendar
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, TIMESTAMPS, DataType, interval_type

MONTHS = {unit.upper(): months for unit, months in calendar.MONTHS.items()}
MICROS = {unit.upper(): micros for unit, micros in calendar.MICROS.items()}
_MOST_MONTHS, _MOST_MICROS = 2**31 - 1, 2**63 - 1
_FIELDS = {"QUARTER": "MONTH", "WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}


@dataclass(frozen=True)
class Interval(Expression):
    """A span of time inside an expression that is being bound; it never stands in a plan.

    Attributes:
        months: INT.
        micros: BIGINT, microseconds.
        fields: the first and the last field that it is written in, such as DAY and SECOND; empty
            where it may have months and days.
    """

    months: Expression
    micros: Expression
    fields: tuple[str, ...] = ()

    @property
    def is_months(self) -> bool:
        """Whether it is of years and months alone."""
        return bool(self.fields) and self.fields[0] in YEAR_MONTH

    @property
    def length(self) -> Expression:
        """Give the months, or the microseconds, that it is alone of."""
        return self.months if self.is_months else self.micros

    def value(self) -> Expression:
        """Give it as the value of a column.

        Raises:
            UnsupportedError: it may have months and days.
        """
        if not self.fields:
            raise UnsupportedError(
                "an INTERVAL of months and days is the value of no column: write one of years "
                "and months and one of days and hours, or add it to a time"
            )
        length, ends = self.length, YEAR_MONTH if self.is_months else DAY_SECOND
        kind = interval_type(_from_to(ends, self.fields), nullable=True)
        if isinstance(length, Cast) and length.operand.type.with_nullable(True) == kind:
            return length.operand
        return coercion.cast_to(coercion.cast_to(length, coercion.BIGINT), kind)

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
        if not self.fields and factor.type.root not in INTEGERS:
            raise QueryError(
                "an INTERVAL of months and days is multiplied by whole numbers: give each its own"
            )
        return self._scaled(lambda part: _product(part, factor, dialect))

    def divided(self, divisor: Expression, dialect: Dialect) -> Interval:
        """Divide it by a number, half up.

        Raises:
            QueryError: it may have months and days.
        """
        if not self.fields:
            raise QueryError("an INTERVAL of months and days cannot be divided: divide each")
        is_float = divisor.type.root in coercion.FLOATS
        kind = coercion.DOUBLE if is_float else DataType("DECIMAL", precision=20)

        def quotient(part: Expression) -> Expression:
            if isinstance(part, Literal) and part.value == 0:
                return part
            return function.resolve(
                "divide", (coercion.cast_to(part, kind), divisor), Dialect.SPARK
            )

        return self._scaled(quotient)

    def _scaled(self, change: Callable[[Expression], Expression]) -> Interval:
        """Change both parts by a number, half up: it is of years to months or days to seconds."""
        ends = YEAR_MONTH if self.is_months else DAY_SECOND
        made = self._each(lambda part: _rounded(change(part)))
        return replace(
            made,
            months=coercion.cast_to(made.months, coercion.INT),
            micros=coercion.cast_to(made.micros, coercion.BIGINT),
            fields=(ends[0], ends[-1]) if self.fields else (),
        )

    def plus(self, other: Interval, dialect: Dialect) -> Interval:
        """Add another; what one is of months and the other of days is of both."""
        parts = [
            function.resolve("add", pair, dialect)
            for pair in ((self.months, other.months), (self.micros, other.micros))
        ]
        return replace(self, months=parts[0], micros=parts[1], fields=spanned(self, other))

    def _each(self, change: Callable[[Expression], Expression]) -> Interval:
        return replace(self, months=change(self.months), micros=change(self.micros))

    def added_to(self, time: Expression, dialect: Dialect) -> Expression:
        """Add it to a time: ``plus_interval``.

        Raises:
            QueryError: what it is added to is no time.
        """
        default = coercion.TIMESTAMP_LTZ if dialect is Dialect.SPARK else coercion.TIMESTAMP
        root = time.type.root
        if root in STRINGS or (root == "DATE" and not self._keeps_dates(dialect)):
            time = coercion.cast_to(time, default)
        if time.type.root not in ("DATE", *TIMESTAMPS):
            raise QueryError(
                f"an INTERVAL is added to a date or a timestamp, not to {time.type.root}"
            )
        arguments = (time, self.months, self.micros)
        result = time.type.with_nullable(coercion.any_nullable(arguments))
        return Call(result, "plus_interval", arguments)

    def _keeps_dates(self, dialect: Dialect) -> bool:
        """Whether a date and it are a date: it is of days, or of months, by its fields."""
        if self.fields and (dialect is Dialect.SPARK or not isinstance(self.micros, Literal)):
            return self.is_months or self.fields[-1] == "DAY"
        if not isinstance(self.micros, Literal):
            return True  # of months and days: hours are refused when they are added
        return bool((self.micros.value or 0) % MICROS["DAY"] == 0)


def spanned(one: Interval, other: Interval) -> tuple[str, ...]:
    """Give the fields of two intervals together; none where one is of months and one of days."""
    if not one.fields or not other.fields or one.is_months is not other.is_months:
        return ()
    order = YEAR_MONTH if one.is_months else DAY_SECOND
    return _from_to(order, (*one.fields, *other.fields))


def _from_to(order: tuple[str, ...], fields: Iterable[str]) -> tuple[str, str]:
    places = [order.index(field) for field in fields]
    return order[min(places)], order[max(places)]


def _rounded(part: Expression) -> Expression:
    if part.type.root in (*coercion.FLOATS, "DECIMAL"):
        return function.resolve("round", (part,), Dialect.SPARK)
    return part


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
    return function.resolve("multiply", (coercion.cast_to(part, coercion.BIGINT), factor), dialect)


def interval(months: int, micros: int, fields: tuple[str, ...] = ()) -> Interval:
    """Make an interval of constants."""
    return Interval(
        coercion.BIGINT.with_nullable(False),
        Literal(coercion.INT.with_nullable(False), months),
        Literal(coercion.BIGINT.with_nullable(False), micros),
        fields,
    )


def of_length(length: Expression, *fields: str) -> Interval:
    """Make an interval of months, or of microseconds, as its fields say."""
    none = interval(0, 0, fields)
    if none.is_months:
        return replace(none, months=coercion.cast_to(length, coercion.INT))
    return replace(none, micros=coercion.cast_to(length, coercion.BIGINT))


def of_value(value: Expression) -> Interval:
    """Take the value of a column as an interval."""
    number = coercion.INT if spans.is_months(value.type) else coercion.BIGINT
    plain = Cast(number.with_nullable(value.type.nullable), value)
    return of_length(plain, *spans.fields_of(value.type))


def fields_of(node: exp.Interval) -> tuple[str, ...]:
    """Find the first and the last field that an INTERVAL is written in."""
    unit = node.args.get("unit")
    if unit is None:
        words = re.findall(r"[A-Za-z]+", _text(node))
        units = [_unit(exp.var(word)) for word in words]
    elif isinstance(unit, exp.IntervalSpan):
        units = [_unit(unit.this), _unit(unit.expression)]
    else:
        units = [_unit(unit)]
    fields = [_FIELDS.get(each, each) for each in units]
    for order in (YEAR_MONTH, DAY_SECOND):
        if fields and all(each in order for each in fields):
            return _from_to(order, fields)
    return ()


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
    return unit if unit in MONTHS or unit in MICROS else unit.removesuffix("S")


def _amount(text: str, unit: str) -> tuple[int, int]:
    if unit in MONTHS and re.fullmatch(r"-?\d+", text):
        return int(text) * MONTHS[unit], 0
    if unit in MICROS and re.fullmatch(r"-?\d+(\.\d{1,9})?", text):
        whole, _, fraction = text.lstrip("-").partition(".")
        size = MICROS[unit]
        micros = int(whole) * size + int(fraction.ljust(9, "0")) * size // 10**9
        return 0, -micros if text.startswith("-") else micros
    if unit not in MONTHS and unit not in MICROS:
        raise QueryError(f"{unit or text!r} is no unit of an INTERVAL: write DAY, HOUR, MONTH …")
    raise QueryError(f"{text!r} is no length of an INTERVAL {unit}")


def _span(text: str, first: str, last: str) -> tuple[int, int]:
    if (first, last) == ("YEAR", "MONTH"):
        found = re.fullmatch(r"(\d+)-(\d+)", text)
        if found:
            return int(found[1]) * 12 + int(found[2]), 0
    elif first in DAY_SECOND and last in DAY_SECOND:
        units = DAY_SECOND[DAY_SECOND.index(first) : DAY_SECOND.index(last) + 1]
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
