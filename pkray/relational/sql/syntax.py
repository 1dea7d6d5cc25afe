"""Syntax that methods write: names, constants, types, operands."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.sql.chains import OperatorChain
from pkray.schema.types import DataType

ORIGIN = "relation"
"""Key of a column's `meta`: the relation that it was taken from, by number."""

_TYPES = {
    "STRING": exp.DType.TEXT,
    "BYTES": exp.DType.LONGBLOB,
    "TIMESTAMP": exp.DType.TIMESTAMPNTZ,
    "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
    "ROW": exp.DType.STRUCT,
}
_ATOMS = (exp.Paren, exp.Dot, exp.Subquery)


class Text(exp.Expression):
    """SQL text in the place of an expression: read in the dialect of the relation it comes to."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Inner(exp.Expression):
    """A relation in the place of a subquery."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class UserCall(exp.Expression):
    """A call of a user's function that is at hand, and need not be registered."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


def identifier(name: str) -> exp.Identifier:
    """Write a name that is taken as it is."""
    plain = name.isascii() and name.isidentifier()
    return exp.Identifier(this=name, quoted=not plain)


def column(name: str, table: str | None = None) -> exp.Column:
    """Write a column's name."""
    return exp.Column(this=identifier(name), table=identifier(table) if table else None)


def star(item: exp.Expr) -> exp.Select:
    """Write ``SELECT * FROM item``."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))


def aliased(value: exp.Expr, name: str) -> exp.Expr:
    """Give a value a name, unless it is a column of that name."""
    if isinstance(value, exp.Column) and value.name == name and not value.table:
        return value
    return exp.Alias(this=value, alias=identifier(name))


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Write a call of a function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def wrapped(value: exp.Expr) -> exp.Expr:
    """Put an operand in parentheses where operators beside it could divide it."""
    compound = isinstance(value, exp.Binary | exp.Unary | exp.Predicate | OperatorChain | Text)
    return exp.Paren(this=value) if compound and not isinstance(value, _ATOMS) else value


def joined(kind: type[exp.Connector], conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Join conditions by AND or OR as a flat tree."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return kind(
        this=_operand(joined(kind, conditions[:half]), kind),
        expression=_operand(joined(kind, conditions[half:]), kind),
    )


def _operand(value: exp.Expr, kind: type[exp.Connector]) -> exp.Expr:
    divided = isinstance(value, Text) or (isinstance(value, exp.Or) and kind is exp.And)
    return exp.Paren(this=value) if divided else value


def literal(value: Any) -> exp.Expr:
    """Write a Python value as a constant.

    Raises:
        QueryError: no constant is written so.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, dt.datetime):
        return _time(value)
    if isinstance(value, dt.date):
        return _cast(value.isoformat(), DataType("DATE"))
    if isinstance(value, dt.time) and value.tzinfo is None:
        return _cast(value.isoformat(), DataType("TIME", precision=6 if value.microsecond else 0))
    if isinstance(value, dt.timedelta):
        return interval(value / dt.timedelta(microseconds=1), "MICROSECOND")
    if isinstance(value, list | tuple):
        return call("array", *map(literal, value))
    raise QueryError(
        f"{type(value).__name__} cannot be written in a query: give None, a bool, a number, "
        "text, bytes, a date, time, datetime, timedelta, or a list of such"
    )


def interval(number: float, unit: str) -> exp.Interval:
    """Write a span of time."""
    text = str(int(number)) if number == int(number) else repr(number)
    return exp.Interval(this=exp.Literal.string(text), unit=exp.Var(this=unit))


def type_syntax(kind: DataType) -> exp.DataType:
    """Write a type so that both dialects read it alike."""
    dtype = _TYPES.get(kind.root) or exp.DType[kind.root]
    parts: list[Any] = []
    if kind.root in ("ARRAY", "MAP"):
        inner = (kind.element,) if kind.root == "ARRAY" else (kind.key, kind.value)
        parts = [type_syntax(part) for part in inner if part is not None]
    elif kind.root == "ROW":
        parts = [
            exp.ColumnDef(this=identifier(each.name), kind=type_syntax(each.type))
            for each in kind.fields or ()
        ]
    else:
        said = (kind.length, kind.precision, kind.scale)
        numbers = [number for number in said if number is not None]
        parts = [exp.DataTypeParam(this=exp.Literal.number(number)) for number in numbers]
    return exp.DataType(this=dtype, expressions=parts, nested=kind.is_nested)


def _number(value: Any) -> exp.Expr:
    if isinstance(value, float):
        if not math.isfinite(value):
            text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
            return _cast(text, DataType("DOUBLE"))
        text = repr(value)
        text = text if "e" in text else f"{text}e0"
    elif isinstance(value, Decimal) and not value.is_finite():
        raise QueryError(f"no DECIMAL is {value}")
    else:
        text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    negative = text.startswith("-")
    written = exp.Literal.number(text.removeprefix("-"))
    return exp.Neg(this=written) if negative else written


def _time(value: dt.datetime) -> exp.Expr:
    if value.tzinfo is None:
        return _cast(value.isoformat(" "), DataType("TIMESTAMP"))
    text = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ")
    return _cast(f"{text}+00:00", DataType("TIMESTAMP_LTZ"))


def _cast(text: str, kind: DataType) -> exp.Cast:
    return exp.Cast(this=exp.Literal.string(text), to=type_syntax(kind))
