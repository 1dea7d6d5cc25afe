"""Calls of functions, resolved in a dialect and computed over a column of values each."""

from typing import Any

import pyarrow as pa

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.plan.expressions import Call, Cast, ColumnRef, Expression, Lambda, Literal
from pkray.schema.types import DataType


def column(kind: str, name: str = "x") -> ColumnRef:
    return ColumnRef(DataType.parse(kind), name)


def text(value: str) -> Literal:
    return Literal(DataType("STRING", nullable=False), value)


def number(value: int) -> Literal:
    return Literal(DataType("INT", nullable=False), value)


def resolved(name: str, *arguments: Expression, dialect: Dialect = Dialect.SPARK) -> Expression:
    return function.resolve(name, arguments, dialect)


def computed(expression: Expression, columns: dict[str, list[Any]]) -> pa.Array:
    """Compute calls, plain casts, constants and columns."""
    rows = len(next(iter(columns.values())))
    result = _value(expression, columns, rows)
    array = pa.repeat(result, rows) if isinstance(result, pa.Scalar) else result
    assert array.type.equals(expression.type.arrow), (array.type, expression.type)
    assert len(array) == rows
    array.validate(full=True)
    return array


def _value(expression: Expression, columns: dict[str, list[Any]], rows: int) -> Any:
    if isinstance(expression, ColumnRef):
        if isinstance(columns[expression.name], pa.Array):
            return columns[expression.name].cast(expression.type.arrow)
        return pa.array(columns[expression.name], expression.type.arrow)
    if isinstance(expression, Literal):
        return pa.scalar(expression.value, expression.type.arrow)
    if isinstance(expression, Cast):
        return _value(expression.operand, columns, rows).cast(expression.type.arrow, safe=False)
    if isinstance(expression, Lambda):
        return _lambda(expression, columns)
    assert isinstance(expression, Call)
    values = [_value(each, columns, rows) for each in expression.arguments]
    return function.function(expression.function).kernel(expression, values, rows)


def _lambda(body: Lambda, columns: dict[str, Any]) -> Any:
    def compute(parameters: list[pa.Array], parents: pa.Array, rows: int) -> pa.Array:
        assert len(parents) == rows
        outer = {
            name: _value(column("BIGINT", name), columns, 0).take(parents)
            for name in body.columns()
        }
        inner = dict(zip(body.parameters, parameters, strict=True))
        result = _value(body.body, {**outer, **inner}, rows)
        return pa.repeat(result, rows) if isinstance(result, pa.Scalar) else result

    return compute


def values(expression: Expression, **columns: list[Any]) -> list[Any]:
    """Compute; the columns are by name."""
    return list(computed(expression, columns).to_pylist())
