"""Columns, fields and constants in expressions."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from pkray.errors import QueryError, SchemaError
from pkray.relational.functions.coercion import untyped_null
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Expression, Literal
from pkray.relational.sql.expressions.base import BaseBinder, Handler, access_field
from pkray.relational.sql.expressions.intervals import fields_of, interval, read_interval
from pkray.schema.types import DataType


def _column(binder: BaseBinder, node: exp.Expr) -> Expression:
    if isinstance(node, exp.Dot):
        path: list[exp.Expr] = []
        root: exp.Expr = node
        while isinstance(root, exp.Dot):
            path.append(root.expression)
            root = root.this
        if isinstance(root, exp.Column) and all(isinstance(part, exp.Identifier) for part in path):
            return binder.named((*_parts(root), *(p.name for p in reversed(path))), node)
        value = binder.bind(root)
        for part in reversed(path):
            value = access_field(value, part.name, binder.dialect)
        return value
    return binder.named(_parts(node), node)


def _number(binder: BaseBinder, node: exp.Expr) -> Expression:
    if node.args["is_string"]:
        return text_literal(node.this)
    return number_literal(node.this)


def _bytes(binder: BaseBinder, node: exp.Expr) -> Expression:
    digits = node.this if len(node.this) % 2 == 0 else "0" + node.this
    try:
        value = bytes.fromhex(digits)
    except ValueError:
        raise QueryError(f"X'{node.this}' is not written in hexadecimal digits") from None
    return Literal(DataType("BYTES", nullable=False), value)


def _interval(binder: BaseBinder, node: exp.Expr) -> Expression:
    assert isinstance(node, exp.Interval)
    value = node.this.unnest()
    constant = value.this if isinstance(value, exp.Neg) else value
    if isinstance(constant, exp.Literal):
        return interval(*read_interval(node), fields_of(node))
    unit = exp.Interval(this=exp.Literal.string("1"), unit=node.args.get("unit"))
    one = interval(*read_interval(unit), fields_of(unit))
    return replace(one.times(binder.bind(value), binder.dialect), fields=one.fields)


def number_literal(text: str) -> Literal:
    """Read a number: INT, BIGINT or DECIMAL(n, 0) as it fits; with a point DECIMAL, with e DOUBLE.

    Raises:
        QueryError: more than 38 digits.
    """
    if "e" in text.lower():
        return Literal(DataType("DOUBLE", nullable=False), float(text))
    value: Any = Decimal(text)
    if "." not in text and -(2**63) <= value < 2**63:
        whole = int(value)
        root = "INT" if -(2**31) <= whole < 2**31 else "BIGINT"
        return Literal(DataType(root, nullable=False), whole)
    digits, exponent = value.as_tuple().digits, -value.as_tuple().exponent
    precision = max(len(digits), exponent)
    try:
        wanted = DataType("DECIMAL", nullable=False, precision=precision, scale=exponent)
    except SchemaError:
        raise QueryError(f"{text} has more than 38 digits") from None
    return Literal(wanted, value)


def _parts(node: exp.Expr) -> tuple[str, ...]:
    assert isinstance(node, exp.Column)
    return tuple(part.name for part in node.parts)


_TRUTH = DataType("BOOLEAN", nullable=False)
ATOMS: dict[type[exp.Expr], Handler] = {
    exp.Column: _column,
    exp.Dot: _column,
    exp.Identifier: lambda binder, node: binder.named((node.name,), node),
    exp.Literal: _number,
    exp.RawString: lambda binder, node: text_literal(node.this),
    exp.National: lambda binder, node: text_literal(node.this),
    exp.HexString: _bytes,
    exp.Boolean: lambda binder, node: Literal(_TRUTH, bool(node.this)),
    exp.Null: lambda binder, node: untyped_null(),
    exp.Interval: _interval,
}
