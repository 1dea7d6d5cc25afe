"""Watermarks that tables declare in their options."""

from collections.abc import Sequence
from typing import TypeAlias

from pkray.errors import QueryError
from pkray.options.values import duration_millis
from pkray.relational.dialect import Dialect
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.source import Watermark
from pkray.relational.sources.computed import fields_of, of_row
from pkray.relational.sql.parser import parse_expression
from pkray.relational.sql.places import nearest
from pkray.schema.computed_columns import SPARK, Column, ComputedColumn, all_columns
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
OUR_OPTIONS = tuple(f"pkray.{each}" for each in WATERMARK_OPTIONS)


def watermark_options(
    columns: Sequence[Column], column: str, expression: str | None
) -> dict[str, str]:
    """Write a watermark as a table's options, under Paimon's keys.

    Args:
        columns: of the table. If the watermark reads one that Flink cannot, ``pkray.`` is before
            the keys.
        expression: as of `watermark`.
    """
    found = watermark(fields_of(columns), column, expression)
    kind = str(found.expression.type.with_nullable(True))
    read = {column, *found.expression.columns()}
    is_ours = any(
        isinstance(each, ComputedColumn) and each.prefix == SPARK and each.name in read
        for each in columns
    )
    values = (column, found.text, kind)
    return dict(zip(OUR_OPTIONS if is_ours else WATERMARK_OPTIONS, values, strict=True))


def options_of(schema: TableSchema, column: str, delay: str | None) -> dict[str, str]:
    """Write the watermark of a table as its options; as of ``table.alter.set_watermark``."""
    columns = all_columns(schema.fields, schema.options)
    return watermark_options(columns, column, delayed(column, delay))


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
    fields = fields_of(all_columns(schema.fields, schema.options))
    return watermark(fields, core.watermark_column, core.watermark_expression)


def watermark(fields: Fields, column: str, text: str | None) -> Watermark:
    """Declare that watermarks follow a column.

    Args:
        text: the expression that gives the watermark of a row, as in ``ts - INTERVAL '5' SECOND``;
            by default the column itself.

    Raises:
        QueryError: no such column, none of a time type, or an expression of another type.
    """
    if column not in fields:
        raise QueryError(
            f"no column is called {column!r}{nearest(column, fields.names)}", column_name=column
        )
    time = fields[column]
    if time.type.root not in TIMESTAMPS:
        raise QueryError(
            f"watermarks follow a TIMESTAMP or TIMESTAMP_LTZ column: {column} is {time.type}",
            column_name=column,
        )
    written = text or column
    tree = parse_expression(written, Dialect.FLINK)
    bound = of_row(tree, fields, Dialect.FLINK)
    if bound.type.root != time.type.root:
        raise QueryError(
            f"the watermark {written!r} is {bound.type}: it has to be {time.type}, as {column} is"
        )
    return Watermark(column, bound, written)
