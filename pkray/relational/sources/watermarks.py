"""Watermarks that tables declare in their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pkray.errors import QueryError
from pkray.options.values import duration_millis
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import ColumnRef, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.sources.source import Watermark
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import TIMESTAMPS

Declared: TypeAlias = str | Sequence[str]
"""A time column, or a pair of it and the expression that gives the watermark of a row."""


def marked(fields: Fields, said: Declared | None) -> tuple[Fields, Watermark | None]:
    """Declare a watermark of columns: give them with it; None where none is said.

    Raises:
        QueryError: the watermark names no time column, or is none.
    """
    if said is None:
        return fields, None
    parts = [said] if isinstance(said, str) else list(said)
    if not 1 <= len(parts) <= 2:
        raise QueryError(
            "a watermark is a column and an expression, such as ('ts', \"ts - INTERVAL '5' "
            'SECOND")'
        )
    mark = watermark(fields, parts[0], parts[1] if len(parts) == 2 else None)
    return Fields(tuple(Field(f.name, f.type, f.name == mark.column) for f in fields)), mark


ROWTIME = "schema.watermark.0.rowtime"
EXPRESSION = "schema.watermark.0.strategy.expr"
TYPE = "schema.watermark.0.strategy.data-type"
WATERMARK_OPTIONS = (ROWTIME, EXPRESSION, TYPE)


def watermark_options(fields: Fields, column: str, expression: str | None) -> dict[str, str]:
    """Write a watermark as a table's options, under Paimon's keys.

    Args:
        expression: as of `watermark`.
    """
    found = watermark(fields, column, expression)
    kind = str(found.expression.type.with_nullable(True))
    return {ROWTIME: column, EXPRESSION: found.text, TYPE: kind}


def options_of(schema: TableSchema, column: str, delay: str | None) -> dict[str, str]:
    """Write the watermark of a table as its options; as of ``table.alter.set_watermark``."""
    return watermark_options(_fields(schema), column, delayed(column, delay))


def _fields(schema: TableSchema) -> Fields:
    return Fields(tuple(Field(each.name, each.type) for each in schema.fields))


def delayed(column: str, delay: str | None) -> str | None:
    """Give the expression of a watermark that is behind a column by a delay.

    Args:
        delay: ``5 s``, or an expression of the row already; None: the column itself.
    """
    try:
        millis = duration_millis(delay or "")
    except ValueError:
        return delay
    return f"`{column}` - INTERVAL '{millis / 1000:.3f}' SECOND"


def declared_watermark(schema: TableSchema) -> Watermark | None:
    """Read what ``schema.watermark.0.…`` of a table's options say."""
    core = schema.core
    if core.watermark_column is None:
        return None
    return watermark(_fields(schema), core.watermark_column, core.watermark_expression)


def watermark(fields: Fields, column: str, text: str | None) -> Watermark:
    """Declare that watermarks follow a column.

    Args:
        text: the expression that gives the watermark of a row, as in ``ts - INTERVAL '5' SECOND``;
            by default the column itself.

    Raises:
        QueryError: no such column, none of a time type, or an expression of another type.
    """
    from sqlglot import exp

    from pkray.relational.sql.expressions.expressions import ExpressionBinder
    from pkray.relational.sql.parser import parse_expression
    from pkray.relational.sql.places import nearest

    def find(name: str) -> Expression:
        if name not in fields:
            raise QueryError(f"no column is called {name!r}{nearest(name, fields.names)}")
        return ColumnRef(fields[name].type, name)

    class Scope:
        def column(self, parts: tuple[str, ...], node: exp.Expression) -> Expression:
            return find(".".join(parts))

    class Names:
        dialect = Dialect.FLINK

        def udf(self, name: str) -> None:
            return None

    time = find(column)
    if time.type.root not in TIMESTAMPS:
        raise QueryError(
            f"watermarks follow a TIMESTAMP or TIMESTAMP_LTZ column: {column} is {time.type}",
            column_name=column,
        )
    written = text or column
    tree = parse_expression(written, Dialect.FLINK)
    bound = ExpressionBinder(Names(), Scope()).bind(tree)  # type: ignore[arg-type] # no tables here
    if bound.type.root != time.type.root:
        raise QueryError(
            f"the watermark {written!r} is {bound.type}: it has to be {time.type}, as {column} is"
        )
    return Watermark(column, bound, written)
