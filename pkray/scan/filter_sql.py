"""Filters written as SQL, in Spark's dialect."""

from collections.abc import Callable
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from pkray.errors import InputError, UnsupportedError
from pkray.scan.bounded_parser import BoundedParser, TooManyReadings
from pkray.scan.comparisons import NEVER, SWAPPED, between, compare, like, one_of
from pkray.scan.conditions import AllOf, Always, AnyOf, Condition, IsNull
from pkray.scan.literals import Clock, Instant, Literal
from pkray.schema.types import DataField

_DIALECT = "spark"
_SHOWN = 200
"""Characters of a filter that an error repeats."""
_DAY = 86_400 * 10**9
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLOATS = (exp.DType.FLOAT, exp.DType.DOUBLE)
_NUMBERS = (*exp.DataType.INTEGER_TYPES, *exp.DataType.REAL_TYPES)


def parse_sql(text: str, field: Callable[[str], DataField]) -> Condition:
    """Parse a filter's text to a condition.

    Args:
        field: finds a column; raises for one that is not there.

    Raises:
        InputError: not SQL, or a literal that does not fit its column.
        UnsupportedError: SQL beyond comparisons of columns with literals.
    """
    try:
        parsed = sqlglot.parse_one(text, dialect=_FilterDialect)
        return _Translator(text, field).condition(parsed, negated=False)
    except SqlglotError as error:
        shown = f"filter {text[:_SHOWN]!r} is not SQL: {_where(error)}"
        raise InputError(shown, filter=text) from None
    except (RecursionError, TooManyReadings):
        raise InputError(
            f"filter {text[:_SHOWN]!r} has too many brackets or NOTs in each other: leave out "
            "those that do nothing",
            filter=text,
        ) from None


class _FilterParser(BoundedParser, SparkParser):
    pass


class _FilterDialect(Spark):
    Parser = _FilterParser


class _Translator:
    """Pushes every NOT down to the comparisons, where SQL's NULL rules are plain."""

    def __init__(self, text: str, field: Callable[[str], DataField]) -> None:
        self._text = text
        self._field = field

    def condition(self, node: exp.Expr, negated: bool) -> Condition:
        match node:
            case exp.Paren():
                return self.condition(node.this, negated)
            case exp.Not():
                return self.condition(node.this, not negated)
            case exp.And() | exp.Or():
                parts = tuple(self.condition(part, negated) for part in node.flatten())
                return AllOf(parts) if isinstance(node, exp.And) != negated else AnyOf(parts)
            case exp.Boolean():
                return Always(bool(node.this) != negated)
            case exp.Null():
                return NEVER
            case exp.Column():
                return compare(self._column(node), "=", True, negated)
            case exp.Is():
                return self._same(node.this, node.expression, negated)
            case exp.NullSafeEQ():
                return self._same(node.this, node.expression, negated)
            case exp.NullSafeNEQ():
                return self._same(node.this, node.expression, not negated)
            case exp.In() if node.expressions:
                values = [self._literal(value) for value in node.expressions]
                return one_of(self._column(node.this), values, negated)
            case exp.Between() if not node.args.get("symmetric"):
                low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
                return between(self._column(node.this), low, high, negated)
            case exp.Like() | exp.ILike() | exp.Escape():
                return self._like(node, negated)
        if type(node) in _OPERATORS:
            return self._compare(node, _OPERATORS[type(node)], negated)
        raise self._unsupported(node)

    def _compare(self, node: exp.Expr, operator: str, negated: bool) -> Condition:
        left, right = _bare(node.this), _bare(node.expression)
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, operator = right, left, SWAPPED[operator]
        return compare(self._column(left), operator, self._literal(right), negated)

    def _same(self, left: exp.Expr, right: exp.Expr, negated: bool) -> Condition:
        field, value = self._column(left), self._literal(right)
        if value is None:
            return IsNull(field.name, negated)
        compared = compare(field, "=", value, negated)
        return AnyOf((compared, IsNull(field.name))) if negated else compared

    def _like(self, node: exp.Expr, negated: bool) -> Condition:
        escape: Literal = "\\"
        if isinstance(node, exp.Escape):
            escape, node = self._literal(node.expression), node.this
        if not isinstance(node, exp.Like | exp.ILike) or not isinstance(escape, str):
            raise self._unsupported(node)
        return like(
            self._column(node.this),
            self._literal(node.expression),
            escape=escape,
            ignore_case=isinstance(node, exp.ILike),
            negated=negated != bool(node.args.get("negate")),
        )

    def _column(self, node: exp.Expr) -> DataField:
        node = _bare(node)
        if not isinstance(node, exp.Column):
            raise self._unsupported(node)
        return self._field(".".join(part.name for part in node.parts))

    def _literal(self, node: exp.Expr) -> Literal:
        node = _bare(node)
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal():
                return str(node.this) if node.is_string else Decimal(node.this)
            case exp.HexString():
                return self._hexadecimal(node)
            case exp.Neg():
                value = self._literal(node.this)
                if isinstance(value, Decimal | float):
                    return -value
            case exp.Cast():
                return self._cast(node)
        raise self._unsupported(node)

    def _hexadecimal(self, node: exp.Expr) -> bytes:
        try:
            return bytes.fromhex(node.this)
        except ValueError:
            raise self._bad(f"X'{node.this}' is not hexadecimal") from None

    def _cast(self, node: exp.Cast) -> Literal:
        value, target = self._literal(node.this), node.to
        if value is None:
            return None
        try:
            if target.is_type(exp.DType.DATE) and isinstance(value, str):
                day = Instant.parse(value).nanos // _DAY
                return Instant(day * _DAY)
            if target.is_type(*exp.DataType.TEMPORAL_TYPES) and isinstance(value, str):
                if target.is_type(exp.DType.TIME):
                    return Clock.parse(value)
                return Instant.parse(value)
            if target.is_type(*_FLOATS) and isinstance(value, str | Decimal):
                return float(value)
            if target.is_type(*_NUMBERS) and isinstance(value, str | Decimal):
                return Decimal(value)
            if target.is_type(*exp.DataType.TEXT_TYPES):
                return value if isinstance(value, str) else str(value)
        except (ValueError, ArithmeticError):
            raise self._bad(f"{node.this.sql(_DIALECT)} is no {target.sql(_DIALECT)}") from None
        raise self._unsupported(node)

    def _bad(self, what: str) -> InputError:
        return InputError(f"filter {self._text!r}: {what}", filter=self._text)

    def _unsupported(self, node: exp.Expr) -> UnsupportedError:
        if isinstance(node, exp.Column):
            what = f"column {node.name!r} where a literal is expected"
        else:
            what = f"{node.sql(_DIALECT)!r}"
        return UnsupportedError(
            f"filter {self._text!r} has {what}: filters compare a column with literals (= <> < <= "
            "> >= IN BETWEEN LIKE IS NULL, joined by AND, OR, NOT); for more, pass a pyarrow "
            "expression",
            filter=self._text,
        )


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _where(error: SqlglotError) -> str:
    if isinstance(error, ParseError) and error.errors:
        place = error.errors[0]
        if place.get("col"):
            return f"error at {place['highlight']!r} (character {place['col']})"
    return "it is empty or ends too early"
