"""Expressions as text, bound and computed, for tests."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.plan.expressions import ColumnRef, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.parser import parse_expression
from pkray.schema.types import DataType

SPARK, FLINK = Dialect.SPARK, Dialect.FLINK


class _Names:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def relation(self, parts: Any, options: Any, at: Any) -> Any:
        raise AssertionError(parts)

    def udf(self, name: str) -> Any:
        return None


class _Scope:
    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def column(self, parts: tuple[str, ...], node: exp.Expr) -> Expression:
        if parts[0] not in self.fields:
            raise QueryError(f"no column {parts[0]}")
        return ColumnRef(self.fields[parts[0]].type, parts[0])


def fields(**types: str) -> Fields:
    """Name columns and their types: ``a="INT NOT NULL"``."""
    return Fields(tuple(Field(name, DataType.parse(said)) for name, said in types.items()))


def bound(text: str, columns: Fields | None = None, dialect: Dialect = SPARK) -> Expression:
    """Bind an expression."""
    scope = _Scope(columns or fields())
    return ExpressionBinder(_Names(dialect), scope).bind(parse_expression(text, dialect))


def type_of(text: str, columns: Fields | None = None, dialect: Dialect = SPARK) -> str:
    """Give the type of an expression as text."""
    return str(bound(text, columns, dialect).type)


def values(
    text: str, columns: dict[str, tuple[str, Sequence[Any]]], dialect: Dialect = SPARK
) -> list[Any]:
    """Compute an expression over columns that are given as (type, values)."""
    known = fields(**{name: said for name, (said, _) in columns.items()})
    arrays = [pa.array(some, DataType.parse(said).arrow) for said, some in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, schema=known.arrow)
    expression = bound(text, known, dialect)
    result = compile_expression(expression, known).evaluate(batch)
    assert result.type == expression.type.arrow
    assert len(result) == batch.num_rows
    empty = compile_expression(expression, known).evaluate(batch.slice(0, 0))
    assert (len(empty), empty.type) == (0, result.type)
    return result.to_pylist()


def value(text: str, dialect: Dialect = SPARK) -> Any:
    """Compute an expression of constants, for a row."""
    return values(text, {"x": ("INT", [0])}, dialect)[0]


def over_rows(text: str, said: str, some: Any, dialect: Dialect = SPARK) -> Any:
    """Compute an expression of column x, over an array with NULL rows around the one asked for."""
    result = values(text, {"x": (said, [None, some, None])}, dialect)
    return result[1]
