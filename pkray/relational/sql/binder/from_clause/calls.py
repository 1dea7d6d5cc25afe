"""Calls of table functions, as they are written."""

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Values
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.binder.scope import Rows, Scope
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.schema.types import DataType

SINGLE_ROW = Values(Fields(()), ((),))
Bind: TypeAlias = Callable[[exp.Expr], Expression]
INT = DataType("INT", nullable=False)
BIGINT = DataType("BIGINT", nullable=False)


def constants(queries: Queries) -> ExpressionBinder:
    """Make what binds expressions that read no columns."""
    scope = Scope(Rows(SINGLE_ROW, queries.numbers), (), queries.dialect)
    return ExpressionBinder(queries.names, scope)


def unwrapped(call: exp.Anonymous) -> exp.Anonymous:
    """Take the function out of ``TABLE(f(x))``."""
    if call.name.upper() == "TABLE" and len(call.expressions) == 1:
        inner = call.expressions[0]
        if isinstance(inner, exp.Anonymous):
            return inner
    return call
