"""Calls of aggregates and window functions, taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from pkray.relational.functions.aggregates.catalogue import is_aggregate
from pkray.relational.sql.binder.context import Queries

WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
IGNORING = ("first", "first_value", "last", "last_value", "any_value")
"""Functions that take whether NULLs are ignored as an argument."""


@dataclass(frozen=True)
class Written:
    """A call of an aggregate or a window function, taken apart.

    Attributes:
        node: the function itself.
        whole: with FILTER and the like around it.
    """

    node: exp.Anonymous
    whole: exp.Expr
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    within: tuple[exp.Ordered, ...] = ()
    ignore_nulls: bool = False

    @property
    def name(self) -> str:
        """Give the function's name."""
        return self.node.name


def take_apart(whole: exp.Expr) -> Written | None:
    """Find the function below FILTER, WITHIN GROUP and IGNORE NULLS; None if there is none."""
    node, condition, ignore = whole, None, False
    within: tuple[exp.Ordered, ...] = ()
    while isinstance(node, WRAPPERS):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            within = tuple(node.expression.expressions)
        else:
            ignore = isinstance(node, exp.IgnoreNulls)
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return None
    arguments: list[exp.Expr] = list(node.expressions)
    distinct, order = False, ()
    if arguments:
        last = arguments[-1]
        if isinstance(last, exp.Order):
            order = tuple(last.expressions)
            arguments[-1] = last.this
        if isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            ignore = isinstance(arguments[0], exp.IgnoreNulls)
            arguments[0] = arguments[0].this
        if isinstance(arguments[0], exp.Distinct):
            distinct = True
            arguments[:1] = arguments[0].expressions
    return Written(node, whole, tuple(arguments), distinct, condition, order, within, ignore)


class AggregateNames:
    """Tells aggregates from other functions."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries

    def is_aggregate(self, name: str) -> bool:
        """Whether people can write an aggregate of this name; users' functions too."""
        if is_aggregate(name, self.queries.dialect):
            return True
        udf = self.queries.names.udf(name)
        return udf is not None and str(udf.kind) == "aggregate"

    def calls_in(self, tree: exp.Expr) -> Iterator[Written]:
        """List the aggregates in an expression: not those with OVER, nor those of subqueries."""
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query):
                continue
            children: list[exp.Expr]
            if isinstance(node, exp.Window):
                inner = take_apart(node.this)
                children = list(node.iter_expressions())
                if inner is not None:
                    children = [each for each in children if each is not node.this]
                    children += [*inner.arguments, *([inner.filter] if inner.filter else [])]
                waiting += reversed(children)
                continue
            call = take_apart(node) if isinstance(node, (*WRAPPERS, exp.Anonymous)) else None
            if call is not None and self.is_aggregate(call.name):
                yield call
                continue
            waiting += reversed(list(node.iter_expressions()))
