"""VALUES: rows that are written in a query."""

from functools import reduce

from sqlglot import exp

from pkray.relational.functions.coercion import coerced
from pkray.relational.plan.expressions import Expression, Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Project, SetKind, SetOperation, Values
from pkray.relational.sql.binder.context import BoundQuery, Queries
from pkray.relational.sql.binder.from_clause.calls import SINGLE_ROW, constants
from pkray.relational.sql.binder.from_clause.generators import default_names
from pkray.relational.sql.places import placed, wrong
from pkray.schema.types import DataType


def bind_values(queries: Queries, tree: exp.Values) -> BoundQuery:
    """Bind VALUES; each column has the type that all its values can be cast to."""
    binder = constants(queries)
    rows = [[binder.bind(each) for each in _cells(row)] for row in tree.expressions]
    width = len(rows[0])
    for row, written in zip(rows, tree.expressions, strict=True):
        if len(row) != width:
            raise wrong(f"a row of VALUES has {len(row)} values, the first has {width}", written)
    with placed(tree):
        columns = [
            coerced([row[place] for row in rows], queries.dialect, f"column {place + 1} of VALUES")
            for place in range(width)
        ]
    names = tuple(default_names(queries.dialect, width))
    types = [_type(column) for column in columns]
    fields = Fields(tuple(Field(name, kind) for name, kind in zip(names, types, strict=True)))
    return BoundQuery(_node(fields, list(zip(*columns, strict=True))), names, names)


def _cells(row: exp.Expr) -> list[exp.Expr]:
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def _type(column: tuple[Expression, ...]) -> DataType:
    return column[0].type.with_nullable(any(each.type.nullable for each in column))


def _node(fields: Fields, rows: list[tuple[Expression, ...]]) -> Node:
    """Write rows of constants as Values, and rows of expressions as projections of one row."""
    constants = [tuple(each for each in row if isinstance(each, Literal)) for row in rows]
    if all(len(row) == len(fields) for row in constants):
        return Values(fields, tuple(constants))
    nodes: list[Node] = [
        Project(SINGLE_ROW, tuple(zip(fields.names, row, strict=True))) for row in rows
    ]
    return reduce(lambda one, other: SetOperation(one, other, SetKind.UNION, True), nodes)
