"""Calls of table functions, as they are written."""

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from pkray.relational.plan.expressions import Expression
from pkray.schema.types import DataType

Bind: TypeAlias = Callable[[exp.Expr], Expression]
INT = DataType("INT", nullable=False)
BIGINT = DataType("BIGINT", nullable=False)


def unwrapped(call: exp.Anonymous) -> exp.Anonymous:
    """Take the function out of ``TABLE(f(x))``."""
    if call.name.upper() == "TABLE" and len(call.expressions) == 1:
        inner = call.expressions[0]
        if isinstance(inner, exp.Anonymous):
            return inner
    return call
