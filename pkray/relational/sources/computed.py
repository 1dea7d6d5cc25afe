"""Columns of tables that are computed when they are read, bound over the stored ones."""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from pkray.errors import PkrayError, QueryError, SchemaError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.assignment import assigned
from pkray.relational.functions.coercion import STRING
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, Cast, ColumnRef, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Values
from pkray.relational.sql.binder.scope import Numbers, Rows, Scope, Visible
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.parser import parse_expression
from pkray.relational.sql.places import position
from pkray.scan.moment import Moment
from pkray.schema.computed_columns import FLINK, SPARK, Column, ComputedColumn
from pkray.schema.types import DataField, DataType

PREFIXES = {Dialect.FLINK: FLINK, Dialect.SPARK: SPARK}
DIALECTS = {prefix: dialect for dialect, prefix in PREFIXES.items()}


class _Names:
    """Tells that an expression of a row knows no tables, and no functions of users."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def relation(self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment) -> Node:
        raise QueryError(f"no table can stand here: {'.'.join(parts)}")

    def udf(self, name: str) -> None:
        return None


def of_row(tree: exp.Expr, fields: Fields, dialect: Dialect) -> Expression:
    """Bind an expression over the columns of a row.

    Raises:
        QueryError: it is not understood, or holds a query or an aggregate.
        UnsupportedError: it is valid and not offered.
    """
    columns = [Visible(name, name) for name in fields.names]
    scope = Scope(Rows(Values(fields, ()), Numbers()), columns, dialect)
    return ExpressionBinder(_Names(dialect), scope).bind(tree)


def bound(tree: exp.Expr, columns: Sequence[Column], column: ComputedColumn) -> Expression:
    """Bind the expression of a computed column, and give it the column's type, if it says one.

    Args:
        columns: all of the table.

    Raises:
        QueryError: it is not understood, reads another computed column, holds a query or an
            aggregate, or has a type that the column does not take.
        UnsupportedError: it is valid and not offered.
    """
    stored = Fields(tuple(Field(c.name, c.type) for c in columns if isinstance(c, DataField)))
    others = {each.name for each in columns if isinstance(each, ComputedColumn)}
    for each in tree.find_all(exp.Column):
        if each.parts[0].name in others - set(stored.names):
            raise QueryError(
                f"column {column.name} reads {each.parts[0].name}, which is computed itself: "
                "computed columns read stored ones alone; write the expression of "
                f"{each.parts[0].name} in its place",
                **position(each),
            )
    value = of_row(tree, stored, DIALECTS[column.prefix])
    if column.prefix == FLINK or column.type is None:
        return value
    return assigned(value, DataType.parse(column.type), column.name)


def values_of(columns: Sequence[Column]) -> list[tuple[str, Expression]]:
    """Bind all columns of a table over the stored ones.

    What cannot be bound, as it was declared by another engine, fails where it is computed: the
    other columns can be read.
    """
    return [
        (each.name, _value(each, columns))
        if isinstance(each, ComputedColumn)
        else (each.name, ColumnRef(each.type, each.name))
        for each in columns
    ]


def fields_of(columns: Sequence[Column]) -> Fields:
    """Give all columns of a table with their types."""
    return Fields(tuple(Field(name, value.type) for name, value in values_of(columns)))


def _value(column: ComputedColumn, columns: Sequence[Column]) -> Expression:
    try:
        if column.expression is None:
            said = ", ".join(f"{key} {value}" for key, value in column.others.items())
            raise UnsupportedError(f"it has no expression, but {said or 'nothing'}")
        tree = parse_expression(column.expression, DIALECTS[column.prefix])
        return bound(tree, columns, column)
    except PkrayError as error:
        message = (
            f"column {column.name} AS {column.expression} cannot be computed: {error.message}; "
            "name the other columns in the query, or drop this one"
        )
        failure = Call(STRING, "raise_error", (text_literal(message),))
        kind = declared_type(column)
        if kind is None or kind.is_nested:
            return failure
        return Cast(kind.with_nullable(True), failure)


def declared_type(column: ComputedColumn) -> DataType | None:
    """Read the type that a column says; None where it says none that columns have."""
    try:
        return DataType.parse(column.type or "")
    except (SchemaError, UnsupportedError):
        return None
