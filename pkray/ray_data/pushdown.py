"""Expressions of Ray Data, as what a table's read leaves out."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from ray.data.expressions import BinaryExpr, ColumnExpr, Expr, LiteralExpr, Operation

from pkray.scan.predicate import Predicate
from pkray.scan.pushed import pushed
from pkray.schema.table_schema import TableSchema

_OPERATORS = {
    Operation.EQ: "=",
    Operation.LT: "<",
    Operation.LE: "<=",
    Operation.GT: ">",
    Operation.GE: ">=",
    Operation.IN: "in",
}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def predicates_of(expression: Expr, schema: TableSchema) -> Iterator[Predicate]:
    """Yield what of an expression can prune: its ANDed comparisons of a column with a literal."""
    if not isinstance(expression, BinaryExpr):
        return
    if expression.op == Operation.AND:
        yield from predicates_of(expression.left, schema)
        yield from predicates_of(expression.right, schema)
        return
    left, operator, right = expression.left, _OPERATORS.get(expression.op), expression.right
    if isinstance(left, LiteralExpr):
        left, operator, right = right, _MIRRORED.get(operator or ""), left
    if operator is None or not isinstance(left, ColumnExpr) or not isinstance(right, LiteralExpr):
        return
    found = pushed(left.name, operator, right.value, schema)
    if found is not None:
        yield found


def columns_of(expression: object) -> set[str]:
    """Name the columns that an expression reads."""
    if isinstance(expression, ColumnExpr):
        return {expression.name}
    if isinstance(expression, list | tuple):
        return set().union(*map(columns_of, expression))
    if isinstance(expression, Expr) and is_dataclass(expression):
        parts = [getattr(expression, each.name) for each in fields(expression)]
        return set().union(*map(columns_of, parts))
    return set()
